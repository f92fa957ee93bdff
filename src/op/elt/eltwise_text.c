/* The text of elementwise kernels, from a program and the strides of its operands. */
#include "op/elt/eltwise.h"

enum { LANES = 16, MOST_REPEATED = 64 };

static void strides_of(const clade_shape *in, const clade_shape *out, int64_t stride[CLADE_MAX_RANK]) {
  int64_t step = 1;
  for (int i = 0; i < out->rank; i++) { /* beginning with the last axis */
    int axis = in->rank - 1 - i;
    int64_t d = axis >= 0 ? in->dim[axis] : 1;
    stride[i] = d == 1 ? 0 : step;
    step *= d;
  }
}

static bool continues(const clade__walk *w, const clade__walk *raw, int axis, int n_in) {
  if (w->rank == 0) return false;
  for (int i = 0; i < n_in; i++)
    if (raw->stride[i][axis] != w->stride[i][w->rank - 1] * w->dim[w->rank - 1]) return false;
  return true;
}

void clade__walk_of(const clade_node *n, clade__walk *w) {
  const clade_shape *out = &n->out[0].shape;
  clade__walk raw = {0};
  *w = raw;
  for (int i = 0; i < n->n_in; i++) strides_of(&n->in[i].shape, out, raw.stride[i]);
  for (int axis = 0; axis < out->rank; axis++) {
    int64_t d = out->dim[out->rank - 1 - axis];
    if (d == 1) continue;
    if (continues(w, &raw, axis, n->n_in)) {
      w->dim[w->rank - 1] *= d;
      continue;
    }
    w->dim[w->rank] = d;
    for (int i = 0; i < n->n_in; i++) w->stride[i][w->rank] = raw.stride[i][axis];
    w->rank++;
  }
}

bool clade__walk_flat(const clade_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    int64_t in, out;
    if (clade_shape_elements(&n->in[i].shape, &in) != CLADE_OK ||
        clade_shape_elements(&n->out[0].shape, &out) != CLADE_OK || in != out)
      return false;
  }
  return true;
}

/* Parts of the kernel's text that depend on the program: parameters, loads and computation. */
typedef struct parts {
  clade__text args, use, load, strides, body, row, lanes, pass, pass_strides;
} parts;

/* True if an operand is contiguous in the result's order. */
static bool alike(const clade__walk *w, int i) {
  int64_t step = 1;
  for (int axis = 0; axis < w->rank; step *= w->dim[axis++])
    if (w->stride[i][axis] != step) return false;
  return true;
}

int64_t clade__walk_period(const clade__walk *w, int n_in) {
  int64_t period = 1, size = 1;
  for (int axis = 0; axis < w->rank; axis++) {
    size *= w->dim[axis];
    for (int i = 0; i < n_in; i++)
      if (w->stride[i][axis] && !alike(w, i)) period = size;
  }
  return period;
}

clade__way clade__walk_way(const clade__walk *w, int n_in, bool flat) {
  if (flat) return CLADE__RUNS;
  if (clade__walk_period(w, n_in) <= MOST_REPEATED) return CLADE__REPEATED;
  return w->dim[0] < LANES ? CLADE__APART : CLADE__RUNS;
}

static void describe_four(parts *t, const char *type, const char *name, int i, bool flat, bool moves) {
  if (!moves) {
    clade__text_add(&t->row, "const %s i%d = LOAD(%s, x%d, AT(s%d)); ", type, i, name, i, i);
    return;
  }
  clade__text_add(&t->row, "%s four%d[4]; FOUR_READ(%s, four%d, x%d, ", type, i, name, i, i);
  clade__text_add(&t->row, flat ? "at, left) " : "AT(s%d), left) ", i);
  clade__text_add(&t->load, "const %s i%d = four%d[l]; ", type, i, i);
}

static void describe_operand(parts *t, const clade__elt *p, const clade__walk *w, int i, bool flat, clade__form as) {
  const char *name = clade_dtype_name((clade_dtype)p->in_dtype[i]);
  clade__text_add(&t->args, "ARG(STORAGE(%s), x%d), ", name, i);
  clade__text_add(&t->use, "USE(STORAGE(%s), x%d); ", name, i);
  clade__text_add(&t->strides, "const index8_t s%d, ", i);
  clade__text_add(&t->pass, "PASS(x%d), ", i);
  clade__text_add(&t->pass_strides, "s%d, ", i);
  if (as == CLADE__FOUR) {
    describe_four(t, clade__compute_type((clade_dtype)p->in_dtype[i]), name, i, flat, flat || w->stride[i][0]);
    return;
  }
  if (as == CLADE__ONE) {
    clade__text_add(&t->load, "const %s i%d = LOAD(%s, x%d, ", clade__compute_type((clade_dtype)p->in_dtype[i]), i,
                    name, i);
    clade__text_add(&t->load, flat ? "at); " : "AT(s%d)); ", i);
    return;
  }
  clade__way by = clade__walk_way(w, p->n_in, flat);
  const char *one = clade__compute_type((clade_dtype)p->in_dtype[i]);
  if (by != CLADE__RUNS && !alike(w, i)) {
    clade__text_add(&t->lanes, "%s lane%d[%d]; ", one, i, LANES + (by == CLADE__REPEATED ? MOST_REPEATED : 0));
    clade__text_add(&t->row, "lane%d[l] = LOAD(%s, x%d, AT(s%d)); ", i, name, i, i);
    clade__text_add(&t->load, "const %s16 i%d = vload16(0, lane%d + phase); ", one, i, i);
    return;
  }
  if (by != CLADE__RUNS)
    clade__text_add(&t->load, "const size_t o%d = at; ", i);
  else
    clade__text_add(&t->row, flat ? "const size_t o%d = at; " : "const size_t o%d = AT(s%d); ", i, i);
  if (flat || w->stride[i][0])
    clade__text_add(&t->load, "const %s16 i%d = n < 16 ? SOME16(%s, x%d, o%d + i, n) : LOAD16(%s, x%d, o%d + i); ", one,
                    i, name, i, i, name, i, i);
  else
    clade__text_add(&t->row, "const %s16 i%d = LOAD(%s, x%d, o%d); ", one, i, name, i, i);
  /* prefetch for a single operand only: with several, hardware prefetching does better */
  if (p->n_in == 1 && (flat || w->stride[i][0])) clade__text_add(&t->load, "ELT_SOON(x%d + o%d + i); ", i, i);
}

clade_status clade__eltwise_describe(clade_kernel_step *s, const clade__elt *p, const clade__walk *w, bool flat,
                                     clade__form as) {
  const bool wide = as == CLADE__WIDE;
  parts t;
  memset(&t, 0, sizeof t);
  clade__text *const all[] = {&t.args,
                              &t.use,
                              &t.load,
                              flat ? NULL : &t.strides,
                              &t.body,
                              as != CLADE__ONE ? &t.row : NULL,
                              wide && clade__walk_way(w, p->n_in, flat) != CLADE__RUNS ? &t.lanes : NULL,
                              as != CLADE__ONE ? &t.pass : NULL,
                              as != CLADE__ONE && !flat ? &t.pass_strides : NULL};
  static const char *const names[] = {"ELT_ARGS", "ELT_USE",   "ELT_LOAD", "ELT_STRIDES",     "ELT_BODY",
                                      "ELT_ROW",  "ELT_LANES", "ELT_PASS", "ELT_PASS_STRIDES"};
  clade_status status = CLADE_OK;
  for (int i = 0; i < p->n_in; i++) describe_operand(&t, p, w, i, flat, as);
  CLADE_GOTO(wide ? clade__elt_source16(p, &t.body) : clade__elt_source(p, &t.body));
  for (const clade__text *x = &t.args; x <= &t.pass_strides; x++)
    if (x->failed) CLADE_GOTO(CLADE_FAIL(NO_MEMORY, "eltwise: no memory"));
  for (size_t i = 0; i < CLADE_COUNT(all); i++)
    if (all[i]) clade_emit_define_text(s, names[i], all[i]->data ? all[i]->data : "");
  clade_emit_define_text(s, "ELT_OUT", clade_dtype_name(clade__elt_dtype(p)));
fail:
  for (clade__text *x = &t.args; x <= &t.pass_strides; x++) clade__text_free(x);
  return status;
}

int clade__walk_rank(int rank) { return rank <= 2 ? 2 : rank <= 4 ? 4 : 8; }

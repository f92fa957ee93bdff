/* Elementwise computation with broadcasting: one function of the table below, or several fused into one program. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"
#include "op/systolic.h"

#include <inttypes.h>
#include <stdio.h>

static const clade__elt *program_of(const clade_node *n) { return &((const clade__eltwise_attrs *)n->attrs)->program; }

/* Name in error messages: the function's, if the program is a single one. */
static const char *label(const clade__elt *p) {
  const clade__elt_row *row = p->n_insn == 1 ? clade__elt_by_number(p->insn[0].fn) : NULL;
  return row ? row->name : "eltwise";
}

static clade_status infer(clade_node *n) {
  const clade__elt *p = program_of(n);
  CLADE_TRY(clade__elt_check(p));
  if (n->n_in != p->n_in) return CLADE_FAIL(INVALID, "%s: %d operands; its program has %d", label(p), n->n_in, p->n_in);
  clade_shape shape = CLADE_SCALAR;
  for (int i = 0; i < n->n_in; i++) {
    if (n->in[i].dtype != (clade_dtype)p->in_dtype[i])
      return CLADE_FAIL(DTYPE, "%s: operand %d is %s; its program expects %s", label(p), i,
                        clade_dtype_name(n->in[i].dtype), clade_dtype_name((clade_dtype)p->in_dtype[i]));
    if (n->in[i].layout.block)
      return CLADE_FAIL(UNSUPPORTED, "%s: operand %d has a blocked layout; expected dense: unpack it", label(p), i);
    CLADE_TRY(clade__broadcast_shape(label(p), &shape, &n->in[i].shape, &shape));
  }
  n->out[0] = (clade_type){.dtype = clade__elt_dtype(p), .shape = shape};
  return CLADE_OK;
}

/* ---- gradients ---- */
/* True if an expression uses an operand, a single letter that is not part of a longer name. */
static bool mentions(const char *expression, char operand) {
  bool before = false;
  for (const char *at = expression; *at; at++) {
    bool word = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '_';
    bool next = (at[1] >= 'a' && at[1] <= 'z') || (at[1] >= '0' && at[1] <= '9') || at[1] == '_' || at[1] == '.';
    if (*at == operand && !before && !next) return true;
    before = word;
  }
  return false;
}

/* dy times the derivative by operand `by`, as one program that reads only what the derivative depends on. The gradient
 * of relu reads its result instead of its operand, which then need not be kept in memory and can be fused with relu. */
static clade_val derive(clade_grad *g, const clade__elt_row *row, const clade__elt *p, int by) {
  const char *text = row->derivative[by];
  const clade__elt_row *mul = clade__elt_by_name("mul"), *relu = clade__elt_by_name("relu");
  uint8_t result = p->insn[0].dtype;
  clade__elt d = {.n_in = 1, .n_insn = 2, .in_dtype = {result}};
  clade_val in[CLADE__ELT_INPUTS] = {g->dout[0]};
  uint8_t at[3] = {0};
  if (strcmp(text, "1.0f") == 0) return g->dout[0];
  if (strcmp(text, "-1.0f") == 0) return clade_neg(g->graph, g->dout[0]);
  for (int i = 0; i < row->arity; i++)
    if (mentions(text, (char)('a' + i))) {
      at[i] = d.n_in;
      d.in_dtype[d.n_in] = p->in_dtype[p->insn[0].arg[i]];
      in[d.n_in++] = row == relu ? g->out[0] : g->in[p->insn[0].arg[i]];
    }
  if (text[1] == '\0') return clade_mul(g->graph, g->dout[0], in[1]); /* the derivative is one of the operands */
  d.insn[0] = p->insn[0];
  d.insn[0].wrt = (uint8_t)(by + 1);
  memcpy(d.insn[0].arg, at, sizeof at);
  d.insn[1] = (clade__elt_insn){.fn = mul->number, .dtype = result, .arg = {0, d.n_in}};
  return clade__eltwise_program(g->graph, NULL, &d, in);
}

static clade_status grad(clade_grad *g) {
  const clade__elt *p = program_of(g->node);
  const clade__elt_row *row = clade__elt_by_number(p->insn[0].fn);
  if (!clade_val_ok(g->dout[0])) return CLADE_OK;
  if (p->n_insn != 1 || p->insn[0].wrt || !row)
    return CLADE_FAIL(UNSUPPORTED, "%s: only single functions are differentiated", label(p));
  for (int i = 0; i < row->arity; i++) {
    int operand = p->insn[0].arg[i];
    const clade_type *type = &g->node->in[operand];
    if (!g->wanted[operand] || !clade__is_float(type->dtype) || !clade__is_float(g->node->out[0].dtype)) continue;
    clade_val d = {0};
    if (row->kind == CLADE__ELT_CAST)
      d = clade_cast(g->graph, g->dout[0], type->dtype);
    else if (row->derivative[i])
      d = derive(g, row, p, i);
    else
      continue;
    g->din[operand] = clade__sum_to(g->graph, d, &type->shape);
    CLADE_TRY(clade_graph_status(g->graph));
  }
  return CLADE_OK;
}

static uint64_t in_place(const clade_node *n, int out) { return clade__elementwise(n, out, 0); }

/* ---- ref: one element per work-item ---- */
/* Axes for the loops over all operands, innermost first; adjacent axes are merged if all strides allow it. */
typedef struct walk {
  int rank;
  int64_t dim[CLADE_MAX_RANK], stride[CLADE__ELT_INPUTS][CLADE_MAX_RANK];
} walk;

static void strides_of(const clade_shape *in, const clade_shape *out, int64_t stride[CLADE_MAX_RANK]) {
  int64_t step = 1;
  for (int i = 0; i < out->rank; i++) { /* beginning with the last axis */
    int axis = in->rank - 1 - i;
    int64_t d = axis >= 0 ? in->dim[axis] : 1;
    stride[i] = d == 1 ? 0 : step;
    step *= d;
  }
}

static bool continues(const walk *w, const walk *raw, int axis, int n_in) {
  if (w->rank == 0) return false;
  for (int i = 0; i < n_in; i++)
    if (raw->stride[i][axis] != w->stride[i][w->rank - 1] * w->dim[w->rank - 1]) return false;
  return true;
}

static void plan_walk(const clade_node *n, walk *w) {
  const clade_shape *out = &n->out[0].shape;
  walk raw = {0};
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

/* True if all operands have the result's shape, so that one index serves all of them. */
static bool is_flat(const clade_node *n) {
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
static bool alike(const walk *w, int i) {
  int64_t step = 1;
  for (int axis = 0; axis < w->rank; step *= w->dim[axis++])
    if (w->stride[i][axis] != step) return false;
  return true;
}

/* Number of elements after which the broadcast operands repeat. */
static int64_t period_of(const walk *w, int n_in) {
  int64_t period = 1, size = 1;
  for (int axis = 0; axis < w->rank; axis++) {
    size *= w->dim[axis];
    for (int i = 0; i < n_in; i++)
      if (w->stride[i][axis] && !alike(w, i)) period = size;
  }
  return period;
}

/* How sixteen consecutive results are vectorized:
 *
 *   RUNS      along the last axis
 *   APART     across axes; broadcast operands are gathered for each vector
 *   REPEATED  across axes; broadcast operands have a short period and are gathered once */
enum { LANES = 16, MOST_REPEATED = 64 };
typedef enum way { RUNS, APART, REPEATED } way;
static way way_of(const walk *w, int n_in, bool flat) {
  if (flat) return RUNS;
  if (period_of(w, n_in) <= MOST_REPEATED) return REPEATED;
  return w->dim[0] < LANES ? APART : RUNS;
}

/* What the text computes at once: one element, a vector of sixteen, or four that are loaded together and computed one
 * by one. */
typedef enum form { ONE, WIDE, FOUR } form;

static void describe_four(parts *t, const char *type, const char *name, int i, bool flat, bool moves) {
  if (!moves) {
    clade__text_add(&t->row, "const %s i%d = LOAD(%s, x%d, AT(s%d)); ", type, i, name, i, i);
    return;
  }
  clade__text_add(&t->row, "%s four%d[4]; FOUR_READ(%s, four%d, x%d, ", type, i, name, i, i);
  clade__text_add(&t->row, flat ? "at, left) " : "AT(s%d), left) ", i);
  clade__text_add(&t->load, "const %s i%d = four%d[l]; ", type, i, i);
}

static void describe_operand(parts *t, const clade__elt *p, const walk *w, int i, bool flat, form as) {
  const char *name = clade_dtype_name((clade_dtype)p->in_dtype[i]);
  clade__text_add(&t->args, "ARG(STORAGE(%s), x%d), ", name, i);
  clade__text_add(&t->use, "USE(STORAGE(%s), x%d); ", name, i);
  clade__text_add(&t->strides, "const index8_t s%d, ", i);
  clade__text_add(&t->pass, "PASS(x%d), ", i);
  clade__text_add(&t->pass_strides, "s%d, ", i);
  if (as == FOUR) {
    describe_four(t, clade__compute_type((clade_dtype)p->in_dtype[i]), name, i, flat, flat || w->stride[i][0]);
    return;
  }
  if (as == ONE) {
    clade__text_add(&t->load, "const %s i%d = LOAD(%s, x%d, ", clade__compute_type((clade_dtype)p->in_dtype[i]), i,
                    name, i);
    clade__text_add(&t->load, flat ? "at); " : "AT(s%d)); ", i);
    return;
  }
  way by = way_of(w, p->n_in, flat);
  const char *one = clade__compute_type((clade_dtype)p->in_dtype[i]);
  if (by != RUNS && !alike(w, i)) {
    clade__text_add(&t->lanes, "%s lane%d[%d]; ", one, i, LANES + (by == REPEATED ? MOST_REPEATED : 0));
    clade__text_add(&t->row, "lane%d[l] = LOAD(%s, x%d, AT(s%d)); ", i, name, i, i);
    clade__text_add(&t->load, "const %s16 i%d = vload16(0, lane%d + phase); ", one, i, i);
    return;
  }
  if (by != RUNS)
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

static clade_status describe(clade_kernel_step *s, const clade__elt *p, const walk *w, bool flat, form as) {
  const bool wide = as == WIDE;
  parts t;
  memset(&t, 0, sizeof t);
  clade__text *const all[] = {&t.args,
                              &t.use,
                              &t.load,
                              flat ? NULL : &t.strides,
                              &t.body,
                              as != ONE ? &t.row : NULL,
                              wide && way_of(w, p->n_in, flat) != RUNS ? &t.lanes : NULL,
                              wide ? &t.pass : NULL,
                              wide && !flat ? &t.pass_strides : NULL};
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

/* The rank is rounded up to one of three classes, which keeps the number of compiled variants small. */
static int rank_class(int rank) { return rank <= 2 ? 2 : rank <= 4 ? 4 : 8; }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  clade_type in[CLADE__ELT_INPUTS], out;
  clade_node stored;
  const clade_node *n = &stored;
  const clade__elt *p = program_of(q->node);
  clade__node_stored(q->node, in, &out, &stored);
  bool flat = is_flat(n);
  int64_t elements;
  walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  plan_walk(n, &w);
  clade_kernel_step *s = clade_emit_kernel(e, flat ? "eltwise_flat_ref" : "eltwise_strided_ref");
  clade_emit_define(s, "RANK", flat ? 0 : rank_class(w.rank));
  CLADE_TRY(describe(s, p, &w, flat, ONE));
  for (int i = 0; i < n->n_in; i++) clade__emit_in_blocks(s, i);
  clade_emit_out(s, 0);
  size_t group = flat ? 256 : w.dim[0] <= 4 ? 4 : w.dim[0] <= 16 ? 16 : 64;
  while (group > q->device->max_group) group /= 2;
  if (flat) {
    clade_emit_index(s, elements);
    clade_emit_range(s, 1, &(size_t){(size_t)elements}, &group);
    return CLADE_OK;
  }
  for (int i = w.rank; i < CLADE_MAX_RANK; i++) w.dim[i] = 1;
  size_t row = ((size_t)w.dim[0] + group - 1) / group, global;
  if (!clade__mul(elements ? (size_t)(elements / w.dim[0]) * row : 0, group, &global))
    return CLADE_FAIL(OVERFLOW, "%s: %" PRId64 " elements are too many work-items", label(p), elements);
  clade_emit_index8(s, CLADE_MAX_RANK, w.dim);
  for (int i = 0; i < n->n_in; i++) clade_emit_index8(s, CLADE_MAX_RANK, w.stride[i]);
  clade_emit_index(s, (int64_t)row);
  clade_emit_range(s, 1, &global, &group);
  return CLADE_OK;
}

/* ---- blocks: one block per work-item, since its scale depends on all of its elements ---- */
static const char *ref_accept(const clade_query *q) {
  return clade__has_blocks(q->node->out[0].dtype) ? "it gives elements one by one, and blocks share a scale" : NULL;
}

static const char *blocks_accept(const clade_query *q) {
  return clade__has_blocks(q->node->out[0].dtype) ? NULL : "made for elements that share blocks";
}

static clade_status blocks_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const size_t group = 64;
  int64_t elements;
  walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  plan_walk(n, &w);
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_blocks_ref");
  clade_emit_define(s, "RANK", 0);
  CLADE_TRY(describe(s, program_of(n), &w, true, ONE));
  clade__emit_in_blocks(s, 0);
  clade__emit_out_blocks(s, 0);
  clade_emit_index(s, elements);
  const size_t blocks = (size_t)clade__up(elements, 32) / 32;
  clade_emit_range(s, 1, &blocks, &(size_t){CLADE_MIN(group, q->device->max_group)});
  return CLADE_OK;
}

/* ---- vec: vectors of sixteen floats, or of bytes that are cast from or to floats ---- */
enum { PIECE = 1 << 14, LIGHT = 16 }; /* in elements, and in multiply-adds */

/* True if the computation is so cheap that memory bandwidth is the limit. */
static bool light(const clade__elt *p) {
  double work = 0;
  for (int i = 0; i < p->n_insn; i++) work += clade__elt_by_number(p->insn[i].fn)->cost;
  return work < LIGHT;
}

static const char *vec_accept(const clade_query *q) {
  const clade__elt *p = program_of(q->node);
  return clade__elt_wide(p) || clade__elt_wide_whole(p) ? NULL : "there are values that are no floats";
}

static double vec_cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  clade_type in[CLADE__ELT_INPUTS], out;
  clade_node stored;
  const clade_node *n = &stored;
  const clade__elt *p = program_of(q->node);
  clade__node_stored(q->node, in, &out, &stored);
  bool flat = is_flat(n);
  int64_t elements;
  walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  plan_walk(n, &w);
  int64_t piece = (clade__piece(q->device, elements, 16, PIECE) + 15) / 16 * 16;
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_forward_vec");
  clade_emit_define(s, "RANK", flat ? 0 : rank_class(w.rank));
  way by = way_of(&w, n->n_in, flat);
  clade_emit_define(s, "SHORT", by == APART);
  clade_emit_define(s, "REPEATED", by == REPEATED);
  clade_emit_define(s, "STREAM", n->out[0].dtype == CLADE_F32 && clade__streams(q->device, &n->out[0]));
  clade_emit_define(s, "LIGHT", light(p));
  CLADE_TRY(describe(s, p, &w, flat, WIDE));
  for (int i = 0; i < n->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  for (int i = w.rank; i < CLADE_MAX_RANK; i++) w.dim[i] = 1;
  if (!flat) clade_emit_index8(s, CLADE_MAX_RANK, w.dim);
  for (int i = 0; !flat && i < n->n_in; i++) clade_emit_index8(s, CLADE_MAX_RANK, w.stride[i]);
  if (!flat) clade_emit_index(s, period_of(&w, n->n_in));
  clade_emit_index(s, elements);
  clade_emit_index(s, piece);
  clade__emit_flat(s, q->device, (elements + piece - 1) / piece);
  return CLADE_OK;
}

/* ---- group: four consecutive elements of a row per work-item ---- */
static const char *group_accept(const clade_query *q) {
  enum { FOURS = 4 };
  walk w;
  if (clade__elt_has_blocks(program_of(q->node))) return "made for elements that share no block";
  plan_walk(q->node, &w);
  if (!is_flat(q->node) && w.dim[0] < FOURS) return "rows are shorter than four elements";
  return clade__group_refuses(q, 2 * FOURS);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade__elt *p = program_of(n);
  const bool flat = is_flat(n);
  int64_t elements;
  walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  plan_walk(n, &w);
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_forward_group");
  clade_emit_define(s, "RANK", flat ? 0 : rank_class(w.rank));
  CLADE_TRY(describe(s, p, &w, flat, FOUR));
  for (int i = 0; i < n->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  if (flat) {
    clade_emit_index(s, elements);
    clade__emit_fours(s, elements);
    return CLADE_OK;
  }
  for (int i = w.rank; i < CLADE_MAX_RANK; i++) w.dim[i] = 1;
  const int64_t fours = (w.dim[0] + 3) / 4, pieces = elements ? elements / w.dim[0] * fours : 0;
  clade_emit_index8(s, CLADE_MAX_RANK, w.dim);
  for (int i = 0; i < n->n_in; i++) clade_emit_index8(s, CLADE_MAX_RANK, w.stride[i]);
  clade_emit_index(s, fours);
  clade_emit_index(s, pieces);
  clade__emit_fours(s, 4 * pieces);
  return CLADE_OK;
}

static double ref_cost(const clade_query *q) { return 4 * vec_cost(q); }

static const clade_attr attrs[] = {
    {"program", CLADE_ATTR_BYTES, offsetof(clade__eltwise_attrs, program), sizeof(clade__elt)}, {.name = NULL}};
static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", CLADE__LONG_VEC, .accept = vec_accept, .cost = vec_cost, .emit = vec_emit,
               .any_layout = true),
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = vec_cost, .emit = group_emit),
    CLADE__SYSTOLIC(eltwise)     /* with its comma */
    CLADE__SYSTOLIC(eltwise_i64) /* with its comma */
    CLADE_IMPL(.name = "blocks", .family = CLADE_FAMILY_REF, .accept = blocks_accept, .cost = ref_cost,
               .emit = blocks_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit,
               .any_layout = true),
    NULL,
};
const clade_op clade__op_eltwise = {
    .size = sizeof(clade_op),
    .name = "eltwise",
    .min_in = 1,
    .max_in = CLADE__ELT_INPUTS,
    .n_out = 1,
    .attr_bytes = sizeof(clade__eltwise_attrs),
    .attrs = attrs,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .ties = clade__tie_same,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = clade__dims_same,
};

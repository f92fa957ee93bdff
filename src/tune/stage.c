/* A problem with given sizes as a graph of one node whose operands are variables, so that executions upload nothing. */
#include <stdio.h>

#include "tune/internal.h"

/* ---- sizes with tails ---- */
static clade_status infer(const clade__problem *p, const clade_type *in, clade_type *out) {
  clade_node n = {sizeof n, p->op, "", p->attrs, p->n_in, p->n_out, in, out};
  memset(out, 0, (size_t)p->n_out * sizeof *out);
  return p->op->infer ? p->op->infer(&n) : CLADE_UNSUPPORTED;
}

static int replace(const clade__problem *p, clade_type *in, int64_t from, int64_t to) {
  int n = 0;
  for (int i = 0; i < p->n_in; i++)
    for (int k = 0; k < in[i].shape.rank; k++)
      if (in[i].shape.dim[k] == from) in[i].shape.dim[k] = to, n++;
  return n;
}

void clade__tails(const clade__problem *p, clade_type in[CLADE_MAX_OPERANDS]) {
  static const int64_t primes[] = {61, 37, 53, 29, 41, 47, 31, 43};
  clade_type trial[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  size_t used = 0;
  memcpy(in, p->in, (size_t)p->n_in * sizeof *in);
  for (int i = 0; i < p->n_in; i++)
    for (int k = 0; k < p->in[i].shape.rank && used < CLADE_COUNT(primes); k++) {
      int64_t size = p->in[i].shape.dim[k];
      memcpy(trial, in, (size_t)p->n_in * sizeof *in);
      /* equal sizes change together, and only if the op accepts the change: groups must divide channels, … */
      if (size <= 16 || !replace(p, trial, size, primes[used]) || infer(p, trial, out) != CLADE_OK) continue;
      memcpy(in, trial, (size_t)p->n_in * sizeof *in);
      used++;
    }
}

/* ---- the graph ---- */
clade__id clade__stage_node(const clade__problem *p) { return (clade__id)p->n_in + 1; }

clade_status clade__stage_open(const clade__problem *p, const clade_type *in, const clade_type *out, clade__stage *s) {
  clade_val x[CLADE_MAX_OPERANDS], y[CLADE_MAX_OPERANDS] = {{0}};
  char name[16];
  CLADE_TRY(clade_graph_new(&s->graph));
  for (int i = 0; i < p->n_in; i++) {
    snprintf(name, sizeof name, "x%d", i);
    x[i] = clade_variable(s->graph, name, in[i].dtype, in[i].shape, (clade_initial){CLADE_INIT_ZERO, 0, 0});
  }
  clade_node_add(s->graph, p->op, "tuned", p->attrs, p->n_in, x, y);
  CLADE_TRY(clade_graph_status(s->graph));
  for (int i = 0; i < p->n_out; i++) {
    snprintf(name, sizeof name, "y%d", i);
    if (out && out[i].layout.block) y[i] = clade_pack(s->graph, y[i], out[i].layout);
    clade_output(s->graph, name, y[i]);
    CLADE_TRY(clade_val_type(s->graph, y[i], &s->out[i]));
    CLADE_TRY(clade_type_bytes(&s->out[i], &s->out_bytes[i]));
  }
  return clade_graph_status(s->graph);
}

void clade__stage_close(const clade__problem *p, clade__stage *s) {
  clade__answer_free(p, s->right);
  clade_vars_release(s->vars);
  clade_graph_release(s->graph);
  *s = (clade__stage){0};
}

/* ---- funcs of trials ---- */
static clade_status pin(const clade__problem *p, const clade_graph *g, const clade__trial *c, clade__records *set) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__text problem = {0};
  const clade_impl *impl = clade__impls(p->op)[c->impl];
  clade__node_view(g, clade__stage_node(p), in, out, &view);
  clade__problem_text(&view, true, &problem);
  clade__record r = {.op = p->op->name, .problem = problem.data, .impl = impl->name};
  clade__record_config(&r, impl, c->has_config ? c->config : NULL);
  clade_status status = problem.failed ? CLADE_NO_MEMORY : clade__records_put(set, &r);
  clade__text_free(&problem);
  return status;
}

/* Finds the problem's node; conversions may precede it. */
static const clade__node *node_of(const clade_func *func, const clade__problem *p) {
  clade__id id = 1;
  while (func->graph->nodes[id].op != p->op) id++;
  return &func->graph->nodes[id];
}

/* Whether the func was compiled as the trial demands, not with another implementation. */
static bool is_candidate(const clade_func *func, const clade__problem *p, const clade__trial *c) {
  const clade__node *n = node_of(func, p);
  return n->impl == c->impl && n->why && strcmp(n->why, "pinned") == 0;
}

clade_status clade__stage_func(const clade__problem *p, const clade__stage *s, const clade__trial *c,
                               clade_func **out) {
  clade__tuned_device any = {0};
  clade__how how = {.untuned = true, .trusted = true, .fallback = -1};
  CLADE_TRY(clade__records_new(&any, &how.pins));
  clade_status status = pin(p, s->graph, c, how.pins);
  if (status == CLADE_OK) status = clade__compile(s->graph, 1, &p->device, &how, out);
  clade__records_release(how.pins);
  CLADE_TRY(status);
  if (is_candidate(*out, p, c)) return CLADE_OK;
  clade_func_release(*out);
  *out = NULL;
  return CLADE_FAIL(UNSUPPORTED, "%s: %s does not take it", p->op->name, clade__impls(p->op)[c->impl]->name);
}

clade_status clade__stage_bare(const clade__problem *p, const clade__trial *c, clade_func **out) {
  const clade_func *func = c->func[CLADE__WHOLE];
  const clade_type *results = clade__type(func->graph, node_of(func, p)->first_out);
  clade__stage s = {0};
  bool blocked = false;
  *out = NULL;
  for (int i = 0; i < p->n_out; i++) blocked |= results[i].layout.block != 0;
  if (!blocked) return CLADE_OK;
  clade_status status = clade__stage_open(p, p->in, results, &s);
  if (status == CLADE_OK) status = clade__stage_func(p, &s, c, out);
  clade__stage_close(p, &s);
  return status;
}

/* ---- operands ---- */
enum { PERIOD = 4093 }; /* a prime, so that rows of a matrix differ */

static void draw(clade_dtype dtype, bool positive, unsigned char *to, size_t size) {
  float f;
  uint32_t bits = 0x9e3779b9u;
  for (size_t i = 0; i < PERIOD; i++, to += size) {
    bits ^= bits << 13, bits ^= bits >> 17, bits ^= bits << 5;
    memset(to, 0, size);
    f = (float)(bits >> 8) / (float)(1 << 23) - 1;
    if (positive) f = f / 2 + 0.75f;
    if (clade__is_float(dtype))
      (void)clade_convert(dtype, to, CLADE_F32, &f, 1);
    else if (clade__dtype_row(dtype)->bits == 8 && clade__is_integer(dtype)) /* operands of products */
      *to = (unsigned char)((int)(bits >> 8) % 7 - (clade__dtype_low(dtype) < 0 ? 3 : 0));
    else
      *to = bits >> 8 & 1; /* 0 or 1, valid as count, label or index; little-endian */
  }
}

/* Random values of a type whose elements share blocks. */
static clade_status draw_blocks(const clade_type *type, bool positive, void **data, size_t *bytes) {
  enum { SOME = PERIOD / 32 * 32 };
  float x[PERIOD];
  int64_t n;
  draw(CLADE_F32, positive, (unsigned char *)x, sizeof *x);
  CLADE_TRY(clade_shape_elements(&type->shape, &n));
  CLADE_TRY(clade_type_bytes(type, bytes));
  if (!(*data = clade__new(*bytes, 1))) return CLADE_NO_MEMORY;
  for (int64_t at = 0; at < n; at += SOME) {
    size_t skipped;
    CLADE_TRY(clade_dtype_bytes(type->dtype, at, &skipped));
    CLADE_TRY(clade_convert(type->dtype, (char *)*data + skipped, CLADE_F32, x, (size_t)CLADE_MIN(n - at, SOME)));
  }
  return CLADE_OK;
}

clade_status clade__draw(const clade_type *type, bool positive, void **data, size_t *bytes) {
  unsigned char table[PERIOD * 8], *to;
  size_t element;
  if (clade__has_blocks(type->dtype)) return draw_blocks(type, positive, data, bytes);
  CLADE_TRY(clade__dtype_element(type->dtype, &element));
  CLADE_TRY(clade_type_bytes(type, bytes));
  draw(type->dtype, positive, table, element);
  if (!(*data = to = clade__new(*bytes, 1))) return CLADE_NO_MEMORY;
  for (size_t at = 0, piece = PERIOD * element; at < *bytes; at += piece)
    memcpy(to + at, table, CLADE_MIN(piece, *bytes - at));
  return CLADE_OK;
}

static clade_status fill(clade_vars *vars, int i, const clade_type *type, bool positive) {
  void *data;
  size_t bytes;
  char name[16];
  snprintf(name, sizeof name, "x%d", i);
  CLADE_TRY(clade__draw(type, positive, &data, &bytes));
  clade_status status = clade_vars_set(vars, name, data, bytes);
  clade__free(data);
  return status;
}

clade_status clade__stage_fill(const clade__problem *p, clade__stage *s, clade_func *func, bool positive) {
  const clade__ports *variables = &func->graph->variables;
  if (!s->vars && p->n_in) CLADE_TRY(clade_vars_new(func, 1, &s->vars));
  for (size_t i = 0; i < variables->count; i++)
    CLADE_TRY(fill(s->vars, (int)i, clade__type(func->graph, variables->at[i].value), positive));
  return CLADE_OK;
}

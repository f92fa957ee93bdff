/* Integer arithmetic: convolutions and products whose operands are dequantized bytes are computed on the bytes with
 * i32 accumulation, and scaled afterwards:
 *
 *     op(float(x) a, float(w) b)      becomes      float(op(x, w)) b a
 *
 * where a is a scalar and b is a scalar or a vector over the outputs. Fusion makes the scaling and the next
 * quantization the epilogue, so that chains of layers stay in 8 bits. Nodes for which this is estimated to be slower
 * stay unchanged. */
#include "op/conv/conv.h"
#include "pass/pass.h"

static const clade__node *maker(const clade_graph *g, clade__id value) { return &g->nodes[g->values[value].node]; }

/* The node's instruction if it has only this one, else NULL. */
static const clade__elt_insn *single(const clade__node *n, const char *name) {
  if (n->op != &clade__op_eltwise) return NULL;
  const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
  return p->n_insn == 1 && !p->insn[0].wrt && p->insn[0].fn == clade__elt_by_name(name)->number ? &p->insn[0] : NULL;
}

static bool is_bytes(clade_dtype t) { return t == CLADE_I8 || t == CLADE_U8; }

/* The integer value that was cast to f32; 0: the value is no such cast. */
static clade__id cast_from(const clade_graph *g, clade__id value) {
  const clade__node *n = maker(g, value);
  const bool casts = clade__type(g, value)->dtype == CLADE_F32 && single(n, "cast");
  return casts && is_bytes(clade__type(g, n->in[0])->dtype) ? n->in[0] : 0;
}

typedef struct operand {
  clade__id bytes, scale; /* scale 0: none */
} operand;

static bool find_operand(const clade_graph *g, clade__id value, operand *out) {
  const clade__node *n = maker(g, value);
  const clade__elt_insn *mul = single(n, "mul");
  *out = (operand){.bytes = cast_from(g, value)};
  for (int i = 0; mul && !out->bytes && i < 2; i++) {
    out->bytes = cast_from(g, n->in[mul->arg[i]]);
    out->scale = n->in[mul->arg[1 - i]];
  }
  return out->bytes && clade_shape_equal(&clade__type(g, out->bytes)->shape, &clade__type(g, value)->shape);
}

static int64_t elements(const clade_graph *g, clade__id value) {
  const clade_shape *s = &clade__type(g, value)->shape;
  return clade__product(s, 0, s->rank);
}

/* A scalar, or one number per index of the weights' first axis. */
static bool is_by_output(const clade_graph *g, const operand *w) {
  const clade_shape *s = &clade__type(g, w->scale)->shape, *all = &clade__type(g, w->bytes)->shape;
  return s->rank == all->rank && s->dim[0] == all->dim[0] && elements(g, w->scale) == s->dim[0];
}

static bool find_operands(const clade_graph *g, const clade__node *n, operand *x, operand *w) {
  const bool conv = n->op == &clade__op_conv2d;
  if ((!conv && n->op != &clade__op_gemm) || n->n_in != 2) return false;
  if (!find_operand(g, n->in[0], x) || !find_operand(g, n->in[1], w)) return false;
  if (clade__type(g, w->bytes)->dtype != CLADE_I8) return false;
  if (x->scale && elements(g, x->scale) != 1) return false;
  const bool one = !w->scale || elements(g, w->scale) == 1;
  if (conv) return !((const clade__conv_attrs *)n->attrs)->epilogue.n_insn && (one || is_by_output(g, w));
  const clade__gemm_attrs *a = n->attrs;
  return !a->epilogue.n_insn && !a->shape[0].rank && !a->shape[1].rank && a->alpha >= 1 && a->alpha <= 1 &&
         (one || (a->trans_b && clade__type(g, w->bytes)->shape.rank == 2 && is_by_output(g, w)));
}

/* ---- cost comparison ---- */
static bool estimate(const clade__pass_ctx *ctx, const clade__node *n, clade_type *in, clade_type *out,
                     double *seconds) {
  const clade_node view = {sizeof view, n->op, n->name, n->attrs, n->n_in, 1, in, out};
  return clade__least_impl(ctx, &view, n->device, seconds) >= 0;
}

/* Cost of the nodes that dequantize an operand. */
static double seconds_to_dequantize(const clade__pass_ctx *ctx, clade__id value, clade__id bytes) {
  const clade_graph *g = ctx->graph;
  clade_type in[CLADE_MAX_OPERANDS];
  double all = 0;
  for (clade__id at = value; at != bytes;) {
    const clade__node *n = maker(g, at);
    double seconds = 0;
    for (int i = 0; i < n->n_in; i++) in[i] = *clade__type(g, n->in[i]);
    if (estimate(ctx, n, in, clade__type(g, at), &seconds)) all += seconds;
    at = cast_from(g, at) ? bytes : n->in[cast_from(g, n->in[0]) ? 0 : 1];
  }
  return all;
}

static bool pays(const clade__pass_ctx *ctx, const clade__node *n, const operand *x, const operand *w) {
  const clade_graph *g = ctx->graph;
  clade_type *y = clade__type(g, n->first_out), whole = {.dtype = CLADE_I32, .shape = y->shape};
  clade_type bytes[] = {*clade__type(g, x->bytes), *clade__type(g, w->bytes)};
  clade_type floats[] = {*clade__type(g, n->in[0]), *clade__type(g, n->in[1])};
  double by_bytes, by_floats;
  if (!estimate(ctx, n, bytes, &whole, &by_bytes)) return false;
  if (!estimate(ctx, n, floats, y, &by_floats)) return true;
  return by_bytes <=
         by_floats + seconds_to_dequantize(ctx, n->in[0], x->bytes) + seconds_to_dequantize(ctx, n->in[1], w->bytes);
}

/* ---- rewriting ---- */
static clade_val times(clade_graph *g, clade_val y, clade__id scale, clade_shape shape) {
  return scale ? clade_mul(g, y, clade_reshape(g, clade__graph_val(g, scale), shape)) : y;
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__pass_ctx *ctx = user;
  const clade__node *n = &old->nodes[node];
  operand x, w;
  clade__id made;
  if (!find_operands(old, n, &x, &w) || !pays(ctx, n, &x, &w)) return clade__node_copy(old, node, g, map);
  clade_shape along = {.rank = n->op == &clade__op_conv2d ? 3 : 1, .dim = {1, 1, 1}};
  if (w.scale) along.dim[0] = elements(old, w.scale);
  g->device = n->device;
  const clade__id in[] = {map[x.bytes], map[w.bytes]};
  CLADE_TRY(clade__node_new(g, n->op, n->name, n->attrs, 2, in, &made));
  clade_val y = clade_cast(g, clade__graph_val(g, g->nodes[made].first_out), CLADE_F32);
  y = times(g, y, w.scale ? map[w.scale] : 0, along);
  y = times(g, y, x.scale ? map[x.scale] : 0, CLADE_SCALAR);
  map[n->first_out] = y.id;
  return clade_graph_status(g);
}

clade_status clade__pass_integers(clade__pass_ctx *ctx) {
  operand x, w;
  for (clade__id id = 1; id < ctx->graph->n_nodes; id++)
    if (find_operands(ctx->graph, &ctx->graph->nodes[id], &x, &w)) return clade__pass_rewrite(ctx, build, ctx);
  return CLADE_OK;
}

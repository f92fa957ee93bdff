/* Explicit broadcasting by NumPy's rule. With `mean` each element is divided by how often it is repeated: the adjoint
 * of a mean, whose divisor may be a symbol when derivatives are taken. */
#include <clade/ops.h>

#include "op/dims.h"

typedef struct attrs {
  clade_shape shape;
  bool mean;
} attrs;
static const clade_attr table[] = {
    {"shape", CLADE_ATTR_SHAPE, offsetof(attrs, shape), 1}, {"mean", CLADE_ATTR_BOOL, offsetof(attrs, mean), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *at = n->attrs;
  const clade_shape *from = &n->in[0].shape, *to = &at->shape;
  char a[200], b[200];
  CLADE_TRY(clade__want_dense(n));
  if (at->mean) CLADE_TRY(clade__want_float(n, 0, "x"));
  if (to->rank < 0 || to->rank > CLADE_MAX_RANK)
    return CLADE_FAIL(SHAPE, "broadcast: the new shape has more than %d dimensions", CLADE_MAX_RANK);
  for (int i = 0; i < to->rank; i++)
    if (to->dim[i] < 0 && !clade_dim_is_symbol(to->dim[i]))
      return CLADE_FAIL(SHAPE, "broadcast: dimension %d of the new shape is negative or no size", i);
  if (from->rank > to->rank)
    return CLADE_FAIL(SHAPE, "broadcast: x is %s and has more dimensions than %s", clade_shape_text(from, a, sizeof a),
                      clade_shape_text(to, b, sizeof b));
  for (int i = 0; i < from->rank; i++) {
    int j = i + to->rank - from->rank;
    if (from->dim[i] != 1 && from->dim[i] != to->dim[j])
      return CLADE_FAIL(SHAPE, "broadcast: x is %s and cannot become %s: its dimension %d is neither 1 nor that of %s",
                        clade_shape_text(from, a, sizeof a), clade_shape_text(to, b, sizeof b), i, b);
  }
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = *to};
  return CLADE_OK;
}

static clade_val add(clade_graph *g, clade_val x, const clade_shape *shape, bool mean) {
  attrs a;
  memset(&a, 0, sizeof a);
  a.mean = mean;
  a.shape.rank = shape->rank;
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++) a.shape.dim[i] = shape->dim[i];
  return clade_node_add(g, &clade__op_broadcast, NULL, &a, 1, &x, NULL);
}

clade_val clade__broadcast_mean(clade_graph *g, clade_val x, const clade_shape *shape) {
  return add(g, x, shape, true);
}

static clade_status grad(clade_grad *g) {
  const attrs *at = g->node->attrs;
  const clade_shape *from = &g->node->in[0].shape, *to = &at->shape;
  if (!at->mean) {
    g->din[0] = clade__sum_to(g->graph, g->dout[0], from);
    return CLADE_OK;
  }
  clade_reduce_opt opt = {.size = sizeof opt, .x = g->dout[0], .keep = true};
  for (int i = 0, shift = to->rank - from->rank; i < to->rank; i++)
    if (i < shift || (from->dim[i - shift] == 1 && to->dim[i] != 1)) opt.axes[opt.n_axes++] = i;
  clade_val dy = opt.n_axes ? clade_mean_(g->graph, &opt) : g->dout[0];
  g->din[0] = clade_reshape(g->graph, dy, *from);
  return CLADE_OK;
}

static double cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const attrs *at = n->attrs;
  clade_shape to = n->out[0].shape;
  int64_t stride[CLADE_MAX_RANK] = {0}, repeats = 1, total = clade__product(&to, 0, to.rank);
  if (at->mean && total) repeats = total / clade__product(&n->in[0].shape, 0, n->in[0].shape.rank);
  clade__broadcast_strides(&n->in[0].shape, &to, stride);
  int rank = clade__collapse(to.rank, to.dim, 1, (int64_t(*const[])[CLADE_MAX_RANK]){&stride});
  clade_dtype dtype = n->out[0].dtype;
  clade__emit_strided(e, q, repeats != 1 ? clade_dtype_name(dtype) : clade__raw_name(dtype), repeats, rank, to.dim,
                      stride);
  return CLADE_OK;
}

static const clade_impl impls[] = {{.name = "ref", .cost = cost, .emit = emit}, {0}};

const clade_op clade__op_broadcast = {
    .size = sizeof(clade_op),
    .name = "broadcast",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
};

clade_val clade_broadcast(clade_graph *g, clade_val x, clade_shape shape) { return add(g, x, &shape, false); }

/* Any permutation of the axes. */
#include <clade/ops.h>

#include "op/dims.h"

typedef struct attrs {
  int32_t rank, axis[CLADE_MAX_RANK]; /* axis i of the result is the operand's axis[i] */
} attrs;
static const clade_attr table[] = {{"rank", CLADE_ATTR_I32, offsetof(attrs, rank), 1},
                                   {"axes", CLADE_ATTR_I32, offsetof(attrs, axis), CLADE_MAX_RANK},
                                   {0}};

static clade_status infer(clade_node *n) {
  const attrs *at = n->attrs;
  const clade_shape *from = &n->in[0].shape;
  clade_shape to = {.rank = from->rank};
  bool seen[CLADE_MAX_RANK] = {false};
  CLADE_TRY(clade__want_dense(n));
  if (at->rank != from->rank)
    return CLADE_FAIL(SHAPE, "transpose: the permutation has %d axes, but x has rank %d", at->rank, from->rank);
  for (int i = 0; i < from->rank; i++) {
    int axis = at->axis[i];
    if (axis < 0 || axis >= from->rank)
      return CLADE_FAIL(INVALID, "transpose: permutation[%d] is %d; expected 0 to %d", i, axis, from->rank - 1);
    if (seen[axis])
      return CLADE_FAIL(INVALID, "transpose: axis %d is twice in the permutation, at last as permutation[%d]", axis, i);
    seen[axis] = true;
    to.dim[i] = from->dim[axis];
  }
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = to};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  const attrs *at = g->node->attrs;
  int back[CLADE_MAX_RANK] = {0};
  for (int i = 0; i < at->rank; i++) back[at->axis[i]] = i;
  g->din[0] = clade_transpose(g->graph, g->dout[0], at->rank, back);
  return CLADE_OK;
}

static double cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 0.5); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const attrs *at = n->attrs;
  clade_shape to = n->out[0].shape;
  int64_t own[CLADE_MAX_RANK] = {0}, stride[CLADE_MAX_RANK] = {0};
  clade__strides(&n->in[0].shape, own);
  for (int i = 0; i < to.rank; i++) stride[i] = own[at->axis[i]];
  int rank = clade__collapse(to.rank, to.dim, 1, (int64_t(*const[])[CLADE_MAX_RANK]){&stride});
  if (rank == 1 && stride[0] <= 1) { /* only axes of size 1 have moved */
    clade_emit_copy(e, 0, 0);
    return CLADE_OK;
  }
  clade__emit_strided(e, q, clade__raw_name(n->out[0].dtype), 1, rank, to.dim, stride);
  return CLADE_OK;
}

static const clade_impl impls[] = {{.name = "ref", .cost = cost, .emit = emit}, {0}};

const clade_op clade__op_transpose = {
    .size = sizeof(clade_op),
    .name = "transpose",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .file = "broadcast",
};

clade_val clade_transpose(clade_graph *g, clade_val x, int rank, const int *permutation) {
  attrs a;
  memset(&a, 0, sizeof a);
  if (rank < 0 || rank > CLADE_MAX_RANK || (rank > 0 && !permutation))
    return clade__graph_fail(
        g, CLADE_FAIL(INVALID, "rank %d with a permutation; expected 0 to %d axes", rank, CLADE_MAX_RANK), "transpose");
  a.rank = rank;
  for (int i = 0; i < rank; i++) a.axis[i] = permutation[i] < 0 ? permutation[i] + rank : permutation[i];
  return clade_node_add(g, &clade__op_transpose, NULL, &a, 1, &x, NULL);
}

/* The largest pixel of each window; exact. */
#include "op/pool.h"

static clade_status infer(clade_node *n) {
  clade_type y = {.dtype = n->in[0].dtype};
  CLADE_TRY(clade__pool_check(n, &n->in[0].shape, &y.shape));
  n->out[0] = y;
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  const clade_val in[] = {g->in[0], g->out[0], g->dout[0]};
  g->din[0] = clade__pool_node(g->graph, &clade__op_max_pool2d_grad, g->node->attrs, 3, in, NULL);
  return CLADE_OK;
}

static const char *accept(const clade_query *q) { return clade__pool_accept(q, 1); }
static clade_status emit(clade_emit *e, const clade_query *q) {
  return clade__pool_emit(e, q, "max_pool2d_forward_ref", false, 0);
}
static const clade_impl impls[] = {{.name = "ref", .accept = accept, .cost = clade__pool_cost, .emit = emit}, {0}};

const clade_op clade__op_max_pool2d = {
    .size = sizeof(clade_op),
    .name = "max_pool2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__pool_attrs),
    .attrs = clade__pool_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
};

clade_val clade_max_pool2d_(clade_graph *g, const clade_pool2d_opt *opt) {
  return clade__pool_build(g, &clade__op_max_pool2d, opt);
}

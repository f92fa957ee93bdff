/* Average pooling: the mean of each window. The error is at most (K + 3) 2^-24 times the mean of absolute values over
 * the window's K pixels, plus the rounding to the stored type. */
#include "op/pool/pool.h"

static clade_status grad(clade_grad *g) {
  g->din[0] = clade__pool_node(g->graph, &clade__op_avg_pool2d_grad, g->node->attrs, 1, g->dout, &g->node->in[0].shape);
  return CLADE_OK;
}

const clade_op clade__op_avg_pool2d = {
    .size = sizeof(clade_op),
    .name = "avg_pool2d",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__pool_attrs),
    .attrs = clade__pool_table,
    .infer = clade__pool_infer,
    .grad = grad,
    .impls = clade__pool_impls + 1,
    .file = "pool2d",
    .ties = clade__pool_ties,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = clade__pool_dims,
};

clade_val clade_avg_pool2d_(clade_graph *g, const clade_pool2d_opt *opt) {
  return clade__pool_build(g, &clade__op_avg_pool2d, opt);
}

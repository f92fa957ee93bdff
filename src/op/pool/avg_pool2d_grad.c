/* Gradient of avg_pool2d: each pixel gathers its share from the windows that cover it. The error is at most (K + 3)
 * 2^-24 times the sum of absolute shares over its K windows. */
#include "op/pool/pool.h"

static clade_status infer(clade_node *n) {
  const clade__pool_attrs *a = n->attrs;
  clade_shape y;
  char s[200], t[200];
  CLADE_TRY(clade__pool_check(n, &a->shape, &y));
  if (!clade_shape_equal(&n->in[0].shape, &y))
    return CLADE_FAIL(BAD_SHAPE, "avg_pool2d_grad: y is %s; expected %s",
                      clade_shape_text(&n->in[0].shape, s, sizeof s), clade_shape_text(&y, t, sizeof t));
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = a->shape};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) { /* the op is linear */
  g->din[0] = clade__pool_node(g->graph, &clade__op_avg_pool2d, g->node->attrs, 1, g->dout, NULL);
  return CLADE_OK;
}

const clade_op clade__op_avg_pool2d_grad = {
    .size = sizeof(clade_op),
    .name = "avg_pool2d_grad",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__pool_attrs),
    .attrs = clade__pool_table,
    .infer = infer,
    .grad = grad,
    .impls = clade__pool_impls + 1,
    .file = "pool2d",
    .autocast = CLADE_AUTOCAST_CARRY,
};

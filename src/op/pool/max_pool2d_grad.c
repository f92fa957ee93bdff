/* Gradient of max_pool2d: each pixel gathers from the windows whose first maximum it is. */
#include "op/pool/pool.h"

/* The forward pass stores no indices; the maximum is found again from x. Reading an index would be cheaper, but x is
 * usually kept for the preceding activation anyway, and inference would have to write the indices too. */
static clade_status infer(clade_node *n) {
  clade_shape y;
  char s[200], t[200];
  CLADE_TRY(clade__pool_check(n, &n->in[0].shape, &y));
  if (!clade_shape_equal(&n->in[1].shape, &y))
    return CLADE_FAIL(BAD_SHAPE, "max_pool2d_grad: dy is %s; expected %s",
                      clade_shape_text(&n->in[1].shape, s, sizeof s), clade_shape_text(&y, t, sizeof t));
  n->out[0] = n->in[0];
  return CLADE_OK;
}

const clade_op clade__op_max_pool2d_grad = {
    .size = sizeof(clade_op),
    .name = "max_pool2d_grad",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(clade__pool_attrs),
    .attrs = clade__pool_table,
    .infer = infer,
    .impls = clade__pool_impls,
    .file = "pool2d",
    .autocast = CLADE_AUTOCAST_CARRY,
};

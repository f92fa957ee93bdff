/* The derivative of max_pool2d: each pixel gathers from the windows whose first maximum it is. */
#include "op/pool.h"

/* No index is kept from the forward pass. A pixel compares itself with the result of the few windows that cover it (one
 * of 2 x 2 by 2, at most four of 3 x 3 by 2), and only where it equals it looks whether an earlier pixel does too: that
 * is less to read than indices, and nothing to write and to keep until the backward pass. */
static clade_status infer(clade_node *n) {
  clade_shape y;
  char s[200], t[200];
  CLADE_TRY(clade__pool_check(n, &n->in[0].shape, &y));
  for (int i = 1; i < 3; i++)
    if (!clade_shape_equal(&n->in[i].shape, &y))
      return CLADE_FAIL(SHAPE, "max_pool2d_grad: operand %d is %s; expected %s", i,
                        clade_shape_text(&n->in[i].shape, s, sizeof s), clade_shape_text(&y, t, sizeof t));
  n->out[0] = n->in[0];
  return CLADE_OK;
}

/* A window, for each window that covers the pixel. */
static const char *accept(const clade_query *q) {
  const clade__window *w = &((const clade__pool_attrs *)q->node->attrs)->window;
  return clade__pool_accept(q, (double)w->kernel[0] * w->kernel[1] + 2);
}
static clade_status emit(clade_emit *e, const clade_query *q) {
  return clade__pool_emit(e, q, "max_pool2d_backward_ref", true, 0);
}
static const clade_impl impls[] = {{.name = "ref", .accept = accept, .cost = clade__pool_cost, .emit = emit}, {0}};

const clade_op clade__op_max_pool2d_grad = {
    .size = sizeof(clade_op),
    .name = "max_pool2d_grad",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .attr_bytes = sizeof(clade__pool_attrs),
    .attrs = clade__pool_table,
    .infer = infer,
    .impls = impls,
    .file = "max_pool2d",
};

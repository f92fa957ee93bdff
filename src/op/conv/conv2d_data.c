/* Gradient of a convolution with respect to its input, which is also transposed convolution. Each pixel gathers from
 * the results whose windows cover it, so that sums have a fixed order. The error bound is that of conv2d. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"
#include "op/group.h"
#include "op/product.h"
#include "op/systolic.h"

static clade_status infer(clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade_type out = {.dtype = n->in[0].dtype, .shape = a->shape};
  clade_shape y;
  CLADE_TRY(clade__conv_operands(n, "y", "w"));
  CLADE_TRY(clade__conv_check(n, &a->shape, &n->in[1].shape, &n->in[0].shape, &y));
  CLADE_TRY(clade__epilogue_infer(n, &out));
  n->out[0] = out;
  return CLADE_OK;
}

/* With groups, channels of x cannot be pruned: the number of groups is an attribute, and no weight's shape implies it.
 */
static void ties(clade_ties *t, const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade__conv_ties(t, n, n->n_in, 0);
  if (a->groups > 1) clade_keep_axis(t, 0, 1);
  if (a->groups > 1) clade_keep_axis(t, n->n_in, 1);
}

static void dims(clade_dims *d, const clade_node *n) { clade__conv_dims(d, n, n->n_in, 0, true); }

static clade_status grad(clade_grad *g) {
  const clade__conv_attrs *a = g->node->attrs;
  clade_val y = g->in[0], w = g->in[1], dx = g->dout[0];
  CLADE_TRY(clade__conv_plain(g));
  if (g->wanted[0]) g->din[0] = clade__conv_node(g->graph, &clade__op_conv2d, a, dx, w, NULL);
  if (g->wanted[1]) g->din[1] = clade__conv_node(g->graph, &clade__op_conv2d_weights, a, dx, y, &g->node->in[1].shape);
  return CLADE_OK;
}

const clade_op clade__op_conv2d_data = {
    .size = sizeof(clade_op),
    .name = "conv2d_data",
    .min_in = 2,
    .max_in = 2 + CLADE__ELT_INPUTS - 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__conv_attrs),
    .attrs = clade__conv_table,
    .infer = infer,
    .grad = grad,
    .impls = clade__conv_impls + 2,
    .file = "conv2d",
    .problem_in = 2,
    .ties = ties,
    .autocast = CLADE_AUTOCAST_NARROW,
    .dims = dims,
};

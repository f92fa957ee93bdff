/* Gradient of a convolution with respect to its input, which is also transposed convolution. Each pixel gathers from
 * the results whose windows cover it, so that sums have a fixed order. The error bound is that of conv2d. */
#include "op/conv/conv.h"

const clade_op clade__op_conv2d_data = {
    .size = sizeof(clade_op),
    .name = "conv2d_data",
    .min_in = 2,
    .max_in = 2 + CLADE__ELT_INPUTS - 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__conv_attrs),
    .attrs = clade__conv_table,
    .infer = clade__conv_infer,
    .grad = clade__conv_grad,
    .impls = clade__conv_impls + 2,
    .file = "conv2d",
    .problem_in = 2,
    .ties = clade__conv_ties,
    .autocast = CLADE_AUTOCAST_NARROW,
    .dims = clade__conv_dims,
};

/* Gradient of a convolution with respect to its input, which is also transposed convolution. Each pixel gathers from
 * the results whose windows cover it, so that sums have a fixed order. The error bound is that of conv2d. */
#include "op/conv/conv.h"

const clade_op clade__op_conv2d_data = {CLADE__CONV_GATHER_OP, .name = "conv2d_data", .grad = clade__conv_grad,
                                        .impls = clade__conv_data_impls, .file = "conv2d"};

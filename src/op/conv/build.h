/* Checks and shapes that the builders of convolutions share. */
#ifndef CLADE_CONV_BUILD_H
#define CLADE_CONV_BUILD_H

#include <clade/nn.h>

#include "op/conv/conv.h"

/* Checks that x and w have `rank` dimensions, all of them valid sizes except the first `free` of x, and returns their
 * types. */
clade_status clade__conv_shapes(const clade_graph *g, const char *op, clade_val x, clade_val w, int rank, int free,
                                clade_type *x_type, clade_type *w_type);
/* Checks that a bias has one value per channel of the result, in its type; an invalid value means no bias. For builders
 * that pass the bias on to another one. */
clade_status clade__conv_bias_fits(const clade_graph *g, const char *op, clade_val bias, clade_dim channels,
                                   clade_dtype dtype);
/* Adds one value per channel (axis 1) to y; an invalid bias adds nothing. */
clade_val clade__conv_bias(clade_graph *g, const char *op, clade_val y, clade_val bias);
/* Checks that only one of .pad and .pads is set. *both receives the padding on both sides of each axis: first all
 * beginnings, then all ends. */
clade_status clade__conv_pads(const char *op, int axes, const int *pad, const int *pads, int *both);

/* A transposed convolution's window along one axis. */
typedef struct clade__conv_along {
  int64_t kernel;
  int stride, dilation, pad[2], output_pad;
} clade__conv_along;
/* Size of a transposed convolution's result along `axis` (number i in the options): what a convolution needs to produce
 * x's size `in`, plus .output_pad. */
clade_status clade__conv_widen(const char *op, const char *axis, int i, const clade__conv_along *a, clade_dim in,
                               clade_dim *out);
/* Checks that w is [in, out / groups, ...], where `in` is the number of x's channels. */
clade_status clade__conv_back_channels(const char *op, const clade_shape *x, const clade_shape *w, int groups);

#endif

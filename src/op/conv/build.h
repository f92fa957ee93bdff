/* What the builders of convolutions share. */
#ifndef CLADE_CONV_BUILD_H
#define CLADE_CONV_BUILD_H

#include <clade/nn.h>

#include "op/conv/conv.h"

/* That x and w have `rank` dimensions, all of them sizes from 1 on that windows can have, but for the `free` first of
 * x. Their types are written. */
clade_status clade__conv_shapes(const clade_graph *g, const char *op, clade_val x, clade_val w, int rank, int free,
                                clade_type *x_type, clade_type *w_type);
/* That a bias has a value for each channel of the result, in its type; an invalid one is none. For builders that leave
 * it to another one. */
clade_status clade__conv_bias_fits(const clade_graph *g, const char *op, clade_val bias, clade_dim channels,
                                   clade_dtype dtype);
/* y plus one value per channel, which is axis 1; an invalid bias: none. */
clade_val clade__conv_bias(clade_graph *g, const char *op, clade_val y, clade_val bias);
/* That one of .pad and .pads is set; *pads becomes both sides of each of the axes: all beginnings, then all ends. */
clade_status clade__conv_pads(const char *op, int axes, const int *pad, const int *pads, int *both);

/* A window along one axis, as a transposed convolution takes it. */
typedef struct clade__conv_along {
  int64_t kernel;
  int stride, dilation, pad[2], output_pad;
} clade__conv_along;
/* What the result of a transposed convolution has along `axis`, number i of the options: as many as a convolution would
 * need to give the `in` that x has, and .output_pad. */
clade_status clade__conv_widen(const char *op, const char *axis, int i, const clade__conv_along *a, clade_dim in,
                               clade_dim *out);
/* That w is [in, out / groups, ...] for the channels of x. */
clade_status clade__conv_back_channels(const char *op, const clade_shape *x, const clade_shape *w, int groups);

#endif

/* Convolutions over one to three axes, as their builders see them: checks, and sizes along each axis. */
#ifndef CLADE_CONV_BUILD_H
#define CLADE_CONV_BUILD_H

#include <clade/nn.h>

#include "op/conv/conv.h"

/* The options of a builder; arrays have an element per axis, and pads two. */
typedef struct clade__conv_opt {
  clade_val w, bias;
  const int *stride, *pad, *pads, *dilation, *output_pad; /* the last of transposed convolutions only */
  int groups;
} clade__conv_opt;

/* Depth, height and width. The first axes, of which there are `missing`, have size 1 if the convolution has fewer. */
typedef struct clade__conv_axes {
  const char *op;
  int missing, groups;
  clade_shape x, w; /* as given */
  clade_dtype dtype;
  clade_dim in[3], kernel[3];
  int stride[3], dilation[3], pad[2][3]; /* padding before and behind */
} clade__conv_axes;
clade_status clade__conv_axes_of(const clade_graph *g, const char *op, int axes, clade_val x,
                                 const clade__conv_opt *opt, clade__conv_axes *out);
/* Adds one value per channel (axis 1) to y; an invalid bias adds nothing. */
clade_val clade__conv_bias(clade_graph *g, const char *op, clade_val y, clade_val bias);
/* With one axis: between [n, channels, width] and [n, channels, 1, width]. */
clade_val clade__conv_lift(clade_graph *g, clade_val x, const clade_shape *shape);
clade_val clade__conv_drop(clade_graph *g, clade_val y);

#endif

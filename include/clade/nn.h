/* Builders for networks: convolution and pooling, and the layers that make parameters. As in ops.h, a macro's last
 * plain argument is followed by the options: clade_conv2d(g, x, w, .pad = {1, 1}). Zero means unset. */
#ifndef CLADE_NN_H
#define CLADE_NN_H

#include <clade/ops.h>

CLADE_BEGIN_DECLS

/* ---- windows over height and width; values are [n, channels, height, width] ---- */
typedef struct clade_conv2d_opt {
  size_t size;
  clade_val w;     /* [out, in / groups, height, width] */
  clade_val bias;  /* [out]; invalid: none */
  int stride[2];   /* of height and width, as all pairs here; unset: 1 */
  int pad[2];      /* zeros on both sides of the height, of the width */
  int pads[4];     /* instead: top, left, bottom, right */
  int dilation[2]; /* unset: 1 */
  int groups;      /* unset: 1 */
} clade_conv2d_opt;
/* Cross-correlation: clade_conv2d(g, x, w, .bias = b, .pad = {2, 2}) */
#define clade_conv2d(g, x, ...) \
  clade_conv2d_(g, x, &(clade_conv2d_opt){.size = sizeof(clade_conv2d_opt), .w = __VA_ARGS__})
CLADE_API clade_val clade_conv2d_(clade_graph *g, clade_val x, const clade_conv2d_opt *opt);

typedef struct clade_nn_conv2d_opt {
  size_t size;
  clade_val x;
  int64_t out;
  int kernel[2], stride[2], pad[2], pads[4], dilation[2], groups; /* as in clade_conv2d_opt */
  bool no_bias;
  clade_dtype dtype; /* of the variables; unset: f32 */
} clade_nn_conv2d_opt;
/* A weight parameter NAME.weight, a bias NAME.bias, and the op: clade_nn_conv2d(g, "c1", x, .out = 6, .kernel = {5, 5})
 */
#define clade_nn_conv2d(g, name, ...) \
  clade_nn_conv2d_(g, name, &(clade_nn_conv2d_opt){.size = sizeof(clade_nn_conv2d_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_conv2d_(clade_graph *g, const char *name, const clade_nn_conv2d_opt *opt);

typedef struct clade_pool2d_opt {
  size_t size;
  clade_val x;
  int kernel[2];
  int stride[2];                    /* unset: the kernel */
  int pad[2], pads[4], dilation[2]; /* as in clade_conv2d_opt */
  bool count_pad;                   /* averages divide by the size of the kernel, not by how many pixels it covers */
} clade_pool2d_opt;
/* Of the pixels that a window covers; padding is never among them. Where it covers none the maximum is -infinity, the
 * average 0. NaN is larger than anything. The gradient of a maximum goes to the first pixel that has it. */
#define clade_max_pool2d(g, ...) clade_max_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define clade_avg_pool2d(g, ...) clade_avg_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define CLADE_POOL2D_OPT(...) \
  &(clade_pool2d_opt) { .size = sizeof(clade_pool2d_opt), .x = __VA_ARGS__ }
CLADE_API clade_val clade_max_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
CLADE_API clade_val clade_avg_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
/* The mean of each channel: [n, channels], as what follows is a linear layer. */
CLADE_API clade_val clade_global_avg_pool2d(clade_graph *g, clade_val x);

CLADE_END_DECLS
#endif

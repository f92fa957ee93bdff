/* MobileNetV2 (Sandler, Howard, Zhu, Zhmoginov, Chen, 2018). For images up to 64x64 the stem and the second stage
 * have stride 1. */
#include "models/models.h"

#include <stdio.h>

enum { SMALL = 64 };

/* Convolution, batch normalization and, except at the end of a block, ReLU6. */
static clade_val convolve(clade_graph *g, const char *block, const char *part, clade_val x, int out, int kernel,
                          int stride, int groups) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", block, part);
  clade_val y = clade_nn_conv2d(g, name, x, .out = out, .kernel = {kernel, kernel}, .stride = {stride, stride},
                                .pad = {kernel / 2, kernel / 2}, .groups = groups, .no_bias = true);
  snprintf(name, sizeof name, "%s.%s_bn", block, part);
  return clade_nn_batch_norm(g, name, y);
}

static clade_val relu6(clade_graph *g, clade_val x) { return clade_clip(g, x, 0, 6); }

/* An inverted residual block: expand, depthwise, project; with a residual connection if the shape is unchanged. */
static clade_val inverted(clade_graph *g, const char *block, clade_val x, int in, int factor, int out, int stride) {
  int wide = factor * in;
  clade_val h = factor == 1 ? x : relu6(g, convolve(g, block, "expand", x, wide, 1, 1, 1));
  h = relu6(g, convolve(g, block, "depthwise", h, wide, 3, stride, wide));
  h = convolve(g, block, "project", h, out, 1, 1, 1);
  return in == out && stride == 1 ? clade_add(g, x, h) : h;
}

clade_val mobilenetv2(clade_graph *g, clade_val x, int classes, void *user) {
  static const struct {
    int factor, out, blocks, stride;
  } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  (void)user;
  clade_type type;
  char name[32];
  int in = 32;
  if (clade_val_type(g, x, &type) != CLADE_OK) return (clade_val){0}; /* the graph keeps the error */
  bool small = type.shape.dim[2] <= SMALL;
  clade_val h = relu6(g, convolve(g, "stem", "conv", x, in, 3, small ? 1 : 2, 1));
  for (int stage = 0; stage < 7; ++stage)
    for (int i = 0; i < stages[stage].blocks; ++i) {
      int stride = i || (small && stage == 1) ? 1 : stages[stage].stride;
      snprintf(name, sizeof name, "stage%d.%d", stage + 1, i);
      h = inverted(g, name, h, in, stages[stage].factor, stages[stage].out, stride);
      in = stages[stage].out;
    }
  h = relu6(g, convolve(g, "head", "conv", h, 1280, 1, 1, 1));
  h = clade_nn_dropout(g, "drop", clade_flatten(g, clade_global_avg_pool2d(g, h), 1), .p = 0.2f);
  return clade_nn_linear(g, "fc", h, .out = classes);
}

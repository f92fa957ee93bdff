/* ResNet-18 and ResNet-50 (He, Zhang, Ren, Sun, 2015). Images up to 64x64 get the usual stem for CIFAR, a 3x3
 * convolution; larger ones ImageNet's stem, which divides the sides by four. */
#include "models/models.h"

#include <stdio.h>

enum { SMALL = 64 };

/* Convolution and batch normalization number `part` of a block. */
static clade_val convolve(clade_graph *g, const char *block, int part, clade_val x, int out, int kernel, int stride) {
  char name[64];
  snprintf(name, sizeof name, "%s.conv%d", block, part);
  clade_val y = clade_nn_conv2d(g, name, x, .out = out, .kernel = {kernel, kernel}, .stride = {stride, stride},
                                .pad = {kernel / 2, kernel / 2}, .no_bias = true);
  snprintf(name, sizeof name, "%s.bn%d", block, part);
  return clade_nn_batch_norm(g, name, y);
}

/* A residual block from `in` channels to `width` times the block's expansion. If the shape changes, the residual
 * connection has a convolution. */
typedef clade_val residual(clade_graph *g, const char *block, clade_val x, int in, int width, int stride);

static clade_val basic(clade_graph *g, const char *block, clade_val x, int in, int width, int stride) {
  clade_val h = clade_relu(g, convolve(g, block, 1, x, width, 3, stride));
  clade_val past = in == width && stride == 1 ? x : convolve(g, block, 3, x, width, 1, stride);
  return clade_relu(g, clade_add(g, convolve(g, block, 2, h, width, 3, 1), past));
}

/* The 3x3 convolution has the stride (ResNet v1.5). */
static clade_val bottleneck(clade_graph *g, const char *block, clade_val x, int in, int width, int stride) {
  int out = 4 * width;
  clade_val h = clade_relu(g, convolve(g, block, 1, x, width, 1, 1));
  h = clade_relu(g, convolve(g, block, 2, h, width, 3, stride));
  clade_val past = in == out ? x : convolve(g, block, 4, x, out, 1, stride);
  return clade_relu(g, clade_add(g, convolve(g, block, 3, h, out, 1, 1), past));
}

static clade_val resnet(clade_graph *g, clade_val x, int classes, residual *block, int growth, const int blocks[4]) {
  clade_type type;
  char name[32];
  int in = 64;
  if (clade_val_type(g, x, &type) != CLADE_OK) return (clade_val){0}; /* the graph keeps the error */
  bool small = type.shape.dim[2] <= SMALL;
  clade_val h = clade_relu(g, convolve(g, "stem", 1, x, in, small ? 3 : 7, small ? 1 : 2));
  if (!small) h = clade_max_pool2d(g, h, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < blocks[stage]; ++i) {
      int width = 64 << stage;
      snprintf(name, sizeof name, "layer%d.%d", stage + 1, i);
      h = block(g, name, h, in, width, stage && !i ? 2 : 1);
      in = growth * width;
    }
  h = clade_flatten(g, clade_global_avg_pool2d(g, h), 1);
  return clade_nn_linear(g, "fc", h, .out = classes);
}

clade_val resnet18(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  return resnet(g, x, classes, basic, 1, (const int[]){2, 2, 2, 2});
}

clade_val resnet50(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  return resnet(g, x, classes, bottleneck, 4, (const int[]){3, 4, 6, 3});
}

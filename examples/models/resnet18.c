/* ResNet-18 (He, Zhang, Ren, Sun 2015). Images up to 64x64 get the stem that is used for CIFAR, a 3x3 convolution;
 * larger ones ImageNet's, which takes a quarter of each side away before the first block. */
#include "models/models.h"

#include <stdio.h>

enum { SMALL = 64 };

static clade_val convolve(clade_graph *g, const char *block, const char *part, clade_val x, int out, int kernel,
                          int stride) {
  char name[64];
  snprintf(name, sizeof name, "%s.conv%s", block, part);
  clade_val y = clade_nn_conv2d(g, name, x, .out = out, .kernel = {kernel, kernel}, .stride = {stride, stride},
                                .pad = {kernel / 2, kernel / 2}, .no_bias = true);
  snprintf(name, sizeof name, "%s.bn%s", block, part);
  return clade_nn_batch_norm(g, name, y);
}

/* Two convolutions and a way past them; where the shape changes, the way is a convolution too. */
static clade_val residual(clade_graph *g, const char *block, clade_val x, int in, int out, int stride) {
  clade_val h = clade_relu(g, convolve(g, block, "1", x, out, 3, stride));
  clade_val past = in == out && stride == 1 ? x : convolve(g, block, "3", x, out, 1, stride);
  return clade_relu(g, clade_add(g, convolve(g, block, "2", h, out, 3, 1), past));
}

clade_val resnet18(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_type type;
  char name[32];
  int in = 64;
  if (clade_val_type(g, x, &type) != CLADE_OK) return (clade_val){0}; /* the error is in the graph */
  bool small = type.shape.dim[2] <= SMALL;
  clade_val h = clade_relu(g, convolve(g, "stem", "1", x, in, small ? 3 : 7, small ? 1 : 2));
  if (!small) h = clade_max_pool2d(g, h, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < 2; ++block) {
      int out = 64 << stage;
      snprintf(name, sizeof name, "layer%d.%d", stage + 1, block);
      h = residual(g, name, h, in, out, stage && !block ? 2 : 1);
      in = out;
    }
  h = clade_flatten(g, clade_global_avg_pool2d(g, h), 1);
  return clade_nn_linear(g, "fc", h, .out = classes);
}

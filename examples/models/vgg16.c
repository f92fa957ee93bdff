/* VGG-16 (Simonyan, Zisserman, 2014): five stages of 3x3 convolutions, each ending with max pooling, and three
 * linear layers. Images smaller than 32x32 are padded. */
#include "models/models.h"

#include <stdio.h>

clade_val vgg16(clade_graph *g, clade_val x, int classes, void *user) {
  static const struct { int convolutions, out; } stages[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  (void)user;
  clade_type type;
  char name[32];
  if (clade_val_type(g, x, &type) != CLADE_OK) return (clade_val){0}; /* the graph keeps the error */
  int64_t in = type.shape.dim[1];
  int pad = type.shape.dim[2] < 32 ? 1 + (int)(32 - type.shape.dim[2]) / 2 : 1;
  clade_val h = x;
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < stages[stage].convolutions; ++i) {
      snprintf(name, sizeof name, "conv%d_%d", stage + 1, i + 1);
      h = clade_relu(g, clade_nn_conv2d(g, name, h, .out = stages[stage].out, .kernel = {3, 3}, .pad = {pad, pad},
                                        .weight_init = clade_he_normal(9 * in)));
      in = stages[stage].out;
      pad = 1;
    }
    h = clade_max_pool2d(g, h, .kernel = {2, 2});
  }
  h = clade_flatten(g, h, 1);
  for (int i = 1; i <= 2; ++i) {
    snprintf(name, sizeof name, "fc%d", i);
    h = clade_relu(g, clade_nn_linear(g, name, h, .out = 4096));
    snprintf(name, sizeof name, "drop%d", i);
    h = clade_nn_dropout(g, name, h, .p = 0.5f);
  }
  return clade_nn_linear(g, "fc3", h, .out = classes);
}

/* LeNet-5 (LeCun, Bottou, Bengio, Haffner, 1998) in its usual modern form with ReLU and max pooling, for images of
 * 32x32; smaller ones are padded. */
#include "models/models.h"

clade_val lenet5(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_type type;
  if (clade_val_type(g, x, &type) != CLADE_OK) return (clade_val){0}; /* the graph keeps the error */
  int pad = type.shape.dim[2] < 32 ? (int)(32 - type.shape.dim[2]) / 2 : 0;
  clade_val h = clade_nn_conv2d(g, "conv1", x, .out = 6, .kernel = {5, 5}, .pad = {pad, pad},
                                .weight_init = clade_he_normal(25 * type.shape.dim[1]));
  h = clade_max_pool2d(g, clade_relu(g, h), .kernel = {2, 2});
  h = clade_nn_conv2d(g, "conv2", h, .out = 16, .kernel = {5, 5}, .weight_init = clade_he_normal(25 * 6));
  h = clade_max_pool2d(g, clade_relu(g, h), .kernel = {2, 2});
  h = clade_relu(g, clade_nn_linear(g, "fc1", clade_flatten(g, h, 1), .out = 120));
  h = clade_relu(g, clade_nn_linear(g, "fc2", h, .out = 84));
  return clade_nn_linear(g, "fc3", h, .out = classes);
}

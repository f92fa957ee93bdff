/* Convolutional networks computed in slices by several ranks: residual, plain and depthwise. */
#include "tensor_kit.h"

enum { SAMPLES = 4, SIDE = 8, CLASSES = 7 };

static clade_val convolution(tk_model *m, const char *layer, const char *part, clade_val x, int out, int kernel,
                             int stride, int groups) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", layer, part);
  const clade_val y = clade_nn_conv2d(m->g, name, x, .out = out, .kernel = {kernel, kernel}, .stride = {stride, stride},
                                      .pad = {kernel / 2, kernel / 2}, .groups = groups, .no_bias = true);
  snprintf(name, sizeof name, "%s.%s_norm", layer, part);
  return clade_nn_batch_norm(m->g, name, y);
}

static void classify(tk_model *m, clade_val x) {
  const clade_val labels = tk_numbers(m, "labels", CLADE_SHAPE(SAMPLES), CLASSES);
  const clade_val logits = clade_nn_linear(m->g, "classes", x, .out = CLASSES);
  clade_output(m->g, "right", clade_cast(m->g, clade_top_k_count(m->g, logits, labels, 1), CLADE_F32));
  clade_output(m->g, "loss", clade_cross_entropy(m->g, logits, labels, .smoothing = 0.1f));
}

static clade_val images(tk_model *m) { return tk_floats(m, "x", CLADE_SHAPE(SAMPLES, 3, SIDE, SIDE)); }

static clade_val residual(tk_model *m, const char *layer, clade_val x, int out, int stride, bool project) {
  clade_val y = clade_relu(m->g, convolution(m, layer, "a", x, out, 3, stride, 1));
  y = convolution(m, layer, "b", y, out, 3, 1, 1);
  if (project) x = convolution(m, layer, "project", x, out, 1, stride, 1);
  return clade_relu(m->g, clade_add(m->g, x, y));
}

static void resnet(tk_model *m) {
  clade_val x = clade_relu(m->g, convolution(m, "stem", "a", images(m), 10, 3, 1, 1));
  x = residual(m, "block1", x, 10, 1, false);
  x = residual(m, "block2", x, 14, 2, true);
  classify(m, clade_global_avg_pool2d(m->g, x));
}

static void vgg(tk_model *m) {
  clade_val x = clade_relu(m->g, clade_nn_conv2d(m->g, "c1", images(m), .out = 9, .kernel = {3, 3}, .pad = {1, 1}));
  x = clade_relu(m->g, clade_nn_conv2d(m->g, "c2", x, .out = 11, .kernel = {3, 3}, .pad = {1, 1}));
  x = clade_max_pool2d(m->g, x, .kernel = {2, 2});
  x = clade_relu(m->g, clade_nn_conv2d(m->g, "c3", x, .out = 13, .kernel = {3, 3}));
  x = clade_avg_pool2d(m->g, x, .kernel = {2, 2});
  x = clade_relu(m->g, clade_nn_linear(m->g, "fc", clade_flatten(m->g, x, 1), .out = 29));
  classify(m, x);
}

static void depthwise(tk_model *m) {
  clade_val x = clade_relu(m->g, convolution(m, "stem", "a", images(m), 6, 3, 1, 1));
  x = clade_relu(m->g, convolution(m, "expand", "a", x, 18, 1, 1, 1));
  x = clade_relu(m->g, convolution(m, "depth", "a", x, 18, 3, 2, 18));
  x = clade_relu(m->g, convolution(m, "groups", "a", x, 12, 3, 1, 6));
  x = clade_nn_group_norm(m->g, "groups.norm", x, .groups = 4);
  x = convolution(m, "project", "a", x, 6, 1, 1, 1);
  classify(m, clade_global_avg_pool2d(m->g, x));
}

static void solid(tk_model *m) {
  clade_val x = tk_floats(m, "x", CLADE_SHAPE(SAMPLES, 2, 4, 6, 6));
  x = clade_relu(m->g, clade_nn_conv3d(m->g, "c1", x, .out = 6, .kernel = {3, 3, 3}, .pad = {1, 1, 1}));
  x = clade_relu(m->g, clade_nn_conv3d(m->g, "c2", x, .out = 5, .kernel = {2, 3, 3}));
  x = clade_relu(m->g, clade_nn_conv3d_transpose(m->g, "c3", x, .out = 4, .kernel = {2, 2, 2}, .stride = {1, 2, 2}));
  x = clade_mean(m->g, x, .n_axes = 3, .axes = {2, 3, 4});
  classify(m, x);
}

static void both(void **state, tk_build *build, int steps) {
  int parts;
  tk_compare(*state, build, &(tk_options){.ranks = 2, .steps = steps}, NULL, &parts);
  assert_true(parts >= 4);
  tk_compare(*state, build, &(tk_options){.ranks = 3}, NULL, &parts);
  assert_true(parts >= 3);
}

static void residuals(void **state) { both(state, resnet, 20); }
static void plain(void **state) { both(state, vgg, 20); }
static void depthwises(void **state) { both(state, depthwise, 5); }
static void solids(void **state) { both(state, solid, 0); }

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(residuals), cmocka_unit_test(plain), cmocka_unit_test(depthwises),
                                     cmocka_unit_test(solids)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* Training uses convolutions with larger error bounds, unless .strict excludes them. */
#include <clade/data.h>
#include <clade/train.h>

#include "plan_kit.h"

static clade_val network(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  x = clade_relu(g, clade_nn_conv2d(g, "conv", x, .out = 32, .kernel = {3, 3}, .pad = {1, 1}));
  return clade_nn_linear(g, "fc", clade_global_avg_pool2d(g, x), .out = classes);
}

/* One step, which must use Winograd's algorithm. */
static clade_status train(bool strict) {
  static const volatile int stop = 1;
  clade_dataset *images, *test;
  clade_vars *vars = NULL;
  clade_train_result result = {.size = sizeof result};
  OK(clade_dataset_open("digits", true, &images));
  OK(clade_dataset_open("digits", false, &test));
  clade_trainer trainer = {.size = sizeof trainer,
                           .model = network,
                           .train = images,
                           .test = test,
                           .stop = &stop,
                           .prefer = "conv2d=winograd",
                           .strict = strict};
  clade_status status = clade_train(&trainer, &result, &vars);
  if (status == CLADE_OK) assert_int_equal(result.steps, 1);
  clade_vars_release(vars);
  clade_train_result_free(&result);
  clade_dataset_release(images);
  clade_dataset_release(test);
  return status;
}

static void test_default(void **state) {
  (void)state;
  OK(train(false));
}

static void test_strict(void **state) {
  (void)state;
  refused(train(true), CLADE_NOT_FOUND, "it has an error bound of its own");
}

/* All layouts of a convolution's weights are available: three for the forward kernels, three for the data gradient,
 * and dense for the update. */
static void test_layouts(void **state) {
  (void)state;
  clade_device *device;
  clade_graph *g;
  clade_func *func;
  char *text;
  OK(clade_device_find(NULL, &device));
  OK(clade_graph_new(&g));
  clade_graph_train(g, true);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 32, 16, 16));
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(2));
  x = clade_nn_conv2d(g, "first", x, .out = 32, .kernel = {3, 3}, .pad = {1, 1});
  clade_val loss = clade_cross_entropy(g, network(g, x, 10, NULL), y);
  OK(clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 0.01)));
  clade_output(g, "loss", loss);
  OK(clade_compile(g, device, &func));
  OK(clade_func_explain(func, &text));
  assert_non_null(strstr(text, "\nconv2d_data "));
  assert_null(strstr(text, "its layouts are not possible here"));
  clade_text_free(text);
  clade_func_release(func);
  clade_graph_release(g);
  clade_device_release(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_default), cmocka_unit_test(test_strict),
                                     cmocka_unit_test(test_layouts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

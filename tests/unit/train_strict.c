/* A training takes convolutions whose errors have a bound of their own, unless .strict keeps it from them. */
#include <clade/data.h>
#include <clade/train.h>

#include "plan_kit.h"

static clade_val network(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  x = clade_relu(g, clade_nn_conv2d(g, "conv", x, .out = 32, .kernel = {3, 3}, .pad = {1, 1}));
  return clade_nn_linear(g, "fc", clade_global_avg_pool2d(g, x), .out = classes);
}

/* One step, which has to be done by Winograd's algorithm. */
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
  refused(train(true), CLADE_NOT_FOUND, "its error has a bound of its own");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_default), cmocka_unit_test(test_strict)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Models on the stages of a pipeline: attention with a tied head, convolutions with batch normalization and dropout. */
#include "pipeline_kit.h"

static void perceptron(void **state) {
  for (int shares = 1; shares <= 8; shares++)
    compare(&(training){"mlp", mlp, GRID(4, shares, 1), 2, SGD(), 0, 0}, *state);
  for (int shares = 1; shares <= 8; shares += 3)
    compare(&(training){"mlp", mlp, GRID(2, shares, 2), 2, ADAM(), 0, 0}, *state);
}

static void attends(void **state) {
  compare(&(training){"transformer", transformer, GRID(2, 2, 1), 20, SGD(), 1e-3, 0}, *state);
  compare(&(training){"transformer", transformer, GRID(4, 8, 1), 20, ADAM(.clip_norm = 1), 1e-3, 0}, *state);
  compare(&(training){"transformer", transformer, GRID(2, 5, 2), 20, ADAM(), 1e-3, 0}, *state);
}

static void normalizes(void **state) {
  compare(&(training){"resnet", resnet, GRID(2, 3, 1), 20, ADAM(), 0, 0}, *state);
  compare(&(training){"resnet", resnet, GRID(4, 4, 1), 20, SGD(.clip_norm = 1), 1e-3, 0}, *state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(perceptron), cmocka_unit_test(attends),
                                     cmocka_unit_test(normalizes)};
  setenv("CLADE_PERSISTENT", "0", 1); /* to compile such kernels would take longer than all else */
  return cmocka_run_group_tests(tests, open_device, close_device);
}

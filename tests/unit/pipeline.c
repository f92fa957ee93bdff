/* Training on pipeline stages against one rank with the same micro-batches. */
#include "pipeline_kit.h"

static void two_stages(void **state) { compare(&(training){"mlp", mlp, GRID(2, 4, 1), 3, SGD(), 0, 0}, *state); }

/* A number of micro-batches that is no multiple of the stages, and a gradient norm over all stages. */
static void interleaved(void **state) {
  compare(&(training){"mlp", mlp, GRID(2, 3, 2), 3, ADAM(.clip_norm = 0.5), 1e-5, 0}, *state);
}

static void few_micro_batches(void **state) {
  compare(&(training){"mlp", mlp, GRID(4, 2, 1), 3, ADAM(.loss_scale = 64, .ema = 0.9), 0, 0}, *state);
}

/* Without derivatives; and a pipeline of one stage. */
static void computes(void **state) {
  compare(&(training){"mlp", mlp, GRID(2, 3, 1), 2, {0}, 0, 0}, *state);
  compare(&(training){"mlp", mlp, GRID(1, 2, 2), 2, SGD(), 0, 0}, *state);
}

/* Other ranks end with a message about the abort. */
static void fails(void **state) {
  const training t = {"mlp", mlp, GRID(3, 2, 1), 3, SGD(), 0, 1};
  current = &t;
  run_ranks(3, *state, train_stage, NULL);
  for (int s = 0; s < 3; s++) clade_vars_release(of_stage[s].vars);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_stages), cmocka_unit_test(interleaved),
                                     cmocka_unit_test(few_micro_batches), cmocka_unit_test(computes),
                                     cmocka_unit_test(fails)};
  setenv("CLADE_PERSISTENT", "0", 1); /* compiling persistent kernels would dominate the time */
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* The generated digits are a meaningful task: LeNet-5 learns them within three epochs, and logistic regression is at
 * least five points worse. */
#include <stdio.h>

#include "check.h"
#include "models/models.h"

static clade_val logistic(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  return clade_nn_linear(g, "fc", clade_flatten(g, x, 1), .out = classes);
}

/* `path`: where to store the weights, or NULL. */
static double train(clade_model_fn *model, const char *name, const char *path) {
  clade_dataset *images, *test;
  clade_vars *vars;
  clade_train_result result = {.size = sizeof result};
  CHECK(clade_dataset_open("digits", true, &images));
  CHECK(clade_dataset_open("digits", false, &test));
  clade_trainer trainer = {.size = sizeof trainer, .model = model, .train = images, .test = test, .seed = 42};
  CHECK(clade_train(&trainer, &result, &vars));
  if (path) CHECK(clade_vars_save(vars, path, .weights_only = true));
  clade_vars_release(vars);
  printf("%s: %.4f after %lld steps, %.0f images/s, first step after %.1f s\n", name, result.test_accuracy,
         (long long)result.steps, result.images_per_s, result.first_step_seconds);
  clade_train_result_free(&result);
  clade_dataset_release(images);
  clade_dataset_release(test);
  return result.test_accuracy;
}

int main(int argc, char **argv) {
  double network = train(lenet5, "LeNet-5", argc > 1 ? argv[1] : NULL),
         plain = train(logistic, "logistic regression", NULL);
  EXPECT(network >= 0.97);
  EXPECT(plain <= network - 0.05);
  return 0;
}

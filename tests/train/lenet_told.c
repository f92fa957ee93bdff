/* Trains LeNet-5 on Fashion-MNIST with plain SGD and a cosine schedule, and exports what another library needs to do
 * the same: the initial weights and the samples of every batch. Prints results as JSON. lenet_told DIR SEED EPOCHS */
#include <inttypes.h>
#include <stdio.h>

#include "check.h"
#include "models/models.h"

enum { BATCH = 64, TOLD = 20 };
static const double RATE = 0.05;

static char path_of[1024];
static const char *path(const char *directory, const char *name) {
  snprintf(path_of, sizeof path_of, "%s/%s", directory, name);
  return path_of;
}

/* Initial values depend on seed and name only, so these are the ones that the training starts with. */
static void leave_weights(const char *directory, uint64_t seed) {
  clade_device *device;
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
  CHECK(clade_device_find(NULL, &device));
  CHECK(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 1, 28, 28));
  clade_output(g, "y", lenet5(g, x, 10, NULL));
  CHECK(clade_compile(g, device, &func));
  CHECK(clade_vars_new(func, seed, &vars));
  CHECK(clade_vars_save(vars, path(directory, "initial.safetensors")));
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  clade_device_release(device);
}

static void leave_order(const char *directory, clade_dataset *images, uint64_t seed, int64_t steps) {
  clade_loader *loader;
  clade_batch batch = {.size = sizeof batch};
  FILE *file = fopen(path(directory, "order.i64"), "wb");
  EXPECT(file);
  CHECK(clade_loader_new(images, &loader, .batch = BATCH, .seed = seed, .shuffle = true, .drop_last = true));
  for (int64_t i = 0; i < steps; i++) {
    CHECK(clade_loader_next(loader, &batch));
    EXPECT(fwrite(batch.samples, sizeof *batch.samples, BATCH, file) == BATCH);
  }
  clade_loader_free(loader);
  EXPECT(fclose(file) == 0);
}

static void observe(void *user, const clade_train_event *event) {
  double *losses = user;
  if (event->kind == CLADE_TRAIN_STEP && event->step <= TOLD) losses[event->step - 1] = event->loss;
}

int main(int argc, char **argv) {
  EXPECT(argc == 4);
  const char *directory = argv[1];
  double losses[TOLD] = {0};
  int64_t steps, epoch_steps;
  clade_dataset *images, *test;
  clade_train_result result = {.size = sizeof result};
  CHECK(clade_dataset_open("fashion-mnist", true, &images));
  CHECK(clade_dataset_open("fashion-mnist", false, &test));
  clade_trainer trainer = {.size = sizeof trainer,
                           .model = lenet5,
                           .train = images,
                           .test = test,
                           .batch = BATCH,
                           .epochs = atoi(argv[3]),
                           .seed = strtoull(argv[2], NULL, 10),
                           .optimizer = clade_sgd(.lr = RATE),
                           .observe = observe,
                           .observe_user = losses};
  CHECK(clade_train_steps(&trainer, &epoch_steps, &steps));
  trainer.schedule = clade_cosine(.steps = steps);
  leave_weights(directory, trainer.seed);
  leave_order(directory, images, trainer.seed, steps);
  CHECK(clade_train(&trainer, &result, NULL));
  printf("{\"batch\": %d, \"rate\": %g, \"steps\": %" PRId64 ", \"seconds_per_step\": %.9g, \"test_accuracy\": %.9g, ",
         BATCH, RATE, steps, BATCH / result.images_per_s, result.test_accuracy);
  for (int i = 0; i < TOLD; i++) printf("%s%.9g", i ? ", " : "\"losses\": [", losses[i]);
  printf("]}\n");
  clade_train_result_free(&result);
  clade_dataset_release(images);
  clade_dataset_release(test);
  return 0;
}

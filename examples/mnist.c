/* Trains LeNet-5 on images of digits, and says how good it became. mnist [SET [EPOCHS]] */
#include <stdio.h>
#include <stdlib.h>

#include <clade/clade.h>

static clade_val model(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_val h = clade_nn_conv2d(g, "conv1", x, .out = 6, .kernel = {5, 5}, .pad = {2, 2});
  h = clade_max_pool2d(g, clade_relu(g, h), .kernel = {2, 2});
  h = clade_nn_conv2d(g, "conv2", h, .out = 16, .kernel = {5, 5});
  h = clade_max_pool2d(g, clade_relu(g, h), .kernel = {2, 2});
  h = clade_relu(g, clade_nn_linear(g, "fc1", clade_flatten(g, h, 1), .out = 120));
  h = clade_relu(g, clade_nn_linear(g, "fc2", h, .out = 84));
  return clade_nn_linear(g, "fc3", h, .out = classes);
}

static void show(void *user, const clade_train_event *e) {
  (void)user;
  if (e->kind == CLADE_TRAIN_EPOCH)
    printf("epoch %d/%d: loss %.4f, test accuracy %.4f\n", e->epoch, e->epochs, e->loss, e->test_accuracy);
}

static clade_status train(const char *set, int epochs) {
  clade_dataset *images = NULL, *test = NULL;
  clade_train_result result = {.size = sizeof result};
  clade_status status = clade_dataset_open(set, true, &images);
  if (status == CLADE_OK) status = clade_dataset_open(set, false, &test);
  if (status == CLADE_OK) {
    clade_trainer trainer = {
        .size = sizeof trainer,
        .model = model,
        .train = images,
        .test = test,
        .epochs = epochs,
        .optimizer = clade_adam(.lr = 1e-3),
        .seed = 42,
        .observe = show,
    };
    status = clade_train(&trainer, &result, NULL);
  }
  if (status == CLADE_OK)
    printf("%.2f %% right after %lld steps, %.0f images/s\n", 100 * result.test_accuracy, (long long)result.steps,
           result.images_per_s);
  clade_train_result_free(&result);
  clade_dataset_release(images);
  clade_dataset_release(test);
  return status;
}

int main(int argc, char **argv) {
  if (train(argc > 1 ? argv[1] : "digits", argc > 2 ? atoi(argv[2]) : 3) == CLADE_OK) return 0;
  fprintf(stderr, "%s\n", clade_last_error());
  return 1;
}

/* A custom training loop: one func is one step, and the program decides what happens between steps. This one halves
 * the learning rate when the loss stops falling, and tests with the current weights. custom_loop [device] */
#include "check.h"

enum { BATCH = 50, STEPS = 120, LOOK = 30 };

static clade_val model(clade_graph *g, clade_val x) {
  clade_val h = clade_relu(g, clade_nn_linear(g, "hidden", clade_flatten(g, x, 1), .out = 32));
  return clade_nn_linear(g, "last", h, .out = 10);
}

/* Input, labels and the model, common to both graphs. */
static clade_val begin(clade_graph **g, clade_val *y) {
  CHECK(clade_graph_new(g));
  clade_val x = clade_input(*g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 1, 28, 28));
  *y = clade_input(*g, "y", CLADE_I32, CLADE_SHAPE(BATCH));
  return x;
}

static clade_func *build_step(clade_device *device) {
  clade_graph *g;
  clade_func *func;
  clade_val y, x = begin(&g, &y);
  clade_graph_train(g, true);
  clade_val loss = clade_cross_entropy(g, model(g, x), y);
  clade_output(g, "loss", loss);
  CHECK(clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 0.1, .momentum = 0.9)));
  CHECK(clade_compile(g, device, &func));
  clade_graph_release(g);
  return func;
}

static clade_func *build_test(clade_device *device) {
  clade_graph *g;
  clade_func *func;
  clade_val y, x = begin(&g, &y);
  clade_output(g, "right", clade_top_k_count(g, model(g, x), y, 1));
  CHECK(clade_compile(g, device, &func));
  clade_graph_release(g);
  return func;
}

static clade_ticket execute(clade_run *run, const clade_batch *batch) {
  clade_ticket ticket;
  CHECK(clade_execute(
      run,
      CLADE_FEEDS({"x", batch->x, sizeof(float[BATCH * 28 * 28]), NULL}, {"y", batch->y, sizeof(int32_t[BATCH]), NULL}),
      &ticket));
  return ticket;
}

/* Mean loss of the next LOOK steps. */
static float train(clade_run *run, clade_loader *loader) {
  float sum = 0;
  for (int i = 0; i < LOOK; ++i) {
    clade_batch batch = {.size = sizeof batch};
    float loss;
    CHECK(clade_loader_next(loader, &batch));
    CHECK(clade_read(run, execute(run, &batch), "loss", &loss, sizeof loss));
    sum += loss;
  }
  return sum / LOOK;
}

/* Fraction of test images that are classified correctly. */
static float test(clade_run *run, clade_dataset *images) {
  clade_loader *loader;
  clade_batch batch = {.size = sizeof batch};
  int32_t right, all_right = 0, all = 0;
  CHECK(clade_loader_new(images, &loader, .batch = BATCH, .epochs = 1));
  for (CHECK(clade_loader_next(loader, &batch)); batch.n; CHECK(clade_loader_next(loader, &batch))) {
    CHECK(clade_read(run, execute(run, &batch), "right", &right, sizeof right));
    all_right += right;
    all += batch.n;
  }
  clade_loader_free(loader);
  return (float)all_right / (float)all;
}

int main(int argc, char **argv) {
  clade_device *device;
  clade_dataset *train_images, *test_images;
  clade_loader *loader;
  clade_vars *vars;
  clade_run *step, *check;
  float rate = 0.1f, before = 1e9f;
  CHECK(clade_device_find(argc > 1 ? argv[1] : NULL, &device));
  CHECK(clade_dataset_open("digits", true, &train_images));
  CHECK(clade_dataset_open("digits", false, &test_images));
  CHECK(clade_loader_new(train_images, &loader, .batch = BATCH, .seed = 1, .shuffle = true, .drop_last = true));
  clade_func *step_func = build_step(device), *test_func = build_test(device);
  CHECK(clade_vars_new(step_func, 42, &vars)); /* shared: the test graph's variables have the same names */
  CHECK(clade_run_new(step_func, vars, &step));
  CHECK(clade_run_new(test_func, vars, &check));

  for (int done = 0; done < STEPS; done += LOOK) {
    float loss = train(step, loader);
    printf("after %d steps: loss %.3f, %.1f %% right, learning rate %g\n", done + LOOK, (double)loss,
           100 * (double)test(check, test_images), (double)rate);
    if (loss > 0.9f * before) CHECK(clade_vars_set(vars, "optimizer.lr", &(float){rate /= 2}, sizeof rate));
    before = loss;
  }
  EXPECT(test(check, test_images) > 0.5f);

  clade_run_free(step);
  clade_run_free(check);
  clade_vars_release(vars);
  clade_func_release(step_func);
  clade_func_release(test_func);
  clade_loader_free(loader);
  clade_dataset_release(train_images);
  clade_dataset_release(test_images);
  clade_device_release(device);
  return 0;
}

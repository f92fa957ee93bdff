/* clade_train on several devices of one process: the same bits as one graph with all shares, threads, failures of
 * one device, stopping and resuming. Tiny sets and models; all devices are the same one. */
#include <math.h>
#include <time.h>

#include <clade/clade.h>

#include "io_kit.h"
#include "base/json.h"
#include "train/internal.h"

enum { IMAGES = 32, CLASSES = 4, VALUES = 8, BATCH = 8, EPOCHS = 2, HIDDEN = 6, MOST = 4 };

/* ---- dataset and model ---- */
static int bad = -1; /* the image with a NaN; -1: none */

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  (void)user;
  for (int i = 0; i < VALUES; i++) x[i] = sinf((float)(index * VALUES + i)) + (i / 2 == index % CLASSES ? 1 : 0);
  if (index == bad) x[3] = NAN;
  *label = (int32_t)(index % CLASSES);
  return CLADE_OK;
}

static clade_dataset *set_new(int64_t count) {
  clade_dataset *set;
  const clade_dataset_def def = {
      .size = sizeof def, .count = count, .classes = CLASSES, .channels = 1, .height = 1, .width = VALUES, .get = get};
  OK(clade_dataset_new(&def, NULL, &set));
  return set;
}

static atomic_int inside, entered; /* in the model function */
static atomic_bool together;
static int refused_rows = -1; /* batch size for which the model fails */

static clade_val model(clade_graph *g, clade_val x, int classes, void *user) {
  clade_type type;
  (void)user;
  if (atomic_fetch_add(&inside, 1)) atomic_store(&together, true);
  atomic_fetch_add(&entered, 1);
  nanosleep(&(struct timespec){0, 1000000}, NULL);
  const bool known = clade_val_type(g, x, &type) == CLADE_OK;
  clade_val h = clade_nn_linear(g, "fc1", clade_flatten(g, x, 1), .out = HIDDEN);
  h = clade_nn_dropout(g, "drop", clade_relu(g, clade_nn_batch_norm(g, "bn", h)), .p = 0.25);
  h = clade_nn_linear(g, "fc2", h, .out = known && type.shape.dim[0] == refused_rows ? classes + 1 : classes);
  atomic_fetch_sub(&inside, 1);
  return h;
}

/* ---- trainings ---- */
static volatile int stop;
static int64_t stop_at;
static char changed[512];
static int told[MOST]; /* rows */
static bool measured;
static void observe(void *user, const clade_train_event *e) {
  assert_true(pthread_equal(*(const pthread_t *)user, pthread_self()));
  if (e->kind == CLADE_TRAIN_STEP && e->step == stop_at) stop = 1;
  if (e->kind != CLADE_TRAIN_BEGIN) return;
  snprintf(changed, sizeof changed, "%s", e->changed ? e->changed : "");
  memcpy(told, e->rows, (size_t)e->ranks * sizeof *told);
  measured = e->split_measured;
}

static clade_device *device;
static clade_train_result done;
static clade_vars *trained; /* by the last training */
static clade_status train_on(int n, clade_trainer t) {
  clade_device *devices[MOST + 1];
  pthread_t self = pthread_self();
  for (int i = 0; i <= MOST; i++) devices[i] = device;
  clade_vars_release(trained);
  t.size = sizeof t;
  t.model = model;
  t.train = set_new(IMAGES);
  t.test = set_new(CLASSES);
  t.n_devices = n;
  t.devices = devices;
  t.observe = observe;
  t.observe_user = &self;
  t.stop = &stop;
  if (!t.batch) t.batch = BATCH;
  if (!t.epochs) t.epochs = EPOCHS;
  if (!t.optimizer.rule) t.optimizer = clade_adam(.lr = 0.01);
  stop = 0;
  done = (clade_train_result){.size = sizeof done};
  const clade_status status = clade_train(&t, &done, &trained);
  clade_train_result_free(&done);
  clade_dataset_release(t.train);
  clade_dataset_release(t.test);
  return status;
}
#define TRAIN_ON(n, ...) train_on(n, (clade_trainer){__VA_ARGS__})

/* ---- against one graph with all shares ---- */
static clade_val share(clade_graph *g, int i, int rows) {
  char x[8], y[8];
  snprintf(x, sizeof x, "x%d", i);
  snprintf(y, sizeof y, "y%d", i);
  clade_graph_share(g, i);
  clade_val in = clade_input(g, x, CLADE_F32, CLADE_SHAPE(rows, 1, 1, VALUES));
  clade_val label = clade_input(g, y, CLADE_I32, CLADE_SHAPE(rows));
  clade_val loss = clade_cross_entropy(g, model(g, in, CLASSES, NULL), label, .ignore = true, .ignore_index = -1);
  clade_graph_share(g, 0);
  return clade_mul(g, loss, clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)rows / BATCH));
}

static clade_val in_pairs(clade_graph *g, int n, const clade_val *part) {
  int half = 1;
  if (n == 1) return *part;
  while (2 * half < n) half *= 2;
  return clade_add(g, in_pairs(g, half, part), in_pairs(g, n - half, part + half));
}

static void step(clade_run *run, const clade_batch *batch, int n, const int *rows) {
  clade_feed feeds[2 * MOST];
  char names[2 * MOST][8];
  for (int i = 0, first = 0; i < n; first += rows[i++]) {
    snprintf(names[2 * i], sizeof *names, "x%d", i);
    snprintf(names[2 * i + 1], sizeof *names, "y%d", i);
    feeds[2 * i] =
        (clade_feed){names[2 * i], batch->x + first * VALUES, (size_t)rows[i] * VALUES * sizeof(float), NULL};
    feeds[2 * i + 1] = (clade_feed){names[2 * i + 1], batch->y + first, (size_t)rows[i] * sizeof *batch->y, NULL};
  }
  OK(clade_execute(run, 2 * n, feeds, NULL));
  OK(clade_wait(run, 0));
}

static void by_hand(int n, const int *rows, char sha[65], float mean[HIDDEN]) {
  clade_val losses[MOST];
  clade_dataset *set = set_new(IMAGES);
  clade_loader *loader;
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  OK(clade_graph_new(&g));
  clade_graph_train(g, true);
  for (int i = 0; i < n; i++) losses[i] = share(g, i, rows[i]);
  OK(clade_minimize(g, in_pairs(g, n, losses), .optimizer = clade_adam(.lr = 0.01)));
  OK(clade_compile(g, device, &func));
  OK(clade_vars_new(func, 3, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_loader_new(set, &loader, .batch = BATCH, .seed = 3, .shuffle = true, .drop_last = true));
  for (int i = 0; i < EPOCHS * IMAGES / BATCH; i++) {
    clade_batch batch = {.size = sizeof batch};
    OK(clade_loader_next(loader, &batch));
    step(run, &batch, n, rows);
  }
  OK(clade_vars_sha256(vars, sha));
  OK(clade_vars_get(vars, "bn.running_mean", mean, HIDDEN * sizeof *mean));
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  clade_loader_free(loader);
  clade_dataset_release(set);
}

static void test_bits(void **state) {
  static const struct {
    int n, rows[MOST];
    double split[MOST];
  } cases[] = {{3, {3, 3, 2}, {0}}, {4, {2, 2, 2, 2}, {0}}, {2, {6, 2}, {3, 1}}};
  (void)state;
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    char sha[65];
    float mean[HIDDEN], ours[HIDDEN];
    const int n = cases[i].n;
    by_hand(n, cases[i].rows, sha, mean);
    OK(TRAIN_ON(n, .seed = 3, .split = cases[i].split[0] > 0 ? cases[i].split : NULL));
    assert_string_equal(done.weights_sha256, sha);
    OK(clade_vars_get(trained, "bn.running_mean", ours, sizeof ours));
    assert_memory_equal(ours, mean, sizeof mean);
    assert_int_equal(done.steps, EPOCHS * IMAGES / BATCH);
  }
}

/* Optimizer state on two devices, and synchronized statistics. */
static void test_of_ranks(void **state) {
  char sha[65];
  (void)state;
  OK(TRAIN_ON(2, .seed = 3));
  memcpy(sha, done.weights_sha256, sizeof sha);
  for (clade_shard shard = CLADE_SHARD_OPTIMIZER; shard <= CLADE_SHARD_GRADIENTS; shard++) {
    OK(TRAIN_ON(2, .seed = 3, .shard = shard));
    assert_string_equal(done.weights_sha256, sha);
  }
  OK(TRAIN_ON(2, .seed = 3, .sync_batch_norm = true));
  assert_string_not_equal(done.weights_sha256, sha);
}

/* ---- shares by speed ---- */
static void check_shares(int n, const double *speed, int batch, const double *expected) {
  double shares[MOST], speeds[MOST];
  memcpy(speeds, speed, sizeof speeds);
  clade__train_shares(n, batch, speeds, shares);
  for (int i = 0; i < n; i++)
    if (shares[i] != expected[i]) fail_msg("batch %d: share %d is %g instead of %g", batch, i, shares[i], expected[i]);
}

static void test_shares(void **state) {
  static const struct {
    int n, batch;
    double speed[MOST], shares[MOST];
  } cases[] = {{2, 64, {10, 10}, {8, 8}},
               {2, 64, {10, 9}, {8, 8}}, /* noise */
               {2, 64, {9, 10}, {8, 8}},
               {3, 64, {10, 9.7, 10.2}, {8, 8, 8}},
               {3, 64, {9.7, 10, 10.2}, {8, 8, 8}},
               {2, 64, {3, 1}, {12, 4}},
               {2, 64, {3.1, 1}, {12, 4}},
               {2, 64, {1000, 1}, {15, 1}},
               {4, 64, {1000, 1, 1, 1}, {29, 1, 1, 1}},
               {3, 8, {1, 1.02, 1.01}, {3, 3, 2}}, /* rounding to rows */
               {3, 3, {1, 5, 100}, {1, 1, 1}},
               {1, 7, {5}, {7}}};
  (void)state;
  for (size_t i = 0; i < CLADE_COUNT(cases); i++)
    check_shares(cases[i].n, cases[i].speed, cases[i].batch, cases[i].shares);
}

/* Measuring has no side effects, and a resumed training keeps the shares. */
static void test_split_by_speed(void **state) {
  double same[MOST];
  int first[MOST];
  char sha[65];
  (void)state;
  OK(TRAIN_ON(3, .seed = 3, .split_auto = true, .epochs = 1, .checkpoint_dir = io_path("auto")));
  assert_true(measured);
  assert_int_equal(told[0] + told[1] + told[2], BATCH);
  memcpy(first, told, sizeof first);
  memcpy(sha, done.weights_sha256, sizeof sha);
  for (int i = 0; i < 3; i++) same[i] = told[i];
  OK(TRAIN_ON(3, .seed = 3, .split = same, .epochs = 1));
  assert_false(measured);
  assert_string_equal(done.weights_sha256, sha);
  OK(TRAIN_ON(3, .seed = 3, .split_auto = true, .checkpoint_dir = io_path("auto"), .resume = true));
  assert_false(measured);
  assert_memory_equal(told, first, 3 * sizeof *told);
  memcpy(sha, done.weights_sha256, sizeof sha);
  OK(TRAIN_ON(3, .seed = 3, .split = same));
  assert_string_equal(done.weights_sha256, sha);
  OK(TRAIN_ON(2, .seed = 3, .split_auto = true, .checkpoint_dir = io_path("auto"), .resume = true, .epochs = 3));
  assert_true(measured);
  OK(TRAIN_ON(1, .split_auto = true));
  assert_false(measured);
  assert_int_equal(told[0], BATCH);
  REFUSED(INVALID, TRAIN_ON(2, .split_auto = true, .split = same), ".split and .split_auto: set one of them");
}

/* ---- threads ---- */
static void test_one_at_a_time(void **state) {
  (void)state;
  atomic_store(&entered, 0);
  OK(TRAIN_ON(MOST, .epochs = 1));
  assert_true(atomic_load(&entered) >= MOST);
  assert_false(atomic_load(&together));
}

static void test_failures(void **state) {
  (void)state;
  REFUSED(INVALID, TRAIN_ON(3, .batch = 2), "a batch of 2 leaves nothing for device 2 of 3");
  REFUSED(INVALID, TRAIN_ON(17, .batch = 2), "17 devices; up to 16");
  REFUSED(INVALID, TRAIN_ON(2, .split = (double[]){1, -1}), "share 1 of the batch is -1");
  refused_rows = 2; /* the second device's */
  REFUSED(BAD_SHAPE, TRAIN_ON(2, .split = (double[]){3, 1}), "device 1 of 2, ");
  assert_non_null(strstr(clade_last_error(), "gives f32[2, 5]; logits [2, 4] are expected"));
  refused_rows = 6;
  REFUSED(BAD_SHAPE, TRAIN_ON(2, .split = (double[]){3, 1}), "gives f32[6, 5]; logits [6, 4] are expected");
  assert_null(strstr(clade_last_error(), "device 1"));
  refused_rows = -1;
  assert_null(trained);
}

/* On whichever device the image is. */
static void test_images_that_are_not_finite(void **state) {
  int of_second = 0;
  (void)state;
  bad = 5;
  for (uint64_t seed = 0; seed < 4; seed++) {
    REFUSED(NOT_FINITE, TRAIN_ON(2, .seed = seed), "element 3 of image 5 is nan");
    of_second += strstr(clade_last_error(), "device 1 of 2") != NULL;
  }
  bad = -1;
  assert_true(of_second > 0 && of_second < 4);
  REFUSED(NOT_FINITE, TRAIN_ON(2, .epochs = 9, .optimizer = clade_sgd(.lr = 1e38)), "a smaller learning rate");
}

/* ---- stopping and resuming ---- */
/* The choices for the second device's step in the checkpoint. */
static json_type choices_of_second(const char *path) {
  clade_checkpoint *checkpoint;
  OK(clade_checkpoint_open(path, CLADE_CHECKPOINT_LATEST, &checkpoint));
  json_t *state = json_loads(clade_checkpoint_text(checkpoint), 0, NULL);
  const json_t *list = json_object_get(state, "choices");
  assert_int_equal(json_array_size(list), 3);
  const json_type type = json_typeof(json_array_get(list, 2));
  json_decref(state);
  clade_checkpoint_free(checkpoint);
  return type;
}

static void test_resume(void **state) {
  char sha[65];
  (void)state;
  OK(TRAIN_ON(2, .split = (double[]){5, 3}));
  memcpy(sha, done.weights_sha256, sizeof sha);
  stop_at = 2;
  OK(TRAIN_ON(2, .split = (double[]){5, 3}, .checkpoint_dir = io_path("run")));
  stop_at = 0;
  assert_true(done.stopped);
  assert_int_equal(choices_of_second(io_path("run")), JSON_STRING); /* of different batch sizes */
  assert_in_range(done.steps, 3, EPOCHS * IMAGES / BATCH - 1);
  OK(TRAIN_ON(2, .split = (double[]){5, 3}, .checkpoint_dir = io_path("run"), .resume = true));
  assert_string_equal(done.weights_sha256, sha);
  assert_string_equal(changed, "");
  OK(TRAIN_ON(2, .checkpoint_dir = io_path("run"), .resume = true, .epochs = EPOCHS + 1));
  assert_non_null(strstr(changed, "split [4,4] (the checkpoint had [5,3])"));
  assert_int_equal(choices_of_second(io_path("run")), JSON_NULL);
  OK(TRAIN_ON(1, .checkpoint_dir = io_path("run"), .resume = true, .epochs = EPOCHS + 2));
  assert_non_null(strstr(changed, "ranks 1 (the checkpoint had 2)"));
  assert_null(strstr(changed, "split"));
}

static int set_up(void **state) {
  if (clade_device_find("pocl", &device) != CLADE_OK) return -1;
  return io_set_up(state);
}
static int tear_down(void **state) {
  clade_vars_release(trained);
  clade_device_release(device);
  return io_tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits),
                                     cmocka_unit_test(test_of_ranks),
                                     cmocka_unit_test(test_shares),
                                     cmocka_unit_test(test_split_by_speed),
                                     cmocka_unit_test(test_one_at_a_time),
                                     cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_images_that_are_not_finite),
                                     cmocka_unit_test(test_resume)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

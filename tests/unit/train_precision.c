/* clade_train in other precisions: losses that overflow in f16, with the same bits after resuming and on several
 * devices; changed precision and checkpoints; automatic precision. Tiny sets and models. */
#include <math.h>

#include <clade/clade.h>

#include "io_kit.h"
#include "base/json.h"

enum { IMAGES = 32, CLASSES = 4, VALUES = 8, BATCH = 8 };

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  (void)user;
  for (int i = 0; i < VALUES; i++) x[i] = (i / 2 == index % CLASSES ? 1 : 0.1f) * (float)(index + 1) / IMAGES;
  *label = (int32_t)(index % CLASSES);
  return CLADE_OK;
}

static clade_dataset *set_new(bool train) {
  clade_dataset *set;
  clade_dataset_def def = {.size = sizeof def,
                           .count = train ? IMAGES : CLASSES,
                           .classes = CLASSES,
                           .channels = 1,
                           .height = 1,
                           .width = VALUES,
                           .get = get};
  OK(clade_dataset_new(&def, NULL, &set));
  return set;
}

static clade_val model(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_val y = clade_nn_linear(g, "fc1", clade_flatten(g, x, 1), .out = 16);
  y = clade_relu(g, clade_nn_batch_norm(g, "bn", y));
  return clade_nn_linear(g, "fc2", clade_nn_dropout(g, "drop", y, .p = 0.25), .out = classes);
}

/* Gradients of its operand overflow in f16 until the scale has decreased. */
static clade_val steep(clade_graph *g, clade_val x, int classes, void *user) {
  return clade_mul(g, model(g, x, classes, user), clade_fill(g, CLADE_F32, CLADE_SCALAR, 1000));
}

/* The last layer's input overflows itself at any scale. */
static clade_val hopeless(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_val y = clade_nn_linear(g, "fc1", clade_flatten(g, x, 1), .out = 16);
  y = clade_mul(g, y, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1e30));
  return clade_nn_linear(g, "fc2", y, .out = classes);
}

static char changed[1024];
static double first_scale;
static bool measured;
static void observe(void *user, const clade_train_event *e) {
  (void)user;
  if (e->kind == CLADE_TRAIN_STEP && e->step == 1) first_scale = e->loss_scale;
  if (e->kind != CLADE_TRAIN_BEGIN) return;
  measured = e->precision_measured;
  snprintf(changed, sizeof changed, "%s", e->changed ? e->changed : "");
}

static clade_train_result done;
static clade_status train_as(clade_trainer t) {
  t.size = sizeof t;
  if (!t.model) t.model = steep;
  t.train = set_new(true);
  t.test = set_new(false);
  t.batch = BATCH;
  t.observe = observe;
  t.optimizer = clade_sgd(.lr = 1e-6, .momentum = 0.9);
  done = (clade_train_result){.size = sizeof done};
  clade_status status = clade_train(&t, &done, NULL);
  clade_train_result_free(&done);
  clade_dataset_release(t.train);
  clade_dataset_release(t.test);
  return status;
}
#define TRAIN(...) train_as((clade_trainer){__VA_ARGS__})

/* ---- f16 ---- */
static void test_overflow(void **state) {
  (void)state;
  OK(TRAIN(.precision = CLADE_F16, .epochs = 4));
  assert_int_equal(done.precision, CLADE_F16);
  assert_int_equal(done.steps, 16);
  assert_true(first_scale == 65536);
  assert_in_range(done.skipped, 3, 15);
  assert_true(done.loss_scale == ldexp(65536, -(int)done.skipped)); /* halved each time; the last step was finite */
  OK(TRAIN(.precision = CLADE_BF16, .epochs = 1));
  assert_int_equal(done.skipped, 0);
  assert_true(done.loss_scale == 1);
  OK(TRAIN(.epochs = 1));
  assert_int_equal(done.precision, CLADE_F32);
}

/* Both while steps are skipped and afterwards. */
static void test_resumed(void **state) {
  (void)state;
  const struct {
    int n_devices;
    clade_shard shard;
    const char *whole, *parts;
  } rows[] = {{1, CLADE_SHARD_NONE, "whole1", "parts1"},
              {2, CLADE_SHARD_NONE, "whole2", "parts2"},
              {2, CLADE_SHARD_OPTIMIZER, "whole3", "parts3"},
              {2, CLADE_SHARD_GRADIENTS, "whole4", "parts4"}};
  clade_device *device;
  char sha[65];
  OK(clade_device_find(NULL, &device));
  clade_device *devices[] = {device, device};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    const clade_trainer t = {
        .precision = CLADE_F16, .n_devices = rows[i].n_devices, .devices = devices, .shard = rows[i].shard, .ema = 0.9};
    clade_trainer one = t;
    one.checkpoint_dir = io_path(rows[i].whole);
    one.epochs = 4;
    OK(train_as(one));
    if (i > 1) assert_string_equal(done.weights_sha256, sha); /* for any ownership of parameters */
    strcpy(sha, done.weights_sha256);
    const int64_t skipped = done.skipped;
    for (int epochs = 1; epochs <= 4; epochs++) {
      one = t;
      one.checkpoint_dir = io_path(rows[i].parts);
      one.epochs = epochs;
      one.resume = true;
      OK(train_as(one));
      if (epochs == 1) assert_true(done.skipped == 4); /* no step has succeeded yet */
    }
    assert_string_equal(done.weights_sha256, sha);
    assert_int_equal(done.skipped, skipped);
  }
  clade_device_release(device);
}

/* Overflows that the scale cannot prevent are reported. */
static void test_hopeless(void **state) {
  (void)state;
  REFUSED(NOT_FINITE, TRAIN(.precision = CLADE_F16, .model = hopeless, .epochs = 9), "the loss is");
}

/* Gradients of skipped steps are no anomaly. */
static void test_anomaly(void **state) {
  (void)state;
  OK(TRAIN(.precision = CLADE_F16, .epochs = 4, .detect_anomaly = true));
  assert_in_range(done.skipped, 3, 15);
}

/* ---- checkpoints ---- */
static void test_changed(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", io_path("changes"));
#define AGAIN(...) TRAIN(.checkpoint_dir = dir, .resume = true, __VA_ARGS__)
  OK(TRAIN(.checkpoint_dir = dir, .epochs = 1));
  OK(AGAIN(.precision = CLADE_F16, .epochs = 5));
  assert_string_equal(changed, "epochs 5 (the checkpoint had 1), precision \"f16\" (the checkpoint had \"f32\")");
  const int64_t skipped = done.skipped;
  assert_true(skipped >= 3);
  OK(AGAIN(.precision = CLADE_BF16, .types = "fc2=f32", .epochs = 6)); /* which ignores the skipped steps */
  assert_non_null(strstr(changed, "precision \"bf16, fc2=f32\" (the checkpoint had \"f16\")"));
  assert_int_equal(done.skipped, skipped);
  OK(AGAIN(.epochs = 7));
  OK(AGAIN(.precision = CLADE_F16, .epochs = 8));
  assert_true(done.skipped >= skipped);
}

/* The faster precision is chosen; a resumed training keeps it. */
static void test_auto(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", io_path("auto"));
  OK(TRAIN(.checkpoint_dir = dir, .precision_auto = true, .epochs = 1, .model = model));
  assert_true(measured);
  assert_true(done.precision == CLADE_F32 || done.precision == CLADE_BF16);
  const clade_dtype taken = done.precision;
  OK(AGAIN(.precision_auto = true, .epochs = 2, .model = model));
  assert_false(measured);
  assert_int_equal(done.precision, taken);
}

/* Ranks agree on the measured precision, and synchronize batch normalization. */
static void test_devices(void **state) {
  (void)state;
  clade_device *device;
  OK(clade_device_find(NULL, &device));
  clade_device *devices[] = {device, device};
  OK(TRAIN(.n_devices = 2, .devices = devices, .precision_auto = true, .epochs = 1, .model = model));
  assert_true(measured);
  OK(TRAIN(.n_devices = 2, .devices = devices, .precision = CLADE_BF16, .sync_batch_norm = true, .epochs = 1));
  assert_int_equal(done.steps, 4);
  clade_device_release(device);
}

/* Normalization and dropout follow a layer. */
static void test_quantized(void **state) {
  (void)state;
  static const char layers[] = "fc1=i8:0.01,fc2=u8:0.02";
  clade_device *device;
  OK(TRAIN(.model = model, .quantization = layers, .epochs = 2, .freeze_ranges = 2));
  assert_int_equal(done.steps, 8);
  OK(clade_device_find(NULL, &device));
  clade_device *devices[] = {device, device};
  REFUSED(UNSUPPORTED, TRAIN(.model = model, .quantization = layers, .n_devices = 2, .devices = devices),
          "quantization-aware training on 2 devices; expected one");
  clade_device_release(device);
  REFUSED(INVALID, TRAIN(.quantization = layers, .precision = CLADE_BF16), "quantization-aware training in bf16");
  REFUSED(INVALID, TRAIN(.quantization = layers, .precision_auto = true), "in a precision that is measured");
  REFUSED(INVALID, TRAIN(.quantization = layers, .freeze_ranges = -1), ".freeze_ranges is -1");
  REFUSED(NOT_FOUND, TRAIN(.quantization = "fc3=u8:1"), "no layer \"fc3\" that can be quantized");
}

static void test_refused(void **state) {
  (void)state;
  REFUSED(INVALID, TRAIN(.precision = CLADE_I8), ".precision is i8; expected f32, bf16 or f16");
  REFUSED(INVALID, TRAIN(.precision = CLADE_F16, .precision_auto = true), "f16 and .precision_auto is set");
  REFUSED(NOT_FOUND, TRAIN(.precision = CLADE_F16, .types = "fc3=f32"), "types: \"fc3\"");
  REFUSED(INVALID, TRAIN(.types = "fc2=f32"), "the func computes in f32 alone");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_overflow), cmocka_unit_test(test_resumed),   cmocka_unit_test(test_hopeless),
      cmocka_unit_test(test_anomaly),  cmocka_unit_test(test_changed),   cmocka_unit_test(test_auto),
      cmocka_unit_test(test_devices),  cmocka_unit_test(test_quantized), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("train_precision", tests, io_set_up, io_tear_down);
}

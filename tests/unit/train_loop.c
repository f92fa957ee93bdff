/* clade_train: refusals before training, and resuming from checkpoints. Tiny sets and models. Over 400 lines: all cases
 * train the same tiny model. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include <clade/clade.h>

#include "io_kit.h"
#include "base/json.h"

enum { IMAGES = 32, CLASSES = 4, VALUES = 8, BATCH = 8 };

/* ---- datasets and models ---- */
static float other = 0; /* added to the images of sets created from now on */
static int bad = -1;    /* the image with a NaN; -1: none */
static int slow = 0;    /* milliseconds that each image takes */

typedef struct pictures {
  float more;
  int bad;
} pictures;

static clade_status get(void *user, int64_t index, float *x, int32_t *label) {
  const pictures *p = user;
  if (slow) nanosleep(&(struct timespec){.tv_nsec = slow * 1000000L}, NULL);
  for (int i = 0; i < VALUES; i++) x[i] = p->more + (i / 2 == index % CLASSES ? 1 : 0.1f) * (float)(index + 1) / IMAGES;
  if (index == p->bad) x[3] = NAN;
  *label = (int32_t)(index % CLASSES);
  return CLADE_OK;
}

static clade_dataset *set_new(bool train) {
  clade_dataset *set;
  pictures *p = malloc(sizeof *p);
  assert_non_null(p);
  *p = (pictures){other, train ? bad : -1};
  clade_dataset_def def = {.size = sizeof def,
                           .count = train ? IMAGES : CLASSES,
                           .classes = CLASSES,
                           .channels = 1,
                           .height = 1,
                           .width = VALUES,
                           .get = get,
                           .release = free};
  OK(clade_dataset_new(&def, p, &set));
  return set;
}

static clade_val model(clade_graph *g, clade_val x, int classes, void *user) {
  const int *more = user;
  return clade_nn_linear(g, "fc", clade_flatten(g, x, 1), .out = classes + (more ? *more : 0));
}
static clade_val twice(clade_graph *g, clade_val x, int classes, void *user) {
  return model(g, clade_add(g, x, x), classes, user);
}
static clade_val flat(clade_graph *g, clade_val x, int classes, void *user) {
  return clade_sum(g, model(g, x, classes, user), .axes = {1}, .n_axes = 1);
}
static clade_val nothing(clade_graph *g, clade_val x, int classes, void *user) {
  (void)g, (void)x, (void)classes, (void)user;
  return (clade_val){0};
}

static char changed[1024];
static bool resumed, fill_disk; /* fill_disk: files cannot grow after the first epoch */
static void observe(void *user, const clade_train_event *e) {
  (void)user;
  if (e->kind == CLADE_TRAIN_EPOCH && fill_disk) setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, RLIM_INFINITY});
  if (e->kind != CLADE_TRAIN_BEGIN) return;
  resumed = e->resumed;
  snprintf(changed, sizeof changed, "%s", e->changed ? e->changed : "");
}

static clade_train_result done;
static clade_vars *trained; /* by the last training */
static clade_status train_as(clade_trainer t) {
  clade_vars_release(trained);
  t.size = sizeof t;
  if (!t.model) t.model = model;
  t.train = set_new(true);
  t.test = set_new(false);
  t.batch = BATCH;
  t.observe = observe;
  if (!t.epochs) t.epochs = 1;
  if (!t.optimizer.rule) t.optimizer = clade_sgd(.lr = 0.1);
  done = (clade_train_result){.size = sizeof done};
  clade_status status = clade_train(&t, &done, &trained);
  clade_train_result_free(&done);
  clade_dataset_release(t.train);
  clade_dataset_release(t.test);
  return status;
}
#define TRAIN(...) train_as((clade_trainer){__VA_ARGS__})

static float rate(void) {
  float lr;
  OK(clade_vars_get(trained, "optimizer.lr", &lr, sizeof lr));
  return lr;
}

/* ---- immediate refusals ---- */
static void test_logits(void **state) {
  (void)state;
  int more = 1, fewer = -2;
  REFUSED(BAD_SHAPE, TRAIN(.model_user = &more), "gives f32[8, 5]; logits [8, 4] are expected");
  REFUSED(BAD_SHAPE, TRAIN(.model_user = &fewer), "gives f32[8, 2]; logits [8, 4] are expected");
  REFUSED(BAD_SHAPE, TRAIN(.model = flat), "gives f32[8]; logits [8, 4] are expected");
  REFUSED(INVALID, TRAIN(.model = nothing), "clade_train: the model's logits");
}

static void test_options(void **state) {
  (void)state;
  REFUSED(INVALID, TRAIN(.n_devices = 3), ".n_devices is 3 and .devices is NULL");
  REFUSED(INVALID, TRAIN(.resume = true, .overwrite = true, .checkpoint_dir = io_path("both")), "set one of them");
  REFUSED(IO, TRAIN(.trace = io_path("none/trace.json")), "none/trace.json cannot be written");
  REFUSED(INVALID, TRAIN(.schedule = clade_cosine_(NULL)), "schedule: .steps is 0");
  REFUSED(INVALID, TRAIN(.schedule = clade_one_cycle_(NULL)), "schedule: .steps is 0");
}

/* ---- training from given weights ---- */
static clade_val narrow(clade_graph *g, clade_val x, int classes, void *user) {
  const int64_t *width = user;
  clade_val h = clade_relu(g, clade_nn_linear(g, "hidden", clade_flatten(g, x, 1), .out = *width));
  return clade_nn_linear(g, "fc", h, .out = classes);
}

static void test_weights(void **state) {
  (void)state;
  int64_t small = 3, large = 8;
  char before[65];
  float hidden[3 * VALUES];
  OK(TRAIN(.model = narrow, .model_user = &small));
  clade_vars *weights = clade_vars_retain(trained);
  snprintf(before, sizeof before, "%s", done.weights_sha256);
  const char *dir = io_path("weights");
  OK(TRAIN(.model = narrow, .model_user = &large, .weights = weights, .begin_only = true, .checkpoint_dir = dir));
  assert_string_equal(done.weights_sha256, before);
  assert_int_equal(done.steps, 0);
  /* Resumes with those shapes, although the builder makes the wide model. */
  OK(TRAIN(.model = narrow, .model_user = &large, .checkpoint_dir = dir, .resume = true));
  assert_true(resumed);
  assert_string_not_equal(done.weights_sha256, before);
  OK(clade_vars_get(trained, "hidden.weight", hidden, sizeof hidden));
  clade_vars_release(weights);
  OK(TRAIN(.epochs = 1));
  weights = clade_vars_retain(trained);
  REFUSED(NOT_FOUND, TRAIN(.weights = weights, .model = narrow, .model_user = &large),
          ".weights: clade_vars_get: there is no variable \"hidden.weight\"");
  clade_vars_release(weights);
}

static void test_sparsity(void **state) {
  (void)state;
  float w[CLASSES * VALUES];
  REFUSED(INVALID, TRAIN(.pruned = (clade_prune_structure)7), ".pruned is 7");
  REFUSED(INVALID, TRAIN(.pruned = CLADE_PRUNE_WEIGHTS, .sparsity = 1), ".sparsity is 1");
  REFUSED(INVALID, TRAIN(.pruned = CLADE_PRUNE_2_4, .cubic = true), ".cubic is for weights that are pruned");
  for (int kind = 0; kind < 3; kind++) {
    const clade_optimizer rules[] = {clade_sgd(.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1),
                                     clade_adamw(.lr = 0.1, .weight_decay = 0.1), clade_rmsprop(.lr = 0.1)};
    OK(TRAIN(.pruned = kind ? CLADE_PRUNE_WEIGHTS : CLADE_PRUNE_2_4, .sparsity = 0.75, .cubic = kind == 2, .epochs = 4,
             .optimizer = rules[kind], .clip_norm = 1));
    OK(clade_vars_get(trained, "fc.weight", w, sizeof w));
    int zeros = 0;
    for (size_t i = 0; i < CLADE_COUNT(w); i++) zeros += w[i] == 0;
    assert_int_equal(zeros, kind ? 24 : 16);
  }
}

static void test_trace(void **state) {
  (void)state;
  OK(TRAIN(.trace = "/dev/full", .trace_from = 1, .trace_to = 2));
  assert_true(done.incomplete);
  assert_int_equal(done.steps, 4);
  OK(TRAIN(.trace = io_path("late.json"), .trace_from = 8, .trace_to = 9));
  assert_true(done.incomplete);
  OK(TRAIN(.trace = io_path("trace.json"), .trace_from = 1, .trace_to = 2));
  assert_false(done.incomplete);
}

/* The share of idle time follows the loader. */
static clade_val wide(clade_graph *g, clade_val x, int classes, void *user) {
  (void)user;
  clade_val h = clade_nn_linear(g, "first", clade_flatten(g, x, 1), .out = 1024);
  h = clade_nn_linear(g, "second", clade_relu(g, h), .out = 1024);
  h = clade_nn_linear(g, "third", clade_relu(g, h), .out = 1024);
  return clade_nn_linear(g, "last", clade_relu(g, h), .out = classes);
}

static void test_idle(void **state) {
  (void)state;
  OK(TRAIN(.model = wide));
  assert_true(done.trace_idle < 0);
  OK(TRAIN(.model = wide, .epochs = 2, .trace = io_path("busy.json"), .trace_from = 2, .trace_to = 6));
  const double busy = done.trace_idle;
  slow = 80;
  OK(TRAIN(.model = wide, .epochs = 2, .trace = io_path("idle.json"), .trace_from = 2, .trace_to = 6));
  slow = 0;
  assert_true(busy >= 0 && busy < 0.95);
  assert_true(done.trace_idle > busy && done.trace_idle > 0.5 && done.trace_idle <= 1);
}

static void test_logs(void **state) {
  (void)state;
  OK(TRAIN(.log_dir = io_path("logs"), .epochs = 2));
  assert_false(done.incomplete);
  signal(SIGXFSZ, SIG_IGN);
  fill_disk = true;
  clade_status status = TRAIN(.log_dir = io_path("full"), .epochs = 2);
  fill_disk = false;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
  OK(status);
  assert_true(done.incomplete);
  assert_int_equal(done.steps, 8);
}

static void test_images_that_are_not_finite(void **state) {
  (void)state;
  bad = 5;
  REFUSED(NOT_FINITE, TRAIN(.epochs = 1), "element 3 of image 5 is nan");
  REFUSED(NOT_FINITE, TRAIN(.detect_anomaly = true), "element 3 of image 5 is nan");
  bad = -1;
  REFUSED(NOT_FINITE, TRAIN(.epochs = 9, .optimizer = clade_sgd(.lr = 1e38)), "a smaller learning rate");
}

/* ---- directories ---- */
static void test_overwrite(void **state) {
  (void)state;
  char sha[65];
  const char *dir = "kept";
  OK(TRAIN(.checkpoint_dir = io_path(dir)));
  OK(clade_vars_sha256(trained, sha));
  REFUSED(DUPLICATE, TRAIN(.checkpoint_dir = io_path(dir), .seed = 1), "holds checkpoints up to step 4");
  OK(TRAIN(.checkpoint_dir = io_path(dir), .resume = true));
  assert_string_equal(done.weights_sha256, sha);
  assert_int_equal(remove(io_path("kept/step-0000000004.safetensors")), 0);
  REFUSED(DUPLICATE, TRAIN(.checkpoint_dir = io_path(dir), .seed = 1), "holds checkpoints up to step 4");
  OK(TRAIN(.checkpoint_dir = io_path(dir), .resume = true)); /* from the best, the only one left */
  assert_true(resumed);
  assert_string_equal(done.weights_sha256, sha);
  OK(TRAIN(.checkpoint_dir = io_path(dir), .overwrite = true, .seed = 1));
  assert_false(resumed);
  assert_string_not_equal(done.weights_sha256, sha);
}

static void test_what_changes(void **state) {
  (void)state;
  const char *dir = "changes";
  OK(TRAIN(.checkpoint_dir = io_path(dir)));
  OK(TRAIN(.checkpoint_dir = io_path(dir), .resume = true, .epochs = 2));
  assert_string_equal(changed, "epochs 2 (the checkpoint had 1)");
  assert_true(rate() == 0.1f);
  assert_int_equal(done.steps, 8);
  assert_int_equal(done.new_steps, 4);
  OK(TRAIN(.checkpoint_dir = io_path(dir), .resume = true, .epochs = 3,
           .optimizer = clade_sgd(.lr = 0.01, .weight_decay = 0.5), .clip_norm = 1, .clip_value = 2, .smoothing = 0.25,
           .schedule = clade_step_decay(.every = 2, .warmup = 3)));
  static const char *const told[] = {
      "lr 0.01 (the checkpoint had 0.1), schedule \"step: 0.1 each 2 steps, warm-up of 3 steps\"",
      "steps\" (the checkpoint had \"constant\"), epochs 3 (the checkpoint had 2)",
      "weight_decay 0.5 (the checkpoint had 0)",
      "clip_norm 1 (the checkpoint had 0)",
      "clip_value 2 (the checkpoint had 0)",
      "smoothing 0.25 (the checkpoint had 0)"};
  for (size_t i = 0; i < CLADE_COUNT(told); i++)
    if (!strstr(changed, told[i])) fail_msg("\"%s\" does not hold \"%s\"", changed, told[i]);
  assert_true(rate() == 0.01f);
}

static void test_what_must_not_change(void **state) {
  (void)state;
  const char *dir = "same";
  OK(TRAIN(.checkpoint_dir = io_path(dir)));
#define AGAIN(...) TRAIN(.checkpoint_dir = io_path(dir), .resume = true, .epochs = 2, __VA_ARGS__)
  other = 1;
  REFUSED(INVALID, AGAIN(.keep = 3), "it was trained on other images");
  other = 0;
  REFUSED(INVALID, AGAIN(.model = twice), "computes something else");
  REFUSED(INVALID, AGAIN(.model_name = "other"), "it was trained with model \"user\", this training has \"other\"");
  REFUSED(INVALID, AGAIN(.optimizer = clade_adam()), "it was trained with optimizer \"sgd\"");
  REFUSED(INVALID, AGAIN(.optimizer = clade_sgd(.momentum = 0.5)), "it was trained with optimizer_numbers");
  REFUSED(INVALID, AGAIN(.ema = 0.5), "it was trained with ema 0, this training has 0.5");
  OK(AGAIN(.keep = 3));
}

/* ---- contents of checkpoints ---- */
static json_t *state_of(const char *dir) {
  clade_checkpoint *checkpoint;
  OK(clade_checkpoint_open(dir, CLADE_CHECKPOINT_LATEST, &checkpoint));
  json_t *json = json_loads(clade_checkpoint_text(checkpoint), 0, NULL);
  clade_checkpoint_free(checkpoint);
  assert_non_null(json);
  return json;
}

/* Saves the same variables with another text, which is released. */
static void save_state(const char *path, json_t *json) {
  clade_checkpoint_dir *dir;
  char *text;
  OK(clade__json_print(json, JSON_COMPACT | JSON_REAL_PRECISION(17), &text));
  OK(clade_checkpoint_dir_open(path, &dir));
  OK(clade_checkpoint_save(dir, trained, 4, text));
  clade_checkpoint_dir_close(dir);
  clade__free(text);
  json_decref(json);
}

static void test_bad_fields(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", io_path("fields"));
  OK(TRAIN(.checkpoint_dir = dir));
  clade_vars *vars = clade_vars_retain(trained);
  const struct {
    const char *name;
    json_t *value;
    const char *words;
  } cases[] = {
      {"step", json_null(), "\"step\" is null; a whole number from 0 on is expected"},
      {"step", json_real(1.5), "\"step\" is 1.5; a whole number"},
      {"step", json_string("4"), "\"step\" is \"4\"; a whole number"},
      {"step", json_integer(-1), "\"step\" is -1; a whole number"},
      {"step", json_integer(0), "\"step\" is 0, and its variable optimizer.step 4"},
      {"step", NULL, "\"step\" is missing"},
      {"best", json_string("x"), "\"best\" is \"x\"; a number is expected"},
      {"pruned", json_string("half"), "\"pruned\" does not say how the model was pruned"},
      {"pruned", json_pack("{s:s, s:f, s:b}", "structure", "rows", "sparsity", 0.5, "cubic", 0), "\"pruned\""},
      {"pruned", json_pack("{s:s, s:f, s:b}", "structure", "weights", "sparsity", 1.0, "cubic", 0), "\"pruned\""},
      {"pruned", json_pack("{s:s, s:f, s:b}", "structure", "channels", "sparsity", 0.5, "cubic", 1), "\"pruned\""},
      {"format", json_integer(2), "does not say where a training stands"},
      {"course", json_null(), "it was trained with model none"}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    json_t *json = state_of(dir), *whole = json_deep_copy(json);
    if (cases[i].value)
      json_object_set_new(json, cases[i].name, cases[i].value);
    else
      json_object_del(json, cases[i].name);
    clade_vars_release(trained);
    trained = clade_vars_retain(vars);
    save_state(dir, json);
    clade_status status = TRAIN(.checkpoint_dir = dir, .resume = true, .epochs = 2);
    assert_int_not_equal(status, CLADE_OK);
    if (!strstr(clade_last_error(), cases[i].words) || !strstr(clade_last_error(), "step-0000000004"))
      fail_msg("\"%s\" does not hold \"%s\" and the file", clade_last_error(), cases[i].words);
    clade_vars_release(trained);
    trained = clade_vars_retain(vars);
    save_state(dir, whole);
  }
  OK(TRAIN(.checkpoint_dir = dir, .resume = true, .epochs = 2)); /* as before */
  clade_vars_release(vars);
}

static char warned[2048];
static void say(void *user, clade_log_level level, const char *message) {
  (void)user;
  if (level == CLADE_LOG_WARNING) snprintf(warned, sizeof warned, "%s", message);
}

/* Checkpoints from before fingerprints are accepted; the rate, stored in its variable only, is compared. */
static void test_older_checkpoint(void **state) {
  (void)state;
  static const char *const later[] = {"fingerprint", "optimizer_numbers", "ema"};
  char dir[256];
  snprintf(dir, sizeof dir, "%s", io_path("older"));
  OK(TRAIN(.checkpoint_dir = dir));
  json_t *json = state_of(dir);
  json_object_del(json, "settings");
  json_object_del(json, "graph");
  json_object_del(json, "spec");
  for (size_t i = 0; i < CLADE_COUNT(later); i++)
    assert_int_equal(json_object_del(json_object_get(json, "course"), later[i]), 0);
  save_state(dir, json);
  OK(TRAIN(.checkpoint_dir = dir, .resume = true, .epochs = 2, .optimizer = clade_sgd(.lr = 0.01)));
  assert_non_null(strstr(warned, "holds no fingerprint"));
  assert_int_equal(strncmp(changed, "lr 0.01 (the checkpoint had 0.1)", 32), 0);
  assert_true(rate() == 0.01f);
}

static int set_up(void **state) {
  clade_init(.log = say, .log_level = CLADE_LOG_WARNING);
  return io_set_up(state);
}
static int tear_down(void **state) {
  clade_vars_release(trained);
  return io_tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits),
                                     cmocka_unit_test(test_options),
                                     cmocka_unit_test(test_weights),
                                     cmocka_unit_test(test_sparsity),
                                     cmocka_unit_test(test_trace),
                                     cmocka_unit_test(test_idle),
                                     cmocka_unit_test(test_logs),
                                     cmocka_unit_test(test_images_that_are_not_finite),
                                     cmocka_unit_test(test_overwrite),
                                     cmocka_unit_test(test_what_changes),
                                     cmocka_unit_test(test_bad_fields),
                                     cmocka_unit_test(test_what_must_not_change),
                                     cmocka_unit_test(test_older_checkpoint)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

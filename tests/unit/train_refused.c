/* Refusals of clade_minimize, and each of its allocations failing. */
#include "train_kit.h"

static const clade_initial ones = {CLADE_INIT_FILL, 1, 0};

static clade_val parameter(clade_graph *g, const char *name) {
  return clade_parameter(g, name, CLADE_F32, CLADE_SHAPE(4), ones);
}

/* The graph's error is sticky, as with builders. */
static void refuses(clade_graph *g, clade_status have, clade_status want, const char *part) {
  refused(have, want, part);
  refused(clade_graph_status(g), want, part);
  clade_graph_release(g);
}

static void test_loss(void **state) {
  (void)state;
  clade_graph *g = graph_new(), *other = graph_new();
  clade_val p = parameter(g, "p");
  refuses(g, clade_minimize(g, p), CLADE_BAD_SHAPE,
          "clade_minimize: the loss (variable \"p\") is f32[4]; expected a scalar");
  g = graph_new();
  refuses(g, clade_minimize(g, clade_sum(g, clade_cast(g, parameter(g, "p"), CLADE_I32))), CLADE_BAD_SHAPE,
          "is i32[]; expected a scalar of floats");
  g = graph_new();
  parameter(g, "p");
  refuses(g, clade_minimize(g, (clade_val){0}), CLADE_INVALID, "clade_minimize: the loss: no value is given");
  g = graph_new();
  refuses(g, clade_minimize(g, clade_sum(other, parameter(other, "p"))), CLADE_INVALID, "belongs to another graph");
  g = graph_new();
  refuses(g, clade_accumulate(g, parameter(g, "p")), CLADE_BAD_SHAPE, "clade_accumulate: the loss (variable");
  clade_graph_release(other);
  refused(clade_minimize(NULL, p), CLADE_INVALID, "the graph is NULL");
}

static void test_parameters(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4));
  parameter(g, "p");
  refuses(g, clade_minimize(g, clade_sum(g, x)), CLADE_INVALID, "depends on none of the graph's 1 parameters");
  g = graph_new();
  x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4));
  refuses(g, clade_minimize(g, clade_sum(g, x)), CLADE_INVALID, "depends on none of the graph's 0 parameters");
  g = graph_new();
  clade_val loss = clade_sum(g, parameter(g, "p"));
  OK(clade_minimize(g, loss));
  refuses(g, clade_minimize(g, loss), CLADE_DUPLICATE, "the graph has an optimizer already (variable optimizer.step)");
  g = graph_new();
  loss = clade_sum(g, parameter(g, "p"));
  OK(clade_accumulate(g, loss));
  refuses(g, clade_minimize(g, loss), CLADE_DUPLICATE, "already (variable optimizer.count)");
  g = graph_new();
  parameter(g, "optimizer.p");
  refuses(g, clade_graph_status(g), CLADE_INVALID, "parameter \"optimizer.p\": names that begin with optimizer.");
}

static void test_sums(void **state) {
  (void)state;
  clade_graph *model = graph_new(), *g = graph_new();
  clade_val p = parameter(model, "p"), loss = clade_sum(model, p);
  refuses(g, clade_minimize_sums(g, model), CLADE_INVALID, "call clade_accumulate on it first");
  OK(clade_accumulate(model, loss));
  g = graph_new();
  parameter(g, "p");
  refuses(g, clade_minimize_sums(g, model), CLADE_INVALID, "the graph has variables already");
  clade_graph_retain(model);
  refuses(model, clade_minimize_sums(model, model), CLADE_DUPLICATE, "already");
  g = graph_new();
  refuses(g, clade_minimize_sums(g, model), CLADE_DUPLICATE, "already"); /* the model's own failure */
  clade_graph_release(model);
}

static clade_status update_nothing(const clade_update *u) {
  (void)u;
  return CLADE_OK;
}
static clade_status update_fails(const clade_update *u) {
  (void)u;
  return CLADE_UNSUPPORTED;
}

static void try(clade_minimize_opt opt, clade_status want, const char *part) {
  clade_graph *g = graph_new();
  opt.size = sizeof opt;
  opt.loss = clade_sum(g, parameter(g, "p"));
  refuses(g, clade_minimize_(g, &opt), want, part);
}
#define TRY(want, part, ...) try((clade_minimize_opt){__VA_ARGS__}, want, part)

static void test_numbers(void **state) {
  static const clade_rule nothing = {.size = sizeof nothing, .name = "test.nothing", .update = update_nothing};
  static const clade_rule fails = {.size = sizeof fails, .name = "test.fails", .update = update_fails};
  static const clade_rule empty = {.size = sizeof empty, .name = "test.empty"};
  (void)state;
  TRY(CLADE_INVALID, "clade_minimize: sgd: .lr is -1", .optimizer = clade_sgd(.lr = -1));
  TRY(CLADE_INVALID, "sgd: .lr is nan", .optimizer = clade_sgd(.lr = (double)NAN));
  TRY(CLADE_INVALID, "the optimizer was made from options without their .size and defaults",
      .optimizer = clade_sgd_(&(clade_sgd_opt){.size = 1}));
  TRY(CLADE_INVALID, "begin them with {CLADE_ADAM_OPT}",
      .optimizer = clade_adam_(&(clade_adam_opt){.size = sizeof(clade_adam_opt)}));
  TRY(CLADE_INVALID, "schedule: it was made from options without",
      .schedule = clade_one_cycle_(&(clade_one_cycle_opt){.size = sizeof(clade_one_cycle_opt), .steps = 8}));
  TRY(CLADE_INVALID, "schedule: .steps is 0", .schedule = clade_cosine_(NULL));
  TRY(CLADE_INVALID, "schedule: .steps is 0", .schedule = clade_one_cycle_(NULL));
  TRY(CLADE_INVALID, "adam: .lr is inf", .optimizer = clade_adam(.lr = (double)INFINITY));
  TRY(CLADE_INVALID, "sgd: .momentum is 1; expected at least 0 and below 1", .optimizer = clade_sgd(.momentum = 1));
  TRY(CLADE_INVALID, "sgd: .nesterov needs a .momentum", .optimizer = clade_sgd(.nesterov = true));
  TRY(CLADE_INVALID, "adam: .beta1 is 1", .optimizer = clade_adam(.beta1 = 1));
  TRY(CLADE_INVALID, "adamw: .beta2 is -0.5", .optimizer = clade_adamw(.beta2 = -0.5));
  TRY(CLADE_INVALID, "adamw: .weight_decay is -1", .optimizer = clade_adamw(.weight_decay = -1));
  TRY(CLADE_INVALID, "adam: .eps is -1", .optimizer = clade_adam(.eps = -1));
  TRY(CLADE_INVALID, "rmsprop: .alpha is 2", .optimizer = clade_rmsprop(.alpha = 2));
  TRY(CLADE_INVALID, "rmsprop: .momentum is -1", .optimizer = clade_rmsprop(.momentum = -1));
  TRY(CLADE_INVALID, ".clip_norm is -1; expected a positive number", .clip_norm = -1);
  TRY(CLADE_INVALID, ".clip_value is nan", .clip_value = (double)NAN);
  TRY(CLADE_INVALID, ".ema is 1; expected 0 to below 1", .ema = 1);
  TRY(CLADE_INVALID, "schedule: .warmup is -1", .schedule = {.warmup = -1});
  TRY(CLADE_INVALID, "schedule: .every is 0", .schedule = clade_step_decay(.factor = 0.5));
  TRY(CLADE_INVALID, "schedule: .factor is -1", .schedule = clade_step_decay(.every = 1, .factor = -1));
  TRY(CLADE_INVALID, "schedule: .steps is 0", .schedule = clade_cosine(.warmup = 0));
  TRY(CLADE_INVALID, "highest at step 9 of 8", .schedule = clade_cosine(.steps = 8, .warmup = 9));
  TRY(CLADE_INVALID, "it ends at 2", .schedule = clade_cosine(.steps = 8, .floor = 2));
  TRY(CLADE_INVALID, ".start is -1", .schedule = clade_one_cycle(.steps = 8, .start = -1));
  TRY(CLADE_INVALID, "highest at step -1", .schedule = clade_one_cycle(.steps = 8, .peak_at = 1.5));
  TRY(CLADE_INVALID, "schedule: 9 is no kind", .schedule = {.kind = (clade_schedule_kind)9});
  TRY(CLADE_INVALID, "no .size, .name or .update", .optimizer = {.rule = &empty});
  TRY(CLADE_INVALID, "assign \"p\": no value is given", .optimizer = {.rule = &nothing});
  TRY(CLADE_UNSUPPORTED, "test.fails: ", .optimizer = {.rule = &fails});
  refused(clade_minimize(NULL, (clade_val){0}, .optimizer = {.lr = 0.5}), CLADE_INVALID, "without a .rule");
  refused(clade_minimize_(NULL, &(clade_minimize_opt){.size = 2}), CLADE_INVALID, "the options' size is 2");
  assert_false(clade_val_ok(clade_update_gradient(NULL, 0)));
}

/* ---- allocations ---- */
static long countdown, held; /* the failing allocation: 1 is the next; 0: none */

static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  size_t whole = (bytes + align - 1) / align * align;
  if (countdown && --countdown == 0) return NULL;
  void *memory = aligned_alloc(align, whole ? whole : align);
  held += memory != NULL;
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  held -= memory != NULL;
  free(memory);
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (memory && old) memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  if (memory) release(user, old, old_bytes);
  return memory;
}

static clade_status build(void) {
  clade_graph *g = NULL, *sums = NULL;
  clade_status status = clade_graph_new(&g);
  if (status == CLADE_OK) {
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3));
    clade_val loss = clade_mean(g, clade_square(g, clade_nn_linear(g, "fc", x, .out = 2)));
    status = clade_minimize(g, loss, .clip_norm = 1, .ema = 0.5, .schedule = clade_one_cycle(.steps = 9));
  }
  clade_graph_release(g);
  if (status) return status;
  g = NULL;
  status = clade_graph_new(&g);
  if (status == CLADE_OK) status = clade_graph_new(&sums);
  if (status == CLADE_OK) status = clade_accumulate(g, clade_sum(g, parameter(g, "p")));
  if (status == CLADE_OK) status = clade_minimize_sums(sums, g, .optimizer = clade_sgd(.momentum = 0.9));
  clade_graph_release(g);
  clade_graph_release(sums);
  return status;
}

static void test_allocations(void **state) {
  (void)state;
  clade_status status = CLADE_NO_MEMORY;
  int n = 0;
  for (long before = held; status != CLADE_OK; n++) {
    countdown = n + 1;
    status = build();
    bool failed = countdown == 0;
    countdown = 0;
    assert_int_equal(held, before);
    if (failed) assert_int_equal(status, CLADE_NO_MEMORY);
    assert_true(failed || status == CLADE_OK);
  }
  assert_true(n > 40); /* enough were reached */
}

int main(void) {
  const clade_allocator allocator = {sizeof allocator, NULL, allocate, resize, release};
  if (clade_init(.allocator = &allocator) != CLADE_OK) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loss),    cmocka_unit_test(test_parameters),  cmocka_unit_test(test_sums),
      cmocka_unit_test(test_numbers), cmocka_unit_test(test_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

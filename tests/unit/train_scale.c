/* Loss scaling: exact without overflows; an overflow skips the whole step and changes the scale. */
#include "train_kit.h"

enum { N = 4, ROWS = 2 };

/* ---- a step whose gradient is an input: loss = sum(w g) ---- */
typedef struct session {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} session;

static session open_session(clade_graph *g, clade_device *device) {
  session s = {.func = compiled(g, device)};
  OK(clade_vars_new(s.func, 11, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run));
  return s;
}

static void close_session(session *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

/* The model also assigns a statistic and has a half-precision parameter. */
static clade_graph *graph_of(const clade_minimize_opt *given) {
  clade_graph *g = graph_new();
  clade_minimize_opt opt = *given;
  clade_initial ones = {CLADE_INIT_FILL, 1, 0};
  clade_val x = clade_input(g, "g", CLADE_F32, CLADE_SHAPE(N));
  clade_val w = clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(N), ones);
  clade_val half = clade_parameter(g, "half", CLADE_F16, CLADE_SHAPE(N), ones);
  clade_val seen = clade_variable(g, "seen", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
  clade_assign(g, seen, clade_add(g, seen, x));
  opt.size = sizeof opt;
  opt.loss = clade_sum(g, clade_mul(g, clade_add(g, w, clade_cast(g, half, CLADE_F32)), x));
  OK(clade_minimize_(g, &opt));
  return g;
}

static void step(session *s, float first) {
  const float x[N] = {first, first / 2, -first / 4, first / 8};
  OK(clade_execute(s->run, CLADE_FEEDS({"g", x, sizeof x, NULL}), NULL));
  OK(clade_wait(s->run, 0));
}

static double scale_of(const session *s) {
  float scale;
  OK(clade_vars_get(s->vars, "optimizer.loss_scale", &scale, sizeof scale));
  return (double)scale;
}

static int64_t count_of(const session *s, const char *name) {
  int64_t count;
  OK(clade_vars_get(s->vars, name, &count, sizeof count));
  return count;
}

/* Compares all variables except the scale's. */
static void assert_same(const clade_vars *a, const clade_vars *b) {
  for (int i = 0; i < clade_vars_count(a); i++) {
    clade_port_info info = {.size = sizeof info};
    unsigned char x[8 * N], y[8 * N];
    size_t bytes;
    OK(clade_vars_describe(a, i, &info));
    if (!strncmp(info.name, "optimizer.loss_scale", 20)) continue;
    OK(clade_type_bytes(&info.type, &bytes));
    OK(clade_vars_get(a, info.name, x, bytes));
    OK(clade_vars_get(b, info.name, y, bytes));
    if (memcmp(x, y, bytes)) fail_msg("%s differs", info.name);
  }
}

/* ---- a user's rule, unaware of loss scaling ---- */
static clade_status sign_update(const clade_update *u) {
  for (int i = 0; i < u->n; i++) {
    clade_val dx = clade_cast(u->graph, clade_update_gradient(u, i), CLADE_F32);
    clade_type type;
    OK(clade_val_type(u->graph, u->parameters[i], &type));
    u->new_moments[i] = clade_add(u->graph, u->moments[i], dx);
    clade_val move = clade_mul(u->graph, clade_sign(u->graph, u->new_moments[i]), u->lr);
    u->new_parameters[i] = clade_sub(u->graph, u->parameters[i], clade_cast(u->graph, move, type.dtype));
  }
  return clade_graph_status(u->graph);
}
static const clade_rule sign_rule = {
    .size = sizeof sign_rule, .name = "sign", .moments = {"memory"}, .update = sign_update};

static int options(clade_minimize_opt *all) {
  int n = 0;
  all[n++] = (clade_minimize_opt){.optimizer = clade_sgd(.lr = 0.1)};
  all[n++] = (clade_minimize_opt){.optimizer = clade_sgd(.lr = 0.1, .momentum = 0.9), .clip_norm = 0.1, .ema = 0.9};
  all[n++] = (clade_minimize_opt){.optimizer = clade_adamw(.lr = 0.1), .clip_value = 0.2};
  all[n++] = (clade_minimize_opt){.optimizer = clade_rmsprop(.lr = 0.1, .momentum = 0.5)};
  all[n++] = (clade_minimize_opt){.optimizer = {.rule = &sign_rule, .lr = 0.1}, .ema = 0.5};
  return n;
}

/* Scaling by a power of two is exact. */
static void test_same_bits(void **state) {
  clade_minimize_opt all[8];
  for (int i = 0, n = options(all); i < n; i++) {
    session plain = open_session(graph_of(&all[i]), *state);
    all[i].loss_scale = 1024;
    session scaled = open_session(graph_of(&all[i]), *state);
    for (int k = 0; k < 3; k++) step(&plain, 1), step(&scaled, 1);
    assert_same(plain.vars, scaled.vars);
    assert_true(scale_of(&scaled) == 1024);
    assert_int_equal(count_of(&scaled, "optimizer.loss_scale.skipped"), 0);
    assert_int_equal(count_of(&scaled, "optimizer.loss_scale.clean"), 3);
    close_session(&plain), close_session(&scaled);
  }
}

/* Infinite, NaN, and finite values that overflow when scaled. */
static void test_overflow(void **state) {
  static const float bad[] = {INFINITY, NAN, 1e36f};
  clade_minimize_opt all[8];
  for (int i = 0, n = options(all); i < n; i++) {
    all[i].loss_scale = 1024;
    session s = open_session(graph_of(&all[i]), *state);
    step(&s, 1);
    clade_vars *before;
    for (size_t k = 0; k < CLADE_COUNT(bad); k++) {
      OK(clade_vars_snapshot(s.vars, &before));
      step(&s, bad[k]);
      assert_same(before, s.vars);
      assert_int_equal(count_of(&s, "optimizer.step"), 1);
      assert_int_equal(count_of(&s, "optimizer.loss_scale.skipped"), (int64_t)k + 1);
      assert_int_equal(count_of(&s, "optimizer.loss_scale.clean"), 0);
      assert_true(scale_of(&s) == 1024 / (double)(2 << k));
      clade_vars_release(before);
    }
    step(&s, 1); /* the next step succeeds */
    assert_int_equal(count_of(&s, "optimizer.step"), 2);
    assert_int_equal(count_of(&s, "optimizer.loss_scale.clean"), 1);
    close_session(&s);
  }
}

static void put_count(session *s, const char *name, int64_t count) { OK(clade_vars_set(s->vars, name, &count, 8)); }

static void put_scale(session *s, float scale) {
  OK(clade_vars_set(s->vars, "optimizer.loss_scale", &scale, sizeof scale));
}

static void test_growth(void **state) {
  session s = open_session(graph_of(&(clade_minimize_opt){.loss_scale = 1024}), *state);
  put_count(&s, "optimizer.loss_scale.clean", 1998);
  step(&s, 1);
  assert_true(scale_of(&s) == 1024);
  step(&s, 1);
  assert_true(scale_of(&s) == 2048);
  assert_int_equal(count_of(&s, "optimizer.loss_scale.clean"), 0);
  put_count(&s, "optimizer.loss_scale.clean", 1999);
  step(&s, INFINITY); /* no growth after skipped steps */
  assert_true(scale_of(&s) == 1024);
  put_scale(&s, 0x1p-24f);
  step(&s, INFINITY);
  assert_true(scale_of(&s) == 0x1p-24); /* never 0 */
  put_count(&s, "optimizer.loss_scale.clean", 1999);
  put_scale(&s, 0x1p100f);
  step(&s, 0);
  assert_true(scale_of(&s) == 0x1p100); /* never infinite */
  close_session(&s);
}

/* ---- refusals ---- */
static void option_refused(clade_dtype loss_type, const clade_minimize_opt *given, const char *words) {
  clade_graph *g = graph_new();
  clade_minimize_opt opt = *given;
  clade_val w = clade_parameter(g, "w", loss_type, CLADE_SHAPE(N), (clade_initial){0});
  opt.size = sizeof opt;
  opt.loss = clade_sum(g, w);
  assert_int_not_equal(clade_minimize_(g, &opt), CLADE_OK);
  if (!strstr(clade_last_error(), words)) fail_msg("\"%s\" does not hold \"%s\"", clade_last_error(), words);
  clade_graph_release(g);
}

static void test_refused(void **state) {
  (void)state;
  option_refused(CLADE_F16, &(clade_minimize_opt){.loss_scale = 8}, ".loss_scale: the loss is f16; expected f32");
  option_refused(CLADE_F32, &(clade_minimize_opt){.loss_scale = -1}, ".loss_scale is -1; expected a positive number");
  option_refused(CLADE_F32, &(clade_minimize_opt){.loss_scale = INFINITY}, ".loss_scale is inf");
  option_refused(CLADE_F32, &(clade_minimize_opt){.loss_scale = 8, .low_rank = 2}, ".loss_scale with .low_rank 2");
  clade_graph *g = graph_new(), *apply = graph_new();
  OK(clade_accumulate(g, clade_sum(g, clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0}))));
  assert_int_equal(clade_minimize_sums(apply, g, .loss_scale = 8), CLADE_UNSUPPORTED);
  assert_non_null(strstr(clade_last_error(), "they are not scaled"));
  clade_graph_release(g);
  clade_graph_release(apply);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_overflow),
                                     cmocka_unit_test(test_growth), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("train_scale", tests, open_device, close_device);
}

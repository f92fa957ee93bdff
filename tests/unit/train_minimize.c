/* clade_minimize besides the rules: schedules on the device, accumulated gradients, users' rules, manual rates,
 * half-precision parameters, and unchanged variables. */
#include "train_kit.h"

#include "train/optim.h"

/* ---- schedules ---- */
static const clade_schedule *schedules(int *n) {
  static clade_schedule all[10];
  *n = 0;
  all[(*n)++] = clade_constant_rate(.warmup = 5);
  all[(*n)++] = clade_step_decay(.every = 3, .factor = 0.5);
  all[(*n)++] = clade_step_decay(.every = 7, .warmup = 4);
  all[(*n)++] = clade_cosine(.steps = 20);
  all[(*n)++] = clade_cosine(.steps = 20, .warmup = 5, .floor = 0.1);
  all[(*n)++] = clade_one_cycle(.steps = 20);
  all[(*n)++] = clade_step_decay(.every = 3, .factor = 0);
  all[(*n)++] = clade_one_cycle(.steps = 20, .peak_at = 0);
  all[(*n)++] = clade_one_cycle(.steps = 20, .start = 0, .end = 0);
  all[(*n)++] = clade_one_cycle(.steps = 20, .peak_at = 1, .start = 0.5, .end = 0.25, .warmup = 2);
  return all;
}

static void test_schedules(void **state) {
  static const int64_t steps[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 19, 20, 21, 1000, 100000007};
  int n;
  const clade_schedule *s = schedules(&n);
  clade_graph *g = graph_new();
  clade_val step = clade_input(g, "step", CLADE_I64, CLADE_SCALAR);
  clade_run *run;
  char name[16];
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "f%d", i);
    clade_output(g, name, clade__schedule_node(g, &s[i], step));
  }
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  for (size_t k = 0; k < CLADE_COUNT(steps); k++) {
    clade_ticket ticket;
    OK(clade_execute(run, CLADE_FEEDS({"step", &steps[k], sizeof steps[k], NULL}), &ticket));
    for (int i = 0; i < n; i++) {
      float have;
      double want = clade_schedule_at(&s[i], steps[k]);
      snprintf(name, sizeof name, "f%d", i);
      OK(clade_read(run, ticket, name, &have, sizeof have));
      if (!(fabs((double)have - want) <= 1e-6))
        fail_msg("schedule %d at %d: %.9g instead of %.9g", i, (int)steps[k], (double)have, want);
    }
  }
  clade_run_free(run);
  clade_func_release(func);
}

static void assert_factor(clade_schedule s, int64_t step, double want) {
  double have = clade_schedule_at(&s, step);
  if (!(fabs(have - want) <= 1e-12)) fail_msg("step %d: %.15g instead of %.15g", (int)step, have, want);
}

/* Values that are easy to compute. */
static void test_factors(void **state) {
  (void)state;
  assert_true(clade_schedule_at(NULL, 3) == 1);
  assert_factor(clade_constant_rate(.warmup = 0), 0, 1);
  assert_factor(clade_constant_rate(.warmup = 4), 0, 0.25);
  assert_factor(clade_constant_rate(.warmup = 4), 3, 1);
  assert_factor(clade_constant_rate(.warmup = 4), 99, 1);
  assert_factor(clade_step_decay(.every = 10), 9, 1);
  assert_factor(clade_step_decay(.every = 10), 10, 0.1);
  assert_factor(clade_step_decay(.every = 10, .factor = 0.5), 39, 0.125);
  assert_factor(clade_cosine(.steps = 100), 0, 1);
  assert_factor(clade_cosine(.steps = 100), 50, 0.5);
  assert_factor(clade_cosine(.steps = 100, .floor = 0.2), 100, 0.2);
  assert_factor(clade_cosine(.steps = 100, .floor = 0.2), 1000, 0.2);
  assert_factor(clade_cosine(.steps = 110, .warmup = 10), 60, 0.5);
  assert_factor(clade_cosine(.steps = 110, .warmup = 10), 4, 0.5);
  assert_factor(clade_one_cycle(.steps = 100), 0, 0.04);
  assert_factor(clade_one_cycle(.steps = 100), 15, 0.52);
  assert_factor(clade_one_cycle(.steps = 100), 30, 1);
  assert_factor(clade_one_cycle(.steps = 100, .end = 0.5), 65, 0.75);
  assert_factor(clade_one_cycle(.steps = 100), 100, 4e-6);
}

/* ---- a linear model, y = x W' + b with mean squared error ---- */
enum { IN = 5, OUT = 3, PART = 4, PARTS = 3, ROUNDS = 3 };

static clade_val model(clade_graph *g, int batch) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(batch, IN));
  clade_val y = clade_input(g, "y", CLADE_F32, CLADE_SHAPE(batch, OUT));
  clade_val miss = clade_sub(g, clade_nn_linear(g, "fc", x, .out = OUT), y);
  return clade_mean(g, clade_square(g, miss));
}

static void draw_batch(int round, float x[PARTS * PART * IN], float y[PARTS * PART * OUT]) {
  for (int i = 0; i < PARTS * PART * IN; i++) x[i] = (float)clade__uniform(1, (uint64_t)round, (uint64_t)i) - 0.5f;
  for (int i = 0; i < PARTS * PART * OUT; i++) y[i] = (float)clade__uniform(2, (uint64_t)round, (uint64_t)i);
}

static void feed(clade_run *run, int batch, const float *x, const float *y) {
  OK(clade_execute(run,
                   CLADE_FEEDS({"x", x, sizeof(float) * (size_t)(batch * IN), NULL},
                               {"y", y, sizeof(float) * (size_t)(batch * OUT), NULL}),
                   NULL));
}

typedef struct session {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} session;

/* vars NULL: creates its own. */
static session open_session(clade_graph *g, clade_device *device, clade_vars *vars) {
  session s = {.func = compiled(g, device)};
  s.vars = clade_vars_retain(vars);
  if (!vars) OK(clade_vars_new(s.func, 11, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run));
  return s;
}

static void close_session(session *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

static void assert_same_weights(const session *a, const session *b) {
  double w[IN * OUT];
  vars_take(a->vars, "fc.weight", IN * OUT, w);
  vars_near(b->vars, "summed", "fc.weight", IN * OUT, w, 1e-6);
  vars_take(a->vars, "fc.bias", OUT, w);
  vars_near(b->vars, "summed", "fc.bias", OUT, w, 1e-6);
}

static void test_accumulate(void **state) {
  float x[PARTS * PART * IN], y[PARTS * PART * OUT];
  clade_graph *whole = graph_new(), *parts = graph_new(), *apply = graph_new();
  OK(clade_minimize(whole, model(whole, PARTS * PART), .optimizer = clade_adam(.lr = 0.05), .clip_norm = 0.1));
  OK(clade_accumulate(parts, model(parts, PART)));
  OK(clade_minimize_sums(apply, parts, .optimizer = clade_adam(.lr = 0.05), .clip_norm = 0.1));
  session once = open_session(whole, *state, NULL), update = open_session(apply, *state, NULL);
  session sum = open_session(parts, *state, update.vars);
  for (int round = 0; round < ROUNDS; round++) {
    int64_t count = -1;
    draw_batch(round, x, y);
    feed(once.run, PARTS * PART, x, y);
    for (int i = 0; i < PARTS; i++) feed(sum.run, PART, x + i * PART * IN, y + i * PART * OUT);
    OK(clade_wait(sum.run, 0)); /* let the other run take its turn */
    OK(clade_vars_get(sum.vars, "optimizer.count", &count, sizeof count));
    assert_int_equal(count, PARTS);
    OK(clade_execute(update.run, 0, NULL, NULL));
    OK(clade_wait(update.run, 0));
    OK(clade_wait(once.run, 0));
    OK(clade_vars_get(sum.vars, "optimizer.count", &count, sizeof count));
    assert_int_equal(count, 0);
    assert_same_weights(&once, &update);
  }
  close_session(&once), close_session(&sum), close_session(&update);
}

/* ---- shares of a batch on two devices: gradients are summed on the parameters' device ---- */
static clade_val share(clade_graph *g, int index, int device) {
  char x[16], y[16];
  clade_graph_share(g, index);
  clade_graph_place(g, device);
  snprintf(x, sizeof x, "x%d", index);
  snprintf(y, sizeof y, "y%d", index);
  clade_val in = clade_input(g, x, CLADE_F32, CLADE_SHAPE(PART, IN));
  clade_val want = clade_input(g, y, CLADE_F32, CLADE_SHAPE(PART, OUT));
  clade_val miss = clade_sub(g, clade_nn_linear(g, "fc", in, .out = OUT), want);
  return clade_mul(g, clade_mean(g, clade_square(g, miss)), clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.5));
}

static void shared_steps(clade_device *const part[2], bool both, float weights[OUT * IN]) {
  float x[PARTS * PART * IN], y[PARTS * PART * OUT];
  clade_graph *g = graph_new();
  session s;
  clade_val first = share(g, 0, 0), second = share(g, 1, both ? 1 : 0);
  clade_graph_place(g, 0);
  OK(clade_minimize(g, clade_add(g, first, second), .optimizer = clade_adam(.lr = 0.1), .clip_norm = 1));
  OK(clade_compile(g, part[0], &s.func, .n_devices = both ? 1 : 0, .devices = &part[1]));
  clade_graph_release(g);
  OK(clade_vars_new(s.func, 11, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run));
  for (int round = 0; round < ROUNDS; round++) {
    draw_batch(round, x, y);
    OK(clade_execute(s.run,
                     CLADE_FEEDS({"x0", x, sizeof(float) * PART * IN, NULL},
                                 {"y0", y, sizeof(float) * PART * OUT, NULL},
                                 {"x1", x + PART * IN, sizeof(float) * PART * IN, NULL},
                                 {"y1", y + PART * OUT, sizeof(float) * PART * OUT, NULL}),
                     NULL));
  }
  OK(clade_wait(s.run, 0));
  OK(clade_vars_get(s.vars, "fc.weight", weights, sizeof(float) * OUT * IN));
  close_session(&s);
}

static void test_shares(void **state) {
  clade_device *part[2];
  float one[OUT * IN], two[OUT * IN];
  OK(clade_device_split(*state, 2, part));
  shared_steps(part, false, one);
  shared_steps(part, true, two);
  assert_memory_equal(one, two, sizeof one);
  clade_device_release(part[0]);
  clade_device_release(part[1]);
}

/* ---- users' rules ---- */
/* p -= lr sign(m), m = number[0] m + g, with elementwise nodes only. */
static clade_status sign_update(const clade_update *u) {
  clade_graph *g = u->graph;
  for (int i = 0; i < u->n; i++) {
    clade_val share = clade_fill(g, CLADE_F32, CLADE_SCALAR, u->optimizer->number[0]);
    u->new_moments[i] = clade_add(g, clade_mul(g, u->moments[i], share), clade_update_gradient(u, i));
    u->new_parameters[i] = clade_sub(g, u->parameters[i], clade_mul(g, clade_sign(g, u->new_moments[i]), u->lr));
  }
  return clade_graph_status(g);
}
static const clade_rule sign_rule = {
    .size = sizeof sign_rule, .name = "test.sign", .moments = {"memory"}, .update = sign_update};

static void test_own_rule(void **state) {
  clade_graph *g = graph_new();
  const float a[4] = {1, -2, 3, -4};
  float p[4];
  clade_val v = clade_parameter(g, "p", CLADE_F32, CLADE_SHAPE(4), (clade_initial){CLADE_INIT_FILL, 0.5, 0});
  clade_val loss = clade_sum(g, clade_mul(g, v, clade_constant(g, CLADE_F32, CLADE_SHAPE(4), a)));
  clade_optimizer own = {.rule = &sign_rule, .lr = 0.25, .number = {0.5}};
  OK(clade_minimize(g, loss, .optimizer = own, .clip_value = 1.5));
  session s = open_session(g, *state, NULL);
  OK(clade_execute(s.run, 0, NULL, NULL));
  OK(clade_execute(s.run, 0, NULL, NULL));
  OK(clade_wait(s.run, 0));
  OK(clade_vars_get(s.vars, "p", p, sizeof p));
  for (int i = 0; i < 4; i++) assert_true(p[i] == (i % 2 ? 1.0f : 0.0f));
  vars_near(s.vars, "own", "optimizer.memory:p", 4, (const double[]){1.5, -2.25, 2.25, -2.25}, 1e-7);
  close_session(&s);
}

/* ---- the rate as a variable; variables that the loss does not depend on, integers, and others' variables stay
 * unchanged ---- */
static void test_untouched(void **state) {
  clade_graph *g = graph_new();
  float p[2], q[2];
  const float half = 0.5f;
  clade_initial one = {CLADE_INIT_FILL, 1, 0};
  clade_val v = clade_parameter(g, "p", CLADE_F32, CLADE_SHAPE(2), one);
  clade_val unused = clade_parameter(g, "q", CLADE_F32, CLADE_SHAPE(2), one);
  clade_val plain = clade_variable(g, "r", CLADE_F32, CLADE_SHAPE(2), one);
  clade_parameter(g, "whole", CLADE_I32, CLADE_SHAPE(2), one);
  clade_val loss = clade_sum(g, clade_add(g, clade_mul(g, v, plain), clade_stop_gradient(g, unused)));
  OK(clade_minimize(g, loss, .optimizer = clade_adamw(.lr = 1, .weight_decay = 0.5), .decay_all = true));
  session s = open_session(g, *state, NULL);
  assert_int_equal(clade_vars_count(s.vars), 4 + 2 + 2); /* the graph's, step and rate, two moments of one parameter */
  OK(clade_vars_set(s.vars, "optimizer.lr", &half, sizeof half));
  OK(clade_execute(s.run, 0, NULL, NULL));
  OK(clade_wait(s.run, 0));
  OK(clade_vars_get(s.vars, "p", p, sizeof p));
  assert_true(fabsf(p[0] - 0.25f) < 1e-6f); /* 1 - 0.5 0.5 - 0.5 */
  OK(clade_vars_get(s.vars, "q", q, sizeof q));
  assert_true(q[0] == 1 && q[1] == 1);
  OK(clade_vars_get(s.vars, "r", q, sizeof q));
  assert_true(q[0] == 1 && q[1] == 1);
  close_session(&s);
}

/* Parameters of two types: moments are always f32. */
static void test_halves(void **state) {
  clade_graph *g = graph_new();
  uint16_t half;
  float p;
  clade_initial one = {CLADE_INIT_FILL, 1, 0};
  clade_val a = clade_parameter(g, "a", CLADE_BF16, CLADE_SHAPE(3), one);
  clade_val b = clade_parameter(g, "b", CLADE_F32, CLADE_SHAPE(1), one);
  clade_val loss = clade_sum(g, clade_add(g, clade_sum(g, clade_cast(g, a, CLADE_F32)), clade_sum(g, b)));
  OK(clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 0.5, .momentum = 0.5), .clip_norm = 1, .ema = 0.5));
  session s = open_session(g, *state, NULL);
  OK(clade_execute(s.run, 0, NULL, NULL));
  OK(clade_wait(s.run, 0));
  OK(clade_vars_get(s.vars, "b", &p, sizeof p));
  assert_true(fabsf(p - 0.75f) < 1e-6f); /* four gradients of 1 have norm 2 */
  uint16_t all[3];
  OK(clade_vars_get(s.vars, "a", all, sizeof all));
  OK(clade_convert(CLADE_BF16, &half, CLADE_F32, &p, 1));
  for (int i = 0; i < 3; i++) assert_int_equal(all[i], half);
  vars_near(s.vars, "halves", "optimizer.momentum:a", 3, (const double[]){0.5, 0.5, 0.5}, 1e-6);
  vars_near(s.vars, "halves", "optimizer.ema:a", 3, (const double[]){0.75, 0.75, 0.75}, 1e-3);
  close_session(&s);
}

/* The update is done in the variables' memory. */
static void test_in_place(void **state) {
  clade_graph *g = graph_new();
  char *steps;
  OK(clade_minimize(g, model(g, 8), .optimizer = clade_adam(), .ema = 0.99));
  clade_func *func = compiled(g, *state);
  OK(clade_func_steps(func, &steps));
  int copies = 0;
  for (const char *at = steps; (at = strstr(at, " copy device ")); at++) copies++;
  assert_int_equal(copies, 0);
  clade_text_free(steps);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_schedules), cmocka_unit_test(test_factors),  cmocka_unit_test(test_accumulate),
      cmocka_unit_test(test_shares),    cmocka_unit_test(test_own_rule), cmocka_unit_test(test_untouched),
      cmocka_unit_test(test_halves),    cmocka_unit_test(test_in_place),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* Every optimizer against its definition in double: parameters, moments, averages and the reported rate. The loss is
 * the sum of a p^2 / 2 over nine tensors of different shapes, so that gradients are a p. */
#include "train_kit.h"

enum { TENSORS = 9, STEPS = 6 };

typedef struct trial {
  const char *name;
  clade_optimizer optimizer;
  ref_optimizer ref;
  clade_schedule schedule;
  const char *first, *second; /* names of the moments */
} trial;

static const clade_shape *shapes(void) {
  static clade_shape all[TENSORS];
  all[0] = CLADE_SHAPE(3, 4), all[1] = CLADE_SHAPE(5), all[2] = CLADE_SCALAR, all[3] = CLADE_SHAPE(17, 3);
  all[4] = CLADE_SHAPE(1), all[5] = CLADE_SHAPE(2, 2, 2), all[6] = CLADE_SHAPE(33), all[7] = CLADE_SHAPE(4, 1);
  all[8] = CLADE_SHAPE(6, 7);
  return all;
}

static void tensors_new(ref_tensor *t) {
  for (int k = 0; k < TENSORS; k++) {
    char name[32];
    snprintf(name, sizeof name, "p%d", k);
    ref_tensor_new(&t[k], name, shapes()[k]);
  }
}

static double factor_at(int k, int64_t i) { return clade__uniform(7, (uint64_t)k, (uint64_t)i) * 4 - 2; }

static clade_val loss_of(clade_graph *g, const ref_tensor *t) {
  clade_val loss = {0};
  for (int k = 0; k < TENSORS; k++) {
    float a[64];
    for (int64_t i = 0; i < t[k].n; i++) a[i] = (float)factor_at(k, i);
    clade_val p = clade_parameter(g, t[k].name, CLADE_F32, t[k].shape, (clade_initial){CLADE_INIT_NORMAL, 0, 1});
    clade_val of = clade_mul(g, clade_constant(g, CLADE_F32, t[k].shape, a), clade_square(g, p));
    clade_val part = clade_sum(g, of);
    loss = k ? clade_add(g, loss, part) : part;
  }
  return clade_mul(g, loss, clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.5));
}

static double gradients(ref_tensor *t) {
  double squares = 0;
  for (int k = 0; k < TENSORS; k++)
    for (int64_t i = 0; i < t[k].n; i++) {
      t[k].g[i] = (double)(float)factor_at(k, i) * t[k].p[i];
      squares += t[k].g[i] * t[k].g[i];
    }
  return sqrt(squares);
}

static void compare(const trial *c, clade_vars *vars, const ref_tensor *t) {
  bool rms = c->ref.rule == REF_RMSPROP; /* its first moment is the square */
  for (int k = 0; k < TENSORS; k++) {
    char name[80];
    vars_near(vars, c->name, t[k].name, t[k].n, t[k].p, 2e-6);
    if (c->first) vars_near(vars, c->name, state_name(name, c->first, t[k].name), t[k].n, rms ? t[k].v : t[k].m, 5e-6);
    if (c->second)
      vars_near(vars, c->name, state_name(name, c->second, t[k].name), t[k].n, rms ? t[k].m : t[k].v, 5e-6);
    if (c->ref.ema > 0) vars_near(vars, c->name, state_name(name, "ema", t[k].name), t[k].n, t[k].average, 2e-6);
  }
}

static void run_steps(const trial *c, clade_run *run, clade_vars *vars, ref_tensor *t) {
  for (int64_t step = 1; step <= STEPS; step++) {
    clade_ticket ticket;
    float lr, norm;
    double factor = clade_schedule_at(&c->schedule, step - 1), length = gradients(t);
    OK(clade_execute(run, 0, NULL, &ticket));
    OK(clade_read(run, ticket, "lr", &lr, sizeof lr));
    OK(clade_read(run, ticket, "grad_norm", &norm, sizeof norm));
    assert_true(fabs((double)lr - c->ref.lr * factor) <= 1e-6 * c->ref.lr);
    if (c->ref.clip_value <= 0) assert_true(fabs((double)norm - length) <= 1e-5 * length);
    ref_update(&c->ref, factor, step, TENSORS, t);
    compare(c, vars, t);
  }
}

static void try(clade_device *device, const trial *c) {
  ref_tensor t[TENSORS];
  clade_vars *vars;
  clade_run *run;
  int64_t step = 0;
  clade_graph *g = graph_new();
  tensors_new(t);
  clade_val loss = loss_of(g, t);
  OK(clade_minimize(g, loss, .optimizer = c->optimizer, .schedule = c->schedule, .clip_value = c->ref.clip_value,
                    .clip_norm = c->ref.clip_norm, .ema = c->ref.ema, .decay_all = c->ref.decay_all, .report = true));
  clade_func *func = compiled(g, device);
  OK(clade_vars_new(func, 3, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int k = 0; k < TENSORS; k++) vars_take(vars, t[k].name, t[k].n, t[k].p);
  run_steps(c, run, vars, t);
  OK(clade_vars_get(vars, "optimizer.step", &step, sizeof step));
  assert_int_equal(step, STEPS);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  for (int k = 0; k < TENSORS; k++) ref_tensor_free(&t[k]);
}

static void test_sgd(void **state) {
  const trial trials[] = {
      {.name = "sgd", .optimizer = clade_sgd(.lr = 0.1), .ref = {REF_SGD, .lr = 0.1}},
      {.name = "sgd, decay, averages",
       .optimizer = clade_sgd(.lr = 0.1, .weight_decay = 0.2),
       .ref = {REF_SGD, .lr = 0.1, .decay = 0.2, .ema = 0.9}},
      {.name = "momentum, steps",
       .optimizer = clade_sgd(.lr = 0.1, .momentum = 0.9),
       .ref = {REF_SGD, .lr = 0.1, .momentum = 0.9, .clip_norm = 1.5},
       .schedule = clade_step_decay(.every = 2, .factor = 0.5, .warmup = 3),
       .first = "momentum"},
      {.name = "nesterov, decay of all",
       .optimizer = clade_sgd(.lr = 0.1, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1),
       .ref = {REF_SGD, .lr = 0.1, .momentum = 0.8, .nesterov = true, .decay = 0.1, .decay_all = true},
       .schedule = clade_cosine(.steps = 5, .warmup = 2, .floor = 0.1),
       .first = "momentum"},
  };
  for (size_t i = 0; i < CLADE_COUNT(trials); i++) try(*state, &trials[i]);
}

static void test_adam(void **state) {
  const trial trials[] = {
      {.name = "adam",
       .optimizer = clade_adam(.lr = 0.01),
       .ref = {REF_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip_value = 0.4},
       .first = "mean",
       .second = "square"},
      {.name = "adam, its numbers",
       .optimizer = clade_adam(.lr = 0.05, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1),
       .ref = {REF_ADAM, .lr = 0.05, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-3, .decay = 0.1, .clip_norm = 100},
       .first = "mean",
       .second = "square"},
      {.name = "adam, zeros",
       .optimizer = clade_adam(.lr = 0.05, .beta1 = 0, .beta2 = 0, .eps = 1e-3),
       .ref = {REF_ADAM, .lr = 0.05, .eps = 1e-3},
       .first = "mean",
       .second = "square"},
      {.name = "adamw, zeros",
       .optimizer = clade_adamw(.weight_decay = 0),
       .ref = {REF_ADAMW, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
       .first = "mean",
       .second = "square"},
      {.name = "adamw",
       .optimizer = clade_adamw(.weight_decay = 0.3),
       .ref = {REF_ADAMW, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.3},
       .schedule = clade_one_cycle(.steps = 5, .peak_at = 0.5),
       .first = "mean",
       .second = "square"},
  };
  for (size_t i = 0; i < CLADE_COUNT(trials); i++) try(*state, &trials[i]);
}

static void test_rmsprop(void **state) {
  const trial trials[] = {
      {.name = "rmsprop",
       .optimizer = clade_rmsprop(.weight_decay = 0.1),
       .ref = {REF_RMSPROP, .lr = 0.01, .alpha = 0.99, .eps = 1e-8, .decay = 0.1, .clip_value = 1, .clip_norm = 0.5},
       .first = "square"},
      {.name = "rmsprop, momentum",
       .optimizer = clade_rmsprop(.lr = 0.02, .alpha = 0.9, .momentum = 0.9, .eps = 1e-6),
       .ref = {REF_RMSPROP, .lr = 0.02, .alpha = 0.9, .momentum = 0.9, .eps = 1e-6},
       .schedule = {.warmup = 4},
       .first = "square",
       .second = "momentum"},
  };
  for (size_t i = 0; i < CLADE_COUNT(trials); i++) try(*state, &trials[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sgd),
      cmocka_unit_test(test_adam),
      cmocka_unit_test(test_rmsprop),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

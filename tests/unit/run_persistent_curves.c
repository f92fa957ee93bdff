/* Persistent kernels: the same bits as separate launches, over several executions, in slots, with changing packed
 * copies, between guards, and with few workers. */
#include <stdio.h>

#include <clade/nn.h>
#include <clade/optim.h>

#include "models/models.h"
#include "op/norm/batch_norm.h"
#include "plan_kit.h"

enum { BATCH = 8, CLASSES = 10, STEPS = 6 };

typedef struct side {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} side;

/* A training step or, without a label, inference. */
static clade_graph *graph_of(const char *model, int channels, int pixels, bool training) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, channels, pixels, pixels));
  clade_val y = model_by_name(model)(g, x, CLASSES, NULL);
  if (!training) {
    clade_output(g, "y", y);
    return g;
  }
  clade_val label = clade_input(g, "label", CLADE_I32, CLADE_SHAPE(BATCH));
  clade_val loss = clade_cross_entropy(g, y, label);
  clade_output(g, "y", loss);
  OK(clade_minimize(g, loss, .optimizer = clade_adam(.lr = 1e-3)));
  return g;
}

static side side_new(clade_device *device, clade_graph *g, size_t least, clade_vars *shared, int slots) {
  side s = {.vars = clade_vars_retain(shared)};
  clade__persistent_least = least;
  s.func = compiled(g, device);
  clade__persistent_least = 8;
  if (!shared) OK(clade_vars_new(s.func, 42, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run, .slots = slots));
  return s;
}

static void side_free(side *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

static size_t inside(const clade_func *func) {
  size_t n = 0;
  for (size_t c = 0; c < func->n_persistent; c++) n += func->persistent[c].count;
  return n;
}

static void draw(int step, size_t n, float *x, int32_t *label) {
  for (size_t i = 0; i < n; i++) x[i] = (float)clade__uniform(5, (uint64_t)step, i) * 2 - 1;
  for (int i = 0; i < BATCH; i++) label[i] = (step + i) % CLASSES;
}

static void execute(side *s, const float *x, size_t bytes, const int32_t *label, clade_ticket *ticket) {
  if (label)
    OK(clade_execute(s->run, CLADE_FEEDS({"x", x, bytes, NULL}, {"label", label, BATCH * sizeof *label, NULL}),
                     ticket));
  else
    OK(clade_execute(s->run, CLADE_FEEDS({"x", x, bytes, NULL}), ticket));
}

static void same_variables(const side *a, const side *b) {
  for (size_t v = 0; v < a->func->graph->variables.count; v++) {
    const char *name = a->func->graph->variables.at[v].name;
    size_t bytes = a->vars->at[a->run->var_index[v]].bytes;
    char *left = malloc(bytes + 1), *right = malloc(bytes + 1);
    assert_true(left && right);
    OK(clade_vars_get(a->vars, name, left, bytes));
    OK(clade_vars_get(b->vars, name, right, bytes));
    if (memcmp(left, right, bytes)) fail_msg("%s is not what launches of their own compute", name);
    free(left);
    free(right);
  }
}

typedef struct course {
  const char *model;
  int channels, pixels;
  bool training;
} course;
static const course courses[] = {
    {"lenet5", 1, 28, true},
    {"mobilenetv2", 3, 32, false},
};

static void compare(clade_device *device, const course *c) {
  size_t n = (size_t)(BATCH * c->channels * c->pixels * c->pixels);
  clade_graph *g = graph_of(c->model, c->channels, c->pixels, c->training);
  float *x = malloc(n * sizeof *x), y[2][BATCH * CLASSES];
  size_t bytes = c->training ? sizeof(float) : sizeof y[0];
  int32_t label[BATCH];
  side s[2] = {side_new(device, clade_graph_retain(g), 2, NULL, 2), side_new(device, g, SIZE_MAX, NULL, 2)};
  assert_non_null(x);
  assert_int_equal(inside(s[1].func), 0);
  if (clade__quirk_has(device, CLADE__QUIRK_SLOW_WAKE)) assert_true(inside(s[0].func) > s[0].func->n_steps * 3 / 4);
  for (int step = 0; step < STEPS; step++) {
    draw(step, n, x, label);
    for (int k = 0; k < 2; k++) {
      clade_ticket ticket;
      execute(&s[k], x, n * sizeof *x, c->training ? label : NULL, &ticket);
      OK(clade_read(s[k].run, ticket, "y", y[k], bytes));
    }
    if (memcmp(y[0], y[1], bytes)) fail_msg("%s: execution %d differs", c->model, step);
  }
  same_variables(&s[0], &s[1]);
  printf("%s, %s: %zu of %zu steps in %zu persistent kernels, the same bits\n", c->model,
         c->training ? "training" : "inference", inside(s[0].func), s[0].func->n_steps, s[0].func->n_persistent);
  for (int k = 0; k < 2; k++) side_free(&s[k]);
  free(x);
}

static void bits(void **state) {
  for (size_t i = 0; i < sizeof courses / sizeof *courses; i++) compare(*state, &courses[i]);
}

static void between_guards(void **state) {
  clade__plan_guard_bytes = 4096;
  float *x = malloc(BATCH * 784 * sizeof *x);
  int32_t label[BATCH];
  clade_ticket ticket;
  assert_non_null(x);
  side s = side_new(*state, graph_of("lenet5", 1, 28, true), 2, NULL, 2);
  for (int step = 0; step < 3; step++) {
    draw(step, BATCH * 784, x, label);
    execute(&s, x, BATCH * 784 * sizeof *x, label, &ticket);
  }
  OK(clade__run_check_guards(s.run));
  clade__plan_guard_bytes = 0;
  side_free(&s);
  free(x);
}

/* Weights are set while a run has packed copies of them in its persistent kernels, with all slots in use. */
static void changed_weights(void **state) {
  enum { N = BATCH * 3 * 32 * 32, TIMES = 5 };
  clade_graph *g = graph_of("mobilenetv2", 3, 32, false);
  float *x = malloc(N * sizeof *x), y[2][TIMES][BATCH * CLASSES];
  int32_t label[BATCH];
  assert_non_null(x);
  side s[2] = {side_new(*state, clade_graph_retain(g), 2, NULL, TIMES)};
  s[1] = side_new(*state, g, SIZE_MAX, s[0].vars, TIMES);
  const char *name = s[0].func->graph->variables.at[0].name;
  size_t bytes = s[0].vars->at[s[0].run->var_index[0]].bytes;
  float *w = malloc(bytes);
  assert_non_null(w);
  for (int round = 0; round < 2; round++) {
    clade_ticket ticket[2][TIMES];
    for (int t = 0; t < TIMES; t++) {
      draw(t, N, x, label);
      for (int k = 0; k < 2; k++) execute(&s[k], x, N * sizeof *x, NULL, &ticket[k][t]);
    }
    for (int t = 0; t < TIMES; t++)
      for (int k = 0; k < 2; k++) OK(clade_read(s[k].run, ticket[k][t], "y", y[k][t], sizeof y[k][t]));
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    OK(clade_vars_get(s[0].vars, name, w, bytes));
    for (size_t i = 0; i < bytes / sizeof *w; i++) w[i] = w[i] * 0.5f + 0.01f;
    OK(clade_vars_set(s[0].vars, name, w, bytes));
  }
  for (int k = 0; k < 2; k++) side_free(&s[k]);
  free(w);
  free(x);
}

/* A profiled run has times of each step, so each is a launch; few steps form no persistent kernel. */
static void apart(void **state) {
  enum { N = BATCH * 784 };
  clade_graph *g = graph_of("lenet5", 1, 28, false);
  float *x = malloc(N * sizeof *x), y[2][BATCH * CLASSES];
  int32_t label[BATCH];
  clade_ticket ticket;
  char *text;
  assert_non_null(x);
  side s = side_new(*state, g, 2, NULL, 1);
  draw(1, N, x, label);
  execute(&s, x, N * sizeof *x, NULL, &ticket);
  OK(clade_read(s.run, ticket, "y", y[0], sizeof y[0]));
  OK(clade_func_explain(s.func, &text));
  assert_int_equal(strstr(text, "persistent kernels, each of which is one launch") != NULL, inside(s.func) > 0);
  clade_text_free(text);
  clade_run_free(s.run);
  for (int time = 0; time < 2; time++) { /* the second run finds its kernels prepared */
    OK(clade_run_new(s.func, s.vars, &s.run, .profile = true));
    execute(&s, x, N * sizeof *x, NULL, &ticket);
    OK(clade_read(s.run, ticket, "y", y[1], sizeof y[1]));
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_int_equal(s.run->n_times, s.func->n_steps + 1);
    if (!time) clade_run_free(s.run);
  }
  side_free(&s);
  free(x);
}

static bool one_item(const clade__fstep *step) { return step->launch->global[0] == 1; }

/* Whether a persistent kernel has adjacent steps of one item beside larger steps. */
static bool has_mixed_persistent(const clade_func *func) {
  for (size_t c = 0; c < func->n_persistent; c++) {
    const clade__fpersistent *persistent = &func->persistent[c];
    for (size_t i = 1; i < persistent->count && persistent->workers > 1; i++) {
      const clade__fstep *step = &func->steps[persistent->first + i];
      if (one_item(step) && one_item(step - 1)) return true;
    }
  }
  return false;
}

/* Steps of one item need no second worker, and adjacent ones are combined into tasks: the same bits. */
static void few_workers(void **state) {
  enum { N = 32, LINKS = 10 };
  static const int rows[] = {N, 128 * N};
  const bool persistent_here = clade__quirk_has(*state, CLADE__QUIRK_SLOW_WAKE);
  for (size_t k = 0; k < CLADE_COUNT(rows); k++) {
    const size_t elements = (size_t)rows[k] * N, bytes = elements * sizeof(float);
    float *x = malloc(bytes), *y[2] = {malloc(bytes), malloc(bytes)}, *w = malloc(N * N * sizeof *w);
    assert_true(x && y[0] && y[1] && w);
    for (size_t i = 0; i < elements; i++) x[i] = (float)clade__uniform(5, 1, i) * 2 - 1;
    for (size_t i = 0; i < N * N; i++) w[i] = (float)clade__uniform(6, 1, i) / 32;
    for (int persistent = 0; persistent < 2; persistent++) {
      clade_graph *g = graph_new();
      clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(rows[k], N));
      clade_val small = clade_input(g, "w", CLADE_F32, CLADE_SHAPE(N, N)), by = small;
      for (int i = 0; i < LINKS; i++) {
        by = clade_gemm(g, small, clade_gemm(g, small, by));
        v = clade_gemm(g, v, by);
      }
      clade_output(g, "y", v);
      side s = side_new(*state, g, persistent ? 2 : SIZE_MAX, NULL, 1);
      if (persistent && persistent_here && k == 0) {
        assert_true(s.run->lone);
        assert_int_equal(s.func->persistent[0].workers, 1);
      }
      if (persistent && persistent_here && k > 0 && clade__device_info(*state)->compute_units > 1)
        assert_true(has_mixed_persistent(s.func));
      clade_ticket ticket;
      OK(clade_execute(s.run, CLADE_FEEDS({"x", x, bytes, NULL}, {"w", w, N * N * sizeof *w, NULL}), &ticket));
      OK(clade_read(s.run, ticket, "y", y[persistent], bytes));
      side_free(&s);
    }
    assert_memory_equal(y[0], y[1], bytes);
    free(x), free(y[0]), free(y[1]), free(w);
  }
}

/* Each step is in at most one persistent kernel, and their estimated durations are limited: 20 ms, or an eighth of a
 * longer func up to 50 ms. */
static void check_cuts(clade_device *device, clade_graph *g) {
  clade__plan_only = true;
  clade_func *func = compiled(g, device);
  clade__plan_only = false;
  OK(clade__list_requests(func));
  if (clade__quirk_has(device, CLADE__QUIRK_SLOW_WAKE)) assert_true(func->n_persistent > 2);
  double all = 0;
  for (size_t s = 0; s < func->n_steps; s++) all += func->steps[s].joins ? func->steps[s].seconds : 0;
  const double most = CLADE_MIN(CLADE_MAX(20e-3, all / 8), 50e-3);
  for (size_t c = 0, end = 0; c < func->n_persistent; c++) {
    const clade__fpersistent *persistent = &func->persistent[c];
    double seconds = 0;
    assert_true(persistent->first >= end);
    end = persistent->first + persistent->count;
    for (size_t s = persistent->first; s < end; s++) seconds += func->steps[s].seconds;
    assert_true(persistent->count == 1 || (seconds > 0 && seconds <= most * (1 + 1e-9)));
  }
  clade_func_release(func);
}

/* 512 channels, for which launches alternate. */
static clade_graph *long_node(const clade_device_info *info) {
  const int64_t samples = clade__second_cache(info) * info->compute_units / 4 / (4 << 12) + 1;
  clade_graph *g = graph_new();
  clade_val in[5] = {clade_input(g, "x", CLADE_F32, CLADE_SHAPE(samples, 512, 64, 64))}, next[2];
  for (int i = 1; i < 5; i++) in[i] = clade_input(g, (char[]){(char)('a' + i), 0}, CLADE_F32, CLADE_SHAPE(512));
  clade_output(g, "y", clade__batch_norm(g, in, 1e-5f, 0.1f, next));
  return g;
}

/* Long kernels are divided so that other work gets its turn, also within a node. */
static void cut(void **state) {
  check_cuts(*state, graph_of("mobilenetv2", 3, 224, false));
  check_cuts(*state, long_node(clade__device_info(*state)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits),
      cmocka_unit_test(between_guards),
      cmocka_unit_test(changed_weights),
      cmocka_unit_test(apart),
      cmocka_unit_test(cut),
      cmocka_unit_test(few_workers),
  };
  return cmocka_run_group_tests_name("persistent kernels", tests, open_device, close_device);
}

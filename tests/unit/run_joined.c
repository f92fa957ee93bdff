/* Joined launches: on a device that is told to be a GPU, independent steps are one launch, with the same bits as
 * separate ones; variables share buffers. */
#include <math.h>
#include <stdio.h>

#include <clade/nn.h>
#include <clade/optim.h>

#include "cl/internal.h"
#include "models/models.h"
#include "plan_kit.h"

enum { BATCH = 3, WIDTH = 5, LAYERS = 9, STEPS = 4 };

static clade_val layers(clade_graph *g, clade_val y) {
  char name[16];
  for (int i = 0; i < LAYERS; i++) { /* of odd sizes, and a parameter of one element */
    snprintf(name, sizeof name, "layer%d", i);
    y = clade_tanh(g, clade_nn_linear(g, name, y, .out = i == LAYERS - 1 ? 1 : 2 * i + 3));
  }
  return y;
}

static clade_graph *training(const clade_minimize_opt *given) {
  clade_graph *g = graph_new();
  clade_val y = layers(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, WIDTH)));
  clade_minimize_opt opt = *given;
  opt.size = sizeof opt;
  opt.loss = clade_sum(g, clade_mul(g, y, y));
  clade_output(g, "y", opt.loss);
  OK(clade_minimize_(g, &opt));
  return g;
}

typedef struct side {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} side;

static side side_new(clade_device *device, clade_graph *g, clade_dtype precision, size_t least) {
  side s = {0};
  clade__joined_least = least;
  OK(clade_compile(g, device, &s.func, .precision = precision));
  clade__joined_least = 2;
  clade_graph_release(g);
  OK(clade_vars_new(s.func, 42, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run));
  return s;
}

static void side_free(side *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

static void step(side *s, int number, float scale) {
  float x[BATCH * WIDTH];
  for (size_t i = 0; i < CLADE_COUNT(x); i++) x[i] = scale * ((float)clade__uniform(5, (uint64_t)number, i) * 2 - 1);
  OK(clade_execute(s->run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL));
  OK(clade_wait(s->run, 0));
}

static void same_variables(const side *a, const side *b) {
  for (size_t i = 0; i < a->vars->n; i++) {
    const clade__var *var = &a->vars->at[i];
    char *left = malloc(var->bytes + 1), *right = malloc(var->bytes + 1);
    assert_true(left && right);
    OK(clade_vars_get(a->vars, var->name, left, var->bytes));
    OK(clade_vars_get(b->vars, var->name, right, var->bytes));
    if (memcmp(left, right, var->bytes)) fail_msg("%s is not what launches of their own compute", var->name);
    free(left), free(right);
  }
}

/* Launches that contain updates of variables, and their steps. */
static size_t launches(const clade_func *func, size_t *steps) {
  size_t n = 0;
  uint32_t last = 0;
  *steps = 0;
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (step->kind != CLADE__FSTEP_KERNEL || !strstr(step->launch->kernel, "update_forward")) continue;
    ++*steps;
    n += !step->persistent || step->persistent != last;
    last = step->persistent;
  }
  return n;
}

/* An optimizer of a program's own, from elementwise ops. */
static clade_status sign_update(const clade_update *u) {
  for (int i = 0; i < u->n; i++) {
    clade_val dx = clade_cast(u->graph, clade_update_gradient(u, i), CLADE_F32);
    u->new_moments[i] = clade_add(u->graph, u->moments[i], dx);
    u->new_parameters[i] =
        clade_sub(u->graph, u->parameters[i], clade_mul(u->graph, clade_sign(u->graph, u->new_moments[i]), u->lr));
  }
  return clade_graph_status(u->graph);
}
static const clade_rule sign_rule = {
    .size = sizeof sign_rule, .name = "sign", .moments = {"memory"}, .update = sign_update};

typedef struct course {
  clade_minimize_opt opt;
  clade_dtype precision;
  size_t updates; /* launches of the op update */
} course;

static int courses(course *all) {
  int n = 0;
  all[n++] = (course){{.optimizer = clade_sgd(.lr = 0.1)}, CLADE_F32, 1};
  all[n++] = (course){{.optimizer = clade_sgd(.lr = 0.1, .momentum = 0.9), .clip_norm = 0.1}, CLADE_F32, 1};
  all[n++] = (course){{.optimizer = clade_adam(.lr = 0.01), .ema = 0.9}, CLADE_F32, 2};
  all[n++] = (course){{.optimizer = clade_adamw(.lr = 0.01), .clip_value = 0.2}, CLADE_BF16, 1};
  all[n++] = (course){{.optimizer = clade_adam(.lr = 0.01), .loss_scale = 1024, .ema = 0.5}, CLADE_F16, 2};
  all[n++] = (course){{.optimizer = clade_rmsprop(.lr = 0.01, .momentum = 0.5)}, CLADE_F32, 1};
  all[n++] = (course){{.optimizer = {.rule = &sign_rule, .lr = 0.1}}, CLADE_F32, 0};
  return n;
}

static void bits(void **state) {
  course all[8];
  for (int i = 0, n = courses(all); i < n; i++) {
    size_t steps, apart;
    side s[2] = {side_new(*state, training(&all[i].opt), all[i].precision, 2),
                 side_new(*state, training(&all[i].opt), all[i].precision, SIZE_MAX)};
    assert_int_equal(s[1].func->n_persistent, 0);
    assert_true(s[0].func->n_persistent > 0);
    const size_t joined = launches(s[0].func, &steps), single = launches(s[1].func, &apart);
    assert_int_equal(joined, all[i].updates);
    assert_int_equal(steps, all[i].updates * 2 * LAYERS);
    assert_true(steps == apart && single == apart);
    for (int k = 0; k < STEPS; k++) /* one overflows in f16, and is skipped */
      for (int j = 0; j < 2; j++) step(&s[j], k, k == 2 && all[i].opt.loss_scale != 0 ? INFINITY : 1);
    same_variables(&s[0], &s[1]);
    for (int j = 0; j < 2; j++) side_free(&s[j]);
  }
}

/* Variables share a buffer, which keeps their values, also in a copy and for a func with fewer of them. */
static void shared_buffers(void **state) {
  course all[8];
  courses(all);
  clade_graph *g = graph_new();
  float x[BATCH * WIDTH] = {0.5f, -1, 2}, y[2][BATCH];
  clade_vars *copy;
  clade_ticket ticket;
  clade_output(g, "y", layers(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, WIDTH))));
  side t = side_new(*state, training(&all[2].opt), CLADE_F32, 2);
  for (size_t i = 0; i < t.vars->n; i++) {
    assert_ptr_equal(t.vars->at[i].buffer, t.vars->at[0].buffer);
    assert_int_equal(t.vars->at[i].slab, 0);
    assert_true(i == 0 || t.vars->at[i].offset >= t.vars->at[i - 1].offset + t.vars->at[i - 1].bytes);
  }
  step(&t, 0, 1);
  OK(clade_vars_snapshot(t.vars, &copy));
  side of_copy = {.vars = copy};
  same_variables(&t, &of_copy);
  step(&t, 1, 1);
  clade_func *func = compiled(g, *state);
  for (int i = 0; i < 2; i++) {
    clade_run *run;
    OK(clade_run_new(func, i ? copy : t.vars, &run));
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", y[i], sizeof y[i]));
    clade_run_free(run);
  }
  assert_memory_not_equal(y[0], y[1], sizeof y[0]);
  clade_func_release(func);
  clade_vars_release(copy);
  side_free(&t);
}

/* Variables in more buffers than a joined launch takes: each step is a launch. */
static void many_buffers(void **state) {
  course all[8];
  courses(all);
  side joined = side_new(*state, training(&all[2].opt), CLADE_F32, 2);
  clade__plan_slab_bytes = 2048;
  side many = side_new(*state, training(&all[2].opt), CLADE_F32, 2);
  clade__plan_slab_bytes = 0;
  assert_false(joined.run->apart);
  assert_true(many.run->apart);
  for (int k = 0; k < STEPS; k++) step(&joined, k, 1), step(&many, k, 1);
  same_variables(&joined, &many);
  side_free(&joined), side_free(&many);
}

static void between_guards(void **state) {
  course all[8];
  clade__plan_guard_bytes = 4096;
  for (int i = 0, n = courses(all); i < n; i++) {
    side s = side_new(*state, training(&all[i].opt), all[i].precision, 2);
    for (int k = 0; k < 2; k++) step(&s, k, 1);
    OK(clade__run_check_guards(s.run));
    side_free(&s);
  }
  clade__plan_guard_bytes = 0;
}

/* A step that reads what another one writes, or overwrites what it reads, is in a later launch. */
static void dependent(void **state) {
  enum { N = 1001 };
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), a, b, y;
  a = clade_variable(g, "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 2, 0});
  b = clade_variable(g, "b", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 3, 0});
  y = clade_sum(g, clade_mul(g, x, clade_broadcast(g, clade_mean(g, clade_add(g, a, b)), CLADE_SHAPE(N))));
  clade_assign(g, a, clade_add(g, b, x)); /* in b's and a's memory after both were read */
  clade_assign(g, b, clade_sub(g, a, x));
  clade_output(g, "y", y);
  clade_func *func = compiled(g, *state);
  for (size_t c = 0; c < func->n_persistent; c++) {
    const clade__fpersistent *joined = &func->persistent[c];
    for (size_t s = joined->first + 1; s < joined->first + joined->count; s++) {
      const clade__fpersistent before = {.first = joined->first, .count = s - joined->first};
      assert_true(clade__independent(func, &before, &func->steps[s]));
    }
  }
  float in[N] = {1}, have[N];
  clade_vars *vars;
  clade_run *run;
  OK(clade_vars_new(func, 1, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", in, sizeof in, NULL}), NULL));
  OK(clade_wait(run, 0));
  OK(clade_vars_get(vars, "a", have, sizeof have));
  assert_true(have[0] == 4 && have[1] == 3 && have[N - 1] == 3);
  OK(clade_vars_get(vars, "b", have, sizeof have));
  assert_true(have[0] == 1 && have[1] == 2 && have[N - 1] == 2);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

static void listed(void **state) {
  course all[8];
  char *text;
  courses(all);
  side s = side_new(*state, training(&all[0].opt), CLADE_F32, 2);
  OK(clade_func_explain(s.func, &text));
  assert_non_null(strstr(text, "joined launches, each of which is one launch"));
  clade_text_free(text);
  OK(clade_func_steps(s.func, &text));
  assert_non_null(strstr(text, " joined 1\n"));
  clade_text_free(text);
  side_free(&s);
}

/* Casts of weights are one launch, and updates another, in a model's training step. */
static void model(void **state) {
  const clade_dtype precisions[] = {CLADE_F32, CLADE_BF16};
  clade__plan_only = true;
  for (size_t i = 0; i < CLADE_COUNT(precisions); i++) {
    clade_graph *g = graph_new();
    clade_func *func;
    size_t steps;
    clade_graph_train(g, true);
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 3, 224, 224)), y = resnet18(g, x, 10, NULL);
    clade_val loss = clade_cross_entropy(g, y, clade_input(g, "label", CLADE_I32, CLADE_SHAPE(BATCH)));
    OK(clade_minimize(g, loss, .optimizer = clade_adam(.lr = 1e-3)));
    OK(clade_compile(g, *state, &func, .precision = precisions[i]));
    clade_graph_release(g);
    OK(clade__list_requests(func));
    assert_int_equal(launches(func, &steps), 1);
    assert_int_equal(steps, 62); /* parameters */
    if (precisions[i] != CLADE_F32) assert_in_range(func->persistent[0].count, 20, 22);
    clade_func_release(func);
  }
  clade__plan_only = false;
}

/* The kernels for GPUs run on a CPU as well. */
static int pretend(void **state) {
  setenv("CLADE_MEASURE", "off", 1);
  if (open_device(state)) return -1;
  ((clade_device *)*state)->facts.info.device_class = CLADE_GPU;
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits),         cmocka_unit_test(shared_buffers),
                                     cmocka_unit_test(many_buffers), cmocka_unit_test(between_guards),
                                     cmocka_unit_test(dependent),    cmocka_unit_test(listed),
                                     cmocka_unit_test(model)};
  return cmocka_run_group_tests_name("joined launches", tests, pretend, close_device);
}

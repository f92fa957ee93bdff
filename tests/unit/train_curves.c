/* Loss curves against an independent reference in double (train_net.h, train_kit.h): an MLP and LeNet-5 with SGD,
 * Adam and AdamW. 20 free-running steps; then 100 steps, each restarted from the reference's weights and moments,
 * excluding those where an element is so close to a kink of ReLU or a maximum that f32 may take the other branch. */
#include "train_net.h"

enum { FREE = 20, RESTARTED = 100, MOST = 3 * RESTARTED };

typedef struct course {
  const char *name;
  clade_optimizer optimizer;
  ref_optimizer ref;
  const char *first, *second;
} course;

typedef struct trial {
  const course *c;
  net *n;
  clade_vars *vars;
  clade_run *run;
  int pixels;
  float *x;
  int32_t label[64];
  double loss_error, gradient_error; /* maximum over all restarted steps */
} trial;

/* Noisy images of ten patterns. A quarter has random labels, so that gradients do not vanish. */
static void draw_batch(trial *t, uint64_t step) {
  for (int b = 0; b < t->n->batch; b++) {
    int shown = (int)(clade__uniform(21, step, (uint64_t)b) * NET_CLASSES);
    bool wrong = clade__uniform(24, step, (uint64_t)b) < 0.25;
    t->label[b] = t->n->label[b] = wrong ? (int)(clade__uniform(25, step, (uint64_t)b) * NET_CLASSES) : shown;
    for (int i = 0; i < t->pixels; i++) {
      uint64_t at = (uint64_t)(b * t->pixels + i);
      double pattern = clade__uniform(22, (uint64_t)shown, (uint64_t)i), noise = clade__uniform(23, step, at);
      t->x[at] = (float)(pattern * 0.6 + noise * 0.8 - 0.7);
      t->n->x[at] = (double)t->x[at];
    }
  }
}

static double run_step(trial *t, clade_ticket *ticket) {
  float loss;
  size_t images = (size_t)t->n->batch;
  OK(clade_execute(t->run,
                   CLADE_FEEDS({"x", t->x, sizeof(float) * images * (size_t)t->pixels, NULL},
                               {"y", t->label, sizeof(int32_t) * images, NULL}),
                   ticket));
  OK(clade_read(t->run, *ticket, "loss", &loss, sizeof loss));
  return (double)loss;
}

/* ---- free-running ---- */
static void run_freely(trial *t) {
  clade_ticket ticket;
  for (int i = 0; i < t->n->n_tensors; i++)
    vars_take(t->vars, t->n->tensor[i].name, t->n->tensor[i].n, t->n->tensor[i].p);
  for (int step = 1; step <= FREE; step++) {
    draw_batch(t, (uint64_t)step);
    double have = run_step(t, &ticket), want = net_step(t->n);
    if (!(fabs(have - want) <= 1e-5 * fabs(want)))
      fail_msg("%s, step %d: the loss is %.9g instead of %.9g", t->c->name, step, have, want);
    ref_update(&t->c->ref, 1, step, t->n->n_tensors, t->n->tensor);
  }
}

/* ---- restarted ---- */
static void put_state(trial *t, const char *kind, const char *parameter, int64_t n, double *v) {
  char name[80];
  for (int64_t i = 0; i < n; i++) v[i] = (double)(float)v[i]; /* both continue from the same values */
  if (kind) vars_put(t->vars, *kind ? state_name(name, kind, parameter) : parameter, n, v);
}

static void put_reference(trial *t, int64_t step) {
  OK(clade_vars_set(t->vars, "optimizer.step", &step, sizeof step));
  for (int i = 0; i < t->n->n_tensors; i++) {
    ref_tensor *x = &t->n->tensor[i];
    put_state(t, "", x->name, x->n, x->p);
    put_state(t, t->c->first, x->name, x->n, x->m);
    put_state(t, t->c->second, x->name, x->n, x->v);
  }
}

static double norm_of(int64_t n, const double *a, const float *minus) {
  double square = 0;
  for (int64_t i = 0; i < n; i++)
    square += (a[i] - (minus ? (double)minus[i] : 0)) * (a[i] - (minus ? (double)minus[i] : 0));
  return sqrt(square);
}

static void compare_gradients(trial *t, clade_ticket ticket, int step) {
  for (int i = 0; i < t->n->n_tensors; i++) {
    const ref_tensor *x = &t->n->tensor[i];
    float *g = malloc(sizeof *g * (size_t)x->n);
    char name[80];
    assert_non_null(g);
    snprintf(name, sizeof name, "d.%.32s", x->name);
    OK(clade_read(t->run, ticket, name, g, sizeof *g * (size_t)x->n));
    double error = norm_of(x->n, x->g, g) / norm_of(x->n, x->g, NULL);
    if (!(error <= 1e-4)) fail_msg("%s, step %d: the gradient of %s is off by %g", t->c->name, step, x->name, error);
    t->gradient_error = fmax(t->gradient_error, error);
    free(g);
  }
}

static void compare_weights(trial *t) {
  for (int i = 0; i < t->n->n_tensors; i++)
    vars_near(t->vars, t->c->name, t->n->tensor[i].name, t->n->tensor[i].n, t->n->tensor[i].p, 1e-5);
}

static void run_restarted(trial *t) {
  int compared = 0, step = FREE + 1;
  for (; compared < RESTARTED && step < FREE + MOST; step++) {
    clade_ticket ticket;
    draw_batch(t, (uint64_t)step);
    put_reference(t, step - 1);
    double have = run_step(t, &ticket), want = net_step(t->n), error = fabs(have - want) / fabs(want);
    if (!(error <= 1e-5)) fail_msg("%s, step %d: the loss is %.9g instead of %.9g", t->c->name, step, have, want);
    t->loss_error = fmax(t->loss_error, error);
    bool compares = !t->n->near_kink;
    if (compares) compare_gradients(t, ticket, step);
    ref_update(&t->c->ref, 1, step, t->n->n_tensors, t->n->tensor);
    if (compares) compare_weights(t);
    compared += compares;
  }
  print_message("%s: %d of %d steps compared; at most %.1e off in the loss, %.1e in a gradient\n", t->c->name, compared,
                step - FREE - 1, t->loss_error, t->gradient_error);
  assert_int_equal(compared, RESTARTED);
}

static void try(clade_device *device, const course *c, net *n, clade_shape image) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, image), p[NET_TENSORS], dp[NET_TENSORS];
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(n->batch));
  clade_val loss = clade_cross_entropy(g, net_build(n, g, x), y);
  trial t = {.c = c, .n = n};
  int64_t elements;
  OK(clade_shape_elements(&image, &elements));
  t.pixels = (int)elements / n->batch;
  clade_output(g, "loss", loss);
  OK(clade_graph_status(g));
  assert_int_equal(g->variables.count, n->n_tensors);
  for (int i = 0; i < n->n_tensors; i++) p[i] = clade__graph_val(g, g->variables.at[i].value);
  OK(clade_gradients(g, loss, (clade_val){0}, n->n_tensors, p, dp));
  for (int i = 0; i < n->n_tensors; i++) {
    char name[80];
    snprintf(name, sizeof name, "d.%.32s", n->tensor[i].name);
    assert_string_equal(g->variables.at[i].name, n->tensor[i].name);
    clade_output(g, name, dp[i]);
  }
  OK(clade_minimize(g, loss, .optimizer = c->optimizer));
  clade_func *func = compiled(g, device);
  OK(clade_vars_new(func, 4, &t.vars));
  OK(clade_run_new(func, t.vars, &t.run));
  t.x = calloc((size_t)(n->batch * t.pixels), sizeof *t.x);
  assert_non_null(t.x);
  run_freely(&t);
  run_restarted(&t);
  free(t.x);
  clade_run_free(t.run);
  clade_vars_release(t.vars);
  clade_func_release(func);
}

static const course *courses(int *n) {
  static course all[3];
  *n = 0;
  all[(*n)++] = (course){.name = "SGD",
                         .optimizer = clade_sgd(.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3),
                         .ref = {REF_SGD, .lr = 0.05, .momentum = 0.9, .decay = 1e-3},
                         .first = "momentum"};
  all[(*n)++] = (course){.name = "Adam",
                         .optimizer = clade_adam(.lr = 1e-3),
                         .ref = {REF_ADAM, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                         .first = "mean",
                         .second = "square"};
  all[(*n)++] = (course){.name = "AdamW",
                         .optimizer = clade_adamw(.lr = 1e-3, .weight_decay = 0.05),
                         .ref = {REF_ADAMW, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.05},
                         .first = "mean",
                         .second = "square"};
  return all;
}

static void test_mlp(void **state) {
  static const net_layer layers[] = {{NET_LINEAR, "l1", .out = 48, .relu = true},
                                     {NET_LINEAR, "l2", .out = 32, .relu = true},
                                     {NET_LINEAR, "l3", .out = NET_CLASSES}};
  int n_courses;
  const course *c = courses(&n_courses);
  for (int i = 0; i < n_courses; i++) {
    net n;
    net_new(&n, 16, 1, 14, 14, 3, layers);
    try(*state, &c[i], &n, CLADE_SHAPE(16, 14 * 14));
    net_free(&n);
  }
}

static void test_lenet5(void **state) {
  static const net_layer layers[] = {{NET_CONV, "c1", .out = 6, .kernel = 5, .pad = 2, .relu = true},
                                     {.kind = NET_POOL},
                                     {NET_CONV, "c2", .out = 16, .kernel = 5, .relu = true},
                                     {.kind = NET_POOL},
                                     {NET_LINEAR, "f1", .out = 120, .relu = true},
                                     {NET_LINEAR, "f2", .out = 84, .relu = true},
                                     {NET_LINEAR, "f3", .out = NET_CLASSES}};
  int n_courses;
  const course *c = courses(&n_courses);
  for (int i = 0; i < n_courses; i++) {
    net n;
    net_new(&n, 4, 1, 28, 28, 7, layers);
    try(*state, &c[i], &n, CLADE_SHAPE(4, 1, 28, 28));
    net_free(&n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlp), cmocka_unit_test(test_lenet5)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

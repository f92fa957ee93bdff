/* Memory plans: live values never overlap, the arena is close to the lower bound, and random graphs with state
 * compute the host's results with reuse, with small slabs, and between guards. */
#include "plan_check.h"

static uint64_t seed_state;
static unsigned draw(unsigned n) {
  uint32_t x[4];
  clade__philox(1, seed_state++, 0, x);
  return x[0] % n;
}

/* ---- allocation alone ---- */
static void assert_apart(const clade__interval *at, size_t n, const size_t *sizes) {
  for (size_t i = 0; i < n; i++) {
    assert_true(at[i].offset + at[i].bytes <= sizes[at[i].slab]);
    for (size_t k = 0; k < i; k++) {
      if (at[k].death < at[i].birth || at[i].death < at[k].birth || at[i].slab != at[k].slab) continue;
      assert_true(at[i].offset >= at[k].offset + at[k].bytes || at[k].offset >= at[i].offset + at[i].bytes);
    }
  }
}

static void packing(void **state) {
  enum { MOST = 3000 };
  clade__interval *at = calloc(MOST, sizeof *at);
  (void)state;
  for (int round = 0; round < 40; round++) {
    size_t n = round < 4 ? (size_t)round : 10 + draw(round % 8 ? 300 : MOST - 10), n_slabs, *sizes, sum = 0;
    size_t limit = round % 3 ? SIZE_MAX / 2 : 64 * 200;
    uint32_t end = (uint32_t)n + 40;
    uint64_t bound;
    for (size_t i = 0; i < n; i++) {
      uint32_t birth = (uint32_t)i, death = birth + 1 + draw(draw(8) ? 4 : 30);
      at[i] = (clade__interval){.bytes = 64 * (size_t)(1 + draw(draw(3) ? 20 : 100)), .birth = birth, .death = death};
    }
    OK(clade__pack_bound(n, at, end, &bound));
    OK(clade__pack(n, at, end, limit, &sizes, &n_slabs));
    assert_apart(at, n, sizes);
    for (size_t i = 0; i < n_slabs; i++) {
      assert_true(sizes[i] <= limit);
      sum += sizes[i];
    }
    assert_true(sum >= bound);
    if (limit > 1 << 20 && n < 2000 && (double)sum > 1.1 * (double)bound)
      fail_msg("%zu intervals: %zu bytes, the bound is %zu", n, sum, (size_t)bound);
    clade__free(sizes);
  }
  at[0] = (clade__interval){.bytes = 4096, .birth = 0, .death = 1};
  refused(clade__pack(1, at, 1, 1024, &(size_t *){0}, &(size_t){0}), CLADE_DEVICE_MEMORY, "4096 bytes");
  free(at);
}

/* ---- typical graphs ---- */
static void finish(clade_graph *g, clade_val y, clade_device *device, const char *what) {
  clade_output(g, "y", y);
  clade_func *func = compiled(g, device);
  double ratio = check_plan(func, device);
  clade_func_info info = {.size = sizeof info};
  OK(clade_func_get_info(func, &info));
  print_message("%s: %d steps, arena %" PRIu64 ", %.3f of the bound\n", what, info.steps, info.arena_bytes, ratio);
  if (ratio > 1.1) fail_msg("%s: the arena is %.3f of the lower bound", what, ratio);
  clade_func_release(func);
}

static clade_val start(clade_graph *g, int64_t n) {
  char name[32];
  snprintf(name, sizeof name, "x%d", (int)n);
  return clade_input(g, name, CLADE_F32, CLADE_SHAPE(n));
}

static void near_the_bound(void **state) {
  clade_graph *g = graph_new(); /* a chain with in-place ops, and one without */
  clade_val x = start(g, 1000), y = fresh(g, x, 1, 0);
  for (int i = 0; i < 60; i++) y = affine(g, NULL, y, 1, 1);
  finish(g, y, *state, "chain in place");
  g = graph_new();
  y = start(g, 1000);
  for (int i = 0; i < 60; i++) y = fresh(g, y, 1, 1);
  finish(g, fresh(g, y, 1, 0), *state, "chain");
  g = graph_new(); /* residual blocks */
  y = fresh(g, start(g, 5000), 1, 0);
  for (int i = 0; i < 30; i++) y = add(g, y, fresh(g, fresh(g, y, 2, 0), 1, 3));
  finish(g, y, *state, "residual");
  g = graph_new(); /* a U-Net: values of the way down are kept for the way up */
  clade_val kept[8];
  y = fresh(g, start(g, 8192), 1, 0);
  for (int i = 0; i < 8; i++) {
    kept[i] = fresh(g, fresh(g, y, 1, 1), 1, 1);
    y = fit(g, kept[i], 4096 >> i);
  }
  for (int i = 7; i >= 0; i--) y = add(g, kept[i], fresh(g, fit(g, y, 8192 >> i), 1, 0));
  finish(g, y, *state, "U");
  g = graph_new(); /* workspaces and pairs */
  y = fresh(g, start(g, 3000), 1, 0);
  for (int i = 0; i < 20; i++) {
    clade_val both[2];
    clade_node_add(g, &kit_split, NULL, NULL, 1, &y, both);
    y = add(g, both[0], both[1]);
  }
  finish(g, y, *state, "workspaces");
}

/* ---- random graphs with state against the host ---- */
enum { LENGTHS = 4, MOST_VALUES = 120, VARIABLES = 4, OUTPUTS = 5, LONGEST = 700 };
static const int lengths[LENGTHS] = {1, 37, 256, LONGEST};

typedef struct host_value {
  clade_val val;
  int length;
  /* how the host computes it */
  enum { IS_INPUT, IS_VARIABLE, IS_ADD, IS_AFFINE, IS_BACK, IS_PLUS, IS_SAME } kind;
  int a, b;
  float k, c;
  float data[LONGEST];
} host_value;

typedef struct model {
  clade_graph *g;
  host_value v[MOST_VALUES];
  int n, variable[VARIABLES], assigned[VARIABLES], output[OUTPUTS];
  float state[VARIABLES][LONGEST];
} model;

static int put(model *m, clade_val val, int length, int kind, int a, int b) {
  host_value *v = &m->v[m->n];
  assert_true(clade_val_ok(val));
  *v = (host_value){.val = val, .length = length, .a = a, .b = b};
  v->kind = (unsigned)kind;
  return m->n++;
}

static int like(const model *m, int length) { /* a value of this length, preferring recent ones */
  for (;;) {
    int i = draw(2) ? m->n - 1 - (int)draw((unsigned)(m->n < 8 ? m->n : 8)) : (int)draw((unsigned)m->n);
    if (m->v[i].length == length || length < 0) return i;
  }
}

static void grow_model(model *m) {
  int a = like(m, -1), length = m->v[a].length;
  clade_val x = m->v[a].val, both[2];
  float k = draw(2) ? 1.0f : -1.0f, c = (float)draw(9);
  char name[32];
  switch (draw(6)) {
  case 0:
  case 1: {
    int b = like(m, length);
    put(m, add(m->g, x, m->v[b].val), length, IS_ADD, a, b);
    break;
  }
  case 2:
    snprintf(name, sizeof name, "fresh%d", m->n);
    put(m, clade_node_add(m->g, &kit_fresh, name, &(kit_attrs){k, c}, 1, &x, NULL), length, IS_AFFINE, a, 0);
    m->v[m->n - 1].k = k;
    m->v[m->n - 1].c = c;
    break;
  case 3:
    clade_node_add(m->g, &kit_split, NULL, NULL, 1, &x, both);
    put(m, both[0], length, IS_BACK, a, 0);
    put(m, both[1], length, IS_PLUS, a, 0);
    break;
  case 4: put(m, clade_node_add(m->g, &kit_row, NULL, NULL, 1, &x, NULL), length, IS_SAME, a, 0); break;
  default:
    put(m, affine(m->g, NULL, x, k, c), length, IS_AFFINE, a, 0);
    m->v[m->n - 1].k = k;
    m->v[m->n - 1].c = c;
  }
}

static void build(model *m) {
  char name[32];
  m->g = graph_new();
  m->n = 0;
  for (int i = 0; i < LENGTHS; i++) put(m, start(m->g, lengths[i]), lengths[i], IS_INPUT, i, 0);
  for (int i = 0; i < VARIABLES; i++) {
    int length = lengths[i / 2 + 1];
    snprintf(name, sizeof name, "v%d", i);
    clade_val v = clade_variable(m->g, name, CLADE_F32, CLADE_SHAPE(length), (clade_initial){CLADE_INIT_FILL, i, 0});
    m->variable[i] = put(m, v, length, IS_VARIABLE, i, 0);
    for (int k = 0; k < LONGEST; k++) m->state[i][k] = (float)i;
  }
  int n = 12 + (int)draw(MOST_VALUES - 14);
  while (m->n < n) grow_model(m);
  for (int i = 0; i < VARIABLES; i++) { /* sometimes another variable's old value, or an input */
    m->assigned[i] = draw(4) ? like(m, m->v[m->variable[i]].length) : -1;
    if (draw(4) == 0) m->assigned[i] = m->variable[i ^ 1];
    if (m->assigned[i] >= 0) clade_assign(m->g, m->v[m->variable[i]].val, m->v[m->assigned[i]].val);
  }
  for (int i = 0; i < OUTPUTS; i++) {
    snprintf(name, sizeof name, "y%d", i);
    m->output[i] = i ? like(m, -1) : m->n - 1;
    clade_output(m->g, name, m->v[m->output[i]].val);
  }
}

static void compute(model *m, float inputs[LENGTHS][LONGEST]) {
  float next[VARIABLES][LONGEST];
  for (int i = 0; i < m->n; i++) {
    host_value *v = &m->v[i];
    for (int k = 0; k < v->length; k++) {
      const float *a = m->v[v->a].data, *b = m->v[v->b].data;
      switch (v->kind) {
      case IS_INPUT: v->data[k] = inputs[v->a][k]; break;
      case IS_VARIABLE: v->data[k] = m->state[v->a][k]; break;
      case IS_ADD: v->data[k] = a[k] + b[k]; break;
      case IS_AFFINE: v->data[k] = a[k] * v->k + v->c; break;
      case IS_BACK: v->data[k] = a[v->length - 1 - k]; break;
      case IS_PLUS: v->data[k] = a[k] + 1; break;
      case IS_SAME: v->data[k] = a[k]; break;
      }
    }
  }
  for (int i = 0; i < VARIABLES; i++)
    memcpy(next[i], m->assigned[i] < 0 ? m->state[i] : m->v[m->assigned[i]].data, sizeof next[i]);
  memcpy(m->state, next, sizeof next);
}

static void assert_same(const float *have, const float *want, int n, int round, const char *what, int i) {
  for (int k = 0; k < n; k++)
    if (have[k] != want[k])
      fail_msg("graph %d, %s %d: element %d is %g instead of %g", round, what, i, k, (double)have[k], (double)want[k]);
}

static void execute_model(model *m, clade_run *run, clade_vars *vars, int round) {
  static float inputs[LENGTHS][LONGEST], out[LONGEST];
  clade_feed feeds[LENGTHS];
  clade_ticket ticket;
  char name[32], names[LENGTHS][32];
  for (int i = 0; i < LENGTHS; i++) {
    for (int k = 0; k < lengths[i]; k++) inputs[i][k] = (float)draw(100);
    snprintf(names[i], sizeof names[i], "x%d", lengths[i]);
    feeds[i] = (clade_feed){names[i], inputs[i], (size_t)lengths[i] * sizeof(float), NULL};
  }
  OK(clade_execute(run, LENGTHS, feeds, &ticket));
  compute(m, inputs);
  for (int i = 0; i < OUTPUTS; i++) {
    const host_value *v = &m->v[m->output[i]];
    snprintf(name, sizeof name, "y%d", i);
    OK(clade_read(run, ticket, name, out, (size_t)v->length * sizeof(float)));
    assert_same(out, v->data, v->length, round, "output", i);
  }
  for (int i = 0; i < VARIABLES; i++) {
    int n = m->v[m->variable[i]].length;
    snprintf(name, sizeof name, "v%d", i);
    OK(clade_vars_get(vars, name, out, (size_t)n * sizeof(float)));
    assert_same(out, m->state[i], n, round, "variable", i);
  }
}

static void random_models(clade_device *device, int rounds, double *worst) {
  static model m;
  for (int round = 0; round < rounds; round++) {
    clade_vars *vars;
    clade_run *run;
    build(&m);
    clade_func *func = compiled(m.g, device);
    double ratio = check_plan(func, device);
    *worst = ratio > *worst ? ratio : *worst;
    OK(clade_vars_new(func, 0, &vars));
    OK(clade_run_new(func, vars, &run));
    for (int i = 0; i < 3; i++) execute_model(&m, run, vars, round);
    if (clade__plan_guard_bytes) OK(clade__run_check_guards(run));
    clade_run_free(run);
    clade_vars_release(vars);
    clade_func_release(func);
  }
}

static void random_graphs(void **state) {
  double worst = 0;
  random_models(*state, 60, &worst);
  print_message("worst of 60 random graphs: %.3f of the bound\n", worst);
  assert_true(worst <= 1.1);
}
static void random_graphs_in_small_slabs(void **state) {
  double worst = 0;
  clade__plan_slab_bytes = 8192;
  random_models(*state, 25, &worst);
  clade__plan_slab_bytes = 0;
}
static void random_graphs_between_guards(void **state) {
  double worst = 0;
  clade__plan_guard_bytes = 4096;
  random_models(*state, 25, &worst);
  clade__plan_guard_bytes = 0;
}

/* The checker detects planted errors. */
static int wrong_lines(const char *text) {
  check c = {.cells = calloc(CHECK_CELLS, sizeof *c.cells), .alignment = 64};
  assert_non_null(c.cells);
  check_text(&c, text);
  int wrong = c.wrong;
  check_free(&c);
  return wrong;
}

static void a_wrong_plan_is_found(void **state) {
  (void)state;
  assert_int_equal(wrong_lines("0 kernel reads c0@input:0:0:64 writes c1@arena:0:0:64 workspace -\n"
                               "1 kernel reads c0@input:0:0:64 writes c2@arena:0:64:64 workspace c3@arena:0:128:8\n"
                               "2 kernel reads c1@arena:0:0:64,c2@arena:0:64:64 writes c4@arena:0:0:64 workspace -\n"),
                   0);
  assert_int_equal(wrong_lines("0 kernel reads c0@input:0:0:64 writes c1@arena:0:0:128 workspace -\n"
                               "1 kernel reads c0@input:0:0:64 writes c2@arena:0:64:64 workspace -\n"
                               "2 kernel reads c1@arena:0:0:128 writes c4@output:0:0:64 workspace -\n"),
                   1);
  assert_int_equal(wrong_lines("0 kernel reads - writes c1@arena:0:0:64 workspace c2@arena:0:0:8\n"), 1);
  assert_int_equal(wrong_lines("0 kernel reads - writes c1@arena:0:0:64 workspace -\n"
                               "1 kernel node fresh1 reads c1@arena:0:0:64 writes c2@arena:0:0:64 workspace -\n"),
                   1);
  assert_int_equal(wrong_lines("0 kernel reads - writes c1@arena:0:0:64,c2@arena:0:0:64 workspace -\n"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packing),
      cmocka_unit_test(near_the_bound),
      cmocka_unit_test(a_wrong_plan_is_found),
      cmocka_unit_test(random_graphs),
      cmocka_unit_test(random_graphs_in_small_slabs),
      cmocka_unit_test(random_graphs_between_guards),
  };
  return cmocka_run_group_tests_name("plan_memory", tests, open_device, close_device);
}

/* Placement on the fallback device, with toy ops: unsupported nodes, estimated and measured total cost, program
 * changes, and forced placements. Small random graphs are compared with exhaustive search. Over 400 lines: all cases
 * use the toy ops at its top. */
#include <stdio.h>

#include "toy.h"

#include <clade/ops.h>

#include "pass/pass.h"

static const char *const kernels[] = {"k", NULL};
static const clade_device_info devices[2] = {
    {.size = sizeof(clade_device_info), .name = "home", .driver = "1", .kernels = kernels},
    {.size = sizeof(clade_device_info), .name = "away", .driver = "1"}};

/* ---- ops by cost: at home by a bundle kernel, away by a compiled kernel ---- */
#define COST(name, seconds)                  \
  static double name(const clade_query *q) { \
    (void)q;                                 \
    return seconds;                          \
  }
COST(small, 1e-5)
COST(middling, 6e-5)
COST(large, 1e-2)
#define OP(op, home, away)                                                                              \
  static const clade_impl *const op##_impls[] = {CLADE_IMPL(.name = "b", .cost = home, .bundled = "k"), \
                                                 CLADE_IMPL(.name = "c", .cost = away), NULL};          \
  static const clade_op op = {                                                                          \
      .size = sizeof(clade_op), .name = #op, .max_in = 3, .n_out = 1, .infer = infer, .impls = op##_impls};
static clade_status infer(clade_node *n) {
  if (n->n_in) return toy_same(n);
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(2, 2)};
  return CLADE_OK;
}
OP(either, small, small)
OP(slow, large, small)
OP(fast, small, large)
OP(slower, middling, small)
static const clade_impl *const never_impls[] = {CLADE_IMPL(.name = "c", .cost = small), NULL};
static const clade_op never = {
    .size = sizeof(clade_op), .name = "never", .max_in = 3, .n_out = 1, .infer = infer, .impls = never_impls};
static const clade_impl *const only_impls[] = {CLADE_IMPL(.name = "b", .cost = small, .bundled = "k"), NULL};
static const clade_op only = {
    .size = sizeof(clade_op), .name = "only", .max_in = 3, .n_out = 1, .infer = infer, .impls = only_impls};

/* An op with a kernel in another program, and one whose implementation the tuner chooses. */
static const clade_impl *const other_impls[] = {
    CLADE_IMPL(.name = "b", .cost = small, .bundled = "l"),
    CLADE_IMPL(.name = "c", .cost = middling),
    NULL,
};
static const clade_op other = {
    .size = sizeof(clade_op), .name = "other", .max_in = 3, .n_out = 1, .infer = infer, .impls = other_impls};
static const clade_impl *const fixed_impls[] = {CLADE_IMPL(.name = "b", .cost = small, .bundled = "l"), NULL};
static const clade_op fixed = {
    .size = sizeof(clade_op), .name = "fixed", .max_in = 3, .n_out = 1, .infer = infer, .impls = fixed_impls};
static const clade_impl *const tuned_impls[] = {
    CLADE_IMPL(.name = "b", .cost = small, .bundled = "k"),
    CLADE_IMPL(.name = "c", .cost = small),
    CLADE_IMPL(.name = "d", .cost = large),
    NULL,
};
static const clade_op tuned = {
    .size = sizeof(clade_op), .name = "tuned", .max_in = 3, .n_out = 1, .infer = infer, .impls = tuned_impls};

static clade_val add(clade_graph *g, const clade_op *op, const char *name, clade_val a, clade_val b) {
  return clade_node_add(g, op, name, NULL, !!a.id + !!b.id, (clade_val[]){a, b}, NULL);
}
static clade_val one(clade_graph *g, const clade_op *op, const char *name, clade_val a) {
  return add(g, op, name, a, (clade_val){0});
}
static clade_val input(clade_graph *g) { return clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 2)); }

static clade__pass_ctx context(clade_graph *g, const char *place) {
  return (clade__pass_ctx){
      .graph = clade_graph_retain(g), .n_devices = 2, .devices = devices, .fallback = 1, .place = place};
}

/* The placement in the form "x@0 >1 n@1", where >DEVICE is a copy. Releases the graph. */
static void assert_placed_in(clade__pass_ctx ctx, clade_graph *g, const char *want) {
  char text[256] = "";
  assert_error(clade__pass_place_words(&ctx), CLADE_OK, "");
  assert_error(clade__pass_fallback(&ctx), CLADE_OK, "");
  for (size_t i = 1, at = 0; i < ctx.graph->n_nodes; i++) {
    const clade__node *n = &ctx.graph->nodes[i];
    bool copy = n->op == &clade__op_transfer;
    at += (size_t)snprintf(text + at, sizeof text - at, copy ? "%s>%s%d" : "%s%s@%d", i > 1 ? " " : "",
                           copy       ? ""
                           : *n->name ? n->name
                                      : n->op->name,
                           n->device);
  }
  assert_string_equal(text, want);
  clade__records_release(ctx.placed);
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
}

static void assert_placed(clade_graph *g, clade_val y, const char *place, const char *want) {
  if (y.id) clade_output(g, "y", y);
  assert_placed_in(context(g, place), g, want);
}

static void what_only_one_takes(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = input(g), a = one(g, &only, "a", x), n = one(g, &never, "n", a);
  assert_placed(g, one(g, &only, "b", n), NULL, "x@0 a@0 >1 n@1 >0 b@0");
  g = new_graph(); /* one copy per value, not per user */
  x = input(g);
  assert_placed(g, add(g, &never, "m", one(g, &never, "n", x), x), NULL, "x@0 >1 n@1 m@1");
  g = new_graph(); /* without operands */
  n = one(g, &never, "n", (clade_val){0});
  assert_placed(g, one(g, &only, "b", n), NULL, "n@1 >0 b@0");
}

static void what_is_cheaper(void **state) {
  (void)state;
  clade_graph *g = new_graph(); /* saves two copies */
  clade_val x = input(g), n = one(g, &never, "n", x), a = one(g, &either, "a", n);
  assert_placed(g, one(g, &only, "o", one(g, &never, "m", a)), NULL, "x@0 >1 n@1 a@1 m@1 >0 o@0");
  g = new_graph(); /* not worthwhile */
  a = one(g, &fast, "a", one(g, &never, "n", input(g)));
  assert_placed(g, one(g, &never, "m", a), NULL, "x@0 >1 n@1 >0 a@0 >1 m@1");
  g = new_graph(); /* worth two copies */
  assert_placed(g, one(g, &only, "o", one(g, &slow, "s", input(g))), NULL, "x@0 >1 s@1 >0 o@0");
  g = new_graph(); /* worthwhile together, but not alone */
  a = one(g, &slower, "a", input(g));
  assert_placed(g, one(g, &only, "o", a), NULL, "x@0 a@0 o@0");
  g = new_graph();
  a = one(g, &slower, "c", one(g, &slower, "b", one(g, &slower, "a", input(g))));
  assert_placed(g, one(g, &only, "o", a), NULL, "x@0 >1 a@1 b@1 c@1 >0 o@0");
}

static void what_stays(void **state) {
  (void)state;
  static const float data[4] = {1, 2, 3, 4};
  clade_graph *g = new_graph(); /* variables and assignments */
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2, 2), (clade_initial){CLADE_INIT_ZERO, 0, 0});
  clade_assign(g, w, one(g, &never, "n", w));
  assert_placed(g, (clade_val){0}, NULL, "w@0 >1 n@1 >0 w@0");
  g = new_graph(); /* constant across executions: transferred for free */
  w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2, 2), (clade_initial){CLADE_INIT_ZERO, 0, 0});
  assert_placed(g, one(g, &slower, "s", w), NULL, "w@0 >1 s@1");
  g = new_graph(); /* constants exist everywhere */
  clade_val c = clade_constant(g, CLADE_F32, CLADE_SHAPE(2, 2), data);
  assert_placed(g, one(g, &never, "n", c), NULL, "constant@1 n@1");
  g = new_graph(); /* views follow their neighbors; the user's copies stay */
  clade_val v = clade_reshape(g, one(g, &never, "n", input(g)), CLADE_SHAPE(4));
  assert_placed(g, one(g, &never, "m", v), NULL, "x@0 >1 n@1 reshape@1 m@1");
  g = new_graph();
  clade_val t = clade_transfer(g, one(g, &only, "a", input(g)), 1);
  clade_graph_place(g, 1);
  assert_placed(g, one(g, &never, "n", t), NULL, "x@0 a@0 >1 n@1");
}

static void what_is_forced(void **state) {
  (void)state;
  static const struct {
    const char *place, *want;
  } cases[] = {{"", "x@0 a@0 b@0"},
               {"a=fallback", "x@0 >1 a@1 b@1"},
               {"a=companion", "x@0 >1 a@1 b@1"}, /* old name */
               {"a=fallback,b=home", "x@0 >1 a@1 >0 b@0"},
               {"either=fallback,a=home", "x@0 a@0 >1 b@1"}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_graph *g = new_graph();
    assert_placed(g, one(g, &either, "b", one(g, &either, "a", input(g))), cases[i].place, cases[i].want);
  }
}

static clade__records *records_on(const char *name, const clade__record *at, size_t n) {
  clade__records *set;
  const clade__tuned_device device = {.name = name, .driver = "1", .device_class = CLADE_ACCEL};
  assert_error(clade__records_new(&device, &set), CLADE_OK, "");
  for (size_t i = 0; i < n; i++) assert_error(clade__records_put(set, &at[i]), CLADE_OK, "");
  return set;
}

static clade__records *records_of(const clade__record *at, size_t n) { return records_on("home", at, n); }

static clade_graph *slower_one(void) {
  clade_graph *g = new_graph();
  clade_output(g, "y", one(g, &slower, "a", input(g)));
  return g;
}

/* 6e-5 s at home, 1e-5 s on the fallback device. */
static void what_copies_cost(void **state) {
  (void)state;
  static const struct {
    double small, large;
    const char *want;
  } cases[] = {{4e-5, 8e-5, "x@0 >1 a@1"},
               {5.1e-5, 9e-5, "x@0 a@0"},
               {8e-5, 4e-5, "x@0 a@0"}, /* bytes count as free */
               {4e-5, 0, "x@0 a@0"}};   /* half a measurement is ignored */
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    char problem[CLADE__LINK_SIZES][CLADE__LINK_PROBLEM];
    for (int k = 0; k < CLADE__LINK_SIZES; k++) clade__link_problem(&devices[1], clade__link_bytes[k], problem[k]);
    const clade__record r[] = {{.op = "transfer", .problem = problem[0], .impl = "copy", .seconds = cases[i].small},
                               {.op = "transfer", .problem = problem[1], .impl = "copy", .seconds = cases[i].large}};
    clade__records *set = records_of(r, CLADE_COUNT(r));
    const clade__tuning home = {.n = 1, .layer = {set}}, away = {0}, *const tuning[] = {&home, &away};
    clade_graph *g = slower_one();
    clade__pass_ctx ctx = context(g, NULL);
    ctx.tuning = tuning;
    assert_placed_in(ctx, g, cases[i].want);
    clade__records_release(set);
  }
}

/* Estimated as equal, so the node stays; measured times take precedence. */
static void what_was_measured(void **state) {
  (void)state;
  static const struct {
    const char *set; /* records for the home device */
    double home, away;
    const char *want;
  } cases[] = {{"home", 3e-4, 0, "x@0 >1 a@1"},
               {"home", 3e-4, 4e-4, "x@0 a@0"},
               {"home", 0, 0, "x@0 a@0"},
               {"home", 1e-4, 4e-5, "x@0 >1 a@1"},
               {"another", 3e-4, 0, "x@0 a@0"}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    const clade__record at_home = {.op = "tuned", .problem = "f32[2,2] -> f32", .impl = "b", .seconds = cases[i].home},
                        at_away = {.op = "tuned", .problem = "f32[2,2] -> f32", .impl = "c", .seconds = cases[i].away};
    clade__records *sets[] = {records_on(cases[i].set, &at_home, 1), records_on("away", &at_away, 1)};
    const clade__tuning home = {.n = 1, .layer = {sets[0]}},
                        away = {.n = 1, .layer = {sets[1]}}, *const tuning[] = {&home, &away};
    clade_graph *g = new_graph();
    clade_output(g, "y", one(g, &tuned, "a", input(g)));
    clade__pass_ctx ctx = context(g, NULL);
    ctx.tuning = tuning;
    assert_placed_in(ctx, g, cases[i].want);
    for (int k = 0; k < 2; k++) clade__records_release(sets[k]);
  }
}

/* ---- programs: k is in the first, l in the second ---- */
static const char *const both_kernels[] = {"k", "l", NULL};
static const uint32_t both_programs[] = {0, 1};
static const clade_device_info changing[2] = {{.size = sizeof(clade_device_info),
                                               .name = "home",
                                               .driver = "1",
                                               .kernels = both_kernels,
                                               .programs = both_programs,
                                               .bundles = "both"},
                                              {.size = sizeof(clade_device_info), .name = "away", .driver = "1"}};

typedef struct measured_change {
  clade__records *set;
  clade__tuning home, away;
  const clade__tuning *tuning[2];
} measured_change;

static void change_takes(double seconds, measured_change *m) {
  const clade__record r = {.op = "program", .problem = "both", .impl = "change", .seconds = seconds};
  m->set = records_of(&r, 1);
  m->home = (clade__tuning){.n = 1, .layer = {m->set}};
  m->away = (clade__tuning){0};
  m->tuning[0] = &m->home;
  m->tuning[1] = &m->away;
}

/* o takes 1e-5 s at home and 6e-5 s on the fallback device, copies 1e-4 s: the limit for two program changes. */
static void what_changes_programs(void **state) {
  (void)state;
  static const struct {
    double seconds; /* 0: not measured */
    const clade_op *last;
    const char *want;
  } cases[] = {{1e-6, &only, "x@0 a@0 o@0 b@0"},
               {7e-5, &only, "x@0 a@0 o@0 b@0"},
               {8e-5, &only, "x@0 a@0 >1 o@1 >0 b@0"},
               {0, &only, "x@0 a@0 >1 o@1 >0 b@0"},
               {0, &fixed, "x@0 a@0 o@0 b@0"}}; /* its program is needed anyway */
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    measured_change m;
    clade_graph *g = new_graph();
    clade_val o = one(g, &other, "o", one(g, &only, "a", input(g)));
    clade_output(g, "y", one(g, cases[i].last, "b", o));
    clade__pass_ctx ctx = context(g, NULL);
    change_takes(cases[i].seconds, &m);
    ctx.devices = changing;
    ctx.tuning = m.tuning;
    assert_placed_in(ctx, g, cases[i].want);
    clade__records_release(m.set);
  }
}

/* Recorded placements are followed by later compilations, whatever copies cost then, if possible. */
static void what_was_chosen(void **state) {
  (void)state;
  static const struct {
    const char *op, *problem, *place, *want;
  } cases[] = {{"slower", "node 2 of 3 f32[2, 2]", "fallback", "x@0 >1 a@1"},
               {"slower", "node 2 of 3 f32[2, 2]", "home", "x@0 a@0"},
               {"slower", "node 2 of 3 f32[2, 2]", "elsewhere", "x@0 a@0"},
               {"slower", "node 2 of 4 f32[2, 2]", "fallback", "x@0 a@0"},
               {"either", "node 2 of 3 f32[2, 2]", "fallback", "x@0 a@0"},
               {"only", "node 2 of 3 f32[2, 2]", "fallback", "x@0 a@0"}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    const clade__record r = {.op = cases[i].op, .problem = cases[i].problem, .impl = cases[i].place};
    clade__records *pins = records_of(&r, 1);
    bool is_only = strcmp(r.op, "only") == 0;
    clade_graph *g = is_only ? new_graph() : slower_one();
    if (is_only) clade_output(g, "y", one(g, &only, "a", input(g)));
    clade__pass_ctx ctx = context(g, NULL);
    ctx.pins = pins;
    assert_placed_in(ctx, g, cases[i].want);
    clade__records_release(pins);
  }
  clade_graph *g = slower_one();
  clade__pass_ctx ctx = context(g, NULL);
  assert_error(clade__pass_fallback(&ctx), CLADE_OK, "");
  assert_int_equal(ctx.placed->n, 1);
  assert_string_equal(ctx.placed->at[0].problem, "node 2 of 3 f32[2, 2]");
  assert_string_equal(ctx.placed->at[0].impl, "home");
  clade__records_release(ctx.placed);
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
}

/* ---- random graphs ---- */
enum { NODES = 9, GRAPHS = 300, CHANGING_GRAPHS = 150 };
static double cost_of(const clade_op *op, int device) {
  const clade_query q = {.size = sizeof q};
  for (const clade_impl *const *impl = op->impls; *impl; impl++)
    if (((*impl)->bundled == NULL) == (device == 1)) return (*impl)->cost(&q);
  return 1e9;
}

/* Cost of the graph with node i on device[i]: nodes, one copy per value and target device, and program changes in
 * the best order (see unit.pass_order). */
static double total(const clade_graph *g, const int *device, double change) {
  double sum = 0;
  int program[NODES + 2], changes;
  clade__id order[NODES + 2];
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade_op *op = g->nodes[id].op;
    const clade_impl *home = device[id] || !op->impls ? NULL : op->impls[0];
    program[id] = home && home->bundled ? home->bundled[0] == 'l' : CLADE__ANY_PROGRAM;
  }
  assert_error(clade__order(g, 1, program, order, &changes), CLADE_OK, "");
  sum += changes * change;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    bool crosses = false;
    if (n->op->impls) sum += cost_of(n->op, device[id]);
    for (clade__id user = id + 1; user < g->n_nodes; user++)
      for (int i = 0; i < g->nodes[user].n_in; i++)
        crosses |= g->nodes[user].in[i] == n->first_out && device[user] != device[id];
    sum += crosses ? 5e-5 + 16 / 4e9 : 0;
  }
  return sum;
}

/* Minimum over all placements; `change` is the cost of a program change. */
static double least_of(const clade_graph *g, double change) {
  double least = 1e30;
  int device[NODES + 2] = {0};
  for (int set = 0; set < 1 << NODES; set++) {
    for (int i = 0; i < NODES; i++) device[i + 2] = set >> i & 1;
    double sum = total(g, device, change);
    least = CLADE_MIN(least, sum);
  }
  return least;
}

static clade_graph *random_graph(const clade_op *const *ops, uint32_t n_ops) {
  static uint32_t seed = 1;
  clade_graph *g = new_graph();
  clade_val v[NODES + 1] = {input(g)};
  for (int i = 1; i <= NODES; i++) {
    uint32_t a = (seed = seed * 1664525u + 1013904223u) >> 16, b = (seed = seed * 1664525u + 1013904223u) >> 16;
    v[i] = add(g, ops[(a ^ b) % n_ops], "", v[a % (uint32_t)i], v[b % (uint32_t)i]);
  }
  for (int i = 1; i <= NODES; i++) {
    char name[8];
    snprintf(name, sizeof name, "y%d", i);
    clade_output(g, name, v[i]);
  }
  return g;
}

/* Cost of the pass's placement. */
static double placed_total(clade_graph *g, clade__pass_ctx ctx, double change) {
  int device[NODES + 2] = {0};
  assert_error(clade__pass_fallback(&ctx), CLADE_OK, "");
  for (size_t i = 1, at = 1; i < ctx.graph->n_nodes; i++)
    if (ctx.graph->nodes[i].op != &clade__op_transfer) device[at++] = ctx.graph->nodes[i].device;
  clade__records_release(ctx.placed);
  clade_graph_release(ctx.graph);
  return total(g, device, change);
}

static void random_graphs(void **state) {
  (void)state;
  static const clade_op *const ops[] = {&either, &slower, &slower, &fast, &slow, &never, &only};
  for (int k = 0; k < GRAPHS; k++) {
    clade_graph *g = random_graph(ops, CLADE_COUNT(ops));
    double least = least_of(g, 0), is = placed_total(g, context(g, NULL), 0);
    if (is > least + 1e-9) fail_msg("graph %d: %g, the least is %g", k, is, least);
    clade_graph_release(g);
  }
}

/* The local search moves one turn at a time, so it can miss improvements that need two. */
static void random_programs(void **state) {
  (void)state;
  static const clade_op *const ops[] = {&either, &slower, &only, &other, &other, &fixed, &never};
  static const double changes[] = {1e-5, 5e-5, 2e-4};
  int more = 0;
  double by = 1;
  for (int k = 0; k < CHANGING_GRAPHS; k++) {
    measured_change m;
    clade_graph *g = random_graph(ops, CLADE_COUNT(ops));
    clade__pass_ctx ctx = context(g, NULL);
    change_takes(changes[k % 3], &m);
    ctx.devices = changing;
    ctx.tuning = m.tuning;
    double least = least_of(g, changes[k % 3]), is = placed_total(g, ctx, changes[k % 3]);
    more += is > least + 1e-9;
    by = CLADE_MAX(by, is / least);
    clade__records_release(m.set);
    clade_graph_release(g);
  }
  print_message("%d of %d graphs placed such that they take more than the least, %.2f times at most\n", more,
                CHANGING_GRAPHS, by);
  assert_true(more <= CHANGING_GRAPHS / 10 && by < 1.5);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_only_one_takes), cmocka_unit_test(what_is_cheaper),
                                     cmocka_unit_test(what_stays),          cmocka_unit_test(what_is_forced),
                                     cmocka_unit_test(what_copies_cost),    cmocka_unit_test(what_was_chosen),
                                     cmocka_unit_test(what_was_measured),   cmocka_unit_test(what_changes_programs),
                                     cmocka_unit_test(random_graphs),       cmocka_unit_test(random_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

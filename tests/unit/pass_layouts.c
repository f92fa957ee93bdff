/* Joint selection of implementations and layouts: against exhaustive search on small random graphs, with reorder
 * costs, and in linear time. */
#include "layout_kit.h"

#include <math.h>
#include <time.h>

#include "pass/least.h"

/* ---- exhaustive search ---- */
enum { MOST_NODES = 7, MOST_OPERANDS = 3 };
typedef struct model { /* value 0 is the input, value i the result of node i */
  int n;
  bool any[MOST_NODES + 1], output[MOST_NODES + 1];
  int number[MOST_NODES + 1], n_in[MOST_NODES + 1], in[MOST_NODES + 1][MOST_OPERANDS];
} model;

static uint32_t draw(uint64_t seed, int what) {
  uint32_t x[4];
  clade__philox(5, seed, (uint64_t)what, x);
  return x[0];
}

static model draw_model(int seed) {
  model m = {.n = 2 + (int)(draw((uint64_t)seed, 0) % (MOST_NODES - 1))};
  bool used[MOST_NODES + 1] = {false};
  for (int i = 1; i <= m.n; i++) {
    m.any[i] = draw((uint64_t)seed, 10 * i) % 3 == 0;
    m.number[i] = seed * 100 + i;
    m.n_in[i] = 1 + (int)(draw((uint64_t)seed, 10 * i + 1) % MOST_OPERANDS);
    for (int k = 0; k < m.n_in[i]; k++) {
      m.in[i][k] = (int)(draw((uint64_t)seed, 10 * i + 2 + k) % (unsigned)i);
      used[m.in[i][k]] = true;
    }
  }
  for (int i = 1; i <= m.n; i++) m.output[i] = !used[i] || draw((uint64_t)seed, 10 * i + 9) % 5 == 0;
  return m;
}

/* Layout required for a node's operand (-1: result) under a choice; any: the choice is the layout. */
static int wants(const model *m, int node, int choice, int operand) {
  return m->any[node] ? choice : kit_wants(m->number[node], choice, operand);
}

static double cost_of(const model *m, const int *choice, double pack) {
  double sum = 0;
  for (int v = 0; v <= m->n; v++) {
    int made = v ? wants(m, v, choice[v], -1) : 0;
    unsigned wanted = v && m->output[v];
    if (v) sum += m->any[v] ? 1e-6 : kit_cost(m->number[v], choice[v]);
    for (int i = v + 1; i <= m->n; i++)
      for (int k = 0; k < m->n_in[i]; k++)
        if (m->in[i][k] == v) wanted |= 1u << wants(m, i, choice[i], k);
    wanted &= ~(1u << made);
    if (wanted && made) sum += pack; /* to dense, from which all others are made */
    for (int l = 1; l < KIT_LAYOUTS; l++) sum += (wanted >> l & 1) ? pack : 0;
  }
  return sum;
}

static double least_cost(const model *m, double pack) {
  int choice[MOST_NODES + 1] = {0};
  double least = 1e9;
  for (;;) {
    bool possible = true;
    int at = 1;
    for (int i = 1; i <= m->n; i++) possible &= m->any[i] || kit_accepts(m->number[i], choice[i]);
    if (possible) least = fmin(least, cost_of(m, choice, pack));
    while (at <= m->n && ++choice[at] == KIT_IMPLS) choice[at++] = 0;
    if (at > m->n) return least;
  }
}

static clade_graph *graph_of(const model *m, clade_shape shape) {
  clade_graph *g = new_graph();
  clade_val v[MOST_NODES + 1] = {clade_input(g, "x", CLADE_F32, shape)};
  for (int i = 1; i <= m->n; i++) {
    const kit_attrs attrs = {m->number[i]};
    clade_val in[MOST_OPERANDS];
    char name[16];
    snprintf(name, sizeof name, "y%d", i);
    for (int k = 0; k < m->n_in[i]; k++) in[k] = v[m->in[i][k]];
    v[i] = clade_node_add(g, m->any[i] ? &kit_any : &kit_op, NULL, &attrs, m->n_in[i], in, NULL);
    if (m->output[i]) clade_output(g, name, v[i]);
  }
  assert_error(clade_graph_status(g), CLADE_OK, "");
  return g;
}

static void test_brute(void **state) {
  (void)state;
  const clade_shape shape = CLADE_SHAPE(16, 24);
  const clade_type type = {.dtype = CLADE_F32, .shape = shape};
  const double pack = clade__pack_cost(&kit_device, &type, kit_layout[1]);
  int with = 0, all = 0;
  assert_true(pack > 1e-6 && pack < 1e-5);
  for (int seed = 0; seed < 400; seed++) {
    model m = draw_model(seed);
    clade_graph *g = graph_of(&m, shape), *chosen = kit_select(g);
    int conversions;
    double have = kit_sum(chosen, &conversions), want = least_cost(&m, pack);
    if (fabs(have - want) > 1e-10) fail_msg("graph %d costs %g, %g is possible", seed, have, want);
    with += conversions > 0;
    all += conversions;
    clade_graph_release(chosen);
    clade_graph_release(g);
  }
  assert_true(with > 100 && all < 2000);
}

/* ---- remaining reorders ---- */
static void blocked_both(const clade_query *q, clade_layout *in, clade_layout *out) {
  for (int i = 0; i < q->node->n_in; i++) in[i] = kit_layout[1];
  out[0] = kit_layout[1];
}
static double nothing(const clade_query *q) {
  (void)q;
  return 0;
}
static double much(const clade_query *q) {
  (void)q;
  return 1e-3;
}
static const clade_impl *const blocked_impls[] = {
    CLADE_IMPL(.name = "blocked", .layouts = blocked_both, .cost = nothing),
    CLADE_IMPL(.name = "ref", .cost = much),
    NULL,
};

static int conversions_of(clade_graph *g) {
  int n;
  clade_graph *chosen = kit_select(g);
  kit_sum(chosen, &n);
  clade_graph_release(chosen);
  clade_graph_release(g);
  return n;
}

static clade_val again(clade_graph *g, const clade_op *op, clade_val x) {
  return clade_node_add(g, op, NULL, NULL, 1, &x, NULL);
}

static void test_conversions(void **state) {
  (void)state;
  clade_op op = toy;
  op.impls = blocked_impls;
  const clade_shape shape = CLADE_SHAPE(4, 20, 6);
  for (int i = 0; i < 5; i++) {
    clade_graph *g = new_graph();
    clade_val x = clade_input(g, "x", CLADE_F32, shape), c = clade_input(g, "c", CLADE_F32, CLADE_SHAPE(20, 1)), y;
    clade_val a = again(g, &op, x), b = again(g, &op, x);
    switch (i) {
    case 0: y = clade_add(g, a, b); break;                /* x once, y once */
    case 1: y = clade_add(g, clade_relu(g, a), x); break; /* the same, since the sum uses x like a */
    case 2: y = again(g, &op, clade_mul(g, a, c)); break; /* c as well, along its axis */
    case 3: y = again(g, &op, clade_mul(g, a, clade_fill(g, CLADE_F32, CLADE_SCALAR, 2))); break; /* any layout */
    default: y = again(g, &op, clade_unpack(g, clade_pack(g, a, kit_layout[2]))); /* the explicit ones are removed */
    }
    clade_output(g, "y", y);
    assert_int_equal(conversions_of(g), i == 2 ? 3 : 2);
  }
}

/* Outputs, views and assigned values keep their built layouts; an explicit pack is a way to choose one. */
static void test_ports(void **state) {
  (void)state;
  clade_op op = toy;
  op.impls = blocked_impls;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4, 20));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(4, 20), (clade_initial){CLADE_INIT_ZERO, 0, 0});
  clade_val y = clade_node_add(g, &op, "y", NULL, 1, &x, NULL);
  clade_output(g, "dense", y);
  clade_output(g, "blocked", clade_pack(g, y, kit_layout[1]));
  clade_output(g, "other", clade_pack(g, x, kit_layout[2]));
  clade_output(g, "flat", clade_reshape(g, y, CLADE_SHAPE(80)));
  clade_assign(g, w, y);
  clade_graph *chosen = kit_select(g);
  assert_int_equal(clade__type(chosen, chosen->outputs.at[0].value)->layout.block, 0);
  assert_int_equal(clade__type(chosen, chosen->outputs.at[1].value)->layout.block, 8);
  assert_int_equal(clade__type(chosen, chosen->outputs.at[2].value)->layout.block, 4);
  assert_int_equal(clade__type(chosen, chosen->variables.at[0].assigned)->layout.block, 0);
  int n;
  kit_sum(chosen, &n);
  assert_int_equal(n, 3); /* x for y, y dense for all, x for its output */
  clade_graph_release(chosen);
  clade_graph_release(g);
}

static void test_explain(void **state) {
  (void)state;
  clade_op op = toy;
  op.impls = blocked_impls;
  clade__text text = {0};
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4, 20)), y = clade_node_add(g, &op, "n", NULL, 1, &x, NULL);
  clade_output(g, "y", y);
  clade_graph *chosen = kit_select(g);
  clade__explain(&(clade__pass_ctx){.graph = chosen, .n_devices = 1, .devices = &kit_device, .fallback = -1}, &text);
  assert_string_equal(
      text.data,
      "pack f32[4, 20]{1:8:0} on first: ref; tiles: made for CPUs; group: made for GPUs; panels: packs panels only; "
      "winograd: packs Winograd's weights only; fft: packs spectra of weights only; of input \"x\", for operand 0 of "
      "toy \"n\" "
      "(blocked)\n"
      "toy \"n\" f32[4, 20]{1:8:0} on first: blocked; ref: costs more, layout "
      "conversions included\n"
      "unpack f32[4, 20] on first: ref; tiles: made for CPUs; group: made for GPUs; of toy \"n\", for an output\n");
  clade__text_free(&text);
  clade_graph_release(chosen);
  clade_graph_release(g);
}

/* ---- many unknowns in one connected problem: inexact, but never worse than any neighboring solution ---- */
static double least_value(int n, const uint8_t *value, double (*pair)[40][9]) {
  double sum = 0;
  for (int a = 0; a < n; a++)
    for (int b = 0; b < a; b++) sum += pair[a][b][value[a] * 3 + value[b]];
  return sum;
}

static void test_entangled(void **state) {
  (void)state;
  enum { N = 40 };
  static double pair[N][N][9];
  clade__least p = {0};
  const double none[3] = {0};
  uint8_t value[N], first[N] = {0};
  uint32_t id;
  bool exact = true;
  for (int a = 0; a < N; a++) {
    assert_error(clade__least_add(&p, 3, none, -1, &id), CLADE_OK, "");
    for (int b = 0; b < a; b++) {
      for (int k = 0; k < 9; k++) pair[a][b][k] = draw(1, (a * N + b) * 9 + k) % 1000;
      assert_error(clade__least_pair(&p, (uint32_t)a, (uint32_t)b, pair[a][b]), CLADE_OK, "");
    }
  }
  assert_error(clade__least_solve(&p, value, &exact), CLADE_OK, "");
  clade__least_free(&p);
  assert_false(exact);
  assert_true(least_value(N, value, pair) < 0.95 * least_value(N, first, pair));
}

/* ---- time ---- */
#ifdef CLADE_ASAN /* slows passes down */
enum { NODES = 1000 };
#else
enum { NODES = 10000 };
#endif

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A chain with residuals and one value used by all nodes. */
static clade_graph *long_graph(int nodes) {
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(16, 24)), hub = x, before = x;
  for (int i = 0; i < nodes; i++) {
    const kit_attrs attrs = {i};
    clade_val y = clade_node_add(g, i % 3 ? &kit_op : &kit_any, NULL, &attrs, 3, (clade_val[]){x, before, hub}, NULL);
    if (i % 2) before = x;
    x = y;
  }
  clade_output(g, "y", x);
  return g;
}

static double best(int nodes) {
  double least = 1e9;
  for (int i = 0; i < 3; i++) {
    clade_graph *g = long_graph(nodes);
    double start = seconds();
    clade_graph *chosen = kit_select(g);
    least = fmin(least, seconds() - start);
    clade_graph_release(chosen);
    clade_graph_release(g);
  }
  return least;
}

static void test_linear(void **state) {
  (void)state;
  double one = best(NODES), two = best(2 * NODES);
  print_message("layouts of %d nodes: %.3f s, of twice as many: %.3f s\n", NODES, one, two);
  assert_true(two <= 3 * one + 0.05);
  assert_true(one <= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_brute),     cmocka_unit_test(test_conversions),
                                     cmocka_unit_test(test_ports),     cmocka_unit_test(test_explain),
                                     cmocka_unit_test(test_entangled), cmocka_unit_test(test_linear)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

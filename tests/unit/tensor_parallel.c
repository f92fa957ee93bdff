/* Models computed in slices by several ranks, against one rank: losses, gradients, training, and communication. */
#include "tensor_kit.h"

/* ---- models ---- */
static void mlp(tk_model *m) {
  clade_graph *g = m->g;
  const clade_val x = tk_floats(m, "x", CLADE_SHAPE(12, 9));
  clade_val h = clade_relu(g, clade_nn_linear(g, "fc1", x, .out = 23));
  h = clade_relu(g, clade_nn_linear(g, "fc2", h, .out = 17));
  h = clade_nn_linear(g, "fc3", h, .out = 5);
  clade_output(g, "loss", clade_cross_entropy(g, h, tk_numbers(m, "labels", CLADE_SHAPE(12), 5)));
}

/* A feed-forward layer between sums. */
static void feed_forward(tk_model *m) {
  enum { ROWS = 64, WIDTH = 64, HIDDEN = 256 };
  clade_graph *g = m->g;
  const clade_val x =
      clade_mul(g, tk_floats(m, "x", CLADE_SHAPE(ROWS, WIDTH)),
                clade_parameter(g, "scale", CLADE_F32, CLADE_SHAPE(WIDTH), (clade_initial){CLADE_INIT_FILL, 1, 0}));
  clade_val h = clade_gelu(g, clade_nn_linear(g, "up", x, .out = HIDDEN));
  h = clade_add(g, x, clade_nn_linear(g, "down", h, .out = WIDTH));
  clade_output(g, "loss", clade_mean(g, clade_square(g, h)));
}

static void perceptron(void **state) {
  for (int ranks = 2; ranks <= 4; ranks++) {
    int parts;
    tk_compare(*state, mlp, &(tk_options){.ranks = ranks, .steps = ranks == 3 ? 20 : 0}, NULL, &parts);
    assert_true(parts >= 3);
  }
}

/* One all-reduce forward and one backward. */
static void sums_of_feed_forward(void **state) {
  uint64_t sent = 0;
  int parts;
  tk_compare(*state, feed_forward,
             &(tk_options){.ranks = 2,
                           .link = true,
                           .expect = "what moves, in order:\n"
                                     "  eltwise  f32[64, 64]: forward nothing, backward all-reduce\n"
                                     "  gemm  f32[64, 64]: forward all-reduce, backward nothing\n",
                           .moves = 2},
             &sent, &parts);
  assert_int_equal(parts, 3);
  assert_int_equal(sent, 2 * 64 * 64 * sizeof(float)); /* with two ranks, each sends every sum once */
}

/* ---- memory ---- */
static void memory(void **state) {
  int parts;
  tk_compare(*state, mlp, &(tk_options){.ranks = 2, .dear = true, .plain = true}, NULL, &parts);
  assert_int_equal(parts, 0);
  tk_compare(*state, mlp, &(tk_options){.ranks = 2, .dear = true, .plain = true, .memory = 1}, NULL, &parts);
  assert_true(parts >= 3);
}

/* ---- a user's op: y = a w + b for a row ---- */
static const char row_source[] =
    "KERNEL(test_row)(ARG(float, a), ARG(float, w), ARG(float, b), ARG(float, y), const index_t k, const index_t n) {\n"
    "  USE(float, a); USE(float, w); USE(float, b); USE(float, y);\n"
    "  index_t i = (index_t)get_global_id(0);\n"
    "  if (i >= n) return;\n"
    "  float s = b[i];\n"
    "  for (index_t j = 0; j < k; j++) s += a[j] * w[j * n + i];\n"
    "  y[i] = s;\n"
    "}\n";

static clade_status row_infer(clade_node *n) {
  n->out[0] = n->in[2];
  return CLADE_OK;
}

static clade_status row_grad(clade_grad *g) {
  const int64_t k = g->node->in[1].shape.dim[0], n = g->node->in[1].shape.dim[1];
  const clade_val dy = clade_reshape(g->graph, g->dout[0], CLADE_SHAPE(1, n));
  const clade_val a = clade_reshape(g->graph, g->in[0], CLADE_SHAPE(1, k));
  g->din[0] = clade_reshape(g->graph, clade_gemm(g->graph, dy, g->in[1], .trans_b = true), CLADE_SHAPE(k));
  g->din[1] = clade_gemm(g->graph, a, dy, .trans_a = true);
  g->din[2] = g->dout[0];
  return CLADE_OK;
}

static clade_status row_emit(clade_emit *e, const clade_query *q) {
  const clade_shape *w = &q->node->in[1].shape;
  clade_kernel_step *s = clade_emit_kernel(e, "test_row");
  for (int i = 0; i < 3; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, w->dim[0]);
  clade_emit_index(s, w->dim[1]);
  kit_range(s, w->dim[1]);
  return CLADE_OK;
}

static void row_dims(clade_dims *d, const clade_node *n) {
  (void)n;
  const int inner = clade_dims_add(d, CLADE_DIM_SUM);
  clade_dims_along(d, inner, 0, 0, 1);
  clade_dims_along(d, inner, 1, 0, 1);
  clade_dims_once(d, inner, 2);
}

static void row_dims_of_elsewhere(clade_dims *d, const clade_node *n) {
  (void)n;
  clade_dims_along(d, clade_dims_add(d, CLADE_DIM_EACH), 0, 3, 1);
}

static void row_dims_that_lie(clade_dims *d, const clade_node *n) {
  (void)n;
  const int outer = clade_dims_add(d, CLADE_DIM_EACH);
  clade_dims_along(d, outer, 1, 0, 1);
  clade_dims_along(d, outer, 3, 0, 1);
}

static const clade_impl *const row_impls[] = {CLADE_IMPL(.name = "ref", .emit = row_emit), NULL};
#define ROW(rule)                                                                                           \
  {                                                                                                         \
    .size = sizeof(clade_op), .name = "test.row", .min_in = 3, .max_in = 3, .n_out = 1, .infer = row_infer, \
    .grad = row_grad, .impls = row_impls, .source = row_source, .dims = rule                                \
  }
static const clade_op row = ROW(row_dims), row_elsewhere = ROW(row_dims_of_elsewhere), row_lie = ROW(row_dims_that_lie);

static void add_row(tk_model *m, const clade_op *op, int64_t n) {
  clade_graph *g = m->g;
  const clade_initial some = {CLADE_INIT_UNIFORM, -1, 1};
  const clade_val in[] = {tk_floats(m, "a", CLADE_SHAPE(7)),
                          clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(7, n), some),
                          clade_parameter(g, "b", CLADE_F32, CLADE_SHAPE(n), some)};
  const clade_val y = clade_node_add(g, op, NULL, NULL, 3, in, NULL);
  clade_output(g, "loss", clade_sum(g, clade_mul(g, clade_tanh(g, y), y)));
}
static void own_op(tk_model *m) { add_row(m, &row, 1); }
static void elsewhere(tk_model *m) { add_row(m, &row_elsewhere, 7); }
static void lie(tk_model *m) { add_row(m, &row_lie, 7); }

static void own_ops(void **state) {
  int parts;
  tk_compare(*state, own_op, &(tk_options){.ranks = 3}, NULL, &parts);
  assert_int_equal(parts, 1);
}

/* ---- refusals ---- */
static void no_such_axis(tk_model *m) { clade_graph_split(m->g, tk_floats(m, "x", CLADE_SHAPE(4, 5)), 2); }
static void too_short(tk_model *m) {
  const clade_val y = clade_nn_linear(m->g, "fc", tk_floats(m, "x", CLADE_SHAPE(4, 5)), .out = 1);
  clade_graph_split(m->g, y, -1);
  clade_output(m->g, "loss", clade_mean(m->g, y));
}
static void with_symbols(tk_model *m) {
  const clade_val x = clade_input(m->g, "x", CLADE_F32, CLADE_SHAPE(clade_dim_symbol("batch"), 5));
  clade_output(m->g, "loss", clade_mean(m->g, x));
}

static void refuses(tk_build *build, clade_status status, const char *part) {
  const tk_options o = {.ranks = 2};
  clade_comm *comms[2];
  OK(clade_comm_new_local(2, comms));
  tk_rank r = {.comm = comms[0], .build = build, .o = &o};
  tk_model m = {0};
  clade_graph *g = NULL;
  refused(tk_graph(&r, &m, &g, NULL), status, part);
  clade_graph_release(g);
  tk_model_free(&m);
  for (int i = 0; i < 2; i++) clade_comm_release(comms[i]);
}

static void refusals(void **state) {
  (void)state;
  refuses(no_such_axis, CLADE_INVALID, "clade_graph_split: the value is f32[4, 5], which has no axis 2");
  refuses(too_short, CLADE_BAD_SHAPE, "clade_graph_split: axis 1 of f32[4, 1] has no 2 blocks");
  refuses(with_symbols, CLADE_BAD_SHAPE, "input \"x\" is f32[batch, 5]");
  refuses(elsewhere, CLADE_INVALID, "test.row: its rule for dimensions names axis 3");
  refuses(lie, CLADE_INVALID, "test.row \"\": a part of it gives f32[7] as result 0; by its rule");
}

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(perceptron), cmocka_unit_test(sums_of_feed_forward),
                                     cmocka_unit_test(memory), cmocka_unit_test(own_ops), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* Mixed precision on a device: gradients of a small network against f32. */
#include <math.h>

#include "plan_kit.h"

enum { BATCH = 4, SIDE = 8, CLASSES = 5, MOST = 2048 };

/* Gradients of a loss by all parameters, as outputs with their names. */
static clade_graph *gradients_of(bool norms) {
  clade_graph *g = graph_new();
  clade_val parameter[32], gradient[32];
  const char *name[32];
  int n = 0;
  clade_graph_train(g, true);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, 3, SIDE, SIDE));
  clade_val y = clade_nn_conv2d(g, "c1", x, .out = 8, .kernel = {3, 3}, .pad = {1, 1});
  if (norms) y = clade_nn_batch_norm(g, "bn", y);
  clade_val z = clade_max_pool2d(g, clade_relu(g, y), .kernel = {2, 2}, .stride = {2, 2});
  z = clade_add(g, z, clade_nn_conv2d(g, "c2", z, .out = 8, .kernel = {3, 3}, .pad = {1, 1}));
  z = clade_flatten(g, clade_gelu(g, z), 1);
  if (norms) z = clade_nn_layer_norm(g, "ln", z);
  z = clade_nn_linear(g, "fc", z, .out = CLASSES);
  clade_val loss = clade_cross_entropy(g, z, clade_input(g, "y", CLADE_I32, CLADE_SHAPE(BATCH)));
  for (size_t i = 0; i < g->variables.count; i++) {
    if (!g->variables.at[i].parameter) continue;
    name[n] = g->variables.at[i].name;
    parameter[n++] = clade__graph_val(g, g->variables.at[i].value);
  }
  OK(clade_gradients(g, loss, (clade_val){0}, n, parameter, gradient));
  for (int i = 0; i < n; i++) clade_output(g, name[i], gradient[i]);
  clade_output(g, "loss", loss);
  return g;
}

typedef struct session {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
} session;

static session executed(clade_graph *g, clade_device *device, clade_dtype precision, const char *types) {
  static float x[BATCH * 3 * SIDE * SIDE];
  static const int32_t y[BATCH] = {0, 1, 2, 3};
  session s;
  for (size_t i = 0; i < CLADE_COUNT(x); i++) x[i] = (float)clade__uniform(1, 0, i) - 0.5f;
  OK(clade_compile(g, device, &s.func, .precision = precision, .types = types));
  clade_graph_release(g);
  OK(clade_vars_new(s.func, 11, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run));
  OK(clade_execute(s.run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"y", y, sizeof y, NULL}), &s.ticket));
  return s;
}

static void close_session(session *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

static void read_floats(const session *s, const clade_port_info *port, float *out, int64_t *n) {
  OK(clade_shape_elements(&port->type.shape, n));
  assert_true(*n <= MOST);
  assert_int_equal(port->type.dtype, CLADE_F32); /* outputs stay f32 */
  OK(clade_read(s->run, s->ticket, port->name, out, (size_t)*n * sizeof *out));
}

/* Largest difference relative to the norm; biases before a normalization have gradients of nearly 0. */
static double worst_of(const session *a, const session *b) {
  static float x[MOST], y[MOST];
  double worst = 0;
  clade_func_info info = {.size = sizeof info};
  OK(clade_func_get_info(a->func, &info));
  for (int i = 0; i < info.outputs; i++) {
    clade_port_info port = {.size = sizeof port};
    double norm = 0, off = 0;
    int64_t n;
    OK(clade_func_output(a->func, i, &port));
    read_floats(a, &port, x, &n);
    read_floats(b, &port, y, &n);
    for (int64_t k = 0; k < n; k++) norm += (double)x[k] * (double)x[k], off += pow((double)x[k] - (double)y[k], 2);
    if (sqrt(norm) > 1e-3) worst = fmax(worst, sqrt(off / norm));
  }
  return worst;
}

static void test_gradients(void **state) {
  for (int norms = 0; norms < 2; norms++) {
    session wide = executed(gradients_of(norms), *state, CLADE_F32, NULL);
    session bf16 = executed(gradients_of(norms), *state, CLADE_BF16, NULL);
    session f16 = executed(gradients_of(norms), *state, CLADE_F16, NULL);
    session kept =
        executed(gradients_of(norms), *state, CLADE_BF16, "conv2d=f32,conv2d_data=f32,conv2d_weights=f32,gemm=f32");
    const double by_bf16 = worst_of(&wide, &bf16), by_f16 = worst_of(&wide, &f16), by_none = worst_of(&wide, &kept);
    print_message("gradients are off by %.4f of their norm in bf16, %.4f in f16\n", by_bf16, by_f16);
    assert_true(by_bf16 > 0 && by_bf16 < (norms ? 0.08 : 0.02));
    assert_true(by_f16 > 0 && by_f16 < (norms ? 0.01 : 0.0025));
    assert_true(by_none < 1e-9); /* nothing is narrow */
    close_session(&wide), close_session(&bf16), close_session(&f16), close_session(&kept);
  }
}

/* ---- inference: weights are cast once per version ---- */
enum { WIDTH = 96 };

static void answer(clade_run *run, float y[WIDTH]) {
  float x[WIDTH];
  clade_ticket ticket;
  for (int i = 0; i < WIDTH; i++) x[i] = (float)(i % 7) - 3;
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, WIDTH * sizeof *y));
}

static void test_kept(void **state) {
  static const clade_dtype types[] = {CLADE_BF16, CLADE_F16}; /* both over the same variables */
  static float w[WIDTH * WIDTH];
  float first[2][WIDTH], again[WIDTH];
  clade_func *func[2];
  clade_run *run[2];
  clade_vars *vars = NULL;
  for (int i = 0; i < 2; i++) {
    clade_graph *g = graph_new();
    char *text;
    clade_val x = clade_nn_linear(g, "fc1", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, WIDTH)), .out = WIDTH);
    clade_output(g, "y", clade_nn_linear(g, "fc2", clade_relu(g, x), .out = WIDTH));
    OK(clade_compile(g, *state, &func[i], .precision = types[i], .prefer = "gemm=ref"));
    clade_graph_release(g);
    OK(clade_func_explain_brief(func[i], &text));
    assert_non_null(strstr(text, "\"fc1.weight\", once for each value of it"));
    assert_non_null(strstr(text, "plan: 2 packed copies of what does not change, 36864 bytes"));
    clade_text_free(text);
    if (!i) OK(clade_vars_new(func[i], 5, &vars));
    OK(clade_run_new(func[i], vars, &run[i]));
  }
  for (int turn = 0; turn < 3; turn++)
    for (int i = 0; i < 2; i++) {
      answer(run[i], turn ? again : first[i]);
      if (turn) assert_memory_equal(again, first[i], sizeof again);
    }
  assert_memory_not_equal(first[0], first[1], sizeof again); /* each has copies of its own type */
  assert_int_equal(vars->packings, 4);
  OK(clade_vars_get(vars, "fc1.weight", w, sizeof w));
  for (size_t i = 0; i < CLADE_COUNT(w); i++) w[i] *= 2;
  OK(clade_vars_set(vars, "fc1.weight", w, sizeof w));
  for (int i = 0; i < 2; i++) {
    answer(run[i], again);
    assert_memory_not_equal(again, first[i], sizeof again);
    clade_run_free(run[i]);
    clade_func_release(func[i]);
  }
  assert_int_equal(vars->packings, 6);
  clade_vars_release(vars);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_kept)};
  return cmocka_run_group_tests_name("run_autocast", tests, open_device, close_device);
}

/* Initial values: orthogonal matrices of all proportions, He and Glorot initialization, and layers that use them. */
#include "train_kit.h"

static clade_vars *vars_of(clade_graph *g, clade_device *device, uint64_t seed) {
  clade_vars *vars;
  clade_func *func = compiled(g, device);
  OK(clade_vars_new(func, seed, &vars));
  clade_func_release(func);
  return vars;
}

/* All pairs of rows, or of columns if there are fewer. */
static void assert_orthonormal(clade_vars *vars, const char *name, int rows, int columns, double gain) {
  double *w = malloc(sizeof *w * (size_t)(rows * columns));
  assert_non_null(w);
  vars_take(vars, name, rows * columns, w);
  bool wide = rows <= columns;
  int count = wide ? rows : columns, length = wide ? columns : rows;
  for (int a = 0; a < count; a++)
    for (int b = 0; b <= a; b++) {
      double dot = 0, want = a == b ? gain * gain : 0;
      for (int i = 0; i < length; i++)
        dot += wide ? w[a * columns + i] * w[b * columns + i] : w[i * columns + a] * w[i * columns + b];
      if (!(fabs(dot - want) <= 1e-6 * gain * gain)) fail_msg("%s: %d times %d is %g", name, a, b, dot);
    }
  free(w);
}

static clade_graph *matrices(void) {
  clade_graph *g = graph_new();
  clade_parameter(g, "square", CLADE_F32, CLADE_SHAPE(24, 24), clade_orthogonal(1));
  clade_parameter(g, "wide", CLADE_F32, CLADE_SHAPE(7, 31), clade_orthogonal(2));
  clade_parameter(g, "tall", CLADE_F32, CLADE_SHAPE(40, 9), clade_orthogonal(0.5));
  clade_parameter(g, "window", CLADE_F32, CLADE_SHAPE(8, 3, 5, 5), clade_orthogonal(1));
  clade_parameter(g, "empty", CLADE_F32, CLADE_SHAPE(3, 0), clade_orthogonal(1));
  clade_parameter(g, "twin", CLADE_F32, CLADE_SHAPE(24, 24), clade_orthogonal(1));
  clade_output(g, "one", clade_fill(g, CLADE_F32, CLADE_SCALAR, 1));
  return g;
}

static void test_orthogonal(void **state) {
  float one[24 * 24], two[24 * 24];
  clade_vars *vars = vars_of(matrices(), *state, 5), *again = vars_of(matrices(), *state, 5);
  assert_orthonormal(vars, "square", 24, 24, 1);
  assert_orthonormal(vars, "wide", 7, 31, 2);
  assert_orthonormal(vars, "tall", 40, 9, 0.5);
  assert_orthonormal(vars, "window", 8, 75, 1);
  OK(clade_vars_get(vars, "square", one, sizeof one));
  OK(clade_vars_get(again, "square", two, sizeof two));
  assert_memory_equal(one, two, sizeof one);
  OK(clade_vars_get(again, "twin", two, sizeof two));
  assert_memory_not_equal(one, two, sizeof one); /* depends on the name */
  clade_vars_release(vars);
  clade_vars_release(again);
}

static void assert_spread(clade_vars *vars, const char *name, double deviation, double bound) {
  enum { N = 64 * 48 };
  static double w[N];
  double mean = 0, square = 0;
  vars_take(vars, name, N, w);
  for (int i = 0; i < N; i++) {
    mean += w[i] / N;
    square += w[i] * w[i] / N;
    assert_true(fabs(w[i]) <= bound);
  }
  assert_true(fabs(mean) < 5 * deviation / sqrt(N)); /* five standard errors */
  assert_true(fabs(sqrt(square) / deviation - 1) < 5 / sqrt(2 * N));
}

static void test_layers(void **state) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 48)), y;
  y = clade_nn_linear(g, "he_n", x, .out = 64, .weight_init = clade_he_normal(48));
  y = clade_add(g, y, clade_nn_linear(g, "he_u", x, .out = 64, .weight_init = clade_he_uniform(48)));
  y = clade_add(g, y, clade_nn_linear(g, "glorot_n", x, .out = 64, .weight_init = clade_glorot_normal(48, 64)));
  y = clade_add(g, y, clade_nn_linear(g, "glorot_u", x, .out = 64, .weight_init = clade_glorot_uniform(48, 64)));
  y = clade_add(g, y, clade_nn_linear(g, "plain", x, .out = 64));
  clade_output(g, "y", y);
  clade_val image = clade_input(g, "image", CLADE_F32, CLADE_SHAPE(1, 12, 4, 4));
  clade_output(g, "z",
               clade_nn_conv2d(g, "conv", image, .out = 64, .kernel = {2, 2}, .weight_init = clade_orthogonal(1)));
  clade_vars *vars = vars_of(g, *state, 9);
  assert_spread(vars, "he_n.weight", sqrt(2.0 / 48), 1);
  assert_spread(vars, "he_u.weight", sqrt(2.0 / 48), sqrt(6.0 / 48));
  assert_spread(vars, "glorot_n.weight", sqrt(2.0 / 112), 1);
  assert_spread(vars, "glorot_u.weight", sqrt(2.0 / 112), sqrt(6.0 / 112));
  assert_spread(vars, "plain.weight", 1 / sqrt(3.0 * 48), 1 / sqrt(48));
  assert_orthonormal(vars, "conv.weight", 64, 48, 1);
  clade_vars_release(vars);
}

static void refuses(clade_dtype dtype, clade_shape shape, clade_initial initial, clade_status want, const char *part) {
  clade_graph *g = graph_new();
  clade_parameter(g, "w", dtype, shape, initial);
  refused(clade_graph_status(g), want, part);
  clade_graph_release(g);
}

static void test_refused(void **state) {
  (void)state;
  refuses(CLADE_F32, CLADE_SHAPE(5), clade_orthogonal(1), CLADE_BAD_SHAPE, "need two dimensions, not 1");
  refuses(CLADE_I32, CLADE_SHAPE(5, 5), clade_orthogonal(1), CLADE_DTYPE, "floats, not i32");
  refuses(CLADE_F32, CLADE_SHAPE(5, 5), clade_orthogonal((double)NAN), CLADE_INVALID, "nan");
  refuses(CLADE_F32, CLADE_SHAPE(5, 5), clade_he_normal(0), CLADE_INVALID, "inf");
  refuses(CLADE_F32, CLADE_SHAPE(5, 5), clade_glorot_uniform(-3, 1), CLADE_INVALID, "nan");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orthogonal),
      cmocka_unit_test(test_layers),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}

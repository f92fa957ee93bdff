/* Layers and losses in training and inference: results, variables, symbols and refusals. Over 400 lines: a case per
 * layer, all of one form. */
#include <math.h>
#include <stdio.h>

#include <clade/nn.h>

#include "plan_kit.h"

enum { SAMPLES = 6, CHANNELS = 3, INNER = 5, COUNT = SAMPLES * CHANNELS * INNER };

static void near(double got, double want, double bound, const char *what) {
  if (!(fabs(got - want) <= bound)) fail_msg("%s: got %.9g, want %.9g", what, got, want);
}

static void execute(clade_func *func, clade_vars *vars, const float *x, size_t bytes, float *y) {
  clade_run *run;
  clade_ticket ticket;
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, bytes));
  clade_run_free(run);
}

/* y = layer(x) for any number of samples. */
static clade_func *normalizer(clade_device *device, bool train) {
  clade_graph *g = graph_new();
  clade_func *func, *shaped;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), CHANNELS, INNER));
  clade_graph_train(g, train);
  clade_output(g, "y", clade_nn_batch_norm(g, "bn", x, .momentum = 0.25f));
  func = compiled(g, device);
  OK(clade_func_specialize(func, 1, &(clade_dim_value){"batch", SAMPLES}, &shaped));
  clade_func_release(func);
  return shaped;
}

static void moments(const float *x, int channel, double *mean, double *var) {
  *mean = *var = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < SAMPLES * INNER; k++) {
      double v = (double)x[(k / INNER * CHANNELS + channel) * INNER + k % INNER];
      if (pass == 0)
        *mean += v / (SAMPLES * INNER);
      else
        *var += (v - *mean) * (v - *mean) / (SAMPLES * INNER);
    }
}

/* Two training steps update the running statistics; inference reads the same variables. */
static void batch_norm(void **state) {
  float x[COUNT], y[COUNT], mean[CHANNELS], var[CHANNELS];
  double want_mean[CHANNELS] = {0}, want_var[CHANNELS] = {1, 1, 1}, m, v;
  clade_vars *vars;
  clade_func *train = normalizer(*state, true), *infer = normalizer(*state, false);
  OK(clade_vars_new(train, 1, &vars));
  for (int step = 0; step < 2; step++) {
    for (int i = 0; i < COUNT; i++) x[i] = (float)sin(i * 0.7 + step) * 2 + (float)(i / INNER % CHANNELS) * 5;
    execute(train, vars, x, sizeof x, y);
    for (int c = 0; c < CHANNELS; c++) {
      moments(x, c, &m, &v);
      near((double)y[c * INNER], ((double)x[c * INNER] - m) / sqrt(v + 1e-5), 1e-5, "trained");
      want_mean[c] += 0.25 * (m - want_mean[c]);
      want_var[c] += 0.25 * (v * SAMPLES * INNER / (SAMPLES * INNER - 1) - want_var[c]);
    }
  }
  OK(clade_vars_get(vars, "bn.running_mean", mean, sizeof mean));
  OK(clade_vars_get(vars, "bn.running_var", var, sizeof var));
  OK(clade_vars_set(vars, "bn.weight", (float[]){1, 2, -3}, sizeof mean));
  OK(clade_vars_set(vars, "bn.bias", (float[]){0, 0.5f, 1}, sizeof mean));
  execute(infer, vars, x, sizeof x, y);
  for (int c = 0; c < CHANNELS; c++) {
    const double weight[] = {1, 2, -3}, bias[] = {0, 0.5, 1};
    near((double)mean[c], want_mean[c], 1e-5, "running mean");
    near((double)var[c], want_var[c], 1e-5, "running variance");
    double hat = ((double)x[c * INNER] - want_mean[c]) / sqrt(want_var[c] + 1e-5);
    near((double)y[c * INNER], hat * weight[c] + bias[c], 1e-5, "inferred");
  }
  clade_vars_release(vars);
  clade_func_release(train);
  clade_func_release(infer);
}

enum { OUT = 2, SIDE = 4, PIXELS = SIDE * SIDE };

/* 3 x 3 convolution of one channel, normalized by running statistics, then ReLU. */
static double activated(const float *x, const float *w, int at, double mean, double var, double weight, double bias) {
  double sum = 0;
  for (int k = 0; k < 9; k++) {
    int row = at / SIDE + k / 3 - 1, column = at % SIDE + k % 3 - 1;
    if (row >= 0 && row < SIDE && column >= 0 && column < SIDE) sum += (double)x[row * SIDE + column] * (double)w[k];
  }
  return fmax(0, (sum - mean) / sqrt(var + 1e-5) * weight + bias);
}

/* Two steps: weight / sqrt(var + eps) of the channels in each execution, and one convolution with the rest in its
 * epilogue. New statistics apply from the next execution on. */
static void normalized_convolution(void **state) {
  const float weight[OUT] = {2, -1.5f}, bias[OUT] = {0.25f, 1}, means[][OUT] = {{1, -1}, {-0.5f, 0.25f}};
  const float vars_of[][OUT] = {{0.5f, 2}, {4, 0.125f}};
  float x[PIXELS], w[OUT * 9], y[OUT * PIXELS];
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  clade_func_info info = {.size = sizeof info};
  clade_graph *g = graph_new();
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 1, SIDE, SIDE));
  clade_val out = clade_nn_conv2d(g, "c", in, .out = OUT, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true);
  clade_output(g, "y", clade_relu(g, clade_nn_batch_norm(g, "n", out)));
  OK(clade_compile(g, *state, &func, .prefer = "conv2d=ref"));
  clade_graph_release(g);
  OK(clade_func_get_info(func, &info));
  assert_int_equal(info.steps, 2);
  for (int i = 0; i < PIXELS; i++) x[i] = (float)sin(i);
  for (int i = 0; i < OUT * 9; i++) w[i] = (float)cos(2 * i);
  OK(clade_vars_new(func, 1, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_vars_set(vars, "c.weight", w, sizeof w));
  OK(clade_vars_set(vars, "n.weight", weight, sizeof weight));
  OK(clade_vars_set(vars, "n.bias", bias, sizeof bias));
  for (int time = 0; time < 2; time++) {
    OK(clade_vars_set(vars, "n.running_mean", means[time], sizeof means[time]));
    OK(clade_vars_set(vars, "n.running_var", vars_of[time], sizeof vars_of[time]));
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", y, sizeof y));
    for (int i = 0; i < OUT * PIXELS; i++) {
      const int c = i / PIXELS;
      near((double)y[i],
           activated(x, w + 9 * c, i % PIXELS, (double)means[time][c], (double)vars_of[time][c], (double)weight[c],
                     (double)bias[c]),
           1e-5, "normalized");
    }
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

enum { MANY = 4096 };

/* Two layers and the gradient of their sum: for input 1, y is 1 or 3 where one layer kept the element, and 4 where
 * both did. */
static clade_func *dropper(clade_device *device, bool train, int share) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(MANY)), dx;
  clade_graph_train(g, train);
  if (share) clade_graph_share(g, share);
  clade_val a = clade_nn_dropout(g, "a", x, .p = 0.5f), b = clade_nn_dropout(g, "b", x, .p = 0.5f);
  clade_val y = clade_mul(g, clade_add(g, a, clade_mul(g, b, clade_fill(g, CLADE_F32, CLADE_SCALAR, 3))),
                          clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.5));
  OK(clade_gradients(g, y, (clade_val){0}, 1, &x, &dx));
  clade_output(g, "y", y);
  clade_output(g, "dx", dx);
  return compiled(g, device);
}

static void dropped(clade_func *func, uint64_t seed, int steps, float *y) {
  float x[MANY], dx[MANY];
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  for (int i = 0; i < MANY; i++) x[i] = 1;
  OK(clade_vars_new(func, seed, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int step = 0; step < steps; step++) {
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", y, sizeof x));
    OK(clade_read(run, ticket, "dx", dx, sizeof dx));
    assert_memory_equal(y, dx, sizeof dx); /* for ones: the same elements were dropped */
  }
  clade_run_free(run);
  clade_vars_release(vars);
}

static int differences(const float *a, const float *b) {
  int n = 0;
  for (int i = 0; i < MANY; i++) n += memcmp(&a[i], &b[i], sizeof *a) != 0;
  return n;
}

static void dropout(void **state) {
  static float first[MANY], again[MANY], other[MANY];
  int kept[5] = {0};
  clade_func *func = dropper(*state, true, 0), *share = dropper(*state, true, 1), *infer = dropper(*state, false, 0);
  dropped(func, 1, 1, first);
  for (int i = 0; i < MANY; i++) kept[(int)first[i]]++;
  assert_int_equal(kept[0] + kept[1] + kept[3] + kept[4], MANY);
  for (int i = 0; i < 5; i++)
    if (i != 2) near(kept[i], MANY / 4, 160, "a quarter of each"); /* 5.8 standard deviations */
  dropped(func, 1, 1, again);
  assert_int_equal(differences(first, again), 0);
  dropped(func, 1, 2, other); /* the next step, another seed and another share drop other elements */
  assert_true(differences(first, other) > MANY / 2);
  dropped(func, 2, 1, other);
  assert_true(differences(first, other) > MANY / 2);
  dropped(share, 1, 1, other);
  assert_true(differences(first, other) > MANY / 2);
  float x[MANY], y[MANY];
  for (int i = 0; i < MANY; i++) x[i] = (float)i;
  execute(infer, NULL, x, sizeof x, y);
  for (int i = 0; i < MANY; i++) assert_true(y[i] == 2 * x[i]);
  clade_func_release(func);
  clade_func_release(share);
  clade_func_release(infer);
}

static void losses(void **state) {
  const float x[] = {20, -30, 0, 1.5f}, t[] = {1, 0, 0.25f, 1};
  double mse = 0, l1 = 0, bce = 0;
  clade_run *run;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4)), b = clade_input(g, "t", CLADE_F32, CLADE_SHAPE(4)), d;
  clade_output(g, "mse", clade_mse(g, a, b));
  clade_output(g, "l1", clade_l1(g, a, clade_cast(g, b, CLADE_F16)));
  clade_val loss = clade_binary_cross_entropy(g, a, b);
  clade_output(g, "bce", loss);
  OK(clade_gradients(g, loss, (clade_val){0}, 1, &a, &d));
  clade_output(g, "d", d);
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"t", t, sizeof t, NULL}), &ticket));
  for (int i = 0; i < 4; i++) {
    double u = (double)x[i], v = (double)t[i];
    mse += (u - v) * (u - v) / 4;
    l1 += fabs(u - v) / 4;
    bce += ((1 - v) * log1p(exp(u)) + v * log1p(exp(-u))) / 4;
  }
  float got[4];
  OK(clade_read(run, ticket, "mse", got, sizeof *got));
  near((double)got[0], mse, 1e-6 * mse, "mse");
  OK(clade_read(run, ticket, "l1", got, sizeof *got));
  near((double)got[0], l1, 1e-6 * l1, "l1");
  OK(clade_read(run, ticket, "bce", got, sizeof *got));
  near((double)got[0], bce, 1e-6 * bce, "bce");
  OK(clade_read(run, ticket, "d", got, sizeof got));
  for (int i = 0; i < 4; i++) {
    double u = (double)x[i], v = (double)t[i], want = ((1 - v) / (1 + exp(-u)) - v / (1 + exp(u))) / 4;
    near((double)got[i], want, 1e-5 * fabs(want), "the derivative of bce");
  }
  clade_run_free(run);
  clade_func_release(func);
}

static void expect(clade_graph *g, clade_val v, clade_shape want) {
  clade_type type;
  char a[256], b[256];
  if (clade_val_type(g, v, &type) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_string_equal(clade_shape_text(&type.shape, a, sizeof a), clade_shape_text(&want, b, sizeof b));
}

static void symbols(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_dim batch = CLADE_DIM("batch"), more = clade_dim_add(batch, 2);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(batch, 4, 6)), dx;
  clade_val labels = clade_input(g, "labels", CLADE_I32, CLADE_SHAPE(batch, 4));
  clade_graph_train(g, true);
  expect(g, clade_cross_entropy(g, x, labels), CLADE_SCALAR);
  expect(g, clade_cross_entropy(g, x, labels, .per_sample = true), CLADE_SHAPE(batch, 4));
  expect(g, clade_top_k_count(g, x, labels, 3), CLADE_SCALAR);
  expect(g, clade_nn_batch_norm(g, "bn", x), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_nn_layer_norm(g, "ln", x, .n_axes = 2), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_nn_rms_norm(g, "rms", x, .n_axes = 2), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_nn_group_norm(g, "gn", x, .groups = 2), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_nn_instance_norm(g, "in", x), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_layer_norm(g, x, (clade_val){0}, (clade_val){0}, 3, 0), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_log_softmax(g, x, 0), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_nn_dropout(g, "d", x, .p = 0.1f), CLADE_SHAPE(batch, 4, 6));
  expect(g, clade_nn_embedding(g, "e", labels, .count = 9, .width = 5), CLADE_SHAPE(batch, 4, 5));
  expect(g, clade_mse(g, x, x), CLADE_SCALAR);
  clade_val pad = clade_pad(g, x, CLADE_SHAPE(2, 0, 1), CLADE_SHAPE(0, 0, 3), -1);
  expect(g, pad, CLADE_SHAPE(more, 4, 10));
  clade_val slice = clade_slice(g, pad, CLADE_SHAPE(2, 1, 0), CLADE_SHAPE(batch, CLADE_DIM_REST, 10));
  expect(g, slice, CLADE_SHAPE(batch, 3, 10));
  clade_val both = clade_concat(g, 2, (clade_val[]){slice, slice}, 0);
  expect(g, both, CLADE_SHAPE(clade_dim_add(batch, batch), 3, 10));
  assert_int_equal(clade_gradients(g, clade_sum(g, both), (clade_val){0}, 1, &x, &dx), CLADE_OK);
  expect(g, dx, CLADE_SHAPE(batch, 4, 6));
  clade_graph_release(g);
}

/* One error per row: a graph with x f32[2, 3, 4], i i32[2, 3] is built for each. */
static clade_val first(clade_graph *g, clade_val x, clade_val i, int row) {
  clade_dim batch = CLADE_DIM("batch");
  clade_val s = clade_input(g, "s", CLADE_F32, CLADE_SHAPE(batch, batch)), none = {0};
  switch (row) {
  case 0: return clade_cross_entropy(g, x, x);
  case 1: return clade_cross_entropy(g, i, i);
  case 2: return clade_cross_entropy(g, x, clade_sum(g, i));
  case 3: return clade_cross_entropy(g, x, i, .smoothing = 1.5f);
  case 4: return clade_cross_entropy(g, x, none);
  case 5: return clade_top_k_count(g, x, i, 0);
  case 6: return clade_nn_dropout(g, "d", x, .p = 1);
  case 7: return clade_nn_dropout(g, "d", x, .p = NAN);
  case 8: return clade_nn_dropout(g, "d d", x);
  case 9: return clade_nn_batch_norm(g, "bn", i);
  case 10: return clade_nn_batch_norm(g, "bn", s);
  case 11: return clade_nn_batch_norm(g, "bn", clade_sum(g, x));
  case 12: return clade_nn_batch_norm(g, "bn", x, .momentum = 2);
  case 13: return clade_nn_layer_norm(g, "ln", x, .n_axes = 4);
  case 14: return clade_nn_layer_norm(g, "ln", s);
  case 15: return clade_nn_embedding(g, "e", i, .width = 2);
  case 16: return clade_nn_embedding(g, "e", x, .count = 1, .width = 2);
  case 17: return clade_slice(g, x, CLADE_SHAPE(0, 2, 0), CLADE_SHAPE(2, 2, 4));
  case 18: return clade_slice(g, x, CLADE_SHAPE(0, 4, 0), CLADE_SHAPE(2, CLADE_DIM_REST, 4));
  case 19: return clade_slice(g, x, CLADE_SHAPE(0), CLADE_SHAPE(1));
  case 20: return clade_pad(g, x, CLADE_SHAPE(0, 0, -1), CLADE_SHAPE(0, 0, 0), 0);
  case 21: return clade_pad(g, i, CLADE_SHAPE(0, 0), CLADE_SHAPE(0, 1), 0.5);
  case 22: return clade_concat(g, 2, (clade_val[]){x, i}, 1);
  case 23: return clade_concat(g, 0, &x, 0);
  case 24: return clade_concat(g, 2, (clade_val[]){x, x}, 3);
  case 25: return clade_mse(g, x, i);
  case 26: return clade_binary_cross_entropy(g, x, s);
  case 27: return clade_rms_norm(g, x, none, 0, 0);
  case 28: return clade_group_norm(g, x, none, none, 2, 0);
  case 29: return clade_group_norm(g, x, none, none, 0, 0);
  case 30: return clade_group_norm(g, x, none, x, 3, 0);
  case 31: return clade_instance_norm(g, s, none, none, 0);
  case 32: return clade_instance_norm(g, x, none, none, -1);
  case 33: return clade_nn_rms_norm(g, "rms", x, .n_axes = -1);
  case 34: return clade_nn_group_norm(g, "gn", x);
  case 35: return clade_nn_group_norm(g, "gn", x, .groups = 2);
  case 36: return clade_nn_instance_norm(g, "in", x, .groups = 1);
  case 37: return clade_nn_instance_norm(g, "in", i);
  case 38: return clade_log_softmax(g, x, 3);
  default: return clade_gather(g, x, x);
  }
}

static void refusals(void **state) {
  (void)state;
  static const char *const words[] = {"labels are f32; expected i32",
                                      "logits is i32",
                                      "labels []",
                                      ".smoothing is 1.5",
                                      "operand 1",
                                      "k is 0",
                                      "nn_dropout \"d\": .p is 1",
                                      "nn_dropout \"d\": .p is nan",
                                      "nn_dropout \"d d\"",
                                      "nn_batch_norm \"bn\": x is i32",
                                      "are the symbol \"batch\"",
                                      "nn_batch_norm \"bn\": x has 0 dimensions",
                                      "momentum is 2",
                                      ".n_axes is 4",
                                      "dimension 1 of x is the symbol \"batch\"",
                                      ".count is 0",
                                      "ids are f32",
                                      "slice: x is [2, 3, 4]",
                                      "slice: x is [2, 3, 4]",
                                      "begin has 1 dimensions",
                                      "negative or no size",
                                      "value 0.5 is none of i32",
                                      "operand 1 is [2, 3]",
                                      "concat: n is 0",
                                      "axis 3 is out of range",
                                      "mse: target is i32",
                                      "expected the same shape",
                                      "rms_norm: n_axes is 0",
                                      "group_norm: groups is 2; expected a divisor",
                                      "group_norm: groups is 0",
                                      "group_norm: bias is [2, 3, 4]; expected the channels",
                                      "instance_norm: x is [batch, batch]",
                                      "group_norm: eps is -1",
                                      "nn_rms_norm \"rms\": .n_axes is -1",
                                      "nn_group_norm \"gn\": .groups is 0",
                                      "nn_group_norm \"gn\": .groups is 2; expected a divisor of the 3",
                                      "nn_instance_norm \"in\": .groups is 1",
                                      "nn_instance_norm \"in\": x is i32",
                                      "log_softmax: x: axis 3 is out of range",
                                      "ids are f32"};
  for (int row = 0; row < (int)CLADE_COUNT(words); row++) {
    clade_graph *g = graph_new();
    clade_graph_train(g, true);
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 4));
    clade_val i = clade_input(g, "i", CLADE_I32, CLADE_SHAPE(2, 3));
    assert_false(clade_val_ok(first(g, x, i, row)));
    if (!strstr(clade_graph_message(g), words[row]))
      fail_msg("%d: \"%s\" does not say \"%s\"", row, clade_graph_message(g), words[row]);
    clade_graph_release(g);
  }
}

static void no_value(clade_val v) {
  assert_false(clade_val_ok(v));
  assert_non_null(strstr(clade_last_error(), "graph is NULL"));
}

static void without_a_graph(void **state) {
  (void)state;
  const clade_val v = {1, 1};
  no_value(clade_cross_entropy(NULL, v, v));
  no_value(clade_top_k_count(NULL, v, v, 1));
  no_value(clade_mse(NULL, v, v));
  no_value(clade_l1(NULL, v, v));
  no_value(clade_binary_cross_entropy(NULL, v, v));
  no_value(clade_dropout(NULL, v, 0.5, 1, v));
  no_value(clade_nn_dropout(NULL, "d", v, .p = 0.5f));
  no_value(clade_nn_batch_norm(NULL, "bn", v));
  no_value(clade_layer_norm(NULL, v, v, v, 1, 0));
  no_value(clade_nn_layer_norm(NULL, "ln", v));
  no_value(clade_rms_norm(NULL, v, v, 1, 0));
  no_value(clade_group_norm(NULL, v, v, v, 1, 0));
  no_value(clade_instance_norm(NULL, v, v, v, 0));
  no_value(clade_log_softmax(NULL, v, 0));
  no_value(clade_nn_rms_norm(NULL, "rms", v));
  no_value(clade_nn_group_norm(NULL, "gn", v));
  no_value(clade_nn_instance_norm(NULL, "in", v));
  no_value(clade_gather(NULL, v, v));
  no_value(clade_nn_embedding(NULL, "e", v, .count = 1, .width = 1));
  no_value(clade_slice(NULL, v, CLADE_SCALAR, CLADE_SCALAR));
  no_value(clade_pad(NULL, v, CLADE_SCALAR, CLADE_SCALAR, 0));
  no_value(clade_concat(NULL, 1, &v, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_norm),      cmocka_unit_test(normalized_convolution),
      cmocka_unit_test(dropout),         cmocka_unit_test(losses),
      cmocka_unit_test(symbols),         cmocka_unit_test(refusals),
      cmocka_unit_test(without_a_graph),
  };
  return cmocka_run_group_tests_name("run_layers", tests, open_device, close_device);
}

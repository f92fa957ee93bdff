/* Quantization after training: builders' integers, the pass's graph, folded and rounded weights, ranges, refusals,
 * and failing allocations. Over 400 lines: all cases quantize the networks at its top. */
#include <math.h>
#include <stdio.h>

#include "memory_kit.h"
#include "quantize_kit.h"

enum { COLORS = 3, SIDE = 5, WIDTH = 4, CLASSES = 3, IMAGE = COLORS * SIDE * SIDE, PIXELS = SIDE * SIDE };

/* ---- builders ---- */
static int expected(float x, double scale, clade_dtype to) {
  const float levels = x * (float)(1 / scale);
  const double low = to == CLADE_I8 ? -128 : 0, high = to == CLADE_I8 ? 127 : 255;
  return isnan(levels) ? 0 : (int)fmin(fmax(nearbyint((double)levels), low), high);
}

static void integers(void **state) {
  enum { N = 1003 };
  static const double scales[] = {1, 0.5, 0.1, 3e-3, 7e5};
  static const clade_dtype types[] = {CLADE_I8, CLADE_U8};
  static float x[N], back[N];
  static const float special[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -127.5f, 127.5f, 128, -129, 1e30f, -1e30f};
  unsigned char q[N];
  for (size_t k = 0; k < CLADE_COUNT(scales) * CLADE_COUNT(types); k++) {
    const double scale = scales[k / 2];
    const clade_dtype to = types[k % 2];
    clade_graph *g = graph_new();
    clade_run *run;
    clade_ticket ticket;
    for (int i = 0; i < N; i++) x[i] = (float)scale * (float)((i * 7919) % 6007 - 3000) / 11;
    for (size_t i = 0; i < CLADE_COUNT(special); i++) x[i] = special[i] * (float)scale;
    x[20] = NAN, x[21] = INFINITY, x[22] = -INFINITY;
    const clade_val quantized = clade_quantize(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), scale, to);
    clade_output(g, "q", quantized);
    clade_output(g, "back", clade_dequantize(g, quantized, clade_fill(g, CLADE_F32, CLADE_SCALAR, scale), 0));
    clade_func *func = compiled(g, *state);
    OK(clade_run_new(func, NULL, &run));
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    OK(clade_read(run, ticket, "q", q, sizeof q));
    OK(clade_read(run, ticket, "back", back, sizeof back));
    for (int i = 0; i < N; i++) {
      const int have = to == CLADE_I8 ? (signed char)q[i] : q[i], want = expected(x[i], scale, to);
      if (have != want || back[i] != (float)have * (float)scale)
        fail_msg("scale %g: %g became %d (and %g) instead of %d", scale, (double)x[i], have, (double)back[i], want);
    }
    clade_run_free(run);
    clade_func_release(func);
  }
}

static void nothing(void **state) {
  clade_graph *g = graph_new();
  clade_run *run;
  clade_ticket ticket;
  char q;
  clade_output(g, "q", clade_quantize(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(0, 3)), 1, CLADE_I8));
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", &q, 0, NULL}), &ticket));
  OK(clade_read(run, ticket, "q", &q, 0));
  clade_run_free(run);
  clade_func_release(func);
}

static void builders_refuse(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    clade_graph *g = graph_new();
    const clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(4, 2));
    const clade_val q = clade_input(g, "q", CLADE_I8, CLADE_SHAPE(4, 2));
    const clade_val scale = clade_input(g, "s", CLADE_F32, CLADE_SHAPE(4));
    static const struct {
      clade_status status;
      const char *part;
    } want[] = {{CLADE_DTYPE, "to i32; expected i8 or u8"},
                {CLADE_INVALID, "the scale is 0"},
                {CLADE_INVALID, "the scale is nan"},
                {CLADE_INVALID, "the scale is inf"},
                {CLADE_DTYPE, "x is i8; expected f32"},
                {CLADE_DTYPE, "x is f32; expected integers"},
                {CLADE_BAD_SHAPE, "scale is [4] and x [4, 2]"},
                {CLADE_INVALID, "axis is 2; expected 0 to 1"}};
    switch (i) {
    case 0: clade_quantize(g, x, 1, CLADE_I32); break;
    case 1: clade_quantize(g, x, 0, CLADE_I8); break;
    case 2: clade_quantize(g, x, NAN, CLADE_I8); break;
    case 3: clade_quantize(g, x, INFINITY, CLADE_I8); break;
    case 4: clade_quantize(g, q, 1, CLADE_I8); break;
    case 5: clade_dequantize(g, x, scale, 0); break;
    case 6: clade_dequantize(g, q, scale, 1); break;
    default: clade_dequantize(g, q, scale, 2);
    }
    refused(clade_graph_status(g), want[i].status, want[i].part);
    clade_graph_release(g);
  }
}

/* ---- a network: a convolution with normalization, one without, and a linear layer ---- */
static void network(clade_graph *g) {
  clade_val h = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, COLORS, SIDE, SIDE));
  h = clade_nn_conv2d(g, "a", h, .out = WIDTH, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true);
  h = clade_relu(g, clade_nn_batch_norm(g, "n", h));
  h = clade_add(g, h, clade_nn_conv2d(g, "b", h, .out = WIDTH, .kernel = {1, 1}));
  clade_output(g, "y", clade_nn_linear(g, "last", clade_flatten(g, h, 1), .out = CLASSES));
}

static float noise(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1;
}

static void set(clade_vars *vars, const char *name, const float *values, size_t n) {
  OK(clade_vars_set(vars, name, values, n * sizeof *values));
}

static const float norm[4][WIDTH] = {
    {1.5f, -0.7f, 0.4f, 2}, {0.1f, -0.2f, 0.3f, 0}, {0.2f, 0.1f, -0.3f, 0}, {0.9f, 1.7f, 0.3f, 1}};

static model new_model(clade_device *device) {
  static const char *const parts[] = {"n.weight", "n.bias", "n.running_mean", "n.running_var"};
  model m = {.g = graph_new()};
  network(m.g);
  OK(clade_compile(m.g, device, &m.func));
  OK(clade_vars_new(m.func, 1, &m.vars));
  for (int i = 0; i < 4; i++) set(m.vars, parts[i], norm[i], WIDTH);
  return m;
}

static void fill(float *x, uint32_t seed) {
  for (int i = 0; i < 2 * IMAGE; i++) x[i] = noise(&seed);
}

static void run_model(clade_func *func, clade_vars *vars, const float *x, float *y) {
  clade_run *run;
  clade_ticket ticket;
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, 2 * IMAGE * sizeof *x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, 2 * CLASSES * sizeof *y));
  clade_run_free(run);
}

static clade_quantization *observed(const model *m, clade_device *device, clade_calibration calibration) {
  static float x[2 * IMAGE];
  clade_quantization *q;
  OK(clade_quantization_new(m->g, device, m->vars, &q, .calibration = calibration));
  for (uint32_t seed = 1; seed <= 4; seed++) {
    fill(x, seed);
    OK(clade_quantization_observe(q, 0, 0, CLADE_FEEDS({"x", x, sizeof x, NULL})));
  }
  return q;
}

static model quantized(const model *m, clade_quantization *q, clade_device *device) {
  model s = {.g = clade_graph_retain(m->g)};
  char *text;
  OK(clade_quantization_text(q, &text));
  OK(clade_compile(m->g, device, &s.func, .quantization = text));
  OK(clade_vars_new(s.func, 1, &s.vars));
  OK(clade_quantization_apply(q, s.vars));
  clade_text_free(text);
  return s;
}

static clade_quantization_layer layer_of(clade_quantization *q, const char *name) {
  clade_quantization_layer layer = {.size = sizeof layer};
  for (int i = 0; i < clade_quantization_count(q); i++) {
    OK(clade_quantization_get_layer(q, i, &layer));
    if (!strcmp(layer.name, name)) return layer;
  }
  fail_msg("no layer %s", name);
  return layer;
}

/* Weights and bias of "a" with folded normalization, in double. */
static void folded(const model *m, double *weight, double *bias) {
  float w[WIDTH * COLORS * 9];
  OK(clade_vars_get(m->vars, "a.weight", w, sizeof w));
  for (int i = 0; i < WIDTH; i++) {
    const double slope = (double)norm[0][i] / sqrt((double)norm[3][i] + 1e-5);
    for (int k = 0; k < COLORS * 9; k++) weight[i * COLORS * 9 + k] = (double)w[i * COLORS * 9 + k] * slope;
    bias[i] = (double)norm[1][i] - (double)norm[2][i] * slope;
  }
}

static void weights(void **state) {
  model m = new_model(*state);
  clade_quantization *q = observed(&m, *state, CLADE_CALIBRATE_MINMAX);
  model s = quantized(&m, q, *state);
  double want[WIDTH * COLORS * 9], want_bias[WIDTH];
  int8_t have[WIDTH * COLORS * 9];
  float scale[WIDTH], bias[WIDTH];
  const double input = layer_of(q, "a").input_scale;
  folded(&m, want, want_bias);
  OK(clade_vars_get(s.vars, "a.weight", have, sizeof have));
  OK(clade_vars_get(s.vars, "a.scale", scale, sizeof scale));
  OK(clade_vars_get(s.vars, "a.bias", bias, sizeof bias));
  for (int i = 0; i < WIDTH; i++) {
    double most = 0;
    for (int k = 0; k < COLORS * 9; k++) most = fmax(most, fabs(want[i * COLORS * 9 + k]));
    assert_true(fabs((double)scale[i] - most / 127 * input) < 1e-6 * (double)scale[i]);
    assert_true(fabs((double)bias[i] - want_bias[i]) < 1e-6);
    for (int k = 0; k < COLORS * 9; k++)
      assert_int_equal(have[i * COLORS * 9 + k], (int)nearbyint(want[i * COLORS * 9 + k] / (most / 127)));
  }
  for (int i = 0; i < clade_vars_count(s.vars); i++) {
    clade_port_info info = {.size = sizeof info};
    OK(clade_vars_describe(s.vars, i, &info));
    if (!strncmp(info.name, "n.", 2)) fail_msg("%s is still there", info.name);
  }
  free_model(&s);
  free_model(&m);
  clade_quantization_free(q);
}

/* Close to the f32 model, with any layers left in f32; identical if all are. */
static void results(void **state) {
  model m = new_model(*state);
  clade_quantization *q = observed(&m, *state, CLADE_CALIBRATE_MINMAX);
  static float x[2 * IMAGE], y[2][2 * CLASSES];
  for (int kept = 0; kept < 4; kept++) {
    for (int i = 0; i < 3; i++) OK(clade_quantization_keep(q, i, kept >> i & 1));
    model s = quantized(&m, q, *state);
    fill(x, 3);
    run_model(m.func, m.vars, x, y[0]);
    run_model(s.func, s.vars, x, y[1]);
    double most = 0, off = 0;
    for (int i = 0; i < 2 * CLASSES; i++) {
      most = fmax(most, fabs((double)y[0][i]));
      off = fmax(off, fabs((double)y[0][i] - (double)y[1][i]));
    }
    if (!(off > 0 && off < 0.03 * most)) fail_msg("kept %d: off by %g of %g", kept, off, most);
    free_model(&s);
  }
  for (int i = 0; i < 3; i++) OK(clade_quantization_keep(q, i, true));
  model same = quantized(&m, q, *state);
  run_model(same.func, same.vars, x, y[1]);
  assert_memory_equal(y[0], y[1], sizeof y[0]);
  free_model(&same);
  free_model(&m);
  clade_quantization_free(q);
}

/* A linear layer against double: only the summation differs. */
static void one_layer(void **state) {
  clade_graph *g = graph_new();
  clade_func *func = NULL, *small = NULL;
  clade_vars *vars, *less;
  clade_quantization *q;
  clade_run *run;
  clade_ticket ticket;
  char *text;
  enum { INNER = 37, OUT = 5 };
  float x[3 * INNER], y[3 * OUT], scale[OUT], bias[OUT];
  int8_t w[OUT * INNER];
  uint32_t seed = 9;
  clade_output(g, "y", clade_nn_linear(g, "l", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(3, INNER)), .out = OUT));
  OK(clade_compile(g, *state, &func));
  OK(clade_vars_new(func, 1, &vars));
  OK(clade_quantization_new(g, *state, vars, &q));
  for (int i = 0; i < 3 * INNER; i++) x[i] = noise(&seed);
  OK(clade_quantization_observe(q, 0, 0, CLADE_FEEDS({"x", x, sizeof x, NULL})));
  OK(clade_quantization_text(q, &text));
  OK(clade_compile(g, *state, &small, .quantization = text));
  OK(clade_vars_new(small, 1, &less));
  OK(clade_quantization_apply(q, less));
  OK(clade_vars_get(less, "l.weight", w, sizeof w));
  OK(clade_vars_get(less, "l.scale", scale, sizeof scale));
  OK(clade_vars_get(less, "l.bias", bias, sizeof bias));
  OK(clade_run_new(small, less, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, sizeof y));
  const double input = layer_of(q, "l").input_scale;
  for (int i = 0; i < 3 * OUT; i++) {
    double sum = 0;
    for (int k = 0; k < INNER; k++) sum += expected(x[i / OUT * INNER + k], input, CLADE_I8) * w[i % OUT * INNER + k];
    const double want = sum * (double)scale[i % OUT] + (double)bias[i % OUT];
    assert_true(fabs((double)y[i] - want) < 1e-5 * (1 + fabs(want)));
  }
  clade_text_free(text);
  clade_run_free(run);
  clade_quantization_free(q);
  clade_vars_release(vars);
  clade_vars_release(less);
  clade_func_release(func);
  clade_func_release(small);
  clade_graph_release(g);
}

/* ---- integer arithmetic ---- */
enum { BATCH = 2, IN = 3, OUT = 5, HIGH = 6, WIDE = 7, TAPS = 9, OUTS = BATCH * OUT * HIGH * WIDE };

typedef struct chain { /* quantize(relu(conv(x) + bias)) of bytes, in C */
  uint8_t x[BATCH * IN * HIGH * WIDE], y[OUTS];
  int8_t w[OUT * IN * TAPS];
  float scale[OUT], bias[OUT];
} chain;
static const double chain_in = 0.02, chain_out = 0.037;

static void draw_chain(chain *c) {
  uint32_t seed = 77;
  for (size_t i = 0; i < sizeof c->x; i++) c->x[i] = (uint8_t)(127.5f * (noise(&seed) + 1));
  for (size_t i = 0; i < sizeof c->w; i++) c->w[i] = (int8_t)(127 * noise(&seed));
  for (int i = 0; i < OUT; i++) c->scale[i] = 0.001f * (2 + noise(&seed)), c->bias[i] = noise(&seed);
  for (int i = 0; i < OUTS; i++) {
    const int column = i % WIDE, row = i / WIDE % HIGH, out = i / (WIDE * HIGH) % OUT, image = i / (WIDE * HIGH * OUT);
    int sum = 0;
    for (int k = 0; k < IN * TAPS; k++) {
      const int y = row + k / 3 % 3 - 1, x = column + k % 3 - 1;
      if (y < 0 || y >= HIGH || x < 0 || x >= WIDE) continue;
      sum += c->x[((image * IN + k / TAPS) * HIGH + y) * WIDE + x] * c->w[out * IN * TAPS + k];
    }
    float r = (float)sum * c->scale[out];
    r = r * (float)chain_in;
    r = r + c->bias[out];
    c->y[i] = (uint8_t)expected(r < 0 ? 0 : r, chain_out, CLADE_U8);
  }
}

static clade_val chain_conv(clade_graph *g, clade_val q, const char *name, int in) {
  char text[3][32];
  static const char *const parts[] = {"weight", "scale", "bias"};
  for (int i = 0; i < 3; i++) snprintf(text[i], sizeof text[i], "%s.%s", name, parts[i]);
  const clade_initial zero = {CLADE_INIT_ZERO, 0, 0};
  const clade_val w = clade_parameter(g, text[0], CLADE_I8, CLADE_SHAPE(OUT, in, 3, 3), zero);
  const clade_val scale = clade_parameter(g, text[1], CLADE_F32, CLADE_SHAPE(OUT), zero);
  const clade_val bias = clade_parameter(g, text[2], CLADE_F32, CLADE_SHAPE(OUT), zero);
  const clade_val x = clade_dequantize(g, q, clade_fill(g, CLADE_F32, CLADE_SCALAR, chain_in), 0);
  const clade_val y = clade_conv2d(g, x, clade_dequantize(g, w, scale, 0), .bias = bias, .pad = {1, 1});
  return clade_quantize(g, clade_relu(g, y), chain_out, CLADE_U8);
}

/* Values between convolutions are bytes, and each convolution is one node with its whole epilogue. */
static void bytes_between(const clade_func *func) {
  int convolutions = 0;
  for (clade__id id = 1; id < func->graph->n_nodes; id++) {
    const clade__node *n = &func->graph->nodes[id];
    if (n->op == &clade__op_eltwise) fail_msg("node %u computes apart", id);
    if (n->op != &clade__op_conv2d) continue;
    convolutions++;
    assert_int_equal(clade__type(func->graph, n->in[0])->dtype, CLADE_U8);
    assert_int_equal(clade__type(func->graph, n->in[1])->dtype, CLADE_I8);
    assert_int_equal(clade__type(func->graph, n->first_out)->dtype, CLADE_U8);
  }
  assert_int_equal(convolutions, 2);
}

static void whole_numbers(void **state) {
  static const char *const prefer[] = {"conv2d=ref", NULL};
  static chain c;
  static uint8_t have[OUTS];
  draw_chain(&c);
  for (size_t i = 0; i < CLADE_COUNT(prefer); i++) {
    clade_graph *g = graph_new();
    clade_func *func = NULL;
    clade_vars *vars;
    clade_run *run;
    clade_ticket ticket;
    const clade_val q = clade_input(g, "x", CLADE_U8, CLADE_SHAPE(BATCH, IN, HIGH, WIDE));
    const clade_val first = chain_conv(g, q, "a", IN);
    clade_output(g, "y", first);
    clade_output(g, "z", chain_conv(g, first, "b", OUT));
    OK(clade_compile(g, *state, &func, .prefer = prefer[i]));
    bytes_between(func);
    OK(clade_vars_new(func, 0, &vars));
    OK(clade_vars_set(vars, "a.weight", c.w, sizeof c.w));
    OK(clade_vars_set(vars, "a.scale", c.scale, sizeof c.scale));
    OK(clade_vars_set(vars, "a.bias", c.bias, sizeof c.bias));
    OK(clade_run_new(func, vars, &run));
    OK(clade_execute(run, CLADE_FEEDS({"x", c.x, sizeof c.x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", have, sizeof have));
    for (int k = 0; k < OUTS; k++)
      if (have[k] != c.y[k]) fail_msg("element %d is %d instead of %d", k, have[k], c.y[k]);
    clade_run_free(run);
    clade_vars_release(vars);
    clade_func_release(func);
    clade_graph_release(g);
  }
}

/* ---- ranges ---- */
static void ranges(void **state) {
  (void)state;
  static clade__range r;
  static float x[100000];
  for (int i = 0; i < 100000; i++) x[i] = (float)(i % 1000) / 1000; /* in [0, 1) */
  assert_true(clade__range_add(&r, x, 50000));
  assert_true(clade__range_add(&r, x + 50000, 49999));
  assert_true(clade__range_add(&r, (float[]){50}, 1));
  assert_false(r.negative);
  assert_int_equal(r.n, 100000);
  const double all = clade__range_limit(&r, CLADE_CALIBRATE_MINMAX, 255);
  const double most = clade__range_limit(&r, CLADE_CALIBRATE_PERCENTILE, 255);
  const double least = clade__range_limit(&r, CLADE_CALIBRATE_MSE, 255);
  assert_true(all == 50);
  assert_true(most >= 0.99 && most < 1.1);
  assert_true(least < 50 && least >= 1); /* one outlier does not justify larger steps for all others */
  assert_true(clade__range_add(&r, (float[]){-1}, 1));
  assert_true(r.negative);
  assert_false(clade__range_add(&r, (float[]){NAN}, 1));
  assert_false(clade__range_add(&r, (float[]){INFINITY}, 1));
  static clade__range zero;
  assert_true(clade__range_add(&zero, (float[]){0, 0}, 2));
  assert_true(clade__range_limit(&zero, CLADE_CALIBRATE_MSE, 127) == 1);
}

static void input_types(void **state) {
  model m = new_model(*state);
  clade_quantization *q = observed(&m, *state, CLADE_CALIBRATE_MINMAX);
  assert_int_equal(clade_quantization_count(q), 3);
  assert_int_equal(layer_of(q, "a").input, CLADE_I8);
  assert_int_equal(layer_of(q, "b").input, CLADE_U8); /* follows a ReLU */
  assert_int_equal(layer_of(q, "a").weights, WIDTH * COLORS * 9);
  assert_string_equal(layer_of(q, "last").op, "gemm");
  assert_true(fabs(layer_of(q, "a").input_scale - 1.0 / 127) < 1e-3);
  clade_quantization_free(q);
  free_model(&m);
}

/* Padding rows of a batch do not count. */
static void rows(void **state) {
  model m = new_model(*state);
  clade_quantization *q;
  static float x[2 * IMAGE];
  for (int i = 0; i < 2 * IMAGE; i++) x[i] = i < IMAGE ? 0.5f : -8;
  OK(clade_quantization_new(m.g, *state, m.vars, &q));
  OK(clade_quantization_observe(q, 1, 2, CLADE_FEEDS({"x", x, sizeof x, NULL})));
  assert_int_equal(layer_of(q, "a").input, CLADE_U8);
  assert_true(fabs(layer_of(q, "a").input_scale - 0.5 / 255) < 1e-6);
  clade_quantization_free(q);
  free_model(&m);
}

/* ---- refusals ---- */
static void refusals(void **state) {
  model m = new_model(*state);
  clade_quantization *q;
  clade_func *func = NULL;
  char *text;
  static float x[2 * IMAGE];
  static const struct {
    const char *text;
    clade_status status;
    const char *part;
  } texts[] = {{"a", CLADE_INVALID, "\"a\": expected LAYER=i8:SCALE"},
               {"a=i4:1", CLADE_INVALID, "\"a=i4:1\""},
               {"a=i8:0", CLADE_INVALID, "\"a=i8:0\""},
               {"a=i8:x", CLADE_INVALID, "\"a=i8:x\""},
               {"a=i8:inf", CLADE_INVALID, "\"a=i8:inf\""},
               {"a=i8:1 ,b=i8:1", CLADE_INVALID, "\"a=i8:1 \""},
               {"a=i8:1,c=u8:1", CLADE_NOT_FOUND, "no layer \"c\" that can be quantized"},
               {"n=u8:1", CLADE_NOT_FOUND, "no layer \"n\""},
               {"a=i8:1,a=u8:1", CLADE_DUPLICATE, "\"a\" is listed twice"}};
  for (size_t i = 0; i < CLADE_COUNT(texts); i++)
    refused(clade_compile(m.g, *state, &func, .quantization = texts[i].text), texts[i].status, texts[i].part);
  refused(clade_compile(m.g, *state, &func, .quantization = "a=i8:1", .precision = CLADE_BF16), CLADE_INVALID,
          ".precision is bf16 as well");
  OK(clade_quantization_new(m.g, *state, m.vars, &q));
  refused(clade_quantization_text(q, &text), CLADE_INVALID, "no samples were observed");
  refused(clade_quantization_keep(q, 3, true), CLADE_NOT_FOUND, "layer 3 of 3");
  refused(clade_quantization_observe(q, 3, 2, 0, NULL), CLADE_INVALID, "3 rows of 2");
  x[IMAGE + 1] = NAN;
  refused(clade_quantization_observe(q, 0, 0, CLADE_FEEDS({"x", x, sizeof x, NULL})), CLADE_INVALID,
          "the input of the layer \"a\" holds NaN");
  clade_quantization_free(q);
  refused(clade_quantization_new(m.g, *state, m.vars, &q, .calibration = (clade_calibration)7), CLADE_INVALID,
          ".calibration is 7");
  refused(clade_quantization_new(m.g, *state, NULL, &q), CLADE_INVALID, "variables are NULL");
  q = observed(&m, *state, CLADE_CALIBRATE_MINMAX);
  set(m.vars, "n.running_var", (float[]){1, -1, 1, 1}, WIDTH);
  clade_quantization_layer layer = {.size = sizeof layer};
  refused(clade_quantization_get_layer(q, 0, &layer), CLADE_INVALID, "output 1 of the layer \"a\" has weights");
  free_model(&m);
  clade_quantization_free(q);
  clade_graph *g = graph_new();
  clade_output(g, "y", clade_relu(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2))));
  OK(clade_compile(g, *state, &func));
  clade_vars *none;
  OK(clade_vars_new(func, 0, &none));
  refused(clade_quantization_new(g, *state, none, &q), CLADE_NOT_FOUND, "no convolution or linear layer");
  clade_vars_release(none);
  clade_func_release(func);
  clade_graph_release(g);
}

/* Weights shared by two nodes, and training graphs. */
static void left_alone(void **state) {
  clade_graph *g = graph_new();
  clade_func *func = NULL;
  const clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, 4));
  const clade_val w = clade_parameter(g, "l.weight", CLADE_F32, CLADE_SHAPE(4, 4), (clade_initial){0});
  clade_output(g, "y", clade_gemm(g, clade_gemm(g, x, w, .trans_b = true), w, .trans_b = true));
  refused(clade_compile(g, *state, &func, .quantization = "l=i8:1"), CLADE_NOT_FOUND, "no layer \"l\"");
  clade_graph_release(g);
  g = graph_new();
  clade_graph_train(g, true);
  network(g);
  refused(clade_compile(g, *state, &func, .quantization = "a=i8:1"), CLADE_INVALID, "one for training");
  clade_graph_release(g);
}

/* ---- memory ---- */
static clade_status whole(const void *argument, clade_device *device) {
  static float x[2 * IMAGE];
  return quantize_whole(argument, device, 0, &(clade_feed){"x", x, sizeof x, NULL});
}

/* Every seventh allocation, with a rotating start; failures in compilation are tested elsewhere. */
static void no_memory(void **state) {
  model m = new_model(*state);
  OK(whole(&m, *state));
  assert_true(fail_allocations(whole, &m, *state, 7) > 40);
  free_model(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers),      cmocka_unit_test(nothing),  cmocka_unit_test(builders_refuse),
      cmocka_unit_test(weights),       cmocka_unit_test(results),  cmocka_unit_test(one_layer),
      cmocka_unit_test(whole_numbers), cmocka_unit_test(ranges),   cmocka_unit_test(input_types),
      cmocka_unit_test(rows),          cmocka_unit_test(refusals), cmocka_unit_test(left_alone),
      cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests(tests, open_failing, close_device);
}

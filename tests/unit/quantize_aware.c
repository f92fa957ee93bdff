/* Quantization-aware training: results and gradients of a step, ranges, and that the quantized model has the
 * simulated model's integers and bits. */
#include <math.h>
#include <stdio.h>

#include "memory_kit.h"
#include "pass/quantize.h"
#include "quantize_kit.h"

enum { COLORS = 3, SIDE = 6, WIDTH = 4, CLASSES = 3, IMAGE = COLORS * SIDE * SIDE };

static float noise(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) * 0x1p-23f - 1;
}

static void fill(float *x, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) x[i] = noise(&seed);
}

/* ---- quantized and simulated model ---- */
static clade_val network(clade_graph *g) {
  clade_val h = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, COLORS, SIDE, SIDE));
  h = clade_nn_conv2d(g, "a", h, .out = WIDTH, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true);
  h = clade_relu(g, clade_nn_batch_norm(g, "n", h));
  h = clade_add(g, h, clade_nn_batch_norm(g, "m", clade_nn_conv2d(g, "b", h, .out = WIDTH, .kernel = {1, 1})));
  h = clade_relu(g, clade_nn_conv2d(g, "c", h, .out = WIDTH, .kernel = {3, 3}));
  return clade_nn_linear(g, "last", clade_flatten(g, h, 1), .out = CLASSES);
}

static const char layers[] = "a=i8:0.0071,b=u8:0.013,c=i8:0.011,last=u8:0.02";

static void set(clade_vars *vars, const char *name, const float *values, size_t n) {
  OK(clade_vars_set(vars, name, values, n * sizeof *values));
}

static void set_one(clade_vars *vars, const char *name, float value) { set(vars, name, &value, 1); }

/* A model after training: arbitrary weights and ranges; a normalization with a negative and a zero factor. */
static model simulated(clade_device *device, uint32_t seed) {
  static const char *const ranges[] = {"max:a", "min:a", "max:b", "max:c", "min:c", "max:last"};
  model m = {.g = graph_new()};
  clade_output(m.g, "y", network(m.g));
  OK(clade_compile(m.g, device, &m.func, .quantization = layers, .simulate = true));
  OK(clade_vars_new(m.func, seed, &m.vars));
  set(m.vars, "n.weight", (float[]){1.5f + noise(&seed), -0.7f, 0, 2}, WIDTH);
  set(m.vars, "n.bias", (float[]){noise(&seed), -0.2f, 0.3f, 0}, WIDTH);
  set(m.vars, "n.running_mean", (float[]){noise(&seed), 0.1f, -0.3f, 0}, WIDTH);
  set(m.vars, "m.running_var", (float[]){0.9f, 1.7f, 1.1f + noise(&seed), 1}, WIDTH);
  set(m.vars, "b.bias", (float[]){noise(&seed), noise(&seed), 0, 1}, WIDTH);
  for (size_t i = 0; i < CLADE_COUNT(ranges); i++) {
    char name[64];
    snprintf(name, sizeof name, CLADE__RANGES "%s", ranges[i]);
    set_one(m.vars, name, (ranges[i][1] == 'i' ? -1.0f : 1.0f) * (1.2f + noise(&seed)));
  }
  return m;
}

static model quantized(const model *m, clade_device *device, clade_quantization **q) {
  model s = {.g = clade_graph_retain(m->g)};
  char *text;
  OK(clade_quantization_new(m->g, device, m->vars, q, .trained = layers));
  OK(clade_quantization_text(*q, &text));
  OK(clade_compile(m->g, device, &s.func, .quantization = text));
  OK(clade_vars_new(s.func, 1, &s.vars));
  OK(clade_quantization_apply(*q, s.vars));
  clade_text_free(text);
  return s;
}

static void answer(const model *m, const float *x, float *y) {
  clade_run *run;
  clade_ticket ticket;
  OK(clade_run_new(m->func, m->vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, 2 * IMAGE * sizeof *x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, 2 * CLASSES * sizeof *y));
  clade_run_free(run);
}

static void same_bits(void **state) {
  static float x[2 * IMAGE], y[2][2 * CLASSES];
  for (uint32_t seed = 1; seed <= 12; seed++) {
    clade_quantization *q;
    model m = simulated(*state, seed), s = quantized(&m, *state, &q);
    fill(x, 2 * IMAGE, seed);
    answer(&m, x, y[0]);
    answer(&s, x, y[1]);
    if (memcmp(y[0], y[1], sizeof y[0]) != 0) fail_msg("seed %u: %.9g is %.9g", seed, (double)y[0][0], (double)y[1][0]);
    assert_true(isfinite(y[0][0]) && y[0][0] != y[0][CLASSES]);
    clade_quantization_free(q);
    free_model(&s);
    free_model(&m);
  }
}

/* Scales in the text are f32 numbers that round-trip, and so do their reciprocals. */
static void scales(void **state) {
  (void)state;
  clade__quant_layer one = {.name = "l"};
  const clade__quant_layers list = {&one, 1, 1};
  clade__quant_entry *entries;
  uint32_t seed = 1;
  for (int i = 0; i < 100; i++) {
    char text[64];
    const float scale = 0.01f * (2 + noise(&seed));
    snprintf(text, sizeof text, "l=u8:%.9g", (double)scale);
    OK(clade__quant_entries(&list, text, &entries));
    assert_true(entries->scale == (double)scale);
    clade__free(entries);
  }
}

/* Weights of "a" are quantized with their own scales, whatever the normalization, whose factor is in the scale. */
static void same_integers(void **state) {
  enum { INNER = COLORS * 9 };
  clade_quantization *q;
  model m = simulated(*state, 5), s = quantized(&m, *state, &q);
  float w[WIDTH * INNER], norm[4][WIDTH], scale[WIDTH], bias[WIDTH], most, least;
  static const char *const parts[] = {"n.weight", "n.bias", "n.running_mean", "n.running_var"};
  int8_t have[WIDTH * INNER];
  clade_quantization_layer layer = {.size = sizeof layer};
  OK(clade_vars_get(m.vars, "a.weight", w, sizeof w));
  for (int i = 0; i < 4; i++) OK(clade_vars_get(m.vars, parts[i], norm[i], sizeof norm[i]));
  OK(clade_vars_get(m.vars, CLADE__RANGES "max:a", &most, sizeof most));
  OK(clade_vars_get(m.vars, CLADE__RANGES "min:a", &least, sizeof least));
  OK(clade_vars_get(s.vars, "a.weight", have, sizeof have));
  OK(clade_vars_get(s.vars, "a.scale", scale, sizeof scale));
  OK(clade_vars_get(s.vars, "a.bias", bias, sizeof bias));
  OK(clade_quantization_get_layer(q, 0, &layer));
  const double input = fmax((double)most, -(double)least) / 127;
  assert_true(fabs(layer.input_scale - input) < 1e-6 * input);
  for (int i = 0; i < WIDTH; i++) {
    const double slope = (double)norm[0][i] / sqrt((double)norm[3][i] + 1e-5);
    double top = 0;
    for (int k = 0; k < INNER; k++) top = fmax(top, fabs((double)w[i * INNER + k]));
    assert_true(fabs((double)scale[i] - top / 127 * fabs(slope) * input) <= 1e-6 * (double)scale[i]);
    assert_true(fabs((double)bias[i] - ((double)norm[1][i] - (double)norm[2][i] * slope)) < 1e-6);
    for (int k = 0; k < INNER; k++) {
      const double level = (double)w[i * INNER + k] / (top / 127) * (slope > 0 ? 1 : slope < 0 ? -1 : 0);
      if (fabs((double)have[i * INNER + k] - level) > 0.5001)
        fail_msg("output %d, weight %d is %d for %g", i, k, have[i * INNER + k], level);
    }
  }
  for (int i = 0; i < clade_vars_count(s.vars); i++) {
    clade_port_info info = {.size = sizeof info};
    OK(clade_vars_describe(s.vars, i, &info));
    if (strstr(info.name, "range") || !strncmp(info.name, "n.", 2)) fail_msg("%s is still there", info.name);
  }
  clade_quantization_free(q);
  free_model(&s);
  free_model(&m);
}

/* ---- a training step of a linear layer ---- */
enum { ROWS = 3, INNER = 7, OUT = 4 };

typedef struct step {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} step;

/* The sum of y c, and its gradients by x and the weight. */
static step new_step(clade_device *device, const char *text) {
  clade_graph *model = graph_new(), *g = graph_new();
  step s = {0};
  clade_graph_train(model, true);
  clade_graph_train(g, true);
  const clade_val x = clade_input(model, "x", CLADE_F32, CLADE_SHAPE(ROWS, INNER));
  const clade_val y = clade_nn_linear(model, "l", x, .out = OUT, .no_bias = true);
  clade__id *map = clade__new(model->n_values, sizeof *map);
  OK(clade__simulate(model, text, g, map));
  size_t at;
  assert_true(clade__map_get(&g->variables.by_name, clade__hash_bytes("l.weight", 8), &at));
  const clade_val new_y = clade__graph_val(g, map[y.id]);
  const clade_val xs[] = {clade__graph_val(g, map[x.id]), clade__graph_val(g, g->variables.at[at].value)};
  clade_val dxs[2];
  const clade_val c = clade_input(g, "c", CLADE_F32, CLADE_SHAPE(ROWS, OUT));
  OK(clade_gradients(g, clade_sum(g, clade_mul(g, new_y, c)), (clade_val){0}, 2, xs, dxs));
  clade_output(g, "y", new_y);
  clade_output(g, "dx", dxs[0]);
  clade_output(g, "dw", dxs[1]);
  OK(clade_compile(g, device, &s.func));
  OK(clade_vars_new(s.func, 1, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run));
  clade__free(map);
  clade_graph_release(model);
  clade_graph_release(g);
  return s;
}

static void free_step(step *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

typedef struct results {
  float y[ROWS * OUT], dx[ROWS * INNER], dw[OUT * INNER];
} results;

static results take_step(const step *s, const float *x, const float *c) {
  results r;
  clade_ticket ticket;
  OK(clade_execute(
      s->run, CLADE_FEEDS({"x", x, ROWS * INNER * sizeof *x, NULL}, {"c", c, ROWS * OUT * sizeof *c, NULL}), &ticket));
  OK(clade_read(s->run, ticket, "y", r.y, sizeof r.y));
  OK(clade_read(s->run, ticket, "dx", r.dx, sizeof r.dx));
  OK(clade_read(s->run, ticket, "dw", r.dw, sizeof r.dw));
  return r;
}

static void near(const char *what, int at, double have, double want) {
  if (fabs(have - want) > 1e-5 * (1 + fabs(want))) fail_msg("%s, element %d: %g instead of %g", what, at, have, want);
}

/* Reference in double with the input's scale; weight scales from the variables. */
static void expect(const step *s, const float *x, const float *c, double scale, double low, double high, results r) {
  float w[OUT * INNER];
  double qx[ROWS * INNER], qw[OUT * INNER], inside[ROWS * INNER];
  OK(clade_vars_get(s->vars, "l.weight", w, sizeof w));
  for (int i = 0; i < ROWS * INNER; i++) {
    const double level = (double)x[i] / scale;
    inside[i] = level >= low && level <= high;
    qx[i] = scale * nearbyint(fmin(fmax(level, low), high));
  }
  for (int i = 0; i < OUT; i++) {
    double top = 0;
    for (int k = 0; k < INNER; k++) top = fmax(top, fabs((double)w[i * INNER + k]));
    for (int k = 0; k < INNER; k++) qw[i * INNER + k] = top / 127 * nearbyint((double)w[i * INNER + k] / (top / 127));
  }
  for (int i = 0; i < ROWS * OUT; i++) {
    double sum = 0;
    for (int k = 0; k < INNER; k++) sum += qx[i / OUT * INNER + k] * qw[i % OUT * INNER + k];
    near("y", i, (double)r.y[i], sum);
  }
  for (int i = 0; i < ROWS * INNER; i++) {
    double sum = 0;
    for (int k = 0; k < OUT; k++) sum += (double)c[i / INNER * OUT + k] * qw[k * INNER + i % INNER];
    near("dx", i, (double)r.dx[i], sum * inside[i]);
    if (inside[i] < 1 && r.dx[i] != 0) fail_msg("dx, element %d: %g beyond the range", i, (double)r.dx[i]);
  }
  for (int i = 0; i < OUT * INNER; i++) {
    double sum = 0;
    for (int k = 0; k < ROWS; k++) sum += (double)c[k * OUT + i / INNER] * qx[k * INNER + i % INNER];
    near("dw", i, (double)r.dw[i], sum);
  }
}

/* Fixed ranges: elements beyond them have gradient 0. */
static void gradients(void **state) {
  static const struct {
    const char *text;
    double scale, low, high;
  } rows[] = {{"l=i8:0.0061", 0.0061, -128, 127}, {"l=u8:0.0031", 0.0031, 0, 255}};
  float x[ROWS * INNER], c[ROWS * OUT];
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    step s = new_step(*state, rows[i].text);
    set_one(s.vars, CLADE__RANGES "rate", 0);
    fill(x, ROWS * INNER, 3);
    fill(c, ROWS * OUT, 4);
    expect(&s, x, c, rows[i].scale, rows[i].low, rows[i].high, take_step(&s, x, c));
    free_step(&s);
  }
}

static float get_one(const clade_vars *vars, const char *name) {
  float value;
  OK(clade_vars_get(vars, name, &value, sizeof value));
  return value;
}

/* Like PyTorch's MovingAverageMinMaxObserver; a step uses the ranges updated by its own batch. */
static void ranges(void **state) {
  step s = new_step(*state, "l=i8:0.01");
  float x[ROWS * INNER], c[ROWS * OUT];
  double most = 1.27, least = -1.27;
  fill(c, ROWS * OUT, 4);
  for (uint32_t seed = 1; seed <= 4; seed++) {
    double top = -INFINITY, bottom = INFINITY;
    fill(x, ROWS * INNER, seed);
    for (int i = 0; i < ROWS * INNER; i++) {
      x[i] = 4 * x[i] - 3;
      top = fmax(top, (double)x[i]), bottom = fmin(bottom, (double)x[i]);
    }
    most += 0.01 * (top - most), least += 0.01 * (bottom - least);
    expect(&s, x, c, fmax(most, -least) / 127, -128, 127, take_step(&s, x, c));
    near("max", (int)seed, (double)get_one(s.vars, CLADE__RANGES "max:l"), most);
    near("min", (int)seed, (double)get_one(s.vars, CLADE__RANGES "min:l"), least);
  }
  assert_true(least < -1.4);
  set_one(s.vars, CLADE__RANGES "rate", 0);
  take_step(&s, x, c);
  near("max", 0, (double)get_one(s.vars, CLADE__RANGES "max:l"), most);
  free_step(&s);
}

/* All weights and inputs 0. */
static void zeros(void **state) {
  static const float x[ROWS * INNER], w[OUT * INNER];
  float c[ROWS * OUT];
  step s = new_step(*state, "l=u8:0.01");
  fill(c, ROWS * OUT, 4);
  set(s.vars, "l.weight", w, OUT * INNER);
  set_one(s.vars, CLADE__RANGES "max:l", 0);
  const results r = take_step(&s, x, c);
  for (int i = 0; i < ROWS * OUT; i++) assert_true(r.y[i] == 0);
  for (int i = 0; i < ROWS * INNER; i++) assert_true(r.dx[i] == 0);
  for (int i = 0; i < OUT * INNER; i++) assert_true(r.dw[i] == 0);
  free_step(&s);
}

/* ---- refusals ---- */
static void refusals(void **state) {
  model m = simulated(*state, 1);
  clade_quantization *q;
  clade_func *func = NULL;
  clade_vars *plain;
  refused(clade_compile(m.g, *state, &func, .quantization = "a=i8:1,x=u8:1", .simulate = true), CLADE_NOT_FOUND,
          "no layer \"x\"");
  refused(clade_compile(m.g, *state, &func, .quantization = "a=i8:1", .simulate = true, .precision = CLADE_BF16),
          CLADE_INVALID, ".precision is bf16 as well");
  refused(clade_quantization_new(m.g, *state, m.vars, &q, .trained = "a=i9:1"), CLADE_INVALID, "\"a=i9:1\"");
  refused(clade_quantization_new(m.g, *state, m.vars, &q, .trained = ""), CLADE_INVALID, ".trained lists no layer");
  OK(clade_compile(m.g, *state, &func));
  OK(clade_vars_new(func, 1, &plain));
  refused(clade_quantization_new(m.g, *state, plain, &q, .trained = layers), CLADE_NOT_FOUND, CLADE__RANGES "max:a");
  OK(clade_quantization_new(m.g, *state, m.vars, &q, .trained = layers));
  refused(clade_quantization_observe(q, 0, 0, 0, NULL), CLADE_INVALID, "the ranges were trained");
  clade_quantization_free(q);
  set_one(m.vars, CLADE__RANGES "max:b", NAN);
  refused(clade_quantization_new(m.g, *state, m.vars, &q, .trained = layers), CLADE_INVALID, "\"b\"");
  clade_vars_release(plain);
  clade_func_release(func);
  free_model(&m);
}

/* ---- memory ---- */
static clade_status whole(const void *argument, clade_device *device) {
  const model *m = argument;
  clade_quantization *q = NULL;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_graph *model = NULL, *g = NULL;
  clade__id *map = NULL;
  char *text = NULL;
  clade_status status;
  CLADE_GOTO(clade_graph_new(&model));
  CLADE_GOTO(clade_graph_new(&g));
  clade_graph_train(model, true);
  network(model);
  CLADE_GOTO(clade_graph_status(model));
  map = clade__new(model->n_values, sizeof *map);
  CLADE_GOTO(map ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade__simulate(model, layers, g, map));
  CLADE_GOTO(clade_quantization_new(m->g, device, m->vars, &q, .trained = layers));
  CLADE_GOTO(clade_quantization_text(q, &text));
  CLADE_GOTO(clade_compile(m->g, device, &func, .quantization = text));
  CLADE_GOTO(clade_vars_new(func, 0, &vars));
  CLADE_GOTO(clade_quantization_apply(q, vars));
fail:
  clade__free(map);
  clade_graph_release(model);
  clade_graph_release(g);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_text_free(text);
  clade_quantization_free(q);
  return status;
}

/* Some allocations, with a rotating start; failures in compilation are tested elsewhere. */
static void no_memory(void **state) {
  model m = simulated(*state, 1);
  OK(whole(&m, *state));
  assert_true(fail_allocations(whole, &m, *state, 13) > 40);
  free_model(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits),     cmocka_unit_test(scales),
                                     cmocka_unit_test(same_integers), cmocka_unit_test(gradients),
                                     cmocka_unit_test(ranges),        cmocka_unit_test(zeros),
                                     cmocka_unit_test(refusals),      cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests(tests, open_failing, close_device);
}

/* Convolutions over one and three axes and transposed ones: their results and derivatives against the definition, their
 * layers, and what they refuse. */
#include <math.h>
#include <stdio.h>

#include <clade/nn.h>

#include "plan_kit.h"

/* ---- the definition, over three axes ---- */
typedef struct conv {
  int images, groups, rows, inner; /* channels of the result, of the source, per group */
  int in[3], out[3], kernel[3], stride[3], before[3], after[3], dilation[3];
} conv;

static int64_t volume(const int *size) { return (int64_t)size[0] * size[1] * size[2]; }
static int64_t x_count(const conv *c) { return (int64_t)c->images * c->groups * c->inner * volume(c->in); }
static int64_t y_count(const conv *c) { return (int64_t)c->images * c->groups * c->rows * volume(c->out); }
static int64_t w_count(const conv *c) { return (int64_t)c->groups * c->rows * c->inner * volume(c->kernel); }

static void split(int64_t i, const int *size, int *at) {
  for (int k = 2; k >= 0; i /= size[k--]) at[k] = (int)(i % size[k]);
}

/* Which element of x goes with an element of the result, a channel and a tap; -1: padding. */
static int64_t source(const conv *c, int64_t y, int channel, int tap) {
  int place[3], taps[3];
  int64_t plane = y / volume(c->out), at = plane / c->rows * c->inner + channel;
  split(y, c->out, place);
  split(tap, c->kernel, taps);
  for (int k = 0; k < 3; k++) {
    int p = place[k] * c->stride[k] + taps[k] * c->dilation[k] - c->before[k];
    if (p < 0 || p >= c->in[k]) return -1;
    at = at * c->in[k] + p;
  }
  return at;
}

/* Adds to the one of x, w and y that is asked for, from the two others. */
enum { X, W, Y };
static void define(const conv *c, int want, const float *const given[3], double *sum, double *size) {
  int64_t taps = volume(c->kernel);
  for (int64_t y = 0; y < y_count(c); y++)
    for (int channel = 0; channel < c->inner; channel++)
      for (int tap = 0; tap < taps; tap++) {
        int64_t x = source(c, y, channel, tap), row = y / volume(c->out) % (c->groups * c->rows);
        int64_t w = (row * c->inner + channel) * taps + tap, at[] = {x, w, y};
        if (x < 0) continue;
        int a = (want + 1) % 3, b = (want + 2) % 3;
        double product = (double)given[a][at[a]] * (double)given[b][at[b]];
        sum[at[want]] += product;
        size[at[want]] += fabs(product);
      }
}

/* ---- random cases ---- */
enum { LINE, LINE_TRANSPOSED, TRANSPOSED, SOLID, KINDS };

static uint64_t state_of_draw;
static int draw(int low, int high) {
  state_of_draw = state_of_draw * 6364136223846793005u + 1442695040888963407u;
  return low + (int)((state_of_draw >> 33) % (uint64_t)(high - low + 1));
}

static conv draw_conv(int kind, int number) {
  conv c = {.images = draw(1, 3), .groups = draw(1, 3), .rows = draw(1, 4), .inner = draw(1, 4)};
  int first = kind == SOLID ? 0 : kind == TRANSPOSED ? 1 : 2;
  for (int k = 0; k < 3; k++) {
    c.in[k] = c.out[k] = c.kernel[k] = c.stride[k] = c.dilation[k] = 1;
    if (k < first) continue;
    c.kernel[k] = draw(1, 3);
    c.stride[k] = draw(1, 3);
    c.dilation[k] = draw(1, 2);
    c.before[k] = draw(0, 2);
    c.after[k] = draw(0, 2);
    c.in[k] = draw(1, 7);
    if (kind == SOLID && k == 0 && number % 4 < 2) { /* the depth is seen at once, or slice by slice */
      c.stride[k] = c.dilation[k] = 1;
      c.before[k] = c.after[k] = 0;
      c.kernel[k] = number % 4 ? c.in[k] : 1;
    }
    if (kind == SOLID && k == 1 && number % 8 == 0) { /* and lines as well */
      c.kernel[k] = c.stride[k] = 1;
      c.before[k] = c.after[k] = 0;
    }
    int extent = (c.kernel[k] - 1) * c.dilation[k] + 1, room = c.in[k] + c.before[k] + c.after[k];
    if (room < extent) c.in[k] += extent - room;
    c.out[k] = (c.in[k] + c.before[k] + c.after[k] - extent) / c.stride[k] + 1;
  }
  return c;
}

static clade_val result_of(clade_graph *g, const conv *c, int kind, clade_val x, clade_val w, clade_val bias) {
  int more[3];
  for (int k = 0; k < 3; k++)
    more[k] = c->in[k] + c->before[k] + c->after[k] -
              ((c->out[k] - 1) * c->stride[k] + (c->kernel[k] - 1) * c->dilation[k] + 1);
  switch (kind) {
  case LINE:
    return clade_conv1d(g, x, w, .bias = bias, .stride = c->stride[2], .dilation = c->dilation[2], .groups = c->groups,
                        .pads = {c->before[2], c->after[2]});
  case LINE_TRANSPOSED:
    return clade_conv1d_transpose(g, x, w, .bias = bias, .stride = c->stride[2], .dilation = c->dilation[2],
                                  .groups = c->groups, .pads = {c->before[2], c->after[2]}, .output_pad = more[2]);
  case TRANSPOSED:
    return clade_conv2d_transpose(g, x, w, .bias = bias, .stride = {c->stride[1], c->stride[2]},
                                  .dilation = {c->dilation[1], c->dilation[2]}, .groups = c->groups,
                                  .pads = {c->before[1], c->before[2], c->after[1], c->after[2]},
                                  .output_pad = {more[1], more[2]});
  default:
    return clade_conv3d(g, x, w, .bias = bias, .stride = {c->stride[0], c->stride[1], c->stride[2]},
                        .dilation = {c->dilation[0], c->dilation[1], c->dilation[2]}, .groups = c->groups,
                        .pads = {c->before[0], c->before[1], c->before[2], c->after[0], c->after[1], c->after[2]});
  }
}

/* [first, channels, …], with as many axes as the kind has. */
static clade_shape shape_of(int kind, clade_dim first, int channels, const int *size) {
  clade_shape s = {.rank = 2, .dim = {first, channels}};
  for (int k = kind == SOLID ? 0 : kind == TRANSPOSED ? 1 : 2; k < 3; k++) s.dim[s.rank++] = size[k];
  return s;
}

static float *values(int64_t n) {
  float *v = malloc((size_t)n * sizeof *v + 1);
  assert_non_null(v);
  for (int64_t i = 0; i < n; i++) v[i] = (float)draw(-1000, 1000) * 1e-3f;
  return v;
}

static void compare(clade_run *run, clade_ticket ticket, const char *name, int64_t n, const double *want,
                    const double *size, const char *what) {
  float *have = values(n);
  OK(clade_read(run, ticket, name, have, (size_t)n * sizeof *have));
  for (int64_t i = 0; i < n; i++)
    if (!(fabs((double)have[i] - want[i]) <= 1e-5 * (size[i] + 1)))
      fail_msg("%s: element %d of %s is %.9g instead of %.9g", what, (int)i, name, (double)have[i], want[i]);
  free(have);
}

static void try_conv(int kind, int number, clade_device *device) {
  conv c = draw_conv(kind, number);
  bool flip = kind == LINE_TRANSPOSED || kind == TRANSPOSED; /* what goes in is the convolution's y */
  int from = flip ? Y : X, to = flip ? X : Y, results = c.groups * (flip ? c.inner : c.rows);
  int64_t count[] = {x_count(&c), w_count(&c), y_count(&c)}, per_image = count[to] / c.images;
  float *v[] = {values(count[0]), values(count[1]), values(count[2])}, *bias = values(results);
  const float *given[] = {v[0], v[1], v[2]};
  double *sum[3], *size[3];
  for (int i = 0; i < 3; i++) {
    assert_non_null(sum[i] = calloc((size_t)count[i] + 1, sizeof(double)));
    assert_non_null(size[i] = calloc((size_t)count[i] + 1, sizeof(double)));
    define(&c, i, given, sum[i], size[i]);
  }
  for (int64_t i = 0; i < count[to]; i++) sum[to][i] += (double)bias[i % per_image / (per_image / results)];

  clade_graph *g = graph_new();
  clade_dim batch = CLADE_DIM("batch");
  clade_val in[2], d[2], y, dy;
  clade_type type;
  in[0] =
      clade_input(g, "x", CLADE_F32, shape_of(kind, batch, c.groups * (flip ? c.rows : c.inner), flip ? c.out : c.in));
  in[1] = clade_input(g, "w", CLADE_F32, shape_of(kind, c.groups * c.rows, c.inner, c.kernel));
  y = result_of(g, &c, kind, in[0], in[1], clade_input(g, "b", CLADE_F32, CLADE_SHAPE(results)));
  if (clade_val_type(g, y, &type) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  dy = clade_input(g, "dy", CLADE_F32, type.shape);
  OK(clade_gradients(g, y, dy, 2, in, d));
  clade_output(g, "y", y);
  clade_output(g, "dx", d[0]);
  clade_output(g, "dw", d[1]);
  clade_func *func = compiled(g, device), *shaped;
  clade_run *run;
  clade_ticket ticket;
  char what[64];
  OK(clade_func_specialise(func, CLADE_DIMS({"batch", c.images}), &shaped));
  OK(clade_run_new(shaped, NULL, &run));
  size_t bytes[] = {(size_t)count[0] * 4, (size_t)count[1] * 4, (size_t)count[2] * 4};
  OK(clade_execute(run,
                   CLADE_FEEDS({"x", v[from], bytes[from], NULL}, {"w", v[W], bytes[W], NULL},
                               {"b", bias, (size_t)results * 4, NULL}, {"dy", v[to], bytes[to], NULL}),
                   &ticket));
  snprintf(what, sizeof what, "kind %d, case %d", kind, number);
  compare(run, ticket, "y", count[to], sum[to], size[to], what);
  compare(run, ticket, "dx", count[from], sum[from], size[from], what);
  compare(run, ticket, "dw", count[W], sum[W], size[W], what);
  clade_run_free(run);
  clade_func_release(shaped);
  clade_func_release(func);
  free(bias);
  for (int i = 0; i < 3; i++) {
    free(v[i]);
    free(sum[i]);
    free(size[i]);
  }
}

static void results(void **state) {
  state_of_draw = 7;
  for (int number = 0; number < 24; number++)
    for (int kind = 0; kind < KINDS; kind++) try_conv(kind, number, *state);
}

/* ---- layers ---- */
static void layers(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_dim n = CLADE_DIM("batch");
  clade_val line = clade_input(g, "line", CLADE_F32, CLADE_SHAPE(n, 4, 30));
  clade_val plane = clade_input(g, "plane", CLADE_F32, CLADE_SHAPE(n, 4, 7, 8));
  clade_val solid = clade_input(g, "solid", CLADE_F32, CLADE_SHAPE(n, 4, 5, 6, 7));
  const struct {
    clade_val y;
    clade_shape shape;
    const char *name;
    clade_shape weight;
  } cases[] = {
      {clade_nn_conv1d(g, "a", line, .out = 6, .kernel = 5, .stride = 2, .pad = 2, .groups = 2),
       {3, {n, 6, 15}},
       "a.weight",
       {3, {6, 2, 5}}},
      {clade_nn_conv2d_transpose(g, "b", plane, .out = 6, .kernel = {3, 4}, .stride = {2, 2}, .pad = {1, 1},
                                 .output_pad = {1, 0}, .groups = 2),
       {4, {n, 6, 14, 16}},
       "b.weight",
       {4, {4, 3, 3, 4}}},
      {clade_nn_conv3d(g, "c", solid, .out = 3, .kernel = {3, 3, 3}, .stride = {2, 1, 1}, .pad = {1, 1, 1}),
       {5, {n, 3, 3, 6, 7}},
       "c.weight",
       {5, {3, 4, 3, 3, 3}}},
  };
  if (clade_graph_status(g) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_int_equal(g->variables.count, 6);
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_type type;
    OK(clade_val_type(g, cases[i].y, &type));
    assert_true(clade_shape_equal(&type.shape, &cases[i].shape));
    assert_string_equal(g->variables.at[2 * i].name, cases[i].name);
    assert_true(clade_shape_equal(&clade__type(g, g->variables.at[2 * i].value)->shape, &cases[i].weight));
  }
  clade_graph_release(g);
}

/* ---- refusals ---- */
typedef clade_val attempt_fn(clade_graph *g, clade_val x, clade_val w);
#define ATTEMPT(name, expression)                                   \
  static clade_val name(clade_graph *g, clade_val x, clade_val w) { \
    (void)x, (void)w;                                               \
    return expression;                                              \
  }
#define IN(name, ...) clade_input(g, name, CLADE_F32, CLADE_SHAPE(__VA_ARGS__))
ATTEMPT(line_rank, clade_conv1d(g, x, w))
ATTEMPT(line_stride, clade_conv1d(g, IN("l", 2, 4, 9), IN("v", 6, 4, 3), .stride = -1))
ATTEMPT(line_pad, clade_conv1d(g, IN("l", 2, 4, 9), IN("v", 6, 4, 3), .pad = INT32_MIN))
ATTEMPT(line_both, clade_conv1d(g, IN("l", 2, 4, 9), IN("v", 6, 4, 3), .pad = 1, .pads = {1, 0}))
ATTEMPT(line_output_pad, clade_conv1d(g, IN("l", 2, 4, 9), IN("v", 6, 4, 3), .output_pad = 1))
ATTEMPT(line_groups, clade_conv1d(g, IN("l", 2, 4, 9), IN("v", 6, 4, 3), .groups = 4))
ATTEMPT(line_large, clade_conv1d(g, IN("l", 2, 4, 9), IN("v", 6, 4, 3), .dilation = 5))
ATTEMPT(back_channels, clade_conv2d_transpose(g, x, w))
ATTEMPT(back_groups, clade_conv2d_transpose(g, x, IN("v", 4, 4, 3, 3), .groups = 3))
ATTEMPT(back_negative, clade_conv2d_transpose(g, x, IN("v", 4, 4, 3, 3), .groups = -2))
ATTEMPT(back_stride, clade_conv2d_transpose(g, x, IN("v", 4, 4, 3, 3), .stride = {-1, 1}))
ATTEMPT(back_output_pad, clade_conv2d_transpose(g, x, IN("v", 4, 4, 3, 3), .stride = {2, 2}, .output_pad = {0, 2}))
ATTEMPT(back_less, clade_conv2d_transpose(g, x, IN("v", 4, 4, 3, 3), .output_pad = {-1, 0}))
ATTEMPT(back_nothing, clade_conv2d_transpose(g, x, IN("v", 4, 4, 1, 1), .pad = {4, 0}))
ATTEMPT(back_much, clade_conv2d_transpose(g, x, IN("v", 4, 4, 1, 1), .stride = {1 << 28, 1}))
ATTEMPT(back_symbol, clade_conv2d_transpose(g, IN("s", 1, 4, CLADE_DIM("h"), 4), IN("v", 4, 4, 1, 1)))
ATTEMPT(back_bias, clade_conv2d_transpose(g, x, IN("v", 4, 5, 1, 1), .bias = IN("b", 4)))
ATTEMPT(solid_rank, clade_conv3d(g, x, w))
ATTEMPT(solid_stride, clade_conv3d(g, IN("s", 1, 4, 5, 5, 5), IN("v", 4, 4, 3, 3, 3), .stride = {1, -1, 1}))
ATTEMPT(solid_depth, clade_conv3d(g, IN("s", 1, 4, 5, 5, 5), IN("v", 4, 4, 3, 3, 3), .dilation = {3, 1, 1}))
ATTEMPT(solid_pads, clade_conv3d(g, IN("s", 1, 4, 5, 5, 5), IN("v", 4, 4, 3, 3, 3), .pads = {0, 0, 0, -1}))
ATTEMPT(solid_groups, clade_conv3d(g, IN("s", 1, 4, 5, 5, 5), IN("v", 4, 4, 3, 3, 3), .groups = 3))
ATTEMPT(layer_out, clade_nn_conv2d_transpose(g, "t", x, .out = 3, .kernel = {3, 3}, .groups = 2))
ATTEMPT(layer_kernel, clade_nn_conv1d(g, "t", IN("l", 2, 4, 9), .out = 3))
ATTEMPT(layer_rank, clade_nn_conv3d(g, "t", x, .out = 3, .kernel = {1, 1, 1}))

static const struct {
  attempt_fn *attempt;
  clade_status status;
  const char *words;
} refusals[] = {
    {line_rank, CLADE_SHAPE, "conv1d: x is [2, 4, 7, 8]; expected 3 dimensions"},
    {line_stride, CLADE_INVALID, "conv1d: .stride is -1; expected 1 to 268435456"},
    {line_pad, CLADE_INVALID, "conv1d: .pad is -2147483648; expected 0 to"},
    {line_both, CLADE_INVALID, "conv1d: .pad and .pads are both set"},
    {line_output_pad, CLADE_INVALID, "conv1d: .output_pad is 1; only conv1d_transpose takes it"},
    {line_groups, CLADE_SHAPE, "not divisible by .groups, which is 4"},
    {line_large, CLADE_SHAPE, "the kernel covers 11 along the width"},
    {back_channels, CLADE_SHAPE, "conv2d_transpose: w is for 6 channels and x has 4"},
    {back_groups, CLADE_INVALID, "conv2d_transpose: .groups is 3; expected a divisor of the 4 channels of x"},
    {back_negative, CLADE_INVALID, "conv2d_transpose: .groups is -2"},
    {back_stride, CLADE_INVALID, "conv2d_transpose: .stride[0] is -1; expected 1 to"},
    {back_output_pad, CLADE_INVALID, ".output_pad[1] is 2; expected less than .stride[1], which is 2"},
    {back_less, CLADE_INVALID, "conv2d_transpose: .output_pad[0] is -1; expected 0 to"},
    {back_nothing, CLADE_SHAPE, "the height of the result would be -1"},
    {back_much, CLADE_SHAPE, "the height of the result would be 1610612737"},
    {back_symbol, CLADE_SHAPE, "conv2d_transpose: x is [1, 4, h, 4]; expected 4 dimensions with sizes"},
    {back_bias, CLADE_SHAPE, "conv2d_transpose: .bias is [4]; expected one value per channel of the result"},
    {solid_rank, CLADE_SHAPE, "conv3d: x is [2, 4, 7, 8]; expected 5 dimensions"},
    {solid_stride, CLADE_INVALID, "conv3d: .stride[1] is -1"},
    {solid_depth, CLADE_SHAPE, "conv3d: the kernel covers 7 along the depth, and x with its padding has 5"},
    {solid_pads, CLADE_INVALID, "conv3d: .pads[3] is -1; expected 0 to"},
    {solid_groups, CLADE_SHAPE, "not divisible by .groups, which is 3"},
    {layer_out, CLADE_INVALID, "nn_conv2d_transpose \"t\": .out is 3, which is not divisible by .groups, which is 2"},
    {layer_kernel, CLADE_INVALID, "nn_conv1d \"t\": .kernel[0] is 0; expected at least 1"},
    {layer_rank, CLADE_SHAPE, "nn_conv3d \"t\": x is [2, 4, 7, 8]; expected [n, channels, depth, height, width]"},
};

static void refuses(void **state) {
  (void)state;
  for (size_t k = 0; k < CLADE_COUNT(refusals); k++) {
    clade_graph *g = graph_new();
    clade_val x = IN("x", 2, 4, 7, 8), w = IN("w", 6, 4, 3, 3);
    assert_false(clade_val_ok(refusals[k].attempt(g, x, w)));
    if (clade_graph_status(g) != refusals[k].status || !strstr(clade_graph_message(g), refusals[k].words))
      fail_msg("\"%s\" does not say \"%s\"", clade_graph_message(g), refusals[k].words);
    clade_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results),
      cmocka_unit_test(layers),
      cmocka_unit_test(refuses),
  };
  return cmocka_run_group_tests_name("run_convs", tests, open_device, close_device);
}

/* Random residual networks, pruned and rebuilt by the same function: they compile, run, and compute what the whole
 * network computes with the removed channels' weights set to 0. */
#include <math.h>
#include <stdio.h>

#include "plan_kit.h"
#include "prune/prune.h"

enum { IMAGES = 2, SIDE = 8, COLORS = 3, CLASSES = 4, FEW = 6, OUTPUTS = IMAGES * CLASSES };

static int networks = FEW;

/* ---- networks, generated from a number ---- */
typedef struct net {
  clade_graph *g;
  uint64_t key;
  uint32_t draws;
  int layers;
} net;

static int draw(net *n, int below) {
  uint32_t out[4];
  clade__philox(n->key, 0, n->draws++, out);
  return (int)(out[0] % (uint32_t)below);
}

static const char *next_name(net *n, char name[32]) {
  snprintf(name, 32, "layer%d", n->layers++);
  return name;
}

static int64_t size_of(const net *n, clade_val x, int axis) {
  clade_type type = {0};
  clade_val_type(n->g, x, &type);
  return type.shape.dim[axis];
}

static clade_val normalized(net *n, clade_val x) {
  char name[32];
  const int kind = draw(n, 3);
  if (kind == 0) return x;
  return clade_nn_batch_norm(n->g, next_name(n, name), x);
}

static clade_val active(net *n, clade_val x) {
  switch (draw(n, 4)) {
  case 0: return clade_sigmoid(n->g, x);
  case 1: return clade_clip(n->g, x, 0, 6);
  default: return clade_relu(n->g, x);
  }
}

static clade_val convolve(net *n, clade_val x, int out, int stride) {
  char name[32];
  const int kernel = draw(n, 2) ? 3 : 1;
  const bool no_bias = draw(n, 2);
  clade_val y = clade_nn_conv2d(n->g, next_name(n, name), x, .out = out, .kernel = {kernel, kernel},
                                .stride = {stride, stride}, .pad = {kernel / 2, kernel / 2}, .no_bias = no_bias);
  return normalized(n, y);
}

/* One or two filters per channel, built as in MobileNetV2. */
static clade_val depthwise(net *n, clade_val x, int channels) {
  char name[32];
  const int times = 1 + draw(n, 2);
  return normalized(n, clade_nn_conv2d(n->g, next_name(n, name), x, .out = times * channels, .kernel = {3, 3},
                                       .pad = {1, 1}, .groups = channels));
}

static clade_val grouped(net *n, clade_val x, int out) {
  char name[32];
  return normalized(
      n, clade_nn_conv2d(n->g, next_name(n, name), x, .out = out, .kernel = {3, 3}, .pad = {1, 1}, .groups = 2));
}

/* Squeeze-and-excitation: channels scaled by their global means. */
static clade_val gated(net *n, clade_val x, int channels) {
  char name[32];
  clade_val h = clade_global_avg_pool2d(n->g, x);
  h = clade_relu(n->g, clade_nn_linear(n->g, next_name(n, name), h, .out = 8));
  h = clade_sigmoid(n->g, clade_nn_linear(n->g, next_name(n, name), h, .out = channels));
  const clade_shape flat = {.rank = 4, .dim = {IMAGES, CLADE_DIM_REST, 1, 1}};
  return clade_mul(n->g, x, clade_reshape(n->g, h, flat));
}

/* A linear layer per pixel, channels last. */
static clade_val by_pixels(net *n, clade_val x, int channels) {
  char name[32];
  clade_val h = clade_transpose(n->g, x, 4, (const int[]){0, 2, 3, 1});
  h = active(n, clade_nn_linear(n->g, next_name(n, name), h, .out = channels));
  return clade_transpose(n->g, h, 4, (const int[]){0, 3, 1, 2});
}

static clade_val up_and_down(net *n, clade_val x, int channels) {
  char name[32];
  clade_val h =
      clade_nn_conv2d_transpose(n->g, next_name(n, name), x, .out = channels, .kernel = {2, 2}, .stride = {2, 2});
  return clade_max_pool2d(n->g, active(n, h), .kernel = {2, 2});
}

static clade_val side_by_side(net *n, clade_val x, int channels) {
  clade_val parts[2] = {active(n, convolve(n, x, channels, 1)), active(n, convolve(n, x, 2 + draw(n, 20), 1))};
  return convolve(n, clade_concat(n->g, 2, parts, 1), channels, 1);
}

static clade_val block(net *n, clade_val x, int in, int out) {
  clade_val h = active(n, convolve(n, x, out, 1));
  switch (draw(n, 7)) {
  case 0: h = convolve(n, active(n, depthwise(n, h, out)), out, 1); break;
  case 1: h = grouped(n, h, out); break;
  case 2: h = gated(n, h, out); break;
  case 3: h = by_pixels(n, h, out); break;
  case 4: h = up_and_down(n, h, out); break;
  case 5: h = side_by_side(n, h, out); break;
  default: h = convolve(n, h, out, 1);
  }
  clade_val past = in == out ? x : convolve(n, x, out, 1);
  return active(n, clade_add(n->g, h, past));
}

static clade_val network(clade_graph *g, int number) {
  net n = {.g = g, .key = (uint64_t)number + 1};
  char name[32];
  int in = 2 * (2 + draw(&n, 20));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(IMAGES, COLORS, SIDE, SIDE));
  clade_val h = active(&n, convolve(&n, x, in, 1));
  for (int blocks = 1 + draw(&n, 3), i = 0; i < blocks; i++) {
    const int out = draw(&n, 2) ? in : 2 * (2 + draw(&n, 20));
    h = block(&n, h, in, out);
    in = out;
    if (draw(&n, 3) == 0 && size_of(&n, h, 2) > 2) h = clade_avg_pool2d(g, h, .kernel = {2, 2});
  }
  h = clade_flatten(g, draw(&n, 2) ? clade_global_avg_pool2d(g, h) : h, 1);
  if (draw(&n, 2)) h = active(&n, clade_nn_linear(g, next_name(&n, name), h, .out = 40));
  h = clade_nn_linear(g, "last", h, .out = CLASSES);
  clade_output(g, "y", h);
  return h;
}

/* ---- execution ---- */
static clade_func *compile(clade_graph *g, clade_device *device) {
  clade_func *func = NULL;
  OK(clade_compile(g, device, &func, .prefer = "conv2d=ref,gemm=ref", .untuned = true, .no_fusion = true));
  return func;
}

static void fill(clade_vars *vars, uint64_t key) {
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info info = {.size = sizeof info};
    int64_t n;
    OK(clade_vars_describe(vars, i, &info));
    OK(clade_shape_elements(&info.type.shape, &n));
    float *data = calloc((size_t)n, sizeof *data);
    const bool variance = strstr(info.name, "running_var") != NULL;
    for (int64_t k = 0; k < n; k++)
      data[k] = (float)(variance ? 0.5 + clade__uniform(key, (uint64_t)i, (uint64_t)k)
                                 : (clade__uniform(key, (uint64_t)i, (uint64_t)k) - 0.5) / sqrt((double)n / 30 + 1));
    OK(clade_vars_set(vars, info.name, data, (size_t)n * sizeof *data));
    free(data);
  }
}

static void compute(clade_func *func, clade_vars *vars, float y[OUTPUTS]) {
  static float x[IMAGES * COLORS * SIDE * SIDE];
  clade_run *run;
  clade_ticket ticket;
  for (size_t i = 0; i < CLADE_COUNT(x); i++) x[i] = (float)clade__uniform(7, 0, i);
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, OUTPUTS * sizeof *y));
  clade_run_free(run);
}

/* Zeros everything that belongs to a removed channel. */
static void mask(const clade_graph *g, const clade__units *u, clade_vars *vars) {
  for (size_t v = 0; v < g->variables.count; v++) {
    const clade_type *type = clade__type(g, g->variables.at[v].value);
    float *data;
    size_t n;
    OK(clade__vars_floats(vars, g->variables.at[v].name, type, &data, &n));
    for (size_t i = 0; i < u->n; i++)
      for (size_t k = 0; u->at[i].removed && k < u->at[i].n; k++) {
        const clade__member *m = &u->at[i].members[k];
        int64_t inner = 1;
        for (int axis = m->axis + 1; axis < type->shape.rank; axis++) inner *= type->shape.dim[axis];
        for (size_t e = 0; m->variable == (int)v && e < n; e++)
          if ((int64_t)e / inner % type->shape.dim[m->axis] == m->at) data[e] = 0;
      }
    OK(clade_vars_set(vars, g->variables.at[v].name, data, n * sizeof *data));
    clade__free(data);
  }
}

static void check_layers(const clade_pruning *pruning, const clade_pruning_info *info) {
  int64_t channels = 0, removed = 0;
  for (int i = 0; i < info->layers; i++) {
    clade_pruning_layer layer = {.size = sizeof layer};
    OK(clade_pruning_get_layer(pruning, i, &layer));
    const int64_t left = layer.channels - layer.removed;
    assert_true(left >= 1);
    if (layer.removed) assert_int_equal(left % clade__width_multiple(layer.channels), 0);
    channels += layer.channels;
    removed += layer.removed;
  }
  assert_true(channels == info->channels && removed == info->removed);
}

/* Largest deviation of the results; *size is their magnitude. */
static double pruned_differs(clade_device *device, int number, double *size, double *part) {
  clade_graph *g = graph_new(), *small = graph_new();
  clade_vars *vars, *masked, *left;
  clade_pruning *pruning;
  clade_pruning_info info = {.size = sizeof info};
  clade__units units;
  float want[OUTPUTS], have[OUTPUTS];
  double worst = 0;
  const double sparsity = 0.2 + 0.1 * (number % 6);
  network(g, number);
  clade_func *func = compile(g, device);
  OK(clade_vars_new(func, 1, &vars));
  fill(vars, (uint64_t)number);
  OK(clade_prune_channels(g, vars, &pruning, .sparsity = sparsity,
                          .rank = number % 2 ? CLADE_PRUNE_BY_L1 : CLADE_PRUNE_BY_L2));
  OK(clade_pruning_get_info(pruning, &info));
  check_layers(pruning, &info);
  OK(clade_pruning_shapes(pruning, small));
  network(small, number);
  OK(clade_pruning_check(pruning, small));
  clade_func *small_func = compile(small, device);
  OK(clade_vars_new(small_func, 1, &left));
  OK(clade_pruning_apply(pruning, vars, left));
  compute(small_func, left, have);
  OK(clade__units_find(g, &units));
  OK(clade__units_rank(g, vars, number % 2 ? CLADE_PRUNE_BY_L1 : CLADE_PRUNE_BY_L2, &units));
  OK(clade__units_choose(&units, sparsity));
  OK(clade_vars_snapshot(vars, &masked));
  mask(g, &units, masked);
  compute(func, masked, want);
  for (int i = 0; i < OUTPUTS; i++) {
    worst = fmax(worst, fabs((double)have[i] - (double)want[i]));
    *size = fmax(*size, fabs((double)want[i]));
  }
  *part = (double)info.removed / (double)info.channels;
  if (fabs(*part - sparsity) > 0.34) fail_msg("network %d: %g of %g removed", number, *part, sparsity);
  clade__units_free(&units);
  clade_pruning_free(pruning);
  clade_vars_release(vars);
  clade_vars_release(masked);
  clade_vars_release(left);
  clade_func_release(func);
  clade_func_release(small_func);
  clade_graph_release(g);
  clade_graph_release(small);
  return worst;
}

static void test_networks(void **state) {
  double removed = 0, worst = 0, least = INFINITY;
  for (int i = 0; i < networks; i++) {
    double size = 0, part = 0;
    const double off = pruned_differs(*state, i, &size, &part);
    if (!(off <= 1e-5 * fmax(1, size))) fail_msg("network %d: off by %g, of %g", i, off, size);
    worst = fmax(worst, off);
    least = fmin(least, size);
    removed += part / networks;
  }
  print_message("%d networks, %.2f of their channels removed: at most %.2g off, of answers of %.2g and more\n",
                networks, removed, worst, least);
  assert_true(least > 1e-3);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
  if (argc > 1) networks = atoi(argv[1]);
  return cmocka_run_group_tests(tests, open_device, close_device);
}

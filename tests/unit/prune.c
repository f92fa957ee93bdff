/* Pruning: selection of channels and weights, shapes of the smaller graph, ops' rules, refusals, and failing
 * allocations. */
#include <math.h>
#include <stdio.h>

#include "memory_kit.h"
#include "prune/prune.h"

enum { COLORS = 3, CLASSES = 4 };

/* ---- a network of two convolutions and a linear layer ---- */
static clade_val small(clade_graph *g, int width) {
  clade_val h = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, COLORS, 4, 4));
  h = clade_nn_conv2d(g, "a", h, .out = width, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true);
  h = clade_relu(g, clade_nn_batch_norm(g, "n", h));
  h = clade_nn_conv2d(g, "b", h, .out = 4, .kernel = {1, 1});
  h = clade_nn_linear(g, "last", clade_flatten(g, h, 1), .out = CLASSES);
  clade_output(g, "y", h);
  return h;
}

typedef struct model {
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
} model;

static model new_model(clade_device *device, int width) {
  model m = {.g = graph_new()};
  small(m.g, width);
  OK(clade_compile(m.g, device, &m.func));
  OK(clade_vars_new(m.func, 1, &m.vars));
  return m;
}

static void free_model(model *m) {
  clade_vars_release(m->vars);
  clade_func_release(m->func);
  clade_graph_release(m->g);
}

static void set(clade_vars *vars, const char *name, const float *values, size_t n) {
  OK(clade_vars_set(vars, name, values, n * sizeof *values));
}

/* The layer that begins with this variable. */
static clade_pruning_layer layer_of(const clade_pruning *p, const char *name) {
  clade_pruning_layer layer = {.size = sizeof layer};
  for (int i = 0; clade_pruning_get_layer(p, i, &layer) == CLADE_OK; i++)
    if (!strcmp(layer.name, name)) return layer;
  fail_msg("no layer %s", name);
  return layer;
}

static void kept_scales(clade_device *device, const model *m, const clade_pruning *p, float *scales) {
  clade_graph *g = graph_new();
  clade_vars *left;
  OK(clade_pruning_shapes(p, g));
  small(g, 8);
  OK(clade_pruning_check(p, g));
  clade_func *func = compiled(g, device);
  OK(clade_vars_new(func, 2, &left));
  OK(clade_pruning_apply(p, m->vars, left));
  OK(clade_vars_get(left, "n.weight", scales, 4 * sizeof *scales));
  clade_vars_release(left);
  clade_func_release(func);
}

/* Here b's channels also have a batch normalization. */
static void by_scales(void **state) {
  static const float scales[8] = {5, -1, 0.1f, 7, 0.2f, -6, 3, 0.3f}, want[4] = {5, 7, -6, 3};
  clade_graph *g = graph_new(), *left = graph_new();
  clade_vars *vars, *some;
  clade_pruning *p;
  float have[4];
  for (int turn = 0; turn < 2; turn++) {
    clade_graph *to = turn ? left : g;
    if (turn) OK(clade_pruning_shapes(p, to));
    clade_val h = clade_input(to, "x", CLADE_F32, CLADE_SHAPE(1, COLORS, 4, 4));
    h = clade_nn_batch_norm(to, "n", clade_nn_conv2d(to, "a", h, .out = 8, .kernel = {1, 1}));
    clade_output(to, "y", clade_nn_conv2d(to, "b", h, .out = 2, .kernel = {1, 1}));
    clade_func *func = NULL;
    OK(clade_compile(to, *state, &func));
    OK(clade_vars_new(func, 1, turn ? &some : &vars));
    clade_func_release(func);
    if (turn) break;
    set(vars, "n.weight", scales, 8);
    OK(clade_prune_channels(g, vars, &p, .sparsity = 0.5, .rank = CLADE_PRUNE_BY_BATCH_NORM));
  }
  OK(clade_pruning_apply(p, vars, some));
  OK(clade_vars_get(some, "n.weight", have, sizeof have));
  for (int i = 0; i < 4; i++) assert_true(have[i] == want[i]);
  clade_pruning_free(p);
  clade_vars_release(vars);
  clade_vars_release(some);
  clade_graph_release(g);
  clade_graph_release(left);
}

/* By weight magnitude: the scales identify the remaining channels. */
static void by_magnitude(void **state) {
  static float a[8][COLORS * 9];
  static const float scales[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  model m = new_model(*state, 8);
  clade_pruning *p;
  float have[4];
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < COLORS * 9; k++) a[i][k] = i % 2 ? 10 : 0.001f;
  set(m.vars, "a.weight", a[0], 8 * COLORS * 9);
  set(m.vars, "n.weight", scales, 8);
  OK(clade_prune_channels(m.g, m.vars, &p, .sparsity = 0.34));
  assert_int_equal(layer_of(p, "a.weight").removed, 4);
  assert_int_equal(layer_of(p, "b.weight").removed, 0);
  kept_scales(*state, &m, p, have);
  for (int i = 0; i < 4; i++) assert_true(have[i] == (float)(2 * i + 1));
  clade_pruning_free(p);
  free_model(&m);
}

static void channels_refused(void **state) {
  model m = new_model(*state, 8);
  clade_pruning *p = NULL;
  clade_graph *g = graph_new();
  float bad = NAN;
  refused(clade_prune_channels(m.g, m.vars, &p, .sparsity = 1), CLADE_INVALID, ".sparsity is 1");
  refused(clade_prune_channels(m.g, m.vars, &p, .sparsity = (double)bad), CLADE_INVALID, ".sparsity is ");
  refused(clade_prune_channels(m.g, m.vars, &p, .sparsity = 0.5, .rank = (clade_prune_rank)9), CLADE_INVALID,
          ".rank is 9");
  refused(clade_prune_channels(m.g, m.vars, &p, .sparsity = 0.5, .rank = CLADE_PRUNE_BY_BATCH_NORM), CLADE_INVALID,
          "no batch normalization scales the channels of b.weight");
  clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 3));
  refused(clade_prune_channels(g, m.vars, &p, .sparsity = 0.5), CLADE_BAD_SHAPE, "has sizes for all dimensions");
  clade_graph_release(g);
  g = graph_new();
  clade_graph_train(g, true);
  refused(clade_prune_channels(g, m.vars, &p, .sparsity = 0.5), CLADE_INVALID, "one for training");
  clade_graph_release(g);
  g = graph_new();
  clade_output(g, "y", clade_nn_linear(g, "last", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 3)), .out = 8));
  refused(clade_prune_channels(g, m.vars, &p, .sparsity = 0.5), CLADE_INVALID, "no channels that can go");
  clade_graph_release(g);
  set(m.vars, "b.bias", (const float[]){bad, 0, 0, 0}, 4); /* biases do not affect the ranking */
  OK(clade_prune_channels(m.g, m.vars, &p, .sparsity = 0.5));
  clade_pruning_free(p);
  float b[4 * 8] = {0, bad};
  set(m.vars, "b.weight", b, 32);
  refused(clade_prune_channels(m.g, m.vars, &p, .sparsity = 0.5), CLADE_INVALID, "element 1 of b.weight is");
  assert_null(p);
  free_model(&m);
}

/* A builder whose width contradicts the pruned one, and one of another model. */
static void checked(void **state) {
  model m = new_model(*state, 8);
  clade_pruning *p;
  OK(clade_prune_channels(m.g, m.vars, &p, .sparsity = 0.5));
  for (int kind = 0; kind < 3; kind++) {
    clade_graph *g = graph_new();
    OK(clade_pruning_shapes(p, g));
    clade_val y = kind < 2 ? small(g, 8) : clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 2, 4, 4));
    if (kind == 1) clade_relu(g, y);
    if (kind == 0)
      OK(clade_pruning_check(p, g));
    else
      refused(clade_pruning_check(p, g), CLADE_BAD_SHAPE, kind == 1 ? "nodes; expected" : "input \"x\" [1, 2, 4, 4]");
    clade_graph_release(g);
  }
  clade_graph *g = graph_new();
  OK(clade_pruning_shapes(p, g));
  small(g, 2); /* narrower than the pruned width */
  refused(clade_pruning_check(p, g), CLADE_BAD_SHAPE, "none of them longer");
  clade_graph_release(g);
  refused(clade_pruning_apply(p, m.vars, m.vars), CLADE_BAD_SHAPE, "pruned it is");
  clade_pruning_free(p);
  free_model(&m);
}

/* ---- prescribed shapes ---- */
static void shapes(void **state) {
  (void)state;
  clade_graph *g = graph_new();
  clade_type type;
  clade_graph_shape(g, "a.weight", CLADE_SHAPE(5, 2, 3, 3));
  clade_graph_shape(g, "a.weight", CLADE_SHAPE(4, 1, 3, 3)); /* the last call counts */
  clade_graph_shape(g, "a.bias", CLADE_SHAPE(4));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 4, 5, 5));
  clade_val y = clade_nn_conv2d(g, "a", x, .out = 6, .kernel = {3, 3}, .groups = 6);
  OK(clade_val_type(g, y, &type));
  assert_int_equal(type.shape.dim[1], 4);
  clade_graph_shape(g, "l.weight", CLADE_SHAPE(2, 3));
  clade_graph_shape(g, "l.bias", CLADE_SHAPE(2));
  y = clade_nn_linear(g, "l", y, .out = 7);
  OK(clade_val_type(g, y, &type));
  assert_int_equal(type.shape.dim[3], 2);
  OK(clade_graph_status(g));
  clade_graph_release(g);
  static const struct {
    clade_shape shape;
    const char *words;
  } bad[] = {
      {{.rank = 1, .dim = {4}}, "variable \"w\": the graph was told the shape [4], and the model makes it [4, 4]"},
      {{.rank = 2, .dim = {4, 5}}, "none of them longer"},
      {{.rank = 2, .dim = {4, -1}}, "clade_graph_shape: variable \"w\": dimension 1"}};
  for (size_t i = 0; i < CLADE_COUNT(bad); i++) {
    g = graph_new();
    clade_graph_shape(g, "w", bad[i].shape);
    clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(4, 4), (clade_initial){0});
    refused(clade_graph_status(g), CLADE_BAD_SHAPE, bad[i].words);
    clade_graph_release(g);
  }
  g = graph_new();
  clade_graph_shape(g, "no name", CLADE_SHAPE(1));
  refused(clade_graph_status(g), CLADE_INVALID, "clade_graph_shape");
  clade_graph_release(g);
}

/* ---- rules of ops ---- */
static void too_far(clade_ties *t, const clade_node *n) {
  (void)n;
  clade_tie(t, 0, 1, 6, 1, 1, 6, 3);
}
static void same(clade_ties *t, const clade_node *n) {
  for (int i = 0; i < n->in[0].shape.rank; i++) clade_tie_axes(t, 0, i, 1, i);
}

/* Number of prunable channels of `a`, with this rule for kit.affine. */
static int64_t prunable(clade_device *device, void (*rule)(clade_ties *, const clade_node *), clade_status *status) {
  static clade_op op;
  clade_graph *g = graph_new();
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_pruning *p = NULL;
  clade_pruning_info info = {.size = sizeof info};
  op = kit_affine;
  op.ties = rule;
  clade_val h = clade_nn_linear(g, "a", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 3)), .out = 8);
  h = clade_node_add(g, &op, NULL, &(kit_attrs){2, 1}, 1, &h, NULL);
  clade_output(g, "y", clade_nn_linear(g, "b", h, .out = 2));
  OK(clade_compile(g, device, &func));
  OK(clade_vars_new(func, 1, &vars));
  *status = clade_prune_channels(g, vars, &p, .sparsity = 0.5);
  if (*status == CLADE_OK) OK(clade_pruning_get_info(p, &info));
  clade_pruning_free(p);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return info.channels;
}

static void rules(void **state) {
  clade_status status;
  assert_int_equal(prunable(*state, same, &status), 8);
  prunable(*state, NULL, &status);
  refused(status, CLADE_INVALID, "no channels that can go");
  prunable(*state, too_far, &status);
  refused(status, CLADE_INVALID, "kit.affine: its rule for pruning ties 3 places from 6 on of axis 1");
}

/* ---- weights ---- */
static void weights(void **state) {
  static const float from[24] = {5, -4, 3, -2, 1, 1, 1, 1, -9, 8, 7, 6, 0, 0, 5, 4, 1, 2, 3, 4, 4, 3, 2, 1};
  static const bool smallest[24] = {0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1};
  static const bool pairs[24] = {0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1};
  for (int kind = 0; kind < 2; kind++) {
    clade_graph *g = graph_new();
    clade_vars *vars;
    clade_pruned_weights told = {.size = sizeof told};
    float have[24];
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 8));
    clade_val w = clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(3, 8), (clade_initial){0});
    clade_val odd = clade_parameter(g, "odd", CLADE_F32, CLADE_SHAPE(3, 3), (clade_initial){CLADE_INIT_FILL, 1, 0});
    clade_val moment =
        clade_variable(g, "optimizer.mean:w", CLADE_F32, CLADE_SHAPE(3, 8), (clade_initial){CLADE_INIT_FILL, 2, 0});
    clade_output(g, "y", clade_gemm(g, clade_gemm(g, x, w, .trans_b = true), odd));
    clade_output(g, "m", moment);
    clade_func *func = compiled(g, *state);
    OK(clade_vars_new(func, 1, &vars));
    set(vars, "w", from, 24);
    OK(clade_prune_weights(vars, kind ? CLADE_PRUNE_2_4 : CLADE_PRUNE_WEIGHTS, 0.46, &told));
    assert_int_equal(told.parameters, kind ? 1 : 2);
    assert_int_equal(told.left_out, kind ? 1 : 0);
    assert_int_equal(told.zeros, kind ? 12 : 11 + 4);
    OK(clade_vars_get(vars, "w", have, sizeof have));
    for (int i = 0; i < 24; i++)
      if (have[i] != ((kind ? pairs : smallest)[i] ? 0 : from[i]))
        fail_msg("kind %d: element %d is %g", kind, i, (double)have[i]);
    OK(clade_vars_get(vars, "optimizer.mean:w", have, sizeof have));
    for (int i = 0; i < 24; i++) assert_true(have[i] == ((kind ? pairs : smallest)[i] ? 0 : 2));
    refused(clade_prune_weights(vars, CLADE_PRUNE_CHANNELS, 0.5, NULL), CLADE_INVALID,
            "\"channels\"; expected weights or 2:4");
    refused(clade_prune_weights(vars, CLADE_PRUNE_WEIGHTS, 1, NULL), CLADE_INVALID, "sparsity is 1");
    have[7] = INFINITY;
    set(vars, "w", have, 24);
    refused(clade_prune_weights(vars, CLADE_PRUNE_2_4, 0, NULL), CLADE_INVALID, "element 7 of w is inf");
    clade_vars_release(vars);
    clade_func_release(func);
  }
}

static void none_fits(void **state) {
  clade_graph *g = graph_new();
  clade_vars *vars;
  clade_output(g, "y", clade_nn_linear(g, "l", clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 6)), .out = 4));
  clade_func *func = compiled(g, *state);
  OK(clade_vars_new(func, 1, &vars));
  refused(clade_prune_weights(vars, CLADE_PRUNE_2_4, 0, NULL), CLADE_BAD_SHAPE, "dimension 1 of l.weight, [4, 6]");
  clade_vars_release(vars);
  clade_func_release(func);
}

/* ---- memory ---- */
static clade_status whole(const void *argument, clade_device *device) {
  const model *m = argument;
  (void)device;
  clade_pruning *p = NULL;
  clade_graph *g = NULL;
  clade_status status;
  CLADE_GOTO(clade_prune_channels(m->g, m->vars, &p, .sparsity = 0.5));
  CLADE_GOTO(clade_graph_new(&g));
  CLADE_GOTO(clade_pruning_shapes(p, g));
  small(g, 8);
  CLADE_GOTO(clade_pruning_check(p, g));
  CLADE_GOTO(clade_prune_weights(m->vars, CLADE_PRUNE_WEIGHTS, 0.5, NULL));
fail:
  clade_graph_release(g);
  clade_pruning_free(p);
  return status;
}

static void no_memory(void **state) {
  model m = new_model(*state, 8);
  OK(whole(&m, NULL));
  assert_true(fail_allocations(whole, &m, NULL, 1) > 40);
  free_model(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(by_scales), cmocka_unit_test(by_magnitude), cmocka_unit_test(channels_refused),
      cmocka_unit_test(checked),   cmocka_unit_test(shapes),       cmocka_unit_test(rules),
      cmocka_unit_test(weights),   cmocka_unit_test(none_fits),    cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests(tests, open_failing, close_device);
}

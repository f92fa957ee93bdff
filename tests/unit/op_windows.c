/* Convolution and pooling: shapes of symbols, and errors that name argument, value and expectation, for builders'
 * options and nodes' attributes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <clade/nn.h>

#include "op/conv/conv.h"
#include "op/elt/epilogue.h"
#include "op/pool/pool.h"
#include "op/move/unfold.h"

static clade_graph *fresh(void) {
  clade_graph *g = NULL;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  return g;
}

static clade_val input(clade_graph *g, const char *name, clade_shape s) { return clade_input(g, name, CLADE_F32, s); }

static void expect(clade_graph *g, clade_val v, clade_shape want) {
  clade_type type;
  char a[256], b[256];
  if (clade_val_type(g, v, &type) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_string_equal(clade_shape_text(&type.shape, a, sizeof a), clade_shape_text(&want, b, sizeof b));
}

static void shapes(void **state) {
  (void)state;
  clade_graph *g = fresh();
  clade_dim batch = CLADE_DIM("batch");
  clade_val x = input(g, "x", CLADE_SHAPE(batch, 6, 14, 28)), w = input(g, "w", CLADE_SHAPE(16, 6, 5, 3));
  expect(g, clade_conv2d(g, x, w), CLADE_SHAPE(batch, 16, 10, 26));
  expect(g, clade_conv2d(g, x, w, .pad = {2, 1}), CLADE_SHAPE(batch, 16, 14, 28));
  expect(g, clade_conv2d(g, x, w, .stride = {2, 3}, .pads = {0, 1, 3, 2}), CLADE_SHAPE(batch, 16, 7, 10));
  expect(g, clade_conv2d(g, x, w, .dilation = {3, 4}), CLADE_SHAPE(batch, 16, 2, 20));
  expect(g, clade_conv2d(g, x, input(g, "v", CLADE_SHAPE(4, 3, 1, 1)), .groups = 2), CLADE_SHAPE(batch, 4, 14, 28));
  expect(g, clade_max_pool2d(g, x, .kernel = {2, 3}), CLADE_SHAPE(batch, 6, 7, 9));
  expect(g, clade_max_pool2d(g, x, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}), CLADE_SHAPE(batch, 6, 7, 14));
  expect(g, clade_avg_pool2d(g, x, .kernel = {3, 3}, .stride = {1, 0}, .pads = {0, 0, 2, 1}, .dilation = {2, 1}),
         CLADE_SHAPE(batch, 6, 12, 9));
  expect(g, clade_global_avg_pool2d(g, x), CLADE_SHAPE(batch, 6));
  expect(g, clade_nn_conv2d(g, "c1", x, .out = 8, .kernel = {5, 5}, .pad = {2, 2}), CLADE_SHAPE(batch, 8, 14, 28));
  expect(g, clade_nn_conv2d(g, "c2", x, .out = 9, .kernel = {3, 3}, .groups = 3, .stride = {2, 2}, .no_bias = true),
         CLADE_SHAPE(batch, 9, 6, 13));
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  assert_int_equal(g->variables.count, 3); /* one layer has no bias */
  const clade_shape weight = {4, {9, 2, 3, 3}};
  assert_string_equal(g->variables.at[2].name, "c2.weight");
  assert_true(clade_shape_equal(&clade__type(g, g->variables.at[2].value)->shape, &weight));
  clade_graph_release(g);
}

/* Images of symbolic size, forward and backward; sizes that do not fit are detected by specialization. */
static void symbols(void **state) {
  (void)state;
  clade_graph *g = fresh(), *bound = NULL;
  clade_val x = input(g, "x", CLADE_SHAPE(CLADE_DIM("batch"), 2, CLADE_DIM("h"), CLADE_DIM("w")));
  clade_val w = input(g, "w", CLADE_SHAPE(4, 2, 3, 5)), dx, y = clade_conv2d(g, x, w, .stride = {2, 1}, .pad = {0, 2});
  assert_int_equal(clade_gradients(g, y, (clade_val){0, 0}, 1, &x, &dx), CLADE_OK);
  clade_output(g, "y", y);
  clade_output(g, "dx", dx);
  clade_dim_value fit[] = {{"batch", 3}, {"h", 8}, {"w", 9}}, misfit[] = {{"batch", 3}, {"h", 2}, {"w", 9}};
  assert_int_equal(clade__graph_bind(g, 3, fit, &bound), CLADE_OK);
  const clade_shape want = {4, {3, 4, 3, 9}};
  assert_true(clade_shape_equal(&clade__type(bound, bound->outputs.at[0].value)->shape, &want));
  clade_graph_release(bound);
  assert_int_equal(clade__graph_bind(g, 3, misfit, &bound), CLADE_BAD_SHAPE);
  clade_graph_release(g);
}

typedef clade_val attempt_fn(clade_graph *g, clade_val x, clade_val w);
#define ATTEMPT(name, expression)                                   \
  static clade_val name(clade_graph *g, clade_val x, clade_val w) { \
    (void)x, (void)w;                                               \
    return expression;                                              \
  }
ATTEMPT(x_rank, clade_conv2d(g, clade_flatten(g, x, 1), w))
ATTEMPT(w_rank, clade_conv2d(g, x, clade_flatten(g, w, 1)))
ATTEMPT(w_kernel, clade_conv2d(g, x, input(g, "v", CLADE_SHAPE(4, 4, 0, 3))))
ATTEMPT(w_symbol, clade_conv2d(g, x, input(g, "v", CLADE_SHAPE(4, 4, 3, CLADE_DIM("k")))))
ATTEMPT(types, clade_conv2d(g, x, clade_cast(g, w, CLADE_F16)))
ATTEMPT(integers, clade_conv2d(g, clade_cast(g, x, CLADE_I32), clade_cast(g, w, CLADE_I32)))
ATTEMPT(groups, clade_conv2d(g, x, w, .groups = 4))
ATTEMPT(groups_negative, clade_conv2d(g, x, w, .groups = -1))
ATTEMPT(channels, clade_conv2d(g, x, w, .groups = 2))
ATTEMPT(stride, clade_conv2d(g, x, w, .stride = {1, -2}))
ATTEMPT(dilation, clade_conv2d(g, x, w, .dilation = {-1, 1}))
ATTEMPT(pad, clade_conv2d(g, x, w, .pad = {-1, 0}))
ATTEMPT(pads, clade_conv2d(g, x, w, .pads = {0, 0, 0, -3}))
ATTEMPT(both, clade_conv2d(g, x, w, .pad = {1, 1}, .pads = {0, 0, 0, 1}))
ATTEMPT(large, clade_conv2d(g, x, w, .dilation = {1, 4}))
ATTEMPT(far, clade_conv2d(g, x, w, .pad = {1 << 28, 0}))
ATTEMPT(nothing, clade_conv2d(g, input(g, "u", CLADE_SHAPE(1, 4, 0, 8)), w, .pad = {4, 4}))
ATTEMPT(bias, clade_conv2d(g, x, w, .bias = input(g, "b", CLADE_SHAPE(4))))
ATTEMPT(pool_kernel, clade_max_pool2d(g, x, .kernel = {2, 0}))
ATTEMPT(pool_rank, clade_avg_pool2d(g, clade_flatten(g, x, 2), .kernel = {2, 2}))
ATTEMPT(pool_integers, clade_max_pool2d(g, clade_cast(g, x, CLADE_I32), .kernel = {2, 2}))
ATTEMPT(pool_large, clade_avg_pool2d(g, x, .kernel = {2, 9}))
ATTEMPT(global_rank, clade_global_avg_pool2d(g, clade_flatten(g, x, 1)))
ATTEMPT(layer_out, clade_nn_conv2d(g, "c", x, .kernel = {3, 3}))
ATTEMPT(layer_kernel, clade_nn_conv2d(g, "c", x, .out = 4, .kernel = {3}))
ATTEMPT(layer_groups, clade_nn_conv2d(g, "c", x, .out = 6, .kernel = {3, 3}, .groups = 3))
ATTEMPT(layer_channels, clade_nn_conv2d(g, "c", input(g, "u", CLADE_SHAPE(1, CLADE_DIM("c"), 4, 4)), .out = 1))
ATTEMPT(layer_name, clade_nn_conv2d(g, "", x, .out = 1, .kernel = {1, 1}))
ATTEMPT(missing, clade_conv2d(g, x, (clade_val){0, 0}))

static const struct {
  attempt_fn *attempt;
  clade_status status;
  const char *words;
} refusals[] = {
    {x_rank, CLADE_BAD_SHAPE, "conv2d: x is [2, 224]; expected [n, channels, height, width]"},
    {w_rank, CLADE_BAD_SHAPE, "conv2d: w is [6, 36]; expected [out, in / groups, height, width]"},
    {w_kernel, CLADE_BAD_SHAPE, "w is [4, 4, 0, 3]; expected"},
    {w_symbol, CLADE_BAD_SHAPE, "w is [4, 4, 3, k]; expected"},
    {types, CLADE_DTYPE, "x is f32 and w is f16"},
    {integers, CLADE_DTYPE, "x is i32; expected f32, f16 or bf16"},
    {groups, CLADE_BAD_SHAPE, "its 6 output channels are not divisible by .groups, which is 4"},
    {groups_negative, CLADE_INVALID, ".groups is -1; expected at least 1"},
    {channels, CLADE_BAD_SHAPE,
     "x is [2, 4, 7, 8] and w [6, 4, 3, 3]: with .groups 2, x has 2 times the channels of w"},
    {stride, CLADE_INVALID, ".stride[1] is -2; expected 1 to 268435456"},
    {dilation, CLADE_INVALID, ".dilation[0] is -1; expected 1 to"},
    {pad, CLADE_INVALID, ".pad[0] is -1; expected 0 to"},
    {pads, CLADE_INVALID, ".pads[3] is -3; expected 0 to"},
    {both, CLADE_INVALID, ".pad and .pads are both set"},
    {large, CLADE_BAD_SHAPE, "the kernel covers 9 along the width (3 with dilation 4), but x has 8 and a padding of 0"},
    {far, CLADE_OVERFLOW, "the height of x is 7 and its padding 536870912; together at most 268435456"},
    {nothing, CLADE_BAD_SHAPE, "the height of x is 0; expected at least 1"},
    {bias, CLADE_BAD_SHAPE, ".bias is [4]; expected [6], a value for each channel of the result"},
    {pool_kernel, CLADE_INVALID, "max_pool2d: .kernel[1] is 0; expected 1 to"},
    {pool_rank, CLADE_BAD_SHAPE, "avg_pool2d: x is [8, 56]; expected [n, channels, height, width]"},
    {pool_integers, CLADE_DTYPE, "max_pool2d: x is i32"},
    {pool_large, CLADE_BAD_SHAPE, "avg_pool2d: the kernel covers 9 along the width"},
    {global_rank, CLADE_BAD_SHAPE, "global_avg_pool2d: x is [2, 224]"},
    {layer_out, CLADE_INVALID, "nn_conv2d \"c\": .out is 0; expected at least 1"},
    {layer_kernel, CLADE_INVALID, "nn_conv2d \"c\": .kernel[1] is 0; expected at least 1"},
    {layer_groups, CLADE_BAD_SHAPE, "its channels are not divisible by .groups, which is 3"},
    {layer_channels, CLADE_BAD_SHAPE, "x is [1, c, 4, 4]; expected"},
    {layer_name, CLADE_INVALID, "name"},
    {missing, CLADE_INVALID, "conv2d: w"},
};

static void refuses(void **state) {
  (void)state;
  for (size_t k = 0; k < CLADE_COUNT(refusals); k++) {
    clade_graph *g = fresh();
    clade_val x = input(g, "x", CLADE_SHAPE(2, 4, 7, 8)), w = input(g, "w", CLADE_SHAPE(6, 4, 3, 3));
    assert_false(clade_val_ok(refusals[k].attempt(g, x, w)));
    if (clade_graph_status(g) != refusals[k].status || !strstr(clade_graph_message(g), refusals[k].words))
      fail_msg("\"%s\" does not say \"%s\"", clade_graph_message(g), refusals[k].words);
    clade_graph_release(g);
  }
}

enum { STRIDE, DILATION, KERNEL, FIELDS };
typedef struct windowed {
  const clade_op *op;
  clade_shape in[2], shape; /* `shape`: an attribute */
} windowed;

/* A node with `value` in one field of its window; values of at least 1 are accepted. */
static void node_with(const windowed *o, int field, int axis, int value) {
  clade__window window = {{3, 3}, {1, 1}, {0}, {1, 1}};
  int32_t *const fields[FIELDS] = {window.stride, window.dilation, window.kernel};
  if (value < 1) fields[field][axis] = value;
  const clade__conv_attrs conv = {.window = window, .groups = 1, .shape = o->shape};
  const clade__pool_attrs pool = {.window = window, .shape = o->shape};
  const bool pools = o->op->attrs == clade__pool_table;
  const bool compared = field == KERNEL && !pools; /* compared with the weights first */
  clade_status want = value >= 1 ? CLADE_OK : compared ? CLADE_BAD_SHAPE : CLADE_INVALID;
  char words[200] = "expected a kernel of";
  clade_graph *g = fresh();
  const clade_val in[] = {input(g, "a", o->in[0]), input(g, "b", o->in[1])};
  clade_node_add(g, o->op, NULL, pools ? (const void *)&pool : &conv, o->op->min_in, in, NULL);
  if (!compared)
    snprintf(words, sizeof words, "%s: along the %s the kernel is %d, the stride %d, the dilation %d", o->op->name,
             axis ? "width" : "height", window.kernel[axis], window.stride[axis], window.dilation[axis]);
  if (clade_graph_status(g) != want || (want != CLADE_OK && !strstr(clade_graph_message(g), words)))
    fail_msg("\"%s\" does not say \"%s\"", clade_graph_message(g), words);
  clade_graph_release(g);
}

/* In builders' options, a stride or dilation of 0 means unset. In attributes it is invalid like negative ones, and
 * refused before any division. */
static void attributes(void **state) {
  (void)state;
  const clade_shape x = CLADE_SHAPE(2, 4, 7, 8), w = CLADE_SHAPE(4, 4, 3, 3), y = CLADE_SHAPE(2, 4, 5, 6), none = {0};
  const windowed ops[] = {{&clade__op_conv2d, {x, w}, none},          {&clade__op_conv2d_data, {y, w}, x},
                          {&clade__op_conv2d_weights, {x, y}, w},     {&clade__op_max_pool2d, {x, none}, none},
                          {&clade__op_max_pool2d_grad, {x, y}, none}, {&clade__op_avg_pool2d, {x, none}, none},
                          {&clade__op_avg_pool2d_grad, {y, none}, x}};
  for (size_t k = 0; k < CLADE_COUNT(ops); k++)
    for (int field = STRIDE; field < FIELDS; field++)
      for (int axis = 0; axis < 2; axis++)
        for (int value = 1; value >= -1; value--) node_with(&ops[k], field, axis, value);
}

/* conv3d's windows along the depth. */
static void depth_attributes(void **state) {
  (void)state;
  const clade__unfold_attrs good = {.size = 7, .kernel = 3, .stride = 1, .dilation = 1};
  for (int fold = 0; fold < 2; fold++)
    for (int wrong = 1; wrong > -2; wrong--)
      for (int field = 0; field < 3; field++) {
        clade__unfold_attrs a = good;
        int32_t *const fields[] = {&a.stride, &a.dilation, &a.kernel};
        if (wrong < 1) *fields[field] = wrong;
        clade_graph *g = fresh();
        if (fold)
          clade__fold(g, input(g, "y", CLADE_SHAPE(2, 5, 4, 3, 6)), &a);
        else
          clade__unfold(g, input(g, "x", CLADE_SHAPE(2, 4, 7, 6)), &a);
        char words[200];
        snprintf(words, sizeof words, "%s: a kernel of %d with stride %d and dilation %d does not fit",
                 fold ? "fold" : "unfold", a.kernel, a.stride, a.dilation);
        if (clade_graph_status(g) != (wrong == 1 ? CLADE_OK : CLADE_INVALID) ||
            (wrong < 1 && !strstr(clade_graph_message(g), words)))
          fail_msg("\"%s\" does not say \"%s\"", clade_graph_message(g), words);
        clade_graph_release(g);
      }
}

/* Implementations that treat height and width as one axis support operands that are broadcast along both or neither. */
static void epilogue_operands(void **state) {
  (void)state;
  const clade__host *host = clade__host_of(&clade__op_conv2d);
  const clade_shape y = CLADE_SHAPE(2, 3, 4, 5), line = CLADE_SHAPE(2, 3, 1, 5);
  const clade_shape taken[] = {y, CLADE_SHAPE(3, 1, 1), CLADE_SHAPE(4, 5), CLADE_SCALAR, CLADE_SHAPE(2, 1, 1, 1)};
  const clade_shape refused[] = {CLADE_SHAPE(5), CLADE_SHAPE(3, 4, 1), CLADE_SHAPE(1, 2, 3, 4, 5), CLADE_SHAPE(2, 5)};
  for (size_t i = 0; i < CLADE_COUNT(taken); i++) assert_null(clade__host_refuses(host, &taken[i], &y));
  for (size_t i = 0; i < CLADE_COUNT(refused); i++) assert_non_null(clade__host_refuses(host, &refused[i], &y));
  assert_null(clade__host_refuses(clade__host_of(&clade__op_gemm), &line, &y));
  assert_null(clade__host_of(&clade__op_reshape));
  const clade_shape column = CLADE_SHAPE(2, 3, 4, 1); /* an axis of 1 counts as either */
  assert_null(clade__host_refuses(host, &column, &column));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),     cmocka_unit_test(symbols),          cmocka_unit_test(refuses),
      cmocka_unit_test(attributes), cmocka_unit_test(depth_attributes), cmocka_unit_test(epilogue_operands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

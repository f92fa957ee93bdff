/* Shape inference: results for symbols, and errors that name argument, value and expectation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include <clade/ops.h>

#include "op/dims.h"
#include "pass/pass.h"

static clade_graph *fresh(void) {
  clade_graph *g = NULL;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  return g;
}

static clade_val input(clade_graph *g, const char *name, clade_dtype t, clade_shape s) {
  return clade_input(g, name, t, s);
}

static void expect(clade_graph *g, clade_val v, clade_shape want) {
  clade_type type;
  char a[256], b[256];
  if (clade_val_type(g, v, &type) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_string_equal(clade_shape_text(&type.shape, a, sizeof a), clade_shape_text(&want, b, sizeof b));
}

static void refused(clade_graph *g, clade_val v, clade_status status, const char *words) {
  assert_false(clade_val_ok(v));
  assert_int_equal(clade_graph_status(g), status);
  if (!strstr(clade_graph_message(g), words)) fail_msg("\"%s\" does not say \"%s\"", clade_graph_message(g), words);
  clade_graph_release(g);
}

static void symbols(void **state) {
  (void)state;
  clade_graph *g = fresh();
  clade_dim batch = CLADE_DIM("batch"), steps = CLADE_DIM("steps");
  clade_val x = input(g, "x", CLADE_F32, CLADE_SHAPE(batch, steps, 12));
  expect(g, clade_sum(g, x, .n_axes = 1, .axes = {-1}), CLADE_SHAPE(batch, steps));
  expect(g, clade_mean(g, x, .n_axes = 2, .axes = {0, 2}, .keep = true), CLADE_SHAPE(1, steps, 1));
  expect(g, clade_reduce_max(g, x), CLADE_SCALAR);
  expect(g, clade_arg_max(g, x, 1), CLADE_SHAPE(batch, 12));
  expect(g, clade_softmax(g, x, -1), CLADE_SHAPE(batch, steps, 12));
  expect(g, clade_transpose(g, x, 3, (int[]){2, 0, 1}), CLADE_SHAPE(12, batch, steps));
  expect(g, clade_flatten(g, x, 1), CLADE_SHAPE(batch, clade_dim_mul(steps, 12)));
  expect(g, clade_reshape(g, x, CLADE_SHAPE(CLADE_DIM_REST, 3)),
         CLADE_SHAPE(clade_dim_mul(clade_dim_mul(4, batch), steps), 3));
  clade_val rows = clade_flatten(g, x, 2);
  expect(g, clade_reshape(g, rows, CLADE_SHAPE(steps, batch, 12)), CLADE_SHAPE(steps, batch, 12));
  expect(g, clade_reshape(g, rows, CLADE_SHAPE(batch, CLADE_DIM_REST, 12)), CLADE_SHAPE(batch, steps, 12));
  expect(g, clade_broadcast(g, clade_sum(g, x, .n_axes = 1, .axes = {1}, .keep = true), CLADE_SHAPE(batch, steps, 12)),
         CLADE_SHAPE(batch, steps, 12));
  clade_val w = input(g, "w", CLADE_F32, CLADE_SHAPE(5, 12));
  expect(g, clade_gemm(g, x, w, .trans_b = true), CLADE_SHAPE(batch, steps, 5));
  expect(g, clade_nn_linear(g, "fc", x, .out = 7), CLADE_SHAPE(batch, steps, 7));
  expect(g, clade_nn_linear(g, "head", clade_flatten(g, x, 2), .out = 7), CLADE_SHAPE(clade_dim_mul(batch, steps), 7));
  clade_val packed = clade_pack(g, x, (clade_layout){.axis = 2, .block = 8, .interleave = 2});
  expect(g, clade_unpack(g, packed), CLADE_SHAPE(batch, steps, 12));
  clade_graph_release(g);
}

static void linear_variables(void **state) {
  (void)state;
  clade_graph *g = fresh();
  clade_val x = input(g, "x", CLADE_F16, CLADE_SHAPE(3, 4));
  expect(g, clade_nn_linear(g, "fc", x, .out = 2), CLADE_SHAPE(3, 2));
  assert_int_equal(g->variables.count, 2);
  assert_string_equal(g->variables.at[0].name, "fc.weight");
  assert_string_equal(g->variables.at[1].name, "fc.bias");
  const clade_type *weight = clade__type(g, g->variables.at[0].value);
  assert_int_equal(weight->dtype, CLADE_F32);
  clade_shape want = CLADE_SHAPE(2, 4);
  assert_true(clade_shape_equal(&weight->shape, &want));
  assert_true(g->variables.at[0].initial.b > 0.49 && g->variables.at[0].initial.b < 0.51);
  clade_graph_release(g);
}

/* One error per row: a graph with x f32[2, 3, 4], i i32[2, 3], c i64[] is built for each. */
typedef clade_val attempt_fn(clade_graph *g, clade_val x, clade_val i, clade_val c);
#define ATTEMPT(name, expression)                                                \
  static clade_val name(clade_graph *g, clade_val x, clade_val i, clade_val c) { \
    (void)g, (void)x, (void)i, (void)c;                                          \
    return expression;                                                           \
  }
ATTEMPT(axis_far, clade_sum(g, x, .n_axes = 2, .axes = {0, 3}))
ATTEMPT(axis_twice, clade_sum(g, x, .n_axes = 2, .axes = {1, -2}))
ATTEMPT(axes_many, clade_sum(g, x, .n_axes = 9))
ATTEMPT(mean_of_integers, clade_mean(g, i))
ATTEMPT(softmax_axis, clade_softmax(g, x, -4))
ATTEMPT(softmax_integers, clade_softmax(g, i, 0))
ATTEMPT(arg_max_scalar, clade_arg_max(g, c, 0))
ATTEMPT(reshape_count, clade_reshape(g, x, CLADE_SHAPE(5, 5)))
ATTEMPT(reshape_rest, clade_reshape(g, x, CLADE_SHAPE(5, CLADE_DIM_REST)))
ATTEMPT(reshape_two_rests, clade_reshape(g, x, CLADE_SHAPE(CLADE_DIM_REST, CLADE_DIM_REST)))
ATTEMPT(reshape_negative, clade_reshape(g, x, CLADE_SHAPE(-2, -12)))
ATTEMPT(flatten_axis, clade_flatten(g, x, 4))
ATTEMPT(permutation_twice, clade_transpose(g, x, 3, (int[]){0, 2, 2}))
ATTEMPT(permutation_far, clade_transpose(g, x, 3, (int[]){0, 1, 3}))
ATTEMPT(permutation_short, clade_transpose(g, x, 2, (int[]){1, 0}))
ATTEMPT(permutation_missing, clade_transpose(g, x, 3, NULL))
ATTEMPT(broadcast_rank, clade_broadcast(g, x, CLADE_SHAPE(3, 4)))
ATTEMPT(broadcast_size, clade_broadcast(g, x, CLADE_SHAPE(2, 5, 4)))
ATTEMPT(pack_block, clade_pack(g, x, (clade_layout){.axis = 1}))
ATTEMPT(pack_interleave, clade_pack(g, x, (clade_layout){.axis = 0, .block = 2, .interleave = 2}))
ATTEMPT(pack_tile, clade_pack(g, x, (clade_layout){.axis = 0, .block = 16, .tile = 6}))
ATTEMPT(unpack_dense, clade_unpack(g, x))
ATTEMPT(sum_of_blocked, clade_sum(g, clade_pack(g, x, (clade_layout){.axis = 1, .block = 2})))
ATTEMPT(gemm_inner, clade_gemm(g, x, x))
ATTEMPT(gemm_types, clade_gemm(g, x, i))
ATTEMPT(gemm_rank, clade_gemm(g, x, clade_sum(g, x)))
ATTEMPT(gemm_bias, clade_gemm(g, x, x, .trans_b = true, .bias = x))
ATTEMPT(gemm_integer_alpha, clade_gemm(g, i, i, .trans_b = true, .alpha = 2))
ATTEMPT(random_counter, clade_random_uniform(g, CLADE_SHAPE(3), 1, x))
ATTEMPT(random_negative, clade_random_normal(g, CLADE_SHAPE(-3), 1, c))
ATTEMPT(linear_out, clade_nn_linear(g, "fc", x))
ATTEMPT(linear_scalar, clade_nn_linear(g, "fc", c, .out = 1))
ATTEMPT(linear_nameless, clade_nn_linear(g, "", x, .out = 1))

static const struct {
  attempt_fn *attempt;
  clade_status status;
  const char *words;
} refusals[] = {
    {axis_far, CLADE_INVALID, "sum: .axes[1] is 3: out of range for x of rank 3"},
    {axis_twice, CLADE_INVALID, "sum: .axes[1] is -2: axis 1 is named twice"},
    {axes_many, CLADE_INVALID, ".n_axes is 9"},
    {mean_of_integers, CLADE_DTYPE, "mean: x is i32; expected f32"},
    {softmax_axis, CLADE_INVALID, "axis -4 is out of range for a value of rank 3"},
    {softmax_integers, CLADE_DTYPE, "softmax: x is i32"},
    {arg_max_scalar, CLADE_INVALID, "axis 0 is out of range for a value of rank 0"},
    {reshape_count, CLADE_BAD_SHAPE, "x is [2, 3, 4] and cannot become [5, 5]"},
    {reshape_rest, CLADE_BAD_SHAPE, "dimension 1 of the new shape"},
    {reshape_two_rests, CLADE_BAD_SHAPE, "dimensions 0 and 1"},
    {reshape_negative, CLADE_BAD_SHAPE, "dimension 0 of the new shape is negative"},
    {flatten_axis, CLADE_INVALID, "flatten: axis 4"},
    {permutation_twice, CLADE_INVALID, "axis 2 is twice"},
    {permutation_far, CLADE_INVALID, "permutation[2] is 3; expected 0 to 2"},
    {permutation_short, CLADE_BAD_SHAPE, "2 axes, but x has rank 3"},
    {permutation_missing, CLADE_INVALID, "transpose"},
    {broadcast_rank, CLADE_BAD_SHAPE, "more dimensions than [3, 4]"},
    {broadcast_size, CLADE_BAD_SHAPE, "its dimension 1 is neither 1"},
    {pack_block, CLADE_INVALID, "block is 0"},
    {pack_interleave, CLADE_INVALID, "no axis before axis 0"},
    {pack_tile, CLADE_INVALID, ".tile is 6; expected 0"},
    {unpack_dense, CLADE_INVALID, "x is dense"},
    {sum_of_blocked, CLADE_INVALID, "blocked layout (axis 1, block 2)"},
    {gemm_inner, CLADE_BAD_SHAPE, "the inner dimensions differ: a is [2, 3, 4], b is [2, 3, 4]"},
    {gemm_types, CLADE_DTYPE, "a is f32 and b is i32"},
    {gemm_rank, CLADE_BAD_SHAPE, "b is []; expected at least two"},
    {gemm_bias, CLADE_BAD_SHAPE, ".bias is [2, 3, 4] and cannot be broadcast to the result [2, 3, 3]"},
    {gemm_integer_alpha, CLADE_INVALID, "alpha is 2"},
    {random_counter, CLADE_DTYPE, "counter is f32; expected i64"},
    {random_negative, CLADE_BAD_SHAPE, "dimension 0 of the shape is negative"},
    {linear_out, CLADE_INVALID, ".out is 0"},
    {linear_scalar, CLADE_BAD_SHAPE, "x is a scalar"},
    {linear_nameless, CLADE_INVALID, "name"},
};

static void refuses(void **state) {
  (void)state;
  for (size_t k = 0; k < CLADE_COUNT(refusals); k++) {
    clade_graph *g = fresh();
    clade_val x = input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 4)), i = input(g, "i", CLADE_I32, CLADE_SHAPE(2, 3));
    clade_val c = input(g, "c", CLADE_I64, CLADE_SCALAR), v = refusals[k].attempt(g, x, i, c);
    refused(g, v, refusals[k].status, refusals[k].words);
  }
}

/* Strided views of a product's operands, as passes create them, must stay within the operand. */
typedef struct reading {
  clade_shape shape;
  int64_t stride[CLADE_MAX_RANK], offset;
  bool taken;
} reading;

static void readings(void **state) {
  (void)state;
  const int64_t far = INT64_MAX;
  const reading each[] = {
      {CLADE_SHAPE(3, 4), {4, 1}, 0, true},
      {CLADE_SHAPE(2, 4), {4, 1}, 16, true},  /* the last two of six rows */
      {CLADE_SHAPE(2, 4), {4, 1}, 17, false}, /* one element too far */
      {CLADE_SHAPE(2, 4), {4, 1}, -1, false},
      {CLADE_SHAPE(2, 4), {20, 1}, 0, true},
      {CLADE_SHAPE(2, 4), {21, 1}, 0, false},
      {CLADE_SHAPE(2, 4), {4, 2}, 0, false}, /* elements of a row must be contiguous */
      {CLADE_SHAPE(2, 4), {3, 1}, 0, false}, /* overlapping rows */
      {CLADE_SHAPE(2, 4), {-4, 1}, 8, false},
      {CLADE_SHAPE(5, 3, 4), {0, 4, 1}, 0, true}, /* the same matrix five times */
      {CLADE_SHAPE(3, 3, 4), {far, 4, 1}, 0, false},
      {CLADE_SHAPE(2, 3, 4), {far, 4, 1}, far, false},
      {CLADE_SHAPE(0, 4), {4, 1}, 0, false},
      {CLADE_SHAPE(4), {1}, 0, false},
  };
  for (int operand = 0; operand < 2; operand++)
    for (size_t k = 0; k < CLADE_COUNT(each); k++) {
      clade_graph *g = fresh();
      const clade_val x = input(g, "x", CLADE_F32, CLADE_SHAPE(2, 3, 4)),
                      other = input(g, "w", CLADE_F32, CLADE_SHAPE(5, 4));
      clade__gemm_attrs at;
      memset(&at, 0, sizeof at);
      at.alpha = 1, at.trans_b = true;
      at.shape[operand] = each[k].shape, at.offset[operand] = each[k].offset;
      memcpy(at.stride[operand], each[k].stride, sizeof at.stride[operand]);
      const clade_val in[] = {operand ? other : x, operand ? x : other},
                      y = clade_node_add(g, &clade__op_gemm, NULL, &at, 2, in, NULL);
      if (each[k].taken) {
        if (!clade_val_ok(y)) fail_msg("%d, %zu: %s", operand, k, clade_graph_message(g));
        clade_graph_release(g);
      } else
        refused(g, y, CLADE_INVALID,
                operand ? "gemm: b is [2, 3, 4], which cannot be read as ["
                        : "gemm: a is [2, 3, 4], which cannot be read as [");
    }
}

/* An inferred dimension or product that sizes cannot satisfy is detected by specialization. */
static void specialized(void **state) {
  (void)state;
  clade_graph *g = fresh(), *bound = NULL;
  clade_val x = input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 6));
  clade_output(g, "y", clade_reshape(g, x, CLADE_SHAPE(CLADE_DIM("rows"), 4)));
  clade_dim_value fit[] = {{"batch", 2}, {"rows", 3}}, misfit[] = {{"batch", 2}, {"rows", 5}};
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  assert_int_equal(clade__graph_bind(g, 2, fit, &bound), CLADE_OK);
  clade_graph_release(bound);
  assert_int_equal(clade__graph_bind(g, 2, misfit, &bound), CLADE_BAD_SHAPE);
  assert_non_null(strstr(clade_last_error(), "[2, 6] and cannot become [5, 4]"));
  clade_graph_release(g);
}

/* Contiguous axes are collapsed into one. */
static void collapsed(void **state) {
  (void)state;
  int64_t dim[CLADE_MAX_RANK] = {2, 1, 3, 4}, a[CLADE_MAX_RANK] = {12, 12, 4, 1}, b[CLADE_MAX_RANK] = {4, 4, 0, 1};
  int64_t(*both[])[CLADE_MAX_RANK] = {&a, &b};
  assert_int_equal(clade__collapse(4, dim, 2, both), 3);
  int64_t whole[CLADE_MAX_RANK] = {2, 1, 3, 4}, dense[CLADE_MAX_RANK] = {12, 12, 4, 1};
  assert_int_equal(clade__collapse(4, whole, 1, (int64_t(*const[])[CLADE_MAX_RANK]){&dense}), 1);
  assert_int_equal(whole[0], 24);
  assert_int_equal(dense[0], 1);
}

/* The first implementation of y's op that accepts a device with this limit of loop iterations; NULL: none. */
static const char *taker(clade_graph *g, clade_val y, uint32_t max_passes) {
  const clade_device_info device = {
      .size = sizeof device, .device_class = CLADE_CPU, .compute_units = 2, .vector_f32 = 8, .max_passes = max_passes};
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade_op *op = g->nodes[g->n_nodes - 1].op;
  assert_true(clade_val_ok(y));
  clade__node_view(g, (clade__id)g->n_nodes - 1, in, out, &view);
  clade_query q = {sizeof q, &view, &device, NULL};
  for (const clade_impl *const *impl = op->impls; *impl; impl++) {
    int32_t params[CLADE_MAX_PARAMS];
    clade__query_defaults(&q, *impl, params);
    if (!clade__impl_unfit(*impl, &q)) return (*impl)->name;
  }
  return NULL;
}

/* Loops that the device would cut off are refused or split. */
static void long_loops(void **state) {
  (void)state;
  clade_graph *g = fresh();
  clade_val x = input(g, "x", CLADE_F32, CLADE_SHAPE(3, 70000, 2)),
            row = input(g, "row", CLADE_F32, CLADE_SHAPE(1, 70000)),
            wide = input(g, "wide", CLADE_F32, CLADE_SHAPE(3, 700, 2, 5, 2));
  clade_val split = clade_sum(g, x, .n_axes = 1, .axes = {1});
  assert_string_equal(taker(g, split, 65535), "split");
  clade_val rows = clade_sum(g, x, .n_axes = 2, .axes = {0, 2}); /* the last axis first, then the other */
  assert_string_equal(taker(g, rows, 65535), "split");
  clade_val apart = clade_sum(g, wide, .n_axes = 3, .axes = {0, 2, 4});
  assert_string_equal(taker(g, apart, 65535), "ref");
  assert_null(taker(g, apart, 8)); /* loops of 3, 2 and 2 with their ends */
  assert_string_equal(taker(g, apart, 0), "ref");
  clade_val top = clade_arg_max(g, x, 1);
  assert_null(taker(g, top, 65535));
  assert_string_equal(taker(g, top, 0), "vec");
  clade_val soft = clade_softmax(g, x, 1);
  assert_null(taker(g, soft, 65535));
  assert_string_equal(taker(g, soft, 0), "lines");
  clade_val soft_row = clade_softmax(g, row, 1);
  assert_string_equal(taker(g, soft_row, 65535), "vec"); /* sixteen elements per iteration, three loops */
  assert_null(taker(g, soft_row, 17000));
  assert_string_equal(taker(g, soft_row, 0), "vec");
  clade_val product = clade_gemm(g, row, row, .trans_b = true);
  assert_null(taker(g, product, 65535));
  assert_string_equal(taker(g, product, 0), "vec");
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(symbols),     cmocka_unit_test(linear_variables),
                                     cmocka_unit_test(refuses),     cmocka_unit_test(readings),
                                     cmocka_unit_test(specialized), cmocka_unit_test(collapsed),
                                     cmocka_unit_test(long_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* 1D, 3D and transposed convolutions: layers and refusals. Results are tested in tests/op, transposed 3D ones in
 * run_convs_transposed.c. */
#include <clade/nn.h>

#include "plan_kit.h"

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
      {clade_nn_conv1d_transpose(g, "d", line, .out = 6, .kernel = 5, .stride = 2, .pad = 2, .output_pad = 1,
                                 .groups = 2),
       {3, {n, 6, 60}},
       "d.weight",
       {3, {4, 3, 5}}},
      {clade_nn_conv3d_transpose(g, "e", solid, .out = 6, .kernel = {3, 2, 4}, .stride = {2, 1, 2},
                                 .pads = {1, 0, 1, 0, 0, 2}, .output_pad = {1, 0, 0}, .groups = 2),
       {5, {n, 6, 11, 7, 13}},
       "e.weight",
       {5, {4, 3, 3, 2, 4}}},
      {clade_nn_conv3d_transpose(g, "f", solid, .out = 2, .kernel = {2, 2, 2}, .stride = {2, 2, 2}),
       {5, {n, 2, 10, 12, 14}},
       "f.weight",
       {5, {4, 2, 2, 2, 2}}},
  };
  if (clade_graph_status(g) != CLADE_OK) fail_msg("%s", clade_graph_message(g));
  assert_int_equal(g->variables.count, 2 * CLADE_COUNT(cases));
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
#define UP(...) clade_conv3d_transpose(g, IN("s", 1, 4, 5, 5, 5), IN("v", 4, 3, 3, 3, 3), __VA_ARGS__)
ATTEMPT(up_rank, clade_conv3d_transpose(g, x, w))
ATTEMPT(up_weight, clade_conv3d_transpose(g, IN("s", 1, 4, 5, 5, 5), w))
ATTEMPT(up_missing, clade_conv3d_transpose(g, IN("s", 1, 4, 5, 5, 5), (clade_val){0, 0}))
ATTEMPT(up_channels, clade_conv3d_transpose(g, IN("s", 1, 6, 5, 5, 5), IN("v", 4, 3, 3, 3, 3)))
ATTEMPT(up_types, clade_conv3d_transpose(g, IN("s", 1, 4, 5, 5, 5), clade_cast(g, IN("v", 4, 3, 3, 3, 3), CLADE_F16)))
ATTEMPT(up_groups, UP(.groups = 3))
ATTEMPT(up_negative, UP(.groups = -1))
ATTEMPT(up_stride, UP(.stride = {-1, 1, 1}))
ATTEMPT(up_dilation, UP(.dilation = {1, 1, -2}))
ATTEMPT(up_pads, UP(.pads = {0, 0, 0, 0, -1}))
ATTEMPT(up_both, UP(.pad = {1}, .pads = {1}))
ATTEMPT(up_output_pad, UP(.stride = {2, 1, 1}, .output_pad = {2}))
ATTEMPT(up_less, UP(.output_pad = {0, 0, -1}))
ATTEMPT(up_nothing, UP(.pad = {4}))
ATTEMPT(up_much, UP(.stride = {1, 1 << 28, 1}))
ATTEMPT(up_symbol, clade_conv3d_transpose(g, IN("s", 1, 4, CLADE_DIM("d"), 4, 4), IN("v", 4, 3, 3, 3, 3)))
ATTEMPT(up_bias, UP(.bias = IN("b", 4)))
ATTEMPT(line_up_layer, clade_nn_conv1d_transpose(g, "t", IN("l", 2, 4, 9), .out = 3, .kernel = 3, .groups = 2))
ATTEMPT(line_layer, clade_nn_conv1d(g, "t", IN("l", 2, 4, 9), .out = 3, .kernel = 3, .stride = 2, .output_pad = 1))
ATTEMPT(up_layer, clade_nn_conv3d_transpose(g, "t", IN("s", 1, 4, 5, 5, 5), .out = 2, .kernel = {3, 3}))
ATTEMPT(up_layer_out, clade_nn_conv3d_transpose(g, "t", IN("s", 1, 4, 5, 5, 5), .kernel = {3, 3, 3}))
ATTEMPT(up_layer_rank, clade_nn_conv3d_transpose(g, "t", x, .out = 2, .kernel = {3, 3, 3}))
ATTEMPT(layer_out, clade_nn_conv2d_transpose(g, "t", x, .out = 3, .kernel = {3, 3}, .groups = 2))
ATTEMPT(layer_kernel, clade_nn_conv1d(g, "t", IN("l", 2, 4, 9), .out = 3))
ATTEMPT(layer_rank, clade_nn_conv3d(g, "t", x, .out = 3, .kernel = {1, 1, 1}))

static const struct {
  attempt_fn *attempt;
  clade_status status;
  const char *words;
} refusals[] = {
    {line_rank, CLADE_BAD_SHAPE, "conv1d: x is [2, 4, 7, 8]; expected [n, channels, width]"},
    {line_stride, CLADE_INVALID, "conv1d: .stride is -1; expected 1 to 268435456"},
    {line_pad, CLADE_INVALID, "conv1d: .pad is -2147483648; expected 0 to"},
    {line_both, CLADE_INVALID, "conv1d: .pad and .pads are both set"},
    {line_output_pad, CLADE_INVALID, "conv1d: .output_pad is 1; only conv1d_transpose takes it"},
    {line_groups, CLADE_BAD_SHAPE, "not divisible by .groups, which is 4"},
    {line_large, CLADE_BAD_SHAPE, "the kernel covers 11 along the width"},
    {back_channels, CLADE_BAD_SHAPE, "conv2d_transpose: w is for 6 channels and x has 4"},
    {back_groups, CLADE_INVALID, "conv2d_transpose: .groups is 3; expected a divisor of the 4 channels of x"},
    {back_negative, CLADE_INVALID, "conv2d_transpose: .groups is -2"},
    {back_stride, CLADE_INVALID, "conv2d_transpose: .stride[0] is -1; expected 1 to"},
    {back_output_pad, CLADE_INVALID, ".output_pad[1] is 2; expected less than .stride[1], which is 2"},
    {back_less, CLADE_INVALID, "conv2d_transpose: .output_pad[0] is -1; expected 0 to"},
    {back_nothing, CLADE_BAD_SHAPE, "the height of the result would be -1"},
    {back_much, CLADE_BAD_SHAPE, "the height of the result would be 1610612737"},
    {back_symbol, CLADE_BAD_SHAPE, "conv2d_transpose: x is [1, 4, h, 4]; expected [n, channels, height, width] with"},
    {back_bias, CLADE_BAD_SHAPE, "conv2d_transpose: .bias is [4]; expected [5], a value for each channel"},
    {solid_rank, CLADE_BAD_SHAPE, "conv3d: x is [2, 4, 7, 8]; expected [n, channels, depth, height, width]"},
    {solid_stride, CLADE_INVALID, "conv3d: .stride[1] is -1"},
    {solid_depth, CLADE_BAD_SHAPE, "conv3d: the kernel covers 7 along the depth, and x with its padding has 5"},
    {solid_pads, CLADE_INVALID, "conv3d: .pads[3] is -1; expected 0 to"},
    {solid_groups, CLADE_BAD_SHAPE, "not divisible by .groups, which is 3"},
    {up_rank, CLADE_BAD_SHAPE, "conv3d_transpose: x is [2, 4, 7, 8]; expected [n, channels, depth, height, width]"},
    {up_weight, CLADE_BAD_SHAPE,
     "conv3d_transpose: w is [6, 4, 3, 3]; expected [in, out / groups, depth, height, width]"},
    {up_missing, CLADE_INVALID, "conv3d_transpose: w"},
    {up_channels, CLADE_BAD_SHAPE,
     "conv3d_transpose: w is for 4 channels and x has 6; expected w as [in, out / groups, d"},
    {up_types, CLADE_DTYPE, "conv3d_transpose: w is f16; expected f32"},
    {up_groups, CLADE_INVALID, "conv3d_transpose: .groups is 3; expected a divisor of the 4 channels of x"},
    {up_negative, CLADE_INVALID, "conv3d_transpose: .groups is -1"},
    {up_stride, CLADE_INVALID, "conv3d_transpose: .stride[0] is -1; expected 1 to"},
    {up_dilation, CLADE_INVALID, "conv3d_transpose: .dilation[2] is -2; expected 1 to"},
    {up_pads, CLADE_INVALID, "conv3d_transpose: .pads[4] is -1; expected 0 to"},
    {up_both, CLADE_INVALID, "conv3d_transpose: .pad and .pads are both set"},
    {up_output_pad, CLADE_INVALID, "conv3d_transpose: .output_pad[0] is 2; expected less than .stride[0], which is 2"},
    {up_less, CLADE_INVALID, "conv3d_transpose: .output_pad[2] is -1; expected 0 to"},
    {up_nothing, CLADE_BAD_SHAPE, "conv3d_transpose: the depth of the result would be -1"},
    {up_much, CLADE_BAD_SHAPE, "conv3d_transpose: the height of the result would be 1073741827"},
    {up_symbol, CLADE_BAD_SHAPE,
     "conv3d_transpose: x is [1, 4, d, 4, 4]; expected [n, channels, depth, height, width] with"},
    {up_bias, CLADE_BAD_SHAPE, "conv3d_transpose: .bias is [4]; expected ["},
    {line_up_layer, CLADE_INVALID, "nn_conv1d_transpose \"t\": .out is 3, which is not divisible by .groups"},
    {line_layer, CLADE_INVALID, "conv1d: .output_pad is 1; only conv1d_transpose takes it"},
    {up_layer, CLADE_INVALID, "nn_conv3d_transpose \"t\": .kernel[2] is 0; expected at least 1"},
    {up_layer_out, CLADE_INVALID, "nn_conv3d_transpose \"t\": .out is 0; expected at least 1"},
    {up_layer_rank, CLADE_BAD_SHAPE, "nn_conv3d_transpose \"t\": x is [2, 4, 7, 8]; expected [n, channels, depth"},
    {layer_out, CLADE_INVALID, "nn_conv2d_transpose \"t\": .out is 3, which is not divisible by .groups, which is 2"},
    {layer_kernel, CLADE_INVALID, "nn_conv1d \"t\": .kernel[0] is 0; expected at least 1"},
    {layer_rank, CLADE_BAD_SHAPE, "nn_conv3d \"t\": x is [2, 4, 7, 8]; expected [n, channels, depth, height, width]"},
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
      cmocka_unit_test(layers),
      cmocka_unit_test(refuses),
  };
  return cmocka_run_group_tests_name("run_convs", tests, open_device, close_device);
}

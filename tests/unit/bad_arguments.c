/* Invalid arguments of builders: negative and overflowing sizes, groups that do not divide the channels, unsuitable
 * element types. Each error must name the builder, the argument and its value. */
#include <clade/clade.h>

#include <limits.h>

#include "cl_unit.h"

typedef struct values {
  clade_graph *g;
  clade_val x, w, half, half_w;                 /* f32[2, 4, 8, 8] and [6, 2, 3, 3] for two groups; as f16 */
  clade_val line, line_w, cube, cube_w;         /* f32[2, 4, 9], [6, 4, 3]; [1, 2, 5, 6, 7], [3, 2, 2, 2, 2] */
  clade_val matrix, ids, yes, whole, scalar;    /* f32[3, 4], i32[3], bool[3, 4], i32[2, 4, 8, 8], f32[] */
  clade_val four, counter, narrow, tall, named; /* f32[4], i64[], f16[4], f32[2^34, 1], f32[n, 4] */
  clade_val six, bytes, tiny;                   /* f32[2, 6, 8, 8], u8[3, 4], i8[3, 4] */
} values;

static values begin(void) {
  values v;
  check_ok(clade_graph_new(&v.g));
#define INPUT(name, dtype, ...) v.name = clade_input(v.g, #name, dtype, CLADE_SHAPE(__VA_ARGS__))
  INPUT(x, CLADE_F32, 2, 4, 8, 8);
  INPUT(w, CLADE_F32, 6, 2, 3, 3);
  INPUT(half, CLADE_F16, 2, 4, 8, 8);
  INPUT(half_w, CLADE_F16, 6, 2, 3, 3);
  INPUT(line, CLADE_F32, 2, 4, 9);
  INPUT(line_w, CLADE_F32, 6, 4, 3);
  INPUT(cube, CLADE_F32, 1, 2, 5, 6, 7);
  INPUT(cube_w, CLADE_F32, 3, 2, 2, 2, 2);
  INPUT(matrix, CLADE_F32, 3, 4);
  INPUT(ids, CLADE_I32, 3);
  INPUT(yes, CLADE_BOOL, 3, 4);
  INPUT(whole, CLADE_I32, 2, 4, 8, 8);
  INPUT(four, CLADE_F32, 4);
  INPUT(narrow, CLADE_F16, 4);
  INPUT(tall, CLADE_F32, 1LL << 34, 1);
  INPUT(six, CLADE_F32, 2, 6, 8, 8);
  INPUT(bytes, CLADE_U8, 3, 4);
  INPUT(tiny, CLADE_I8, 3, 4);
  INPUT(named, CLADE_F32, CLADE_DIM("n"), 4);
  v.scalar = clade_input(v.g, "scalar", CLADE_F32, CLADE_SCALAR);
  v.counter = clade_input(v.g, "counter", CLADE_I64, CLADE_SCALAR);
  check_ok(clade_graph_status(v.g));
  return v;
}

static int accepted; /* reported at the end, for all cases */
static void end(values *v, clade_status status, const char *words, const char *what) {
  if (clade_graph_status(v->g) != status || !strstr(clade_graph_message(v->g), words)) {
    print_error("%s: %s \"%s\", expected %s: \"…%s…\"\n", what, clade_status_name(clade_graph_status(v->g)),
                clade_graph_message(v->g), clade_status_name(status), words);
    accepted++;
  }
  clade_graph_release(v->g);
}

#define REFUSED(status, words, builder, ...)                       \
  do {                                                             \
    values v = begin();                                            \
    (void)clade_##builder(v.g, __VA_ARGS__);                       \
    end(&v, CLADE_##status, words, #builder "(" #__VA_ARGS__ ")"); \
  } while (0)

static void done(void) {
  int count = accepted;
  accepted = 0;
  if (count) fail_msg("%d of them", count);
}

static void convolutions(void **state) {
  (void)state;
  REFUSED(INVALID, "conv2d: .stride[0] is -1", conv2d, v.x, v.w, .groups = 2, .stride = {-1, 1});
  REFUSED(INVALID, "conv2d: .stride[1] is 536870912", conv2d, v.x, v.w, .groups = 2, .stride = {1, 1 << 29});
  REFUSED(INVALID, "conv2d: .pad[1] is -1", conv2d, v.x, v.w, .groups = 2, .pad = {1, -1});
  REFUSED(INVALID, "conv2d: .pads[3] is -2147483648", conv2d, v.x, v.w, .groups = 2, .pads = {0, 0, 0, INT_MIN});
  REFUSED(INVALID, "conv2d: .pad and .pads", conv2d, v.x, v.w, .groups = 2, .pad = {1, 1}, .pads = {1, 1, 1, 1});
  REFUSED(INVALID, "conv2d: .dilation[0] is -2", conv2d, v.x, v.w, .groups = 2, .dilation = {-2, 0});
  REFUSED(BAD_SHAPE, "conv2d: the kernel covers 536870913", conv2d, v.x, v.w, .groups = 2, .dilation = {1 << 28, 1});
  REFUSED(OVERFLOW, "conv2d: the height of x is 8 and its padding", conv2d, v.x, v.w, .groups = 2,
          .pads = {1 << 28, 0, 1 << 28, 0});
  REFUSED(INVALID, "conv2d: .groups is -2", conv2d, v.x, v.w, .groups = -2);
  REFUSED(BAD_SHAPE, "with .groups 3", conv2d, v.x, v.w, .groups = 3);
  REFUSED(BAD_SHAPE, "with .groups 1", conv2d, v.x, v.w, .groups = 1);
  REFUSED(BAD_SHAPE, "conv2d: w is [6, 2, 3, 3]: its 6 output channels are not divisible by .groups, which is 4",
          conv2d, v.x, v.w, .groups = 4);
  REFUSED(DTYPE, "conv2d: x is f32 and w is f16", conv2d, v.x, v.half_w, .groups = 2);
  REFUSED(DTYPE, "conv2d: x is i32", conv2d, v.whole, v.w, .groups = 2);
  REFUSED(BAD_SHAPE, "conv2d: w is [3, 4]", conv2d, v.x, v.matrix);
  REFUSED(BAD_SHAPE, "conv2d: x is [3, 4]", conv2d, v.matrix, v.w, .groups = 2);
  REFUSED(BAD_SHAPE, "conv2d: .bias is [4]", conv2d, v.x, v.w, .groups = 2, .bias = v.four);
  REFUSED(INVALID, "conv2d_transpose: .output_pad[0] is 2", conv2d_transpose, v.six, v.w, .output_pad = {2, 0});
  REFUSED(INVALID, "conv2d_transpose: .output_pad[1] is -1", conv2d_transpose, v.six, v.w, .output_pad = {0, -1});
  REFUSED(INVALID, "conv2d_transpose: .groups is 3", conv2d_transpose, v.x, v.w, .groups = 3);
  REFUSED(INVALID, "conv2d_transpose: .groups is -1", conv2d_transpose, v.x, v.w, .groups = -1);
  REFUSED(BAD_SHAPE, "conv2d_transpose: w is for 6", conv2d_transpose, v.x, v.w);
  REFUSED(INVALID, "conv2d_transpose: .stride[0] is -3", conv2d_transpose, v.x, v.w, .stride = {-3, 0});
  REFUSED(INVALID, "conv1d: .stride is -1", conv1d, v.line, v.line_w, .stride = -1);
  REFUSED(INVALID, "conv1d: .dilation is -1", conv1d, v.line, v.line_w, .dilation = -1);
  REFUSED(INVALID, "conv1d: .pad is -1", conv1d, v.line, v.line_w, .pad = -1);
  REFUSED(INVALID, "conv1d: .pads[1] is -1", conv1d, v.line, v.line_w, .pads = {0, -1});
  REFUSED(BAD_SHAPE, "with .groups 3", conv1d, v.line, v.line_w, .groups = 3);
  REFUSED(INVALID, "conv1d: .output_pad is 1", conv1d, v.line, v.line_w, .output_pad = 1);
  REFUSED(BAD_SHAPE, "conv1d: x is [3, 4]", conv1d, v.matrix, v.line_w);
  REFUSED(DTYPE, "conv1d: w is f16; expected f32", conv1d, v.line, clade_cast(v.g, v.line_w, CLADE_F16));
  REFUSED(DTYPE, "conv2d: .bias is f16; expected f32", conv2d, v.x, v.w, .groups = 2,
          .bias = clade_broadcast(v.g, clade_cast(v.g, v.scalar, CLADE_F16), CLADE_SHAPE(6)));
  REFUSED(BAD_SHAPE, "conv1d: .bias is [4]; expected [6], a value for each channel", conv1d, v.line, v.line_w,
          .bias = v.four);
  REFUSED(DTYPE, "conv1d: .bias is i32; expected f32", conv1d, v.line,
          clade_slice(v.g, v.line_w, CLADE_SHAPE(0, 0, 0), CLADE_SHAPE(3, 4, 3)), .bias = v.ids);
  REFUSED(DTYPE, "conv3d: .bias is i32; expected f32", conv3d, v.cube, v.cube_w, .bias = v.ids);
  REFUSED(BAD_SHAPE, "conv1d_transpose: .bias is [3]; expected [4]", conv1d_transpose,
          clade_transpose(v.g, v.line_w, 3, ((int[]){1, 0, 2})), v.line_w, .bias = v.ids);
  REFUSED(DTYPE, "conv2d_transpose: w is f16; expected f32", conv2d_transpose, v.six, v.half_w);
  REFUSED(DTYPE, "conv3d: w is f16; expected f32", conv3d, v.cube, clade_cast(v.g, v.cube_w, CLADE_F16));
  REFUSED(BAD_SHAPE, "conv1d_transpose: w is for 6 channels and x has 4; expected w as [in, out / groups, width]",
          conv1d_transpose, v.line, v.line_w);
  REFUSED(INVALID, "conv1d_transpose: .output_pad is 2; expected less than .stride, which is 2", conv1d_transpose,
          clade_transpose(v.g, v.line_w, 3, ((int[]){1, 0, 2})), v.line_w, .stride = 2, .output_pad = 2);
  REFUSED(BAD_SHAPE, "conv1d_transpose: the width of the result would be -1", conv1d_transpose,
          clade_transpose(v.g, v.line_w, 3, ((int[]){1, 0, 2})), v.line_w, .pad = 3);
  REFUSED(INVALID, "conv1d_transpose: .groups is -1", conv1d_transpose, v.line, v.line_w, .groups = -1);
  REFUSED(INVALID, "conv1d_transpose: .stride is -1", conv1d_transpose, v.line, v.line_w, .stride = -1);
  REFUSED(INVALID, "conv3d: .stride[0] is -1", conv3d, v.cube, v.cube_w, .stride = {-1, 1, 1});
  REFUSED(INVALID, "conv3d: .stride[2] is -1", conv3d, v.cube, v.cube_w, .stride = {1, 1, -1});
  REFUSED(INVALID, "conv3d: .dilation[0] is -1", conv3d, v.cube, v.cube_w, .dilation = {-1, 1, 1});
  REFUSED(INVALID, "conv3d: .pads[5] is -1", conv3d, v.cube, v.cube_w, .pads = {0, 0, 0, 0, 0, -1});
  REFUSED(INVALID, "conv3d: .pad[0] is -1", conv3d, v.cube, v.cube_w, .pad = {-1, 0, 0});
  REFUSED(BAD_SHAPE, "with .groups 3", conv3d, v.cube, v.cube_w, .groups = 3);
  REFUSED(INVALID, ".groups is -1", conv3d, v.cube, v.cube_w, .groups = -1);
  REFUSED(INVALID, "nn_conv2d \"c\": .out is 0", nn_conv2d, "c", v.x, .kernel = {3, 3});
  REFUSED(INVALID, "nn_conv2d \"c\": .out is -1", nn_conv2d, "c", v.x, .out = -1, .kernel = {3, 3});
  REFUSED(OVERFLOW, "nn_conv2d \"c\": .out is 4611686018427387903", nn_conv2d, "c", v.x, .out = INT64_MAX / 2,
          .kernel = {3, 3});
  REFUSED(DTYPE, "layer \"c\": .dtype is 99", nn_conv2d, "c", v.x, .out = 2, .kernel = {3, 3},
          .dtype = (clade_dtype)99);
  REFUSED(INVALID, ".kernel[0] is 0", nn_conv2d, "c", v.x, .out = 4);
  REFUSED(BAD_SHAPE, ".groups, which is 3", nn_conv2d, "c", v.x, .out = 6, .kernel = {3, 3}, .groups = 3);
  REFUSED(BAD_SHAPE, ".groups, which is 4", nn_conv2d, "c", v.x, .out = 6, .kernel = {3, 3}, .groups = 4);
  REFUSED(BAD_SHAPE, ".groups, which is -1", nn_conv2d, "c", v.x, .out = 6, .kernel = {3, 3}, .groups = -1);
  REFUSED(DTYPE, "conv2d: x is i32", nn_conv2d, "c", v.whole, .out = 4, .kernel = {3, 3});
  REFUSED(BAD_SHAPE, ".groups, which is 3", nn_conv2d_transpose, "c", v.x, .out = 6, .kernel = {3, 3}, .groups = 3);
  REFUSED(INVALID, ".out is -6", nn_conv2d_transpose, "c", v.x, .out = -6, .kernel = {3, 3});
  REFUSED(INVALID, ".kernel[0] is 0", nn_conv1d, "c", v.line, .out = 6);
  REFUSED(INVALID, ".out is 0", nn_conv1d, "c", v.line, .kernel = 3);
  REFUSED(BAD_SHAPE, ".groups, which is 3", nn_conv1d, "c", v.line, .out = 6, .kernel = 3, .groups = 3);
  REFUSED(INVALID, ".kernel[1] is -1", nn_conv3d, "c", v.cube, .out = 6, .kernel = {3, -1, 3});
  REFUSED(BAD_SHAPE, ".groups, which is 3", nn_conv3d, "c", v.cube, .out = 6, .kernel = {3, 3, 3}, .groups = 3);
  done();
}

static void pooling(void **state) {
  (void)state;
  REFUSED(INVALID, "max_pool2d: .kernel[0] is 0", max_pool2d, v.x);
  REFUSED(INVALID, "max_pool2d: .kernel[1] is -2", max_pool2d, v.x, .kernel = {2, -2});
  REFUSED(INVALID, "avg_pool2d: .stride[0] is -1", avg_pool2d, v.x, .kernel = {2, 2}, .stride = {-1, 1});
  REFUSED(INVALID, "max_pool2d: .stride[1] is -2", max_pool2d, v.x, .kernel = {2, 2}, .stride = {0, -2});
  REFUSED(INVALID, "avg_pool2d: .pads[0] is -1", avg_pool2d, v.x, .kernel = {2, 2}, .pads = {-1, 0, 0, 0});
  REFUSED(INVALID, "max_pool2d: .dilation[1] is -1", max_pool2d, v.x, .kernel = {2, 2}, .dilation = {0, -1});
  REFUSED(BAD_SHAPE, "max_pool2d: the kernel covers 9", max_pool2d, v.x, .kernel = {9, 2});
  REFUSED(BAD_SHAPE, "max_pool2d: x is [3, 4]", max_pool2d, v.matrix, .kernel = {1, 1});
  REFUSED(INVALID, "max_pool2d: .count_pad has no effect", max_pool2d, v.x, .kernel = {2, 2}, .count_pad = true);
  REFUSED(DTYPE, "max_pool2d: x is i32", max_pool2d, v.whole, .kernel = {2, 2});
  REFUSED(BAD_SHAPE, "global_avg_pool2d: x is [3, 4]", global_avg_pool2d, v.matrix);
  REFUSED(DTYPE, "mean: x is i32", global_avg_pool2d, v.whole);
  done();
}

static void rows(void **state) {
  const clade_val none = {0};
  (void)state;
  REFUSED(INVALID, "sum: .n_axes is -1", sum, v.x, .n_axes = -1);
  REFUSED(INVALID, "sum: .axes[1] is 0: axis 0 is named twice", sum, v.x, .n_axes = 5);
  REFUSED(INVALID, "mean: .axes[0] is 4: out of range", mean, v.x, .n_axes = 1, .axes = {4});
  REFUSED(INVALID, "reduce_max: .axes[0] is -5: out of range", reduce_max, v.x, .n_axes = 1, .axes = {-5});
  REFUSED(INVALID, "reduce_min: .axes[1] is -1: axis 3 is named twice", reduce_min, v.x, .n_axes = 2, .axes = {3, -1});
  REFUSED(DTYPE, "mean: x is i32", mean, v.ids);
  REFUSED(DTYPE, "sum: x is bool", sum, v.yes);
  REFUSED(INVALID, "arg_max: x: axis 2", arg_max, v.matrix, 2);
  REFUSED(INVALID, "softmax: x: axis -3", softmax, v.matrix, -3);
  REFUSED(INVALID, "log_softmax: x: axis 2", log_softmax, v.matrix, 2);
  REFUSED(DTYPE, "softmax: x is i32", log_softmax, v.ids, 0);
  REFUSED(INVALID, "layer_norm: n_axes is 3", layer_norm, v.matrix, none, none, 3, 1e-5);
  REFUSED(INVALID, "layer_norm: n_axes is -1", layer_norm, v.matrix, none, none, -1, 1e-5);
  REFUSED(INVALID, "layer_norm: eps is -1", layer_norm, v.matrix, none, none, 1, -1);
  REFUSED(INVALID, "rms_norm: eps is nan", rms_norm, v.matrix, none, 1, (double)__builtin_nanf(""));
  REFUSED(BAD_SHAPE, "layer_norm: weight is [3, 4]", layer_norm, v.matrix, v.matrix, none, 1, 1e-5);
  REFUSED(DTYPE, "rms_norm: weight is f16", rms_norm, v.matrix, v.narrow, 1, 1e-5);
  REFUSED(DTYPE, "layer_norm: x is i32", rms_norm, v.ids, none, 1, 1e-5);
  REFUSED(INVALID, "group_norm: groups is 3", group_norm, v.x, v.four, v.four, 3, 1e-5);
  REFUSED(INVALID, "group_norm: groups is -1", group_norm, v.x, v.four, v.four, -1, 1e-5);
  REFUSED(BAD_SHAPE, "group_norm: x is [4]", group_norm, v.four, none, none, 1, 1e-5);
  REFUSED(BAD_SHAPE, "group_norm: bias is [3, 4]", group_norm, v.x, v.four, v.matrix, 2, 1e-5);
  REFUSED(DTYPE, "group_norm: weight is f16", group_norm, v.x, v.narrow, v.four, 2, 1e-5);
  REFUSED(INVALID, "group_norm: eps is -1", instance_norm, v.x, none, none, -1);
  REFUSED(INVALID, ".eps is -1", nn_batch_norm, "b", v.x, .eps = -1);
  REFUSED(INVALID, ".momentum is -1", nn_batch_norm, "b", v.x, .momentum = -1);
  REFUSED(INVALID, "layer_norm: eps is -1", nn_layer_norm, "l", v.x, .eps = -1);
  REFUSED(INVALID, ".n_axes is 5", nn_rms_norm, "r", v.x, .n_axes = 5);
  REFUSED(INVALID, ".groups is -4", nn_group_norm, "g", v.x, .groups = -4);
  REFUSED(INVALID, ".groups is 2; expected 0", nn_instance_norm, "i", v.x, .groups = 2);
  done();
}

static void shapes(void **state) {
  (void)state;
  const int64_t most = INT64_MAX;
  REFUSED(BAD_SHAPE, "reshape: dimension 0 of the new shape", reshape, v.x, CLADE_SHAPE(-2, 4));
  REFUSED(BAD_SHAPE, "reshape: x is [3, 4]", reshape, v.matrix, CLADE_SHAPE(5));
  REFUSED(OVERFLOW, "reshape: the shape has more elements", reshape, v.x, CLADE_SHAPE(1LL << 62, 4));
  REFUSED(BAD_SHAPE, "reshape: the new shape", reshape, v.x, (clade_shape){.rank = 9});
  REFUSED(BAD_SHAPE, "reshape: the new shape", reshape, v.x, (clade_shape){.rank = -1});
  REFUSED(INVALID, "flatten: axis 5", flatten, v.x, 5);
  REFUSED(BAD_SHAPE, "transpose: the permutation has 3 axes", transpose, v.matrix, 3, (int[]){0, 1, 2});
  REFUSED(INVALID, "transpose: axis 0 is twice in the permutation", transpose, v.matrix, 2, (int[]){0, 0});
  REFUSED(INVALID, "transpose: permutation[1] is 2", transpose, v.matrix, 2, (int[]){0, 2});
  REFUSED(INVALID, "transpose: permutation is NULL", transpose, v.matrix, 2, NULL);
  REFUSED(BAD_SHAPE, "broadcast: x is [3, 4] and cannot become [3, 5]", broadcast, v.matrix, CLADE_SHAPE(3, 5));
  REFUSED(BAD_SHAPE, "broadcast: dimension 0 of the new shape", broadcast, v.matrix, CLADE_SHAPE(-3, 3, 4));
  REFUSED(OVERFLOW, "broadcast: the new shape", broadcast, v.matrix, CLADE_SHAPE(1LL << 60, 3, 4));
  REFUSED(BAD_SHAPE, "slice: begin: dimension 0 is negative", slice, v.matrix, CLADE_SHAPE(-1, 0), CLADE_SHAPE(1, 1));
  REFUSED(BAD_SHAPE, "slice: size: dimension 1 is negative", slice, v.matrix, CLADE_SHAPE(0, 0), CLADE_SHAPE(1, -3));
  REFUSED(BAD_SHAPE, "slice: x is [3, 4]", slice, v.matrix, CLADE_SHAPE(0, 1), CLADE_SHAPE(3, 4));
  REFUSED(BAD_SHAPE,
          "slice: x is [3, 4], which has no [9223372036854775807, 1] from 9223372036854775807 on in dimension 0", slice,
          v.matrix, CLADE_SHAPE(most, 0), CLADE_SHAPE(most, 1));
  REFUSED(BAD_SHAPE, "pad: before: dimension 1 is negative", pad, v.matrix, CLADE_SHAPE(0, -1), CLADE_SHAPE(0, 0), 0);
  REFUSED(BAD_SHAPE, "pad: after: dimension 1 is negative", pad, v.matrix, CLADE_SHAPE(0, 0), CLADE_SHAPE(0, -5), 0);
  REFUSED(BAD_SHAPE, "pad: before is [0, 9223372036854775807]", pad, v.matrix, CLADE_SHAPE(0, most), CLADE_SHAPE(0, 0),
          0);
  REFUSED(OVERFLOW, "pad: before is [0, 2305843009213693952]", pad, v.matrix, CLADE_SHAPE(0, 1LL << 61),
          CLADE_SHAPE(0, 0), 0);
  REFUSED(INVALID, "pad: value 300", pad, clade_cast(v.g, v.four, CLADE_U8), CLADE_SHAPE(1), CLADE_SHAPE(1), 300);
  REFUSED(DTYPE, "concat: operand 1 is i32", concat, 2, ((clade_val[]){v.x, v.whole}), 0);
  REFUSED(INVALID, "concat: operand 0: axis -5", concat, 2, ((clade_val[]){v.x, v.x}), -5);
  REFUSED(INVALID, "concat: n is -1", concat, -1, &v.x, 0);
  REFUSED(DTYPE, "gather: ids are f32", gather, v.x, v.four);
  REFUSED(INVALID, "gather: x: axis 4", gather, v.x, v.ids, .axis = 4);
  REFUSED(INVALID, "gather: x: axis -5", gather, v.x, v.ids, .axis = -5);
  REFUSED(BAD_SHAPE, "gather: x is a scalar", gather, v.scalar, v.ids);
  REFUSED(DTYPE, "scatter_add: ids are f32", scatter_add, v.matrix, v.four, v.matrix);
  REFUSED(BAD_SHAPE, "scatter_add: what is added is [3, 4]; ids of [3] along axis 1", scatter_add, v.matrix, v.ids,
          v.matrix, .axis = 1);
  REFUSED(DTYPE, "scatter_add: what is added is bool", scatter_add, v.matrix, v.ids, v.yes);
  REFUSED(BAD_SHAPE, "scatter_add: x is f32[3, 4]; expected f16", scatter_add, v.matrix, v.ids,
          clade_cast(v.g, v.matrix, CLADE_F16));
  REFUSED(INVALID, "scatter_add: x: axis 2", scatter_add, v.matrix, v.ids, v.matrix, .axis = 2);
  REFUSED(INVALID, "pack: x: axis 4", pack, v.x, (clade_layout){.axis = 4, .block = 8});
  REFUSED(INVALID, "unpack: x is dense", unpack, v.x);
  done();
}

static void numbers(void **state) {
  (void)state;
  REFUSED(DTYPE, "gemm: a is f32 and b is f16", gemm, v.matrix, v.narrow);
  REFUSED(BAD_SHAPE, "gemm: the inner dimensions differ: a is [3, 4], b is [3, 4]", gemm, v.matrix, v.matrix);
  REFUSED(BAD_SHAPE, "gemm: a is []", gemm, v.scalar, v.matrix);
  REFUSED(BAD_SHAPE, "gemm: .bias is [4]", gemm, v.matrix, v.matrix, .trans_b = true, .bias = v.four);
  REFUSED(OVERFLOW, "gemm: a is [17179869184, 1] and b is [17179869184, 1]", gemm, v.tall, v.tall, .trans_b = true);
  REFUSED(INVALID, "gemm: .alpha is no number", gemm, v.matrix, v.matrix, .trans_b = true, .alpha = __builtin_nanf(""));
  REFUSED(INVALID, "gemm: .beta is no number", gemm, v.matrix, v.matrix, .trans_b = true, .beta = __builtin_nanf(""));
  REFUSED(INVALID, "there is no .bias", gemm, v.matrix, v.matrix, .trans_b = true, .beta = 2);
  REFUSED(DTYPE, "gemm: a is u8 and b is u8; expected b in i8", gemm, v.bytes, v.bytes, .trans_b = true);
  REFUSED(DTYPE, "gemm: a is i8 and b is u8; expected b in i8", gemm, v.tiny, v.bytes, .trans_b = true);
  REFUSED(DTYPE, "gemm: a is i8 and b is f32; expected b in i8", gemm, v.tiny, v.matrix, .trans_b = true);
  REFUSED(DTYPE, "gemm: a is bool", gemm, v.yes, v.yes, .trans_b = true);
  REFUSED(INVALID, "gemm: alpha is 2; with u8 operands it is 1", gemm, v.bytes, v.tiny, .trans_b = true, .alpha = 2);
  REFUSED(INVALID, "gemm: .beta is 2; with a bias of i32 it is 0 or 1", gemm, v.bytes, v.tiny, .trans_b = true,
          .bias = v.ids, .beta = 2);
  REFUSED(DTYPE, "gemm: .bias is f32; expected i32", gemm, v.bytes, v.tiny, .trans_b = true, .bias = v.scalar);
  REFUSED(DTYPE, "fft: x is f16", fft, v.half);
  REFUSED(BAD_SHAPE, "fft: x is [3, 4]", fft, v.matrix);
  REFUSED(INVALID, "rfft: .n_axes is -1", rfft, v.matrix, .n_axes = -1);
  REFUSED(INVALID, "rfft: .n_axes is 3", rfft, v.matrix, .n_axes = 3);
  REFUSED(INVALID, "rfft: .axes: axis 2", rfft, v.matrix, .n_axes = 1, .axes = {2});
  REFUSED(INVALID, "rfft: .axes has axis 1 twice", rfft, v.matrix, .n_axes = 2, .axes = {1, -1});
  REFUSED(INVALID, "rfft: .n is 4", rfft, v.matrix, .n = 4);
  REFUSED(BAD_SHAPE, "rfft: axis 0 of x is the symbol \"n\"", rfft, v.named, .n_axes = 1, .axes = {0});
  REFUSED(DTYPE, "random: counter is i32", random_uniform, CLADE_SHAPE(4), 1, v.ids);
  REFUSED(BAD_SHAPE, "random: dimension 0 of the shape", random_normal, CLADE_SHAPE(-4), 1, v.counter);
  REFUSED(BAD_SHAPE, "random: counter is [1]", random_normal, CLADE_SHAPE(4), 1,
          clade_reshape(v.g, v.counter, CLADE_SHAPE(1)));
  REFUSED(INVALID, "transfer: index is -1", transfer, v.x, -1);
  REFUSED(DTYPE, "cast: 99 is no element type", cast, v.x, (clade_dtype)99);
  REFUSED(DTYPE, "select: operand 0 is f32", select, v.matrix, v.matrix, v.matrix);
  REFUSED(DTYPE, "add: operand 0 is f32, operand 1 is f16", add, v.x, v.half);
  REFUSED(BAD_SHAPE, "add: [2, 4, 8, 8] and [3, 4] do not broadcast", add, v.x, v.matrix);
  REFUSED(INVALID, "leaky_relu: parameter 0", leaky_relu, v.x, (double)__builtin_nanf(""));
  REFUSED(DTYPE, "relu: operand 0 is bool", relu, v.yes);
  REFUSED(DTYPE, "input \"y\": 99 is not an element type", input, "y", (clade_dtype)99, CLADE_SHAPE(1));
  REFUSED(BAD_SHAPE, "input \"y\": dimension 0 of [-7]", input, "y", CLADE_F32, CLADE_SHAPE(-7));
  REFUSED(OVERFLOW, "input \"y\": [1099511627776, 1099511627776]", input, "y", CLADE_F32,
          CLADE_SHAPE(1LL << 40, 1LL << 40));
  REFUSED(BAD_SHAPE, "fill: dimension 0 of [-1]", fill, CLADE_F32, CLADE_SHAPE(-1), 0);
  done();
}

static void layers(void **state) {
  (void)state;
  REFUSED(INVALID, "nn_linear \"l\": .out is 0", nn_linear, "l", v.matrix);
  REFUSED(INVALID, "nn_linear \"l\": .out is -9", nn_linear, "l", v.matrix, .out = -9);
  REFUSED(OVERFLOW, "nn_linear \"l\": .out is 4611686018427387903", nn_linear, "l", v.matrix, .out = INT64_MAX / 2);
  REFUSED(DTYPE, "nn_linear \"l\": x is i32", nn_linear, "l", v.ids, .out = 2);
  REFUSED(DTYPE, "layer \"l\": .dtype is 99", nn_linear, "l", v.matrix, .out = 2, .dtype = (clade_dtype)99);
  REFUSED(DTYPE, "layer \"l\": .dtype is 8 (bool)", nn_linear, "l", v.matrix, .out = 2, .dtype = CLADE_BOOL);
  REFUSED(INVALID, ".count is -1", nn_embedding, "e", v.ids, .count = -1, .width = 4);
  REFUSED(INVALID, ".width 0", nn_embedding, "e", v.ids, .count = 4);
  REFUSED(OVERFLOW, "nn_embedding \"e\": .count is 2147483647, .width 1099511627776", nn_embedding, "e", v.ids,
          .count = INT32_MAX, .width = 1LL << 40);
  REFUSED(DTYPE, "gather: ids are f32", nn_embedding, "e", v.four, .count = 4, .width = 4);
  REFUSED(DTYPE, "layer \"e\": .dtype is", nn_embedding, "e", v.ids, .count = 4, .width = 4, .dtype = CLADE_I32);
  REFUSED(DTYPE, "cross_entropy: labels are f32", cross_entropy, v.matrix, v.four);
  REFUSED(BAD_SHAPE, "cross_entropy: logits are [2, 4, 8, 8], labels [3]", cross_entropy, v.x, v.ids);
  REFUSED(INVALID, ".ignore_index is -1 without .ignore", cross_entropy, v.matrix, v.ids, .ignore_index = -1);
  REFUSED(INVALID, ".smoothing is -1", cross_entropy, v.matrix, v.ids, .smoothing = -1);
  REFUSED(BAD_SHAPE, "mse: x is [3, 4] and target is [4]", mse, v.matrix, v.four);
  REFUSED(BAD_SHAPE, "l1: x is [3, 4] and target is [4]", l1, v.matrix, v.four);
  REFUSED(BAD_SHAPE, "binary_cross_entropy: logits is [3, 4] and target is [4]", binary_cross_entropy, v.matrix,
          v.four);
  REFUSED(INVALID, "top_k_count: k is -1", top_k_count, v.matrix, v.ids, -1);
  REFUSED(INVALID, "dropout: p is -1", dropout, v.x, -1, 1, v.counter);
  REFUSED(INVALID, "dropout: p is 1", dropout, v.x, 1, 1, v.counter);
  REFUSED(DTYPE, "dropout: counter is f32", dropout, v.x, 0.5, 1, v.scalar);
  REFUSED(DTYPE, "dropout: x is i32", dropout, v.whole, 0.5, 1, v.counter);
  REFUSED(INVALID, ".p is -0.5", nn_dropout, "d", v.x, .p = -0.5f);
  done();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions), cmocka_unit_test(pooling), cmocka_unit_test(rows),
      cmocka_unit_test(shapes),       cmocka_unit_test(numbers), cmocka_unit_test(layers),
  };
  return cmocka_run_group_tests_name("bad_arguments", tests, NULL, NULL);
}

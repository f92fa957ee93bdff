/* Invalid graphs. The first builder that can detect the problem must fail with a message that names the object, its
 * value and the expectation; compiling returns this first error. */
#include <clade/clade.h>

#include "cl_unit.h"

typedef struct bad {
  clade_graph *g;
  clade_val x;     /* f32[2, 3] */
  clade_val other; /* of another graph */
} bad;

static bad begin(void) {
  bad b;
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  b.other = clade_input(g, "other", CLADE_F32, CLADE_SHAPE(2, 3));
  clade_graph_release(g); /* a value of a freed graph is reported by its number */
  check_ok(clade_graph_new(&b.g));
  b.x = clade_input(b.g, "x", CLADE_F32, CLADE_SHAPE(2, 3));
  assert_true(clade_val_ok(b.x) && clade_val_ok(b.other));
  return b;
}

/* The graph keeps its first error, and compiling returns it. */
static void end(bad *b, clade_status status, const char *words, const char *what) {
  clade_func *func = NULL;
  clade_device *device;
  if (clade_graph_status(b->g) != status || !strstr(clade_graph_message(b->g), words))
    fail_msg("%s: %s: \"%s\", expected %s: \"…%s…\"", what, clade_status_name(clade_graph_status(b->g)),
             clade_graph_message(b->g), clade_status_name(status), words);
  clade_output(b->g, "after", b->x);
  assert_false(clade_val_ok(clade_relu(b->g, b->x)));
  check_ok(clade_device_find("pocl", &device));
  check_fails(clade_compile(b->g, device, &func), status, words);
  assert_null(func);
  clade_device_release(device);
  clade_graph_release(b->g);
}

#define REFUSED(status, words, expression) \
  do {                                     \
    bad b = begin();                       \
    (void)(expression);                    \
    end(&b, status, words, #expression);   \
  } while (0)
#define REFUSED_STATEMENT(status, words, statement) \
  do {                                              \
    bad b = begin();                                \
    statement;                                      \
    end(&b, status, words, #statement);             \
  } while (0)

static char long_name[400];
static const clade_initial zero;

static void names(void **state) {
  (void)state;
  memset(long_name, 'a', sizeof long_name - 1);
  REFUSED(CLADE_DUPLICATE, "input \"x\": another input", clade_input(b.g, "x", CLADE_F32, CLADE_SCALAR));
  REFUSED(CLADE_INVALID, "has at most 255 bytes, this one has 399",
          clade_input(b.g, long_name, CLADE_F32, CLADE_SCALAR));
  REFUSED(CLADE_INVALID, "not the byte 0x0a", clade_input(b.g, "x\ny", CLADE_F32, CLADE_SCALAR));
  REFUSED(CLADE_INVALID, "not the byte 0xc3", clade_variable(b.g, "\xc3\xa9", CLADE_F32, CLADE_SCALAR, zero));
  REFUSED(CLADE_INVALID, "the name is empty", clade_variable(b.g, "", CLADE_F32, CLADE_SCALAR, zero));
  REFUSED_STATEMENT(CLADE_INVALID, "output: the name is NULL", clade_output(b.g, NULL, b.x));
  REFUSED_STATEMENT(CLADE_DUPLICATE, "output \"y\": another output",
                    (clade_output(b.g, "y", b.x), clade_output(b.g, "y", b.x)));
  REFUSED(CLADE_INVALID, "nn_linear: the name is NULL", clade_nn_linear(b.g, NULL, b.x, .out = 1));
  REFUSED(CLADE_INVALID, "nn_linear: the name is empty", clade_nn_linear(b.g, "", b.x, .out = 1));
  REFUSED(CLADE_INVALID, "at most 255 bytes", clade_nn_linear(b.g, long_name, b.x, .out = 1));
  REFUSED(CLADE_INVALID, "nn_linear \"a b\"", clade_nn_linear(b.g, "a b", b.x, .out = 1));
  REFUSED(CLADE_DUPLICATE, "variable \"fc.weight\"",
          (clade_nn_linear(b.g, "fc", b.x, .out = 1), clade_nn_linear(b.g, "fc", b.x, .out = 1)));
  REFUSED(CLADE_BAD_SHAPE, "dimension 0 is no size", clade_input(b.g, "y", CLADE_F32, CLADE_SHAPE(CLADE_DIM("a b"))));
  REFUSED(CLADE_BAD_SHAPE, "dimension 0 is no size",
          clade_input(b.g, "y", CLADE_F32, CLADE_SHAPE(CLADE_DIM(long_name))));
}

static void shapes(void **state) {
  (void)state;
  const clade_dim ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const clade_shape deep = clade_shape_of(12, ones), negative = {.rank = -1};
  REFUSED(CLADE_BAD_SHAPE, "0 to 8 dimensions, not 12", clade_input(b.g, "y", CLADE_F32, deep));
  REFUSED(CLADE_BAD_SHAPE, "0 to 8 dimensions, not -1", clade_input(b.g, "y", CLADE_F32, negative));
  REFUSED(CLADE_BAD_SHAPE, "8 dimensions", clade_fill(b.g, CLADE_F32, deep, 0));
  REFUSED(CLADE_BAD_SHAPE, "8 dimensions", clade_reshape(b.g, b.x, deep));
  REFUSED(CLADE_BAD_SHAPE, "8 dimensions", clade_reshape(b.g, b.x, negative));
  REFUSED(CLADE_BAD_SHAPE, "8 dimensions", clade_broadcast(b.g, b.x, deep));
  REFUSED(CLADE_BAD_SHAPE, "8 dimensions", clade_broadcast(b.g, b.x, negative));
  REFUSED(CLADE_OVERFLOW, "variable \"w\"", clade_variable(b.g, "w", CLADE_F32, CLADE_SHAPE(INT64_MAX, 3), zero));
  REFUSED(CLADE_OVERFLOW, "more bytes", clade_variable(b.g, "w", CLADE_F32, CLADE_SHAPE(INT64_MAX / 2), zero));
  REFUSED(CLADE_OVERFLOW, "more elements", clade_fill(b.g, CLADE_F32, CLADE_SHAPE(0, INT64_MAX, 3), 0));
  REFUSED(CLADE_OVERFLOW, "broadcast: the new shape", clade_broadcast(b.g, b.x, CLADE_SHAPE(INT64_MAX, 2, 3)));
  REFUSED(CLADE_OVERFLOW, "nn_linear \"fc\": .out is", clade_nn_linear(b.g, "fc", b.x, .out = INT64_MAX));
  REFUSED(CLADE_INVALID, ".out is -1", clade_nn_linear(b.g, "fc", b.x, .out = -1));
  REFUSED(CLADE_BAD_SHAPE, "[2, -3] is negative", clade_input(b.g, "y", CLADE_F32, CLADE_SHAPE(2, -3)));
  REFUSED(CLADE_BAD_SHAPE, "[2, 3] and cannot become [2, 4]", clade_reshape(b.g, b.x, CLADE_SHAPE(2, 4)));
  REFUSED(CLADE_BAD_SHAPE, "dimensions 0 and 1", clade_reshape(b.g, b.x, CLADE_SHAPE(CLADE_DIM_REST, CLADE_DIM_REST)));
  REFUSED(CLADE_BAD_SHAPE, "broadcast: ", clade_broadcast(b.g, b.x, CLADE_SHAPE(2, 4)));
  REFUSED(CLADE_BAD_SHAPE, "[2, 3] and [2] do not broadcast",
          clade_add(b.g, b.x, clade_fill(b.g, CLADE_F32, CLADE_SHAPE(2), 0)));
  REFUSED(CLADE_BAD_SHAPE, "inner dimensions differ", clade_gemm(b.g, b.x, b.x));
  REFUSED(CLADE_BAD_SHAPE, "gemm: .bias", clade_gemm(b.g, b.x, b.x, .trans_b = true, .bias = b.x));
}

static void axes(void **state) {
  (void)state;
  const int twice[2] = {0, 0}, far[2] = {0, 7}, least[2] = {INT32_MIN, 0};
  REFUSED(CLADE_INVALID, "axis 2 is out of range for a value of rank 2", clade_softmax(b.g, b.x, 2));
  REFUSED(CLADE_INVALID, "axis -3", clade_arg_max(b.g, b.x, -3));
  REFUSED(CLADE_INVALID, "axis 3", clade_flatten(b.g, b.x, 3));
  REFUSED(CLADE_INVALID, "axis -2147483648", clade_softmax(b.g, b.x, INT32_MIN));
  REFUSED(CLADE_INVALID, ".axes[0] is 5", clade_sum(b.g, b.x, .n_axes = 1, .axes = {5}));
  REFUSED(CLADE_INVALID, "axis 1 is named twice", clade_sum(b.g, b.x, .n_axes = 2, .axes = {1, -1}));
  REFUSED(CLADE_INVALID, ".n_axes is 9", clade_mean(b.g, b.x, .n_axes = 9));
  REFUSED(CLADE_INVALID, ".n_axes is -1", clade_reduce_max(b.g, b.x, .n_axes = -1));
  REFUSED(CLADE_INVALID, "transpose", clade_transpose(b.g, b.x, 2, NULL));
  REFUSED(CLADE_INVALID, "transpose", clade_transpose(b.g, b.x, 2, twice));
  REFUSED(CLADE_INVALID, "transpose", clade_transpose(b.g, b.x, 2, far));
  REFUSED(CLADE_INVALID, "transpose", clade_transpose(b.g, b.x, 2, least));
  REFUSED(CLADE_INVALID, "transpose", clade_transpose(b.g, b.x, INT32_MAX, twice));
  REFUSED(CLADE_INVALID, "axis 9", clade_pack(b.g, b.x, (clade_layout){.axis = 9, .block = 4}));
  REFUSED(CLADE_INVALID, "block is 0", clade_pack(b.g, b.x, (clade_layout){.axis = 0}));
  REFUSED(CLADE_INVALID, "no axis before", clade_pack(b.g, b.x, (clade_layout){.block = 4, .interleave = 2}));
  REFUSED(CLADE_INVALID, "x is dense", clade_unpack(b.g, b.x));
}

static void types(void **state) {
  (void)state;
  REFUSED(CLADE_DTYPE, "99 is not an element type", clade_input(b.g, "y", (clade_dtype)99, CLADE_SCALAR));
  REFUSED(CLADE_DTYPE, "-1 is not an element type", clade_input(b.g, "y", (clade_dtype)-1, CLADE_SCALAR));
  REFUSED(CLADE_DTYPE, "0 is not an element type", clade_fill(b.g, CLADE_DTYPE_NONE, CLADE_SCALAR, 0));
  REFUSED(CLADE_DTYPE, "cast: 99 is no element type", clade_cast(b.g, b.x, (clade_dtype)99));
  REFUSED(CLADE_DTYPE, "operand 0 is f32, operand 1 is f16", clade_add(b.g, b.x, clade_cast(b.g, b.x, CLADE_F16)));
  REFUSED(CLADE_DTYPE, "a is f32 and b is bf16",
          clade_gemm(b.g, b.x, clade_cast(b.g, b.x, CLADE_BF16), .trans_b = true));
  REFUSED(CLADE_DTYPE, "expected bool", clade_select(b.g, b.x, b.x, b.x));
  REFUSED(CLADE_DTYPE, "expected bool", clade_logical_and(b.g, b.x, b.x));
  REFUSED(CLADE_DTYPE, "expected a float", clade_exp(b.g, clade_cast(b.g, b.x, CLADE_I32)));
  REFUSED(CLADE_DTYPE, "counter is f32; expected i64", clade_random_normal(b.g, CLADE_SHAPE(2), 1, b.x));
  REFUSED(CLADE_DTYPE, "softmax: x is i8", clade_softmax(b.g, clade_cast(b.g, b.x, CLADE_I8), 0));
  REFUSED(CLADE_DTYPE, "nn_linear \"fc\"", clade_nn_linear(b.g, "fc", clade_cast(b.g, b.x, CLADE_I32), .out = 2));
  REFUSED(CLADE_DTYPE, "layer \"fc\": .dtype is", clade_nn_linear(b.g, "fc", b.x, .out = 2, .dtype = CLADE_I8));
  REFUSED(CLADE_INVALID, "300 is no value of i8", clade_fill(b.g, CLADE_I8, CLADE_SCALAR, 300));
  REFUSED(CLADE_INVALID, "7 is no kind",
          clade_variable(b.g, "w", CLADE_F32, CLADE_SCALAR, (clade_initial){(clade_init_kind)7, 0, 0}));
}

static void values(void **state) {
  (void)state;
  const clade_val none = {0};
  REFUSED(CLADE_INVALID, "relu: operand 0: value 1 belongs to another graph", clade_relu(b.g, b.other));
  REFUSED(CLADE_INVALID, "add: operand 1: no value is given", clade_add(b.g, b.x, none));
  REFUSED(CLADE_INVALID, "there is no value 77", clade_add(b.g, b.x, (clade_val){b.x.graph, 77}));
  REFUSED(CLADE_INVALID, "no value is given", clade_nn_linear(b.g, "fc", none, .out = 3));
  REFUSED(CLADE_INVALID, "another graph", clade_cast(b.g, b.other, CLADE_F16));
  REFUSED(CLADE_INVALID, "another graph", clade_sum(b.g, b.other));
  REFUSED(CLADE_INVALID, "another graph", clade_softmax(b.g, b.other, 0));
  REFUSED(CLADE_INVALID, "another graph", clade_gemm(b.g, b.x, b.x, .trans_b = true, .bias = b.other));
  REFUSED(CLADE_INVALID, "another graph", clade_gradients(b.g, b.other, none, 0, NULL, NULL));
  REFUSED(CLADE_INVALID, "xs or dxs is NULL", clade_gradients(b.g, b.x, none, 1, &b.x, NULL));
  REFUSED_STATEMENT(CLADE_INVALID, "output \"y\": value 1 belongs to another graph", clade_output(b.g, "y", b.other));
  REFUSED_STATEMENT(CLADE_INVALID, "value 1 is not a variable but input \"x\"", clade_assign(b.g, b.x, b.x));
  REFUSED(CLADE_NOT_FOUND, "no function \"relux\"", clade_eltwise(b.g, "relux", 1, &b.x, 0, NULL));
  REFUSED(CLADE_NOT_FOUND, "no function \"(null)\"", clade_eltwise(b.g, NULL, 1, &b.x, 0, NULL));
  REFUSED(CLADE_INVALID, "relu: 3 operands; expected 1", clade_eltwise(b.g, "relu", 3, &b.x, 0, NULL));
  REFUSED(CLADE_INVALID, "relu: -1 operands; expected 1", clade_eltwise(b.g, "relu", -1, &b.x, 0, NULL));
  REFUSED(CLADE_INVALID, "elu: 5 parameters", clade_eltwise(b.g, "elu", 1, &b.x, 5, (double[5]){0}));
  REFUSED(CLADE_INVALID, "lo is 2, hi is 1", clade_clip(b.g, b.x, 2, 1));
  REFUSED(CLADE_INVALID, "clip: lo is nan", clade_clip(b.g, b.x, (double)__builtin_nanf(""), 1));
}

static void variables(void **state) {
  (void)state;
#define W clade_variable(b.g, "w", CLADE_F32, CLADE_SHAPE(2, 3), zero)
  REFUSED_STATEMENT(CLADE_DUPLICATE, "assign \"w\": the variable is assigned already", {
    clade_val w = W;
    clade_assign(b.g, w, b.x);
    clade_assign(b.g, w, b.x);
  });
  REFUSED_STATEMENT(CLADE_DTYPE, "assign \"w\": the value is i32[2, 3], the variable f32[2, 3]",
                    clade_assign(b.g, W, clade_cast(b.g, b.x, CLADE_I32)));
  REFUSED_STATEMENT(CLADE_BAD_SHAPE, "assign \"w\": the value is f32[3, 2]",
                    clade_assign(b.g, W, clade_reshape(b.g, b.x, CLADE_SHAPE(3, 2))));
  REFUSED_STATEMENT(CLADE_INVALID, "assign \"w\": value 1 belongs to another graph", clade_assign(b.g, W, b.other));
  REFUSED_STATEMENT(CLADE_INVALID, "is not a variable", clade_assign(b.g, clade_relu(b.g, W), b.x));
}

static void variable_of_another_graph(void **state) {
  (void)state;
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  const clade_val foreign = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2, 3), zero);
  assert_true(clade_val_ok(foreign));
  REFUSED_STATEMENT(CLADE_INVALID, "assign: the variable: value 1 belongs to another graph",
                    clade_assign(b.g, foreign, b.x));
  REFUSED(CLADE_INVALID, "relu: operand 0: value 1 belongs to another graph", clade_relu(b.g, foreign));
  clade_graph_release(g);
}

static void options(void **state) {
  (void)state;
  clade_linear_opt linear = {.size = 4, .out = 1};
  clade_gemm_opt gemm = {0};
  clade_reduce_opt reduce = {.size = 1};
  REFUSED(CLADE_INVALID, "nn_linear: the options' size is 4", clade_nn_linear_(b.g, "fc", &linear));
  REFUSED(CLADE_INVALID, "gemm: the options' size is 0", clade_gemm_(b.g, b.x, &gemm));
  gemm.size = sizeof gemm;
  REFUSED(CLADE_INVALID, "gemm: the options lack their defaults: begin them with {CLADE_GEMM_OPT}",
          clade_gemm_(b.g, b.x, &gemm));
  REFUSED(CLADE_INVALID, "sum: the options' size is 1", clade_sum_(b.g, &reduce));
  REFUSED(CLADE_INVALID, "no value is given", clade_sum_(b.g, NULL));
}

static void places(void **state) {
  (void)state;
  clade_graph *g;
  clade_func *func;
  clade_device *device;
  check_ok(clade_device_find("pocl", &device));
  REFUSED_STATEMENT(CLADE_INVALID, "device -1", clade_graph_place(b.g, -1));
  REFUSED(CLADE_INVALID, "transfer: index is -4", clade_transfer(b.g, b.x, -4));
  for (int way = 0; way < 2; way++) { /* the number of devices is known at compilation only */
    check_ok(clade_graph_new(&g));
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2));
    if (way) clade_graph_place(g, 1000000);
    clade_output(g, "y", way ? clade_relu(g, x) : clade_transfer(g, x, 1));
    check_fails(clade_compile(g, device, &func), CLADE_INVALID, way ? "on device 1000000, of 1" : "on device 1, of 1");
    clade_graph_release(g);
  }
  clade_device_release(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),
      cmocka_unit_test(shapes),
      cmocka_unit_test(axes),
      cmocka_unit_test(types),
      cmocka_unit_test(values),
      cmocka_unit_test(variables),
      cmocka_unit_test(variable_of_another_graph),
      cmocka_unit_test(options),
      cmocka_unit_test(places),
  };
  return cmocka_run_group_tests_name("bad_graph", tests, NULL, NULL);
}

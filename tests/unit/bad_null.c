/* NULL for every handle and every result of all public functions. Each call fails with a message that names the NULL
 * argument, or does nothing if the header says so. */
#include <clade/opencl.h>

#include <clade/clade.h>

#include "cl_unit.h"

#define NO_VALUE ((clade_val){0, 0})

/* For builders that return a value. */
#define check_no_value(expression, words)                                                                        \
  do {                                                                                                           \
    clade_val check_v = (expression);                                                                            \
    if (clade_val_ok(check_v) || !strstr(clade_last_error(), (words)))                                           \
      fail_msg("%s: value %u, \"%s\", expected \"…%s…\"", #expression, check_v.id, clade_last_error(), (words)); \
  } while (0)

static void settings(void **state) {
  (void)state;
  char path[4];
  check_fails(clade_cache_path(NULL, 10), CLADE_INVALID, "path is NULL");
  check_fails(clade_cache_path(path, 1), CLADE_OVERFLOW, "size is 1");
  clade_log_set(NULL, NULL, CLADE_LOG_DEBUG);
  assert_int_equal(clade_fail(CLADE_IO, NULL), CLADE_IO);
  assert_string_equal(clade_last_error(), "input or output failed");
  assert_string_equal(clade_status_name((clade_status)-1), "CLADE_?");
  assert_string_equal(clade_status_text((clade_status)1000), "unknown status");
}

static void types(void **state) {
  (void)state;
  char text[8] = "?";
  size_t bytes;
  int64_t elements;
  clade_shape shape = CLADE_SHAPE(2, 3);
  clade_type type = {.dtype = CLADE_F32, .shape = shape};
  check_fails(clade_dtype_bytes(CLADE_F32, 1, NULL), CLADE_INVALID, "bytes is NULL");
  check_fails(clade_shape_elements(NULL, &elements), CLADE_INVALID, "the shape is NULL");
  check_fails(clade_shape_elements(&shape, NULL), CLADE_INVALID, "elements is NULL");
  check_fails(clade_type_bytes(NULL, &bytes), CLADE_INVALID, "the type is NULL");
  check_fails(clade_type_bytes(&type, NULL), CLADE_INVALID, "bytes is NULL");
  check_fails(clade_convert(CLADE_F32, NULL, CLADE_F16, text, 1), CLADE_INVALID, "dst is NULL");
  check_fails(clade_convert(CLADE_F32, text, CLADE_F16, NULL, 1), CLADE_INVALID, "src is NULL");
  assert_false(clade_shape_equal(NULL, &shape));
  assert_false(clade_shape_equal(&shape, NULL));
  assert_false(clade_type_equal(&type, NULL));
  assert_false(clade_type_equal(NULL, &type));
  assert_false(clade_shape_is_constant(NULL));
  assert_null(clade_shape_text(&shape, NULL, 5));
  assert_string_equal(clade_shape_text(NULL, text, sizeof text), "?");
  assert_string_equal(clade_shape_text(&shape, text, 4), "[2,");
  assert_true(clade_dim_symbol(NULL) == CLADE_DIM_ERROR);
  assert_non_null(strstr(clade_last_error(), "(null)"));
  clade_shape none = clade_shape_of(2, NULL); /* refused at its first use */
  check_fails(clade_shape_elements(&none, &elements), CLADE_BAD_SHAPE, "dimension 0");
}

static void devices(void **state) {
  (void)state;
  int count;
  clade_device *device = NULL;
  clade_device_info info = {0};
  clade_memory_use use = {0};
  check_fails(clade_device_count(NULL), CLADE_INVALID, "count is NULL");
  check_ok(clade_device_count(&count));
  check_fails(clade_device_describe(count, &info), CLADE_NOT_FOUND, "no device");
  check_fails(clade_device_describe(-1, &info), CLADE_NOT_FOUND, "no device -1");
  check_fails(clade_device_describe(0, NULL), CLADE_INVALID, "info is NULL");
  check_fails(clade_device_describe(0, &info), CLADE_INVALID, "info->size is 0");
  assert_int_equal(clade_device_quirks(-1, NULL), 0);
  check_fails(clade_device_find("pocl", NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_device_split(NULL, 2, &device), CLADE_INVALID, "device is NULL");
  check_fails(clade_device_get_info(NULL, &info), CLADE_INVALID, "device is NULL");
  check_fails(clade_device_status(NULL), CLADE_INVALID, "device is NULL");
  check_fails(clade_device_memory(NULL, &use), CLADE_INVALID, "device is NULL");
  check_fails(clade_device_set_budget(NULL, 1), CLADE_INVALID, "device is NULL");
  check_ok(clade_device_find("pocl", &device));
  check_fails(clade_device_split(device, 2, NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_device_split(device, 0, &device), CLADE_INVALID, "0 parts");
  check_fails(clade_device_get_info(device, NULL), CLADE_INVALID, "info is NULL");
  check_fails(clade_device_memory(device, NULL), CLADE_INVALID, "use is NULL");
  check_fails(clade_device_memory(device, &use), CLADE_INVALID, "use->size is 0");
  clade_device_release(device);
  clade_device_release(NULL);
  assert_null(clade_device_retain(NULL));
  assert_null(clade_device_context(NULL));
  assert_null(clade_device_cl_id(NULL));
  check_fails(clade_device_adopt(NULL, NULL, &device), CLADE_INVALID, "context is NULL");
}

static void tensors(void **state) {
  (void)state;
  clade_tensor *t = NULL;
  size_t offset = 7;
  char byte = 0;
  check_fails(clade_tensor_new(NULL, CLADE_F32, CLADE_SHAPE(1), NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_tensor_write(NULL, &byte, 1), CLADE_INVALID, "the tensor is NULL");
  check_fails(clade_tensor_read(NULL, &byte, 1), CLADE_INVALID, "the tensor is NULL");
  check_fails(clade_tensor_wrap(NULL, NULL, 0, CLADE_F32, CLADE_SHAPE(1), &t), CLADE_INVALID, "device is NULL");
  assert_null(clade_tensor_retain(NULL));
  clade_tensor_release(NULL);
  assert_int_equal(clade_tensor_type(NULL).dtype, CLADE_DTYPE_NONE);
  assert_int_equal(clade_tensor_bytes(NULL), 0);
  assert_null(clade_tensor_device(NULL));
  assert_null(clade_tensor_data(NULL));
  assert_null(clade_tensor_mem(NULL, &offset));
  assert_int_equal(offset, 0);
  check_ok(clade_tensor_new(NULL, CLADE_U8, CLADE_SHAPE(1), &t));
  assert_null(clade_tensor_mem(t, NULL));
  check_fails(clade_tensor_write(t, NULL, 1), CLADE_INVALID, "NULL");
  check_fails(clade_tensor_read(t, NULL, 1), CLADE_INVALID, "NULL");
  clade_tensor_release(t);
}

static void graphs(void **state) {
  (void)state;
  clade_type type;
  char *text;
  clade_initial zero = {0};
  check_fails(clade_graph_new(NULL), CLADE_INVALID, "out is NULL");
  assert_null(clade_graph_retain(NULL));
  clade_graph_release(NULL);
  check_fails(clade_graph_status(NULL), CLADE_INVALID, "graph is NULL");
  check_fails(clade_val_type(NULL, NO_VALUE, &type), CLADE_INVALID, "graph is NULL");
  check_fails(clade_graph_print(NULL, CLADE_PRINT_TEXT, &text), CLADE_INVALID, "graph is NULL");
  check_fails(clade_gradients(NULL, NO_VALUE, NO_VALUE, 0, NULL, NULL), CLADE_INVALID, "graph is NULL");
  clade_text_free(NULL);
  check_no_value(clade_input(NULL, "x", CLADE_F32, CLADE_SCALAR), "graph is NULL");
  check_no_value(clade_constant(NULL, CLADE_F32, CLADE_SCALAR, ""), "graph is NULL");
  check_no_value(clade_fill(NULL, CLADE_F32, CLADE_SCALAR, 1), "graph is NULL");
  check_no_value(clade_variable(NULL, "x", CLADE_F32, CLADE_SCALAR, zero), "graph is NULL");
  check_no_value(clade_node_add(NULL, NULL, NULL, NULL, 0, NULL, NULL), "graph is NULL");
  clade_output(NULL, "y", NO_VALUE);
  clade_assign(NULL, NO_VALUE, NO_VALUE);
  clade_graph_place(NULL, 1);
}

static void ops_without_a_graph(void **state) {
  (void)state;
  const clade_val v = {1, 1};
  int axis = 0;
#define X(name) check_no_value(clade_##name(NULL, v), "graph is NULL");
  CLADE_UNARY_MAP(X)
#undef X
#define X(name) check_no_value(clade_##name(NULL, v, v), "graph is NULL");
  CLADE_BINARY_MAP(X)
#undef X
#define X(name)                                           \
  check_no_value(clade_##name(NULL, v), "graph is NULL"); \
  check_no_value(clade_##name##_(NULL, NULL), "graph is NULL");
  CLADE_REDUCE_MAP(X)
#undef X
  check_no_value(clade_eltwise(NULL, "relu", 1, &v, 0, NULL), "graph is NULL");
  check_no_value(clade_leaky_relu(NULL, v, 1), "graph is NULL");
  check_no_value(clade_elu(NULL, v, 1), "graph is NULL");
  check_no_value(clade_clip(NULL, v, 0, 1), "graph is NULL");
  check_no_value(clade_select(NULL, v, v, v), "graph is NULL");
  check_no_value(clade_cast(NULL, v, CLADE_F16), "graph is NULL");
  check_no_value(clade_arg_max(NULL, v, 0), "graph is NULL");
  check_no_value(clade_softmax(NULL, v, 0), "graph is NULL");
  check_no_value(clade_reshape(NULL, v, CLADE_SCALAR), "graph is NULL");
  check_no_value(clade_flatten(NULL, v, 0), "graph is NULL");
  check_no_value(clade_transpose(NULL, v, 1, &axis), "graph is NULL");
  check_no_value(clade_broadcast(NULL, v, CLADE_SCALAR), "graph is NULL");
  check_no_value(clade_pack(NULL, v, (clade_layout){0}), "graph is NULL");
  check_no_value(clade_unpack(NULL, v), "graph is NULL");
  check_no_value(clade_gemm(NULL, v, v), "graph is NULL");
  check_no_value(clade_gemm_(NULL, v, NULL), "graph is NULL");
  check_no_value(clade_random_uniform(NULL, CLADE_SCALAR, 1, v), "graph is NULL");
  check_no_value(clade_random_normal(NULL, CLADE_SCALAR, 1, v), "graph is NULL");
  check_no_value(clade_transfer(NULL, v, 0), "graph is NULL");
  check_no_value(clade_nn_linear(NULL, "fc", v, .out = 1), "graph is NULL");
  check_no_value(clade_nn_linear_(NULL, "fc", NULL), "graph is NULL");
}

static void emitting(void **state) {
  (void)state;
  size_t one = 1;
  assert_null(clade_emit_kernel(NULL, "k"));
  assert_non_null(strstr(clade_last_error(), "emit is NULL"));
  clade_emit_define(NULL, "A", 1);
  clade_emit_define_text(NULL, "A", "1");
  clade_emit_in(NULL, 0);
  clade_emit_out(NULL, 0);
  clade_emit_workspace(NULL, 0, 4);
  clade_emit_i32(NULL, 1);
  clade_emit_u32(NULL, 1);
  clade_emit_f32(NULL, 1);
  clade_emit_index(NULL, 1);
  clade_emit_index8(NULL, 0, NULL);
  clade_emit_local(NULL, 1);
  clade_emit_range(NULL, 1, &one, &one);
  clade_emit_copy(NULL, 0, 0);
  assert_null(clade_emit_library(NULL, "routine", NULL, NULL, 0));
}

static void funcs(void **state) {
  (void)state;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_func_info info = {.size = sizeof info};
  clade_port_info port = {.size = sizeof port};
  clade_impl_info impl = {.size = sizeof impl};
  char *text;
  int count;
  check_fails(clade_compile_(NULL, NULL, NULL), CLADE_INVALID, "clade_compile");
  check_fails(clade_compile(NULL, NULL, &func), CLADE_INVALID, "graph is NULL");
  check_fails(clade_func_specialize(NULL, 0, NULL, &func), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_specialize(NULL, 0, NULL, NULL), CLADE_INVALID, "NULL");
  assert_null(clade_func_retain(NULL));
  clade_func_release(NULL);
  check_fails(clade_func_explain(NULL, &text), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_explain_brief(NULL, &text), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_steps(NULL, &text), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_steps(NULL, NULL), CLADE_INVALID, "NULL");
  check_fails(clade_func_impl_count(NULL, &count), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_impl(NULL, 0, &impl), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_get_info(NULL, &info), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_input(NULL, 0, &port), CLADE_INVALID, "func is NULL");
  check_fails(clade_func_output(NULL, 0, &port), CLADE_INVALID, "func is NULL");
  check_fails(clade_vars_new(NULL, 0, &vars), CLADE_INVALID, "func is NULL");
  check_fails(clade_vars_new(NULL, 0, NULL), CLADE_INVALID, "NULL");
  assert_null(clade_vars_retain(NULL));
  clade_vars_release(NULL);
  assert_int_equal(clade_vars_count(NULL), 0);
  check_fails(clade_vars_describe(NULL, 0, &port), CLADE_INVALID, "vars is NULL");
  check_fails(clade_vars_set(NULL, "w", &info, 4), CLADE_INVALID, "vars is NULL");
  check_fails(clade_vars_get(NULL, "w", &info, 4), CLADE_INVALID, "vars is NULL");
  check_fails(clade_vars_snapshot(NULL, &vars), CLADE_INVALID, "vars is NULL");
}

static void runs(void **state) {
  (void)state;
  clade_run *run = NULL;
  clade_ticket ticket;
  cl_event event;
  char byte;
  check_fails(clade_run_new_(NULL, NULL, NULL), CLADE_INVALID, "clade_run_new");
  check_fails(clade_run_new(NULL, NULL, &run), CLADE_INVALID, "func is NULL");
  check_fails(clade_run_new_on(NULL, NULL, NULL, NULL), CLADE_INVALID, "queue is NULL");
  clade_run_free(NULL);
  check_fails(clade_execute(NULL, 0, NULL, &ticket), CLADE_INVALID, "run is NULL");
  check_fails(clade_execute_after(NULL, 0, NULL, 0, NULL, &ticket, &event), CLADE_INVALID, "run is NULL");
  check_fails(clade_read(NULL, 1, "y", &byte, 1), CLADE_INVALID, "run is NULL");
  check_fails(clade_wait(NULL, 1), CLADE_INVALID, "run is NULL");
  check_fails(clade_cancel(NULL), CLADE_INVALID, "run is NULL");
  check_fails(clade_run_status(NULL), CLADE_INVALID, "run is NULL");
  check_fails(clade_run_trace(NULL, "x"), CLADE_INVALID, "run is NULL");
  check_fails(clade_run_observe(NULL, NULL, NULL), CLADE_INVALID, "run is NULL");
}

static void quantization(void **state) {
  (void)state;
  clade_quantization *q = NULL;
  clade_quantization_layer layer = {.size = sizeof layer};
  clade_graph *g;
  char *text;
  check_ok(clade_graph_new(&g));
  check_fails(clade_quantization_new(NULL, NULL, NULL, &q), CLADE_INVALID, "graph is NULL");
  check_fails(clade_quantization_new(g, NULL, NULL, &q), CLADE_INVALID, "device is NULL");
  check_fails(clade_quantization_new(g, NULL, NULL, NULL), CLADE_INVALID, "no place for the quantization");
  check_fails(clade_quantization_observe(NULL, 0, 0, 0, NULL), CLADE_INVALID, "quantization is NULL");
  check_fails(clade_quantization_keep(NULL, 0, true), CLADE_INVALID, "quantization is NULL");
  check_fails(clade_quantization_text(NULL, &text), CLADE_INVALID, "quantization is NULL");
  check_fails(clade_quantization_apply(NULL, NULL), CLADE_INVALID, "quantization is NULL");
  check_fails(clade_quantization_get_layer(NULL, 0, &layer), CLADE_INVALID, "quantization is NULL");
  assert_int_equal(clade_quantization_count(NULL), 0);
  assert_string_equal(clade_calibration_name((clade_calibration)9), "?");
  clade_quantization_free(NULL);
  check_no_value(clade_quantize(NULL, NO_VALUE, 1, CLADE_I8), "graph is NULL");
  check_no_value(clade_dequantize(NULL, NO_VALUE, NO_VALUE, 0), "graph is NULL");
  clade_graph_release(g);
}

static void pruning(void **state) {
  (void)state;
  clade_pruning *p = NULL;
  clade_pruning_info info = {.size = sizeof info};
  clade_pruning_layer layer = {.size = sizeof layer};
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  check_fails(clade_prune_channels(NULL, NULL, &p, .sparsity = 0.5), CLADE_INVALID, "graph is NULL");
  check_fails(clade_prune_channels(g, NULL, &p, .sparsity = 0.5), CLADE_INVALID, "variables are NULL");
  check_fails(clade_prune_channels(g, NULL, NULL), CLADE_INVALID, "no place for the result");
  check_fails(clade_pruning_shapes(NULL, g), CLADE_INVALID, "pruning is NULL");
  check_fails(clade_pruning_check(NULL, g), CLADE_INVALID, "pruning is NULL");
  check_fails(clade_pruning_apply(NULL, NULL, NULL), CLADE_INVALID, "pruning is NULL");
  check_fails(clade_pruning_get_info(NULL, &info), CLADE_INVALID, "pruning is NULL");
  check_fails(clade_pruning_get_layer(NULL, 0, &layer), CLADE_INVALID, "pruning is NULL");
  check_fails(clade_prune_weights(NULL, CLADE_PRUNE_WEIGHTS, 0.5, NULL), CLADE_INVALID, "variables are NULL");
  check_fails(clade_checkpoint_shapes(NULL, g), CLADE_INVALID, "checkpoint is NULL");
  clade_graph_shape(NULL, "w", CLADE_SCALAR);
  assert_non_null(strstr(clade_last_error(), "the graph is NULL"));
  clade_pruning_free(NULL);
  clade_tie(NULL, 0, 0, 0, 0, 0, 0, 0);
  clade_tie_axes(NULL, 0, 0, 0, 0);
  clade_keep_axis(NULL, 0, 0);
  assert_true(clade_axis_kept(NULL, 0, 0));
  assert_string_equal(clade_prune_structure_name((clade_prune_structure)9), "?");
  clade_graph_shape(g, NULL, CLADE_SCALAR);
  check_fails(clade_graph_status(g), CLADE_INVALID, "the name is NULL");
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings), cmocka_unit_test(types),        cmocka_unit_test(devices),
      cmocka_unit_test(tensors),  cmocka_unit_test(graphs),       cmocka_unit_test(ops_without_a_graph),
      cmocka_unit_test(emitting), cmocka_unit_test(funcs),        cmocka_unit_test(runs),
      cmocka_unit_test(pruning),  cmocka_unit_test(quantization),
  };
  return cmocka_run_group_tests_name("bad_null", tests, NULL, NULL);
}

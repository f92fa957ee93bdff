/* Errors in compiling, specializing, binding variables, feeding and reading; func, run and variables stay usable
 * afterwards. */
#include <clade/clade.h>

#include "cl_unit.h"

typedef struct kit {
  clade_device *device, *part[2];
  clade_func *func, *shaped; /* y = x w, x f32[batch, 3], w f32[3, 2]; shaped: batch 2 */
  clade_vars *vars;
  clade_run *run;
} kit;

static clade_graph *product(const char *input, const char *variable, clade_dim batch, clade_dim inner,
                            clade_dtype dtype) {
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  clade_val x = clade_input(g, input, dtype, CLADE_SHAPE(batch, inner));
  clade_val w = clade_variable(g, variable, dtype, CLADE_SHAPE(inner, 2), (clade_initial){CLADE_INIT_FILL, 1, 0});
  clade_output(g, "y", clade_gemm(g, x, w));
  return g;
}

static clade_func *compiled(clade_graph *g, clade_device *device) {
  clade_func *func;
  check_ok(clade_compile(g, device, &func));
  clade_graph_release(g);
  return func;
}

static int set_up(void **state) {
  static kit k;
  if (clade_device_find("pocl", &k.device) != CLADE_OK || clade_device_split(k.device, 2, k.part) != CLADE_OK)
    return -1;
  k.func = compiled(product("x", "w", CLADE_DIM("batch"), 3, CLADE_F32), k.device);
  check_ok(clade_func_specialize(k.func, CLADE_DIMS({"batch", 2}), &k.shaped));
  check_ok(clade_vars_new(k.func, 1, &k.vars));
  check_ok(clade_run_new(k.shaped, k.vars, &k.run));
  *state = &k;
  return 0;
}

static int tear_down(void **state) {
  kit *k = *state;
  clade_run_free(k->run);
  clade_vars_release(k->vars);
  clade_func_release(k->shaped);
  clade_func_release(k->func);
  for (int i = 0; i < 2; i++) clade_device_release(k->part[i]);
  clade_device_release(k->device);
  return 0;
}

/* The run still computes correct results. */
static void still_right(kit *k) {
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[4];
  clade_ticket ticket;
  check_ok(clade_execute(k->run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  check_ok(clade_read(k->run, ticket, "y", y, sizeof y));
  assert_true(y[0] == 6 && y[1] == 6 && y[2] == 15 && y[3] == 15);
}

static void compiling(void **state) {
  kit *k = *state;
  clade_func *func = NULL;
  clade_compile_opt opt = {.size = 2, .out = &func};
  clade_graph *g;
  check_ok(clade_graph_new(&g));
  check_fails(clade_compile(g, k->device, &func), CLADE_INVALID, "no output and assigns nothing");
  clade_graph_release(g);
  g = product("x", "w", 2, 3, CLADE_F32);
  check_fails(clade_compile_(g, k->device, &opt), CLADE_INVALID, "clade_compile: the options' size is 2");
  check_fails(clade_compile(g, k->device, &func, .n_devices = -1), CLADE_INVALID, ".n_devices is -1");
  check_fails(clade_compile(g, k->device, &func, .n_devices = 2), CLADE_INVALID, ".n_devices is 2, .devices is NULL");
  check_fails(clade_compile(g, k->device, &func, .n_devices = 2, .devices = (clade_device *[2]){k->device, NULL}),
              CLADE_INVALID, "device 2 is NULL");
  assert_null(func);
  check_ok(clade_compile(g, k->device, &func));
  clade_func_release(func);
  assert_false(clade_val_ok(clade_fill(g, CLADE_F32, CLADE_SCALAR, 1))); /* the graph is sealed after compilation */
  assert_non_null(strstr(clade_last_error(), "was compiled and cannot change"));
  check_ok(clade_compile(g, k->device, &func)); /* which is not a sticky error of the graph */
  clade_func_release(func);
  clade_graph_release(g);
}

static void preferring(void **state) {
  static const struct {
    const char *prefer;
    clade_status status;
    const char *words;
  } cases[] = {
      {"gemm", CLADE_INVALID, "prefer: \"gemm\": op=implementation is expected"},
      {"gemm=", CLADE_INVALID, "\"gemm=\""},
      {"=ref", CLADE_INVALID, "\"=ref\""},
      {",gemm=ref", CLADE_INVALID, "op=implementation is expected"},
      {"gemm=ref,,", CLADE_INVALID, "op=implementation is expected"},
      {"gemm = ref", CLADE_NOT_FOUND, "no op \"gemm \""},
      {"gem=ref", CLADE_NOT_FOUND, "no op \"gem\""},
      {"gemm=fastest", CLADE_NOT_FOUND,
       "gemm has no implementation \"fastest\"; it has: mma_tile, mma, vec, mma_tile_panels, mma_panels, "
       "mma_panels_bare, vec_panels, "
       "vec_bare, dot, few, vec_blocks, mma_warpgroup, mma_warp, mma_warpgroup_loose, "
       "mma_warp_loose, simt, clblast, "},
      {"gemm=ref=vec", CLADE_NOT_FOUND, "\"ref=vec\""},
      {"gemm=ref,gemm=vec", CLADE_DUPLICATE, "\"gemm\" twice"},
      {"softmax=fastest", CLADE_NOT_FOUND, "softmax has no implementation \"fastest\""},
      {"reshape=ref", CLADE_NOT_FOUND, "reshape has no implementation \"ref\""},
  };
  kit *k = *state;
  clade_func *func = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int symbols = 0; symbols < 2; symbols++) { /* symbols do not delay the error */
      clade_graph *g = product("x", "w", symbols ? CLADE_DIM("batch") : 2, 3, CLADE_F32);
      clade_status status = clade_compile(g, k->device, &func, .prefer = cases[i].prefer);
      if (status != cases[i].status || !strstr(clade_last_error(), cases[i].words) || func)
        fail_msg("prefer %s, symbols %d: %s: %s", cases[i].prefer, symbols, clade_status_name(status),
                 clade_last_error());
      clade_graph_release(g);
    }
}

/* Windows of any size are offered to all implementations, including those that do not support them. */
static void large_windows(void **state) {
  static const int64_t sides[] = {47, 48, 49, 63, 64, 65, 66, 129};
  kit *k = *state;
  clade_func *func = NULL;
  for (size_t i = 0; i < 2 * sizeof sides / sizeof *sides; i++) {
    int64_t side = sides[i / 2], width = i % 2 ? 1 : side;
    clade_graph *g;
    check_ok(clade_graph_new(&g));
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, 1, 140, 140));
    clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(1, 1, side, width), (clade_initial){0});
    clade_output(g, "y", clade_conv2d(g, x, w));
    check_ok(clade_compile(g, k->device, &func));
    clade_func_release(func);
    if (side <= 48) {
      check_ok(clade_compile(g, k->device, &func, .prefer = "conv2d=fft"));
      clade_func_release(func);
    } else {
      check_fails(clade_compile(g, k->device, &func, .prefer = "conv2d=fft"), CLADE_NOT_FOUND, "up to 48 x 48");
    }
    clade_graph_release(g);
  }
}

static void specializing(void **state) {
  kit *k = *state;
  clade_func *f = NULL;
  clade_run *run = NULL;
  check_fails(clade_func_specialize(k->func, 0, NULL, &f), CLADE_NOT_FOUND, "dimension \"batch\" has no value");
  check_fails(clade_func_specialize(k->func, CLADE_DIMS({"bach", 1}), &f), CLADE_NOT_FOUND,
              "no dimension \"bach\"; it has: batch");
  check_fails(clade_func_specialize(k->func, CLADE_DIMS({"batch", 1}, {"batch", 2}), &f), CLADE_DUPLICATE,
              "\"batch\" has two values");
  check_fails(clade_func_specialize(k->func, CLADE_DIMS({"batch", -5}), &f), CLADE_INVALID, "\"batch\" is -5");
  check_fails(clade_func_specialize(k->func, CLADE_DIMS({NULL, 5}), &f), CLADE_INVALID, "name of size 0 is NULL");
  check_fails(clade_func_specialize(k->func, 3, NULL, &f), CLADE_INVALID, "3 sizes, the array is NULL");
  check_fails(clade_func_specialize(k->func, -1, NULL, &f), CLADE_INVALID, "-1 sizes");
  check_fails(clade_func_specialize(k->func, CLADE_DIMS({"batch", INT64_MAX}), &f), CLADE_OVERFLOW, "input \"x\"");
  assert_null(f);
  check_fails(clade_func_specialize(k->shaped, CLADE_DIMS({"batch", 2}), &f), CLADE_INVALID, "no symbols left");
  check_ok(clade_func_specialize(k->func, CLADE_DIMS({"batch", 2}), &f));
  assert_ptr_equal(f, k->shaped);
  clade_func_release(f);
  /* Anything whose size does not overflow can be planned; the run reports a lack of memory. */
  check_ok(clade_func_specialize(k->func, CLADE_DIMS({"batch", INT64_MAX / 12}), &f));
  check_fails(clade_run_new(f, k->vars, &run), CLADE_DEVICE_MEMORY, "x: 9223372036854775800 bytes asked");
  assert_null(run);
  clade_func_release(f);
  still_right(k);
}

static void telling(void **state) {
  kit *k = *state;
  char *text = NULL;
  int count;
  clade_func_info info = {0};
  clade_port_info port = {0};
  clade_impl_info impl = {0};
  check_fails(clade_func_get_info(k->func, &info), CLADE_INVALID, "info->size is 0");
  check_fails(clade_func_input(k->func, 0, &port), CLADE_INVALID, "info->size is 0");
  check_fails(clade_func_impl(k->shaped, 0, &impl), CLADE_INVALID, "size is 0");
  check_fails(clade_vars_describe(k->vars, 0, &port), CLADE_INVALID, "info->size is 0");
  port.size = sizeof port;
  check_fails(clade_func_input(k->func, 1, &port), CLADE_NOT_FOUND, "no input 1; the func has 1");
  check_fails(clade_func_output(k->func, -1, &port), CLADE_NOT_FOUND, "no output -1");
  check_fails(clade_vars_describe(k->vars, 1, &port), CLADE_NOT_FOUND, "no variable 1; there are 1");
  check_fails(clade_func_impl_count(k->func, &count), CLADE_INVALID, "clade_func_specialize");
  check_fails(clade_func_explain(k->func, &text), CLADE_INVALID, "clade_func_specialize");
  check_fails(clade_func_steps(k->func, &text), CLADE_INVALID, "clade_func_specialize");
  check_fails(clade_func_explain(k->shaped, NULL), CLADE_INVALID, "NULL");
  info.size = sizeof info.size + sizeof(int); /* from an older header: only its fields are written */
  info.segments = 77;
  check_ok(clade_func_get_info(k->shaped, &info));
  assert_int_equal(info.segments, 77);
  assert_true(info.steps > 0);
}

static void binding(void **state) {
  kit *k = *state;
  clade_run *run = NULL;
  clade_vars *vars;
  clade_run_opt opt = {.size = 3, .out = &run};
  check_fails(clade_run_new(k->func, k->vars, &run), CLADE_INVALID, "clade_func_specialize");
  check_fails(clade_run_new(k->shaped, NULL, &run), CLADE_INVALID, "1 variables (w, …), vars is NULL");
  check_fails(clade_run_new_(k->shaped, k->vars, &opt), CLADE_INVALID, "the options' size is 3");
  check_fails(clade_run_new(k->shaped, k->vars, NULL), CLADE_INVALID, "NULL");
  check_fails(clade_run_new(k->shaped, k->vars, &run, .slots = 65), CLADE_INVALID, ".slots is 65, expected 1 to 64");
  const struct {
    clade_graph *g;
    clade_device *device;
    clade_status status;
    const char *words;
  } cases[] = {
      {product("x", "v", 2, 3, CLADE_F32), k->device, CLADE_NOT_FOUND, "variable w: func expects it"},
      {product("x", "w", 2, 4, CLADE_F32), k->device, CLADE_BAD_SHAPE, "expects f32[3, 2], variables hold f32[4, 2]"},
      {product("x", "w", 2, 3, CLADE_F16), k->device, CLADE_DTYPE, "expects f32[3, 2], variables hold f16[3, 2]"},
      {product("x", "w", 2, 3, CLADE_F32), k->part[0], CLADE_INVALID, "variable w: func expects it on its device 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    clade_func *func = compiled(cases[i].g, cases[i].device);
    check_ok(clade_vars_new(func, 0, &vars));
    check_fails(clade_run_new(k->shaped, vars, &run), cases[i].status, cases[i].words);
    assert_null(run);
    clade_vars_release(vars);
    clade_func_release(func);
  }
  still_right(k);
}

static void variables(void **state) {
  kit *k = *state;
  float w[6] = {9, 9, 9, 9, 9, 9};
  check_fails(clade_vars_set(k->vars, "W", w, sizeof w), CLADE_NOT_FOUND, "no variable \"W\"");
  check_fails(clade_vars_set(k->vars, "w", w, 20), CLADE_INVALID, "variable w has 24 bytes, given were 20");
  check_fails(clade_vars_set(k->vars, "w", NULL, sizeof w), CLADE_INVALID, "the memory is NULL");
  check_fails(clade_vars_set(k->vars, NULL, w, sizeof w), CLADE_INVALID, "the name is NULL");
  check_fails(clade_vars_get(k->vars, "w", w, 4), CLADE_INVALID, "variable w has 24 bytes");
  check_fails(clade_vars_snapshot(k->vars, NULL), CLADE_INVALID, "NULL");
  still_right(k);
}

static void feeding(void **state) {
  kit *k = *state;
  float x[6] = {0};
  clade_tensor *t;
  clade_ticket ticket = 5;
  check_fails(clade_execute(k->run, 0, NULL, &ticket), CLADE_INVALID, "input x is not fed");
  assert_int_equal(ticket, 0);
  check_fails(clade_execute(k->run, 1, NULL, NULL), CLADE_INVALID, "1 inputs, the array is NULL");
  check_fails(clade_execute(k->run, -2, NULL, NULL), CLADE_INVALID, "-2 inputs");
  check_fails(clade_execute(k->run, CLADE_FEEDS({NULL, x, sizeof x, NULL}), NULL), CLADE_INVALID, "name of an input");
  check_fails(clade_execute(k->run, CLADE_FEEDS({"z", x, sizeof x, NULL}), NULL), CLADE_NOT_FOUND, "no input \"z\"");
  check_fails(clade_execute(k->run, CLADE_FEEDS({"x", x, 20, NULL}), NULL), CLADE_INVALID,
              "input x takes 24 bytes, given were 20");
  check_fails(clade_execute(k->run, CLADE_FEEDS({"x", NULL, sizeof x, NULL}), NULL), CLADE_INVALID, "x is NULL");
  check_fails(clade_execute(k->run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"x", x, sizeof x, NULL}), NULL),
              CLADE_DUPLICATE, "input x is fed twice");
  check_ok(clade_tensor_new(k->part[0], CLADE_F32, CLADE_SHAPE(2, 3), &t));
  check_fails(clade_execute(k->run, CLADE_FEEDS({.name = "x", .tensor = t}), NULL), CLADE_INVALID,
              "input x is taken on");
  clade_tensor_release(t);
  check_ok(clade_tensor_new(k->device, CLADE_I32, CLADE_SHAPE(2, 3), &t));
  check_fails(clade_execute(k->run, CLADE_FEEDS({.name = "x", .tensor = t}), NULL), CLADE_DTYPE,
              "input x takes f32[2, 3], the tensor is i32[2, 3]");
  clade_tensor_release(t);
  check_ok(clade_tensor_new(NULL, CLADE_F32, CLADE_SHAPE(3, 2), &t));
  check_fails(clade_execute(k->run, CLADE_FEEDS({.name = "x", .tensor = t}), NULL), CLADE_BAD_SHAPE,
              "input x takes f32[2, 3], the tensor is f32[3, 2]");
  check_fails(clade_execute(k->run, CLADE_FEEDS({.name = "x", .data = x, .bytes = sizeof x, .tensor = t}), NULL),
              CLADE_INVALID, "input x is given as memory and as a tensor");
  clade_tensor_release(t);
  check_ok(clade_run_status(k->run));
  still_right(k);
}

static void reading(void **state) {
  kit *k = *state;
  float x[6] = {0}, y[4];
  clade_ticket first, last = 0, foreign;
  check_ok(clade_execute(k->run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &first));
  check_fails(clade_read(k->run, first, "z", y, sizeof y), CLADE_NOT_FOUND, "no output \"z\"");
  check_fails(clade_read(k->run, first, NULL, y, sizeof y), CLADE_INVALID, "the name is NULL");
  check_fails(clade_read(k->run, first, "y", y, 4), CLADE_INVALID, "output y has 16 bytes, room is for 4");
  check_fails(clade_read(k->run, first, "y", NULL, sizeof y), CLADE_INVALID, "output y is NULL");
  check_fails(clade_read(k->run, 0, "y", y, sizeof y), CLADE_NOT_FOUND, "the ticket is 0");
  check_fails(clade_read(k->run, first + 1, "y", y, sizeof y), CLADE_NOT_FOUND, "there is no execution");
  check_fails(clade_read(k->run, UINT64_MAX, "y", y, sizeof y), CLADE_NOT_FOUND, "the ticket is of another run");
  check_fails(clade_wait(k->run, first + 1), CLADE_NOT_FOUND, "there is no execution");
  for (int i = 0; i < 2; i++) check_ok(clade_execute(k->run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &last));
  clade_run *other;
  check_ok(clade_run_new(k->shaped, k->vars, &other));
  check_ok(clade_execute(other, CLADE_FEEDS({"x", x, sizeof x, NULL}), &foreign));
  check_fails(clade_read(k->run, foreign, "y", y, sizeof y), CLADE_NOT_FOUND, "the ticket is of another run");
  check_fails(clade_wait(k->run, foreign), CLADE_NOT_FOUND, "the ticket is of another run");
  check_fails(clade_read(other, last, "y", y, sizeof y), CLADE_NOT_FOUND, "the ticket is of another run");
  clade_run_free(other);
  check_fails(clade_read(k->run, first, "y", y, sizeof y), CLADE_NOT_FOUND, "cannot be read any more: the run has 2");
  check_ok(clade_read(k->run, last, "y", y, sizeof y));
  check_fails(clade_run_trace(k->run, "/tmp"), CLADE_INVALID, "without .profile");
  check_fails(clade_run_observe(k->run, (clade_observer_fn *)(uintptr_t)1, NULL), CLADE_INVALID, "without .profile");
  still_right(k);
}

static void tensors(void **state) {
  kit *k = *state;
  char byte;
  clade_tensor *t = NULL;
  const clade_dim symbol = CLADE_DIM("batch");
  check_fails(clade_tensor_new(NULL, (clade_dtype)42, CLADE_SCALAR, &t), CLADE_DTYPE, "42 is not an element type");
  check_fails(clade_tensor_new(NULL, CLADE_F32, CLADE_SHAPE(symbol), &t), CLADE_BAD_SHAPE, "\"batch\" of [batch]");
  check_fails(clade_tensor_new(k->device, CLADE_F32, CLADE_SHAPE(-2), &t), CLADE_BAD_SHAPE, "[-2] is negative");
  check_fails(clade_tensor_new(k->device, CLADE_F32, (clade_shape){.rank = 40}, &t), CLADE_BAD_SHAPE, "not 40");
  check_fails(clade_tensor_new(k->device, CLADE_F32, CLADE_SHAPE(INT64_MAX, 2), &t), CLADE_OVERFLOW, "more elements");
  check_fails(clade_tensor_new(k->device, CLADE_U8, CLADE_SHAPE(INT64_MAX), &t), CLADE_DEVICE_MEMORY, "bytes");
  check_fails(clade_tensor_new(NULL, CLADE_U8, CLADE_SHAPE(INT64_MAX), &t), CLADE_NO_MEMORY, "bytes");
  assert_null(t);
  check_ok(clade_tensor_new(k->device, CLADE_U8, CLADE_SHAPE(4), &t));
  check_fails(clade_tensor_write(t, &byte, 1), CLADE_INVALID, "1 bytes given, the tensor has 4");
  check_fails(clade_tensor_read(t, &byte, 5), CLADE_INVALID, "5 bytes given, the tensor has 4");
  clade_tensor_release(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compiling),    cmocka_unit_test(preferring), cmocka_unit_test(large_windows),
      cmocka_unit_test(specializing), cmocka_unit_test(telling),    cmocka_unit_test(binding),
      cmocka_unit_test(variables),    cmocka_unit_test(feeding),    cmocka_unit_test(reading),
      cmocka_unit_test(tensors),
  };
  return cmocka_run_group_tests_name("bad_run", tests, set_up, tear_down);
}

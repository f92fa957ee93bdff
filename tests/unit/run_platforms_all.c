/* A func on two platforms: PoCL and rusticl in one process, in either order. */
#include "cl/internal.h"
#include "run_ping_pong.h"

static void two_platforms(void **state) {
  clade_device *other = NULL;
  OK(clade_device_find("rusticl", &other));
  clade_func *func = ping_pong(*state, other);
  check_ping_pong(func, 12, 2);
  clade_func_release(func);
  func = ping_pong(other, *state);
  check_ping_pong(func, 12, 3);
  clade_func_release(func);
  clade_device_release(other);
}

/* The same in contexts of the program, which are unaffected afterwards. */
static void two_contexts_of_the_users(void **state) {
  clade_device *listed[2] = {*state, NULL}, *adopted[2];
  cl_context context[2];
  cl_int e;
  OK(clade_device_find("rusticl", &listed[1]));
  for (int i = 0; i < 2; i++) {
    cl_device_id id = clade_device_cl_id(listed[i]);
    context[i] = clade__cl.clCreateContext(NULL, 1, &id, NULL, NULL, &e);
    assert_int_equal(e, CL_SUCCESS);
    OK(clade_device_adopt(context[i], id, &adopted[i]));
    assert_ptr_equal(clade_device_context(adopted[i]), context[i]);
  }
  clade_func *func = ping_pong(adopted[0], adopted[1]);
  check_ping_pong(func, 6, 2);
  clade_func_release(func);
  for (int i = 0; i < 2; i++) {
    clade_device_release(adopted[i]);
    cl_mem memory = clade__cl.clCreateBuffer(context[i], CL_MEM_READ_WRITE, 64, NULL, &e);
    assert_int_equal(e, CL_SUCCESS);
    clade__cl.clReleaseMemObject(memory);
    assert_int_equal(clade__cl.clReleaseContext(context[i]), CL_SUCCESS);
  }
  clade_device_release(listed[1]);
}

/* Devices of different drivers need separate variables: one clade_vars cannot serve both. */
static void variables_stay_on_their_device(void **state) {
  clade_device *other = NULL;
  clade_run *run = NULL;
  clade_vars *vars;
  OK(clade_device_find("rusticl", &other));
  clade_func *func = ping_pong(*state, other), *back = ping_pong(other, *state);
  OK(clade_vars_new(func, 0, &vars));
  refused(clade_run_new(back, vars, &run), CLADE_INVALID, "variable v: func expects it on its device 0");
  clade_vars_release(vars);
  clade_func_release(func);
  clade_func_release(back);
  clade_device_release(other);
}

/* Small integers wrap between fused functions on both. */
static void fused_bytes(void **state) {
  clade_device *device[2] = {*state, NULL};
  int8_t x[256], y[256];
  for (int i = 0; i < 256; i++) x[i] = (int8_t)(i - 128);
  OK(clade_device_find("rusticl", &device[1]));
  for (int d = 0; d < 2; d++) {
    clade_graph *g;
    clade_func *func;
    clade_run *run;
    clade_ticket ticket;
    clade_func_info info = {.size = sizeof info};
    OK(clade_graph_new(&g));
    clade_val v = clade_input(g, "x", CLADE_I8, CLADE_SHAPE(256));
    clade_output(g, "y", clade_clip(g, clade_relu(g, clade_add(g, v, v)), 3, 100));
    OK(clade_compile(g, device[d], &func));
    OK(clade_func_get_info(func, &info));
    assert_int_equal(info.steps, 1);
    OK(clade_run_new(func, NULL, &run));
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", y, sizeof y));
    for (int i = 0; i < 256; i++) {
      int twice = (int8_t)(x[i] + x[i]);
      assert_int_equal(y[i], twice < 3 ? 3 : twice > 100 ? 100 : twice);
    }
    clade_run_free(run);
    clade_func_release(func);
    clade_graph_release(g);
  }
  clade_device_release(device[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_platforms),
      cmocka_unit_test(two_contexts_of_the_users),
      cmocka_unit_test(variables_stay_on_their_device),
      cmocka_unit_test(fused_bytes),
  };
  return cmocka_run_group_tests_name("run_platforms_all", tests, open_device, close_device);
}

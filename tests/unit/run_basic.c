/* Small graphs end to end: inputs, all kinds of outputs, slots, tickets and errors. */
#include "plan_kit.h"

enum { N = 37 };

static void fill(float *x, float first, float step) {
  for (int i = 0; i < N; i++) x[i] = first + step * (float)i;
}

static void adds(void **state) {
  float x[N], y[N], out[N];
  clade_run *run;
  clade_ticket ticket, before = 0;
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), b = clade_input(g, "y", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "sum", affine(g, "twice", add(g, a, b), 2, 1));
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  for (int round = 0; round < 5; round++) {
    fill(x, (float)round, 1);
    fill(y, 10, 2);
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"y", y, sizeof y, NULL}), &ticket));
    assert_true(ticket != 0 && ticket != before);
    before = ticket;
    OK(clade_read(run, ticket, "sum", out, sizeof out));
    assert_floats(out, N, 2 * (10 + (float)round) + 1, 6);
  }
  OK(clade_run_status(run));
  clade_run_free(run);
  clade_func_release(func);
}

/* Outputs not written by a kernel: an input, a constant, a fill, a view, a variable, and one value twice. */
static void outputs_of_all_kinds(void **state) {
  float x[N], data[N], out[N];
  clade_run *run;
  clade_vars *vars;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  fill(x, 0, 1);
  fill(data, 5, 3);
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1, N));
  clade_val v = clade_variable(g, "v", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 7, 0});
  clade_val y = fresh(g, a, 2, 0);
  clade_output(g, "input", a);
  clade_output(g, "constant", clade_constant(g, CLADE_F32, CLADE_SHAPE(N), data));
  clade_output(g, "fill", clade_fill(g, CLADE_F32, CLADE_SHAPE(N), 2.5));
  clade_output(g, "view", clade_node_add(g, &kit_row, NULL, NULL, 1, &a, NULL));
  clade_output(g, "variable", v);
  clade_output(g, "once", y);
  clade_output(g, "again", clade_node_add(g, &kit_row, NULL, NULL, 1, &y, NULL));
  clade_func *func = compiled(g, *state);
  OK(clade_vars_new(func, 1, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  fill(x, 9, 0); /* the data was read or copied by clade_execute */
  OK(clade_vars_set(vars, "v", x, sizeof x));
  OK(clade_read(run, ticket, "input", out, sizeof out));
  assert_floats(out, N, 0, 1);
  OK(clade_read(run, ticket, "constant", out, sizeof out));
  assert_floats(out, N, 5, 3);
  OK(clade_read(run, ticket, "fill", out, sizeof out));
  assert_floats(out, N, 2.5f, 0);
  OK(clade_read(run, ticket, "view", out, sizeof out));
  assert_floats(out, N, 0, 1);
  OK(clade_read(run, ticket, "once", out, sizeof out));
  assert_floats(out, N, 0, 2);
  OK(clade_read(run, ticket, "again", out, sizeof out));
  assert_floats(out, N, 0, 2);
  OK(clade_read(run, ticket, "variable", out, sizeof out));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "variable", out, sizeof out));
  assert_floats(out, N, 9, 0);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

static void two_outputs_and_workspace(void **state) {
  float x[N], out[N];
  clade_run *run;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), both[2];
  clade_node_add(g, &kit_split, "split", NULL, 1, &a, both);
  clade_output(g, "back", both[0]);
  clade_output(g, "sum", add(g, both[0], both[1]));
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  fill(x, 0, 1);
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "back", out, sizeof out));
  assert_floats(out, N, N - 1, -1);
  OK(clade_read(run, ticket, "sum", out, sizeof out));
  assert_floats(out, N, N, 0);
  clade_run_free(run);
  clade_func_release(func);
}

static void nothing_in_it(void **state) {
  char none;
  clade_run *run;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(0, 3));
  clade_output(g, "y", affine(g, NULL, x, 1, 1));
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  for (int i = 0; i < 3; i++) {
    OK(clade_execute(run, CLADE_FEEDS({"x", NULL, 0, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", &none, 0));
  }
  clade_run_free(run);
  clade_func_release(func);
}

static void tensors_as_inputs(void **state) {
  float x[N], out[N];
  clade_run *run;
  clade_tensor *here, *there, *wrong;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), b = clade_input(g, "y", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "sum", add(g, a, b));
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_tensor_new(NULL, CLADE_F32, CLADE_SHAPE(N), &here));
  OK(clade_tensor_new(*state, CLADE_F32, CLADE_SHAPE(N), &there));
  OK(clade_tensor_new(*state, CLADE_F32, CLADE_SHAPE(N, 1), &wrong));
  fill(x, 1, 1);
  OK(clade_tensor_write(here, x, sizeof x));
  fill(x, 100, 1);
  OK(clade_tensor_write(there, x, sizeof x));
  OK(clade_execute(run, CLADE_FEEDS({.name = "x", .tensor = here}, {.name = "y", .tensor = there}), &ticket));
  refused(clade_execute(run, CLADE_FEEDS({.name = "x", .tensor = here}, {.name = "y", .tensor = wrong}), NULL),
          CLADE_BAD_SHAPE, "input y takes f32[37], the tensor is f32[37, 1]");
  clade_tensor_release(there); /* the execution holds a reference */
  OK(clade_read(run, ticket, "sum", out, sizeof out));
  assert_floats(out, N, 101, 2);
  clade_tensor_release(here);
  clade_tensor_release(wrong);
  clade_run_free(run);
  clade_func_release(func);
}

static void slots_and_tickets(void **state) {
  float x[N], out[N];
  clade_run *run;
  clade_ticket ticket[4];
  clade_graph *g = graph_new();
  clade_output(g, "y", affine(g, NULL, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), 1, 1));
  clade_func *func = compiled(g, *state);
  OK(clade_run_new(func, NULL, &run, .slots = 3));
  for (int i = 0; i < 4; i++) {
    fill(x, (float)i, 0);
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket[i]));
  }
  refused(clade_read(run, ticket[0], "y", out, sizeof out), CLADE_NOT_FOUND,
          "execution 1 cannot be read any more: the run has 3 slots, and has begun execution 4");
  OK(clade_wait(run, ticket[0])); /* it has ended */
  for (int i = 3; i > 0; i--) {
    OK(clade_read(run, ticket[i], "y", out, sizeof out));
    assert_floats(out, N, (float)i + 1, 0);
  }
  refused(clade_read(run, ticket[3] + 1, "y", out, sizeof out), CLADE_NOT_FOUND, "there is no execution 5");
  refused(clade_wait(run, ticket[0] + 98), CLADE_NOT_FOUND, "there is no execution 99; the run has begun 4 so far");
  OK(clade_wait(run, 0));
  clade_run_free(run);
  clade_func_release(func);
}

static void refusals(void **state) {
  float x[N] = {0}, out[N];
  clade_run *run = NULL;
  clade_func *func = NULL, *shaped = NULL;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), b = clade_input(g, "y", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "sum", add(g, a, b));
  refused(clade_compile(NULL, *state, &func), CLADE_INVALID, "the graph is NULL");
  refused(clade_compile(g, NULL, &func), CLADE_INVALID, "the device is NULL");
  refused(clade_compile(g, *state, NULL), CLADE_INVALID, "NULL");
  func = compiled(g, *state);
  refused(clade_func_specialize(func, CLADE_DIMS({"batch", 3}), &shaped), CLADE_INVALID, "batch");
  refused(clade_run_new(NULL, NULL, &run), CLADE_INVALID, "the func is NULL");
  refused(clade_run_new(func, NULL, NULL), CLADE_INVALID, "NULL");
  refused(clade_run_new(func, NULL, &run, .slots = -1), CLADE_INVALID, ".slots is -1");
  OK(clade_run_new(func, NULL, &run));
  refused(clade_execute(run, 0, NULL, &ticket), CLADE_INVALID, "input x is not fed");
  refused(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL), CLADE_INVALID, "input y is not fed");
  refused(clade_execute(run, CLADE_FEEDS({"z", x, sizeof x, NULL}), NULL), CLADE_NOT_FOUND, "no input \"z\"");
  refused(clade_execute(run, CLADE_FEEDS({"x", x, 4, NULL}), NULL), CLADE_INVALID,
          "input x takes 148 bytes, given were 4");
  refused(clade_execute(run, CLADE_FEEDS({"x", NULL, sizeof x, NULL}), NULL), CLADE_INVALID, "input x is NULL");
  refused(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"x", x, sizeof x, NULL}), NULL), CLADE_DUPLICATE,
          "fed twice");
  refused(clade_execute(run, 2, NULL, NULL), CLADE_INVALID, "NULL");
  refused(clade_execute(NULL, 0, NULL, NULL), CLADE_INVALID, "the run is NULL");
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"y", x, sizeof x, NULL}), &ticket));
  refused(clade_read(run, ticket, "summ", out, sizeof out), CLADE_NOT_FOUND, "no output \"summ\"");
  refused(clade_read(run, ticket, "sum", out, 4), CLADE_INVALID, "output sum has 148 bytes, room is for 4");
  refused(clade_read(run, ticket, "sum", NULL, sizeof out), CLADE_INVALID, "NULL");
  refused(clade_read(NULL, ticket, "sum", out, sizeof out), CLADE_INVALID, "the run is NULL");
  OK(clade_read(run, ticket, "sum", out, sizeof out));
  clade_run_free(run);
  clade_run_free(NULL);
  clade_func_release(func);
  clade_func_release(NULL);
}

static void a_symbolic_batch(void **state) {
  float x[64], out[64];
  clade_run *run;
  clade_func *shaped, *again;
  clade_ticket ticket;
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 4));
  clade_output(g, "y", affine(g, NULL, a, 3, 1));
  clade_func *func = compiled(g, *state);
  refused(clade_run_new(func, NULL, &run), CLADE_INVALID, "clade_func_specialize");
  refused(clade_func_specialize(func, 0, NULL, &shaped), CLADE_NOT_FOUND, "batch");
  refused(clade_func_specialize(func, CLADE_DIMS({"batch", 2}, {"btach", 1}), &shaped), CLADE_NOT_FOUND, "btach");
  for (int n = 16; n >= 0; n -= 5) {
    size_t bytes = (size_t)n * 16;
    OK(clade_func_specialize(func, CLADE_DIMS({"batch", n}), &shaped));
    OK(clade_func_specialize(func, CLADE_DIMS({"batch", n}), &again));
    assert_ptr_equal(shaped, again);
    clade_func_release(again);
    OK(clade_run_new(shaped, NULL, &run));
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    OK(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", out, bytes));
    assert_floats(out, (size_t)n * 4, 1, 3);
    clade_run_free(run);
    clade_func_release(shaped);
  }
  clade_func_release(func);
}

static void guards_find_a_stray_write(void **state) {
  float x[N], out[N];
  clade_run *run;
  clade_ticket ticket;
  for (int stray = 0; stray < 2; stray++) {
    clade__plan_guard_bytes = 4096;
    clade_graph *g = graph_new();
    clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
    clade_val y = fresh(g, a, 1, 1);
    y = stray ? clade_node_add(g, &kit_past, "stray", NULL, 1, &y, NULL) : affine(g, NULL, y, 1, 1);
    clade_output(g, "y", affine(g, NULL, y, 1, 0));
    clade_func *func = compiled(g, *state);
    OK(clade_run_new(func, NULL, &run));
    fill(x, 0, 1);
    for (int i = 0; i < 2; i++) {
      OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
      OK(clade_read(run, ticket, "y", out, sizeof out));
    }
    if (stray)
      refused(clade__run_check_guards(run), CLADE_CORRUPT, "148 from the start of stray (148 bytes)");
    else
      OK(clade__run_check_guards(run));
    clade_run_free(run);
    clade_func_release(func);
    clade__plan_guard_bytes = 0;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adds),
      cmocka_unit_test(outputs_of_all_kinds),
      cmocka_unit_test(two_outputs_and_workspace),
      cmocka_unit_test(nothing_in_it),
      cmocka_unit_test(tensors_as_inputs),
      cmocka_unit_test(slots_and_tickets),
      cmocka_unit_test(refusals),
      cmocka_unit_test(a_symbolic_batch),
      cmocka_unit_test(guards_find_a_stray_write),
  };
  return cmocka_run_group_tests_name("run_basic", tests, open_device, close_device);
}

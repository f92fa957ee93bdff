/* Variables: initial values, state across executions, exchanges, copies, and exclusive writing. */
#include <stdio.h>

#include "plan_kit.h"

enum { N = 21 };

static clade_val variable(clade_graph *g, const char *name, clade_initial initial) {
  return clade_variable(g, name, CLADE_F32, CLADE_SHAPE(N), initial);
}
static clade_initial filled(double a) { return (clade_initial){CLADE_INIT_FILL, a, 0}; }

static void expect(clade_vars *vars, const char *name, float first) {
  float have[N];
  OK(clade_vars_get(vars, name, have, sizeof have));
  assert_floats(have, N, first, 0);
}

/* Trainable variables are marked, also in copies. */
static void parameters(void **state) {
  clade_vars *vars, *copy;
  clade_port_info info = {.size = sizeof info};
  clade_graph *g = graph_new();
  assert_false(clade_graph_trains(g));
  clade_graph_train(g, true);
  assert_true(clade_graph_trains(g));
  clade_val a = variable(g, "a", filled(1)), b = clade_parameter(g, "b", CLADE_F32, CLADE_SHAPE(N), filled(2));
  clade_output(g, "sum", add(g, a, b));
  clade_func *func = compiled(g, *state);
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_vars_snapshot(vars, &copy));
  for (int i = 0; i < 2; i++) {
    OK(clade_vars_describe(copy, i, &info));
    assert_int_equal(info.parameter, info.name[0] == 'b');
  }
  clade_vars_release(copy);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* a, b = b, a; and c becomes the old a. */
static void exchanges(void **state) {
  clade_run *run;
  clade_vars *vars;
  clade_graph *g = graph_new();
  clade_val a = variable(g, "a", filled(1)), b = variable(g, "b", filled(2)), c = variable(g, "c", filled(3));
  clade_assign(g, a, b);
  clade_assign(g, b, a);
  clade_assign(g, c, a);
  clade_output(g, "sum", add(g, add(g, a, b), c));
  clade_func *func = compiled(g, *state);
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int i = 0; i < 4; i++) {
    clade_ticket ticket;
    float sum[N];
    expect(vars, "a", i % 2 ? 2 : 1);
    expect(vars, "b", i % 2 ? 1 : 2);
    OK(clade_execute(run, 0, NULL, &ticket));
    OK(clade_read(run, ticket, "sum", sum, sizeof sum));
    assert_floats(sum, N, i == 0 ? 6 : i % 2 ? 4 : 5, 0);
    expect(vars, "c", i % 2 ? 2 : 1);
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* Every read sees the value at the start, even after the new value was computed. */
static void reads_are_of_the_start(void **state) {
  clade_run *run;
  clade_vars *vars;
  clade_ticket ticket;
  float out[N];
  clade_graph *g = graph_new();
  clade_val a = variable(g, "a", filled(1)), next = affine(g, NULL, a, 2, 0);
  clade_assign(g, a, next);
  clade_output(g, "late", add(g, fresh(g, next, 1, 0), a)); /* 2 a + a */
  clade_output(g, "next", next);
  clade_output(g, "old", a);
  clade_func *func = compiled(g, *state);
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  for (float want = 1; want < 64; want *= 2) {
    OK(clade_execute(run, 0, NULL, &ticket));
    OK(clade_read(run, ticket, "late", out, sizeof out));
    assert_floats(out, N, 3 * want, 0);
    OK(clade_read(run, ticket, "next", out, sizeof out));
    assert_floats(out, N, 2 * want, 0);
    OK(clade_read(run, ticket, "old", out, sizeof out));
    assert_floats(out, N, want, 0);
    expect(vars, "a", 2 * want);
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* A counter is incremented in place, without a copy. */
static void an_update_needs_no_copy(void **state) {
  clade_graph *g = graph_new();
  clade_func_info info = {.size = sizeof info};
  clade_val a = variable(g, "a", filled(1));
  clade_assign(g, a, affine(g, NULL, a, 1, 1));
  clade_func *func = compiled(g, *state);
  OK(clade_func_get_info(func, &info));
  assert_int_equal(info.steps, 1);
  assert_int_equal(info.arena_bytes, 0);
  assert_true(info.writes);
  clade_func_release(func);
}

static void initial_values(void **state) {
  float one[N], two[N], mean = 0;
  double counter = 0;
  int64_t step;
  clade_vars *vars, *other;
  clade_graph *g = graph_new();
  clade_val u = variable(g, "u", (clade_initial){CLADE_INIT_UNIFORM, -2, 3});
  clade_val n = variable(g, "n", (clade_initial){CLADE_INIT_NORMAL, 10, 0.5});
  clade_variable(g, "step", CLADE_I64, CLADE_SCALAR, filled(9007199254740991.0));
  clade_output(g, "sum", add(g, u, n));
  clade_func *func = compiled(g, *state);
  g = graph_new();
  variable(g, "more", (clade_initial){CLADE_INIT_UNIFORM, 0, 1});
  u = variable(g, "u", (clade_initial){CLADE_INIT_UNIFORM, -2, 3});
  clade_output(g, "y", u);
  clade_func *larger = compiled(g, *state);
  OK(clade_vars_new(func, 7, &vars));
  OK(clade_vars_get(vars, "u", one, sizeof one));
  for (int i = 0; i < N; i++) {
    assert_true(one[i] >= -2 && one[i] < 3);
    counter += one[i] == one[0];
  }
  assert_true(counter < 2);
  OK(clade_vars_get(vars, "n", two, sizeof two));
  for (int i = 0; i < N; i++) mean += two[i] / N;
  assert_true(mean > 9.5f && mean < 10.5f);
  if (clade_vars_count(vars) == 3) { /* an unused variable may be absent */
    OK(clade_vars_get(vars, "step", &step, sizeof step));
    assert_int_equal(step, 9007199254740991);
  }
  OK(clade_vars_new(larger, 7, &other));
  OK(clade_vars_get(other, "u", two, sizeof two));
  assert_memory_equal(one, two, sizeof one); /* another variable changes no other one */
  clade_vars_release(other);
  OK(clade_vars_new(func, 8, &other));
  OK(clade_vars_get(other, "u", two, sizeof two));
  assert_memory_not_equal(one, two, sizeof one);
  clade_vars_release(other);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_func_release(larger);
}

static clade_func *counting(clade_device *device) {
  clade_graph *g = graph_new();
  clade_val a = variable(g, "a", filled(0));
  clade_assign(g, a, affine(g, NULL, a, 1, 1));
  clade_output(g, "a", a);
  return compiled(g, device);
}

static void one_writer(void **state) {
  float x[N] = {0}, out[N];
  clade_run *run, *second = NULL, *reader;
  clade_vars *vars, *copy;
  clade_ticket ticket, last;
  cl_event gate;
  clade_func *func = counting(*state);
  clade_graph *g = graph_new();
  clade_output(g, "y", fresh(g, variable(g, "a", filled(0)), 10, 0));
  clade_func *reading = compiled(g, *state);
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_run_new(func, vars, &second));
  OK(clade_run_new(reading, vars, &reader));
  OK(clade__user_event_new(*state, &gate));
  OK(clade_execute_after(run, 0, NULL, 1, &gate, &ticket, NULL));
  refused(clade_vars_get(vars, "a", out, sizeof out), CLADE_BUSY, "being written");
  refused(clade_vars_set(vars, "a", x, sizeof x), CLADE_BUSY, "being written");
  refused(clade_vars_snapshot(vars, &copy), CLADE_BUSY, "being written");
  refused(clade_execute(reader, 0, NULL, NULL), CLADE_BUSY, "wait for its last execution first");
  refused(clade_execute(second, 0, NULL, NULL), CLADE_BUSY, "being written");
  OK(clade__user_event_set(*state, gate, true));
  clade__event_release(gate);
  OK(clade_wait(run, 0));
  OK(clade_vars_snapshot(vars, &copy));
  OK(clade_execute(run, 0, NULL, &ticket));
  OK(clade_wait(run, ticket));
  OK(clade_execute(reader, 0, NULL, &last));
  OK(clade_read(reader, last, "y", out, sizeof out));
  assert_floats(out, N, 20, 0);
  expect(copy, "a", 1);
  assert_int_equal(vars->at[0].version, 2);
  assert_int_equal(copy->at[0].version, 1);
  OK(clade_execute(second, 0, NULL, NULL)); /* after the first run's executions */
  OK(clade_wait(second, 0));
  expect(vars, "a", 3);
  clade_run_free(run);
  OK(clade_execute(second, 0, NULL, NULL)); /* a freed run does not block */
  clade_run_free(second);
  OK(clade_run_new(func, copy, &second)); /* a snapshot has its own memory */
  OK(clade_execute(second, 0, NULL, NULL));
  OK(clade_wait(second, 0));
  expect(copy, "a", 2);
  expect(vars, "a", 4);
  clade_run_free(second);
  clade_run_free(reader);
  clade_vars_release(copy);
  clade_vars_release(vars);
  clade_func_release(reading);
  clade_func_release(func);
}

/* Alternating training and testing: each waits only for the other's last execution. */
static void in_turns(void **state) {
  float out[N];
  clade_run *train, *test;
  clade_vars *vars;
  clade_ticket ticket;
  clade_func *writing = counting(*state);
  clade_graph *g = graph_new();
  clade_output(g, "y", fresh(g, variable(g, "a", filled(0)), 10, 0));
  clade_func *reading = compiled(g, *state);
  OK(clade_vars_new(writing, 0, &vars));
  OK(clade_run_new(writing, vars, &train, .slots = 3));
  OK(clade_run_new(reading, vars, &test));
  for (int round = 1; round <= 20; round++) {
    for (int i = 0; i < 4; i++) OK(clade_execute(train, 0, NULL, &ticket));
    if (round % 2)
      OK(clade_wait(train, ticket));
    else
      OK(clade_read(train, ticket, "a", out, sizeof out));
    for (int i = 0; i < 3; i++) OK(clade_execute(test, 0, NULL, &ticket));
    OK(clade_read(test, ticket, "y", out, sizeof out));
    assert_floats(out, N, (float)(40 * round), 0);
  }
  clade_run_free(train);
  clade_run_free(test);
  clade_vars_release(vars);
  clade_func_release(reading);
  clade_func_release(writing);
}

static void refusals(void **state) {
  float x[N] = {0};
  clade_run *run = NULL;
  clade_vars *vars, *none = NULL;
  clade_func *func = counting(*state);
  clade_graph *g = graph_new();
  clade_output(g, "y", clade_variable(g, "a", CLADE_F32, CLADE_SHAPE(4, 2), filled(0)));
  clade_func *other = compiled(g, *state);
  g = graph_new();
  clade_output(g, "y", variable(g, "b", filled(0)));
  clade_func *another = compiled(g, *state);
  OK(clade_vars_new(func, 0, &vars));
  refused(clade_vars_new(NULL, 0, &none), CLADE_INVALID, "the func is NULL");
  refused(clade_vars_new(func, 0, NULL), CLADE_INVALID, "NULL");
  refused(clade_run_new(func, NULL, &run), CLADE_INVALID, "the func has 1 variables (a, …), vars is NULL");
  refused(clade_run_new(other, vars, &run), CLADE_BAD_SHAPE,
          "variable a: func expects f32[4, 2], variables hold f32[21]");
  refused(clade_run_new(another, vars, &run), CLADE_NOT_FOUND, "variable b");
  refused(clade_vars_set(vars, "a", x, 4), CLADE_INVALID, "variable a has 84 bytes, given were 4");
  refused(clade_vars_set(vars, "z", x, 4), CLADE_NOT_FOUND, "no variable \"z\"");
  refused(clade_vars_get(NULL, "a", x, sizeof x), CLADE_INVALID, "vars is NULL");
  refused(clade_vars_get(vars, "a", NULL, sizeof x), CLADE_INVALID, "the memory is NULL");
  refused(clade_vars_snapshot(NULL, &none), CLADE_INVALID, "vars is NULL");
  clade_vars_release(vars);
  clade_vars_release(NULL);
  clade_func_release(func);
  clade_func_release(other);
  clade_func_release(another);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters),
      cmocka_unit_test(exchanges),
      cmocka_unit_test(reads_are_of_the_start),
      cmocka_unit_test(initial_values),
      cmocka_unit_test(an_update_needs_no_copy),
      cmocka_unit_test(one_writer),
      cmocka_unit_test(in_turns),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests_name("run_vars", tests, open_device, close_device);
}

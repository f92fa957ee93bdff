/* In-place execution: new values of variables, also by ops with many results, and results in the memory of dying
 * operands. */
#include "plan_check.h"

/* (a + b, a - b) at once, in place of both */
static clade_status both_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "both");
  for (int k = 0; k < 2; k++) clade_emit_in(s, k);
  for (int k = 0; k < 2; k++) clade_emit_out(s, k);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl *const both_impls[] = {CLADE_IMPL(.name = "ref", .emit = both_emit), NULL};
static const clade_op both = {
    .size = sizeof(clade_op),
    .name = "train.both",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .infer = kit_same,
    .in_place = kit_all,
    .impls = both_impls,
    .source = "KERNEL(both)(ARG(float, a), ARG(float, b), ARG(float, y), ARG(float, z), const index_t n) {\n"
              "  USE(float, a); USE(float, b); USE(float, y); USE(float, z);\n"
              "  index_t i = (index_t)get_global_id(0);\n"
              "  if (i >= n) return;\n"
              "  const float sum = a[i] + b[i], difference = a[i] - b[i];\n"
              "  y[i] = sum, z[i] = difference;\n"
              "}\n"};

static bool writes_variable(const char *steps, int index) {
  for (const char *line = steps; *line; line = strchr(line, '\n') + 1) {
    check_use use[CLADE_MAX_OPERANDS];
    int n = check_uses(line, " writes ", use, CLADE_MAX_OPERANDS);
    for (int i = 0; i < n; i++)
      if (strncmp(strchr(line, ' '), " kernel", 7) == 0 && strcmp(use[i].space, "variable") == 0 &&
          use[i].index == index)
        return true;
  }
  return false;
}

/* One node updates many variables and moments: one launch per pair, no copies, and no arena. */
static void many_at_once(void **state) {
  enum { PAIRS = 21, N = 40 };
  clade_graph *g = graph_new();
  clade_val in[3 * PAIRS + 1], out[2 * PAIRS];
  char name[32];
  for (int i = 0; i < PAIRS; i++) {
    snprintf(name, sizeof name, "p%d", i);
    in[3 * i] = clade_variable(g, name, CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, i, 0});
    snprintf(name, sizeof name, "g%d", i);
    in[3 * i + 1] = clade_input(g, name, CLADE_F32, CLADE_SHAPE(N));
    snprintf(name, sizeof name, "m%d", i);
    in[3 * i + 2] = clade_variable(g, name, CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
  }
  in[3 * PAIRS] = clade_variable(g, "rate", CLADE_F32, CLADE_SHAPE(1), (clade_initial){CLADE_INIT_FILL, 0.5, 0});
  clade_node_add(g, &kit_update, NULL, NULL, 3 * PAIRS + 1, in, out);
  for (int i = 0; i < PAIRS; i++) {
    clade_assign(g, in[3 * i], out[2 * i]);
    clade_assign(g, in[3 * i + 2], out[2 * i + 1]);
  }
  clade_func *func = compiled(g, *state);
  clade_func_info info = {.size = sizeof info};
  check_plan(func, *state);
  OK(clade_func_get_info(func, &info));
  assert_int_equal(info.steps, PAIRS);
  assert_int_equal(info.arena_bytes, 0);
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  float grad[N], have[N];
  clade_feed feeds[PAIRS];
  char names[PAIRS][8];
  for (int i = 0; i < N; i++) grad[i] = (float)i;
  for (int i = 0; i < PAIRS; i++) {
    snprintf(names[i], sizeof names[i], "g%d", i);
    feeds[i] = (clade_feed){names[i], grad, sizeof grad, NULL};
  }
  for (int step = 0; step < 3; step++) OK(clade_execute(run, PAIRS, feeds, &ticket));
  OK(clade_wait(run, ticket));
  for (int i = 0; i < PAIRS; i++) { /* moments 1, 2, 3 times g; so p grows by half of six times g */
    snprintf(name, sizeof name, "p%d", i);
    OK(clade_vars_get(vars, name, have, sizeof have));
    assert_floats(have, N, (float)i, 3);
    snprintf(name, sizeof name, "m%d", i);
    OK(clade_vars_get(vars, name, have, sizeof have));
    assert_floats(have, N, 0, 3);
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* If two outputs can reuse the same memory, one does, even if it is unused. */
static void one_taker(void **state) {
  enum { N = 30 };
  for (int used = 1; used < 4; used++) {
    clade_graph *g = graph_new();
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), in[2] = {fresh(g, x, 1, 0), x}, out[2];
    clade_node_add(g, &both, NULL, NULL, 2, in, out);
    if (used & 1) clade_output(g, "y", fresh(g, out[0], 1, 0));
    if (used & 2) clade_output(g, "z", fresh(g, out[1], 1, 0));
    clade_func *func = compiled(g, *state);
    clade_func_info info = {.size = sizeof info};
    assert_true(check_plan(func, *state) <= 1.1);
    OK(clade_func_get_info(func, &info));
    assert_int_equal(info.arena_bytes, 256); /* the second output has nothing to reuse */
    clade_run *run;
    clade_ticket ticket;
    float data[N], have[N];
    OK(clade_run_new(func, NULL, &run));
    for (int i = 0; i < N; i++) data[i] = (float)i;
    OK(clade_execute(run, CLADE_FEEDS({"x", data, sizeof data, NULL}), &ticket));
    if (used & 1) OK(clade_read(run, ticket, "y", have, sizeof have));
    if (used & 1) assert_floats(have, N, 0, 2);
    if (used & 2) OK(clade_read(run, ticket, "z", have, sizeof have));
    if (used & 2) assert_floats(have, N, 0, 0);
    clade_run_free(run);
    clade_func_release(func);
  }
}

/* Two variables become each other's sum and difference in place. */
static void both_in_their_places(void **state) {
  enum { N = 30 };
  clade_graph *g = graph_new();
  clade_val v[2], out[2];
  for (int i = 0; i < 2; i++)
    v[i] = clade_variable(g, i ? "b" : "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 5 - 2 * i, 0});
  clade_node_add(g, &both, NULL, NULL, 2, v, out);
  for (int i = 0; i < 2; i++) clade_assign(g, v[i], out[i]);
  clade_func *func = compiled(g, *state);
  char *steps;
  OK(clade_func_steps(func, &steps));
  assert_true(writes_variable(steps, 0) && writes_variable(steps, 1));
  assert_null(strstr(steps, " copy "));
  clade_text_free(steps);
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  float have[N];
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int i = 0; i < 2; i++) OK(clade_execute(run, 0, NULL, &ticket)); /* (5, 3), (8, 2), (10, 6) */
  OK(clade_wait(run, ticket));
  OK(clade_vars_get(vars, "a", have, sizeof have));
  assert_floats(have, N, 10, 0);
  OK(clade_vars_get(vars, "b", have, sizeof have));
  assert_floats(have, N, 6, 0);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* Views of dying values, elementwise derivatives and sums of gradients reuse the memory of an operand. */
static void in_place(void **state) {
  enum { N = 4096 };
  for (int fused = 0; fused < 2; fused++) {
    clade_graph *g = graph_new();
    clade_val v = clade_variable(g, "v", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0}), dv;
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
    clade_val h = clade_reshape(g, clade_mul(g, clade_mul(g, v, x), x), CLADE_SHAPE(64, N / 64));
    clade_val t = clade_tanh(g, h), s = clade_softmax(g, clade_add(g, clade_mul(g, t, t), t), 1); /* t three times */
    s = clade_softmax(g, clade_reshape(g, s, CLADE_SHAPE(N / 64, 64)), 1);
    OK(clade_gradients(g, clade_relu(g, s), (clade_val){0}, 1, &v, &dv));
    clade_assign(g, v, clade_sub(g, v, dv));
    clade_func *func = NULL;
    char *steps;
    OK(clade_compile(g, *state, &func, .no_fusion = !fused));
    OK(clade_func_steps(func, &steps));
    assert_int_equal(check_not_in_place(steps), 0);
    assert_true(writes_variable(steps, 0));
    assert_null(strstr(steps, " copy "));
    assert_true(check_plan(func, *state) <= 1.0);
    clade_text_free(steps);
    clade_func_release(func);
    clade_graph_release(g);
  }
  assert_int_equal(check_not_in_place("0 kernel eltwise_x reads - writes c1@arena:0:0:64 workspace -\n"
                                      "1 kernel eltwise_x reads c1@arena:0:0:64 writes c2@arena:0:64:64 workspace -\n"),
                   1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_at_once),
      cmocka_unit_test(one_taker),
      cmocka_unit_test(both_in_their_places),
      cmocka_unit_test(in_place),
  };
  return cmocka_run_group_tests_name("plan_in_place", tests, open_device, close_device);
}

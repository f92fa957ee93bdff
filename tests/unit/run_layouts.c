/* Graphs with blocked layouts between nodes: the results of dense ones, between guards. Packed copies of variables:
 * made once per version, shared, dropped, and never stale. Over 400 lines: all cases use the implementations in
 * blocked layouts at its top. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "layout_ops.h"

enum { ROWS = 3, C = 5, N = ROWS * C * 2 }; /* no block size divides the axis */

/* Unary, binary and ternary functions, and broadcasts along and across the blocked axis. */
static clade_graph *elementwise(void) {
  clade_graph *g = graph_new();
  const clade_shape shape = CLADE_SHAPE(ROWS, C, 2);
  clade_val x = clade_input(g, "x", CLADE_F32, shape), along = clade_input(g, "along", CLADE_F32, CLADE_SHAPE(C, 1)),
            across = clade_input(g, "across", CLADE_F32, CLADE_SHAPE(ROWS, 1, 2));
  clade_val h = lay1(g, x), y = clade_add(g, clade_tanh(g, clade_mul(g, h, along)), h);
  y = clade_div(g, lay1(g, y), across);
  y = clade_select(g, clade_gt(g, y, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1)), lay1(g, y), h);
  clade_output(g, "half", clade_cast(g, lay1(g, y), CLADE_F16));
  clade_output(g, "y", lay1(g, clade_relu(g, y)));
  return g;
}

static void run_elementwise(clade_device *device, const char *prefer, bool no_fusion, float *y, uint16_t *half,
                            int *packs) {
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  float x[N], along[C], across[2 * ROWS];
  clade_graph *g = elementwise();
  for (int i = 0; i < N; i++) x[i] = sinf((float)i);
  for (int i = 0; i < C; i++) along[i] = cosf((float)i);
  for (int i = 0; i < 2 * ROWS; i++) across[i] = 0.5f + (float)(i % 3);
  OK(clade_compile(g, device, &func, .prefer = prefer, .no_fusion = no_fusion));
  clade_graph_release(g);
  *packs = steps_of(func, "pack_forward_ref") + steps_of(func, "unpack_forward_ref");
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run,
                   CLADE_FEEDS({"x", x, sizeof x, NULL}, {"along", along, sizeof along, NULL},
                               {"across", across, sizeof across, NULL}),
                   &ticket));
  OK(clade_read(run, ticket, "y", y, N * sizeof *y));
  OK(clade_read(run, ticket, "half", half, N * sizeof *half));
  if (clade__plan_guard_bytes) OK(clade__run_check_guards(run));
  clade_run_free(run);
  clade_func_release(func);
}

static void elementwise_in_any_layout(void **state) {
  for (int i = 0; i < 4; i++) {
    float want[N], have[N];
    uint16_t want_half[N], have_half[N];
    int packs, none;
    clade__plan_guard_bytes = i / 2 ? 256 : 0;
    run_elementwise(*state, "lay.affine=ref", i % 2, want, want_half, &none);
    run_elementwise(*state, NULL, i % 2, have, have_half, &packs);
    clade__plan_guard_bytes = 0;
    assert_int_equal(none, 0);
    assert_true(packs >= 4); /* at least x, `along`, and two outputs */
    assert_memory_equal(have, want, sizeof want);
    assert_memory_equal(have_half, want_half, sizeof want_half);
  }
}

/* ---- packed copies: y = x w' ---- */
enum { BATCH = 2, DEPTH = 7, OUT = 6 };
static const clade_initial ones = {CLADE_INIT_FILL, 1, 0};

typedef enum weights { FROZEN, CONSTANT, TRAINED } weights;

/* `more` outputs, so that funcs differ. */
static clade_func *product(clade_device *device, weights kind, bool more) {
  float data[OUT * DEPTH];
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(BATCH, DEPTH)), w;
  for (int i = 0; i < OUT * DEPTH; i++) data[i] = 1;
  if (kind == CONSTANT)
    w = clade_constant(g, CLADE_F32, CLADE_SHAPE(OUT, DEPTH), data);
  else
    w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(OUT, DEPTH), ones);
  clade_val y = lay2(g, x, w);
  clade_output(g, "y", y);
  if (more) clade_output(g, "more", affine(g, NULL, lay2(g, x, w), 2, 0));
  if (kind == TRAINED) clade_assign(g, w, affine(g, NULL, w, 1, 1));
  return compiled(g, device);
}

static void feed(clade_run *run, float x, clade_ticket *ticket) {
  float in[BATCH * DEPTH];
  for (int i = 0; i < BATCH * DEPTH; i++) in[i] = x;
  OK(clade_execute(run, CLADE_FEEDS({"x", in, sizeof in, NULL}), ticket));
}

/* Whether the result is that of all weights being `w`. */
static bool gives(clade_run *run, clade_ticket ticket, float x, float w) {
  float y[BATCH * OUT];
  bool right = true;
  OK(clade_read(run, ticket, "y", y, sizeof y));
  for (int i = 0; i < BATCH * OUT; i++) right &= y[i] == x * w * DEPTH;
  return right;
}

static void expect(clade_run *run, float x, float w) {
  clade_ticket ticket;
  feed(run, x, &ticket);
  assert_true(gives(run, ticket, x, w));
}

static void set(clade_vars *vars, float w) {
  float data[OUT * DEPTH];
  for (int i = 0; i < OUT * DEPTH; i++) data[i] = w;
  OK(clade_vars_set(vars, "w", data, sizeof data));
}

typedef struct seen {
  int steps, packs;
} seen;
static void look(void *user, const clade_step_time *time) {
  seen *s = user;
  s->steps += time->step >= 0;
  s->packs += strstr(time->kernel, "pack") != NULL;
}

/* No step packs; each version is packed once, by the first run. */
static void packed_once(void **state) {
  clade_func *one = product(*state, FROZEN, false), *two = product(*state, FROZEN, true);
  clade_vars *vars;
  clade_run *a, *b;
  seen s = {0, 0};
  char *text;
  assert_int_equal(steps_of(one, "pack_forward_ref"), 0);
  assert_int_equal(steps_of(one, "lay_linear"), 1);
  OK(clade_func_explain(one, &text));
  assert_non_null(strstr(text, "of variable \"w\", once for each value of it, for operand 1 of lay.linear (panels)"));
  assert_non_null(strstr(text, "plan: 1 packed copies of what does not change, 224 bytes, made once and kept"));
  clade_text_free(text);
  OK(clade_vars_new(one, 0, &vars));
  OK(clade_run_new(one, vars, &a, .profile = true));
  OK(clade_run_new(two, vars, &b));
  OK(clade_run_observe(a, look, &s));
  for (int i = 0; i < 10; i++) {
    expect(a, (float)i, 1);
    expect(b, (float)i, 1);
  }
  assert_int_equal(vars->packings, 1);
  assert_int_equal(s.steps, 10);
  assert_int_equal(s.packs, 0);
  set(vars, 3);
  expect(b, 2, 3);
  expect(a, 2, 3);
  assert_int_equal(vars->packings, 2);
  clade_run_free(a);
  expect(b, 4, 3);
  clade_run_free(b);
  OK(clade_run_new(one, vars, &a)); /* the copy outlives the runs */
  expect(a, 5, 3);
  assert_int_equal(vars->packings, 2);
  clade_run_free(a);
  clade_vars_release(vars);
  clade_func_release(one);
  clade_func_release(two);
}

/* Variables assigned by another func are packed again; within that func, packing remains a step. */
static void packed_after_training(void **state) {
  clade_func *train = product(*state, TRAINED, false), *infer = product(*state, FROZEN, false);
  clade_vars *vars, *copy;
  clade_run *t, *i, *c;
  assert_int_equal(steps_of(train, "pack_forward_ref"), 1);
  OK(clade_vars_new(train, 0, &vars));
  OK(clade_run_new(train, vars, &t));
  OK(clade_run_new(infer, vars, &i));
  expect(i, 1, 1);
  for (int n = 1; n < 4; n++) {
    expect(t, 2, (float)n); /* and w becomes n + 1 */
    expect(i, 2, (float)n + 1);
    expect(i, 3, (float)n + 1);
  }
  assert_int_equal(vars->packings, 4);
  OK(clade_vars_snapshot(vars, &copy));
  OK(clade_run_new(infer, copy, &c));
  expect(t, 1, 4);
  expect(c, 1, 4);
  expect(i, 1, 5);
  clade_run_free(c);
  clade_vars_release(copy);
  clade_run_free(t);
  clade_run_free(i);
  clade_vars_release(vars);
  clade_func_release(train);
  clade_func_release(infer);
}

/* The same for a product's weights. */
static void frozen_products(void **state) {
  enum { M = 16, K = 37, COLUMNS = 40 };
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(M, K));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(COLUMNS, K), ones);
  clade_output(g, "y", clade_gemm(g, x, w, .trans_b = true));
  clade_func *func = compiled(g, *state);
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  float in[M * K], weights[COLUMNS * K], y[M * COLUMNS];
  char *text;
  for (int i = 0; i < M * K; i++) in[i] = 1;
  assert_int_equal(steps_of(func, "pack_forward_panels"), 0);
  OK(clade_func_explain(func, &text));
  assert_non_null(strstr(text, "of variable \"w\", once for each value of it, for operand 1 of gemm (vec_panels)"));
  clade_text_free(text);
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int turn = 0; turn < 6; turn++) {
    if (turn % 3 == 2) {
      for (int i = 0; i < COLUMNS * K; i++) weights[i] = (float)(turn + i / K);
      OK(clade_vars_set(vars, "w", weights, sizeof weights));
    }
    OK(clade_execute(run, CLADE_FEEDS({"x", in, sizeof in, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", y, sizeof y));
    for (int i = 0; i < M * COLUMNS; i++)
      assert_float_equal(y[i], (float)(turn < 2 ? K : K * (i % COLUMNS + (turn < 5 ? 2 : 5))), 0);
    assert_int_equal(vars->packings, turn < 2 ? 1 : turn < 5 ? 2 : 3);
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* Packed with the func, between guards, for several runs. */
static void packed_constants(void **state) {
  for (int guard = 0; guard < 2; guard++) {
    clade__plan_guard_bytes = guard ? 256 : 0;
    clade_func *func = product(*state, CONSTANT, true);
    clade_run *run;
    assert_int_equal(steps_of(func, "pack_forward_ref"), 0);
    for (int i = 0; i < 2; i++) {
      OK(clade_run_new(func, NULL, &run));
      expect(run, 3, 1);
      expect(run, 4, 1);
      if (guard) OK(clade__run_check_guards(run));
      clade_run_free(run);
    }
    clade_func_release(func);
    clade__plan_guard_bytes = 0;
  }
}

static void packed_between_guards(void **state) {
  clade__plan_guard_bytes = 256;
  clade_func *func = product(*state, FROZEN, true);
  clade_vars *vars;
  clade_run *run;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  expect(run, 3, 1);
  OK(clade__run_check_guards(run));
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade__plan_guard_bytes = 0;
}

/* A running execution reads the version that it began with. */
static void two_slots(void **state) {
  clade_func *func = product(*state, FROZEN, false);
  clade_vars *vars;
  clade_run *run, *other;
  clade_ticket first, second, third;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_run_new(func, vars, &other));
  for (float w = 1; w < 20; w++) {
    set(vars, w);
    feed(run, 1, &first);
    feed(other, 1, &second);
    feed(run, 2, &third);
    set(vars, -w); /* packed copies are immutable */
    expect(other, 3, -w);
    assert_true(gives(run, first, 1, w) && gives(run, third, 2, w));
    assert_true(gives(other, second, 1, w));
  }
  clade_run_free(run);
  clade_run_free(other);
  clade_vars_release(vars);
  clade_func_release(func);
}

typedef struct worker {
  clade_func *func;
  clade_vars *vars;
  float w;
  int wrong;
} worker;

static void *work(void *user) {
  worker *me = user;
  clade_run *run = NULL;
  clade_ticket ticket = 0, before = 0;
  float x[BATCH * DEPTH], y[BATCH * OUT];
  if (clade_run_new(me->func, me->vars, &run) != CLADE_OK) me->wrong++;
  for (int i = 0; i < 100 && run; i++, before = ticket) {
    for (int k = 0; k < BATCH * DEPTH; k++) x[k] = (float)i;
    if (clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) != CLADE_OK) me->wrong++;
    if (!before) continue;
    if (clade_read(run, before, "y", y, sizeof y) != CLADE_OK) me->wrong++;
    for (int k = 0; k < BATCH * OUT; k++) me->wrong += y[k] != (float)(i - 1) * me->w * DEPTH;
  }
  clade_run_free(run);
  return NULL;
}

static void threads(void **state) {
  clade_func *one = product(*state, FROZEN, false), *two = product(*state, FROZEN, true);
  clade_vars *vars;
  OK(clade_vars_new(one, 0, &vars));
  for (int round = 1; round < 6; round++) {
    pthread_t thread[4];
    worker workers[4];
    set(vars, (float)round);
    for (int i = 0; i < 4; i++) {
      workers[i] = (worker){i % 2 ? two : one, vars, (float)round, 0};
      assert_int_equal(pthread_create(&thread[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(thread[i], NULL);
      assert_int_equal(workers[i].wrong, 0);
    }
    assert_int_equal(vars->packings, round);
  }
  clade_vars_release(vars);
  clade_func_release(one);
  clade_func_release(two);
}

/* Copies are dropped if memory is short, and made again later. */
static void budget(void **state) {
  clade_device *device = *state;
  clade_func *func = product(device, FROZEN, false);
  clade_memory_use use = {.size = sizeof use};
  clade__buffer *large;
  clade_vars *vars;
  clade_run *run;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  expect(run, 1, 1);
  OK(clade__buffer_new(device, 1 << 20, "all that is left", &large));
  OK(clade_device_memory(device, &use));
  uint64_t left = use.used - use.pooled;
  clade__buffer_release(large);
  OK(clade_device_set_budget(device, left - 1)); /* not enough for the packed copy */
  OK(clade__buffer_new(device, 1 << 20, "all that is left", &large));
  assert_null(vars->packed[0].buffer);
  clade__buffer_release(large);
  expect(run, 2, 1);
  expect(run, 3, 1);
  assert_int_equal(vars->packings, 2);
  OK(clade_device_set_budget(device, 1)); /* no memory: an error, and correct results afterwards */
  set(vars, 2);
  clade_ticket ticket;
  float x[BATCH * DEPTH] = {0};
  clade__buffer *held = clade__buffer_retain(vars->packed[0].buffer); /* otherwise its memory would be reused */
  refused(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket), CLADE_DEVICE_MEMORY, "a packed copy");
  OK(clade_device_set_budget(device, 0));
  expect(run, 4, 2);
  clade__buffer_release(held);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* Values changed without a new version are not detected, so that the tests above would find stale copies. */
static void a_planted_stale_copy(void **state) {
  clade_func *func = product(*state, FROZEN, false);
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  expect(run, 1, 1);
  set(vars, 2);
  vars->at[0].version--;
  feed(run, 1, &ticket);
  assert_false(gives(run, ticket, 1, 2));
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(elementwise_in_any_layout),
      cmocka_unit_test(packed_once),
      cmocka_unit_test(packed_after_training),
      cmocka_unit_test(frozen_products),
      cmocka_unit_test(packed_constants),
      cmocka_unit_test(packed_between_guards),
      cmocka_unit_test(two_slots),
      cmocka_unit_test(threads),
      cmocka_unit_test(budget),
      cmocka_unit_test(a_planted_stale_copy),
  };
  return cmocka_run_group_tests_name("run_layouts", tests, open_device, close_device);
}

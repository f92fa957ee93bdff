/* Funcs on several devices: transfers as host steps, errors, overlapping executions, and runs in threads. */
#include <stdio.h>
#include <unistd.h>

#include "run_ping_pong.h"

enum { THREADS = 4, LARGEST_BATCH = 5 };

static clade_device *part[2];

static int split(void **state) {
  if (open_device(state) != 0) return -1;
  if (clade_device_split(*state, 2, part) == CLADE_OK) return 0;
  print_error("%s\n", clade_last_error());
  return -1;
}
static int join(void **state) {
  clade_device_release(part[0]);
  clade_device_release(part[1]);
  return close_device(state);
}

static void transfers(void **state) {
  (void)state;
  clade_func_info info = {.size = sizeof info};
  clade_func *func = ping_pong(part[0], part[1]);
  OK(clade_func_get_info(func, &info));
  assert_true(info.segments >= 3);
  for (int slots = 1; slots <= 4; slots++) check_ping_pong(func, 40, slots);
  clade_func_release(func);
}

static void execute_with(clade_run *run, float x, float w) {
  float in[N], out[N];
  clade_ticket ticket;
  for (int k = 0; k < N; k++) in[k] = x;
  OK(clade_execute(run, CLADE_FEEDS({"x", in, sizeof in, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", out, sizeof out));
  assert_floats(out, N, x + w, 0);
  OK(clade_read(run, ticket, "seen", out, sizeof out));
  assert_floats(out, N, w, 0);
}

/* An unassigned variable is transferred once per version; a dropped copy is made again. */
static void frozen_variables(void **state) {
  (void)state;
  float data[N];
  int copies;
  uint64_t bytes;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 5, 0});
  clade_graph_place(g, 1);
  clade_output(g, "y", add(g, x, w));
  clade_output(g, "seen", clade_reshape(g, w, CLADE_SHAPE(N / 2, 2)));
  OK(clade_compile(g, part[0], &func, .n_devices = 1, .devices = &part[1]));
  clade_graph_release(g);
  OK(clade_func_crossing(func, 0, 1, &copies, &bytes));
  assert_int_equal(copies, 1); /* only x */
  assert_int_equal(bytes, sizeof data);
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int i = 0; i < 4; i++) execute_with(run, (float)i, 5);
  assert_int_equal(vars->packings, 1);
  for (int k = 0; k < N; k++) data[k] = 7;
  OK(clade_vars_set(vars, "w", data, sizeof data));
  for (int i = 0; i < 4; i++) execute_with(run, (float)i, 7);
  assert_int_equal(vars->packings, 2);
  assert_true(clade__packed_drop(vars, part[1]));
  assert_false(clade__packed_drop(vars, part[0]));
  execute_with(run, 1, 7);
  assert_int_equal(vars->packings, 3);
  assert_int_equal(clade_func_crossing(func, 0, 2, &copies, &bytes), CLADE_NOT_FOUND);
  assert_int_equal(clade_func_crossing(func, 0, 1, NULL, &bytes), CLADE_INVALID);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* Freed at once, with everything pending. */
static void freed_while_busy(void **state) {
  float x[N] = {0};
  (void)state;
  clade_func *func = ping_pong(part[0], part[1]);
  for (int i = 0; i < 20; i++) {
    clade_run *run;
    clade_vars *vars;
    OK(clade_vars_new(func, 0, &vars));
    OK(clade_run_new(func, vars, &run, .slots = 3));
    for (int k = 0; k < i % 4; k++) OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL));
    if (i % 2) OK(clade_cancel(run));
    clade_run_free(run);
    clade_vars_release(vars);
  }
  clade_func_release(func);
}

/* Executions that have not begun are canceled; earlier ones are not. */
static void cancels(void **state) {
  float x[N] = {0}, out[N];
  clade_run *run;
  clade_func *func = NULL;
  clade_ticket ticket[3];
  (void)state;
  clade_graph *g = graph_new();
  clade_val a = fresh(g, clade_fill(g, CLADE_F32, CLADE_SHAPE(N), 3), 1, 1);
  clade_graph_place(g, 1);
  clade_val b = fresh(g, a, 2, 0);
  clade_graph_place(g, 0);
  clade_output(g, "y", fresh(g, b, 1, 0));
  OK(clade_compile(g, part[0], &func, .n_devices = 1, .devices = &part[1]));
  clade_graph_release(g);
  OK(clade_run_new(func, NULL, &run, .slots = 3));
  pthread_mutex_lock(&run->lock); /* block the progress thread until the cancellation is done */
  for (int l = 0; l < run->n_lanes; l++) assert_int_equal(run->lanes[l].next, 1);
  pthread_mutex_unlock(&run->lock);
  for (int i = 0; i < 3; i++) OK(clade_execute(run, 0, NULL, &ticket[i]));
  OK(clade_cancel(run));
  OK(clade_read(run, ticket[0], "y", out, sizeof out)); /* had begun */
  assert_floats(out, N, 8, 0);
  for (int i = 1; i < 3; i++) { /* either outcome, but no hang */
    clade_status s = clade_read(run, ticket[i], "y", out, sizeof out);
    assert_true(s == CLADE_OK || s == CLADE_CANCELED);
  }
  OK(clade_execute(run, 0, NULL, &ticket[0]));
  OK(clade_read(run, ticket[0], "y", x, sizeof x));
  assert_floats(x, N, 8, 0);
  clade_run_free(run);
  clade_func_release(func);
}

/* ---- threads ---- */
typedef struct worker {
  clade_func *func;
  int number;
  bool failed;
  char message[256];
} worker;

static clade_status work(const worker *w) {
  float x[N], out[N];
  clade_run *run;
  clade_ticket ticket;
  clade_func *shaped;
  for (int round = 0; round < 6; round++) {
    int64_t batch = 1 + (w->number + round) % LARGEST_BATCH;
    size_t bytes = (size_t)batch * 100 * sizeof(float);
    CLADE_TRY(clade_func_specialize(w->func, CLADE_DIMS({"batch", batch}), &shaped));
    CLADE_TRY(clade_run_new(shaped, NULL, &run));
    clade_func_release(shaped);
    for (int i = 0; i < 20; i++) {
      for (int k = 0; k < N; k++) x[k] = (float)(w->number * 100 + i);
      CLADE_TRY(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), &ticket));
      CLADE_TRY(clade_read(run, ticket, "y", out, bytes));
      for (size_t k = 0; k < bytes / sizeof(float); k++)
        if (out[k] != 2 * x[0] + 1) return CLADE_FAIL(CORRUPT, "worker %d: %g", w->number, (double)out[k]);
    }
    clade_run_free(run);
  }
  return CLADE_OK;
}

static void *run_worker(void *user) {
  worker *w = user;
  w->failed = work(w) != CLADE_OK;
  if (w->failed) snprintf(w->message, sizeof w->message, "%s", clade_last_error());
  return NULL;
}

/* PoCL 3.1 may abort if launches of a kernel overlap with its first launch with more groups (docs/porting.md). */
static void largest_batch(clade_func *func) {
  clade_func *shaped;
  clade_run *run;
  float x[LARGEST_BATCH * 100] = {0}, out[LARGEST_BATCH * 100];
  clade_ticket ticket;
  OK(clade_func_specialize(func, CLADE_DIMS({"batch", LARGEST_BATCH}), &shaped));
  OK(clade_run_new(shaped, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", out, sizeof out));
  clade_run_free(run);
  clade_func_release(shaped);
}

static void threads(void **state) {
  pthread_t thread[THREADS];
  worker workers[THREADS];
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 100));
  clade_output(g, "y", affine(g, NULL, fresh(g, x, 2, 0), 1, 1));
  clade_func *func = compiled(g, *state);
  largest_batch(func);
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.func = func, .number = i};
    assert_int_equal(pthread_create(&thread[i], NULL, run_worker, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    if (workers[i].failed) fail_msg("%s", workers[i].message);
  }
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transfers), cmocka_unit_test(frozen_variables), cmocka_unit_test(freed_while_busy),
      cmocka_unit_test(cancels),   cmocka_unit_test(threads),
  };
  return cmocka_run_group_tests_name("run_devices", tests, split, join);
}

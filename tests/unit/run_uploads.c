/* Input transfers during computation: they overlap with the previous execution, never disturb pending reads, and
 * combine with tensors, events and funcs without steps. */
#include <unistd.h>

#include "plan_kit.h"

enum { N = 4096, PASSES = 1 << 21 };

/* y[i] = x[i] + 1, after a long loop in one work-item. */
static clade_status slow_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "slow");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, kit_count(q));
  clade_emit_i32(s, PASSES);
  clade_emit_range(s, 1, (size_t[]){1}, (size_t[]){1});
  return CLADE_OK;
}
static const clade_impl *const slow_impls[] = {CLADE_IMPL(.name = "ref", .emit = slow_emit), NULL};
static const clade_op slow = {
    .size = sizeof(clade_op),
    .name = "upload.slow",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = kit_same,
    .impls = slow_impls,
    .source = "KERNEL(slow)(ARG(float, x), ARG(float, y), const index_t n, const int passes) {\n"
              "  USE(float, x); USE(float, y);\n"
              "  uint state = 1;\n"
              "  for (int i = 0; i < passes; i++) state = (state ^ (uint)i) * 1664525u + 1013904223u;\n"
              "  for (index_t i = 0; i < n; i++) y[i] = x[i] + (state == 7 ? 2.0f : 1.0f);\n"
              "}\n"};

static clade_func *slow_func(clade_device *device) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "y", clade_node_add(g, &slow, NULL, NULL, 1, &x, NULL));
  return compiled(g, device);
}

static void fill(float *x, float first) {
  for (int i = 0; i < N; i++) x[i] = first + (float)i;
}

/* When each execution's input had arrived, and when its step began and ended. */
enum { TIMES = 8 };
typedef struct seen {
  uint64_t arrived[TIMES + 1], begun[TIMES + 1], ended[TIMES + 1];
} seen;
static void observe(void *user, const clade_step_time *t) {
  seen *s = user;
  uint64_t number = clade__ticket_execution(t->ticket);
  assert_true(number >= 1 && number <= TIMES && t->device == 0);
  if (t->step < 0) {
    assert_string_equal(t->name, "x");
    s->arrived[number] = t->end_ns;
  } else {
    s->begun[number] = t->start_ns;
    s->ended[number] = t->end_ns;
  }
}

/* An input is transferred during the previous execution, if the device has a free thread. */
static void overlap(void **state) {
  float x[N];
  clade_run *run;
  seen s = {0};
  int early = 0;
  clade_func *func = slow_func(*state);
  OK(clade_run_new(func, NULL, &run, .profile = true));
  OK(clade_run_observe(run, observe, &s));
  fill(x, 0);
  for (int i = 0; i < TIMES; i++) OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL));
  OK(clade_wait(run, 0));
  for (int i = 1; i <= TIMES; i++) {
    assert_true(s.arrived[i] && s.arrived[i] <= s.begun[i] && s.begun[i] <= s.ended[i]);
    if (i > 1) early += s.arrived[i] < s.ended[i - 1];
  }
  print_message("%d of %d inputs arrived while the execution before was computed\n", early, TIMES - 1);
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) assert_true(early >= 1); /* none on an in-order queue */
  clade_run_free(run);
  clade_func_release(func);
}

/* Reads the last elements of a long input: without waiting for the whole transfer, they would be old. */
enum { LONG = 1 << 22, TAIL = 16 };
static clade_status tail_infer(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(TAIL)};
  return CLADE_OK;
}
static clade_status tail_emit(clade_emit *e, const clade_query *q) {
  (void)q;
  clade_kernel_step *s = clade_emit_kernel(e, "tail");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, LONG - TAIL);
  clade_emit_i32(s, TAIL);
  kit_range(s, TAIL);
  return CLADE_OK;
}
static const clade_impl *const tail_impls[] = {CLADE_IMPL(.name = "ref", .emit = tail_emit), NULL};
static const clade_op tail = {
    .size = sizeof(clade_op),
    .name = "upload.tail",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = tail_infer,
    .impls = tail_impls,
    .source = "KERNEL(tail)(ARG(float, x), ARG(float, y), const index_t from, const int n) {\n"
              "  USE(float, x); USE(float, y);\n"
              "  if ((int)get_global_id(0) < n) y[get_global_id(0)] = x[from + (index_t)get_global_id(0)];\n"
              "}\n"};

static void all_of_it(void **state) {
  float *x = calloc(LONG, sizeof *x), y[TAIL];
  assert_non_null(x);
  clade_graph *g = graph_new();
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(LONG));
  clade_output(g, "y", clade_node_add(g, &tail, NULL, NULL, 1, &in, NULL));
  clade_func *func = compiled(g, *state);
  clade_run *run;
  OK(clade_run_new(func, NULL, &run));
  for (int i = 1; i <= 2 * TIMES; i++) {
    clade_ticket ticket;
    for (int k = 0; k < TAIL; k++) x[LONG - TAIL + k] = (float)(i + k);
    OK(clade_execute(run, CLADE_FEEDS({"x", x, LONG * sizeof *x, NULL}), &ticket));
    OK(clade_read(run, ticket, "y", y, sizeof y));
    assert_floats(y, TAIL, (float)i, 1);
  }
  clade_run_free(run);
  clade_func_release(func);
  free(x);
}

/* Each execution sees its own input, for any number of active executions, waits and profiling. */
static void own_input(void **state) {
  float x[N], y[N];
  clade_func *func = slow_func(*state);
  for (int slots = 1; slots <= 3; slots++) {
    clade_run *run;
    clade_ticket ticket[3 * TIMES];
    OK(clade_run_new(func, NULL, &run, .slots = slots, .profile = slots == 2));
    for (int i = 0; i < 3 * TIMES; i++) {
      fill(x, (float)(100 * i));
      OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket[i]));
      fill(x, -1); /* it was copied */
      if (i < slots - 1) continue;
      OK(clade_read(run, ticket[i - slots + 1], "y", y, sizeof y)); /* the oldest that can be read */
      assert_floats(y, N, (float)(100 * (i - slots + 1)) + 1, 1);
    }
    clade_run_free(run);
  }
  clade_func_release(func);
}

/* Tensors and host memory in one execution, in either order; inputs that are outputs, without steps. */
static void mixed(void **state) {
  float x[N], y[N];
  for (int profile = 0; profile < 2; profile++)
    for (int steps = 0; steps < 2; steps++)
      for (int first = 0; first < 2; first++) {
        clade_graph *g = graph_new();
        clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(N)),
                  b = clade_input(g, "b", CLADE_F32, CLADE_SHAPE(N));
        clade_output(g, "p", steps ? add(g, a, b) : a);
        clade_output(g, "q", b);
        clade_func *func = compiled(g, *state);
        clade_run *run;
        clade_tensor *tensor;
        OK(clade_run_new(func, NULL, &run, .profile = profile));
        OK(clade_tensor_new(*state, CLADE_F32, CLADE_SHAPE(N), &tensor));
        for (int i = 0; i < 5; i++) {
          clade_ticket ticket;
          fill(x, (float)(10 * i));
          OK(clade_tensor_write(tensor, x, sizeof x));
          clade_feed host = {first ? "b" : "a", x, sizeof x, NULL}, device = {first ? "a" : "b", NULL, 0, tensor};
          fill(x, (float)i);
          OK(clade_execute(run, 2, (clade_feed[]){host, device}, &ticket));
          fill(x, -5);
          OK(clade_read(run, ticket, "p", y, sizeof y));
          assert_floats(y, N, steps ? (float)(11 * i) : (float)(first ? 10 * i : i), steps ? 2 : 1);
          OK(clade_read(run, ticket, "q", y, sizeof y));
          assert_floats(y, N, (float)(first ? i : 10 * i), 1);
        }
        clade_tensor_release(tensor);
        clade_run_free(run);
        clade_func_release(func);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overlap),
      cmocka_unit_test(all_of_it),
      cmocka_unit_test(own_input),
      cmocka_unit_test(mixed),
  };
  return cmocka_run_group_tests_name("run_uploads", tests, open_device, close_device);
}

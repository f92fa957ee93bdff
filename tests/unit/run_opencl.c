/* The program's own OpenCL objects: adopted queues, events in and out; and profiles. */
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "cl/internal.h"
#include "plan_kit.h"

enum { N = 64 };

static clade_func *twice(clade_device *device) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "y", affine(g, "plus", fresh(g, x, 2, 0), 1, 1));
  return compiled(g, device);
}

static void slots_are_busy(void **state) {
  float x[N] = {0}, out[N];
  clade_run *run;
  clade_ticket ticket;
  cl_event gate, done;
  clade_func *func = twice(*state);
  OK(clade_run_new(func, NULL, &run, .nowait = true));
  OK(clade__user_event_new(*state, &gate));
  OK(clade_execute_after(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), 1, &gate, &ticket, &done));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL));
  refused(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL), CLADE_BUSY,
          "all 2 slots are busy; the oldest is execution 1");
  int finished;
  OK(clade__event_poll(*state, done, &finished));
  assert_int_equal(finished, 0);
  OK(clade__user_event_set(*state, gate, true));
  OK(clade__event_wait(*state, done));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", out, sizeof out));
  assert_floats(out, N, 1, 0);
  clade__event_release(gate);
  clade__event_release(done);
  clade_run_free(run);
  clade_func_release(func);
}

static void an_adopted_queue(void **state) {
  float x[N], out[N];
  clade_device *device = *state;
  clade_run *run = NULL;
  clade_ticket ticket;
  cl_event gate, done;
  cl_int e;
  clade_func *func = twice(device);
  cl_context context = clade_device_context(device);
  cl_command_queue queue = clade__cl.clCreateCommandQueue(context, clade_device_cl_id(device), 0, &e);
  assert_int_equal(e, CL_SUCCESS);
  refused(clade_run_new_on(func, NULL, NULL, &(clade_run_opt){.size = sizeof(clade_run_opt), .out = &run}),
          CLADE_INVALID, "the queue is NULL");
  OK(clade_run_new_on(func, NULL, queue, &(clade_run_opt){.size = sizeof(clade_run_opt), .out = &run}));
  OK(clade__user_event_new(device, &gate));
  for (int i = 0; i < N; i++) x[i] = (float)i;
  OK(clade_execute_after(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), 1, &gate, &ticket, &done));
  refused(clade_execute_after(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), 1, NULL, NULL, NULL), CLADE_INVALID,
          "1 events, the list is NULL");
  OK(clade__user_event_set(device, gate, true));
  OK(clade_read(run, ticket, "y", out, sizeof out));
  assert_floats(out, N, 1, 2);
  OK(clade__event_wait(device, done));
  clade__event_release(gate);
  clade__event_release(done); /* events hold their queue */
  clade_run_free(run);
  /* The queue remains valid; PoCL's own references make counts meaningless. */
  assert_int_equal(clade__cl.clFinish(queue), CL_SUCCESS);
  assert_int_equal(clade__cl.clReleaseCommandQueue(queue), CL_SUCCESS);
  clade_func_release(func);
}

/* An execution that fails after clade_execute: the error is returned when it is read, and stays in the run. */
static void a_late_failure(void **state) {
  float x[N] = {0}, out[N];
  clade_run *run;
  clade_ticket ticket;
  clade_func *func = twice(*state);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_run_status(run));
  pthread_mutex_lock(&run->lock); /* simulates a command that fails later */
  clade_fail(CLADE_OPENCL, "a command failed: planted");
  clade__slot_fail(clade__slot_of(run, clade__ticket_execution(ticket)), CLADE_OPENCL);
  pthread_mutex_unlock(&run->lock);
  refused(clade_read(run, ticket, "y", out, sizeof out), CLADE_OPENCL, "planted");
  refused(clade_run_status(run), CLADE_OPENCL, "planted");
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket)); /* the slot is usable again */
  OK(clade_read(run, ticket, "y", out, sizeof out));
  assert_floats(out, N, 1, 0);
  clade_run_free(run);
  clade_func_release(func);
}

/* ---- profile ---- */
typedef struct seen {
  int count, kernels;
  uint64_t first_start, last_end, busy;
} seen;

static void observe(void *user, const clade_step_time *t) {
  seen *s = user;
  assert_true(t->start_ns <= t->end_ns && t->queued_ns <= t->start_ns);
  if (t->step >= 0) { /* in order; inputs overlap */
    assert_true(t->start_ns >= s->last_end);
    if (!s->last_end) s->first_start = t->start_ns;
    s->last_end = t->end_ns;
    s->busy += t->end_ns - t->start_ns;
  }
  s->count++;
  s->kernels += *t->kernel != '\0';
}

static void a_profile(void **state) {
  enum { TIMES = 5 };
  float x[N] = {0};
  seen s = {0};
  clade_run *run, *plain;
  clade_func *func = twice(*state);
  char path[256];
  snprintf(path, sizeof path, "%s/trace.json", getenv("CLADE_CACHE_DIR") ? getenv("CLADE_CACHE_DIR") : ".");
  OK(clade_run_new(func, NULL, &plain));
  refused(clade_run_trace(plain, path), CLADE_INVALID, "without .profile");
  refused(clade_run_observe(plain, observe, &s), CLADE_INVALID, "without .profile");
  clade_run_free(plain);
  OK(clade_run_new(func, NULL, &run, .profile = true));
  OK(clade_run_observe(run, observe, &s));
  for (int i = 0; i < TIMES; i++) OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), NULL));
  OK(clade_wait(run, 0));
  assert_int_equal(s.count, 3 * TIMES); /* the input and two kernels */
  assert_int_equal(s.kernels, 2 * TIMES);
  refused(clade_run_trace(run, "/nowhere/at/all.json"), CLADE_IO, "/nowhere/at/all.json");
  OK(clade_run_trace(run, path));
  json_error_t error;
  json_t *trace = json_load_file(path, 0, &error), *event;
  if (!trace) fail_msg("line %d: %s", error.line, error.text);
  size_t index, events = 0, named = 0;
  json_array_foreach(json_object_get(trace, "traceEvents"), index, event) {
    if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) continue;
    events++;
    named += strcmp(json_string_value(json_object_get(event, "name")), "plus") == 0 &&
             strcmp(json_string_value(json_object_get(json_object_get(event, "args"), "impl")), "ref") == 0;
    assert_true(json_is_number(json_object_get(event, "ts")) && json_is_number(json_object_get(event, "dur")));
  }
  assert_int_equal(events, 3 * TIMES);
  assert_int_equal(named, TIMES);
  const json_t *idle = json_object_get(json_object_get(trace, "otherData"), "idle");
  assert_int_equal(json_array_size(idle), 1);
  const double ran = (double)s.busy / (double)(s.last_end - s.first_start);
  assert_true(fabs(json_number_value(json_array_get(idle, 0)) - (1 - ran)) < 1e-6);
  json_decref(trace);
  remove(path);
  clade_run_free(run);
  clade_func_release(func);
}

static void texts(void **state) {
  char *text;
  clade_func *func = twice(*state);
  OK(clade_func_explain(func, &text));
  assert_non_null(strstr(text, "plan: 2 steps, 2 kernels"));
  assert_non_null(strstr(text, "plus"));
  clade_text_free(text);
  OK(clade_func_steps(func, &text));
  assert_non_null(
      strstr(text, "1 kernel device 0 node plus kernel kit_affine global 64x1x1 local 16x1x1 reads c1@arena:0:"));
  assert_non_null(strstr(text, " writes c2@output:0:0:256 workspace -\n"));
  clade_text_free(text);
  refused(clade_func_steps(NULL, &text), CLADE_INVALID, "NULL");
  refused(clade_func_explain(func, NULL), CLADE_INVALID, "NULL");
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_are_busy), cmocka_unit_test(an_adopted_queue),

      cmocka_unit_test(a_late_failure), cmocka_unit_test(a_profile),        cmocka_unit_test(texts),
  };
  return cmocka_run_group_tests_name("run_opencl", tests, open_device, close_device);
}

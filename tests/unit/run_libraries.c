/* Steps enqueued by external libraries: ordered with kernels, with state, failures, and their names in reports; and
 * Clade's own library implementations, which are not enabled here. */
#include <clade/opencl.h>

#include "cl/internal.h"
#include "plan_kit.h"

enum { N = 64, SHIFT = 5 };

/* ---- a library that rotates values by copies through a workspace ---- */
static int prepared, released, enqueued, failing; /* failing: 1 in prepare, 2 in enqueue, 3 without a message */

typedef struct rotation {
  size_t shift;
  bool with_event;
} rotation;

static clade_status prepare(const void *work, clade_device *device, void **state) {
  if (failing == 1) return clade_fail(CLADE_UNSUPPORTED, "the library is tired");
  assert_int_equal(((const rotation *)work)->shift, SHIFT);
  assert_non_null(device);
  *state = &prepared;
  prepared++;
  return CLADE_OK;
}

static void release(void *state) {
  assert_ptr_equal(state, &prepared);
  released++;
}

static cl_int copy(const clade_library_call *c, int from, size_t from_at, int to, size_t to_at, size_t n,
                   cl_event *event) {
  return clade__cl.clEnqueueCopyBuffer(c->queue, c->memory[from], c->memory[to], c->offset[from] + from_at,
                                       c->offset[to] + to_at, n, 0, NULL, event);
}

static clade_status enqueue(const clade_library_call *c) {
  const rotation *r = c->work;
  const size_t all = N * sizeof(float), head = r->shift * sizeof(float);
  if (failing == 2) return clade_fail(CLADE_OPENCL, "the library fell");
  if (failing == 3) return CLADE_UNSUPPORTED;
  assert_int_equal(c->n, 3);
  assert_ptr_equal(c->state, &prepared);
  enqueued++;
  if (copy(c, 0, 0, 2, 0, all, NULL) || copy(c, 2, head, 1, 0, all - head, NULL)) return CLADE_OPENCL;
  return copy(c, 2, 0, 1, all - head, head, r->with_event ? c->event : NULL) ? CLADE_OPENCL : CLADE_OK;
}

static const clade_library rotator = {
    .size = sizeof rotator, .prepare = prepare, .enqueue = enqueue, .release = release};

typedef struct attrs {
  int32_t how; /* 1: returns events; above: an invalid emit */
} attrs;
static const clade_attr table[] = {{"how", CLADE_ATTR_I32, offsetof(attrs, how), 1}, {0}};

static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}

static size_t workspace(const clade_query *q) {
  (void)q;
  return 16 + N * sizeof(float);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const int how = ((const attrs *)q->node->attrs)->how;
  const rotation work = {SHIFT, how == 1};
  clade_kernel_step *s = clade_emit_library(e, how == 2 ? "no name" : "rotate", how == 3 ? NULL : &rotator,
                                            how == 4 ? NULL : &work, sizeof work);
  if (how == 5) clade_emit_define(s, "A", 1);
  if (how == 6) clade_emit_i32(s, 1);
  if (how == 7) clade_emit_local(s, 4);
  if (how == 8) clade_emit_range(s, 1, (size_t[]){1}, (size_t[]){1});
  for (int i = 0; how == 9 && i <= CLADE_MAX_LIBRARY_OPERANDS; i++) clade_emit_in(s, 0);
  if (how == 10) clade_emit_in(s, 3);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_workspace(s, 16, sizeof(float));
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "rotator", .workspace = workspace, .emit = emit), NULL};
static const clade_op rotate = {.size = sizeof rotate,
                                .name = "acme.rotate",
                                .min_in = 1,
                                .max_in = 1,
                                .n_out = 1,
                                .attr_bytes = sizeof(attrs),
                                .attrs = table,
                                .infer = infer,
                                .impls = impls};

/* y = 3 * rotated(2 x) + 1 */
static clade_graph *graph_of(int how) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val doubled = affine(g, "double", x, 2, 0), turned;
  clade_node_add(g, &rotate, "turn", &(attrs){how}, 1, &doubled, &turned);
  clade_output(g, "y", affine(g, "triple", turned, 3, 1));
  return g;
}

static void check(clade_run *run, int from) {
  float x[N], y[N];
  clade_ticket ticket;
  for (int i = 0; i < N; i++) x[i] = (float)(from + i);
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, sizeof y));
  for (int i = 0; i < N; i++) assert_float_equal(y[i], 6 * (float)(from + (i + SHIFT) % N) + 1, 0);
}

static void between_kernels(void **state) {
  for (int how = 0; how < 2; how++) {
    clade_func *func = compiled(graph_of(how), *state);
    clade_run *run[2];
    char *text;
    int before = enqueued, made = prepared, gone = released;
    OK(clade_func_steps(func, &text));
    assert_non_null(strstr(text, "library device 0 node turn routine rotate reads"));
    clade_text_free(text);
    OK(clade_func_explain(func, &text));
    assert_non_null(strstr(text, "plan: 1 steps of other libraries"));
    clade_text_free(text);
    for (int r = 0; r < 2; r++) OK(clade_run_new(func, NULL, &run[r]));
    for (int i = 0; i < 6; i++) check(run[i % 2], i); /* more than the slots */
    assert_int_equal(enqueued - before, 6);
    for (int r = 0; r < 2; r++) clade_run_free(run[r]);
    assert_int_equal(released, gone);
    clade_func_release(func);
    assert_int_equal(prepared, made);
    assert_int_equal(released, gone + 1);
  }
}

static void observe(void *user, const clade_step_time *t) {
  assert_true(t->start_ns <= t->end_ns);
  *(int *)user += strcmp(t->kernel, "rotate") == 0;
}

static void a_profile(void **state) {
  for (int how = 0; how < 2; how++) { /* without an event from the library, a marker's is used */
    clade_func *func = compiled(graph_of(how), *state);
    clade_run *run;
    int seen = 0;
    OK(clade_run_new(func, NULL, &run, .profile = true));
    OK(clade_run_observe(run, observe, &seen));
    for (int i = 0; i < 3; i++) check(run, i);
    assert_int_equal(seen, 3);
    clade_run_free(run);
    clade_func_release(func);
  }
}

static void failures(void **state) {
  clade_graph *g = graph_of(0);
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  float x[N] = {0}, y[N];
  int made = prepared, gone = released;
  failing = 1;
  refused(clade_compile(g, *state, &func), CLADE_UNSUPPORTED, "the library is tired");
  assert_int_equal(released, gone);
  failing = 0;
  func = compiled(g, *state);
  assert_int_equal(prepared, made + 1);
  OK(clade_run_new(func, NULL, &run));
  failing = 2;
  refused(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket), CLADE_OPENCL, "the library fell");
  failing = 3;
  refused(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket), CLADE_UNSUPPORTED, "rotate: ");
  failing = 0;
  check(run, 7); /* both slots are usable again */
  check(run, 8);
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, sizeof y));
  clade_run_free(run);
  clade_func_release(func);
}

static void refusals(void **state) {
  static const struct {
    int how;
    const char *words;
  } cases[] = {{2, "routine \"no name\""},
               {3, "its functions are NULL"},
               {4, "bytes of work at NULL"},
               {5, "rotate, a library's, takes operands alone, and no parameters"},
               {6, "and no values"},
               {7, "and no local memory"},
               {8, "and no range"},
               {9, "takes at most 16 operands"},
               {10, "takes input 3, but the node has 1"}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_graph *g = graph_of(cases[i].how);
    clade_func *func;
    refused(clade_compile(g, *state, &func), CLADE_INVALID, cases[i].words);
    clade_graph_release(g);
  }
}

/* Not enabled: computed without the library, and the func reports why. */
static void nobody_asked(void **state) {
  clade_graph *g = graph_new();
  clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(8, 8));
  clade_output(g, "y", clade_gemm(g, a, a));
  clade_func *func = compiled(g, *state);
  char *text;
  OK(clade_func_explain(func, &text));
  assert_non_null(strstr(text, "clblast: not enabled: set CLADE_LIBRARIES=clblast"));
  clade_text_free(text);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(between_kernels), cmocka_unit_test(a_profile),
                                     cmocka_unit_test(failures), cmocka_unit_test(refusals),
                                     cmocka_unit_test(nobody_asked)};
  return cmocka_run_group_tests_name("run_libraries", tests, open_device, close_device);
}

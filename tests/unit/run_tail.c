/* Tails: the next execution runs while host steps of the previous one are pending, up to the first command that
 * reads their results. */
#include <stdatomic.h>
#include <time.h>

#include "plan_kit.h"

enum { N = 64, BYTES = N * sizeof(float) };

/* ---- host steps: one that ends when permitted, and one whose start is recorded ---- */
static atomic_int may_end, seen, fails;

static void copy(const clade_host_call *call, float more) {
  for (int i = 0; i < N; i++) ((float *)call->data[1])[i] = ((const float *)call->data[0])[i] + more;
}
static clade_status late_begin(const clade_host_call *call, void **pending) {
  *pending = (void *)(uintptr_t)call;
  return CLADE_OK;
}
static clade_status late_poll(void *pending, clade_host_state *state) {
  *state = CLADE_HOST_AGAIN;
  if (atomic_load(&fails)) return clade_fail(CLADE_IO, "the late one fell");
  if (!atomic_load(&may_end)) return CLADE_OK;
  atomic_fetch_sub(&may_end, 1);
  copy(pending, 1);
  *state = CLADE_HOST_DONE;
  return CLADE_OK;
}
static clade_status seen_begin(const clade_host_call *call, void **pending) {
  (void)pending;
  copy(call, 0);
  atomic_fetch_add(&seen, 1);
  return CLADE_OK;
}
static const clade_host late_host = {
    .size = sizeof(clade_host), .begin = late_begin, .poll = late_poll, .poll_us = 500};
static const clade_host seen_host = {.size = sizeof(clade_host), .begin = seen_begin};

static clade_status emit(clade_emit *e, const clade_host *host) {
  clade_kernel_step *s = clade_emit_host(e, "step", host, NULL, 0);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  return CLADE_OK;
}
static clade_status late_emit(clade_emit *e, const clade_query *q) { return (void)q, emit(e, &late_host); }
static clade_status seen_emit(clade_emit *e, const clade_query *q) { return (void)q, emit(e, &seen_host); }
static const clade_impl *const late_impls[] = {CLADE_IMPL(.name = "host", .emit = late_emit), NULL};
static const clade_impl *const seen_impls[] = {CLADE_IMPL(.name = "host", .emit = seen_emit), NULL};
#define HOST_OP(NAME, FLAGS, IMPLS)                                                                                  \
  {                                                                                                                  \
    .size = sizeof(clade_op), .name = NAME, .flags = FLAGS, .min_in = 1, .max_in = 1, .n_out = 1, .infer = kit_same, \
    .impls = IMPLS                                                                                                   \
  }
static const clade_op late = HOST_OP("acme.late", CLADE_OP_EFFECT, late_impls),
                      watched = HOST_OP("acme.seen", 0, seen_impls);

/* y = x + w, and w becomes y + 1 late. */
static clade_func *made(clade_device *device) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 5, 0});
  clade_val a = affine(g, NULL, x, 1, 0);
  a = clade_node_add(g, &watched, NULL, NULL, 1, &a, NULL);
  clade_val y = add(g, a, w);
  clade_output(g, "y", y);
  y = fresh(g, y, 1, 0);
  clade_assign(g, w, clade_node_add(g, &late, NULL, NULL, 1, &y, NULL));
  return compiled(g, device);
}

static void execute(clade_run *run, float value, clade_ticket *ticket) {
  float x[N];
  for (int i = 0; i < N; i++) x[i] = value;
  OK(clade_execute(run, CLADE_FEEDS({"x", x, BYTES, NULL}), ticket));
}

static void pause_ms(int ms) { nanosleep(&(struct timespec){0, ms * 1000000L}, NULL); }

static bool is_seen(int count) {
  for (int ms = 0; ms < 10000 && atomic_load(&seen) < count; ms++) pause_ms(1);
  return atomic_load(&seen) >= count;
}

static void check(clade_run *run, clade_ticket ticket, float want) {
  float y[N];
  OK(clade_read(run, ticket, "y", y, sizeof y));
  assert_floats(y, N, want, 0);
}

typedef struct setup {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
} setup;

static setup set_up(clade_device *device, int slots, bool profile) {
  setup s = {.func = made(device)};
  atomic_store(&may_end, 0);
  atomic_store(&seen, 0);
  atomic_store(&fails, 0);
  OK(clade_vars_new(s.func, 0, &s.vars));
  OK(clade_run_new(s.func, s.vars, &s.run, .slots = slots, .profile = profile));
  return s;
}

static void tear_down(setup *s) {
  clade_run_free(s->run);
  clade_vars_release(s->vars);
  clade_func_release(s->func);
}

static void goes_on(void **state) {
  for (int profile = 0; profile < 2; profile++) {
    setup s = set_up(*state, 3, profile);
    clade_ticket ticket[3];
    for (int i = 0; i < 3; i++) execute(s.run, (float)(10 * i), &ticket[i]);
    assert_true(is_seen(2)); /* the second one, while the first one's late step is pending */
    pause_ms(5);
    assert_int_equal(atomic_load(&seen), 2); /* the third one waits for the second, which needs w */
    atomic_fetch_add(&may_end, 1);
    assert_true(is_seen(3));
    check(s.run, ticket[0], 5);
    atomic_fetch_add(&may_end, 2);
    check(s.run, ticket[1], 16);
    check(s.run, ticket[2], 37);
    float w[N];
    OK(clade_vars_get(s.vars, "w", w, sizeof w));
    assert_floats(w, N, 38, 0);
    tear_down(&s);
  }
}

static void *let_end(void *unused) {
  (void)unused;
  pause_ms(20);
  atomic_fetch_add(&may_end, 3);
  return NULL;
}

/* Without further executions, or with one slot, waiting still delivers the late results. */
static void is_waited_for(void **state) {
  for (int slots = 1; slots <= 2; slots++) {
    setup s = set_up(*state, slots, false);
    clade_ticket ticket;
    pthread_t thread;
    float w[N];
    assert_int_equal(pthread_create(&thread, NULL, let_end, NULL), 0);
    for (int i = 0; i < 3; i++) execute(s.run, 1, &ticket);
    OK(clade_wait(s.run, ticket));
    OK(clade_vars_get(s.vars, "w", w, sizeof w));
    assert_floats(w, N, 11, 0);
    pthread_join(thread, NULL);
    tear_down(&s);
  }
}

/* A tail that fails or is canceled while the next execution is active. */
static void ends(void **state) {
  for (int canceled = 0; canceled < 2; canceled++) {
    setup s = set_up(*state, 2, false);
    clade_ticket first, second;
    execute(s.run, 1, &first);
    execute(s.run, 1, &second);
    assert_true(is_seen(2));
    if (canceled) OK(clade_cancel(s.run));
    if (!canceled) atomic_store(&fails, 1);
    refused(clade_wait(s.run, first), canceled ? CLADE_CANCELED : CLADE_IO,
            canceled ? "canceled" : "the late one fell");
    (void)clade_wait(s.run, second);
    tear_down(&s);
  }
}

/* With steps that end at once, as in training, each execution sees the results of the previous one. */
static void many(void **state) {
  setup s = set_up(*state, 2, false);
  clade_ticket ticket;
  float w[N];
  atomic_store(&may_end, 1 << 20);
  for (int i = 0; i < 2000; i++) execute(s.run, 1, &ticket);
  OK(clade_wait(s.run, ticket));
  OK(clade_vars_get(s.vars, "w", w, sizeof w));
  assert_floats(w, N, 4005, 0);
  tear_down(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on), cmocka_unit_test(is_waited_for), cmocka_unit_test(ends),
                                     cmocka_unit_test(many)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

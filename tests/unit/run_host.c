/* Host steps of a user's op: sends its input through a socket and waits for the answer while kernels run; failures
 * and cancellation; the order of effects. Over 400 lines: all cases use the op and its peer at its top. */
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <clade/opencl.h>

#include "plan_kit.h"

enum { N = 64, BYTES = N * sizeof(float) };

/* ---- peer: a thread at the other end of a socket that answers x + 1 when permitted ---- */
static struct peer {
  int here, there;
  sem_t may_answer;
  pthread_t thread;
} peer;

static void *answer(void *unused) {
  float x[N];
  (void)unused;
  while (recv(peer.there, x, BYTES, MSG_WAITALL) == BYTES) {
    while (sem_wait(&peer.may_answer) != 0) continue;
    for (int i = 0; i < N; i++) x[i] += 1;
    if (send(peer.there, x, BYTES, MSG_NOSIGNAL) != BYTES) break;
  }
  return NULL;
}

static void peer_start(void) {
  int fd[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
  peer.here = fd[0], peer.there = fd[1];
  assert_int_equal(fcntl(peer.here, F_SETFL, O_NONBLOCK), 0);
  sem_init(&peer.may_answer, 0, 0);
  assert_int_equal(pthread_create(&peer.thread, NULL, answer, NULL), 0);
}

static void peer_stop(void) {
  for (int i = 0; i < 8; i++) sem_post(&peer.may_answer); /* releases everything that it holds back */
  shutdown(peer.here, SHUT_RDWR);
  pthread_join(peer.thread, NULL);
  close(peer.here);
  close(peer.there);
  sem_destroy(&peer.may_answer);
}

/* ---- host steps, by number ---- */
enum { ASK, POST, COUNT_UP, GIVE, ORDER, NO_BEGIN, NO_NAME, WORKSPACE, DEFINE };
static struct {
  int prepared, released, begun, ended, canceled;
  clade_status fails; /* the next poll of ASK fails with a message */
  bool silent;        /* or without one */
  int order[64], n_order;
  size_t got; /* bytes of the answer */
  int waits;
  double waited;
  int hosted; /* number of reported host times */
} seen;

static clade_status prepare(const void *work, clade_device *device, void **state) {
  assert_non_null(work);
  assert_non_null(device);
  *state = &seen.prepared;
  seen.prepared++;
  return CLADE_OK;
}
static void release(void *state) {
  assert_ptr_equal(state, &seen.prepared);
  seen.released++;
}

static clade_status ask_begin(const clade_host_call *call, void **pending) {
  assert_int_equal(call->n, 2);
  assert_int_equal(call->bytes[0], BYTES);
  assert_int_equal(call->bytes[1], BYTES);
  assert_ptr_equal(call->state, &seen.prepared);
  seen.begun++;
  seen.got = 0;
  *pending = (void *)(uintptr_t)call;
  return send(peer.here, call->data[0], BYTES, MSG_NOSIGNAL) == BYTES ? CLADE_OK
                                                                      : clade_fail(CLADE_IO, "the peer is gone");
}
static clade_status ask_poll(void *pending, clade_host_state *state) {
  const clade_host_call *call = pending;
  if (seen.silent) return seen.fails;
  if (seen.fails != CLADE_OK) return clade_fail(seen.fails, "the socket fell");
  ssize_t n = recv(peer.here, (char *)call->data[1] + seen.got, BYTES - seen.got, 0);
  if (n > 0) seen.got += (size_t)n;
  *state = seen.got == BYTES ? CLADE_HOST_DONE : CLADE_HOST_AGAIN;
  seen.ended += seen.got == BYTES;
  return CLADE_OK;
}
static void ask_cancel(void *pending) {
  assert_non_null(pending);
  seen.canceled++;
}

/* Completes in begin, so nothing is polled. */
static clade_status post_begin(const clade_host_call *call, void **pending) {
  const float *x = call->data[0];
  (void)pending;
  for (int i = 0; i < N; i++) assert_float_equal(x[i], 2 * (float)i, 0); /* the preceding kernel has run */
  sem_post(&peer.may_answer);
  return CLADE_OK;
}

/* Completed by another thread, which wakes the run. */
static void *wake_later(void *given) {
  const clade_host_call *call = given;
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  for (int i = 0; i < N; i++) ((float *)call->data[1])[i] = ((const float *)call->data[0])[i] + 100;
  __atomic_store_n(&seen.ended, 1, __ATOMIC_RELEASE);
  call->wake(call->waker);
  return NULL;
}
static pthread_t waking;
static clade_status wake_begin(const clade_host_call *call, void **pending) {
  (void)pending;
  seen.ended = 0;
  return pthread_create(&waking, NULL, wake_later, (void *)(uintptr_t)call) ? CLADE_NO_MEMORY : CLADE_OK;
}
static clade_status wake_poll(void *pending, clade_host_state *state) {
  (void)pending;
  *state = __atomic_load_n(&seen.ended, __ATOMIC_ACQUIRE) ? CLADE_HOST_DONE : CLADE_HOST_AGAIN;
  if (*state == CLADE_HOST_DONE) pthread_join(waking, NULL);
  return CLADE_OK;
}

static void wake_waited(void *state, double seconds) {
  (void)state;
  seen.waits++;
  seen.waited += seconds;
}

static clade_status give_begin(const clade_host_call *call, void **pending) {
  float *y = call->data[0];
  (void)pending;
  for (int i = 0; i < N; i++) y[i] = (float)(seen.begun + i);
  seen.begun++;
  return CLADE_OK;
}

typedef struct attrs {
  int32_t what, number;
} attrs;
static clade_status order_begin(const clade_host_call *call, void **pending) {
  (void)pending;
  seen.order[seen.n_order++] = ((const attrs *)call->work)->number;
  return CLADE_OK;
}

static const clade_host hosts[] = {
    [ASK] = {.size = sizeof(clade_host),
             .prepare = prepare,
             .begin = ask_begin,
             .poll = ask_poll,
             .cancel = ask_cancel,
             .release = release},
    [POST] = {.size = sizeof(clade_host), .begin = post_begin},
    [COUNT_UP] =
        {.size = sizeof(clade_host), .begin = wake_begin, .poll = wake_poll, .poll_us = 1 << 30, .waited = wake_waited},
    [GIVE] = {.size = sizeof(clade_host), .begin = give_begin},
    [ORDER] = {.size = offsetof(clade_host, poll), .begin = order_begin}, /* struct of an older program */
    [NO_BEGIN] = {.size = sizeof(clade_host)},
};

static const clade_attr table[] = {
    {"what", CLADE_ATTR_I32, offsetof(attrs, what), 1}, {"number", CLADE_ATTR_I32, offsetof(attrs, number), 1}, {0}};
static clade_status infer(clade_node *n) {
  if (n->n_out) n->out[0] = n->n_in ? n->in[0] : (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(N)};
  return CLADE_OK;
}
static size_t workspace(const clade_query *q) { return ((const attrs *)q->node->attrs)->what == WORKSPACE ? 64 : 0; }
static clade_status emit(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  const int what = a->what > NO_BEGIN ? POST : a->what;
  clade_kernel_step *s = clade_emit_host(e, a->what == NO_NAME ? "no name" : "step", &hosts[what], a, sizeof *a);
  if (q->node->n_in) clade_emit_in(s, 0);
  if (q->node->n_out) clade_emit_out(s, 0);
  if (a->what == WORKSPACE) clade_emit_workspace(s, 0, 4);
  if (a->what == DEFINE) clade_emit_define(s, "A", 1);
  return CLADE_OK;
}
static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .workspace = workspace, .emit = emit), NULL};
#define HOST_OP(text, inputs, outputs, flag)                                                                     \
  {                                                                                                              \
    .size = sizeof(clade_op), .name = text, .flags = flag, .min_in = inputs, .max_in = inputs, .n_out = outputs, \
    .attr_bytes = sizeof(attrs), .attrs = table, .infer = infer, .impls = impls                                  \
  }
static const clade_op through = HOST_OP("acme.through", 1, 1, 0),
                      out_only = HOST_OP("acme.give", 0, 1, CLADE_OP_EFFECT),
                      in_only = HOST_OP("acme.post", 1, 0, CLADE_OP_EFFECT),
                      ordered = HOST_OP("acme.order", 1, 1, CLADE_OP_EFFECT);

static clade_val host(clade_graph *g, const clade_op *op, const char *name, int what, int number, clade_val x) {
  clade_val y = {0};
  clade_node_add(g, op, name, &(attrs){what, number}, op->min_in, &x, op->n_out ? &y : NULL);
  return y;
}

static void feed(clade_run *run, float from, clade_ticket *ticket) {
  float x[N];
  for (int i = 0; i < N; i++) x[i] = from + (float)i;
  OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), ticket));
}

/* y = 3 ask(x) + 1, and beside it 2 x, which the peer waits for before it answers: if the device blocked until the
 * answer, there would be a deadlock. */
static clade_graph *asking(void) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val asked = host(g, &through, "ask", ASK, 0, x);
  host(g, &in_only, "post", POST, 0, affine(g, "double", x, 2, 0));
  clade_output(g, "y", affine(g, "triple", asked, 3, 1));
  return g;
}

static void check_asked(clade_run *run, clade_ticket ticket) {
  float y[N];
  OK(clade_read(run, ticket, "y", y, sizeof y));
  for (int i = 0; i < N; i++) assert_float_equal(y[i], 3 * ((float)i + 1) + 1, 0);
}

static void kernels_go_on(void **state) {
  clade_func *func = compiled(asking(), *state);
  clade_run *run;
  clade_ticket ticket;
  char *text;
  memset(&seen, 0, sizeof seen);
  seen.prepared = 1; /* by compiled() */
  OK(clade_func_steps(func, &text));
  assert_non_null(strstr(text, "host device 0 node ask routine step reads"));
  clade_text_free(text);
  OK(clade_func_explain(func, &text));
  assert_non_null(strstr(text, "plan: 2 steps of the host"));
  clade_text_free(text);
  peer_start();
  for (int profile = 0; profile < 2; profile++) {
    OK(clade_run_new(func, NULL, &run, .profile = profile));
    for (int i = 0; i < 5; i++) { /* more than the slots */
      feed(run, 0, &ticket);
      check_asked(run, ticket);
    }
    clade_run_free(run);
  }
  assert_int_equal(seen.begun, 10);
  assert_int_equal(seen.ended, 10);
  assert_int_equal(seen.canceled, 0);
  peer_stop();
  clade_func_release(func);
  assert_int_equal(seen.released, 1);
}

static void failures(void **state) {
  clade_func *func = compiled(asking(), *state);
  clade_run *run;
  clade_ticket ticket;
  float y[N];
  memset(&seen, 0, sizeof seen);
  peer_start();
  OK(clade_run_new(func, NULL, &run));
  for (int silent = 0; silent < 2; silent++) {
    seen.fails = CLADE_IO;
    seen.silent = silent;
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i; /* the peer's late answer then suits the next one as well */
    clade_status status = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket);
    /* The first poll that sees it reports it. */
    if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, sizeof y);
    refused(status, CLADE_IO, silent ? "host step step: " : "the socket fell");
    seen.fails = CLADE_OK;
    seen.silent = false;
    float answered[N]; /* of the failed one, which the peer still sends */
    struct pollfd fd = {.fd = peer.here, .events = POLLIN};
    if (poll(&fd, 1, 2000) == 1) (void)!recv(peer.here, answered, sizeof answered, MSG_WAITALL);
    feed(run, 0, &ticket); /* its slot is usable again */
    check_asked(run, ticket);
  }
  clade_run_free(run);
  peer_stop();
  clade_func_release(func);
}

/* The peer never answers: clade_cancel ends the executions that wait for it. */
static void cancellation(void **state) {
  clade_graph *g = graph_new();
  clade_val asked = host(g, &through, "ask", ASK, 0, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)));
  clade_output(g, "y", affine(g, "triple", asked, 3, 1));
  clade_func *func = compiled(g, *state);
  clade_run *run;
  clade_ticket ticket[2];
  float y[N];
  memset(&seen, 0, sizeof seen);
  peer_start();
  OK(clade_run_new(func, NULL, &run));
  feed(run, 0, &ticket[0]);
  while (!__atomic_load_n(&seen.begun, __ATOMIC_RELAXED)) nanosleep(&(struct timespec){0, 1000000}, NULL);
  OK(clade_cancel(run));
  refused(clade_read(run, ticket[0], "y", y, sizeof y), CLADE_CANCELED, "cancel");
  assert_int_equal(seen.canceled, 1);
  assert_int_equal(seen.ended, 0);
  clade_run_free(run);
  peer_stop();
  clade_func_release(func);
}

static void look(void *user, const clade_step_time *t) {
  (void)user;
  if (!t->host) return;
  seen.hosted++;
  assert_string_equal(t->name, "count");
  assert_in_range(t->end_ns - t->start_ns, 4000000, UINT64_C(60000000000));
}

/* Takes 5 ms, during which the device is idle. */
static void woken_by_a_thread(void **state) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "y", host(g, &through, "count", COUNT_UP, 0, affine(g, "double", x, 2, 0)));
  clade_func *func = compiled(g, *state);
  clade_run *run;
  clade_ticket ticket;
  float y[N];
  memset(&seen, 0, sizeof seen);
  OK(clade_run_new(func, NULL, &run, .profile = true));
  OK(clade_run_observe(run, look, NULL));
  for (int round = 0; round < 3; round++) {
    feed(run, 0, &ticket);
    OK(clade_read(run, ticket, "y", y, sizeof y));
    for (int i = 0; i < N; i++) assert_float_equal(y[i], 2 * (float)i + 100, 0);
  }
  assert_int_equal(seen.waits, 3);
  assert_true(seen.waited > 0.006 && seen.waited < 60);
  assert_int_equal(seen.hosted, 3);
  clade_run_free(run);
  clade_func_release(func);
}

/* Without inputs it begins at once; the output's memory stays reserved until the kernel has read it. */
static void a_source(void **state) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val given = host(g, &out_only, "give", GIVE, 0, x), busy = x;
  for (int i = 0; i < 6; i++) busy = affine(g, NULL, busy, 1, 1);
  clade_val sum;
  clade_node_add(g, &kit_add, "sum", NULL, 2, (clade_val[]){given, busy}, &sum);
  clade_output(g, "y", sum);
  clade_func *func = compiled(g, *state);
  clade_run *run;
  clade_ticket ticket;
  float y[N];
  memset(&seen, 0, sizeof seen);
  OK(clade_run_new(func, NULL, &run));
  for (int round = 0; round < 4; round++) {
    feed(run, 10, &ticket);
    OK(clade_read(run, ticket, "y", y, sizeof y));
    for (int i = 0; i < N; i++) assert_float_equal(y[i], (float)(round + i) + 10 + (float)i + 6, 0);
  }
  clade_run_free(run);
  clade_func_release(func);
}

/* In graph order, execution after execution, whichever is ready first. */
static void effects_in_order(void **state) {
  enum { EACH = 4, EXECUTIONS = 6 };
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), busy = x;
  for (int i = 0; i < 20; i++) busy = affine(g, NULL, busy, 1, 1);
  for (int i = 0; i < EACH; i++) {
    char name[8] = {'y', (char)('0' + i)};
    clade_output(g, name, host(g, &ordered, name, ORDER, i, i % 2 ? x : busy));
  }
  clade_func *func = compiled(g, *state);
  clade_run *run;
  clade_ticket ticket;
  float y[N];
  memset(&seen, 0, sizeof seen);
  OK(clade_run_new(func, NULL, &run, .slots = 3));
  for (int e = 0; e < EXECUTIONS; e++) feed(run, 0, &ticket);
  OK(clade_read(run, ticket, "y0", y, sizeof y));
  assert_int_equal(seen.n_order, EACH * EXECUTIONS);
  for (int i = 0; i < seen.n_order; i++) assert_int_equal(seen.order[i], i % EACH);
  clade_run_free(run);
  clade_func_release(func);
}

static void refusals(void **state) {
  static const struct {
    int what;
    const char *words;
  } cases[] = {{NO_BEGIN, "host step step: its functions have no begin"},
               {NO_NAME, "a host step: routine \"no name\""},
               {WORKSPACE, "step, a host step, takes inputs and outputs, and no workspace"},
               {DEFINE, "step, a host step, takes operands alone, and no parameters"}};
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_graph *g = graph_new();
    clade_func *func;
    clade_output(g, "y", host(g, &through, "wrong", cases[i].what, 0, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N))));
    refused(clade_compile(g, *state, &func), CLADE_INVALID, cases[i].words);
    clade_graph_release(g);
  }
  clade_graph *g = graph_new();
  clade_output(g, "y", host(g, &through, "count", COUNT_UP, 0, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N))));
  clade_func *func = compiled(g, *state);
  clade_run *run;
  OK(clade_run_new(func, NULL, &run));
  refused(clade_execute_after(run, 0, NULL, 0, NULL, NULL, NULL), CLADE_UNSUPPORTED, "1 host steps");
  clade_run_free(run);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_go_on), cmocka_unit_test(failures),
                                     cmocka_unit_test(cancellation),  cmocka_unit_test(woken_by_a_thread),
                                     cmocka_unit_test(a_source),      cmocka_unit_test(effects_in_order),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests_name("run_host", tests, open_device, close_device);
}

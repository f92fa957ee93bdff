/* Messages between stages: chains with overlapping executions, progress beside a waiting receive, unresponsive
 * ranks, and failing allocations here and in comm_parts. */
#include <stdio.h>
#include <time.h>

#include <clade/ops.h>

#include "comm/parts.h"
#include "comm_kit.h"
#include "memory_kit.h"

/* ---- a chain of three ranks: each adds its value and passes the sum on, back to the first ---- */
enum { CHAIN = 3, LONGEST = 700001 /* more pieces than the window */ };

static struct {
  int64_t n;
  int slots;
  bool in_a_group; /* with ranks in another order */
  pthread_barrier_t all;
} job;

static clade_status build_chain(clade_graph *g, clade_comm *comm) {
  const clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(job.n)};
  const int rank = clade_comm_rank(comm), next = (rank + 1) % CHAIN, last = (rank + CHAIN - 1) % CHAIN;
  int first;
  clade_val x = clade_input(g, "x", CLADE_F32, type.shape), there = x;
  CLADE_TRY(clade__comm_reserve(comm, CHAIN, &first));
  if (!rank) CLADE_TRY(clade__comm_send_value(g, comm, next, first, x));
  there = clade__comm_receive_value(g, comm, last, first + last, &type);
  if (rank) CLADE_TRY(clade__comm_send_value(g, comm, next, first + rank, clade_add(g, there, x)));
  clade_output(g, "y", clade_neg(g, there));
  return clade_graph_status(g);
}

static float given(int rank, int execution, int64_t i) { return (float)((i * 7 + execution * 3 + rank * 5) % 1001); }

/* Value received by a rank: the sum of the preceding ranks' values; for the first, of all. */
static float reaches(int rank, int execution, int64_t i) {
  float sum = 0;
  for (int r = 0; r < (rank ? rank : CHAIN); r++) sum += given(r, execution, i);
  return sum;
}

static bool execute_chain(clade_run *run, int rank, int execution, float *x, clade_ticket *ticket) {
  for (int64_t i = 0; i < job.n; i++) x[i] = given(rank, execution, i);
  return clade_execute(run, CLADE_FEEDS({"x", x, (size_t)job.n * sizeof *x, NULL}), ticket) == CLADE_OK;
}

static bool check_chain(clade_run *run, int rank, int execution, float *y, clade_ticket ticket) {
  bool right = clade_read(run, ticket, "y", y, (size_t)job.n * sizeof *y) == CLADE_OK;
  for (int64_t i = 0; i < job.n && right; i++) right = y[i] == -reaches(rank, execution, i);
  return right;
}

/* Reads lag behind by the number of slots, so that receives of the next executions are active. */
static bool run_chain(clade_run *run, int rank, int executions, float *data) {
  clade_ticket ticket[32];
  bool right = executions <= 32;
  for (int k = 0; k < executions + job.slots - 1 && right; k++) {
    if (k < executions) right = execute_chain(run, rank, k, data, &ticket[k]);
    const int read = k - job.slots + 1;
    if (read >= 0) right = right && check_chain(run, rank, read, data, ticket[read]);
  }
  return right;
}

static void meet(void) { pthread_barrier_wait(&job.all); }

/* The job's rank 1 is the group's first. */
static clade_comm *chain_of(const rank *r) {
  clade_comm *comm = NULL;
  if (!job.in_a_group) return clade_comm_retain(r->comm);
  OK(clade_comm_split(r->comm, CHAIN, (int[]){1, 2, 0}, &comm));
  return comm;
}

static void *hand_on(void *user) {
  enum { WARM = 4 };
  const int executions = job.n < LONGEST ? 20 : 5; /* more than the tags of a message */
  rank *r = user;
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_comm *comm = chain_of(r);
  const int number = clade_comm_rank(comm);
  float *data = calloc((size_t)job.n + 1, sizeof *data);
  bool right = data && clade_graph_new(&g) == CLADE_OK && build_chain(g, comm) == CLADE_OK &&
               clade_compile(g, r->device, &func) == CLADE_OK &&
               clade_run_new(func, NULL, &run, .slots = job.slots) == CLADE_OK;
  right = right && run_chain(run, number, WARM, data);
  meet();
  const long before = atomic_load(&allocations);
  meet();
  right = right && run_chain(run, number, executions, data);
  meet();
  right &= atomic_load(&allocations) == before; /* of all ranks */
  meet();
  clade_comm_stats stats = {.size = sizeof stats}, later = stats;
  clade_run_free(run); /* waits for sent messages to arrive */
  right = right && clade_comm_get_stats(comm, &stats) == CLADE_OK && clade_comm_get_stats(comm, &later) == CLADE_OK;
  right &= stats.busy_seconds > 0 && later.busy_seconds == stats.busy_seconds; /* idle */
  right &= stats.sent_bytes == (size_t)(WARM + executions) * (size_t)job.n * sizeof *data;
  right &= stats.received_bytes == stats.sent_bytes;
  clade_func_release(func);
  clade_graph_release(g);
  clade_comm_release(comm);
  free(data);
  r->right = right;
  return NULL;
}

static void chains(void **state) {
  static const int64_t lengths[] = {0, 1, 33, LONGEST};
  assert_int_equal(pthread_barrier_init(&job.all, NULL, CHAIN), 0);
  for (int group = 0; group < 2; group++)
    for (size_t i = 0; i < CLADE_COUNT(lengths); i++)
      for (job.slots = lengths[i] == LONGEST ? 3 : 1; job.slots <= 3; job.slots++) {
        job.n = lengths[i];
        job.in_a_group = group;
        run_ranks(CHAIN, *state, hand_on, NULL);
      }
  pthread_barrier_destroy(&job.all);
}

/* ---- a waiting receive blocks nothing: rank 0 posts a receive before it sends the request ---- */
static void *ask(void *user) {
  rank *r = user;
  const clade_type type = {.dtype = CLADE_I32, .shape = CLADE_SHAPE(2)};
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  int first = 0;
  int32_t x[2] = {5, 6}, y[2] = {0};
  bool right = clade_graph_new(&g) == CLADE_OK && clade__comm_reserve(r->comm, 2, &first) == CLADE_OK;
  const clade_val asked = clade_input(g, "x", CLADE_I32, type.shape);
  const clade_val there = clade__comm_receive_value(g, r->comm, 1 - r->number, first + r->number, &type);
  right &= clade__comm_send_value(g, r->comm, 1 - r->number, first + 1 - r->number,
                                  r->number ? clade_add(g, there, there) : asked) == CLADE_OK;
  clade_output(g, "y", there);
  right = right && clade_compile(g, r->device, &func) == CLADE_OK &&
          clade_run_new(func, NULL, &run, .profile = true) == CLADE_OK;
  for (int k = 0; k < 5 && right; k++)
    right = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) == CLADE_OK &&
            clade_read(run, ticket, "y", y, sizeof y) == CLADE_OK && y[1] == (r->number ? 6 : 12);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void nothing_waits_behind(void **state) { run_ranks(2, *state, ask, NULL); }

/* ---- two messages received in the reverse order ---- */
static void *cross(void *user) {
  rank *r = user;
  const clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(3)};
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  int first;
  const float x[3] = {1, 2, 3};
  float y[3] = {0}, z[3] = {0};
  bool right = clade_graph_new(&g) == CLADE_OK && clade__comm_reserve(r->comm, 2, &first) == CLADE_OK;
  clade_val a = clade_input(g, "x", CLADE_F32, type.shape), b = clade_neg(g, a);
  if (r->number) {
    b = clade__comm_receive_value(g, r->comm, 0, first + 1, &type);
    a = clade__comm_receive_value(g, r->comm, 0, first, &type);
  } else {
    right &= clade__comm_send_value(g, r->comm, 1, first, a) == CLADE_OK &&
             clade__comm_send_value(g, r->comm, 1, first + 1, b) == CLADE_OK;
  }
  clade_output(g, "y", a);
  clade_output(g, "z", b);
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++)
    right = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) == CLADE_OK &&
            clade_read(run, ticket, "y", y, sizeof y) == CLADE_OK && y[2] == 3 &&
            clade_read(run, ticket, "z", z, sizeof z) == CLADE_OK && z[2] == -3;
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void in_another_order(void **state) { run_ranks(2, *state, cross, NULL); }

/* ---- unresponsive ranks ---- */
typedef struct waiting {
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
} waiting;

/* Rank 0 of `comm` sends to or receives from rank 1, or joins slices with it. */
typedef enum way { SENDS, RECEIVES, JOINS, WAYS } way;
static void start(clade_comm *comm, clade_device *device, way how, waiting *w) {
  const clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(4)};
  const int64_t cuts[] = {0, 4, 4, 4};
  const float x[4] = {0};
  int first;
  clade_graph *g = graph_new();
  clade_val v = clade_input(g, "x", CLADE_F32, type.shape);
  OK(clade__comm_reserve(comm, 1, &first));
  if (how == SENDS) OK(clade__comm_send_value(g, comm, 1, first, v));
  if (how == RECEIVES) v = clade__comm_receive_value(g, comm, 1, first, &type);
  if (how == JOINS) v = clade__comm_join(g, comm, CLADE_F32, v, 0, cuts, false);
  clade_output(g, "y", clade_neg(g, v));
  w->func = compiled(g, device);
  OK(clade_run_new(w->func, NULL, &w->run));
  OK(clade_execute(w->run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &w->ticket));
}

static void stop(waiting *w) {
  clade_run_free(w->run);
  clade_func_release(w->func);
}

static void pause_for(long ms) { nanosleep(&(struct timespec){0, ms * 1000000}, NULL); }

/* Ranks 2 and 1 of three are ranks 0 and 1 of the group; messages name the job's ranks. */
static void silence(void **state) {
  for (way how = 0; how < WAYS; how++) {
    clade_comm *comms[3], *group;
    waiting w;
    OK(clade_comm_new_local(3, comms));
    OK(clade_comm_split(comms[2], 2, (int[]){2, 1}, &group));
    OK(clade_comm_set_timeout(comms[2], 0.1));
    start(group, *state, how, &w);
    refused(clade_wait(w.run, w.ticket), CLADE_LOST, "rank 1 has not answered rank 2 of 3");
    stop(&w);
    clade_comm_release(group);
    release_all(3, comms);
  }
}

/* Rank 0's request was canceled: the matching one of rank 1 must not complete. */
static void assert_gone(clade_comm *rank_1, way how) {
  float x[4] = {0};
  void *request;
  bool done;
  if (how == JOINS) return;
  if (how == SENDS) OK(clade__comm_receive(rank_1, 0, clade__comm_tag(0, 0), x, sizeof x, &request));
  if (how == RECEIVES) OK(clade__comm_send(rank_1, 0, clade__comm_tag(0, 0), x, sizeof x, &request));
  OK(clade__comm_test(rank_1, &request, &done));
  assert_false(done);
  clade__comm_cancel(rank_1, &request);
}

static void cancellation(void **state) {
  for (way how = 0; how < WAYS; how++) {
    clade_comm *comms[2];
    waiting w;
    OK(clade_comm_new_local(2, comms));
    start(comms[0], *state, how, &w);
    pause_for(20); /* started or not */
    OK(clade_cancel(w.run));
    refused(clade_wait(w.run, w.ticket), CLADE_CANCELED, "cancel");
    assert_gone(comms[1], how);
    stop(&w);
    release_all(2, comms);
  }
}

static void ends(void **state) {
  for (way how = 0; how < WAYS; how++) {
    clade_comm *comms[2];
    waiting w;
    OK(clade_comm_new_local(2, comms));
    start(comms[0], *state, how, &w);
    pause_for(20);
    clade_comm_abort(comms[1]);
    refused(clade_wait(w.run, w.ticket), CLADE_CANCELED, "rank 1 has ended all ranks");
    stop(&w);
    release_all(2, comms);
  }
}

/* ---- refusals ---- */
static void refuse_both(clade_comm *comm, int peer, int number, const clade_type *type, clade_status status,
                        const char *words) {
  for (int receives = !type; receives < 2; receives++) {
    clade_graph *g = graph_new();
    if (receives)
      assert_false(clade_val_ok(clade__comm_receive_value(g, comm, peer, number, type)));
    else
      assert_int_equal(clade__comm_send_value(g, comm, peer, number, clade_input(g, "x", CLADE_F32, CLADE_SCALAR)),
                       status);
    assert_int_equal(clade_graph_status(g), status);
    assert_non_null(strstr(clade_graph_message(g), words));
    assert_non_null(strstr(clade_graph_message(g), receives ? "comm.receive: " : "comm.send: "));
    clade_graph_release(g);
  }
}

static void refusals(void **state) {
  const clade_type type = {.dtype = CLADE_F32};
  clade_comm *comms[2];
  int first;
  (void)state;
  OK(clade_comm_new_local(2, comms));
  refused(clade__comm_reserve(NULL, 1, &first), CLADE_INVALID, "the communicator is NULL");
  OK(clade__comm_reserve(comms[0], 2, &first));
  refuse_both(NULL, 1, first, &type, CLADE_INVALID, "the communicator is NULL");
  refuse_both(comms[0], 0, first, &type, CLADE_INVALID, "the other side is rank 0, and this one rank 0 of 2");
  refuse_both(comms[0], 2, first, &type, CLADE_INVALID, "the other side is rank 2, and this one rank 0 of 2");
  refuse_both(comms[0], 1, first + 2, &type, CLADE_INVALID, "message 2 was not reserved");
  refuse_both(comms[0], 1, first, NULL, CLADE_INVALID, "the type is NULL");
  release_all(2, comms);
}

/* ---- failing allocations, with both ranks on one thread ---- */
static clade_status build_both(clade_graph *g, clade_comm *comm) {
  const clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(4)};
  const int64_t cuts[] = {0, 1, 4};
  const int rank = clade_comm_rank(comm);
  int first;
  clade_val x = clade_input(g, "x", CLADE_F32, type.shape);
  CLADE_TRY(clade__comm_reserve(comm, 1, &first));
  x = clade__comm_sum_part(g, comm, CLADE_BF16, x, 0, cuts);
  x = clade__comm_join(g, comm, CLADE_F32, x, 0, cuts, false);
  x = clade__comm_sum(g, comm, CLADE_F32, x);
  if (!rank) CLADE_TRY(clade__comm_send_value(g, comm, 1, first, x));
  if (rank) x = clade__comm_receive_value(g, comm, 0, first, &type);
  clade_output(g, "y", x);
  return clade_graph_status(g);
}

typedef struct pair {
  clade_comm *job[3], *comm[2];
  clade_graph *g[2];
  clade_func *func[2];
  clade_run *run[2];
  clade_ticket ticket[2];
} pair;

static clade_status make_pair(pair *p, double timeout, clade_device *device) {
  CLADE_TRY(clade_comm_new_local(3, p->job));
  for (int i = 0; i < 2; i++) {
    CLADE_TRY(clade_comm_set_timeout(p->job[2 - i], timeout));
    CLADE_TRY(clade_comm_split(p->job[2 - i], 2, (int[]){2, 1}, &p->comm[i]));
    CLADE_TRY(clade_graph_new(&p->g[i]));
    CLADE_TRY(build_both(p->g[i], p->comm[i]));
    CLADE_TRY(clade_compile(p->g[i], device, &p->func[i]));
    CLADE_TRY(clade_run_new(p->func[i], NULL, &p->run[i]));
  }
  return CLADE_OK;
}

static clade_status execute_pair(pair *p) {
  const float x[4] = {1, 2, 3, 4};
  float y[4];
  for (int i = 0; i < 2; i++) CLADE_TRY(clade_execute(p->run[i], CLADE_FEEDS({"x", x, sizeof x, NULL}), &p->ticket[i]));
  for (int i = 1; i >= 0; i--) {
    CLADE_TRY(clade_read(p->run[i], p->ticket[i], "y", y, sizeof y));
    assert_floats(y, 4, 4, 4);
  }
  return CLADE_OK;
}

/* If one rank fails, the other waits for it until the timeout. */
static clade_status whole(const void *timeout, clade_device *device) {
  pair p = {0};
  clade_status status = make_pair(&p, *(const double *)timeout, device);
  for (int k = 0; k < 2 && status == CLADE_OK; k++) status = execute_pair(&p);
  for (int i = 0; i < 2 && status != CLADE_OK; i++) { /* the other side would wait for it */
    char why[512];
    snprintf(why, sizeof why, "%s", clade_last_error());
    if (p.run[i]) (void)clade_cancel(p.run[i]);
    clade_fail(status, "%s", why);
  }
  for (int i = 0; i < 2; i++) {
    clade_run_free(p.run[i]);
    clade_func_release(p.func[i]);
    clade_graph_release(p.g[i]);
    clade_comm_release(p.comm[i]);
  }
  release_all(3, p.job);
  return status;
}

static void out_of_memory(void **state) {
  const double usual = 60, brief = 0.03;
  OK(whole(&usual, *state)); /* warm up the device's caches */
  assert_true(fail_allocations(whole, &brief, *state, 1) > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(chains),           cmocka_unit_test(nothing_waits_behind),
                                     cmocka_unit_test(in_another_order), cmocka_unit_test(silence),
                                     cmocka_unit_test(cancellation),     cmocka_unit_test(ends),
                                     cmocka_unit_test(refusals),         cmocka_unit_test(out_of_memory)};
  return cmocka_run_group_tests(tests, open_failing, close_device);
}

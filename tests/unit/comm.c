/* Communicators over a thread-based transport: blocking calls, sums in graphs, unresponsive ranks, and transports
 * that are invalid or fail. */
#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

#include "comm_kit.h"

static void *talk(void *user) {
  rank *r = user;
  int numbers[MOST] = {0}, one;
  bool right = true;
  for (int root = 0; root < r->size; root++) {
    one = r->number == root ? 100 + root : 0;
    right &= clade_comm_broadcast(r->comm, root, &one, sizeof one) == CLADE_OK && one == 100 + root;
    one = r->number;
    right &= clade_comm_gather(r->comm, root, &one, sizeof one, numbers) == CLADE_OK;
    for (int i = 0; i < r->size && r->number == root; i++) right &= numbers[i] == i;
    right &= clade_comm_barrier(r->comm) == CLADE_OK;
    right &= clade_comm_broadcast(r->comm, root, NULL, 0) == CLADE_OK;
  }
  r->right = right;
  return NULL;
}

static void talking(void **state) {
  (void)state;
  for (int n = 1; n <= MOST; n++) run_ranks(n, NULL, talk, NULL);
}

/* ---- sums in graphs ---- */
enum { N = 33 };
static float element(int rank, int i) { return ldexpf((float)(1 + (i * 7 + rank * 5) % 11), rank % 3 * 9) + 1e-3f; }

/* Pairwise sum, by an independent method. */
static float in_pairs(int first, int n, int i) {
  int half = 1;
  if (n == 1) return element(first, i);
  while (2 * half < n) half *= 2;
  return in_pairs(first, half, i) + in_pairs(first + half, n - half, i);
}

/* Overlapping executions, two values in one sum, one of them empty, with kernels before and after. */
static void *sum(void *user) {
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  float x[N], y[N];
  clade_ticket ticket[3];
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val a = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)),
            both[] = {a, clade_input(g, "none", CLADE_F32, CLADE_SHAPE(0))};
  both[0] = clade_neg(g, a);
  right &= clade_all_reduce(g, r->comm, CLADE_F32, 2, both) == CLADE_OK;
  clade_output(g, "y", clade_neg(g, both[0]));
  clade_output(g, "z", both[1]);
  right &= clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++) {
    for (int i = 0; i < N; i++) x[i] = element(r->number, i + k);
    right &= clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}, {"none", NULL, 0, NULL}), &ticket[k]) == CLADE_OK;
    right &= k || clade_wait(run, ticket[0]) == CLADE_OK;
  }
  for (int k = 2; k >= 2 && right; k--) {
    right &= clade_read(run, ticket[k], "y", y, sizeof y) == CLADE_OK;
    for (int i = 0; i < N; i++) right &= y[i] == in_pairs(0, r->size, i + k);
  }
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void sums(void **state) {
  uint64_t sent[MOST];
  for (int n = 1; n <= MOST; n++) {
    run_ranks(n, *state, sum, sent);
    for (int i = 0; i < n; i++) assert_int_equal(sent[i] > 0, n > 1);
  }
}

/* Values of several lengths, one of them empty. All ranks but the last own some; with one rank, it owns all. After
 * gathering, each rank has all sums. */
static void *shards(void *user) {
  enum { VALUES = 5 };
  static const int lengths[VALUES] = {3, N, 0, 1, 2};
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  clade_val x[VALUES], sums[VALUES];
  int owners[VALUES];
  float data[VALUES][N], out[N];
  clade_feed feeds[VALUES];
  char name[VALUES][8];
  bool right = clade_graph_new(&g) == CLADE_OK;
  for (int i = 0; i < VALUES; i++) {
    owners[i] = (i + 2) % CLADE_MAX(r->size - 1, 1);
    snprintf(name[i], sizeof name[i], "x%d", i);
    for (int k = 0; k < N; k++) data[i][k] = element(r->number, k + i);
    feeds[i] = (clade_feed){name[i], data[i], (size_t)lengths[i] * sizeof(float), NULL};
    x[i] = sums[i] = clade_input(g, name[i], CLADE_F32, CLADE_SHAPE(lengths[i]));
  }
  right &= clade_reduce_scatter(g, r->comm, CLADE_F32, VALUES, owners, sums) == CLADE_OK;
  for (int i = 0; i < VALUES; i++) {
    const bool own = owners[i] == r->number;
    right &= own == clade_val_ok(sums[i]);
    sums[i] = own ? clade_neg(g, sums[i]) : x[i];
  }
  right &= clade_all_gather(g, r->comm, VALUES, owners, sums) == CLADE_OK;
  for (int i = 0; i < VALUES; i++) {
    char y[] = {'y', (char)('0' + i), 0};
    clade_output(g, y, sums[i]);
  }
  right &= clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int turn = 0; turn < 2 && right; turn++) {
    right &= clade_execute(run, VALUES, feeds, &ticket) == CLADE_OK;
    for (int i = 0; i < VALUES && right; i++) {
      char y[] = {'y', (char)('0' + i), 0};
      right &= clade_read(run, ticket, y, out, (size_t)lengths[i] * sizeof *out) == CLADE_OK;
      for (int k = 0; k < lengths[i]; k++) right &= out[k] == -in_pairs(0, r->size, k + i);
    }
  }
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void owned(void **state) {
  for (int n = 1; n <= MOST; n++) run_ranks(n, *state, shards, NULL);
}

/* ---- failures ---- */
static clade_status put(void *user, int to, int tag, const void *data, size_t bytes, void **request) {
  (void)user, (void)to, (void)tag, (void)data, (void)bytes, (void)request;
  return CLADE_IO;
}
static clade_status want(void *user, int from, int tag, void *data, size_t bytes, void **request) {
  return put(user, from, tag, data, bytes, request);
}
static clade_status look(void *user, void *request, bool *done) {
  (void)user, (void)request, (void)done;
  return CLADE_IO;
}
static void drop(void *user, void *request) { (void)user, (void)request; }
static const char *why(void *user) {
  (void)user;
  return "the wire is cut";
}
static void end_all(void *user) { ++*(int *)user; }
static void end_with(void *user, int status) { *(int *)user = status; }
static const clade_comm_impl cut = {.size = sizeof cut,
                                    .name = "wire",
                                    .send = put,
                                    .receive = want,
                                    .test = look,
                                    .cancel = drop,
                                    .error = why,
                                    .abort = end_all};

static clade_status sum_alone(clade_device *device, clade_comm *comm) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x = 1, y;
  OK(clade_graph_new(&g));
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  OK(clade_all_reduce(g, comm, CLADE_F32, 1, &v));
  clade_output(g, "y", v);
  OK(clade_compile(g, device, &func));
  OK(clade_run_new(func, NULL, &run));
  clade_status status = clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", &y, sizeof y);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static void failures(void **state) {
  clade_comm *comms[3], *comm;
  int one = 0, ended = 0;
  OK(clade_comm_new_local(3, comms));
  comm = comms[0];
  OK(clade_comm_set_timeout(comm, 0.05));
  refused(sum_alone(*state, comm), CLADE_LOST, "rank 1 has not answered rank 0 of 3");
  refused(clade_comm_gather(comm, 0, &one, 0, NULL), CLADE_LOST, "rank 1 has not answered rank 0 of 3");
  clade__comm_be_patient(comm, 0);
  OK(clade__comm_patience(comm, 1, clade__now() - 1000));
  clade__comm_be_patient(comm, 10);
  OK(clade__comm_patience(comm, 1, clade__now() - 0.3));
  refused(clade__comm_patience(comm, 1, clade__now() - 0.6), CLADE_LOST, "rank 1 has not answered");
  clade__comm_be_patient(comm, 1);
  refused(clade__comm_patience(comm, 1, clade__now() - 1000), CLADE_LOST, "rank 1 has not answered");
  release_all(3, comms);
  OK(clade_comm_new(&cut, &ended, 0, 3, &comm));
  refused(clade_comm_gather(comm, 2, &one, sizeof one, NULL), CLADE_LOST, "wire: sending to rank 2: the wire is cut");
  clade_comm_abort(comm);
  clade_comm_abort_with(comm, 75);
  assert_int_equal(ended, 2);
  clade_comm_release(comm);
  clade_comm_impl telling = cut;
  telling.abort_with = end_with;
  OK(clade_comm_new(&telling, &ended, 0, 3, &comm));
  clade_comm_abort_with(comm, 75);
  assert_int_equal(ended, 75);
  clade_comm_release(comm);
}

static void refusals(void **state) {
  (void)state;
  clade_comm *comm;
  clade_graph *g;
  clade_comm_impl lacking = cut;
  lacking.test = NULL;
  refused(clade_comm_new(&cut, NULL, 0, 2, NULL), CLADE_INVALID, "no place");
  refused(clade_comm_new(NULL, NULL, 0, 2, &comm), CLADE_INVALID, "NULL");
  refused(clade_comm_new(&cut, NULL, 2, 2, &comm), CLADE_INVALID, "rank 2 of 2");
  refused(clade_comm_new(&lacking, NULL, 0, 2, &comm), CLADE_INVALID, "lacks");
  assert_null(comm);
  refused(clade_comm_barrier(NULL), CLADE_INVALID, "NULL");
  OK(clade_comm_new(&cut, NULL, 0, 2, &comm));
  refused(clade_comm_set_timeout(comm, -1), CLADE_INVALID, "-1 s");
  refused(clade_comm_broadcast(comm, 2, NULL, 0), CLADE_INVALID, "rank 2 of 2");
  for (int kind = 0; kind < 2; kind++) {
    OK(clade_graph_new(&g));
    clade_val v = clade_input(g, "x", CLADE_U8, CLADE_SCALAR);
    if (kind) refused(clade_all_reduce(g, comm, CLADE_F32, CLADE_ALL_REDUCE_MOST + 1, &v), CLADE_INVALID, "33 values");
    if (!kind) refused(clade_all_reduce(g, comm, CLADE_F32, 1, &v), CLADE_DTYPE, "u8");
    clade_graph_release(g);
    OK(clade_graph_new(&g));
    v = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
    if (kind) refused(clade_all_gather(g, comm, 1, &(int){2}, &v), CLADE_INVALID, "owned by rank 2 of 2");
    if (!kind) refused(clade_reduce_scatter(g, comm, CLADE_F32, 1, NULL, &v), CLADE_INVALID, "owners are NULL");
    clade_graph_release(g);
  }
  clade_comm_release(comm);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(talking), cmocka_unit_test(owned), cmocka_unit_test(sums),
                                     cmocka_unit_test(failures), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

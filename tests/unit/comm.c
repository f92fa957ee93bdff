/* Communicators, over one that carries bytes between threads: what the calling thread waits for, sums in graphs, ranks
 * that do not answer, and implementations that are refused or fail. */
#include <math.h>

#include <clade/comm.h>
#include <clade/ops.h>

#include "comm/comm.h"
#include "plan_kit.h"

/* ---- a world of threads: messages lie in a list until they are received ---- */
enum { MOST = 9 };

typedef struct message {
  struct message *next;
  int from, to, tag;
  size_t bytes;
  char data[];
} message;

typedef struct world {
  pthread_mutex_t lock;
  message *first, **last;
  int sent, aborted;
  bool fails; /* all that is sent from now on */
} world;

typedef struct member {
  world *world;
  int rank;
} member;

typedef struct request {
  int from, tag;
  void *to;
  size_t bytes;
  bool receives;
} request;

static clade_status put(void *user, int to, int tag, const void *data, size_t bytes, void **out) {
  member *m = user;
  message *one = malloc(sizeof *one + bytes);
  request *r = calloc(1, sizeof *r);
  assert_true(one && r);
  *one = (message){NULL, m->rank, to, tag, bytes};
  if (bytes) memcpy(one->data, data, bytes);
  pthread_mutex_lock(&m->world->lock);
  bool fails = m->world->fails;
  m->world->sent++;
  *m->world->last = one;
  m->world->last = &one->next;
  pthread_mutex_unlock(&m->world->lock);
  if (fails) free(r);
  *out = fails ? NULL : r;
  return fails ? CLADE_IO : CLADE_OK;
}

static clade_status want(void *user, int from, int tag, void *data, size_t bytes, void **out) {
  (void)user;
  request *r = calloc(1, sizeof *r);
  assert_non_null(r);
  *r = (request){from, tag, data, bytes, true};
  *out = r;
  return CLADE_OK;
}

static clade_status look(void *user, void *given, bool *done) {
  member *m = user;
  request *r = given;
  *done = !r->receives;
  pthread_mutex_lock(&m->world->lock);
  for (message **at = &m->world->first; *at && !*done; at = &(*at)->next) {
    message *one = *at;
    if (one->to != m->rank || one->from != r->from || one->tag != r->tag) continue;
    assert_int_equal(one->bytes, r->bytes);
    if (one->bytes) memcpy(r->to, one->data, one->bytes);
    *at = one->next;
    if (m->world->last == &one->next) m->world->last = at;
    free(one);
    *done = true;
    break;
  }
  pthread_mutex_unlock(&m->world->lock);
  if (*done) free(r);
  return CLADE_OK;
}

static void drop(void *user, void *given) {
  (void)user;
  free(given);
}
static const char *why(void *user) {
  (void)user;
  return "the wire is cut";
}
static void end_all(void *user) { ((member *)user)->world->aborted++; }
static const clade_comm_impl threads = {sizeof threads, "threads", put, want, look, drop, why, end_all, NULL};

static void world_new(world *w) {
  *w = (world){.last = &w->first};
  pthread_mutex_init(&w->lock, NULL);
}

static void world_free(world *w) {
  for (message *next; w->first; w->first = next) {
    next = w->first->next;
    free(w->first);
  }
  pthread_mutex_destroy(&w->lock);
}

/* ---- ranks ---- */
typedef struct rank {
  member member;
  clade_comm *comm;
  clade_device *device;
  int size;
  pthread_t thread;
  bool right;
} rank;

static void run_ranks(int size, world *w, clade_device *device, void *(*fn)(void *)) {
  rank all[MOST];
  world_new(w);
  for (int i = 0; i < size; i++) {
    all[i] = (rank){.member = {w, i}, .device = device, .size = size};
    OK(clade_comm_new(&threads, &all[i].member, i, size, &all[i].comm));
    assert_int_equal(clade_comm_rank(all[i].comm), i);
    assert_int_equal(clade_comm_size(all[i].comm), size);
  }
  for (int i = 0; i < size; i++) assert_int_equal(pthread_create(&all[i].thread, NULL, fn, &all[i]), 0);
  for (int i = 0; i < size; i++) pthread_join(all[i].thread, NULL);
  for (int i = 0; i < size; i++) {
    assert_true(all[i].right);
    clade_comm_release(all[i].comm);
  }
  assert_null(w->first); /* nothing was sent that nobody wanted */
  world_free(w);
}

static void *talk(void *user) {
  rank *r = user;
  int numbers[MOST] = {0}, one;
  bool right = true;
  for (int root = 0; root < r->size; root++) {
    one = r->member.rank == root ? 100 + root : 0;
    right &= clade_comm_broadcast(r->comm, root, &one, sizeof one) == CLADE_OK && one == 100 + root;
    one = r->member.rank;
    right &= clade_comm_gather(r->comm, root, &one, sizeof one, numbers) == CLADE_OK;
    for (int i = 0; i < r->size && r->member.rank == root; i++) right &= numbers[i] == i;
    right &= clade_comm_barrier(r->comm) == CLADE_OK;
    right &= clade_comm_broadcast(r->comm, root, NULL, 0) == CLADE_OK;
  }
  r->right = right;
  return NULL;
}

static void talking(void **state) {
  world w;
  (void)state;
  for (int n = 1; n <= MOST; n++) run_ranks(n, &w, NULL, talk);
}

/* ---- sums in graphs ---- */
enum { N = 33 };
static float element(int rank, int i) { return ldexpf((float)(1 + (i * 7 + rank * 5) % 11), rank % 3 * 9) + 1e-3f; }

/* In pairs, by another way than the library's. */
static float in_pairs(int first, int n, int i) {
  int half = 1;
  if (n == 1) return element(first, i);
  while (2 * half < n) half *= 2;
  return in_pairs(first, half, i) + in_pairs(first + half, n - half, i);
}

/* Several executions on their way, two values in one sum, one of them without elements, and a kernel before and after.
 */
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
  right &= clade_all_reduce(g, r->comm, 2, both) == CLADE_OK;
  clade_output(g, "y", clade_neg(g, both[0]));
  clade_output(g, "z", both[1]);
  right &= clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++) {
    for (int i = 0; i < N; i++) x[i] = element(r->member.rank, i + k);
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
  world w;
  for (int n = 1; n <= MOST; n++) {
    run_ranks(n, &w, *state, sum);
    if (n == 1) assert_int_equal(w.sent, 0);
  }
}

/* ---- what fails ---- */
static clade_status sum_alone(clade_device *device, clade_comm *comm) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x = 1, y;
  OK(clade_graph_new(&g));
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
  OK(clade_all_reduce(g, comm, 1, &v));
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
  world w;
  member m = {&w, 0};
  clade_comm *comm;
  int one = 0;
  world_new(&w);
  OK(clade_comm_new(&threads, &m, 0, 3, &comm));
  OK(clade_comm_set_timeout(comm, 0.05));
  refused(sum_alone(*state, comm), CLADE_LOST, "rank 1 has not answered rank 0 of 3");
  refused(clade_comm_gather(comm, 0, &one, 0, NULL), CLADE_LOST, "rank 1 has not answered rank 0 of 3");
  clade__comm_be_patient(comm, true);
  OK(clade__comm_patience(comm, 1, clade__now() - 1000));
  clade__comm_be_patient(comm, false);
  refused(clade__comm_patience(comm, 1, clade__now() - 1000), CLADE_LOST, "rank 1 has not answered");
  w.fails = true;
  refused(clade_comm_gather(comm, 2, &one, sizeof one, NULL), CLADE_IO, "threads: sending to rank 2: the wire is cut");
  clade_comm_abort(comm);
  assert_int_equal(w.aborted, 1);
  clade_comm_release(comm);
  world_free(&w);
}

static void refusals(void **state) {
  (void)state;
  clade_comm *comm;
  clade_graph *g;
  world w;
  member m = {&w, 0};
  clade_comm_impl lacking = threads;
  world_new(&w);
  lacking.test = NULL;
  refused(clade_comm_new(&threads, &m, 0, 2, NULL), CLADE_INVALID, "no place");
  refused(clade_comm_new(NULL, &m, 0, 2, &comm), CLADE_INVALID, "NULL");
  refused(clade_comm_new(&threads, &m, 2, 2, &comm), CLADE_INVALID, "rank 2 of 2");
  refused(clade_comm_new(&lacking, &m, 0, 2, &comm), CLADE_INVALID, "lacks");
  assert_null(comm);
  refused(clade_comm_barrier(NULL), CLADE_INVALID, "NULL");
  OK(clade_comm_new(&threads, &m, 0, 2, &comm));
  refused(clade_comm_set_timeout(comm, -1), CLADE_INVALID, "-1 s");
  refused(clade_comm_broadcast(comm, 2, NULL, 0), CLADE_INVALID, "rank 2 of 2");
  for (int kind = 0; kind < 2; kind++) {
    OK(clade_graph_new(&g));
    clade_val v = clade_input(g, "x", CLADE_I32, CLADE_SCALAR);
    if (kind) refused(clade_all_reduce(g, comm, CLADE_ALL_REDUCE_MOST + 1, &v), CLADE_INVALID, "33 values");
    if (!kind) refused(clade_all_reduce(g, comm, 1, &v), CLADE_DTYPE, "i32");
    clade_graph_release(g);
  }
  clade_comm_release(comm);
  world_free(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(talking), cmocka_unit_test(sums), cmocka_unit_test(failures),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* Communicators, over one that carries bytes between threads: what the calling thread waits for, sums in graphs, ranks
 * that do not answer, and implementations that are refused or fail. */
#include <math.h>
#include <sched.h>
#include <stdio.h>

#include <clade/comm.h>
#include <clade/ops.h>

#include "comm/comm.h"
#include "plan_kit.h"
#include "train/task.h"

/* ---- a world of threads: a message lies at its sender's, where it may not change, until the sender looks after it
 * ---- */
enum { MOST = 9 };

typedef struct request {
  struct request *next, *peer; /* next: of those without a peer, a message for a receiver */
  int from, to, tag;
  void *data;
  size_t bytes;
  bool receives, done;
} request;

typedef struct world {
  pthread_mutex_t lock;
  request *first, **last;
  int sent, aborted;
  size_t bytes[MOST]; /* sent by each rank */
  bool fails;         /* all that is sent from now on */
} world;

typedef struct member {
  world *world;
  int rank;
} member;

static void unlink_request(world *w, request **at) {
  request *one = *at;
  *at = one->next;
  if (w->last == &one->next) w->last = at;
}

/* Joined with the first that it belongs to. */
static request *post(world *w, request given) {
  request *r = malloc(sizeof *r);
  assert_non_null(r);
  *r = given;
  pthread_mutex_lock(&w->lock);
  for (request **at = &w->first; *at && !r->peer; at = &(*at)->next) {
    request *one = *at;
    if (one->receives == r->receives || one->to != r->to || one->from != r->from || one->tag != r->tag) continue;
    assert_int_equal(one->bytes, r->bytes);
    unlink_request(w, at);
    r->peer = one;
    one->peer = r;
    break;
  }
  if (!r->peer) {
    *w->last = r;
    w->last = &r->next;
  }
  if (!r->receives) {
    w->sent++;
    w->bytes[r->from] += r->bytes;
  }
  pthread_mutex_unlock(&w->lock);
  return r;
}

static clade_status put(void *user, int to, int tag, const void *data, size_t bytes, void **out) {
  member *m = user;
  if (m->world->fails) return CLADE_IO;
  *out = post(m->world, (request){NULL, NULL, m->rank, to, tag, (void *)(uintptr_t)data, bytes, false, false});
  return CLADE_OK;
}

static clade_status want(void *user, int from, int tag, void *data, size_t bytes, void **out) {
  member *m = user;
  *out = post(m->world, (request){NULL, NULL, from, m->rank, tag, data, bytes, true, false});
  return CLADE_OK;
}

static clade_status look(void *user, void *given, bool *done) {
  member *m = user;
  request *r = given;
  pthread_mutex_lock(&m->world->lock);
  if (!r->receives && r->peer) {
    if (r->bytes) memcpy(r->peer->data, r->data, r->bytes);
    r->done = r->peer->done = true;
  }
  *done = r->done;
  pthread_mutex_unlock(&m->world->lock);
  if (*done) free(r);
  return CLADE_OK;
}

static void drop(void *user, void *given) {
  member *m = user;
  pthread_mutex_lock(&m->world->lock);
  for (request **at = &m->world->first; *at;)
    if (*at == given)
      unlink_request(m->world, at);
    else
      at = &(*at)->next;
  pthread_mutex_unlock(&m->world->lock);
  free(given);
}
static const char *why(void *user) {
  (void)user;
  return "the wire is cut";
}
static void end_all(void *user) { ((member *)user)->world->aborted++; }
static const clade_comm_impl threads = {sizeof threads, "threads", put, want, look, drop, why, end_all, NULL, NULL};
static void end_with(void *user, int status) { ((member *)user)->world->aborted = status; }

static void world_new(world *w) {
  *w = (world){.last = &w->first};
  pthread_mutex_init(&w->lock, NULL);
}

static void world_free(world *w) {
  assert_null(w->first); /* nothing was sent that nobody wanted */
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

/* Values of several lengths, one without elements, owned in turn but for the last rank, which owns none where there are
 * others; gathered, each rank has all sums. */
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
    for (int k = 0; k < N; k++) data[i][k] = element(r->member.rank, k + i);
    feeds[i] = (clade_feed){name[i], data[i], (size_t)lengths[i] * sizeof(float), NULL};
    x[i] = sums[i] = clade_input(g, name[i], CLADE_F32, CLADE_SHAPE(lengths[i]));
  }
  right &= clade_reduce_scatter(g, r->comm, VALUES, owners, sums) == CLADE_OK;
  for (int i = 0; i < VALUES; i++) {
    const bool own = owners[i] == r->member.rank;
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
  world w;
  for (int n = 1; n <= MOST; n++) run_ranks(n, &w, *state, shards);
}

/* Parameters of a residual network: many small ones, and layers of which each has four times the one before. */
static void owners(void **state) {
  enum { PARAMETERS = 60 };
  size_t bytes[PARAMETERS], whole = 0, largest = 0;
  int owner[PARAMETERS], again[PARAMETERS];
  (void)state;
  for (int i = 0; i < PARAMETERS; i++) {
    bytes[i] = i % 3 ? 256u << i / 15 : (size_t)147456 << 2 * (i / 15);
    whole += bytes[i];
    largest = CLADE_MAX(largest, bytes[i]);
  }
  for (int ranks = 1; ranks <= MOST; ranks++) {
    size_t load[MOST] = {0};
    OK(clade__shard_owners(PARAMETERS, bytes, ranks, owner));
    OK(clade__shard_owners(PARAMETERS, bytes, ranks, again));
    assert_memory_equal(owner, again, sizeof owner);
    for (int i = 0; i < PARAMETERS; i++) load[owner[i]] += bytes[i];
    for (int r = 0; r < ranks; r++) {
      assert_true(load[r] <= CLADE_MAX(whole / (size_t)ranks + (8 << 20), largest));
      assert_true(load[r] + largest >= whole / (size_t)ranks);
    }
  }
}

/* ---- collectives, beside sums that were made by another way ---- */
static struct {
  size_t n;
  bool whole;
  const size_t *ends; /* of slots; NULL: the library's own */
  float *given[MOST]; /* what each rank has */
  float *expected;
} job;
enum { LONGEST = 1000003 };

/* Of any magnitude and sign, so that another order of sums has other bits. */
static float number(int rank, size_t i) {
  const uint32_t mixed = ((uint32_t)i * 2654435761u + (uint32_t)rank * 40503u) ^ ((uint32_t)i >> 7);
  return (float)((int32_t)(mixed % 2000003) - 1000001) * (1.f + (float)(mixed >> 29)) * 1e-3f;
}

static float numbers_in_pairs(int first, int n, size_t i) {
  int half = 1;
  if (n == 1) return job.given[first][i];
  while (2 * half < n) half *= 2;
  return numbers_in_pairs(first, half, i) + numbers_in_pairs(first + half, n - half, i);
}

static bool same(const float *found, size_t from, size_t to) {
  return from == to || memcmp(found + from, job.expected + from, (to - from) * sizeof *found) == 0;
}

static bool finish(clade__reduction *c) {
  for (bool done = false; !done; sched_yield())
    if (clade__reduction_step(c, &done) != CLADE_OK) return false;
  return true;
}

/* A reduce-scatter and an all-gather of what it left, or an all-reduce; twice, since what a first one left behind is
 * used again. */
static bool collect(rank *r, clade__collective what, float *data) {
  clade__reduction *c;
  const clade__message message = {what, job.n, job.ends, job.whole};
  const int slot = clade__schedule_slot(r->member.rank, r->size);
  const size_t from = !job.ends ? 0 : slot ? job.ends[slot - 1] : 0, to = job.ends ? job.ends[slot] : job.n;
  const size_t bytes = job.n * sizeof *data;
  if (clade__reduction_new(r->comm, 7, &message, NULL, &c) != CLADE_OK) return false;
  float *inside = clade__reduction_data(c);
  if (bytes) memcpy(inside, data, bytes);
  bool right = finish(c);
  if (what == CLADE__REDUCE_SCATTER) /* what others own is lost */
    for (size_t i = 0; i < job.n; i++) data[i] = i >= from && i < to ? inside[i] : NAN;
  if (what != CLADE__REDUCE_SCATTER && bytes) memcpy(data, inside, bytes);
  right &= what == CLADE__REDUCE_SCATTER ? same(data, from, to) : same(data, 0, job.n);
  clade__reduction_end(c);
  return right;
}

static void *collect_all(void *user) {
  rank *r = user;
  float *data = calloc(job.n + 1, sizeof *data);
  assert_non_null(data);
  r->right = true;
  for (int turn = 0; turn < 2; turn++) {
    if (job.n) memcpy(data, job.given[r->member.rank], job.n * sizeof *data);
    if (!job.ends) r->right &= collect(r, CLADE__ALL_REDUCE, data);
    if (job.ends) r->right &= collect(r, CLADE__REDUCE_SCATTER, data) && collect(r, CLADE__ALL_GATHER, data);
  }
  free(data);
  return NULL;
}

/* Some slots are empty, and those without a rank must be. */
static void cut(int size, size_t n, size_t *ends) {
  const int slots = clade__schedule_slots(size);
  bool owned[4 * MOST] = {false};
  size_t at = 0;
  int last = 0;
  for (int i = 0; i < size; i++) {
    const int slot = clade__schedule_slot(i, size);
    assert_true(slot >= 0 && slot < slots && !owned[slot]);
    owned[slot] = true;
  }
  for (int s = 0; s < slots; s++)
    if (owned[s]) last = s;
  for (int s = 0; s < slots; s++) {
    if (owned[s] && s % 3) at += (n - at) / 2 + (n - at) % 2;
    ends[s] = s >= last ? n : at;
  }
}

static void job_new(void) {
  job.expected = calloc(LONGEST, sizeof *job.expected);
  assert_non_null(job.expected);
  for (int rank = 0; rank < MOST; rank++) {
    job.given[rank] = calloc(LONGEST, sizeof *job.expected);
    assert_non_null(job.given[rank]);
    for (size_t i = 0; i < LONGEST; i++) job.given[rank][i] = number(rank, i);
  }
}

static void job_free(void) {
  for (int rank = 0; rank < MOST; rank++) free(job.given[rank]);
  free(job.expected);
}

static void collectives(void **state) {
  static const size_t lengths[] = {0, 1, 2, 3, 7, 1000, LONGEST};
  world w;
  (void)state;
  job_new();
  for (int size = 1; size <= MOST; size++)
    for (size_t k = 0; k < CLADE_COUNT(lengths); k++) {
      size_t ends[4 * MOST];
      job.n = lengths[k];
      for (size_t i = 0; i < job.n; i++) job.expected[i] = numbers_in_pairs(0, size, i);
      cut(size, job.n, ends);
      for (int way = 0; way < 3; way++) {
        job.ends = way == 2 ? ends : NULL;
        job.whole = way == 1;
        run_ranks(size, &w, NULL, collect_all);
      }
    }
  job_free();
}

/* Each rank of a power of two sends 2 (n - 1) / n of the message, however many ranks there are; others at most twice
 * the message. Short messages take a round for each doubling. */
static void traffic(void **state) {
  world w;
  (void)state;
  job_new();
  job.n = 1 << 12;
  job.ends = NULL;
  const size_t twice = 2 * job.n * sizeof(float);
  for (int size = 1; size <= MOST; size++) {
    for (size_t i = 0; i < job.n; i++) job.expected[i] = numbers_in_pairs(0, size, i);
    const bool power = !(size & (size - 1));
    job.whole = false;
    run_ranks(size, &w, NULL, collect_all);
    for (int i = 0; i < size && power; i++) assert_int_equal(w.bytes[i], twice * 2 / (size_t)size * ((size_t)size - 1));
    for (int i = 0; i < size; i++) assert_true(w.bytes[i] <= 2 * twice);
    int rounds = 0;
    while (1 << rounds < size) rounds++;
    job.whole = true;
    run_ranks(size, &w, NULL, collect_all);
    for (int i = 0; i < size && power; i++) assert_int_equal(w.bytes[i], twice * (size_t)rounds);
  }
  job_free();
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
  clade__comm_be_patient(comm, 0);
  OK(clade__comm_patience(comm, 1, clade__now() - 1000));
  clade__comm_be_patient(comm, 10);
  OK(clade__comm_patience(comm, 1, clade__now() - 0.3));
  refused(clade__comm_patience(comm, 1, clade__now() - 0.6), CLADE_LOST, "rank 1 has not answered");
  clade__comm_be_patient(comm, 1);
  refused(clade__comm_patience(comm, 1, clade__now() - 1000), CLADE_LOST, "rank 1 has not answered");
  w.fails = true;
  refused(clade_comm_gather(comm, 2, &one, sizeof one, NULL), CLADE_LOST,
          "threads: sending to rank 2: the wire is cut");
  clade_comm_abort(comm);
  clade_comm_abort_with(comm, 75);
  assert_int_equal(w.aborted, 2);
  clade_comm_release(comm);
  clade_comm_impl telling = threads;
  telling.abort_with = end_with;
  OK(clade_comm_new(&telling, &m, 0, 3, &comm));
  clade_comm_abort_with(comm, 75);
  assert_int_equal(w.aborted, 75);
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
    OK(clade_graph_new(&g));
    v = clade_input(g, "x", CLADE_F32, CLADE_SCALAR);
    if (kind) refused(clade_all_gather(g, comm, 1, &(int){2}, &v), CLADE_INVALID, "owned by rank 2 of 2");
    if (!kind) refused(clade_reduce_scatter(g, comm, 1, NULL, &v), CLADE_INVALID, "owners are NULL");
    clade_graph_release(g);
  }
  clade_comm_release(comm);
  world_free(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(talking),     cmocka_unit_test(owned),   cmocka_unit_test(owners),   cmocka_unit_test(sums),
      cmocka_unit_test(collectives), cmocka_unit_test(traffic), cmocka_unit_test(failures), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

/* Groups of ranks: message matching, concurrent collectives of several groups, statistics, messages and refusals. */
#include <limits.h>
#include <stdio.h>

#include <clade/ops.h>

#include "comm_kit.h"

/* ---- messages of several groups between the same ranks ---- */
typedef void *request;

static clade_comm *split(clade_comm *comm, int n, const int *ranks) {
  clade_comm *out;
  OK(clade_comm_split(comm, n, ranks, &out));
  return out;
}

static void finish(clade_comm *comm, request *r) {
  bool done;
  OK(clade__comm_test(comm, r, &done));
  assert_true(done);
}

/* Messages with equal tags are received in another order than they were sent. */
static void exchange(int n, clade_comm **senders, clade_comm **receivers, const int *to, const int *from) {
  enum { ROOM = 8 };
  request gives[ROOM], takes[ROOM];
  int data[ROOM], got[ROOM];
  assert_true(n <= ROOM);
  for (int i = 0; i < n; i++) {
    data[i] = 100 + i;
    OK(clade__comm_send(senders[i], to[i], 5, &data[i], sizeof *data, &gives[i]));
  }
  for (int i = n - 1; i >= 0; i--) OK(clade__comm_receive(receivers[i], from[i], 5, &got[i], sizeof *got, &takes[i]));
  for (int i = 0; i < n; i++) {
    finish(senders[i], &gives[i]);
    finish(receivers[i], &takes[i]);
    assert_int_equal(got[i], 100 + i);
  }
}

/* Ranks 0 and 3 are both in the job, in a group, in the same group reversed, and in a group of a group. */
static void never_meet(void **state) {
  enum { RANKS = 4 };
  clade_comm *job[RANKS], *a[RANKS], *b[RANKS], *c[RANKS];
  (void)state;
  OK(clade_comm_new_local(RANKS, job));
  for (int i = 0; i < RANKS; i++) {
    if (i == 1) continue;
    a[i] = split(job[i], 3, (int[]){0, 2, 3});
    b[i] = split(job[i], 3, (int[]){3, 2, 0});
    if (i != 2) c[i] = split(a[i], 2, (int[]){2, 0}); /* ranks 3 and 0 of the job */
  }
  assert_int_equal(clade_comm_rank(a[3]), 2);
  assert_int_equal(clade_comm_rank(b[3]), 0);
  assert_int_equal(clade_comm_rank(c[3]), 0);
  assert_int_equal(clade_comm_size(a[3]), 3);
  assert_int_equal(clade_comm_size(c[0]), 2);
  clade_comm *from_0[] = {job[0], a[0], b[0], c[0]}, *at_3[] = {job[3], a[3], b[3], c[3]};
  exchange(4, from_0, at_3, (int[]){3, 2, 0, 0}, (int[]){0, 0, 2, 1});
  exchange(4, at_3, from_0, (int[]){0, 0, 2, 1}, (int[]){3, 2, 0, 0});
  for (int i = 0; i < RANKS; i++) {
    clade_comm_release(job[i]); /* groups keep it alive */
    if (i == 1) continue;
    if (i != 2) clade_comm_release(a[i]);
  }
  exchange(1, &c[0], &c[3], (int[]){0}, (int[]){1});
  for (int i = 0; i < RANKS; i++) {
    if (i == 1) continue;
    clade_comm_release(i == 2 ? a[i] : c[i]);
    clade_comm_release(b[i]);
  }
}

/* Each rank is in two of three groups, so that one rank's second group is another's first. */
static void in_a_triangle(void **state) {
  enum { RANKS = 3 };
  static const int pairs[RANKS][2] = {{0, 1}, {0, 2}, {1, 2}};
  clade_comm *job[RANKS], *at[RANKS][2];
  (void)state;
  OK(clade_comm_new_local(RANKS, job));
  for (int p = 0; p < RANKS; p++)
    for (int k = 0; k < 2; k++) at[p][k] = split(job[pairs[p][k]], 2, pairs[p]);
  for (int p = 0; p < RANKS; p++) {
    exchange(2, (clade_comm *[]){at[p][0], job[pairs[p][0]]}, (clade_comm *[]){at[p][1], job[pairs[p][1]]},
             (int[]){1, pairs[p][1]}, (int[]){0, pairs[p][0]});
    exchange(1, &at[p][1], &at[p][0], (int[]){0}, (int[]){1});
  }
  for (int p = 0; p < RANKS; p++)
    for (int k = 0; k < 2; k++) clade_comm_release(at[p][k]);
  release_all(RANKS, job);
}

/* ---- a grid of 2 times 3 ranks, whose rows and columns compute concurrently ---- */
enum { ROWS = 2, COLUMNS = 3, GRID = ROWS * COLUMNS, N = 5000 /* longer than messages that are exchanged whole */ };

static float element(int rank, int i) { return (float)(1 + (i * 7 + rank * 5) % 11); }

static float total(int n, const int *ranks, int i) {
  float sum = 0;
  for (int k = 0; k < n; k++) sum += element(ranks[k], i);
  return sum;
}

typedef struct place {
  int row[COLUMNS], column[ROWS], all[GRID];
} place;

static place place_of(int rank) {
  place p;
  for (int i = 0; i < COLUMNS; i++) p.row[i] = rank / COLUMNS * COLUMNS + i;
  for (int i = 0; i < ROWS; i++) p.column[i] = rank % COLUMNS + i * COLUMNS;
  for (int i = 0; i < GRID; i++) p.all[i] = i;
  return p;
}

/* A sum, and a reduce-scatter whose results are gathered. */
static clade_status collect(clade_graph *g, clade_comm *comm, const char *name, clade_val x) {
  char scattered[32];
  const int owner = clade_comm_size(comm) - 1;
  clade_val sum = x, part = x;
  CLADE_TRY(clade_all_reduce(g, comm, CLADE_F32, 1, &sum));
  CLADE_TRY(clade_reduce_scatter(g, comm, CLADE_F32, 1, &owner, &part));
  if (!clade_val_ok(part)) part = x;
  CLADE_TRY(clade_all_gather(g, comm, 1, &owner, &part));
  clade_output(g, name, sum);
  snprintf(scattered, sizeof scattered, "%s:scattered", name);
  clade_output(g, scattered, part);
  return clade_graph_status(g);
}

static bool check(clade_run *run, clade_ticket ticket, const char *name, int n, const int *ranks, int shift) {
  float y[N];
  bool right = clade_read(run, ticket, name, y, sizeof y) == CLADE_OK;
  for (int i = 0; i < N; i++) right &= y[i] == total(n, ranks, i + shift);
  return right;
}

static bool compute(const rank *r, const place *p, clade_comm *row, clade_comm *column) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x[N];
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  right &= collect(g, row, "row", v) == CLADE_OK && collect(g, column, "column", v) == CLADE_OK &&
           collect(g, r->comm, "all", v) == CLADE_OK;
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++) {
    for (int i = 0; i < N; i++) x[i] = element(r->number, i + k);
    right &= clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) == CLADE_OK;
    if (k == 1) continue; /* the third overlaps with the second */
    right = right && check(run, ticket, "row", COLUMNS, p->row, k) && check(run, ticket, "column", ROWS, p->column, k);
    right = right && check(run, ticket, "row:scattered", COLUMNS, p->row, k);
    right = right && check(run, ticket, "column:scattered", ROWS, p->column, k);
    right = right && check(run, ticket, "all", GRID, p->all, k) && check(run, ticket, "all:scattered", GRID, p->all, k);
  }
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return right;
}

static bool talk(clade_comm *comm, const int *ranks) {
  const int size = clade_comm_size(comm), own = ranks[clade_comm_rank(comm)];
  int numbers[GRID], one;
  bool right = true;
  for (int root = 0; root < size; root++) {
    one = clade_comm_rank(comm) == root ? own : -1;
    right &= clade_comm_broadcast(comm, root, &one, sizeof one) == CLADE_OK && one == ranks[root];
    right &= clade_comm_gather(comm, root, &own, sizeof own, numbers) == CLADE_OK;
    for (int i = 0; i < size && clade_comm_rank(comm) == root; i++) right &= numbers[i] == ranks[i];
    right &= clade_comm_barrier(comm) == CLADE_OK;
  }
  return right;
}

static bool counted(clade_comm *comm, clade_comm_stats *stats) {
  *stats = (clade_comm_stats){.size = sizeof *stats};
  return clade_comm_get_stats(comm, stats) == CLADE_OK;
}

/* The job's statistics include those of its groups, except for blocking calls. */
static bool add_up(const rank *r, clade_comm *row, clade_comm *column) {
  clade_comm_stats job, a, b;
  if (!counted(r->comm, &job) || !counted(row, &a) || !counted(column, &b)) return false;
  return a.sent_bytes && b.sent_bytes && job.sent_bytes > a.sent_bytes + b.sent_bytes &&
         job.received_bytes > a.received_bytes + b.received_bytes && job.busy_seconds >= a.busy_seconds &&
         a.busy_seconds > 0 && job.exposed_seconds >= a.exposed_seconds + b.exposed_seconds - 1e-9;
}

static void *on_a_grid(void *user) {
  rank *r = user;
  const place p = place_of(r->number);
  clade_comm *row = NULL, *column = NULL;
  clade_comm_stats quiet;
  bool right = clade_comm_split(r->comm, COLUMNS, p.row, &row) == CLADE_OK &&
               clade_comm_split(r->comm, ROWS, p.column, &column) == CLADE_OK;
  right = right && talk(row, p.row) && talk(column, p.column) && talk(r->comm, p.all);
  right = right && counted(r->comm, &quiet) && !quiet.sent_bytes && !quiet.received_bytes;
  r->right = right && compute(r, &p, row, column) && add_up(r, row, column);
  clade_comm_release(row);
  clade_comm_release(column);
  return NULL;
}

static void grid(void **state) { run_ranks(GRID, *state, on_a_grid, NULL); }

/* ---- errors name ranks of the job ---- */
static void failures(void **state) {
  enum { RANKS = 5 };
  clade_comm *job[RANKS], *group[RANKS];
  int one = 1;
  request none;
  (void)state;
  OK(clade_comm_new_local(RANKS, job));
  for (int i = 2; i < RANKS; i++) group[i] = split(job[i], 3, (int[]){4, 2, 3});
  OK(clade_comm_set_timeout(job[4], 0.05)); /* set later, but valid for the group */
  refused(clade_comm_barrier(group[4]), CLADE_LOST, "rank 2 has not answered rank 4 of 5");
  OK(clade_comm_set_timeout(group[3], 0.05));
  refused(clade_comm_broadcast(job[3], 1, &one, sizeof one), CLADE_LOST, "rank 1 has not answered rank 3 of 5");
  clade__comm_be_patient(job[4], 0);
  OK(clade__comm_patience(group[4], 1, clade__now() - 1000));
  clade__comm_be_patient(group[4], 1);
  refused(clade__comm_patience(job[4], 1, clade__now() - 1000), CLADE_LOST, "rank 1 has not answered rank 4 of 5");
  clade_comm_abort(group[3]);
  refused(clade__comm_send(group[2], 2, 5, &one, sizeof one, &none), CLADE_CANCELED,
          "local: sending to rank 3: rank 3 has ended all ranks");
  refused(clade_comm_barrier(job[0]), CLADE_CANCELED, "rank 3 has ended all ranks");
  for (int i = 2; i < RANKS; i++) clade_comm_release(group[i]);
  release_all(RANKS, job);
}

static void refusals(void **state) {
  enum { RANKS = 3 };
  clade_comm *job[RANKS], *group, *more;
  int number;
  (void)state;
  OK(clade_comm_new_local(RANKS, job));
  refused(clade_comm_split(job[0], 1, (int[]){0}, NULL), CLADE_INVALID, "no place");
  refused(clade_comm_split(NULL, 1, (int[]){0}, &group), CLADE_INVALID, "NULL");
  refused(clade_comm_split(job[0], 1, NULL, &group), CLADE_INVALID, "1 ranks of 3, which are NULL");
  refused(clade_comm_split(job[0], 0, (int[]){0}, &group), CLADE_INVALID, "0 ranks of 3");
  refused(clade_comm_split(job[0], 4, (int[]){0, 1, 2, 3}, &group), CLADE_INVALID, "4 ranks of 3");
  refused(clade_comm_split(job[0], 2, (int[]){0, 3}, &group), CLADE_INVALID, "ranks[1] is rank 3 of 3");
  refused(clade_comm_split(job[0], 2, (int[]){-1, 0}, &group), CLADE_INVALID, "ranks[0] is rank -1 of 3");
  refused(clade_comm_split(job[0], 3, (int[]){1, 0, 1}, &group), CLADE_INVALID,
          "ranks[0] and ranks[2] are both rank 1");
  refused(clade_comm_split(job[0], 2, (int[]){1, 2}, &group), CLADE_INVALID, "rank 0, which calls, is not among the 2");
  assert_null(group);
  group = split(job[0], 2, (int[]){0, 2});
  refused(clade__comm_open_channel(group, &number), CLADE_UNSUPPORTED, "local has no sums of its own of these 2 ranks");
  for (int i = 0; i < 2; i++) { /* for the group and the job, whose tags are exhausted too */
    clade_comm *comm = i ? job[0] : group;
    refused(clade__comm_reserve(comm, 1 << 16, &number), CLADE_OVERFLOW, "65535 in all");
    OK(clade__comm_reserve(comm, 65535, &number));
    refused(clade__comm_reserve(comm, 1, &number), CLADE_OVERFLOW, "1 collectives or messages more, after 65535");
  }
  clade_comm_release(group);
  for (int i = 2; i < INT_MAX / CLADE__COMM_TAGS; i++) clade_comm_release(split(job[0], 1, (int[]){0}));
  refused(clade_comm_split(job[0], 2, (int[]){2, 0}, &more), CLADE_OVERFLOW, "ranks 0 and 0 are both in 2046 groups");
  OK(clade__comm_reserve(job[1], 65536, &number));
  refused(clade_comm_split(job[1], 1, (int[]){1}, &more), CLADE_OVERFLOW, "65536 collectives in graphs");
  release_all(RANKS, job);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(never_meet), cmocka_unit_test(in_a_triangle),
                                     cmocka_unit_test(grid), cmocka_unit_test(failures), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

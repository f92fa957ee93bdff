/* MPI ranks in a grid of two rows: rows, columns and the whole job run sums, gathers and sends in one graph, and
 * exchange bytes by blocking calls. */
#include <stdio.h>
#include <string.h>

#include <clade/clade.h>
#include <clade/mpi.h>
#include <clade/ops.h>

#include "comm/parts.h"

enum { ROWS = 2, COLUMNS = 2, RANKS = ROWS * COLUMNS, N = 150001 /* several pieces */, MOVES = 5, GROUPS = 3 };
static const char *const moves[MOVES] = {"sum", "sum_part and join", "part and join", "share", "send and receive"};

typedef struct team {
  clade_comm *comm;
  int size, ranks[RANKS];
} team;

static float element(int rank, int i) { return (float)((i * 7 + rank * 5) % 13); }

static float total(const team *t, int i) {
  float sum = 0;
  for (int k = 0; k < t->size; k++) sum += element(t->ranks[k], i);
  return sum;
}

/* ---- graph: an output for each operation of each group ---- */
static clade_status ring(clade_graph *g, clade_comm *comm, clade_val x, clade_val *y) {
  const int rank = clade_comm_rank(comm), size = clade_comm_size(comm), last = (rank + size - 1) % size;
  const clade_type type = {.dtype = CLADE_F32, .shape = CLADE_SHAPE(N)};
  int first;
  clade_status status = clade__comm_reserve(comm, size, &first);
  if (status != CLADE_OK) return status;
  *y = clade__comm_receive_value(g, comm, last, first + last, &type);
  return clade__comm_send_value(g, comm, (rank + 1) % size, first + rank, x);
}

static clade_status build(clade_graph *g, const team *t, int group) {
  const clade_dtype wire = CLADE_F32;
  const int64_t cuts[RANKS + 1] = {0, 1000, t->size > 2 ? 1000 : N, 1001, N}; /* includes an empty slice */
  const clade_val x = clade_input(g, (char[]){'x', (char)('0' + group), 0}, CLADE_F32, CLADE_SHAPE(N));
  const clade_val same = clade__comm_sum(g, t->comm, wire, x);
  const clade_val factor = clade_fill(g, CLADE_F32, CLADE_SCALAR, clade_comm_rank(t->comm) + 1);
  clade_val y[MOVES] = {same};
  y[1] = clade__comm_join(g, t->comm, wire, clade__comm_sum_part(g, t->comm, wire, x, 0, cuts), 0, cuts, false);
  y[2] = clade__comm_join(g, t->comm, wire, clade__comm_part(g, t->comm, wire, same, 0, cuts), 0, cuts, false);
  clade_status status =
      clade_gradients(g, clade_mul(g, clade__comm_share(g, t->comm, wire, x), factor), (clade_val){0}, 1, &x, &y[3]);
  if (status == CLADE_OK) status = ring(g, t->comm, x, &y[4]);
  for (int move = 0; move < MOVES && status == CLADE_OK; move++)
    clade_output(g, (char[]){'y', (char)('0' + group), (char)('0' + move), 0}, y[move]);
  return clade_graph_status(g);
}

static float expected(const team *t, int move, int i) {
  const int rank = clade_comm_rank(t->comm);
  if (move < 3) return total(t, i);
  return move == 3 ? (float)(t->size * (t->size + 1) / 2) : element(t->ranks[(rank + t->size - 1) % t->size], i);
}

static int check(clade_run *run, clade_ticket ticket, const team *t, int group, int shift) {
  static float y[N];
  int wrong = 0;
  for (int move = 0; move < MOVES; move++) {
    const char name[] = {'y', (char)('0' + group), (char)('0' + move), 0};
    bool right = clade_read(run, ticket, name, y, sizeof y) == CLADE_OK;
    for (int i = 0; i < N && right; i++) right = y[i] == expected(t, move, i + shift);
    if (!right) fprintf(stderr, "group %d of %d ranks: %s: %s\n", group, t->size, moves[move], clade_last_error());
    wrong += !right;
  }
  return wrong;
}

static int compute(const team teams[GROUPS], int rank, clade_device *device) {
  static float x[N];
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  int wrong = clade_graph_new(&g) != CLADE_OK;
  for (int group = 0; group < GROUPS && !wrong; group++) wrong = build(g, &teams[group], group) != CLADE_OK;
  wrong = wrong || clade_compile(g, device, &func) != CLADE_OK || clade_run_new(func, NULL, &run) != CLADE_OK;
  if (wrong) fprintf(stderr, "rank %d: %s\n", rank, clade_last_error());
  for (int k = 0; k < 4 && !wrong; k++) {
    for (int i = 0; i < N; i++) x[i] = element(rank, i + k);
    wrong =
        clade_execute(run, CLADE_FEEDS({"x0", x, sizeof x, NULL}, {"x1", x, sizeof x, NULL}, {"x2", x, sizeof x, NULL}),
                      &ticket) != CLADE_OK;
    for (int group = 0; group < GROUPS && k % 2 && !wrong; group++) wrong = check(run, ticket, &teams[group], group, k);
  }
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return wrong;
}

/* ---- blocking calls ---- */
static int talk(const team *t) {
  int numbers[RANKS], own = t->ranks[clade_comm_rank(t->comm)], one = own, wrong = 0;
  for (int root = 0; root < t->size; root++, one = own) {
    wrong += clade_comm_broadcast(t->comm, root, &one, sizeof one) != CLADE_OK || one != t->ranks[root];
    wrong += clade_comm_gather(t->comm, root, &own, sizeof own, numbers) != CLADE_OK;
    wrong += clade_comm_rank(t->comm) == root && memcmp(numbers, t->ranks, (size_t)t->size * sizeof *numbers);
    wrong += clade_comm_barrier(t->comm) != CLADE_OK;
  }
  if (wrong) fprintf(stderr, "rank %d among %d: %s\n", own, t->size, clade_last_error());
  return wrong;
}

static clade_status find_teams(clade_comm *job, team teams[GROUPS]) {
  const int rank = clade_comm_rank(job), row = rank / COLUMNS * COLUMNS, column = rank % COLUMNS;
  teams[0] = (team){NULL, COLUMNS, {row + 1, row}}; /* reversed */
  teams[1] = (team){NULL, ROWS, {column, column + COLUMNS}};
  teams[2] = (team){clade_comm_retain(job), RANKS, {0, 1, 2, 3}};
  clade_status status = clade_comm_split(job, COLUMNS, teams[0].ranks, &teams[0].comm);
  return status ? status : clade_comm_split(job, ROWS, teams[1].ranks, &teams[1].comm);
}

int main(void) {
  clade_comm *job = NULL;
  clade_device *device = NULL;
  team teams[GROUPS] = {{0}};
  if (clade_device_find(NULL, &device) != CLADE_OK || clade_mpi_comm(&job) != CLADE_OK ||
      clade_comm_size(job) != RANKS || find_teams(job, teams) != CLADE_OK) {
    fprintf(stderr, "of %d ranks, 4 are expected: %s\n", clade_comm_size(job), clade_last_error());
    clade_comm_abort(job);
    return 1;
  }
  int wrong = 0;
  for (int i = 0; i < GROUPS; i++) wrong += talk(&teams[i]);
  wrong += compute(teams, clade_comm_rank(job), device);
  if (wrong) clade_comm_abort(job); /* other ranks may be waiting */
  for (int i = 0; i < GROUPS; i++) clade_comm_release(teams[i].comm);
  clade_comm_release(job);
  clade_device_release(device);
  return wrong != 0;
}

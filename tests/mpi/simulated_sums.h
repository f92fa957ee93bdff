/* The library's own collectives (src/comm/reduce.c) among ranks simulated by SimGrid. SimGrid transfers the bytes;
 * additions take a given time. All ranks share one block of memory, so that sums are meaningless, but times are
 * valid. */
#ifndef SIMULATED_SUMS_H
#define SIMULATED_SUMS_H

#include <mpi.h>
#include <simgrid/actor.h>
#include <stdlib.h>

#include "comm/comm.h"

enum { FIRST_TAG = CLADE__COMM_TAG + 1 };

/* A collective. */
typedef struct sum {
  clade__message message;
  size_t to_add;               /* received bytes that are added; they come first */
  clade__reduction *reduction; /* NULL: not active */
  size_t *ends;                /* of slots; NULL: none */
} sum;
/* The collectives of ranks base, base + stride, base + 2 stride, …; number i uses tag FIRST_TAG + i. */
typedef struct sums {
  int base, stride, rank, ranks, n;
  double add; /* bytes of f32 per second */
  sum *at;
  clade__reduction *idle;
  clade_comm *comm;
} sums;

static void pass(double seconds) { sg_actor_sleep_for(seconds); }

/* ---- memory ---- */
enum { SHARED_FROM = 256 << 10 };
static void *block; /* of all ranks: SMPI runs them in one process, one at a time */
static size_t block_bytes;

static void *allocate(void *user, size_t bytes, size_t align) {
  void *memory = NULL;
  (void)user;
  if (bytes >= SHARED_FROM) return bytes <= block_bytes ? block : NULL;
  return posix_memalign(&memory, align, bytes) ? NULL : memory;
}

static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  if (memory != block) free(memory);
}

static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (memory && memory != old) memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  if (memory) release(user, old, old_bytes);
  return memory;
}

/* Allocated by the first rank, for the largest collective and its pieces. */
static clade_status share_memory(double most) {
  enum { HEADER = 4096, PIECES = 16 << 20 };
  static const clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};
  if (block) return CLADE_OK;
  block_bytes = (size_t)CLADE_MAX(most, PIECES) + HEADER;
  if (posix_memalign(&block, HEADER, block_bytes)) return CLADE_NO_MEMORY;
  return clade__allocator_set(&hook);
}

/* ---- messages ---- */
typedef struct request {
  MPI_Request mpi;
  int sum;
  size_t received; /* corresponding bytes of f32; 0: a send */
} request;

static double wire_of(const sum *s) { return !s->message.whole && s->message.wire == CLADE_BF16 ? 0.5 : 1; }

/* With MPI_BOTTOM, SMPI transfers the length without copying. */
static clade_status begin(sums *s, bool sends, int rank, int tag, size_t bytes, void **out) {
  request *r = malloc(sizeof *r);
  const int there = s->base + rank * s->stride;
  if (!r) return CLADE_NO_MEMORY;
  r->sum = tag - FIRST_TAG;
  r->received = sends ? 0 : (size_t)((double)bytes / wire_of(&s->at[r->sum]));
  const int code = sends ? MPI_Isend(MPI_BOTTOM, (int)bytes, MPI_BYTE, there, tag, MPI_COMM_WORLD, &r->mpi)
                         : MPI_Irecv(MPI_BOTTOM, (int)bytes, MPI_BYTE, there, tag, MPI_COMM_WORLD, &r->mpi);
  *out = r;
  return code == MPI_SUCCESS ? CLADE_OK : CLADE_IO;
}

static clade_status send(void *user, int to, int tag, const void *data, size_t bytes, void **out) {
  (void)data;
  return begin(user, true, to, tag, bytes, out);
}

static clade_status receive(void *user, int from, int tag, void *data, size_t bytes, void **out) {
  (void)data;
  return begin(user, false, from, tag, bytes, out);
}

static clade_status test(void *user, void *given, bool *done) {
  sums *s = user;
  request *r = given;
  int flag = 0;
  if (MPI_Test(&r->mpi, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return CLADE_IO;
  *done = flag;
  if (!flag) return CLADE_OK;
  const size_t adds = CLADE_MIN(r->received, s->at[r->sum].to_add);
  s->at[r->sum].to_add -= adds;
  free(r);
  if (adds) pass((double)adds / s->add);
  return CLADE_OK;
}

static void cancel(void *user, void *given) {
  request *r = given;
  (void)user;
  MPI_Cancel(&r->mpi);
  MPI_Request_free(&r->mpi);
  free(r);
}

static const clade_comm_impl impl = {
    .size = sizeof impl, .name = "SimGrid", .send = send, .receive = receive, .test = test, .cancel = cancel};

/* ---- sums ---- */
static clade_status sums_open(sums *s) {
  s->at = calloc((size_t)CLADE_MAX(s->n, 1), sizeof *s->at);
  if (!s->at) return CLADE_NO_MEMORY;
  CLADE_TRY(clade_comm_new(&impl, s, s->rank, s->ranks, &s->comm));
  return clade_comm_set_timeout(s->comm, 0);
}

static void sums_close(sums *s) {
  clade__reductions_free(s->idle);
  clade_comm_release(s->comm);
  for (int i = 0; s->at && i < s->n; i++) free(s->at[i].ends);
  free(s->at);
}

static clade_status sums_begin(sums *s, int i, const clade__message *message) {
  sum *one = &s->at[i];
  clade__schedule schedule = {0};
  one->message = *message;
  one->to_add = 0;
  CLADE_TRY(clade__schedule_room(&schedule, s->rank, s->ranks));
  clade__schedule_fill(&schedule, s->rank, s->ranks, message);
  for (int k = 0; k < schedule.n; k++) {
    const clade__move *m = &schedule.moves[k];
    if (m->adds) one->to_add += (m->take.to - m->take.from) * sizeof(float);
  }
  clade__free(schedule.moves);
  return clade__reduction_new(s->comm, &s->idle, FIRST_TAG + i, message, NULL, &one->reduction);
}

/* Polls all active collectives; *ended counts the completed ones. */
static clade_status sums_look(sums *s, int *ended) {
  for (int i = 0; i < s->n; i++) {
    bool done = false;
    if (!s->at[i].reduction) continue;
    CLADE_TRY(clade__reduction_step(s->at[i].reduction, &done));
    if (!done) continue;
    clade__reduction_end(s->at[i].reduction);
    s->at[i].reduction = NULL;
    ++*ended;
  }
  return CLADE_OK;
}

/* Equal slots for all ranks. */
static inline clade_status sums_find_ends(const sums *s, int i, clade__message *message) {
  const int slots = clade__schedule_slots(s->ranks);
  size_t *ends = calloc((size_t)slots, sizeof *ends);
  if (!ends) return CLADE_NO_MEMORY;
  free(s->at[i].ends);
  message->ends = s->at[i].ends = ends;
  const size_t n = message->n, ranks = (size_t)s->ranks;
  for (size_t rank = 0; rank < ranks; rank++)
    ends[clade__schedule_slot((int)rank, s->ranks)] = n * (rank + 1) / ranks - n * rank / ranks;
  for (int slot = 1; slot < slots; slot++) ends[slot] += ends[slot - 1];
  return CLADE_OK;
}

/* Equal blocks from each rank to each. */
static inline clade_status sums_find_blocks(const sums *s, int i, clade__message *message) {
  const size_t ranks = (size_t)s->ranks, each = message->n / ranks;
  size_t *ends = calloc(2 * ranks, sizeof *ends), end = 0;
  if (!ends) return CLADE_NO_MEMORY;
  free(s->at[i].ends);
  message->ends = s->at[i].ends = ends;
  for (size_t k = 0; k < 2 * ranks; k++) ends[k] = end += k == (size_t)s->rank ? 0 : each;
  message->n = end;
  return CLADE_OK;
}

static inline clade_status sums_begin_even(sums *s, int i, clade__collective what, double bytes) {
  clade__message message = {.what = what, .n = (size_t)bytes / sizeof(float)};
  message.whole = what == CLADE__ALL_REDUCE && bytes < CLADE__COMM_SHORT;
  if (what == CLADE__ALL_TO_ALL)
    CLADE_TRY(sums_find_blocks(s, i, &message));
  else if (what != CLADE__ALL_REDUCE)
    CLADE_TRY(sums_find_ends(s, i, &message));
  return sums_begin(s, i, &message);
}

#endif

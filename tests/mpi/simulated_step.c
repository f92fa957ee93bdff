/* A training's step on ranks that SimGrid simulates (simulated.py builds and starts it). Buckets of gradients are there
 * at given times, and are summed by the library itself (src/comm/reduce.c). Bytes travel by SimGrid, adding them takes
 * as long as it is told to, and what would be a rank's memory is a block that all ranks share: sums are nonsense, and
 * times are not. What the model of `clade bench scale` says of the same step is told beside it.
 *     simulated_step LATENCY BANDWIDTH POLL ADD REST WIRE BYTES READY [BYTES READY …]
 * in seconds, bytes, and bytes a second; WIRE: 1, or 0.5 for 16-bit floats. */
#include <mpi.h>
#include <simgrid/actor.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/scale_model.h"
#include "comm/comm.h"

enum { FIRST_TAG = CLADE__COMM_TAG + 1 };

typedef struct simulation {
  int rank, ranks, n;
  double poll, rest, wire;
  scale_link link; /* of the model: its latency has half of `poll` */
  scale_bucket *buckets;
  size_t *to_add; /* of each bucket: bytes of what will be received that are added; they come first */
  clade__reduction *idle, **sums;
  clade_comm *comm;
} simulation;

static void pass(double seconds) { sg_actor_sleep_for(seconds); }

/* ---- memory ---- */
enum { SHARED_FROM = 256 << 10 };
static void *block; /* of all ranks: SMPI runs them in one process, by turns */
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

/* The first rank makes it, as large as the largest sum and its pieces. */
static clade_status share_memory(const simulation *s) {
  enum { HEADER = 4096, PIECES = 16 << 20 };
  static const clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};
  if (block) return CLADE_OK;
  double most = PIECES;
  for (int i = 0; i < s->n; i++) most = CLADE_MAX(most, s->buckets[i].bytes);
  block_bytes = (size_t)most + HEADER;
  if (posix_memalign(&block, HEADER, block_bytes)) return CLADE_NO_MEMORY;
  return clade__allocator_set(&hook);
}

/* ---- messages ---- */
typedef struct request {
  MPI_Request mpi;
  int bucket;
  size_t received; /* bytes of f32 that it stands for; 0: it is sent */
} request;

static bool is_short(const simulation *s, int bucket) { return s->buckets[bucket].bytes < CLADE__COMM_SHORT; }
static double wire_of(const simulation *s, int bucket) { return is_short(s, bucket) ? 1 : s->wire; }

/* MPI_BOTTOM has SMPI carry a length, and copy nothing. */
static clade_status begin(simulation *s, bool sends, int rank, int tag, size_t bytes, void **out) {
  request *r = malloc(sizeof *r);
  if (!r) return CLADE_NO_MEMORY;
  r->bucket = tag - FIRST_TAG;
  r->received = sends ? 0 : (size_t)((double)bytes / wire_of(s, r->bucket));
  const int code = sends ? MPI_Isend(MPI_BOTTOM, (int)bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &r->mpi)
                         : MPI_Irecv(MPI_BOTTOM, (int)bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &r->mpi);
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
  simulation *s = user;
  request *r = given;
  int flag = 0;
  if (MPI_Test(&r->mpi, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return CLADE_IO;
  *done = flag;
  if (!flag) return CLADE_OK;
  const size_t adds = CLADE_MIN(r->received, s->to_add[r->bucket]);
  s->to_add[r->bucket] -= adds;
  free(r);
  if (adds) pass((double)adds / s->link.add);
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
static clade__message message_of(const simulation *s, int bucket) {
  return (clade__message){.what = CLADE__ALL_REDUCE,
                          .n = (size_t)s->buckets[bucket].bytes / sizeof(float),
                          .whole = is_short(s, bucket),
                          .wire = wire_of(s, bucket) < 1 ? CLADE_BF16 : CLADE_F32};
}

static clade_status count_added(simulation *s) {
  clade__schedule schedule = {0};
  CLADE_TRY(clade__schedule_room(&schedule, s->rank, s->ranks));
  for (int i = 0; i < s->n; i++) {
    const clade__message message = message_of(s, i);
    clade__schedule_fill(&schedule, s->rank, s->ranks, &message);
    s->to_add[i] = 0;
    for (int k = 0; k < schedule.n; k++) {
      const clade__move *m = &schedule.moves[k];
      if (m->adds) s->to_add[i] += (m->take.to - m->take.from) * sizeof(float);
    }
  }
  clade__free(schedule.moves);
  return CLADE_OK;
}

static clade_status begin_sum(simulation *s, int bucket) {
  const clade__message message = message_of(s, bucket);
  return clade__reduction_new(s->comm, &s->idle, FIRST_TAG + bucket, &message, NULL, &s->sums[bucket]);
}

/* Ranks look for messages at moments of their own, spread evenly: half a pause before or behind the given times. */
static double ready(const simulation *s, int bucket) {
  const double golden = 0.6180339887, turns = golden * s->rank;
  return s->buckets[bucket].ready + (turns - (int)turns - 0.5) * s->poll;
}

/* As the thread of a run does it (src/plan/run_host.c): all sums that have begun are looked at, then there is a pause.
 * *end: when the last one has ended. */
static clade_status step(simulation *s, double *end) {
  const double nothing = 1e-9, start = MPI_Wtime();
  for (int begun = 0, ended = 0; ended < s->n;) {
    const double now = MPI_Wtime() - start;
    for (; begun < s->n && ready(s, begun) <= now + nothing; begun++) CLADE_TRY(begin_sum(s, begun));
    for (int i = 0; i < begun; i++) {
      bool done = false;
      if (s->sums[i]) CLADE_TRY(clade__reduction_step(s->sums[i], &done));
      if (!done) continue;
      clade__reduction_end(s->sums[i]);
      s->sums[i] = NULL;
      ended++;
    }
    *end = MPI_Wtime() - start;
    if (ended < s->n) pass(ended == begun ? CLADE_MAX(ready(s, begun) - *end, nothing) : s->poll);
  }
  return CLADE_OK;
}

/* ---- telling ---- */
static clade_status tell(const simulation *s, double end) {
  const scale_step predicted = scale_predict(&s->link, s->ranks, s->wire, s->n, s->buckets, s->rest);
  clade_comm_stats stats = {.size = sizeof stats};
  CLADE_TRY(clade_comm_get_stats(s->comm, &stats));
  double sent = (double)stats.sent_bytes, all = 0, last = 0;
  MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&sent, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (s->rank) return CLADE_OK;
  printf("{\"ranks\": %d, \"seconds\": %.9f, \"exposed_seconds\": %.9f, \"sent_bytes\": %.0f, "
         "\"predicted_seconds\": %.9f, \"predicted_exposed_seconds\": %.9f}\n",
         s->ranks, last + s->rest, last - s->buckets[s->n - 1].ready, all, predicted.seconds, predicted.exposed);
  return CLADE_OK;
}

static clade_status simulate(simulation *s) {
  double end = 0;
  CLADE_TRY(share_memory(s));
  CLADE_TRY(count_added(s));
  CLADE_TRY(clade_comm_new(&impl, s, s->rank, s->ranks, &s->comm));
  clade_status status = clade_comm_set_timeout(s->comm, 0);
  if (status == CLADE_OK) status = step(s, &end);
  if (status == CLADE_OK) status = tell(s, end);
  clade__reductions_free(s->idle);
  clade_comm_release(s->comm);
  return status;
}

/* ---- the command ---- */
enum { LATENCY = 1, BANDWIDTH, POLL, ADD, REST, WIRE, BUCKETS };

/* What simulated.py gives is right; this is for who starts it by hand. */
static bool parse(simulation *s, int argc, char **argv) {
  double given[BUCKETS];
  if (argc < BUCKETS + 2 || (argc - BUCKETS) % 2) return false;
  for (int i = 1; i < BUCKETS; i++) given[i] = strtod(argv[i], NULL);
  s->n = (argc - BUCKETS) / 2;
  s->poll = given[POLL];
  s->rest = given[REST];
  s->wire = given[WIRE];
  s->link = (scale_link){.latency = given[LATENCY] + given[POLL] / 2,
                         .bandwidth = given[BANDWIDTH],
                         .add = given[ADD],
                         .whole = CLADE__COMM_SHORT,
                         .piece = CLADE__COMM_PIECE,
                         .look = given[POLL]};
  s->buckets = calloc((size_t)s->n, sizeof *s->buckets);
  s->to_add = calloc((size_t)s->n, sizeof *s->to_add);
  s->sums = calloc((size_t)s->n, sizeof *s->sums);
  for (int i = 0; s->buckets && i < s->n; i++)
    s->buckets[i] = (scale_bucket){strtod(argv[BUCKETS + 2 * i], NULL), strtod(argv[BUCKETS + 2 * i + 1], NULL)};
  return s->buckets && s->to_add && s->sums && s->poll > 0 && s->link.bandwidth > 0 && s->link.add > 0;
}

int main(int argc, char **argv) {
  simulation s = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
  const bool right = parse(&s, argc, argv);
  if (!right || simulate(&s) != CLADE_OK) {
    fprintf(stderr, "simulated_step: rank %d: %s\n", s.rank, right ? clade_last_error() : "wrong arguments");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(s.buckets);
  free(s.to_add);
  free(s.sums);
  return MPI_Finalize();
}

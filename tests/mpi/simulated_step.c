/* A training step on ranks simulated by SimGrid; built and started by simulated.py. Gradient buckets become
 * available at given times and are summed by the library's own all-reduce (simulated_sums.h). Also prints the
 * prediction of the model behind `clade bench scale`.
 *     simulated_step LATENCY BANDWIDTH POLL ADD REST WIRE BYTES READY [BYTES READY …]
 * in seconds, bytes, and bytes per second; WIRE: 1, or 0.5 for 16-bit floats. */
#include <stdio.h>

#include "cli/bench/scale_model.h"
#include "simulated_sums.h"

typedef struct simulation {
  int n;
  double poll, rest, wire;
  scale_link link; /* of the model: its latency includes half of `poll` */
  scale_bucket *buckets;
  sums sums;
} simulation;

/* ---- sums ---- */
static clade_status begin_sum(simulation *s, int bucket) {
  const double bytes = s->buckets[bucket].bytes;
  const clade__message message = {.what = CLADE__ALL_REDUCE,
                                  .n = (size_t)bytes / sizeof(float),
                                  .whole = bytes < CLADE__COMM_SHORT,
                                  .wire = s->wire < 1 ? CLADE_BF16 : CLADE_F32};
  return sums_begin(&s->sums, bucket, &message);
}

/* Ranks poll at different phases: times are shifted by up to half a pause, evenly distributed. */
static double ready(const simulation *s, int bucket) {
  const double golden = 0.6180339887, turns = golden * s->sums.rank;
  return s->buckets[bucket].ready + (turns - (int)turns - 0.5) * s->poll;
}

/* Like the progress thread of a run (src/plan/run_host.c): polls all active sums, then pauses. *end: completion of
 * the last. */
static clade_status step(simulation *s, double *end) {
  const double nothing = 1e-9, start = MPI_Wtime();
  for (int begun = 0, ended = 0; ended < s->n;) {
    const double now = MPI_Wtime() - start;
    for (; begun < s->n && ready(s, begun) <= now + nothing; begun++) CLADE_TRY(begin_sum(s, begun));
    CLADE_TRY(sums_look(&s->sums, &ended));
    *end = MPI_Wtime() - start;
    if (ended < s->n) pass(ended == begun ? CLADE_MAX(ready(s, begun) - *end, nothing) : s->poll);
  }
  return CLADE_OK;
}

static clade_status tell(const simulation *s, double end) {
  const scale_step predicted = scale_predict(&s->link, s->sums.ranks, s->wire, s->n, s->buckets, s->rest);
  clade_comm_stats stats = {.size = sizeof stats};
  CLADE_TRY(clade_comm_get_stats(s->sums.comm, &stats));
  double sent = (double)stats.sent_bytes, all = 0, last = 0;
  MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&sent, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (s->sums.rank) return CLADE_OK;
  printf("{\"ranks\": %d, \"seconds\": %.9f, \"exposed_seconds\": %.9f, \"sent_bytes\": %.0f, "
         "\"predicted_seconds\": %.9f, \"predicted_exposed_seconds\": %.9f}\n",
         s->sums.ranks, last + s->rest, last - s->buckets[s->n - 1].ready, all, predicted.seconds, predicted.exposed);
  return CLADE_OK;
}

static clade_status simulate(simulation *s) {
  double end = 0, most = 0;
  for (int i = 0; i < s->n; i++) most = CLADE_MAX(most, s->buckets[i].bytes);
  CLADE_TRY(share_memory(most));
  clade_status status = sums_open(&s->sums);
  if (status == CLADE_OK) status = step(s, &end);
  if (status == CLADE_OK) status = tell(s, end);
  sums_close(&s->sums);
  return status;
}

enum { LATENCY = 1, BANDWIDTH, POLL, ADD, REST, WIRE, BUCKETS };

/* simulated.py passes valid arguments; the checks are for manual use. */
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
  s->sums.n = s->n;
  s->sums.stride = 1;
  s->sums.add = given[ADD];
  for (int i = 0; s->buckets && i < s->n; i++)
    s->buckets[i] = (scale_bucket){strtod(argv[BUCKETS + 2 * i], NULL), strtod(argv[BUCKETS + 2 * i + 1], NULL)};
  return s->buckets && s->poll > 0 && s->link.bandwidth > 0 && s->link.add > 0;
}

int main(int argc, char **argv) {
  simulation s = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &s.sums.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.sums.ranks);
  const bool right = parse(&s, argc, argv);
  if (!right || simulate(&s) != CLADE_OK) {
    fprintf(stderr, "simulated_step: rank %d: %s\n", s.sums.rank, right ? clade_last_error() : "wrong arguments");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(s.buckets);
  return MPI_Finalize();
}

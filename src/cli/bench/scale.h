/* Between clade bench comm and clade bench scale: a model's step, taken apart, and what becomes of it on many ranks. */
#ifndef CLADE_CLI_BENCH_SCALE_H
#define CLADE_CLI_BENCH_SCALE_H

#include "cli/bench/model.h"
#include "cli/bench/scale_model.h"

/* ---- scale_step.c ---- */
enum { SCALE_AS_F32, SCALE_AS_BF16, SCALE_AS_POWERSGD, SCALE_WIRES };
extern const char *const scale_wires[SCALE_WIRES]; /* as --compress of clade train names them */
typedef struct scale_compute {
  double alone;                 /* seconds of a step without a communicator */
  double staged;                /* of one whose gradients go to the host and back, but to no other rank */
  double rest;                  /* from the end of its last sum to its own */
  double poll;                  /* between two looks at what is on its way */
  double together[SCALE_WIRES]; /* of one whose gradients are summed over the ranks; 0: there are none */
  double bytes;                 /* of gradients */
  int n;                        /* buckets */
  scale_bucket *buckets;        /* clade__free */
} scale_compute;
/* What is asked for by --model, --batch and --side; CLI_DONE, or CLI_USAGE, told. */
int scale_work_of(const cli_args *args, const char *model, int64_t batch, int64_t side, bench_model_work *work);
/* Medians over job->rounds. With a communicator all ranks measure at the same time. */
clade_status scale_measure(const bench_job *job, const bench_model_work *work, clade_comm *comm, scale_compute *out);

/* ---- scale_link.c ---- */
clade_status scale_add_rate(double *bytes_per_second);
typedef struct scale_peer {
  int rank;
  double latency, bandwidth; /* seconds; bytes a second, in both directions at once */
} scale_peer;
/* Rank 0 with each other one: size - 1 of them, on rank 0. All ranks call it. */
clade_status scale_peers(clade_comm *comm, scale_peer *peers);
typedef struct scale_sum {
  size_t bytes;
  bench_stat seconds;
  bench_stat carrier; /* by the implementation's own means; median 0: it has none */
} scale_sum;
enum { SCALE_SUMS = 5 };
clade_status scale_sums(const bench_job *job, clade_comm *comm, scale_sum sums[SCALE_SUMS]);

/* ---- scale_show.c ---- */
void scale_show_model(FILE *to, const bench_model_work *work, const scale_compute *c);
json_t *scale_model_json(const bench_model_work *work, const scale_compute *c);

#endif

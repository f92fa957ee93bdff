/* Shared by `clade bench comm` and `clade bench scale`: timing the phases of a training step, the link between ranks
 * and sums over them. */
#ifndef CLADE_CLI_BENCH_SCALE_H
#define CLADE_CLI_BENCH_SCALE_H

#include "cli/bench/model.h"
#include "cli/bench/scale_model.h"

/* ---- scale_step.c ---- */
enum { SCALE_AS_F32, SCALE_AS_BF16, SCALE_AS_POWERSGD, SCALE_WIRES };
extern const char *const scale_wires[SCALE_WIRES]; /* as --compress of `clade train` names them */
typedef struct scale_compute {
  double alone;                 /* seconds of a step without a communicator */
  double staged;                /* seconds of a step whose gradients are copied to the host and back, but not sent */
  double rest;                  /* seconds between the end of the last sum and the end of the step */
  double poll;                  /* seconds between two polls of a pending message */
  double together[SCALE_WIRES]; /* seconds of a step with sums over the ranks, by wire format; 0: no ranks */
  double bytes;                 /* size of all gradients */
  int n;
  scale_bucket *buckets; /* clade__free */
} scale_compute;
/* What both commands have. */
typedef struct scale_job {
  bench_job bench;
  const char *model;
  int64_t side;
  scale_link link;
  bench_model_work work;
  clade__arena arena; /* images and labels */
  scale_compute compute;
} scale_job;
/* Takes --model, --batch, --side or --rounds, by the option's name. CLI_DONE, or CLI_USAGE with the error printed. */
int scale_take(scale_job *job, const char *option, const char *value);
int scale_work_of(scale_job *job); /* fills in the work by these options; the same */
void scale_close(scale_job *job);
/* Predicts the step over a link. */
scale_step scale_step_of(const scale_compute *c, const scale_link *link, int ranks, double wire);
/* Medians over job->rounds. With a communicator all ranks measure at the same time. */
clade_status scale_measure(const bench_job *job, const bench_model_work *work, clade_comm *comm, scale_compute *out);

/* ---- scale_link.c ---- */
clade_status scale_add_rate(double *bytes_per_second);
typedef struct scale_sum {
  size_t bytes;
  bench_stat seconds;
  bench_stat carrier; /* by the communicator's own all-reduce; median 0: it has none */
} scale_sum;
enum { SCALE_SUMS = 5 };
clade_status scale_sums(const bench_job *job, clade_comm *comm, scale_sum sums[SCALE_SUMS]);

/* ---- scale_show.c ---- */
void scale_show_model(FILE *to, const bench_model_work *work, const scale_compute *c);
json_t *scale_model_json(const bench_model_work *work, const scale_compute *c);

#endif

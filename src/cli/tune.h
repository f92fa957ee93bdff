/* clade tune: what its parsing, work and report share. */
#ifndef CLADE_CLI_TUNE_H
#define CLADE_CLI_TUNE_H

#include "cli/bench/conv.h"
#include "cli/bench/gemm.h"
#include "cli/cli.h"
#include "models/models.h"

/* A func that is to be tuned: of a model, a product, or a convolution. */
typedef struct tune_work {
  char name[80];
  clade_model_fn *model; /* NULL: it is none */
  bench_gemm_work gemm;  /* .m 0: it is none */
  bench_conv_work conv;
} tune_work;

typedef struct tune_job {
  cli_args args;
  clade_tune_mode mode;
  double budget;   /* seconds for each work; 0: the mode's */
  bench_job bench; /* what clade bench has too: sets, shapes, type, pass, batch */
  int64_t classes;
  bool strict, again, loose;
  const char *fallback_spec;
  clade_device *device, *fallback; /* fallback NULL: there is none */
  tune_work *works;
  size_t n_works, capacity, at; /* `at`: the one that is being tuned */
  json_t *rows;
  FILE *to; /* for people */
  bool terminal, bar_shown, told;
  int problems, measured, known;
  double begun, compiled; /* seconds: when it began; until all works ran as they were */
  double before, after;   /* seconds of what was measured, by nodes */
} tune_job;

/* ---- what is tuned (tune_target.c) ---- */
/* CLI_USAGE, told, where these are no works or options do not fit. */
int tune_check(tune_job *job, int n, char **words);
clade_status tune_works(tune_job *job, int n, char **words);
clade_status tune_func(const tune_job *job, const tune_work *work, clade_func **out);

/* ---- telling (tune_show.c) ---- */
void tune_show_begin(tune_job *job);
void tune_show(void *user, const clade_tune_row *row);
int tune_report(tune_job *job);
int tune_verdict(const tune_job *job); /* CLI_FAILED, told, where there was something to measure and nothing was */

#endif

/* clade tune: shared by its options, work and report. */
#ifndef CLADE_CLI_TUNE_H
#define CLADE_CLI_TUNE_H

#include "cli/bench/conv.h"
#include "cli/bench/gemm.h"
#include "cli/cli.h"
#include "models/models.h"

/* A func to tune: a model, a matrix product or a convolution. */
typedef struct tune_work {
  char name[80];
  clade_model_fn *model; /* NULL: not a model */
  bench_gemm_work gemm;  /* .m 0: not a product */
  bench_conv_work conv;
} tune_work;

typedef struct tune_job {
  cli_args args;
  clade_tune_mode mode;
  double budget;   /* seconds for each work; 0: the mode's default */
  bench_job bench; /* options in common with clade bench: sets, shapes, type, pass, batch */
  int64_t classes;
  bool strict, again, loose;
  const char *fallback_spec;
  clade_device *device, *fallback; /* fallback NULL: none */
  tune_work *works;
  size_t n_works, capacity, at; /* `at`: the current one */
  json_t *rows;
  FILE *to; /* stream of text for people */
  bool terminal, bar_shown, told;
  int problems, measured, known;
  double begun, compiled; /* begun: start time; compiled: seconds until all works ran with their defaults */
  double before, after;   /* seconds of all measured nodes, before and after */
} tune_job;

/* ---- tune_target.c: the works ---- */
/* CLI_USAGE, with the error printed, if the words name no works or options do not fit. */
int tune_check(tune_job *job, int n, char **words);
clade_status tune_works(tune_job *job, int n, char **words);
clade_status tune_func(const tune_job *job, const tune_work *work, clade_func **out);

/* ---- tune_show.c: progress and report ---- */
void tune_show_begin(tune_job *job);
void tune_show(void *user, const clade_tune_row *row);
int tune_report(tune_job *job);
/* CLI_FAILED, with the error printed, if there were problems but none was measured. */
int tune_verdict(const tune_job *job);

#endif

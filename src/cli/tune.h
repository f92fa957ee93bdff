/* clade tune: what its parsing, work and report share. */
#ifndef CLADE_CLI_TUNE_H
#define CLADE_CLI_TUNE_H

#include "cli/cli.h"

typedef struct tune_job {
  cli_args args;
  clade_tune_mode mode;
  double budget; /* seconds for each target; 0: the mode's */
  int64_t batch, classes;
  bool infer, strict, again;
  const char *companion_spec;
  clade_device *device, *companion; /* companion NULL: there is none */
  const char *target;               /* that is being tuned */
  json_t *rows;
  FILE *to; /* for people */
  bool terminal, bar_shown, told;
  int problems, measured, known;
  double begun, before, after; /* seconds: of the whole; of what was measured, by nodes */
} tune_job;

/* The func of a target: a model's name, or "MxNxK". */
clade_status tune_func(const tune_job *job, const char *target, clade_func **out);
bool tune_is_target(const char *text);

/* ---- telling (tune_show.c) ---- */
void tune_show_begin(tune_job *job);
void tune_show(void *user, const clade_tune_row *row);
int tune_report(tune_job *job);

#endif

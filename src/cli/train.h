/* clade train: what its options, its progress and its report share. */
#ifndef CLADE_CLI_TRAIN_H
#define CLADE_CLI_TRAIN_H

#include <stdio.h>

#include "cli/cli.h"

enum { TRAIN_MAX_OPTIONS = 48, TRAIN_MAX_SHARES = 1024 };

struct quantize_job;

typedef struct train_job {
  cli_args args;
  const char *value[TRAIN_MAX_OPTIONS]; /* of each option in train_description: as given; "": without argument */
  bool from_run[TRAIN_MAX_OPTIONS];     /* it was read from the run's directory */
  json_t *kept;                         /* that is what owns those */
  clade_trainer trainer;
  const char *data, *optimizer, *schedule, *split_text, *augment_text, *fallback;
  double lr, momentum, weight_decay, timeout;
  int64_t warmup;
  int data_ranks; /* of --parallel; 0: what is left */
  bool qat, explain;
  const char *source;        /* --qat: the run that it goes on from; NULL: it is resumed */
  struct quantize_job *from; /* that run, with its model */
  char *layers;              /* what is quantized of it */
  int n_split;
  double split[TRAIN_MAX_SHARES];
  clade_device *device[CLI_MAX_DEVICES];
  clade_train_result result;
  /* of the progress */
  FILE *to; /* for people */
  bool terminal, bar_shown;
  double told; /* seconds, when a plain line was last printed */
  char checkpoint[4096];
  clade_comm_stats before; /* the first step has ended; .size 0: it has not */
} train_job;

/* ---- train.c ---- */
void train_job_begin(train_job *job); /* all options unset */
void train_catch_signals(void);

/* ---- train_options.c ---- */
extern const cli_args train_description;
/* CLI_DONE, CLI_USAGE, or -1: help was printed. */
int train_parse(train_job *job, int argc, char **argv);
/* The options of a run, for another one that goes on from its weights: without what says where it logs. `epochs`, as
 * text, instead of its own; NULL: those. As train_parse. */
int train_of_run(train_job *job, const char *run, const char *epochs);
/* Refuses shares for another number of devices or ranks; drops them where they are the run's, and not given now. */
clade_status train_fit_split(train_job *job);
/* Refuses a layout for another number of devices or ranks; drops it where it is the run's, and not given now. */
clade_status train_fit_layout(train_job *job);
clade_status train_schedule(train_job *job); /* as long as the training: once the data is open */

/* ---- train_qat.c ---- */
/* Begins with the weights of job->source, and with ranges that its data tells; or looks whether what is resumed is
 * trained for 8 bits. */
clade_status train_qat_begin(train_job *job);
void train_qat_end(train_job *job);

/* ---- train_run.c: the options of a run, kept in its directory ---- */
/* Into `value` what is not there; without a file there nothing. */
clade_status train_run_read(train_job *job, const char *directory);
clade_status train_run_write(const train_job *job, const char *directory);
void train_print_word(FILE *to, const char *word); /* as a shell takes it */
void train_print_options(const train_job *job);    /* " --NAME VALUE …", those of a run */

/* ---- train_show.c: an observer for people and one for programs ---- */
void train_show_begin(train_job *job);
void train_show(void *user, const clade_train_event *event);

/* ---- train_report.c ---- */
int train_report(train_job *job); /* the exit status */
void train_stopped(const train_job *job);

#endif

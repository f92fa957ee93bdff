/* clade train: shared by its options, progress and report. */
#ifndef CLADE_CLI_TRAIN_H
#define CLADE_CLI_TRAIN_H

#include <stdio.h>

#include "cli/cli.h"

enum { TRAIN_MAX_OPTIONS = 48, TRAIN_MAX_SHARES = 1024 };

struct quantize_job;

typedef struct train_job {
  cli_args args;
  const char *value[TRAIN_MAX_OPTIONS]; /* for each option of train_description: the argument as given; "": none */
  bool from_run[TRAIN_MAX_OPTIONS];     /* read from the run's directory */
  json_t *kept;                         /* run.json, which owns these values */
  clade_trainer trainer;
  const char *data, *optimizer, *schedule, *split_text, *augment_text, *fallback;
  double lr, momentum, weight_decay, timeout;
  int64_t warmup;
  int data_ranks; /* data=N of --parallel; 0: all remaining ranks */
  bool qat, explain;
  const char *source;        /* with --qat: the run to start from; NULL: resumed */
  struct quantize_job *from; /* the source, opened */
  char *layers;              /* its quantized layers */
  int n_split;
  double split[TRAIN_MAX_SHARES];
  clade_device *device[CLI_MAX_DEVICES];
  clade_train_result result;
  FILE *to; /* stream of text for people */
  bool terminal, bar_shown;
  double told; /* time of the last plain line, in seconds */
  char checkpoint[4096];
  clade_comm_stats before; /* statistics after the first step; .size 0: no step yet */
} train_job;

/* ---- train.c ---- */
void train_job_begin(train_job *job); /* all options unset */
void train_catch_signals(void);       /* for the rest of the process */
void train_install_handlers(void);    /* at once */

/* ---- train_options.c, train_settings.c ---- */
extern const cli_args train_description;
/* CLI_DONE, CLI_USAGE, or -1 if help was printed. */
int train_parse(train_job *job, int argc, char **argv);
/* Reads the options of a run for another one that continues from its weights, without its log directory. epochs:
 * text that replaces the run's; NULL: keep. Returns as train_parse. */
int train_of_run(train_job *job, const char *run, const char *epochs);
/* Fails if --split has another number of shares than there are devices or ranks; drops shares that come from
 * run.json. */
clade_status train_fit_split(train_job *job);
/* The same for --parallel. */
clade_status train_fit_layout(train_job *job);
clade_status train_schedule(train_job *job); /* needs the data set's size */

/* ---- train_qat.c ---- */
/* Starts from the weights of job->source, with ranges calibrated on its data; with --resume only checks that the run
 * is a --qat training. */
clade_status train_qat_begin(train_job *job);
void train_qat_end(train_job *job);

/* ---- train_run.c: the options of a run, kept in its directory ---- */
/* Reads values that the command line did not give. No file: does nothing. */
clade_status train_run_read(train_job *job, const char *directory);
clade_status train_run_write(const train_job *job, const char *directory);
void train_print_word(FILE *to, const char *word); /* quoted for a shell */
void train_print_options(const train_job *job);    /* " --NAME VALUE …" for the options of the run */

/* ---- train_show.c: progress, as text or JSON ---- */
void train_show_begin(train_job *job);
void train_show(void *user, const clade_train_event *event);

/* ---- train_report.c ---- */
int train_report(train_job *job); /* returns the exit status */
void train_stopped(const train_job *job);

#endif

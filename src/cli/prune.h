/* clade prune: shared by its options, measurements and report. */
#ifndef CLADE_CLI_PRUNE_H
#define CLADE_CLI_PRUNE_H

#include "cli/train.h"
#include "prune/prune.h"

/* The model of a run's best checkpoint. */
typedef struct prune_side {
  clade_checkpoint *checkpoint;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  double accuracy, seconds; /* accuracy: on the test images; seconds: median of a batch */
  double flops;             /* for a batch */
  int64_t parameters, zeros, bytes;
} prune_side;

typedef struct prune_job {
  cli_args args;
  const char *run, *output;
  clade_prune_structure structure;
  clade_prune_rank rank;
  double sparsity; /* -1: not given */
  bool cubic;
  int64_t batch;
  const char *finetune; /* number of epochs as text; NULL: none */
  train_job train;      /* options of the run, and the further training */
  clade_device *device;
  clade_pruning *pruning; /* for channels */
  prune_side before, after;
} prune_job;

/* ---- prune_side.c ---- */
/* Loads and measures the run's best checkpoint; the model is built with its shapes. */
clade_status prune_side_open(prune_job *job, const char *directory, prune_side *side);
/* Builds the model's graph: x [batch, …] to logits "y". */
clade_status prune_build(const prune_job *job, clade_graph *g);
void prune_side_close(prune_side *side);

/* ---- prune_report.c ---- */
int prune_report(const prune_job *job); /* returns the exit status */

#endif

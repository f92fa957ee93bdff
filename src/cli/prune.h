/* clade prune: what its options, its measurements and its report share. */
#ifndef CLADE_CLI_PRUNE_H
#define CLADE_CLI_PRUNE_H

#include "cli/train.h"
#include "prune/prune.h"

/* A model of a run, with the best of its checkpoints. */
typedef struct prune_side {
  clade_checkpoint *checkpoint;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  double accuracy, seconds; /* of the test images; of a batch, the median */
  double flops;             /* of a batch */
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
  const char *finetune; /* epochs, as text; NULL: none */
  train_job train;      /* the run's options, and what trains on */
  clade_device *device;
  clade_pruning *pruning; /* of channels */
  prune_side before, after;
} prune_job;

/* ---- prune_side.c ---- */
/* The run's best checkpoint, loaded and measured; the model is built in its shapes. */
clade_status prune_side_open(prune_job *job, const char *directory, prune_side *side);
/* The graph of the model: x [batch, …], logits "y". */
clade_status prune_build(const prune_job *job, clade_graph *g);
void prune_side_close(prune_side *side);

/* ---- prune_report.c ---- */
int prune_report(const prune_job *job); /* the exit status */

#endif

/* Types and functions shared by the parts of `clade bench model`. */
#ifndef CLADE_CLI_BENCH_MODEL_H
#define CLADE_CLI_BENCH_MODEL_H

#include "cli/bench/bench.h"

typedef struct bench_model_work {
  char model[32];
  int64_t batch, channels, side, classes;
  bool train, strict;
  clade_dtype precision; /* as clade_compile(.precision) */
  bool quantized;        /* to 8 bits */
  clade_comm *comm;      /* borrowed; gradients are summed over its ranks; NULL: one process */
  clade_dtype compress;  /* with `comm`: as clade_minimize(.compress, .low_rank) */
  int low_rank;
  const bench_side *ours; /* Clade, whose weights the peers get */
  float *x;
  int32_t *labels;
  size_t results; /* number of logits, or 1 for the loss */
} bench_model_work;

/* ---- model.c ---- */
clade_status bench_model_data(clade__arena *arena, bench_model_work *work); /* images and labels */
clade_status bench_model_build(const void *work, bench_clade *c);           /* work: bench_model_work */

/* ---- onednn_model.c ---- */
/* Returns NULL, or the reason why oneDNN cannot run the model's layers. */
const char *bench_onednn_model(const bench_job *job, const bench_model_work *work, const clade_graph *graph,
                               bench_side *side);

#endif

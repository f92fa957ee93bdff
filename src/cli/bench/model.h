/* Between the parts of clade bench model. */
#ifndef CLADE_CLI_BENCH_MODEL_H
#define CLADE_CLI_BENCH_MODEL_H

#include "cli/bench/bench.h"

typedef struct bench_model_work {
  char model[32];
  int64_t batch, channels, side, classes;
  bool train, strict;
  clade_dtype precision; /* as clade_compile(.precision) */
  clade_comm *comm;      /* borrowed: gradients are summed over its ranks; NULL: one process */
  clade_dtype compress;  /* with a communicator, what they travel as: as in clade_minimize */
  int low_rank;
  float *x;
  int32_t *labels;
  size_t results; /* logits, or the loss */
} bench_model_work;

/* ---- model.c ---- */
clade_status bench_model_data(bench_model_work *work); /* images and labels of its sizes */
void bench_model_free(bench_model_work *work);
/* Its state is a bench_clade. */
clade_status bench_model_side(const bench_job *job, const bench_model_work *work, bench_side *side);

/* ---- onednn_model.c ---- */
/* NULL, or why oneDNN's layers cannot be summed up. */
const char *bench_onednn_model(const bench_job *job, const bench_model_work *work, const clade_graph *graph,
                               bench_side *side);

#endif

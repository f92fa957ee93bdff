/* clade quantize: shared by its options, measurements and report. */
#ifndef CLADE_CLI_QUANTIZE_H
#define CLADE_CLI_QUANTIZE_H

#include "cli/cli.h"

/* A compiled model with its weights. */
typedef struct quantize_side {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  double accuracy, seconds; /* accuracy: on the test images; seconds: median of a batch */
  int64_t bytes;            /* size of the weights */
} quantize_side;

typedef struct quantize_job { /* also describes the run that `clade train --qat` starts from */
  cli_args args;
  const char *run, *data, *output;
  clade_calibration calibration;
  int64_t samples, batch, seed;
  double budget;       /* allowed loss in percentage points; negative: no budget */
  bool calibrates;     /* --calibrate is given */
  clade_dtype weights; /* of linear layers, if only these are quantized; unset: all layers, to 8 bits */
  /* from the checkpoint */
  clade_checkpoint *checkpoint;
  json_t *state;
  const char *model;
  int64_t classes, sample; /* sample: elements of an image */
  bool normalize, pruned;  /* pruned: built with the checkpoint's shapes */
  const char *trained;     /* layers and ranges of a --qat training; NULL: none */
  /* for the computation */
  clade_dataset *train, *test;
  clade_device *device;
  clade_graph *graph;
  clade_loader *loader; /* training samples, shuffled */
  clade_quantization *quantization;
  quantize_side before, after;
  /* for --budget */
  int64_t held; /* number of samples on which the loss is measured */
  bool apart;   /* they differ from the calibration samples */
  double loss;  /* loss on them, in percentage points */
} quantize_job;

/* ---- quantize_open.c ---- */
/* Opens the run's best checkpoint and data; job->before is the f32 model. */
clade_status quantize_open(quantize_job *job);
/* Finds the ranges of job->quantization by training samples. */
clade_status quantize_calibrate(quantize_job *job);
void quantize_close(quantize_job *job);

/* ---- quantize_measure.c ---- */
/* Compiles the model with a quantization (NULL: f32) and creates its variables, which the caller fills. */
clade_status quantize_side_open(quantize_job *job, const char *text, quantize_side *side);
void quantize_side_close(quantize_side *side);
/* Measures accuracy and seconds on the test images, and bytes. */
clade_status quantize_measure(const quantize_job *job, quantize_side *side);
clade_status quantize_count_right(const quantize_job *job, quantize_side *side, int64_t *right);
/* Sum of squared differences between the logits of two sides over some batches. */
clade_status quantize_difference(const quantize_job *job, quantize_side *a, quantize_side *b, double *sum);

/* ---- quantize_budget.c ---- */
/* Quantizes into job->after; with a budget, keeps layers in f32 until the loss is within it. */
clade_status quantize_layers(quantize_job *job);

/* ---- quantize_report.c ---- */
const char *quantize_scheme(const quantize_job *job);
const char *quantize_calibration(const quantize_job *job); /* origin of the scales: "minmax", …, "trained", "none" */
int quantize_report(const quantize_job *job);              /* returns the exit status */

#endif

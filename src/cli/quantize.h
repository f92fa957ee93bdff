/* clade quantize: what its options, its measurements and its report share. */
#ifndef CLADE_CLI_QUANTIZE_H
#define CLADE_CLI_QUANTIZE_H

#include "cli/cli.h"

/* A func of the model with its weights. */
typedef struct quantize_side {
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  double accuracy, seconds; /* of the test images; of a batch, the median */
  int64_t bytes;            /* of the weights */
} quantize_side;

typedef struct quantize_job { /* and of the run that `clade train --qat` goes on from */
  cli_args args;
  const char *run, *data, *output;
  clade_calibration calibration;
  int64_t samples, batch, seed;
  double budget;       /* points; below 0: none */
  bool calibrates;     /* it is asked for */
  clade_dtype weights; /* of linear layers, which alone are quantized; unset: they are not alone */
  /* of the checkpoint */
  clade_checkpoint *checkpoint;
  json_t *state;
  const char *model;
  int64_t classes, sample; /* elements of an image */
  bool normalize, pruned;  /* pruned: it is built in the checkpoint's shapes */
  const char *trained;     /* the layers that were trained for 8 bits, with their ranges; NULL: none were */
  /* what is computed with */
  clade_dataset *train, *test;
  clade_device *device;
  clade_graph *graph;
  clade_loader *loader; /* of the training samples, shuffled */
  clade_quantization *quantization;
  quantize_side before, after;
  /* of --budget */
  int64_t held; /* samples that the loss is measured on */
  bool apart;   /* they are not those of the calibration */
  double loss;  /* points, on these */
} quantize_job;

/* ---- quantize_open.c ---- */
/* The run's best checkpoint and its data; its model in f32, as job->before. */
clade_status quantize_open(quantize_job *job);
/* job->quantization by training samples. */
clade_status quantize_calibrate(quantize_job *job);
void quantize_close(quantize_job *job);

/* ---- quantize_measure.c ---- */
/* Compiled by the text (NULL: in f32), with variables of its own that are still to be set. */
clade_status quantize_side_open(quantize_job *job, const char *text, quantize_side *side);
void quantize_side_close(quantize_side *side);
/* Accuracy and seconds on the test images; bytes. */
clade_status quantize_measure(const quantize_job *job, quantize_side *side);
/* Right answers among the job->held samples behind those of the calibration, or among these. */
clade_status quantize_count_right(const quantize_job *job, quantize_side *side, int64_t *right);
/* The sum of squared differences between both sides' logits, over some batches. */
clade_status quantize_difference(const quantize_job *job, quantize_side *a, quantize_side *b, double *sum);

/* ---- quantize_budget.c ---- */
/* The quantized side, into job->after; with a budget, layers stay f32 until it holds. */
clade_status quantize_layers(quantize_job *job);

/* ---- quantize_report.c ---- */
const char *quantize_scheme(const quantize_job *job);
const char *quantize_calibration(const quantize_job *job); /* where scales come from: "minmax", …, "trained", "none" */
int quantize_report(const quantize_job *job);              /* the exit status */

#endif

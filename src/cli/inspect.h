/* clade inspect: what its options, what it finds of a model, and its report share. */
#ifndef CLADE_CLI_INSPECT_H
#define CLADE_CLI_INSPECT_H

#include "cli/cli.h"
#include "plan/run.h"

/* A node that computes something of the input, with the variables that it alone, or it first, reads. */
typedef struct inspect_layer {
  char *name; /* of its variables, as "conv1" or "layer1.0.conv1 + layer1.0.bn1"; NULL: it has none */
  const char *op, *impl;
  int64_t parameters, bytes;         /* elements of parameters; bytes of all its variables */
  int64_t weights, zeros;            /* of parameters with two dimensions or more: elements, and those that are 0 */
  double flops, seconds;             /* of a batch */
  clade_dtype input, weight, output; /* weight 0: it has none */
} inspect_layer;

typedef struct inspect_job {
  cli_args args;
  const char *source, *model_given; /* a directory or a file; NULL: initial values */
  int64_t batch, classes;
  clade_shape image;
  clade_dtype precision; /* 0: that which the run was trained in */
  const char *types;
  bool classes_given, image_given, time;
  /* what is looked at */
  clade_checkpoint *checkpoint; /* NULL: it is no run */
  json_t *state;
  const char *model, *quantization;
  char *precision_text;          /* the run's, cut into type and list */
  bool shaped, pruned, simulate; /* shaped: it is built in the checkpoint's shapes */
  clade_device *device;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  /* what is found */
  inspect_layer *layers;
  size_t n_layers;
  size_t *layer; /* by node of the func: 1 + that which its time is told of; 0: none */
} inspect_job;

/* ---- inspect_open.c ---- */
clade_status inspect_open(inspect_job *job);
void inspect_close(inspect_job *job);

/* ---- inspect_layers.c ---- */
clade_status inspect_find(inspect_job *job);
/* What all layers have together; seconds of the device. */
inspect_layer inspect_total(const inspect_job *job);

/* ---- inspect_time.c ---- */
clade_status inspect_measure(inspect_job *job);

/* ---- inspect_report.c ---- */
int inspect_report(const inspect_job *job); /* the exit status */

#endif

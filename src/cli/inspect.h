/* clade inspect: shared by its options, analysis and report. */
#ifndef CLADE_CLI_INSPECT_H
#define CLADE_CLI_INSPECT_H

#include "cli/cli.h"
#include "plan/run.h"

/* A layer: a node that depends on the input, with the variables that it is the first to read. */
typedef struct inspect_layer {
  char *name; /* names of its variables: "conv1" or "layer1.0.conv1 + layer1.0.bn1"; NULL: none */
  const char *op, *impl;
  int64_t parameters, bytes;         /* parameters: number of elements; bytes: of all its variables */
  int64_t weights, zeros;            /* elements, and zeros among them, of parameters with at least two dimensions */
  double flops, seconds;             /* for a batch */
  clade_dtype input, weight, output; /* CLADE_DTYPE_NONE: no weight */
} inspect_layer;

typedef struct inspect_job {
  cli_args args;
  const char *source, *model_given; /* source: directory or file; NULL: initial values */
  int64_t batch, classes;
  clade_shape image;
  clade_dtype precision; /* 0: the precision of the run's training */
  const char *types;
  bool classes_given, image_given, time;
  clade_checkpoint *checkpoint; /* NULL: not a run */
  json_t *state;
  const char *model, *quantization;
  char *precision_text;          /* the run's precision, split into type and list */
  bool shaped, pruned, simulate; /* shaped: built with the checkpoint's shapes */
  clade_device *device;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  inspect_layer *layers;
  size_t n_layers;
  size_t *layer; /* for each node of the func: 1 + the layer to which its time belongs; 0: none */
} inspect_job;

/* ---- inspect_open.c ---- */
clade_status inspect_open(inspect_job *job);
void inspect_close(inspect_job *job);

/* ---- inspect_layers.c ---- */
clade_status inspect_find(inspect_job *job);
/* Sums over all layers; the seconds are those of the device. */
inspect_layer inspect_total(const inspect_job *job);

/* ---- inspect_time.c ---- */
clade_status inspect_measure(inspect_job *job);

/* ---- inspect_report.c ---- */
int inspect_report(const inspect_job *job); /* returns the exit status */

#endif

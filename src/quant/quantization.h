/* The state of a quantization, for its creation, calibration and application. */
#ifndef CLADE_QUANTIZATION_H
#define CLADE_QUANTIZATION_H

#include "quant/quant.h"

typedef struct clade__quantized_layer {
  clade__quant_layer at;
  size_t tap;
  bool f32; /* the layer stays in f32 */
  clade_dtype input;
  double scale;
  clade__small_weights trained; /* .weight NULL: not trained for 8 bits */
} clade__quantized_layer;

/* The input of one or more layers, an output of the calibration graph. */
typedef struct clade__quantized_input {
  clade__id value;
  char name[32];
  size_t elements;
  clade__range range;
} clade__quantized_input;

struct clade_quantization {
  clade_graph *graph;
  clade_vars *vars;
  clade_func *func;
  clade_run *run;
  clade_calibration calibration;
  clade_dtype weights; /* type with shared blocks; unset: layers compute in 8 bits */
  bool scaled, trained;
  clade__quantized_layer *layers;
  size_t n_layers, n_taps;
  clade__quantized_input *taps;
  float *room; /* buffer for the largest one */
};

/* Computes the scales of all layers from the observed ranges, unless nothing was observed since the last time. */
clade_status clade__quantization_scale(clade_quantization *q);

#endif

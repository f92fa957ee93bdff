/* What the files of quantization share. */
#ifndef CLADE_QUANT_INTERNAL_H
#define CLADE_QUANT_INTERNAL_H

#include <clade/quantize.h>

#include "pass/quantize.h"

/* ---- ranges (range.c) ---- */
/* Of how many elements the magnitude is in each of so many parts of [0, top]. */
enum { CLADE__RANGE_BINS = 2048 };
typedef struct clade__range {
  double top, most; /* `most`: the largest magnitude */
  bool negative;    /* there are elements below 0 */
  uint64_t n, bins[CLADE__RANGE_BINS];
} clade__range;
/* false: one of them is not finite, and some may have been added. */
bool clade__range_add(clade__range *range, const float *x, size_t n);
/* The magnitude that the largest of `levels` steps is to stand for; above 0. */
double clade__range_limit(const clade__range *range, clade_calibration calibration, int levels);

/* ---- weights (weights.c) ---- */
typedef struct clade__small_weights {
  size_t outputs, inner;
  int8_t *weight; /* [outputs][inner] */
  float *scale;   /* [outputs]; times the input's */
  float *bias;    /* [outputs]; zeros where the layer has none */
} clade__small_weights;
/* Of the layer, zeros. Freed as below. */
clade_status clade__small_weights_room(const clade_graph *g, const clade__quant_layer *layer,
                                       clade__small_weights *out);
/* Of the layer, its normalization folded in; to be freed, also where it failed. */
clade_status clade__small_weights_new(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *layer,
                                      double input_scale, clade__small_weights *out);
void clade__small_weights_free(clade__small_weights *w);

/* ---- weights in blocks (blocks.c) ---- */
typedef struct clade__block_weights {
  int64_t elements;
  size_t bytes;
  void *data;
  float scale_least, scale_most; /* magnitudes */
} clade__block_weights;
/* Of the layer; to be freed, also where it failed. */
clade_status clade__block_weights_new(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *layer,
                                      clade_dtype type, clade__block_weights *out);
void clade__block_weights_free(clade__block_weights *w);

#endif

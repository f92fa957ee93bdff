/* Shared by the files of quantization. */
#ifndef CLADE_QUANT_INTERNAL_H
#define CLADE_QUANT_INTERNAL_H

#include <clade/quantize.h>

#include "pass/quantize.h"

/* ---- ranges (range.c) ---- */
/* Histogram of magnitudes: counts in equal bins of [0, top]. */
enum { CLADE__RANGE_BINS = 2048 };
typedef struct clade__range {
  double top, most; /* most: largest magnitude */
  bool negative;    /* there are negative elements */
  uint64_t n, bins[CLADE__RANGE_BINS];
} clade__range;
/* false: an element is not finite; some may have been added. */
bool clade__range_add(clade__range *range, const float *x, size_t n);
/* The magnitude, above 0, that corresponds to the largest of `levels` steps. */
double clade__range_limit(const clade__range *range, clade_calibration calibration, int levels);

/* ---- weights (weights.c) ---- */
typedef struct clade__small_weights {
  size_t outputs, inner;
  int8_t *weight; /* [outputs][inner] */
  float *scale;   /* [outputs], multiplied by the input's scale */
  float *bias;    /* [outputs]; 0 if the layer has no bias */
} clade__small_weights;
/* Allocates the layer's arrays with zeros; free as below. */
clade_status clade__small_weights_room(const clade_graph *g, const clade__quant_layer *layer,
                                       clade__small_weights *out);
/* Quantizes the layer's weights, with normalization folded in. Free also after a failure. */
clade_status clade__small_weights_new(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *layer,
                                      double input_scale, clade__small_weights *out);
void clade__small_weights_free(clade__small_weights *w);

/* ---- weights in blocks (blocks.c) ---- */
typedef struct clade__block_weights {
  int64_t elements;
  size_t bytes;
  void *data;
  float scale_least, scale_most; /* smallest and largest magnitude of a scale */
} clade__block_weights;
/* Quantizes the layer's weights. Free also after a failure. */
clade_status clade__block_weights_new(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *layer,
                                      clade_dtype type, clade__block_weights *out);
void clade__block_weights_free(clade__block_weights *w);

#endif

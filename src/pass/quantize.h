/* Layers that can be quantized: found in a graph as it was built, by the pass and by what makes their weights. */
#ifndef CLADE_PASS_QUANTIZE_H
#define CLADE_PASS_QUANTIZE_H

#include "pass/pass.h"

enum { CLADE__LAYER_NAME = 256, CLADE__QUANT_PART = CLADE__LAYER_NAME + 8 };

/* The variables of a batch normalization for inference. */
enum { CLADE__NORM_WEIGHT, CLADE__NORM_BIAS, CLADE__NORM_MEAN, CLADE__NORM_VAR, CLADE__NORM_PARTS };

/* A convolution or a product whose second operand is the variable NAME.weight, with what is added to its result and
 * the batch normalization behind it, which become one bias. Of ids 0: there is none. */
typedef struct clade__quant_layer {
  char name[CLADE__LAYER_NAME];
  clade__id node, end; /* whose result is the layer's, and that of bias and normalization */
  clade__id x, weight, bias;
  clade__id norm[CLADE__NORM_PARTS];
  double eps;
} clade__quant_layer;

typedef struct clade__quant_layers {
  clade__quant_layer *at; /* in the graph's order */
  size_t n, capacity;
} clade__quant_layers;

/* To be freed by clade__free(out->at), also where it failed. */
clade_status clade__quant_layers_find(const clade_graph *g, clade__quant_layers *out);

#define CLADE__LAYER_WEIGHT ".weight"
#define CLADE__LAYER_BIAS   ".bias"
#define CLADE__LAYER_SCALE  ".scale"
/* NAME.part, of this room. */
char *clade__quant_part(const clade__quant_layer *layer, const char *part, char text[CLADE__QUANT_PART]);

#endif

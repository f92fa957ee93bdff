/* Detection of quantizable layers in a built graph, for the pass and for quantizing weights. */
#ifndef CLADE_PASS_QUANTIZE_H
#define CLADE_PASS_QUANTIZE_H

#include "pass/pass.h"

enum { CLADE__LAYER_NAME = 256, CLADE__QUANT_PART = CLADE__LAYER_NAME + 16 };

/* Variables of a batch normalization in inference. */
enum { CLADE__NORM_WEIGHT, CLADE__NORM_BIAS, CLADE__NORM_MEAN, CLADE__NORM_VAR, CLADE__NORM_PARTS };

/* A convolution or product with the variable NAME.weight as second operand, with the bias and batch normalization
 * after it, which are folded into one bias. IDs are 0 if absent. */
typedef struct clade__quant_layer {
  char name[CLADE__LAYER_NAME];
  clade__id node, end; /* end: node of the final result, after bias and normalization */
  clade__id x, weight, bias;
  clade__id norm[CLADE__NORM_PARTS];
  double eps;
} clade__quant_layer;

typedef struct clade__quant_layers {
  clade__quant_layer *at; /* in graph order */
  size_t n, capacity;
} clade__quant_layers;

/* Free with clade__free(out->at), also after a failure. */
clade_status clade__quant_layers_find(const clade_graph *g, clade__quant_layers *out);

/* Settings of a layer from a text such as "conv1=u8:0.01,conv2=i8:0.02"; .input unset: not listed. */
typedef struct clade__quant_entry {
  clade_dtype input;
  double scale; /* representable in f32 */
} clade__quant_entry;
/* By layer; freed by clade__free. */
clade_status clade__quant_entries(const clade__quant_layers *layers, const char *text, clade__quant_entry **out);

/* Weights in blocks (quantize_blocks.c): whether the text lists any, whether a layer supports them, and the pass. */
bool clade__quant_in_blocks(const char *text);
bool clade__quant_takes_blocks(const clade_graph *g, const clade__quant_layer *layer, clade_dtype type);
clade_status clade__pass_quantize_blocks(clade__pass_ctx *ctx);

#define CLADE__LAYER_WEIGHT ".weight"
#define CLADE__LAYER_BIAS   ".bias"
#define CLADE__LAYER_SCALE  ".scale"
/* NAME.part, in the given buffer. */
char *clade__quant_part(const clade__quant_layer *layer, const char *part, char text[CLADE__QUANT_PART]);

/* ---- simulate.c: quantization-aware training, with weights in f32 and tracked input ranges ---- */
/* Training state: .max:LAYER, .min:LAYER and .rate */
#define CLADE__RANGES "optimizer.range."
/* Copies `model` into g with the text's layers simulated: differentiable for training, exact integers for inference.
 * map: [model->n_values], zeroed. */
clade_status clade__simulate(const clade_graph *model, const char *text, clade_graph *g, clade__id *map);
/* Applies ctx->quantization to ctx->graph in that way. */
clade_status clade__pass_simulate(clade__pass_ctx *ctx);
/* A graph whose outputs are a layer's quantized parts, computed from the variables of `model`: NAME.weight,
 * NAME.scale, NAME.bias (if any) and NAME.input_scale. */
#define CLADE__LAYER_INPUT_SCALE ".input_scale"
clade_status clade__simulate_layer(const clade_graph *model, const clade__quant_layer *layer,
                                   const clade__quant_entry *entry, clade_graph *g);

#endif

/* Layers that can be quantized: found in a graph as it was built, by the pass and by what makes their weights. */
#ifndef CLADE_PASS_QUANTIZE_H
#define CLADE_PASS_QUANTIZE_H

#include "pass/pass.h"

enum { CLADE__LAYER_NAME = 256, CLADE__QUANT_PART = CLADE__LAYER_NAME + 16 };

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

/* Of a layer in a text such as "conv1=u8:0.01,conv2=i8:0.02"; .input unset: it is not listed. */
typedef struct clade__quant_entry {
  clade_dtype input;
  double scale; /* a number of f32 */
} clade__quant_entry;
/* By layer; to be freed by clade__free. */
clade_status clade__quant_entries(const clade__quant_layers *layers, const char *text, clade__quant_entry **out);

/* Weights in blocks (quantize_blocks.c): whether the text lists such, whether a layer can have them, and the pass. */
bool clade__quant_in_blocks(const char *text);
bool clade__quant_takes_blocks(const clade_graph *g, const clade__quant_layer *layer, clade_dtype type);
clade_status clade__pass_quantize_blocks(clade__pass_ctx *ctx);

#define CLADE__LAYER_WEIGHT ".weight"
#define CLADE__LAYER_BIAS   ".bias"
#define CLADE__LAYER_SCALE  ".scale"
/* NAME.part, of this room. */
char *clade__quant_part(const clade__quant_layer *layer, const char *part, char text[CLADE__QUANT_PART]);

/* ---- simulate.c: layers that are trained for 8 bits, whose weights are in f32 and whose inputs have ranges ---- */
/* Variables, which are of the training as an optimizer's are: .max:LAYER, .min:LAYER and .rate */
#define CLADE__RANGES "optimizer.range."
/* A copy of `model` in g, which is being built, with the layers of the text simulated: for training such that gradients
 * pass, for inference of whole numbers. map: [model->n_values], zeros. */
clade_status clade__simulate(const clade_graph *model, const char *text, clade_graph *g, clade__id *map);
/* The same of ctx->graph, by ctx->quantization. */
clade_status clade__pass_simulate(clade__pass_ctx *ctx);
/* Outputs of a graph of its own, of what a layer becomes: NAME.weight, NAME.scale, NAME.bias (where it ends with one)
 * and NAME.input_scale, of the variables of `model`. */
#define CLADE__LAYER_INPUT_SCALE ".input_scale"
clade_status clade__simulate_layer(const clade_graph *model, const clade__quant_layer *layer,
                                   const clade__quant_entry *entry, clade_graph *g);

#endif

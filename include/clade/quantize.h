/* Quantization after training: layers of a trained model compute with numbers of 8 bits. docs/quantization.md tells
 * how.
 *
 *     clade_quantization_new(graph, device, vars, &q);             // graph: the model for inference, vars: its weights
 *     for each batch: clade_quantization_observe(q, CLADE_FEEDS({"x", x, bytes, NULL}));
 *     clade_quantization_text(q, &text);
 *     clade_compile(graph, device, &func, .quantization = text);   // the same graph
 *     clade_vars_new(func, 0, &small);
 *     clade_quantization_apply(q, small);                          // a quarter of the bytes
 */
#ifndef CLADE_QUANTIZE_H
#define CLADE_QUANTIZE_H

#include <clade/run.h>

CLADE_BEGIN_DECLS

/* How much of what a layer's input held is to be represented: the rest becomes the largest number. */
typedef enum clade_calibration {
  CLADE_CALIBRATE_MINMAX = 0, /* all of it */
  CLADE_CALIBRATE_PERCENTILE, /* 99.99 % of the elements */
  CLADE_CALIBRATE_MSE         /* as much as gives the least mean squared error */
} clade_calibration;
CLADE_API const char *clade_calibration_name(clade_calibration calibration); /* "minmax"; "?": there is none */

typedef struct clade_quantization clade_quantization;

typedef struct clade_quantization_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_quantization_opt));
  clade_quantization **out CLADE_UNSET;
  clade_calibration calibration CLADE_UNSET;
  /* The variables are those of a training with .quantization, this text: its ranges and layers are taken, and nothing
   * is observed; unset: they are not */
  const char *trained CLADE_UNSET;
  /* q4_0 or q8_0: only the weights of linear layers are quantized, to this type, and what layers take in stays in f32:
   * nothing is observed. Unset: layers compute with 8 bits */
  clade_dtype weights CLADE_UNSET;
} clade_quantization_opt;

/* clade_quantization_new(graph, device, vars, &q [, .option = …]): of the convolutions and linear layers of a graph for
 * inference, with sizes for all dimensions; CLADE_NOT_FOUND where it has none. It and the variables are retained, and
 * stay as they are. */
#define clade_quantization_new(graph, device, vars, ...) \
  clade_quantization_new_(graph, device, vars, CLADE_OPT(clade_quantization_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_quantization_new_(clade_graph *graph, clade_device *device, clade_vars *vars,
                                               const clade_quantization_opt *opt);
CLADE_API void clade_quantization_free(clade_quantization *q); /* NULL is fine */

/* Computes the model in f32, and looks at the inputs of its layers: their first `rows` where they have `of_rows`, as
 * where a batch is not full; of_rows 0: all. CLADE_INVALID names the layer whose input is not finite. */
CLADE_API clade_status clade_quantization_observe(clade_quantization *q, int64_t rows, int64_t of_rows, int n,
                                                  const clade_feed *feeds);

/* Layer `index` stays in f32, or does not. All are quantized at first. */
CLADE_API clade_status clade_quantization_keep(clade_quantization *q, int index, bool f32);

/* For clade_compile(.quantization), to be given to clade_text_free; "" where all layers stay. */
CLADE_API clade_status clade_quantization_text(clade_quantization *q, char **out);
/* The variables of a func that was compiled so: of the layers quantized, with the batch normalizations behind them
 * folded in; others as they are. */
CLADE_API clade_status clade_quantization_apply(clade_quantization *q, clade_vars *to);

typedef struct clade_quantization_layer {
  size_t size;
  const char *name, *op; /* "conv1", "conv2d"; as long as the quantization */
  bool quantized;
  clade_dtype input;              /* u8 where no element was below 0, else i8; f32 with .weights */
  double input_scale;             /* what a step of the input is worth; 0 with .weights */
  double scale_least, scale_most; /* a step of the weights, over the outputs, with the normalization folded in */
  int64_t weights;
  clade_dtype weight; /* the type of the weights: i8, or that of .weights; f32 where it is not quantized */
} clade_quantization_layer;
CLADE_API int clade_quantization_count(const clade_quantization *q); /* layers */
CLADE_API clade_status clade_quantization_get_layer(clade_quantization *q, int index, clade_quantization_layer *layer);

CLADE_END_DECLS
#endif

/* Post-training quantization: layers of a trained model compute with 8-bit integers. docs/quantization.md explains how.
 *
 *     clade_quantization_new(graph, device, vars, &q);             // graph: the model for inference, vars: its weights
 *     for each batch: clade_quantization_observe(q, rows, of_rows, CLADE_FEEDS({"x", x, bytes, NULL}));
 *     clade_quantization_text(q, &text);
 *     clade_compile(graph, device, &func, .quantization = text);   // the same graph
 *     clade_vars_new(func, 0, &small);
 *     clade_quantization_apply(q, small);                          // a quarter of the bytes */
#ifndef CLADE_QUANTIZE_H
#define CLADE_QUANTIZE_H

#include <clade/run.h>

CLADE_BEGIN_DECLS

/* The choice of a layer's input range from observed values. Values beyond the range are saturated. */
typedef enum clade_calibration {
  CLADE_CALIBRATE_MINMAX = 0, /* all values */
  CLADE_CALIBRATE_PERCENTILE, /* 99.99 % of the values */
  CLADE_CALIBRATE_MSE         /* the range with the least mean squared error */
} clade_calibration;
CLADE_API const char *clade_calibration_name(clade_calibration calibration); /* "minmax"; "?" if unknown */

/* A quantization of a model. */
typedef struct clade_quantization clade_quantization;

/* Options of clade_quantization_new. */
typedef struct clade_quantization_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_quantization_opt));
  clade_quantization **out CLADE_UNSET;      /* the new quantization */
  clade_calibration calibration CLADE_UNSET; /* choice of ranges */
  /* The .quantization of the training that made the variables: its layers and trained ranges are used, and nothing is
   * observed. Unset: the variables come from another training. */
  const char *trained CLADE_UNSET;
  /* CLADE_Q4_0 or CLADE_Q8_0: quantize the weights of linear layers only, to this type. Inputs stay f32, and nothing is
   * observed. Unset: layers compute with 8-bit integers. */
  clade_dtype weights CLADE_UNSET;
} clade_quantization_opt;

/* Makes a quantization of the convolutions and linear layers of a graph for inference without symbols:
 * clade_quantization_new(graph, device, vars, &q [, .option = …]). CLADE_NOT_FOUND if there are none. The quantization
 * holds references to graph and variables, and does not change them. */
#define clade_quantization_new(graph, device, vars, ...) \
  clade_quantization_new_(graph, device, vars, CLADE_OPT(clade_quantization_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_quantization_new_(clade_graph *graph, clade_device *device, clade_vars *vars,
                                               const clade_quantization_opt *opt);
CLADE_API void clade_quantization_free(clade_quantization *q); /* NULL may be freed */

/* Executes the model in f32 and observes the inputs of its layers. With a batch that is not full, only the first `rows`
 * of `of_rows` rows are observed; `of_rows` 0: all rows. CLADE_INVALID names a layer whose input is not finite. */
CLADE_API clade_status clade_quantization_observe(clade_quantization *q, int64_t rows, int64_t of_rows, int n,
                                                  const clade_feed *feeds);

/* Keeps layer `index` in f32, or quantizes it. Initially all layers are quantized. */
CLADE_API clade_status clade_quantization_keep(clade_quantization *q, int index, bool f32);

/* Stores a text for clade_compile(.quantization), freed by clade_text_free; "" if no layer is quantized. */
CLADE_API clade_status clade_quantization_text(clade_quantization *q, char **out);
/* Fills the variables of a func that was compiled with that text: quantized weights, with batch normalizations folded
 * in, and all others unchanged. */
CLADE_API clade_status clade_quantization_apply(clade_quantization *q, clade_vars *to);

/* The quantization of a layer. */
typedef struct clade_quantization_layer {
  size_t size;
  const char *name, *op;          /* "conv1", "conv2d"; live as long as the quantization */
  bool quantized;                 /* false: f32 */
  clade_dtype input;              /* u8 if no value was negative, else i8; f32 with .weights */
  double input_scale;             /* scale of the input; 0 with .weights */
  double scale_least, scale_most; /* range of the weights' scales over the outputs, with the normalization folded in */
  int64_t weights;                /* number of weights */
  clade_dtype weight;             /* type of the weights: i8, or that of .weights; f32 if not quantized */
} clade_quantization_layer;
CLADE_API int clade_quantization_count(const clade_quantization *q); /* number of layers */
/* Describes a layer by its index. The caller sets layer->size. */
CLADE_API clade_status clade_quantization_get_layer(clade_quantization *q, int index, clade_quantization_layer *layer);

CLADE_END_DECLS
#endif

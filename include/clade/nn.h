/* Builders for networks: convolution, pooling, normalization, embedding, losses, dropout, and layers, which make their
 * parameters. As in <clade/ops.h>, options follow the last plain argument: clade_conv2d(g, x, w, .pad = {1, 1}). */
#ifndef CLADE_NN_H
#define CLADE_NN_H

#include <clade/ops.h>

CLADE_BEGIN_DECLS

/* ---- convolution over height and width ----
 * Values are [n, channels, height, width]. */

/* Options of clade_conv2d. Pairs are height and width. */
typedef struct clade_conv2d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv2d_opt));
  clade_val w CLADE_UNSET;     /* weights [out, in / groups, height, width] */
  clade_val bias CLADE_UNSET;  /* [out]; unset: none */
  int stride[2] CLADE_UNSET;   /* unset: 1 */
  int pad[2] CLADE_UNSET;      /* zeros on both sides */
  int pads[4] CLADE_UNSET;     /* instead of .pad: top, left, bottom, right */
  int dilation[2] CLADE_UNSET; /* unset: 1 */
  int groups CLADE_UNSET;      /* unset: 1 */
} clade_conv2d_opt;
/* Convolution, as a cross-correlation. clade_conv2d(g, x, w, .bias = b, .pad = {2, 2}) */
#define clade_conv2d(g, x, ...) clade_conv2d_(g, x, CLADE_OPT(clade_conv2d_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv2d_(clade_graph *g, clade_val x, const clade_conv2d_opt *opt);

/* Options of clade_conv2d_transpose. */
typedef struct clade_conv2d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv2d_transpose_opt));
  clade_val w CLADE_UNSET;    /* weights [in, out / groups, height, width] */
  clade_val bias CLADE_UNSET; /* [out]; unset: none */
  /* As in clade_conv2d_opt. Padding is removed from the result. */
  int stride[2] CLADE_UNSET, pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET, groups CLADE_UNSET;
  int output_pad[2] CLADE_UNSET; /* added to the size of the result, at its end; smaller than the stride */
} clade_conv2d_transpose_opt;
/* Transposed convolution: the gradient of a convolution by its input, with x as the gradient of the result. The height
 * of the result is (height - 1) stride - pads + dilation (kernel - 1) + 1 + output_pad, and so is the width.
 * clade_conv2d_transpose(g, x, w, .stride = {2, 2}, .pad = {1, 1}) */
#define clade_conv2d_transpose(g, x, ...) \
  clade_conv2d_transpose_(g, x, CLADE_OPT(clade_conv2d_transpose_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv2d_transpose_(clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *opt);

/* ---- convolution over one axis ----
 * Values are [n, channels, length]. */

/* Options of clade_conv1d and clade_conv1d_transpose. */
typedef struct clade_conv1d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv1d_opt));
  clade_val w CLADE_UNSET;    /* weights [out, in / groups, kernel]; transposed: [in, out / groups, kernel] */
  clade_val bias CLADE_UNSET; /* [out]; unset: none */
  int stride CLADE_UNSET;     /* unset: 1 */
  int pad CLADE_UNSET;        /* zeros on both sides */
  int pads[2] CLADE_UNSET;    /* instead of .pad: before, after */
  int dilation CLADE_UNSET;   /* unset: 1 */
  int groups CLADE_UNSET;     /* unset: 1 */
  int output_pad CLADE_UNSET; /* transposed only: as in clade_conv2d_transpose_opt */
} clade_conv1d_opt;
/* Convolution and transposed convolution. clade_conv1d(g, x, w, .pad = 2) */
#define clade_conv1d(g, x, ...)           clade_conv1d_(g, x, CLADE_OPT(clade_conv1d_opt, .w = __VA_ARGS__))
#define clade_conv1d_transpose(g, x, ...) clade_conv1d_transpose_(g, x, CLADE_OPT(clade_conv1d_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *opt);
CLADE_API clade_val clade_conv1d_transpose_(clade_graph *g, clade_val x, const clade_conv1d_opt *opt);

/* ---- convolution over depth, height and width ----
 * Values are [n, channels, depth, height, width]. */

/* Options of clade_conv3d. Triples are depth, height and width. */
typedef struct clade_conv3d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv3d_opt));
  clade_val w CLADE_UNSET;     /* weights [out, in / groups, depth, height, width] */
  clade_val bias CLADE_UNSET;  /* [out]; unset: none */
  int stride[3] CLADE_UNSET;   /* unset: 1 */
  int pad[3] CLADE_UNSET;      /* zeros on both sides */
  int pads[6] CLADE_UNSET;     /* instead of .pad: before each of the axes, then after each of them */
  int dilation[3] CLADE_UNSET; /* unset: 1 */
  int groups CLADE_UNSET;      /* unset: 1 */
} clade_conv3d_opt;
/* Convolution. Copies x once per depth of the kernel, unless the kernel's depth and height are 1, or its depth is that
 * of x. clade_conv3d(g, x, w, .pad = {1, 1, 1}) */
#define clade_conv3d(g, x, ...) clade_conv3d_(g, x, CLADE_OPT(clade_conv3d_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv3d_(clade_graph *g, clade_val x, const clade_conv3d_opt *opt);

/* Options of clade_conv3d_transpose. */
typedef struct clade_conv3d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv3d_transpose_opt));
  clade_val w CLADE_UNSET;    /* weights [in, out / groups, depth, height, width] */
  clade_val bias CLADE_UNSET; /* [out]; unset: none */
  /* As in clade_conv3d_opt. Padding is removed from the result. */
  int stride[3] CLADE_UNSET, pad[3] CLADE_UNSET, pads[6] CLADE_UNSET, dilation[3] CLADE_UNSET, groups CLADE_UNSET;
  int output_pad[3] CLADE_UNSET; /* as in clade_conv2d_transpose_opt */
} clade_conv3d_transpose_opt;
/* Transposed convolution. Sizes follow the formula of clade_conv2d_transpose along each axis. The products by each
 * depth of the kernel are stored, then summed. clade_conv3d_transpose(g, x, w, .stride = {2, 2, 2}) */
#define clade_conv3d_transpose(g, x, ...) \
  clade_conv3d_transpose_(g, x, CLADE_OPT(clade_conv3d_transpose_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv3d_transpose_(clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *opt);

/* ---- convolution layers ----
 * Each layer makes the parameters NAME.weight and NAME.bias. A weight_init that is unset is that of PyTorch: uniform
 * within 1 / sqrt(fan-in). */

/* Options of clade_nn_conv2d. */
typedef struct clade_nn_conv2d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv2d_opt));
  clade_val x CLADE_UNSET; /* the input */
  int64_t out CLADE_UNSET; /* output channels */
  /* Size of the kernel; the others as in clade_conv2d_opt. */
  int kernel[2] CLADE_UNSET, stride[2] CLADE_UNSET, pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET,
      groups CLADE_UNSET;
  bool no_bias CLADE_UNSET;              /* without a bias */
  clade_dtype dtype CLADE_UNSET;         /* type of the parameters; unset: f32 */
  clade_initial weight_init CLADE_UNSET; /* initial values of the weights */
} clade_nn_conv2d_opt;
/* A convolution layer. clade_nn_conv2d(g, "c1", x, .out = 6, .kernel = {5, 5}) */
#define clade_nn_conv2d(g, name, ...) clade_nn_conv2d_(g, name, CLADE_OPT(clade_nn_conv2d_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv2d_(clade_graph *g, const char *name, const clade_nn_conv2d_opt *opt);

/* Options of clade_nn_conv2d_transpose. */
typedef struct clade_nn_conv2d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv2d_transpose_opt));
  clade_val x CLADE_UNSET; /* the input */
  int64_t out CLADE_UNSET; /* output channels */
  /* Size of the kernel; the others as in clade_conv2d_transpose_opt. */
  int kernel[2] CLADE_UNSET, stride[2] CLADE_UNSET, pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET,
      groups CLADE_UNSET, output_pad[2] CLADE_UNSET;
  bool no_bias CLADE_UNSET;              /* without a bias */
  clade_dtype dtype CLADE_UNSET;         /* type of the parameters; unset: f32 */
  clade_initial weight_init CLADE_UNSET; /* initial values of the weights */
} clade_nn_conv2d_transpose_opt;
/* A transposed convolution layer.
 * clade_nn_conv2d_transpose(g, "up1", x, .out = 16, .kernel = {4, 4}, .stride = {2, 2}, .pad = {1, 1}) */
#define clade_nn_conv2d_transpose(g, name, ...) \
  clade_nn_conv2d_transpose_(g, name, CLADE_OPT(clade_nn_conv2d_transpose_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv2d_transpose_(clade_graph *g, const char *name,
                                               const clade_nn_conv2d_transpose_opt *opt);

/* Options of clade_nn_conv1d and clade_nn_conv1d_transpose. */
typedef struct clade_nn_conv1d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv1d_opt));
  clade_val x CLADE_UNSET; /* the input */
  int64_t out CLADE_UNSET; /* output channels */
  /* Size of the kernel; the others as in clade_conv1d_opt. */
  int kernel CLADE_UNSET, stride CLADE_UNSET, pad CLADE_UNSET, pads[2] CLADE_UNSET, dilation CLADE_UNSET,
      groups CLADE_UNSET;
  bool no_bias CLADE_UNSET;              /* without a bias */
  clade_dtype dtype CLADE_UNSET;         /* type of the parameters; unset: f32 */
  clade_initial weight_init CLADE_UNSET; /* initial values of the weights */
  int output_pad CLADE_UNSET;            /* transposed only: as in clade_conv2d_transpose_opt */
} clade_nn_conv1d_opt;
/* Layers of convolution and transposed convolution over one axis.
 * clade_nn_conv1d(g, "c1", x, .out = 32, .kernel = 9, .stride = 2) */
#define clade_nn_conv1d(g, name, ...) clade_nn_conv1d_(g, name, CLADE_OPT(clade_nn_conv1d_opt, .x = __VA_ARGS__))
#define clade_nn_conv1d_transpose(g, name, ...) \
  clade_nn_conv1d_transpose_(g, name, CLADE_OPT(clade_nn_conv1d_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv1d_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt);
CLADE_API clade_val clade_nn_conv1d_transpose_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt);

/* Options of clade_nn_conv3d. */
typedef struct clade_nn_conv3d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv3d_opt));
  clade_val x CLADE_UNSET; /* the input */
  int64_t out CLADE_UNSET; /* output channels */
  /* Size of the kernel; the others as in clade_conv3d_opt. */
  int kernel[3] CLADE_UNSET, stride[3] CLADE_UNSET, pad[3] CLADE_UNSET, pads[6] CLADE_UNSET, dilation[3] CLADE_UNSET,
      groups CLADE_UNSET;
  bool no_bias CLADE_UNSET;              /* without a bias */
  clade_dtype dtype CLADE_UNSET;         /* type of the parameters; unset: f32 */
  clade_initial weight_init CLADE_UNSET; /* initial values of the weights */
} clade_nn_conv3d_opt;
/* A convolution layer over three axes.
 * clade_nn_conv3d(g, "c1", x, .out = 32, .kernel = {3, 3, 3}, .pad = {1, 1, 1}) */
#define clade_nn_conv3d(g, name, ...) clade_nn_conv3d_(g, name, CLADE_OPT(clade_nn_conv3d_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv3d_(clade_graph *g, const char *name, const clade_nn_conv3d_opt *opt);

/* Options of clade_nn_conv3d_transpose. */
typedef struct clade_nn_conv3d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv3d_transpose_opt));
  clade_val x CLADE_UNSET; /* the input */
  int64_t out CLADE_UNSET; /* output channels */
  /* Size of the kernel; the others as in clade_conv3d_transpose_opt. */
  int kernel[3] CLADE_UNSET, stride[3] CLADE_UNSET, pad[3] CLADE_UNSET, pads[6] CLADE_UNSET, dilation[3] CLADE_UNSET,
      groups CLADE_UNSET, output_pad[3] CLADE_UNSET;
  bool no_bias CLADE_UNSET;              /* without a bias */
  clade_dtype dtype CLADE_UNSET;         /* type of the parameters; unset: f32 */
  clade_initial weight_init CLADE_UNSET; /* initial values of the weights */
} clade_nn_conv3d_transpose_opt;
/* A transposed convolution layer over three axes.
 * clade_nn_conv3d_transpose(g, "up1", x, .out = 16, .kernel = {2, 2, 2}, .stride = {2, 2, 2}) */
#define clade_nn_conv3d_transpose(g, name, ...) \
  clade_nn_conv3d_transpose_(g, name, CLADE_OPT(clade_nn_conv3d_transpose_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv3d_transpose_(clade_graph *g, const char *name,
                                               const clade_nn_conv3d_transpose_opt *opt);

/* ---- pooling ---- */
/* Options of clade_max_pool2d and clade_avg_pool2d. */
typedef struct clade_pool2d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_pool2d_opt));
  clade_val x CLADE_UNSET;                                              /* the operand */
  int kernel[2] CLADE_UNSET;                                            /* size of the window */
  int stride[2] CLADE_UNSET;                                            /* unset: the size of the window */
  int pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET; /* as in clade_conv2d_opt */
  bool count_pad CLADE_UNSET; /* averages divide by the size of the window, padding included */
} clade_pool2d_opt;
/* Maximum and average of each window, without padding. A window without any element gives -infinity and 0. NaN is
 * larger than every number. The gradient of a maximum goes to the first element that has it. */
#define clade_max_pool2d(g, ...) clade_max_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define clade_avg_pool2d(g, ...) clade_avg_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define CLADE_POOL2D_OPT(...)    CLADE_OPT(clade_pool2d_opt, .x = __VA_ARGS__)
CLADE_API clade_val clade_max_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
CLADE_API clade_val clade_avg_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
/* The mean of each channel: [n, channels]. */
CLADE_API clade_val clade_global_avg_pool2d(clade_graph *g, clade_val x);

/* ---- normalization ----
 * Parameters NAME.weight and NAME.bias of layers are f32, whatever the type of x. In calls without a layer, an invalid
 * weight stands for ones, and an invalid bias for zeros. */

/* Options of clade_nn_batch_norm. */
typedef struct clade_batch_norm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_batch_norm_opt));
  bool filled CLADE_DEFAULT(true);    /* by CLADE_BATCH_NORM_OPT */
  clade_val x CLADE_UNSET;            /* [samples, channels, ...] */
  float eps CLADE_DEFAULT(1e-5f);     /* added to the variance */
  float momentum CLADE_DEFAULT(0.1f); /* weight of the batch's statistics in the running ones */
} clade_batch_norm_opt;
#define CLADE_BATCH_NORM_OPT CLADE_FILLED(clade_batch_norm_opt, .eps = 1e-5f, .momentum = 0.1f)
/* Batch normalization of each channel. A graph for training uses the statistics of the batch, and updates the variables
 * NAME.running_mean and NAME.running_var (unbiased). A graph for inference uses those variables.
 * clade_nn_batch_norm(g, "bn1", x) */
#define clade_nn_batch_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                    \
      clade_nn_batch_norm_(g, name, CLADE_OPT_FROM(clade_batch_norm_opt, CLADE_BATCH_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_batch_norm_(clade_graph *g, const char *name, const clade_batch_norm_opt *opt);
/* Layer normalization over the last `n_axes` axes. Weight and bias have the shape of these axes. */
CLADE_API clade_val clade_layer_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int n_axes,
                                     double eps);
/* RMS normalization over the last `n_axes` axes: x weight / sqrt(mean(x^2) + eps). */
CLADE_API clade_val clade_rms_norm(clade_graph *g, clade_val x, clade_val weight, int n_axes, double eps);
/* Group normalization of x, [samples, channels, ...]: each of `groups` groups of consecutive channels is normalized per
 * sample. In instance normalization each channel is a group. Weight and bias are [channels]. */
CLADE_API clade_val clade_group_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int groups,
                                     double eps);
CLADE_API clade_val clade_instance_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, double eps);
/* Options of clade_nn_layer_norm and clade_nn_rms_norm. */
typedef struct clade_layer_norm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_layer_norm_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_LAYER_NORM_OPT */
  clade_val x CLADE_UNSET;         /* the operand */
  int n_axes CLADE_DEFAULT(1);     /* number of axes to normalize over, the last ones */
  float eps CLADE_DEFAULT(1e-5f);  /* added to the variance, or to the mean square */
} clade_layer_norm_opt;
#define CLADE_LAYER_NORM_OPT CLADE_FILLED(clade_layer_norm_opt, .n_axes = 1, .eps = 1e-5f)
/* A layer normalization with parameters. clade_nn_layer_norm(g, "ln", x, .n_axes = 2) */
#define clade_nn_layer_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                    \
      clade_nn_layer_norm_(g, name, CLADE_OPT_FROM(clade_layer_norm_opt, CLADE_LAYER_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_layer_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt);
/* An RMS normalization with a weight, without a bias. clade_nn_rms_norm(g, "rms", x) */
#define clade_nn_rms_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                  \
      clade_nn_rms_norm_(g, name, CLADE_OPT_FROM(clade_layer_norm_opt, CLADE_LAYER_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_rms_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt);
/* Options of clade_nn_group_norm and clade_nn_instance_norm. */
typedef struct clade_group_norm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_group_norm_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_GROUP_NORM_OPT */
  clade_val x CLADE_UNSET;         /* [samples, channels, ...] */
  int groups CLADE_UNSET;          /* a divisor of the channels; unset in clade_nn_instance_norm */
  float eps CLADE_DEFAULT(1e-5f);  /* added to the variance */
} clade_group_norm_opt;
#define CLADE_GROUP_NORM_OPT CLADE_FILLED(clade_group_norm_opt, .eps = 1e-5f)
/* Group and instance normalization with parameters. clade_nn_group_norm(g, "gn", x, .groups = 8) */
#define clade_nn_group_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                    \
      clade_nn_group_norm_(g, name, CLADE_OPT_FROM(clade_group_norm_opt, CLADE_GROUP_NORM_OPT, .x = __VA_ARGS__)))
#define clade_nn_instance_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                       \
      clade_nn_instance_norm_(g, name, CLADE_OPT_FROM(clade_group_norm_opt, CLADE_GROUP_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_group_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt);
CLADE_API clade_val clade_nn_instance_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt);

/* ---- embedding ---- */
/* Options of clade_nn_embedding. */
typedef struct clade_embedding_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_embedding_opt));
  clade_val ids CLADE_UNSET;                    /* indices, i32 [...]; those out of range give zeros */
  int64_t count CLADE_UNSET, width CLADE_UNSET; /* number of embeddings, and elements of each */
  clade_dtype dtype CLADE_UNSET;                /* type of the parameter and of the result; unset: f32 */
} clade_embedding_opt;
/* An embedding layer: rows of the parameter NAME.weight, [count, width], which is initially normal. The result is
 * [..., width]. clade_nn_embedding(g, "e", ids, .count = 1000, .width = 64) */
#define clade_nn_embedding(g, name, ...) \
  clade_nn_embedding_(g, name, CLADE_OPT(clade_embedding_opt, .ids = __VA_ARGS__))
CLADE_API clade_val clade_nn_embedding_(clade_graph *g, const char *name, const clade_embedding_opt *opt);

/* ---- losses ----
 * Losses are f32 scalars, means over all elements or samples, whatever the type of the operands. */

/* Options of clade_cross_entropy. */
typedef struct clade_cross_entropy_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_cross_entropy_opt));
  clade_val labels CLADE_UNSET;     /* class numbers, i32 [...]; any other number makes the loss NaN */
  float smoothing CLADE_UNSET;      /* fraction of the target that is spread over all classes */
  bool ignore CLADE_UNSET;          /* ignore samples with the label ignore_index; a mean of no samples is 0 */
  int32_t ignore_index CLADE_UNSET; /* this label */
  bool per_sample CLADE_UNSET;      /* losses [...] instead of their mean; 0 for ignored samples */
} clade_cross_entropy_opt;
/* Cross-entropy of the softmax over the last axis of logits [..., classes].
 * clade_cross_entropy(g, logits, labels, .smoothing = 0.1f) */
#define clade_cross_entropy(g, logits, ...) \
  clade_cross_entropy_(g, logits, CLADE_OPT(clade_cross_entropy_opt, .labels = __VA_ARGS__))
CLADE_API clade_val clade_cross_entropy_(clade_graph *g, clade_val logits, const clade_cross_entropy_opt *opt);
/* Mean squared error, mean absolute error, and binary cross-entropy of the sigmoid of logits with targets from 0 to 1,
 * log(1 + exp(x)) - x target, computed without overflow. */
CLADE_API clade_val clade_mse(clade_graph *g, clade_val x, clade_val target);
CLADE_API clade_val clade_l1(clade_graph *g, clade_val x, clade_val target);
CLADE_API clade_val clade_binary_cross_entropy(clade_graph *g, clade_val logits, clade_val target);
/* The number of samples (i32 scalar) whose label is among the k largest logits of the last axis. Of equal logits, the
 * one with the smaller index counts as larger, as in clade_arg_max. A label that is no class counts as wrong. */
CLADE_API clade_val clade_top_k_count(clade_graph *g, clade_val logits, clade_val labels, int k);

/* Adds `weight` times an f32 scalar to the loss of the training, for a model's function, which returns only its
 * result. clade_train adds these losses, of each micro-batch, to its own. Without effect in a graph for inference. */
CLADE_API void clade_graph_add_loss(clade_graph *g, clade_val loss, double weight);
/* The sum of the losses that were added since the last call; invalid if there are none. A loop of your own adds it to
 * its loss. clade_minimize and clade_accumulate refuse a graph with a sum that was not taken. */
CLADE_API clade_val clade_graph_added_loss(clade_graph *g);

/* ---- mixture of experts ---- */
/* Options of clade_nn_experts. */
typedef struct clade_experts_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_experts_opt));
  clade_val x CLADE_UNSET;                         /* [tokens, width] or [groups, tokens, width]; constant sizes */
  int64_t experts CLADE_UNSET, hidden CLADE_UNSET; /* number of experts; inner width of their feed-forward layers */
  int top CLADE_UNSET;                             /* experts per token, 1 or 2; unset: 1 */
  float capacity CLADE_UNSET;    /* capacity of an expert per group, relative to even routing; unset: 1.25 */
  clade_dtype dtype CLADE_UNSET; /* type of the parameters; unset: f32 */
  /* Place for an auxiliary loss, an f32 scalar that is 1 if experts are used evenly and larger otherwise. Add it to the
   * loss, times a factor such as 0.01 (clade_graph_add_loss). NULL: not computed. */
  clade_val *balance CLADE_UNSET;
} clade_experts_opt;
/* A mixture of experts. The gate, a linear layer and a softmax, sends each token to its top experts. The result is the
 * sum of their outputs, gelu(x up + bias) down + bias, weighted by the gate (top 2: divided by the sum of both
 * weights). Each expert accepts tokens of a group in order up to its capacity, first choices before second ones. Tokens
 * that are not accepted give 0, so that a residual connection passes them on. clade_nn_experts(g, "moe", x, .experts =
 * 8, .hidden = 256, .balance = &uneven)
 *
 *   NAME.gate.weight   [experts, width]
 *   NAME.up.weight     [experts, width, hidden]
 *   NAME.up.bias       [experts, 1, hidden]
 *   NAME.down.weight   [experts, hidden, width]
 *   NAME.down.bias     [experts, 1, width] */
#define clade_nn_experts(g, name, ...) clade_nn_experts_(g, name, CLADE_OPT(clade_experts_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_experts_(clade_graph *g, const char *name, const clade_experts_opt *opt);

/* ---- dropout ---- */
/* Dropout: 0 with probability p, otherwise x / (1 - p). Which elements are dropped depends on key, counter (an i64
 * scalar) and element index alone. */
CLADE_API clade_val clade_dropout(clade_graph *g, clade_val x, double p, uint64_t key, clade_val counter);
/* Options of clade_nn_dropout. */
typedef struct clade_dropout_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_dropout_opt));
  clade_val x CLADE_UNSET; /* the operand */
  float p CLADE_UNSET;     /* probability of dropping an element; unset: nothing is dropped */
} clade_dropout_opt;
/* A dropout layer, which passes x through in a graph for inference. The key comes from the name. The counter is a
 * variable that all dropout layers share, "optimizer.dropout", whose initial value comes from the seed of the
 * variables. clade_nn_dropout(g, "d1", x, .p = 0.5f) */
#define clade_nn_dropout(g, name, ...) clade_nn_dropout_(g, name, CLADE_OPT(clade_dropout_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_dropout_(clade_graph *g, const char *name, const clade_dropout_opt *opt);

CLADE_END_DECLS
#endif

/* Builders for networks: convolution and pooling, and the layers that make parameters. As in ops.h, a macro's last
 * plain argument is followed by the options: clade_conv2d(g, x, w, .pad = {1, 1}). */
#ifndef CLADE_NN_H
#define CLADE_NN_H

#include <clade/ops.h>

CLADE_BEGIN_DECLS

/* ---- windows over height and width; values are [n, channels, height, width] ---- */
typedef struct clade_conv2d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv2d_opt));
  clade_val w CLADE_UNSET;     /* [out, in / groups, height, width] */
  clade_val bias CLADE_UNSET;  /* [out]; invalid: none */
  int stride[2] CLADE_UNSET;   /* of height and width, as all pairs here; unset: 1 */
  int pad[2] CLADE_UNSET;      /* zeros on both sides of the height, of the width */
  int pads[4] CLADE_UNSET;     /* instead: top, left, bottom, right */
  int dilation[2] CLADE_UNSET; /* unset: 1 */
  int groups CLADE_UNSET;      /* unset: 1 */
} clade_conv2d_opt;
/* Cross-correlation: clade_conv2d(g, x, w, .bias = b, .pad = {2, 2}) */
#define clade_conv2d(g, x, ...) clade_conv2d_(g, x, CLADE_OPT(clade_conv2d_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv2d_(clade_graph *g, clade_val x, const clade_conv2d_opt *opt);

/* ---- transposed: the derivative of a convolution by its input, with x for the derivative by its result ---- */
typedef struct clade_conv2d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv2d_transpose_opt));
  clade_val w CLADE_UNSET;    /* [in, out / groups, height, width] */
  clade_val bias CLADE_UNSET; /* [out]; invalid: none */
  int stride[2] CLADE_UNSET, pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET,
      groups CLADE_UNSET;        /* as in clade_conv2d_opt; padding is taken off the result */
  int output_pad[2] CLADE_UNSET; /* so much is added behind the result's height and width; less than the stride */
} clade_conv2d_transpose_opt;
/* [n, out, (height - 1) stride - pads + dilation (kernel - 1) + 1 + output_pad, …]:
 * clade_conv2d_transpose(g, x, w, .stride = {2, 2}, .pad = {1, 1}) */
#define clade_conv2d_transpose(g, x, ...) \
  clade_conv2d_transpose_(g, x, CLADE_OPT(clade_conv2d_transpose_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv2d_transpose_(clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *opt);

/* ---- windows along one axis; values are [n, channels, length] ---- */
typedef struct clade_conv1d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv1d_opt));
  clade_val w CLADE_UNSET;    /* [out, in / groups, kernel]; transposed: [in, out / groups, kernel] */
  clade_val bias CLADE_UNSET; /* [out]; invalid: none */
  int stride CLADE_UNSET;     /* unset: 1 */
  int pad CLADE_UNSET;        /* zeros on both sides */
  int pads[2] CLADE_UNSET;    /* instead: before, after */
  int dilation CLADE_UNSET;   /* unset: 1 */
  int groups CLADE_UNSET;     /* unset: 1 */
  int output_pad CLADE_UNSET; /* of the transposed one alone */
} clade_conv1d_opt;
/* clade_conv1d(g, x, w, .pad = 2) */
#define clade_conv1d(g, x, ...)           clade_conv1d_(g, x, CLADE_OPT(clade_conv1d_opt, .w = __VA_ARGS__))
#define clade_conv1d_transpose(g, x, ...) clade_conv1d_transpose_(g, x, CLADE_OPT(clade_conv1d_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *opt);
CLADE_API clade_val clade_conv1d_transpose_(clade_graph *g, clade_val x, const clade_conv1d_opt *opt);

/* ---- windows over depth, height and width; values are [n, channels, depth, height, width] ---- */
typedef struct clade_conv3d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv3d_opt));
  clade_val w CLADE_UNSET;    /* [out, in / groups, depth, height, width] */
  clade_val bias CLADE_UNSET; /* [out]; invalid: none */
  int stride[3] CLADE_UNSET;  /* of depth, height and width, as all triples here; unset: 1 */
  int pad[3] CLADE_UNSET;
  int pads[6] CLADE_UNSET;     /* instead: before each of the axes, after each of them */
  int dilation[3] CLADE_UNSET; /* unset: 1 */
  int groups CLADE_UNSET;      /* unset: 1 */
} clade_conv3d_opt;
/* It copies x as often as its kernel is deep, but where that is 1 and so is the height, or where it is as deep as x:
 * clade_conv3d(g, x, w, .pad = {1, 1, 1}) */
#define clade_conv3d(g, x, ...) clade_conv3d_(g, x, CLADE_OPT(clade_conv3d_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv3d_(clade_graph *g, clade_val x, const clade_conv3d_opt *opt);

typedef struct clade_conv3d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_conv3d_transpose_opt));
  clade_val w CLADE_UNSET;    /* [in, out / groups, depth, height, width] */
  clade_val bias CLADE_UNSET; /* [out]; invalid: none */
  int stride[3] CLADE_UNSET, pad[3] CLADE_UNSET, pads[6] CLADE_UNSET, dilation[3] CLADE_UNSET,
      groups CLADE_UNSET;        /* as in clade_conv3d_opt; padding is taken off the result */
  int output_pad[3] CLADE_UNSET; /* as in clade_conv2d_transpose_opt */
} clade_conv3d_transpose_opt;
/* Sizes are those of clade_conv2d_transpose along each axis. What lies at one depth is added up after the product by
 * each slice of the kernel was stored: clade_conv3d_transpose(g, x, w, .stride = {2, 2, 2}) */
#define clade_conv3d_transpose(g, x, ...) \
  clade_conv3d_transpose_(g, x, CLADE_OPT(clade_conv3d_transpose_opt, .w = __VA_ARGS__))
CLADE_API clade_val clade_conv3d_transpose_(clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *opt);

/* ---- their layers: a weight parameter NAME.weight, a bias NAME.bias, and the op ---- */
typedef struct clade_nn_conv2d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv2d_opt));
  clade_val x CLADE_UNSET;
  int64_t out CLADE_UNSET;
  int kernel[2] CLADE_UNSET, stride[2] CLADE_UNSET, pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET,
      groups CLADE_UNSET; /* as in clade_conv2d_opt */
  bool no_bias CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* of the variables; unset: f32 */
  clade_initial weight_init
      CLADE_UNSET; /* unset: as PyTorch, uniform within 1 / sqrt(elements that go into a result) */
} clade_nn_conv2d_opt;
/* clade_nn_conv2d(g, "c1", x, .out = 6, .kernel = {5, 5}) */
#define clade_nn_conv2d(g, name, ...) clade_nn_conv2d_(g, name, CLADE_OPT(clade_nn_conv2d_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv2d_(clade_graph *g, const char *name, const clade_nn_conv2d_opt *opt);

typedef struct clade_nn_conv2d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv2d_transpose_opt));
  clade_val x CLADE_UNSET;
  int64_t out CLADE_UNSET;
  int kernel[2] CLADE_UNSET, stride[2] CLADE_UNSET, pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET,
      groups CLADE_UNSET, output_pad[2] CLADE_UNSET; /* as in clade_conv2d_transpose_opt */
  bool no_bias CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init CLADE_UNSET;
} clade_nn_conv2d_transpose_opt;
/* clade_nn_conv2d_transpose(g, "up1", x, .out = 16, .kernel = {4, 4}, .stride = {2, 2}, .pad = {1, 1}) */
#define clade_nn_conv2d_transpose(g, name, ...) \
  clade_nn_conv2d_transpose_(g, name, CLADE_OPT(clade_nn_conv2d_transpose_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv2d_transpose_(clade_graph *g, const char *name,
                                               const clade_nn_conv2d_transpose_opt *opt);

typedef struct clade_nn_conv1d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv1d_opt));
  clade_val x CLADE_UNSET;
  int64_t out CLADE_UNSET;
  int kernel CLADE_UNSET, stride CLADE_UNSET, pad CLADE_UNSET, pads[2] CLADE_UNSET, dilation CLADE_UNSET,
      groups CLADE_UNSET; /* as in clade_conv1d_opt */
  bool no_bias CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init CLADE_UNSET;
  int output_pad CLADE_UNSET; /* of the transposed one alone */
} clade_nn_conv1d_opt;
/* clade_nn_conv1d(g, "c1", x, .out = 32, .kernel = 9, .stride = 2) */
#define clade_nn_conv1d(g, name, ...) clade_nn_conv1d_(g, name, CLADE_OPT(clade_nn_conv1d_opt, .x = __VA_ARGS__))
#define clade_nn_conv1d_transpose(g, name, ...) \
  clade_nn_conv1d_transpose_(g, name, CLADE_OPT(clade_nn_conv1d_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv1d_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt);
CLADE_API clade_val clade_nn_conv1d_transpose_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt);

typedef struct clade_nn_conv3d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv3d_opt));
  clade_val x CLADE_UNSET;
  int64_t out CLADE_UNSET;
  int kernel[3] CLADE_UNSET, stride[3] CLADE_UNSET, pad[3] CLADE_UNSET, pads[6] CLADE_UNSET, dilation[3] CLADE_UNSET,
      groups CLADE_UNSET; /* as in clade_conv3d_opt */
  bool no_bias CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init CLADE_UNSET;
} clade_nn_conv3d_opt;
/* clade_nn_conv3d(g, "c1", x, .out = 32, .kernel = {3, 3, 3}, .pad = {1, 1, 1}) */
#define clade_nn_conv3d(g, name, ...) clade_nn_conv3d_(g, name, CLADE_OPT(clade_nn_conv3d_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv3d_(clade_graph *g, const char *name, const clade_nn_conv3d_opt *opt);

typedef struct clade_nn_conv3d_transpose_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_nn_conv3d_transpose_opt));
  clade_val x CLADE_UNSET;
  int64_t out CLADE_UNSET;
  int kernel[3] CLADE_UNSET, stride[3] CLADE_UNSET, pad[3] CLADE_UNSET, pads[6] CLADE_UNSET, dilation[3] CLADE_UNSET,
      groups CLADE_UNSET, output_pad[3] CLADE_UNSET; /* as in clade_conv3d_transpose_opt */
  bool no_bias CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init CLADE_UNSET;
} clade_nn_conv3d_transpose_opt;
/* clade_nn_conv3d_transpose(g, "up1", x, .out = 16, .kernel = {2, 2, 2}, .stride = {2, 2, 2}) */
#define clade_nn_conv3d_transpose(g, name, ...) \
  clade_nn_conv3d_transpose_(g, name, CLADE_OPT(clade_nn_conv3d_transpose_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_conv3d_transpose_(clade_graph *g, const char *name,
                                               const clade_nn_conv3d_transpose_opt *opt);

/* ---- pooling ---- */
typedef struct clade_pool2d_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_pool2d_opt));
  clade_val x CLADE_UNSET;
  int kernel[2] CLADE_UNSET;
  int stride[2] CLADE_UNSET;                                            /* unset: the kernel */
  int pad[2] CLADE_UNSET, pads[4] CLADE_UNSET, dilation[2] CLADE_UNSET; /* as in clade_conv2d_opt */
  bool count_pad CLADE_UNSET; /* averages divide by the size of the kernel, not by how many pixels it covers */
} clade_pool2d_opt;
/* Of the pixels that a window covers; padding is never among them. Where it covers none the maximum is -infinity, the
 * average 0. NaN is larger than anything. The gradient of a maximum goes to the first pixel that has it. */
#define clade_max_pool2d(g, ...) clade_max_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define clade_avg_pool2d(g, ...) clade_avg_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define CLADE_POOL2D_OPT(...)    CLADE_OPT(clade_pool2d_opt, .x = __VA_ARGS__)
CLADE_API clade_val clade_max_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
CLADE_API clade_val clade_avg_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
/* The mean of each channel: [n, channels], as what follows is a linear layer. */
CLADE_API clade_val clade_global_avg_pool2d(clade_graph *g, clade_val x);
/* ---- normalization: parameters NAME.weight and NAME.bias, f32 whatever the type of x ---- */
typedef struct clade_batch_norm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_batch_norm_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_BATCH_NORM_OPT */
  clade_val x CLADE_UNSET;         /* [samples, channels, ...] */
  float eps CLADE_DEFAULT(1e-5f);
  float momentum CLADE_DEFAULT(0.1f); /* how far the running statistics go towards the batch's */
} clade_batch_norm_opt;
#define CLADE_BATCH_NORM_OPT CLADE_FILLED(clade_batch_norm_opt, .eps = 1e-5f, .momentum = 0.1f)
/* Each channel by its mean and variance: in a graph for training those of the batch, which also move the variables
 * NAME.running_mean and NAME.running_var (unbiased), else those: clade_nn_batch_norm(g, "bn1", x) */
#define clade_nn_batch_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                    \
      clade_nn_batch_norm_(g, name, CLADE_OPT_FROM(clade_batch_norm_opt, CLADE_BATCH_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_batch_norm_(clade_graph *g, const char *name, const clade_batch_norm_opt *opt);
/* Each row of the last n_axes dimensions by its own mean and variance; weight and bias have their shape. Here and
 * below, an invalid weight stands for ones, an invalid bias for zeros. */
CLADE_API clade_val clade_layer_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int n_axes,
                                     double eps);
/* x weight / sqrt(mean of x^2 + eps), the mean over the last n_axes dimensions. */
CLADE_API clade_val clade_rms_norm(clade_graph *g, clade_val x, clade_val weight, int n_axes, double eps);
/* x is [samples, channels, ...]: of each sample, each of so many groups of channels on end by its own mean and variance
 * over them and what follows; then by channels, [channels]. Instance normalization: each channel is a group. */
CLADE_API clade_val clade_group_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int groups,
                                     double eps);
CLADE_API clade_val clade_instance_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, double eps);
typedef struct clade_layer_norm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_layer_norm_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_LAYER_NORM_OPT */
  clade_val x CLADE_UNSET;
  int n_axes CLADE_DEFAULT(1); /* the last ones */
  float eps CLADE_DEFAULT(1e-5f);
} clade_layer_norm_opt;
#define CLADE_LAYER_NORM_OPT CLADE_FILLED(clade_layer_norm_opt, .n_axes = 1, .eps = 1e-5f)
/* clade_nn_layer_norm(g, "ln", x, .n_axes = 2) */
#define clade_nn_layer_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                    \
      clade_nn_layer_norm_(g, name, CLADE_OPT_FROM(clade_layer_norm_opt, CLADE_LAYER_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_layer_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt);
/* Without a bias: clade_nn_rms_norm(g, "rms", x) */
#define clade_nn_rms_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                  \
      clade_nn_rms_norm_(g, name, CLADE_OPT_FROM(clade_layer_norm_opt, CLADE_LAYER_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_rms_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt);
typedef struct clade_group_norm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_group_norm_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_GROUP_NORM_OPT */
  clade_val x CLADE_UNSET;         /* [samples, channels, ...] */
  int groups CLADE_UNSET;          /* a divisor of the channels; of clade_nn_instance_norm unset: each channel is one */
  float eps CLADE_DEFAULT(1e-5f);
} clade_group_norm_opt;
#define CLADE_GROUP_NORM_OPT CLADE_FILLED(clade_group_norm_opt, .eps = 1e-5f)
/* clade_nn_group_norm(g, "gn", x, .groups = 8); clade_nn_instance_norm(g, "in", x) */
#define clade_nn_group_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                    \
      clade_nn_group_norm_(g, name, CLADE_OPT_FROM(clade_group_norm_opt, CLADE_GROUP_NORM_OPT, .x = __VA_ARGS__)))
#define clade_nn_instance_norm(g, name, ...) \
  CLADE_FROM_DEFAULTS(                       \
      clade_nn_instance_norm_(g, name, CLADE_OPT_FROM(clade_group_norm_opt, CLADE_GROUP_NORM_OPT, .x = __VA_ARGS__)))
CLADE_API clade_val clade_nn_group_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt);
CLADE_API clade_val clade_nn_instance_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt);

/* ---- embedding ---- */
typedef struct clade_embedding_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_embedding_opt));
  clade_val ids CLADE_UNSET; /* i32 [...]; numbers that name no row give zeros */
  int64_t count CLADE_UNSET, width CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* of the parameter and the result; unset: f32 */
} clade_embedding_opt;
/* [..., width]: rows of the parameter NAME.weight [count, width], normal at first: clade_nn_embedding(g, "e", ids,
 * .count = 1000, .width = 64) */
#define clade_nn_embedding(g, name, ...) \
  clade_nn_embedding_(g, name, CLADE_OPT(clade_embedding_opt, .ids = __VA_ARGS__))
CLADE_API clade_val clade_nn_embedding_(clade_graph *g, const char *name, const clade_embedding_opt *opt);

/* ---- losses: f32 scalars, means over all elements or samples, whatever the type of what is compared ---- */
typedef struct clade_cross_entropy_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_cross_entropy_opt));
  clade_val labels CLADE_UNSET; /* i32 [...], classes from 0 on; another label makes the loss NaN */
  float smoothing CLADE_UNSET;  /* this part of the target is spread over all classes */
  bool ignore CLADE_UNSET; /* samples whose label is ignore_index count for nothing; over no samples the mean is 0 */
  int32_t ignore_index CLADE_UNSET;
  bool per_sample CLADE_UNSET; /* the losses [...] instead of their mean; 0 for ignored ones */
} clade_cross_entropy_opt;
/* Of softmax over the last axis of logits [..., classes]: clade_cross_entropy(g, logits, labels, .smoothing = 0.1f) */
#define clade_cross_entropy(g, logits, ...) \
  clade_cross_entropy_(g, logits, CLADE_OPT(clade_cross_entropy_opt, .labels = __VA_ARGS__))
CLADE_API clade_val clade_cross_entropy_(clade_graph *g, clade_val logits, const clade_cross_entropy_opt *opt);
/* Means over all elements of (x - target)^2, of |x - target|, and of what a sigmoid of logits misses of targets from 0
 * to 1: log(1 + exp(x)) - x target, without overflow. */
CLADE_API clade_val clade_mse(clade_graph *g, clade_val x, clade_val target);
CLADE_API clade_val clade_l1(clade_graph *g, clade_val x, clade_val target);
CLADE_API clade_val clade_binary_cross_entropy(clade_graph *g, clade_val logits, clade_val target);
/* i32 scalar: how many samples have the logit of their label among the k largest of the last axis. Of equal logits the
 * one with the smaller index is the larger, as for clade_arg_max. A label that names no class counts as wrong. */
CLADE_API clade_val clade_top_k_count(clade_graph *g, clade_val logits, clade_val labels, int k);

/* ---- a mixture of experts ---- */
typedef struct clade_experts_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_experts_opt));
  clade_val x CLADE_UNSET;                         /* [tokens, width] or [groups, tokens, width]; sizes, no symbols */
  int64_t experts CLADE_UNSET, hidden CLADE_UNSET; /* feed-forward layers, and their inner width */
  int top CLADE_UNSET;                             /* experts of a token, 1 or 2; unset: 1 */
  float capacity CLADE_UNSET;     /* room of an expert in a group, by what even routing would send it; unset: 1.25 */
  clade_dtype dtype CLADE_UNSET;  /* of the parameters; unset: f32 */
  clade_val *balance CLADE_UNSET; /* set to an f32 scalar that is 1 where experts are used evenly, and more where
                                     they are not; to be added to the loss, times 0.01 or so; NULL: not asked for */
} clade_experts_opt;
/* A gate, the softmax of a linear layer, sends each token to the one or two experts of largest weight, and multiplies
 * their results, gelu(x up + bias) down + bias, by the weights (of two: divided by their sum). An expert takes the
 * first tokens of each group that it has room for, first choices before second ones; of the others the result is 0, so
 * that a residual connection hands them on. Parameters are NAME.gate.weight [experts, width], NAME.up.weight [experts,
 * width, hidden], NAME.up.bias [experts, 1, hidden], NAME.down.weight and NAME.down.bias: clade_nn_experts(g, "moe", x,
 * .experts = 8, .hidden = 256, .balance = &uneven) */
#define clade_nn_experts(g, name, ...) clade_nn_experts_(g, name, CLADE_OPT(clade_experts_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_experts_(clade_graph *g, const char *name, const clade_experts_opt *opt);

/* ---- dropout: x / (1 - p), or 0 with probability p ---- */
/* Which elements are dropped is a pure function of key, counter (an i64 scalar) and element. */
CLADE_API clade_val clade_dropout(clade_graph *g, clade_val x, double p, uint64_t key, clade_val counter);
typedef struct clade_dropout_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_dropout_opt));
  clade_val x CLADE_UNSET;
  float p CLADE_UNSET; /* unset: nothing is dropped */
} clade_dropout_opt;
/* In a graph for training, else x: clade_nn_dropout(g, "d1", x, .p = 0.5f). The key is the name's, the counter a
 * variable of all such layers, "optimizer.dropout", which begins at a number of the variables' seed. */
#define clade_nn_dropout(g, name, ...) clade_nn_dropout_(g, name, CLADE_OPT(clade_dropout_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_dropout_(clade_graph *g, const char *name, const clade_dropout_opt *opt);

CLADE_END_DECLS
#endif

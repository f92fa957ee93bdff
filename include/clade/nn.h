/* Builders for networks: convolution and pooling, and the layers that make parameters. As in ops.h, a macro's last
 * plain argument is followed by the options: clade_conv2d(g, x, w, .pad = {1, 1}). Zero means unset. */
#ifndef CLADE_NN_H
#define CLADE_NN_H

#include <clade/ops.h>

CLADE_BEGIN_DECLS

/* ---- windows over height and width; values are [n, channels, height, width] ---- */
typedef struct clade_conv2d_opt {
  size_t size;
  clade_val w;     /* [out, in / groups, height, width] */
  clade_val bias;  /* [out]; invalid: none */
  int stride[2];   /* of height and width, as all pairs here; unset: 1 */
  int pad[2];      /* zeros on both sides of the height, of the width */
  int pads[4];     /* instead: top, left, bottom, right */
  int dilation[2]; /* unset: 1 */
  int groups;      /* unset: 1 */
} clade_conv2d_opt;
/* Cross-correlation: clade_conv2d(g, x, w, .bias = b, .pad = {2, 2}) */
#define clade_conv2d(g, x, ...) \
  clade_conv2d_(g, x, &(clade_conv2d_opt){.size = sizeof(clade_conv2d_opt), .w = __VA_ARGS__})
CLADE_API clade_val clade_conv2d_(clade_graph *g, clade_val x, const clade_conv2d_opt *opt);

/* ---- transposed: the derivative of a convolution by its input, with x for the derivative by its result ---- */
typedef struct clade_conv2d_transpose_opt {
  size_t size;
  clade_val w;                                         /* [in, out / groups, height, width] */
  clade_val bias;                                      /* [out]; invalid: none */
  int stride[2], pad[2], pads[4], dilation[2], groups; /* as in clade_conv2d_opt; padding is taken off the result */
  int output_pad[2]; /* so much is added behind the result's height and width; less than the stride */
} clade_conv2d_transpose_opt;
/* [n, out, (height - 1) stride - pads + dilation (kernel - 1) + 1 + output_pad, …]:
 * clade_conv2d_transpose(g, x, w, .stride = {2, 2}, .pad = {1, 1}) */
#define clade_conv2d_transpose(g, x, ...) \
  clade_conv2d_transpose_(g, x,           \
                          &(clade_conv2d_transpose_opt){.size = sizeof(clade_conv2d_transpose_opt), .w = __VA_ARGS__})
CLADE_API clade_val clade_conv2d_transpose_(clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *opt);

/* ---- windows along one axis; values are [n, channels, length] ---- */
typedef struct clade_conv1d_opt {
  size_t size;
  clade_val w;    /* [out, in / groups, kernel]; transposed: [in, out / groups, kernel] */
  clade_val bias; /* [out]; invalid: none */
  int stride;     /* unset: 1 */
  int pad;        /* zeros on both sides */
  int pads[2];    /* instead: before, after */
  int dilation;   /* unset: 1 */
  int groups;     /* unset: 1 */
  int output_pad; /* of the transposed one alone */
} clade_conv1d_opt;
/* clade_conv1d(g, x, w, .pad = 2) */
#define clade_conv1d(g, x, ...) \
  clade_conv1d_(g, x, &(clade_conv1d_opt){.size = sizeof(clade_conv1d_opt), .w = __VA_ARGS__})
#define clade_conv1d_transpose(g, x, ...) \
  clade_conv1d_transpose_(g, x, &(clade_conv1d_opt){.size = sizeof(clade_conv1d_opt), .w = __VA_ARGS__})
CLADE_API clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *opt);
CLADE_API clade_val clade_conv1d_transpose_(clade_graph *g, clade_val x, const clade_conv1d_opt *opt);

/* ---- windows over depth, height and width; values are [n, channels, depth, height, width] ---- */
typedef struct clade_conv3d_opt {
  size_t size;
  clade_val w;    /* [out, in / groups, depth, height, width] */
  clade_val bias; /* [out]; invalid: none */
  int stride[3];  /* of depth, height and width, as all triples here; unset: 1 */
  int pad[3];
  int pads[6];     /* instead: before each of the axes, after each of them */
  int dilation[3]; /* unset: 1 */
  int groups;      /* unset: 1 */
} clade_conv3d_opt;
/* It copies x as often as its kernel is deep, but where that is 1 and so is the height, or where it is as deep as x:
 * clade_conv3d(g, x, w, .pad = {1, 1, 1}) */
#define clade_conv3d(g, x, ...) \
  clade_conv3d_(g, x, &(clade_conv3d_opt){.size = sizeof(clade_conv3d_opt), .w = __VA_ARGS__})
CLADE_API clade_val clade_conv3d_(clade_graph *g, clade_val x, const clade_conv3d_opt *opt);

typedef struct clade_conv3d_transpose_opt {
  size_t size;
  clade_val w;                                         /* [in, out / groups, depth, height, width] */
  clade_val bias;                                      /* [out]; invalid: none */
  int stride[3], pad[3], pads[6], dilation[3], groups; /* as in clade_conv3d_opt; padding is taken off the result */
  int output_pad[3];                                   /* as in clade_conv2d_transpose_opt */
} clade_conv3d_transpose_opt;
/* Sizes are those of clade_conv2d_transpose along each axis. What lies at one depth is added up after the product by
 * each slice of the kernel was stored: clade_conv3d_transpose(g, x, w, .stride = {2, 2, 2}) */
#define clade_conv3d_transpose(g, x, ...) \
  clade_conv3d_transpose_(g, x,           \
                          &(clade_conv3d_transpose_opt){.size = sizeof(clade_conv3d_transpose_opt), .w = __VA_ARGS__})
CLADE_API clade_val clade_conv3d_transpose_(clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *opt);

/* ---- their layers: a weight parameter NAME.weight, a bias NAME.bias, and the op ---- */
typedef struct clade_nn_conv2d_opt {
  size_t size;
  clade_val x;
  int64_t out;
  int kernel[2], stride[2], pad[2], pads[4], dilation[2], groups; /* as in clade_conv2d_opt */
  bool no_bias;
  clade_dtype dtype;         /* of the variables; unset: f32 */
  clade_initial weight_init; /* unset: as PyTorch, uniform within 1 / sqrt(elements that go into a result) */
} clade_nn_conv2d_opt;
/* clade_nn_conv2d(g, "c1", x, .out = 6, .kernel = {5, 5}) */
#define clade_nn_conv2d(g, name, ...) \
  clade_nn_conv2d_(g, name, &(clade_nn_conv2d_opt){.size = sizeof(clade_nn_conv2d_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_conv2d_(clade_graph *g, const char *name, const clade_nn_conv2d_opt *opt);

typedef struct clade_nn_conv2d_transpose_opt {
  size_t size;
  clade_val x;
  int64_t out;
  int kernel[2], stride[2], pad[2], pads[4], dilation[2], groups, output_pad[2]; /* as in clade_conv2d_transpose_opt */
  bool no_bias;
  clade_dtype dtype; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init;
} clade_nn_conv2d_transpose_opt;
/* clade_nn_conv2d_transpose(g, "up1", x, .out = 16, .kernel = {4, 4}, .stride = {2, 2}, .pad = {1, 1}) */
#define clade_nn_conv2d_transpose(g, name, ...) \
  clade_nn_conv2d_transpose_(                   \
      g, name, &(clade_nn_conv2d_transpose_opt){.size = sizeof(clade_nn_conv2d_transpose_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_conv2d_transpose_(clade_graph *g, const char *name,
                                               const clade_nn_conv2d_transpose_opt *opt);

typedef struct clade_nn_conv1d_opt {
  size_t size;
  clade_val x;
  int64_t out;
  int kernel, stride, pad, pads[2], dilation, groups; /* as in clade_conv1d_opt */
  bool no_bias;
  clade_dtype dtype; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init;
  int output_pad; /* of the transposed one alone */
} clade_nn_conv1d_opt;
/* clade_nn_conv1d(g, "c1", x, .out = 32, .kernel = 9, .stride = 2) */
#define clade_nn_conv1d(g, name, ...) \
  clade_nn_conv1d_(g, name, &(clade_nn_conv1d_opt){.size = sizeof(clade_nn_conv1d_opt), .x = __VA_ARGS__})
#define clade_nn_conv1d_transpose(g, name, ...) \
  clade_nn_conv1d_transpose_(g, name, &(clade_nn_conv1d_opt){.size = sizeof(clade_nn_conv1d_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_conv1d_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt);
CLADE_API clade_val clade_nn_conv1d_transpose_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt);

typedef struct clade_nn_conv3d_opt {
  size_t size;
  clade_val x;
  int64_t out;
  int kernel[3], stride[3], pad[3], pads[6], dilation[3], groups; /* as in clade_conv3d_opt */
  bool no_bias;
  clade_dtype dtype; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init;
} clade_nn_conv3d_opt;
/* clade_nn_conv3d(g, "c1", x, .out = 32, .kernel = {3, 3, 3}, .pad = {1, 1, 1}) */
#define clade_nn_conv3d(g, name, ...) \
  clade_nn_conv3d_(g, name, &(clade_nn_conv3d_opt){.size = sizeof(clade_nn_conv3d_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_conv3d_(clade_graph *g, const char *name, const clade_nn_conv3d_opt *opt);

typedef struct clade_nn_conv3d_transpose_opt {
  size_t size;
  clade_val x;
  int64_t out;
  int kernel[3], stride[3], pad[3], pads[6], dilation[3], groups, output_pad[3]; /* as in clade_conv3d_transpose_opt */
  bool no_bias;
  clade_dtype dtype; /* as in clade_nn_conv2d_opt */
  clade_initial weight_init;
} clade_nn_conv3d_transpose_opt;
/* clade_nn_conv3d_transpose(g, "up1", x, .out = 16, .kernel = {2, 2, 2}, .stride = {2, 2, 2}) */
#define clade_nn_conv3d_transpose(g, name, ...) \
  clade_nn_conv3d_transpose_(                   \
      g, name, &(clade_nn_conv3d_transpose_opt){.size = sizeof(clade_nn_conv3d_transpose_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_conv3d_transpose_(clade_graph *g, const char *name,
                                               const clade_nn_conv3d_transpose_opt *opt);

/* ---- pooling ---- */
typedef struct clade_pool2d_opt {
  size_t size;
  clade_val x;
  int kernel[2];
  int stride[2];                    /* unset: the kernel */
  int pad[2], pads[4], dilation[2]; /* as in clade_conv2d_opt */
  bool count_pad;                   /* averages divide by the size of the kernel, not by how many pixels it covers */
} clade_pool2d_opt;
/* Of the pixels that a window covers; padding is never among them. Where it covers none the maximum is -infinity, the
 * average 0. NaN is larger than anything. The gradient of a maximum goes to the first pixel that has it. */
#define clade_max_pool2d(g, ...) clade_max_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define clade_avg_pool2d(g, ...) clade_avg_pool2d_(g, CLADE_POOL2D_OPT(__VA_ARGS__))
#define CLADE_POOL2D_OPT(...) \
  &(clade_pool2d_opt) { .size = sizeof(clade_pool2d_opt), .x = __VA_ARGS__ }
CLADE_API clade_val clade_max_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
CLADE_API clade_val clade_avg_pool2d_(clade_graph *g, const clade_pool2d_opt *opt);
/* The mean of each channel: [n, channels], as what follows is a linear layer. */
CLADE_API clade_val clade_global_avg_pool2d(clade_graph *g, clade_val x);
/* ---- normalisation: parameters NAME.weight and NAME.bias, f32 whatever the type of x ---- */
typedef struct clade_batch_norm_opt {
  size_t size;
  clade_val x;    /* [samples, channels, ...] */
  float eps;      /* unset: 1e-5 */
  float momentum; /* how far the running statistics go towards the batch's; unset: 0.1 */
} clade_batch_norm_opt;
/* Each channel by its mean and variance: in a graph for training those of the batch, which also move the variables
 * NAME.running_mean and NAME.running_var (unbiased), else those: clade_nn_batch_norm(g, "bn1", x) */
#define clade_nn_batch_norm(g, name, ...) \
  clade_nn_batch_norm_(g, name, &(clade_batch_norm_opt){.size = sizeof(clade_batch_norm_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_batch_norm_(clade_graph *g, const char *name, const clade_batch_norm_opt *opt);
/* Each row of the last n_axes dimensions by its own mean and variance; weight and bias have their shape. Here and
 * below, an invalid weight stands for ones, an invalid bias for zeros. */
CLADE_API clade_val clade_layer_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int n_axes,
                                     double eps);
/* x weight / sqrt(mean of x^2 + eps), the mean over the last n_axes dimensions. */
CLADE_API clade_val clade_rms_norm(clade_graph *g, clade_val x, clade_val weight, int n_axes, double eps);
/* x is [samples, channels, ...]: of each sample, each of so many groups of channels on end by its own mean and variance
 * over them and what follows; then by channels, [channels]. Instance normalisation: each channel is a group. */
CLADE_API clade_val clade_group_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int groups,
                                     double eps);
CLADE_API clade_val clade_instance_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, double eps);
typedef struct clade_layer_norm_opt {
  size_t size;
  clade_val x;
  int n_axes; /* the last ones; unset: 1 */
  float eps;  /* unset: 1e-5 */
} clade_layer_norm_opt;
/* clade_nn_layer_norm(g, "ln", x, .n_axes = 2) */
#define clade_nn_layer_norm(g, name, ...) \
  clade_nn_layer_norm_(g, name, &(clade_layer_norm_opt){.size = sizeof(clade_layer_norm_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_layer_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt);
/* Without a bias: clade_nn_rms_norm(g, "rms", x) */
#define clade_nn_rms_norm(g, name, ...) \
  clade_nn_rms_norm_(g, name, &(clade_layer_norm_opt){.size = sizeof(clade_layer_norm_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_rms_norm_(clade_graph *g, const char *name, const clade_layer_norm_opt *opt);
typedef struct clade_group_norm_opt {
  size_t size;
  clade_val x; /* [samples, channels, ...] */
  int groups;  /* a divisor of the channels; of clade_nn_instance_norm unset: each channel is one */
  float eps;   /* unset: 1e-5 */
} clade_group_norm_opt;
/* clade_nn_group_norm(g, "gn", x, .groups = 8); clade_nn_instance_norm(g, "in", x) */
#define clade_nn_group_norm(g, name, ...) \
  clade_nn_group_norm_(g, name, &(clade_group_norm_opt){.size = sizeof(clade_group_norm_opt), .x = __VA_ARGS__})
#define clade_nn_instance_norm(g, name, ...) \
  clade_nn_instance_norm_(g, name, &(clade_group_norm_opt){.size = sizeof(clade_group_norm_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_group_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt);
CLADE_API clade_val clade_nn_instance_norm_(clade_graph *g, const char *name, const clade_group_norm_opt *opt);

/* ---- embedding ---- */
typedef struct clade_embedding_opt {
  size_t size;
  clade_val ids; /* i32 [...]; numbers that name no row give zeros */
  int64_t count, width;
  clade_dtype dtype; /* of the parameter and the result; unset: f32 */
} clade_embedding_opt;
/* [..., width]: rows of the parameter NAME.weight [count, width], normal at first: clade_nn_embedding(g, "e", ids,
 * .count = 1000, .width = 64) */
#define clade_nn_embedding(g, name, ...) \
  clade_nn_embedding_(g, name, &(clade_embedding_opt){.size = sizeof(clade_embedding_opt), .ids = __VA_ARGS__})
CLADE_API clade_val clade_nn_embedding_(clade_graph *g, const char *name, const clade_embedding_opt *opt);

/* ---- losses: f32 scalars, means over all elements or samples, whatever the type of what is compared ---- */
typedef struct clade_cross_entropy_opt {
  size_t size;
  clade_val labels; /* i32 [...], classes from 0 on; another label makes the loss NaN */
  float smoothing;  /* this part of the target is spread over all classes */
  bool ignore;      /* samples whose label is ignore_index count for nothing; over no samples the mean is 0 */
  int32_t ignore_index;
  bool per_sample; /* the losses [...] instead of their mean; 0 for ignored ones */
} clade_cross_entropy_opt;
/* Of softmax over the last axis of logits [..., classes]: clade_cross_entropy(g, logits, labels, .smoothing = 0.1f) */
#define clade_cross_entropy(g, logits, ...) \
  clade_cross_entropy_(g, logits,           \
                       &(clade_cross_entropy_opt){.size = sizeof(clade_cross_entropy_opt), .labels = __VA_ARGS__})
CLADE_API clade_val clade_cross_entropy_(clade_graph *g, clade_val logits, const clade_cross_entropy_opt *opt);
/* Means over all elements of (x - target)^2, of |x - target|, and of what a sigmoid of logits misses of targets from 0
 * to 1: log(1 + exp(x)) - x target, without overflow. */
CLADE_API clade_val clade_mse(clade_graph *g, clade_val x, clade_val target);
CLADE_API clade_val clade_l1(clade_graph *g, clade_val x, clade_val target);
CLADE_API clade_val clade_binary_cross_entropy(clade_graph *g, clade_val logits, clade_val target);
/* i32 scalar: how many samples have the logit of their label among the k largest of the last axis. Of equal logits the
 * one with the smaller index is the larger, as for clade_arg_max. A label that names no class counts as wrong. */
CLADE_API clade_val clade_top_k_count(clade_graph *g, clade_val logits, clade_val labels, int k);

/* ---- dropout: x / (1 - p), or 0 with probability p ---- */
/* Which elements are dropped is a pure function of key, counter (an i64 scalar) and element. */
CLADE_API clade_val clade_dropout(clade_graph *g, clade_val x, double p, uint64_t key, clade_val counter);
typedef struct clade_dropout_opt {
  size_t size;
  clade_val x;
  float p; /* unset: nothing is dropped */
} clade_dropout_opt;
/* In a graph for training, else x: clade_nn_dropout(g, "d1", x, .p = 0.5f). The key is the name's, the counter a
 * variable of all such layers, "optimizer.dropout", which begins at a number of the variables' seed. */
#define clade_nn_dropout(g, name, ...) \
  clade_nn_dropout_(g, name, &(clade_dropout_opt){.size = sizeof(clade_dropout_opt), .x = __VA_ARGS__})
CLADE_API clade_val clade_nn_dropout_(clade_graph *g, const char *name, const clade_dropout_opt *opt);

CLADE_END_DECLS
#endif

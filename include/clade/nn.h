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

CLADE_END_DECLS
#endif

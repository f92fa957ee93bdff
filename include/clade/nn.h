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

CLADE_END_DECLS
#endif

/* A window that slides over height and width: what convolution and pooling share. */
#ifndef CLADE_WINDOW_H
#define CLADE_WINDOW_H

#include "op/dims.h"

/* Of each pair height comes first. Padding: top, left, bottom, right. */
typedef struct clade__window {
  int32_t kernel[2], stride[2], pad[4], dilation[2];
} clade__window;

/* Its rows in the attribute table of a struct that holds one as `window`. */
#define CLADE__WINDOW_ROWS(type)                                    \
  {"kernel", CLADE_ATTR_I32, offsetof(type, window.kernel), 2},     \
      {"stride", CLADE_ATTR_I32, offsetof(type, window.stride), 2}, \
      {"pad", CLADE_ATTR_I32, offsetof(type, window.pad), 4}, {     \
    "dilation", CLADE_ATTR_I32, offsetof(type, window.dilation), 2  \
  }

/* Sizes and options of windows are far below what 32 bits hold, so that kernels compute places without overflow. */
enum { CLADE__WINDOW_MOST = 1 << 28 };
/* That option i (negative: not one of several) is at least `least` and not too large. */
clade_status clade__window_number(const char *op, const char *name, int i, int value, int least);

/* From a builder's options, where zero means unset: a stride of `stride` or, if that is NULL, of 1. */
typedef struct clade__window_opt {
  const int *kernel, *stride, *pad, *pads, *dilation;
} clade__window_opt;
clade_status clade__window_make(const char *op, const clade__window_opt *opt, bool stride_of_kernel,
                                clade__window *out);

/* That x is [n, c, h, w] with a window that fits into its padded pixels; *y becomes how often it does:
 * [n, `channels`, …]. */
clade_status clade__window_slide(const char *op, const clade__window *window, const clade_shape *x, clade_dim channels,
                                 clade_shape *y);

/* Along one axis, which place belongs to a place p and a tap k: (p * mul + add + k * delta) / div, where that is a
 * whole number. Either from results to what the window covers, or back. */
typedef struct clade__map_1d {
  int64_t mul, add, delta, div;
} clade__map_1d;
clade__map_1d clade__window_covers(const clade__window *window, int axis);
clade__map_1d clade__window_covered_by(const clade__window *window, int axis);
/* Both axes as a kernel takes them: mul, add, delta and div of height, then those of width. */
void clade__emit_maps(clade_kernel_step *s, const clade__window *window,
                      clade__map_1d (*map)(const clade__window *, int));

#endif

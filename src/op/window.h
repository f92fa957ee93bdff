/* Sliding windows over height and width, for convolution and pooling. */
#ifndef CLADE_WINDOW_H
#define CLADE_WINDOW_H

#include "op/dims.h"

/* In each pair height comes first. Padding: top, left, bottom, right. */
typedef struct clade__window {
  int32_t kernel[2], stride[2], pad[4], dilation[2];
} clade__window;

/* Rows of the attribute table of a struct with a member `window`. */
#define CLADE__WINDOW_ROWS(type)                                    \
  {"kernel", CLADE_ATTR_I32, offsetof(type, window.kernel), 2},     \
      {"stride", CLADE_ATTR_I32, offsetof(type, window.stride), 2}, \
      {"pad", CLADE_ATTR_I32, offsetof(type, window.pad), 4}, {     \
    "dilation", CLADE_ATTR_I32, offsetof(type, window.dilation), 2  \
  }

/* Upper bound on sizes and options, so that kernels compute positions in 32 bits without overflow. */
enum { CLADE__WINDOW_MOST = 1 << 28 };
/* Checks that option i (negative: a scalar option) is at least `least` and not too large. */
clade_status clade__window_number(const char *op, const char *name, int i, int value, int least);
/* Takes an option of n numbers; an unset one, 0, becomes `least`. And .pad, or .pads, of which one may be set: first
 * the padding before each axis, then behind. */
clade_status clade__window_numbers(const char *op, const char *name, const int *from, int n, int least, int32_t *to);
clade_status clade__window_pads(const char *op, const int *pad, const int *pads, int axes, int32_t *to);

/* Makes a window from the options of a builder for pooling, where 0 means unset. An unset stride is the kernel's size.
 */
typedef struct clade__window_opt {
  const int *kernel, *stride, *pad, *pads, *dilation;
} clade__window_opt;
clade_status clade__window_make(const char *op, const clade__window_opt *opt, clade__window *out);

/* Checks that x is [n, c, h, w] and that the window fits its padded pixels; *y is [n, `channels`, positions down,
 * positions across]. */
clade_status clade__window_slide(const char *op, const clade__window *window, const clade_shape *x, clade_dim channels,
                                 clade_shape *y);

/* Index map along one axis: position p and tap k correspond to (p * mul + add + k * delta) / div, if the division is
 * exact. Maps either results to the pixels that their windows cover, or pixels to the results that cover them. */
typedef struct clade__map_1d {
  int64_t mul, add, delta, div;
} clade__map_1d;
clade__map_1d clade__window_covers(const clade__window *window, int axis);
clade__map_1d clade__window_covered_by(const clade__window *window, int axis);
int64_t clade__gcd(int64_t a, int64_t b);
/* Distance between taps that reach whole positions. */
int64_t clade__map_step(clade__map_1d map);
/* The first pixel that `taps` adjacent taps reach from position 0. */
int64_t clade__map_first(clade__map_1d map, int64_t taps);
/* Emits the maps of both axes: mul, add, delta and div of height, then of width. */
void clade__emit_maps(clade_kernel_step *s, const clade__window *window,
                      clade__map_1d (*map)(const clade__window *, int));

#endif

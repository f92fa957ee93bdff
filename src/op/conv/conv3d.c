/* Three-dimensional convolution, composed of unfold along the depth and conv2d: the slices that a window covers become
 * channels. */
#include "op/conv/build.h"
#include "op/move/unfold.h"

#include <inttypes.h>

typedef struct depth {
  clade__unfold_attrs window;
  int64_t count; /* number of window positions */
} depth;

static clade_status depth_of(const clade_conv3d_opt *opt, const int *both, int64_t in, int64_t kernel, depth *d) {
  memset(d, 0, sizeof *d);
  clade__unfold_attrs *w = &d->window;
  w->kernel = (int32_t)kernel;
  w->stride = opt->stride[0] ? opt->stride[0] : 1;
  w->dilation = opt->dilation[0] ? opt->dilation[0] : 1;
  w->pad[0] = both[0];
  w->pad[1] = both[3];
  w->size = in;
  CLADE_TRY(clade__window_number("conv3d", "stride", 0, w->stride, 1));
  CLADE_TRY(clade__window_number("conv3d", "dilation", 0, w->dilation, 1));
  int64_t extent = (kernel - 1) * w->dilation + 1, room = in + both[0] + both[3];
  if (extent > room || room > CLADE__WINDOW_MOST)
    return CLADE_FAIL(BAD_SHAPE,
                      "conv3d: the kernel covers %" PRId64 " along the depth, and x with its padding has %" PRId64
                      "; expected at least as many, %d at most",
                      extent, room, CLADE__WINDOW_MOST);
  d->count = (room - extent) / w->stride + 1;
  return CLADE_OK;
}

/* Convolves all slices: [images, channels, height, width] to the same axes. */
static clade_val slices(clade_graph *g, const clade_conv3d_opt *opt, const int *both, clade_val x, clade_val w) {
  return clade_conv2d(g, x, w, .bias = opt->bias, .stride = {opt->stride[1], opt->stride[2]},
                      .pads = {both[1], both[2], both[4], both[5]}, .dilation = {opt->dilation[1], opt->dilation[2]},
                      .groups = opt->groups);
}

/* Moves the result's channels before its depth. If `by_height`, the depth is part of the height. */
static clade_val join(clade_graph *g, clade_val y, clade_dim images, int64_t count, bool by_height) {
  clade_type type;
  if (!clade_val_ok(y) || clade_val_type(g, y, &type) != CLADE_OK) return y;
  const clade_dim *d = type.shape.dim;
  if (by_height) return clade_reshape(g, y, CLADE_SHAPE(images, d[1], count, d[2] / count, d[3]));
  clade_val split = clade_reshape(g, y, CLADE_SHAPE(images, count, d[1], d[2], d[3]));
  if (count == 1) return clade_reshape(g, split, CLADE_SHAPE(images, d[1], 1, d[2], d[3]));
  return clade_transpose(g, split, 5, (const int[]){0, 2, 1, 3, 4});
}

clade_val clade_conv3d_(clade_graph *g, clade_val x, const clade_conv3d_opt *given) {
  clade_conv3d_opt opt;
  clade_type x_type = {0}, w_type = {0};
  depth d;
  int both[6];
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "conv3d");
  if (status == CLADE_OK) status = clade__conv_shapes(g, "conv3d", x, opt.w, 5, 1, &x_type, &w_type);
  if (status == CLADE_OK) status = clade__conv_pads("conv3d", 3, opt.pad, opt.pads, both);
  const clade_dim *a = x_type.shape.dim, *b = w_type.shape.dim;
  if (status == CLADE_OK) status = depth_of(&opt, both, a[2], b[2], &d);
  if (status == CLADE_OK) status = clade__conv_bias_fits(g, "conv3d", opt.bias, b[0], w_type.dtype);
  for (int i = 1; i < 3 && status == CLADE_OK; i++) {
    status = clade__window_number("conv3d", "stride", i, opt.stride[i], 0);
    if (status == CLADE_OK) status = clade__window_number("conv3d", "dilation", i, opt.dilation[i], 0);
  }
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  bool still = d.window.kernel == 1 && d.window.stride == 1 && !both[0] && !both[3];
  bool points = still && b[3] == 1 && opt.stride[1] <= 1 && !both[1] && !both[4] &&
                a[2] * a[3] <= CLADE__WINDOW_MOST; /* then depth and height can be merged */
  clade_val w = clade_reshape(g, opt.w, CLADE_SHAPE(b[0], b[1] * b[2], b[3], b[4]));
  if (points)
    x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1], a[2] * a[3], a[4]));
  else if (d.count == 1 && !both[0] && !both[3] && a[2] == b[2]) /* one window of all slices, in order */
    x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1] * a[2], a[3], a[4]));
  else
    x = clade_reshape(g, clade__unfold(g, x, &d.window),
                      CLADE_SHAPE(clade_dim_mul(a[0], d.count), a[1] * b[2], a[3], a[4]));
  return join(g, slices(g, &opt, both, x, w), a[0], d.count, points);
}

/* Three-dimensional transposed convolution, composed of conv2d_data and fold: each slice of x produces, as channels,
 * the slices of the result that its window covers; slices of the same depth are added. */
#include "op/conv/build.h"
#include "op/move/unfold.h"

#define OP "conv3d_transpose"

typedef struct solid {
  clade__conv_attrs plane;   /* height and width */
  clade__unfold_attrs depth; /* of the result */
  clade_shape x, w, y;       /* with three spatial axes */
} solid;

static clade_status check(const clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *opt, solid *s) {
  static const char *const axes[] = {"depth", "height", "width"};
  clade_type x_type, w_type;
  int both[6];
  memset(s, 0, sizeof *s);
  CLADE_TRY(clade__conv_shapes(g, OP, x, opt->w, 5, 1, &x_type, &w_type));
  CLADE_TRY(clade__conv_pads(OP, 3, opt->pad, opt->pads, both));
  s->x = x_type.shape;
  s->w = w_type.shape;
  s->plane.groups = opt->groups ? opt->groups : 1;
  CLADE_TRY(clade__conv_back_channels(OP, &s->x, &s->w, s->plane.groups));
  s->y = CLADE_SHAPE(s->x.dim[0], s->w.dim[1] * s->plane.groups, 0, 0, 0);
  for (int i = 0; i < 3; i++) {
    const clade__conv_along a = {s->w.dim[2 + i],
                                 opt->stride[i] ? opt->stride[i] : 1,
                                 opt->dilation[i] ? opt->dilation[i] : 1,
                                 {both[i], both[3 + i]},
                                 opt->output_pad[i]};
    CLADE_TRY(clade__window_number(OP, "stride", i, a.stride, 1));
    CLADE_TRY(clade__window_number(OP, "dilation", i, a.dilation, 1));
    CLADE_TRY(clade__conv_widen(OP, axes[i], i, &a, s->x.dim[2 + i], &s->y.dim[2 + i]));
    if (i == 0) {
      s->depth = (clade__unfold_attrs){s->y.dim[2], (int32_t)a.kernel, a.stride, a.dilation, {a.pad[0], a.pad[1]}};
      continue;
    }
    clade__window *w = &s->plane.window;
    w->kernel[i - 1] = (int32_t)a.kernel;
    w->stride[i - 1] = a.stride;
    w->dilation[i - 1] = a.dilation;
    w->pad[i - 1] = a.pad[0];
    w->pad[i + 1] = a.pad[1];
  }
  return CLADE_OK;
}

/* Applies conv2d_data to all slices: [images, channels, height, width] to the given channels and lines. */
static clade_val slices(clade_graph *g, const solid *s, clade_val x, clade_val w, clade_dim images, clade_dim channels,
                        clade_dim lines) {
  const clade_dim *b = s->w.dim;
  const clade_shape y = CLADE_SHAPE(images, channels, lines, s->y.dim[4]);
  w = clade_reshape(g, w, CLADE_SHAPE(b[0], b[1] * b[2], b[3], b[4]));
  return clade__conv_node(g, &clade__op_conv2d_data, &s->plane, x, w, &y);
}

/* From [n, windows, channels, kernel, ...]. Adjacent windows that do not overlap need no addition. */
static clade_val add_up(clade_graph *g, const solid *s, clade_val y) {
  const clade__unfold_attrs *d = &s->depth;
  if (d->kernel != d->stride || d->dilation != 1 || d->size != s->x.dim[2] * d->kernel || d->pad[0])
    return clade__fold(g, y, d);
  return clade_reshape(g, clade_transpose(g, y, 6, (const int[]){0, 2, 1, 3, 4, 5}), s->y);
}

static clade_val build(clade_graph *g, const solid *s, clade_val x, clade_val w) {
  const clade__unfold_attrs *d = &s->depth;
  const clade__window *p = &s->plane.window;
  const clade_dim *a = s->x.dim, *y = s->y.dim;
  bool still = d->kernel == 1 && d->stride == 1 && !d->pad[0] && !d->pad[1];
  bool points = still && p->kernel[0] == 1 && p->stride[0] == 1 && !p->pad[0] && !p->pad[2] &&
                a[2] * a[3] <= CLADE__WINDOW_MOST; /* then depth and height can be merged */
  if (points) {
    x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1], a[2] * a[3], a[4]));
    return clade_reshape(g, slices(g, s, x, w, a[0], y[1], y[2] * y[3]), s->y);
  }
  if (a[2] == 1 && d->size == d->kernel && !d->pad[0] && !d->pad[1]) { /* one window of all slices, in order */
    x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1], a[3], a[4]));
    return clade_reshape(g, slices(g, s, x, w, a[0], y[1] * d->kernel, y[3]), s->y);
  }
  const clade_dim images = clade_dim_mul(a[0], a[2]);
  x = clade_transpose(g, x, 5, (const int[]){0, 2, 1, 3, 4});
  x = clade_reshape(g, x, CLADE_SHAPE(images, a[1], a[3], a[4]));
  x = slices(g, s, x, w, images, y[1] * d->kernel, y[3]);
  return add_up(g, s, clade_reshape(g, x, CLADE_SHAPE(a[0], a[2], y[1], d->kernel, y[3], y[4])));
}

clade_val clade_conv3d_transpose_(clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *given) {
  clade_conv3d_transpose_opt opt;
  solid s;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, OP);
  if (status == CLADE_OK) status = check(g, x, &opt, &s);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  return clade__conv_bias(g, OP, build(g, &s, x, opt.w), opt.bias);
}

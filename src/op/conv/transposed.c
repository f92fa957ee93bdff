/* Builders of transposed convolutions over one to three axes, which are a convolution's gradient with respect to its
 * input. Three axes are composed of conv2d_data and fold: each slice of x produces, as channels, the slices of the
 * result that its window covers; slices of the same depth are added. */
#include "op/conv/build.h"
#include "op/move/unfold.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct solid {
  clade__conv_axes a;
  clade__conv_attrs plane;   /* height and width */
  clade__unfold_attrs depth; /* of the result */
  clade_shape y;             /* with three spatial axes */
} solid;

/* w is [in, out / groups, ...], where `in` is the number of x's channels. */
static clade_status check_channels(const clade__conv_axes *a) {
  static const char *const kernel[] = {"depth, height, width", "height, width", "width"};
  const clade_dim have = a->x.dim[1];
  if (a->groups < 1 || have % a->groups)
    return CLADE_FAIL(INVALID, "%s: .groups is %d; expected a divisor of the %" PRId64 " channels of x", a->op,
                      a->groups, have);
  if (a->w.dim[0] != have)
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: w is for %" PRId64 " channels and x has %" PRId64 "; expected w as [in, out / groups, %s]",
                      a->op, a->w.dim[0], have, kernel[a->missing]);
  return CLADE_OK;
}

/* Size of the result along an axis: what a convolution needs to produce x's size, plus .output_pad. */
static clade_status widen(const clade__conv_axes *a, int axis, int output_pad, clade_dim *out) {
  static const char *const names[] = {"depth", "height", "width"};
  const int number = a->missing < 2 ? axis - a->missing : -1; /* of the axis in the options */
  char at[16] = "";
  CLADE_TRY(clade__window_number(a->op, "output_pad", number, output_pad, 0));
  if (number >= 0) snprintf(at, sizeof at, "[%d]", number);
  if (output_pad >= a->stride[axis])
    return CLADE_FAIL(INVALID, "%s: .output_pad%s is %d; expected less than .stride%s, which is %d", a->op, at,
                      output_pad, at, a->stride[axis]);
  const int64_t extent = (a->kernel[axis] - 1) * a->dilation[axis] + 1;
  const int64_t pad = (int64_t)a->pad[0][axis] + a->pad[1][axis];
  *out = (a->in[axis] - 1) * a->stride[axis] + extent - pad + output_pad;
  if (*out >= 1 && *out <= CLADE__WINDOW_MOST - pad) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE,
                    "%s: the %s of the result would be %" PRId64 ", of %" PRId64
                    " with stride %d, an extent of the kernel of %" PRId64 " and a padding of %" PRId64
                    "; expected 1 to %" PRId64,
                    a->op, names[axis], *out, a->in[axis], a->stride[axis], extent, pad, CLADE__WINDOW_MOST - pad);
}

static clade_status solid_of(const clade_graph *g, const char *op, int axes, clade_val x, const clade__conv_opt *opt,
                             solid *s) {
  const clade__conv_axes *a = &s->a;
  memset(s, 0, sizeof *s);
  CLADE_TRY(clade__conv_axes_of(g, op, axes, x, opt, &s->a));
  CLADE_TRY(check_channels(a));
  s->y = CLADE_SHAPE(a->x.dim[0], a->w.dim[1] * a->groups, 1, 1, 1);
  for (int i = a->missing; i < 3; i++) CLADE_TRY(widen(a, i, opt->output_pad[i - a->missing], &s->y.dim[2 + i]));
  s->depth.size = s->y.dim[2];
  s->depth.kernel = (int32_t)a->kernel[0];
  s->depth.stride = a->stride[0];
  s->depth.dilation = a->dilation[0];
  s->plane.groups = a->groups;
  for (int side = 0; side < 2; side++) {
    clade__window *w = &s->plane.window;
    s->depth.pad[side] = a->pad[side][0];
    w->kernel[side] = (int32_t)a->kernel[1 + side];
    w->stride[side] = a->stride[1 + side];
    w->dilation[side] = a->dilation[1 + side];
    for (int i = 0; i < 2; i++) w->pad[2 * side + i] = a->pad[side][1 + i];
  }
  return CLADE_OK;
}

/* Applies conv2d_data to all slices: [images, channels, height, width] to the given channels and lines. */
static clade_val slices(clade_graph *g, const solid *s, clade_val x, clade_val w, clade_dim images, clade_dim channels,
                        clade_dim lines) {
  const clade_dim *b = s->a.w.dim;
  const clade_shape y = CLADE_SHAPE(images, channels, lines, s->y.dim[4]);
  w = clade_reshape(g, w, CLADE_SHAPE(b[0], b[1] * b[2], b[3], b[4]));
  return clade__conv_node(g, &clade__op_conv2d_data, &s->plane, x, w, &y);
}

/* From [n, windows, channels, kernel, ...]. Adjacent windows that do not overlap need no addition. */
static clade_val add_up(clade_graph *g, const solid *s, clade_val y) {
  const clade__unfold_attrs *d = &s->depth;
  if (d->kernel != d->stride || d->dilation != 1 || d->size != s->a.in[0] * d->kernel || d->pad[0])
    return clade__fold(g, y, d);
  return clade_reshape(g, clade_transpose(g, y, 6, (const int[]){0, 2, 1, 3, 4, 5}), s->y);
}

static clade_val build(clade_graph *g, const solid *s, clade_val x, clade_val w) {
  const clade__unfold_attrs *d = &s->depth;
  const clade__window *p = &s->plane.window;
  const clade_dim *a = s->a.x.dim, *y = s->y.dim;
  const bool bare = !d->pad[0] && !d->pad[1], still = bare && d->kernel == 1 && d->stride == 1;
  const bool points = still && p->kernel[0] == 1 && p->stride[0] == 1 && !p->pad[0] && !p->pad[2] &&
                      a[2] * a[3] <= CLADE__WINDOW_MOST; /* then depth and height can be merged */
  if (points) {
    x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1], a[2] * a[3], a[4]));
    return clade_reshape(g, slices(g, s, x, w, a[0], y[1], y[2] * y[3]), s->y);
  }
  if (a[2] == 1 && d->size == d->kernel && bare) { /* one window of all slices, in order */
    x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1], a[3], a[4]));
    return clade_reshape(g, slices(g, s, x, w, a[0], y[1] * d->kernel, y[3]), s->y);
  }
  const clade_dim images = clade_dim_mul(a[0], a[2]);
  x = clade_transpose(g, x, 5, (const int[]){0, 2, 1, 3, 4});
  x = clade_reshape(g, x, CLADE_SHAPE(images, a[1], a[3], a[4]));
  x = slices(g, s, x, w, images, y[1] * d->kernel, y[3]);
  return add_up(g, s, clade_reshape(g, x, CLADE_SHAPE(a[0], a[2], y[1], d->kernel, y[3], y[4])));
}

static clade_val transposed(clade_graph *g, const char *op, int axes, clade_val x, const clade__conv_opt *opt) {
  solid s;
  const clade_status status = solid_of(g, op, axes, x, opt, &s);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  if (axes == 3) return clade__conv_bias(g, op, build(g, &s, x, opt->w), opt->bias);
  const clade_dim *d = s.y.dim;
  const clade_shape shape = CLADE_SHAPE(d[0], d[1], d[3], d[4]);
  if (axes == 1) x = clade__conv_lift(g, x, &s.a.x);
  const clade_val w = axes == 1 ? clade__conv_lift(g, opt->w, &s.a.w) : opt->w;
  clade_val y = clade__conv_node(g, &clade__op_conv2d_data, &s.plane, x, w, &shape);
  y = clade__conv_bias(g, op, y, opt->bias);
  return axes == 1 ? clade__conv_drop(g, y) : y;
}

clade_val clade_conv1d_transpose_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt o;
  const clade_status status = clade__opt_copy(&o, sizeof o, given, "conv1d_transpose");
  const clade__conv_opt opt = {o.w, o.bias, &o.stride, &o.pad, o.pads, &o.dilation, &o.output_pad, o.groups};
  return status == CLADE_OK ? transposed(g, "conv1d_transpose", 1, x, &opt) : clade__graph_fail(g, status, NULL);
}

clade_val clade_conv2d_transpose_(clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *given) {
  clade_conv2d_transpose_opt o;
  const clade_status status = clade__opt_copy(&o, sizeof o, given, "conv2d_transpose");
  const clade__conv_opt opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, o.output_pad, o.groups};
  return status == CLADE_OK ? transposed(g, "conv2d_transpose", 2, x, &opt) : clade__graph_fail(g, status, NULL);
}

clade_val clade_conv3d_transpose_(clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *given) {
  clade_conv3d_transpose_opt o;
  const clade_status status = clade__opt_copy(&o, sizeof o, given, "conv3d_transpose");
  const clade__conv_opt opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, o.output_pad, o.groups};
  return status == CLADE_OK ? transposed(g, "conv3d_transpose", 3, x, &opt) : clade__graph_fail(g, status, NULL);
}

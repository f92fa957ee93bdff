/* Builders of convolutions over one to three axes, and of transposed ones, which are a convolution's gradient with
 * respect to its input. One axis is a height of 1. Three are composed of planes: unfold makes the slices that a window
 * covers along the depth channels of conv2d, and fold adds the slices that conv2d_data produces as channels. */
#include <clade/nn.h>

#include "op/conv/conv.h"
#include "op/move/unfold.h"

#include <inttypes.h>
#include <stdio.h>

/* The options of a builder; arrays have an element per axis, and pads two. */
typedef struct options {
  clade_val w, bias;
  const int *stride, *pad, *pads, *dilation, *output_pad; /* the last of transposed convolutions only */
  int groups;
} options;

/* Depth, height and width. The first axes, of which there are `missing`, have size 1 if the convolution has fewer. */
typedef struct spatial {
  const char *op;
  int missing, groups;
  clade_shape x, w; /* as given */
  clade_dtype dtype;
  clade_dim in[3], kernel[3];
  int stride[3], dilation[3], pad[2][3]; /* padding before and behind */
} spatial;

/* ---- checks ---- */
/* Checks that x and w have `rank` dimensions, all of them valid sizes except the first `free` of x. */
static clade_status check_shapes(const clade_graph *g, const char *op, clade_val x, clade_val w, int rank, int free,
                                 clade_type *x_type, clade_type *w_type) {
  const clade_val values[] = {x, w};
  clade_type *types[] = {x_type, w_type};
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "w" : "x";
    char text[200];
    clade_status status = clade_val_type(g, values[i], types[i]);
    if (status != CLADE_OK) return clade__fail_in(status, "%s: %s", op, name);
    const clade_shape *shape = &types[i]->shape;
    bool fits = shape->rank == rank;
    for (int axis = i ? 0 : free; fits && axis < rank; axis++)
      fits = shape->dim[axis] >= 1 && shape->dim[axis] <= CLADE__WINDOW_MOST;
    if (!fits)
      return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s; expected %d dimensions with sizes from 1 to %d%s", op, name,
                        clade_shape_text(shape, text, sizeof text), rank, CLADE__WINDOW_MOST,
                        !i && free ? " behind the images" : "");
  }
  return clade__want_type(op, "w", w_type->dtype, x_type->dtype);
}

/* Only one of .pad and .pads may be set. */
static clade_status pads_of(const char *op, int axes, const int *pad, const int *pads, spatial *a) {
  bool symmetric = false, free = false;
  for (int i = 0; i < 2 * axes; i++) {
    symmetric = symmetric || pad[i % axes];
    free = free || pads[i];
  }
  if (symmetric && free) return CLADE_FAIL(INVALID, "%s: .pad and .pads are both set; expected one of them", op);
  for (int i = 0; i < 2 * axes; i++) {
    const int value = a->pad[i / axes][a->missing + i % axes] = symmetric ? pad[i % axes] : pads[i];
    CLADE_TRY(clade__window_number(op, symmetric ? "pad" : "pads", axes > 1 || !symmetric ? i : -1, value, 0));
  }
  return CLADE_OK;
}

static clade_status axes_of(const clade_graph *g, const char *op, int axes, clade_val x, const options *opt,
                            spatial *a) {
  clade_type x_type, w;
  CLADE_TRY(check_shapes(g, op, x, opt->w, axes + 2, axes == 1 ? 3 : 1, &x_type, &w));
  *a = (spatial){.op = op, .missing = 3 - axes, .groups = opt->groups ? opt->groups : 1, .dtype = w.dtype};
  a->x = x_type.shape;
  a->w = w.shape;
  for (int i = 0; i < 3; i++) {
    const int own = i - a->missing, number = axes > 1 ? own : -1; /* of the axis in the options */
    a->in[i] = own < 0 ? 1 : a->x.dim[2 + own];
    a->kernel[i] = own < 0 ? 1 : a->w.dim[2 + own];
    a->stride[i] = own < 0 || !opt->stride[own] ? 1 : opt->stride[own];
    a->dilation[i] = own < 0 || !opt->dilation[own] ? 1 : opt->dilation[own];
    CLADE_TRY(clade__window_number(op, "stride", number, a->stride[i], 1));
    CLADE_TRY(clade__window_number(op, "dilation", number, a->dilation[i], 1));
  }
  return pads_of(op, axes, opt->pad, opt->pads, a);
}

/* Checks that a bias has one value per channel of the result, in its type; an invalid value means no bias. */
static clade_status bias_fits(const clade_graph *g, const char *op, clade_val bias, clade_dim channels,
                              clade_dtype dtype) {
  clade_type type;
  char text[200];
  if (!bias.graph && !bias.id) return CLADE_OK;
  clade_status status = clade_val_type(g, bias, &type);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: .bias", op);
  if (type.shape.rank == 1 && type.shape.dim[0] == channels) return clade__want_type(op, ".bias", type.dtype, dtype);
  return CLADE_FAIL(BAD_SHAPE, "%s: .bias is %s; expected [%" PRId64 "], a value for each channel of the result", op,
                    clade_shape_text(&type.shape, text, sizeof text), channels);
}

static clade_val add_bias(clade_graph *g, const char *op, clade_val y, clade_val bias) {
  clade_type result;
  if (!clade_val_ok(y) || (!bias.graph && !bias.id)) return y;
  clade_status status = clade_val_type(g, y, &result);
  if (status == CLADE_OK) status = bias_fits(g, op, bias, result.shape.dim[1], result.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_shape channel = {.rank = result.shape.rank - 1, .dim = {result.shape.dim[1]}};
  for (int i = 1; i < channel.rank; i++) channel.dim[i] = 1;
  return clade_add(g, y, clade_reshape(g, bias, channel));
}

/* ---- two axes ---- */
static clade_status attrs_of(const clade_graph *g, const clade_conv2d_opt *opt, clade__conv_attrs *at) {
  clade_type w;
  char text[200];
  int kernel[2];
  memset(at, 0, sizeof *at);
  clade_status status = clade_val_type(g, opt->w, &w);
  if (status != CLADE_OK) return clade__fail_in(status, "conv2d: w");
  for (int i = 0; i < 2; i++) {
    if (w.shape.rank != 4 || w.shape.dim[2 + i] < 1 || w.shape.dim[2 + i] > INT32_MAX)
      return CLADE_FAIL(BAD_SHAPE,
                        "conv2d: w is %s; expected [out, in / groups, height, width] with a kernel of 1 x 1 at least",
                        clade_shape_text(&w.shape, text, sizeof text));
    kernel[i] = (int)w.shape.dim[2 + i];
  }
  const clade__window_opt window = {kernel, opt->stride, opt->pad, opt->pads, opt->dilation};
  at->groups = opt->groups ? opt->groups : 1;
  return clade__window_make("conv2d", &window, false, &at->window);
}

clade_val clade_conv2d_(clade_graph *g, clade_val x, const clade_conv2d_opt *given) {
  clade_conv2d_opt opt;
  clade__conv_attrs at;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "conv2d");
  if (status == CLADE_OK) status = attrs_of(g, &opt, &at);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  return add_bias(g, "conv2d", clade__conv_node(g, &clade__op_conv2d, &at, x, opt.w, NULL), opt.bias);
}

/* The height and width of a convolution: x and w are [images, channels, height, width]. */
static clade_val planes(clade_graph *g, const spatial *a, clade_val x, clade_val w, clade_val bias) {
  return clade_conv2d(g, x, w, .bias = bias, .stride = {a->stride[1], a->stride[2]},
                      .pads = {a->pad[0][1], a->pad[0][2], a->pad[1][1], a->pad[1][2]},
                      .dilation = {a->dilation[1], a->dilation[2]}, .groups = a->groups);
}

/* ---- one axis ---- */
static clade_val lift(clade_graph *g, clade_val x, const clade_shape *s) {
  return clade_reshape(g, x, CLADE_SHAPE(s->dim[0], s->dim[1], 1, s->dim[2]));
}

static clade_val drop(clade_graph *g, clade_val y) {
  clade_type type;
  if (!clade_val_ok(y) || clade_val_type(g, y, &type) != CLADE_OK) return y;
  return clade_reshape(g, y, CLADE_SHAPE(type.shape.dim[0], type.shape.dim[1], type.shape.dim[3]));
}

clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt o;
  spatial a;
  clade_status status = clade__opt_copy(&o, sizeof o, given, "conv1d");
  if (status == CLADE_OK && o.output_pad)
    status = CLADE_FAIL(INVALID, "conv1d: .output_pad is %d; only conv1d_transpose takes it", o.output_pad);
  const options opt = {o.w, o.bias, &o.stride, &o.pad, o.pads, &o.dilation, NULL, o.groups};
  if (status == CLADE_OK) status = axes_of(g, "conv1d", 1, x, &opt, &a);
  if (status == CLADE_OK) status = bias_fits(g, "conv1d", o.bias, a.w.dim[0], a.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  x = lift(g, x, &a.x);
  return drop(g, planes(g, &a, x, lift(g, o.w, &a.w), o.bias));
}

/* ---- three axes ---- */
/* The window along the depth, and the number of its positions. */
static clade_status depth_of(const spatial *a, clade__unfold_attrs *w, int64_t *count) {
  memset(w, 0, sizeof *w);
  w->kernel = (int32_t)a->kernel[0];
  w->stride = a->stride[0];
  w->dilation = a->dilation[0];
  w->pad[0] = a->pad[0][0];
  w->pad[1] = a->pad[1][0];
  w->size = a->in[0];
  const int64_t extent = (a->kernel[0] - 1) * w->dilation + 1, room = w->size + w->pad[0] + w->pad[1];
  *count = (room - extent) / w->stride + 1;
  if (extent <= room && room <= CLADE__WINDOW_MOST) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE,
                    "conv3d: the kernel covers %" PRId64 " along the depth, and x with its padding has %" PRId64
                    "; expected at least as many, %d at most",
                    extent, room, CLADE__WINDOW_MOST);
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
  clade_conv3d_opt o;
  spatial a = {0};
  clade__unfold_attrs depth;
  int64_t count;
  clade_status status = clade__opt_copy(&o, sizeof o, given, "conv3d");
  const options opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, NULL, o.groups};
  if (status == CLADE_OK) status = axes_of(g, "conv3d", 3, x, &opt, &a);
  if (status == CLADE_OK) status = depth_of(&a, &depth, &count);
  if (status == CLADE_OK) status = bias_fits(g, "conv3d", o.bias, a.w.dim[0], a.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_dim *in = a.x.dim, *b = a.w.dim;
  const bool bare = !depth.pad[0] && !depth.pad[1], still = bare && depth.kernel == 1 && depth.stride == 1;
  const bool points = still && b[3] == 1 && a.stride[1] == 1 && !a.pad[0][1] && !a.pad[1][1] &&
                      in[2] * in[3] <= CLADE__WINDOW_MOST; /* then depth and height can be merged */
  clade_val w = clade_reshape(g, o.w, CLADE_SHAPE(b[0], b[1] * b[2], b[3], b[4]));
  if (points)
    x = clade_reshape(g, x, CLADE_SHAPE(in[0], in[1], in[2] * in[3], in[4]));
  else if (count == 1 && bare && in[2] == b[2]) /* one window of all slices, in order */
    x = clade_reshape(g, x, CLADE_SHAPE(in[0], in[1] * in[2], in[3], in[4]));
  else
    x = clade_reshape(g, clade__unfold(g, x, &depth),
                      CLADE_SHAPE(clade_dim_mul(in[0], count), in[1] * b[2], in[3], in[4]));
  return join(g, planes(g, &a, x, w, o.bias), in[0], count, points);
}

/* ---- transposed ---- */
typedef struct solid {
  spatial a;
  clade__conv_attrs plane;   /* height and width */
  clade__unfold_attrs depth; /* of the result */
  clade_shape y;             /* with three spatial axes */
} solid;

/* w is [in, out / groups, ...], where `in` is the number of x's channels. */
static clade_status check_channels(const spatial *a) {
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
static clade_status widen(const spatial *a, int axis, int output_pad, clade_dim *out) {
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

static clade_status solid_of(const clade_graph *g, const char *op, int axes, clade_val x, const options *opt,
                             solid *s) {
  const spatial *a = &s->a;
  memset(s, 0, sizeof *s);
  CLADE_TRY(axes_of(g, op, axes, x, opt, &s->a));
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

static clade_val transposed(clade_graph *g, const char *op, int axes, clade_val x, const options *opt) {
  solid s;
  const clade_status status = solid_of(g, op, axes, x, opt, &s);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  if (axes == 3) return add_bias(g, op, build(g, &s, x, opt->w), opt->bias);
  const clade_dim *d = s.y.dim;
  const clade_shape shape = CLADE_SHAPE(d[0], d[1], d[3], d[4]);
  if (axes == 1) x = lift(g, x, &s.a.x);
  const clade_val w = axes == 1 ? lift(g, opt->w, &s.a.w) : opt->w;
  clade_val y = clade__conv_node(g, &clade__op_conv2d_data, &s.plane, x, w, &shape);
  y = add_bias(g, op, y, opt->bias);
  return axes == 1 ? drop(g, y) : y;
}

clade_val clade_conv1d_transpose_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt o;
  const clade_status status = clade__opt_copy(&o, sizeof o, given, "conv1d_transpose");
  const options opt = {o.w, o.bias, &o.stride, &o.pad, o.pads, &o.dilation, &o.output_pad, o.groups};
  return status == CLADE_OK ? transposed(g, "conv1d_transpose", 1, x, &opt) : clade__graph_fail(g, status, NULL);
}

clade_val clade_conv2d_transpose_(clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *given) {
  clade_conv2d_transpose_opt o;
  const clade_status status = clade__opt_copy(&o, sizeof o, given, "conv2d_transpose");
  const options opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, o.output_pad, o.groups};
  return status == CLADE_OK ? transposed(g, "conv2d_transpose", 2, x, &opt) : clade__graph_fail(g, status, NULL);
}

clade_val clade_conv3d_transpose_(clade_graph *g, clade_val x, const clade_conv3d_transpose_opt *given) {
  clade_conv3d_transpose_opt o;
  const clade_status status = clade__opt_copy(&o, sizeof o, given, "conv3d_transpose");
  const options opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, o.output_pad, o.groups};
  return status == CLADE_OK ? transposed(g, "conv3d_transpose", 3, x, &opt) : clade__graph_fail(g, status, NULL);
}

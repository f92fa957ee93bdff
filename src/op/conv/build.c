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

/* The first axes, of which there are `missing`, have size 1 if the convolution has fewer than three. */
typedef struct solid {
  const char *op;
  int missing;
  clade_shape x, w, y;                   /* with three spatial axes; the result of a transposed convolution */
  int stride[3], dilation[3], pad[2][3]; /* of depth, height and width; padding before and behind */
  clade__conv_attrs plane;               /* height and width */
  clade__unfold_attrs depth;             /* of what the windows cover */
} solid;

/* ---- checks ---- */
/* Checks that a value has the axes, all of them with valid sizes except the first `free`. */
static clade_status shape_of(const clade_graph *g, const solid *s, const char *name, clade_val v, int free,
                             clade_dtype *dtype, clade_shape *out) {
  const int rank = 5 - s->missing;
  clade_type type;
  char text[200];
  const clade_status status = clade_val_type(g, v, &type);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: %s", s->op, name);
  const clade_dim *d = type.shape.dim;
  bool fits = type.shape.rank == rank;
  for (int i = free; fits && i < rank; i++) fits = d[i] >= 1 && d[i] <= CLADE__WINDOW_MOST;
  if (!fits)
    return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s; expected %d dimensions with sizes from 1 to %d%s", s->op, name,
                      clade_shape_text(&type.shape, text, sizeof text), rank, CLADE__WINDOW_MOST,
                      free ? " behind the images" : "");
  *dtype = type.dtype;
  *out = CLADE_SHAPE(d[0], d[1], 1, 1, 1);
  for (int i = 2; i < rank; i++) out->dim[s->missing + i] = d[i];
  return CLADE_OK;
}

/* Only one of .pad and .pads may be set. */
static clade_status pads_of(const char *op, int axes, const int *pad, const int *pads, solid *s) {
  bool symmetric = false, free = false;
  for (int i = 0; i < 2 * axes; i++) {
    symmetric = symmetric || pad[i % axes];
    free = free || pads[i];
  }
  if (symmetric && free) return CLADE_FAIL(INVALID, "%s: .pad and .pads are both set; expected one of them", op);
  for (int i = 0; i < 2 * axes; i++) {
    const int value = s->pad[i / axes][s->missing + i % axes] = symmetric ? pad[i % axes] : pads[i];
    CLADE_TRY(clade__window_number(op, symmetric ? "pad" : "pads", axes > 1 || !symmetric ? i : -1, value, 0));
  }
  return CLADE_OK;
}

/* Everything but y. */
static clade_status solid_of(const clade_graph *g, const char *op, int axes, clade_val x, const options *opt,
                             solid *s) {
  clade__window *plane = &s->plane.window;
  clade_dtype types[2];
  memset(s, 0, sizeof *s);
  s->op = op;
  s->missing = 3 - axes;
  s->plane.groups = opt->groups ? opt->groups : 1;
  CLADE_TRY(shape_of(g, s, "x", x, axes == 1 ? 3 : 1, &types[0], &s->x));
  CLADE_TRY(shape_of(g, s, "w", opt->w, 0, &types[1], &s->w));
  CLADE_TRY(clade__want_type(op, "w", types[1], types[0]));
  for (int i = 0; i < 3; i++) {
    const int own = i - s->missing, number = axes > 1 ? own : -1; /* of the axis in the options */
    s->stride[i] = own < 0 || !opt->stride[own] ? 1 : opt->stride[own];
    s->dilation[i] = own < 0 || !opt->dilation[own] ? 1 : opt->dilation[own];
    CLADE_TRY(clade__window_number(op, "stride", number, s->stride[i], 1));
    CLADE_TRY(clade__window_number(op, "dilation", number, s->dilation[i], 1));
  }
  CLADE_TRY(pads_of(op, axes, opt->pad, opt->pads, s));
  s->depth.size = s->x.dim[2];
  s->depth.kernel = (int32_t)s->w.dim[2];
  s->depth.stride = s->stride[0];
  s->depth.dilation = s->dilation[0];
  for (int i = 0; i < 2; i++) {
    plane->kernel[i] = (int32_t)s->w.dim[3 + i];
    plane->stride[i] = s->stride[1 + i];
    plane->dilation[i] = s->dilation[1 + i];
    s->depth.pad[i] = s->pad[i][0];
    for (int side = 0; side < 2; side++) plane->pad[2 * side + i] = s->pad[side][1 + i];
  }
  return CLADE_OK;
}

/* Adds a bias, which has one value per channel of the result, in its type; an invalid value means no bias. */
static clade_val add_bias(clade_graph *g, const char *op, clade_val y, clade_val bias) {
  clade_type result, type;
  char text[200];
  if (!clade_val_ok(y) || (!bias.graph && !bias.id)) return y;
  clade_status status = clade_val_type(g, y, &result);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_dim channels = result.shape.dim[1];
  status = clade_val_type(g, bias, &type);
  if (status != CLADE_OK)
    clade__fail_in(status, "%s: .bias", op);
  else if (type.shape.rank != 1 || type.shape.dim[0] != channels)
    status = CLADE_FAIL(BAD_SHAPE, "%s: .bias is %s; expected [%" PRId64 "], a value for each channel of the result",
                        op, clade_shape_text(&type.shape, text, sizeof text), channels);
  else
    status = clade__want_type(op, ".bias", type.dtype, result.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_shape channel = {.rank = result.shape.rank - 1, .dim = {channels}};
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
static clade_val planes(clade_graph *g, const solid *s, clade_val x, clade_val w, clade_val bias) {
  return add_bias(g, s->op, clade__conv_node(g, &clade__op_conv2d, &s->plane, x, w, NULL), bias);
}

/* ---- one axis ---- */
static clade_val lift(clade_graph *g, clade_val x, const clade_shape *s) {
  return clade_reshape(g, x, CLADE_SHAPE(s->dim[0], s->dim[1], 1, s->dim[4]));
}

static clade_val drop(clade_graph *g, clade_val y) {
  clade_type type;
  if (!clade_val_ok(y) || clade_val_type(g, y, &type) != CLADE_OK) return y;
  return clade_reshape(g, y, CLADE_SHAPE(type.shape.dim[0], type.shape.dim[1], type.shape.dim[3]));
}

clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt o;
  solid s;
  clade_status status = clade__opt_copy(&o, sizeof o, given, "conv1d");
  if (status == CLADE_OK && o.output_pad)
    status = CLADE_FAIL(INVALID, "conv1d: .output_pad is %d; only conv1d_transpose takes it", o.output_pad);
  const options opt = {o.w, o.bias, &o.stride, &o.pad, o.pads, &o.dilation, NULL, o.groups};
  if (status == CLADE_OK) status = solid_of(g, "conv1d", 1, x, &opt, &s);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  x = lift(g, x, &s.x);
  return drop(g, planes(g, &s, x, lift(g, o.w, &s.w), o.bias));
}

/* ---- three axes ---- */
/* How planes make up a convolution over three axes: depth and height are merged, if windows are points along both; all
 * slices are channels, if one window covers them in order; or the slices of each window are. */
typedef enum way { MERGED, AT_ONCE, WINDOWS } way;
static way way_of(const solid *s, int64_t windows) {
  const clade__unfold_attrs *d = &s->depth;
  const clade__window *p = &s->plane.window;
  if (d->pad[0] || d->pad[1]) return WINDOWS;
  if (d->kernel == 1 && d->stride == 1 && p->kernel[0] == 1 && p->stride[0] == 1 && !p->pad[0] && !p->pad[2] &&
      s->x.dim[2] * s->x.dim[3] <= CLADE__WINDOW_MOST)
    return MERGED;
  return windows == 1 && d->size == d->kernel ? AT_ONCE : WINDOWS;
}

/* x as planes, unless by windows. */
static clade_val flatten(clade_graph *g, const solid *s, clade_val x, way by) {
  const clade_dim *d = s->x.dim;
  return clade_reshape(
      g, x, by == MERGED ? CLADE_SHAPE(d[0], d[1], d[2] * d[3], d[4]) : CLADE_SHAPE(d[0], d[1] * d[2], d[3], d[4]));
}

static clade_val flatten_weights(clade_graph *g, const solid *s, clade_val w) {
  const clade_dim *d = s->w.dim;
  return clade_reshape(g, w, CLADE_SHAPE(d[0], d[1] * d[2], d[3], d[4]));
}

/* The number of windows along the depth. */
static clade_status windows_of(const clade__unfold_attrs *d, int64_t *count) {
  const int64_t extent = ((int64_t)d->kernel - 1) * d->dilation + 1, room = d->size + d->pad[0] + d->pad[1];
  *count = (room - extent) / d->stride + 1;
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
  solid s;
  int64_t count;
  clade_status status = clade__opt_copy(&o, sizeof o, given, "conv3d");
  const options opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, NULL, o.groups};
  if (status == CLADE_OK) status = solid_of(g, "conv3d", 3, x, &opt, &s);
  if (status == CLADE_OK) status = windows_of(&s.depth, &count);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_dim *in = s.x.dim;
  const way by = way_of(&s, count);
  const clade_val w = flatten_weights(g, &s, o.w);
  if (by == WINDOWS)
    x = clade_reshape(g, clade__unfold(g, x, &s.depth),
                      CLADE_SHAPE(clade_dim_mul(in[0], count), in[1] * s.w.dim[2], in[3], in[4]));
  else
    x = flatten(g, &s, x, by);
  return join(g, planes(g, &s, x, w, o.bias), in[0], count, by == MERGED);
}

/* ---- transposed ---- */
/* w is [in, out / groups, ...], where `in` is the number of x's channels. */
static clade_status check_channels(const solid *s) {
  static const char *const kernel[] = {"depth, height, width", "height, width", "width"};
  const clade_dim have = s->x.dim[1];
  const int groups = s->plane.groups;
  if (groups < 1 || have % groups)
    return CLADE_FAIL(INVALID, "%s: .groups is %d; expected a divisor of the %" PRId64 " channels of x", s->op, groups,
                      have);
  if (s->w.dim[0] != have)
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: w is for %" PRId64 " channels and x has %" PRId64 "; expected w as [in, out / groups, %s]",
                      s->op, s->w.dim[0], have, kernel[s->missing]);
  return CLADE_OK;
}

/* Size of the result along an axis: what a convolution needs to produce x's size, plus .output_pad. */
static clade_status widen(const solid *s, int axis, int output_pad, clade_dim *out) {
  static const char *const names[] = {"depth", "height", "width"};
  const int number = s->missing < 2 ? axis - s->missing : -1; /* of the axis in the options */
  char at[16] = "";
  CLADE_TRY(clade__window_number(s->op, "output_pad", number, output_pad, 0));
  if (number >= 0) snprintf(at, sizeof at, "[%d]", number);
  if (output_pad >= s->stride[axis])
    return CLADE_FAIL(INVALID, "%s: .output_pad%s is %d; expected less than .stride%s, which is %d", s->op, at,
                      output_pad, at, s->stride[axis]);
  const int64_t extent = (s->w.dim[2 + axis] - 1) * s->dilation[axis] + 1;
  const int64_t pad = (int64_t)s->pad[0][axis] + s->pad[1][axis];
  *out = (s->x.dim[2 + axis] - 1) * s->stride[axis] + extent - pad + output_pad;
  if (*out >= 1 && *out <= CLADE__WINDOW_MOST - pad) return CLADE_OK;
  return CLADE_FAIL(
      BAD_SHAPE,
      "%s: the %s of the result would be %" PRId64 ", of %" PRId64
      " with stride %d, an extent of the kernel of %" PRId64 " and a padding of %" PRId64 "; expected 1 to %" PRId64,
      s->op, names[axis], *out, s->x.dim[2 + axis], s->stride[axis], extent, pad, CLADE__WINDOW_MOST - pad);
}

/* From [n, windows, channels, kernel, ...]. Adjacent windows that do not overlap need no addition. */
static clade_val add_up(clade_graph *g, const solid *s, clade_val y) {
  const clade__unfold_attrs *d = &s->depth;
  if (d->kernel != d->stride || d->dilation != 1 || d->size != s->x.dim[2] * d->kernel || d->pad[0])
    return clade__fold(g, y, d);
  return clade_reshape(g, clade_transpose(g, y, 6, (const int[]){0, 2, 1, 3, 4, 5}), s->y);
}

/* Three axes. */
static clade_val slices(clade_graph *g, const solid *s, clade_val x, clade_val w) {
  const clade_dim *a = s->x.dim, *y = s->y.dim, kernel = s->depth.kernel;
  const way by = way_of(s, a[2]);
  clade_shape out = CLADE_SHAPE(a[0], y[1] * kernel, by == MERGED ? y[2] * y[3] : y[3], y[4]);
  if (by == WINDOWS) {
    out.dim[0] = clade_dim_mul(a[0], a[2]);
    x = clade_transpose(g, x, 5, (const int[]){0, 2, 1, 3, 4});
    x = clade_reshape(g, x, CLADE_SHAPE(out.dim[0], a[1], a[3], a[4]));
  } else {
    x = flatten(g, s, x, by);
  }
  x = clade__conv_node(g, &clade__op_conv2d_data, &s->plane, x, flatten_weights(g, s, w), &out);
  if (by != WINDOWS) return clade_reshape(g, x, s->y);
  return add_up(g, s, clade_reshape(g, x, CLADE_SHAPE(a[0], a[2], y[1], kernel, y[3], y[4])));
}

static clade_val transposed(clade_graph *g, const char *op, int axes, clade_val x, const options *opt) {
  solid s;
  clade_status status = solid_of(g, op, axes, x, opt, &s);
  if (status == CLADE_OK) status = check_channels(&s);
  s.y = CLADE_SHAPE(s.x.dim[0], s.w.dim[1] * s.plane.groups, 1, 1, 1);
  for (int i = s.missing; i < 3 && status == CLADE_OK; i++)
    status = widen(&s, i, opt->output_pad[i - s.missing], &s.y.dim[2 + i]);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  s.depth.size = s.y.dim[2];
  if (axes == 3) return add_bias(g, op, slices(g, &s, x, opt->w), opt->bias);
  const clade_shape shape = CLADE_SHAPE(s.y.dim[0], s.y.dim[1], s.y.dim[3], s.y.dim[4]);
  if (axes == 1) x = lift(g, x, &s.x);
  const clade_val w = axes == 1 ? lift(g, opt->w, &s.w) : opt->w;
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

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
  const int *stride, *pad, *pads, *dilation, *output_pad; /* the last may be NULL, unless transposed */
  int groups;
  bool transposed;
} options;

/* The first axes, of which there are `missing`, have size 1 if the convolution has fewer than three. */
typedef struct solid {
  const char *op;
  int missing;
  clade_shape x, w, y;                       /* with three spatial axes; the result of a transposed convolution */
  int32_t stride[3], dilation[3], pad[2][3]; /* of depth, height and width; padding before and behind */
  clade__conv_attrs plane;                   /* height and width */
  clade__unfold_attrs depth;                 /* of what the windows cover */
} solid;
static const char *const sizes[] = {"depth, height, width", "height, width", "width"};

/* ---- checks ---- */
/* Checks that a value has the axes, all of them with valid sizes except the first `free`. */
static clade_status shape_of(const clade_graph *g, const solid *s, const char *name, const char *first, clade_val v,
                             int free, clade_dtype *dtype, clade_shape *out) {
  const int rank = 5 - s->missing;
  clade_type type;
  char text[200];
  const clade_status status = clade_val_type(g, v, &type);
  if (status != CLADE_OK) return clade__fail_in(status, "%s: %s", s->op, name);
  const clade_dim *d = type.shape.dim;
  bool fits = type.shape.rank == rank;
  for (int i = free; fits && i < rank; i++) fits = d[i] >= 1 && d[i] <= CLADE__WINDOW_MOST;
  if (!fits)
    return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s; expected [%s, %s] with sizes from 1 to %d", s->op, name,
                      clade_shape_text(&type.shape, text, sizeof text), first, sizes[s->missing], CLADE__WINDOW_MOST);
  *dtype = type.dtype;
  *out = CLADE_SHAPE(d[0], d[1], 1, 1, 1);
  for (int i = 2; i < rank; i++) out->dim[s->missing + i] = d[i];
  return CLADE_OK;
}

/* Everything but y. conv2d itself checks types, and sizes that may be symbols. */
static clade_status solid_of(const clade_graph *g, const char *op, int axes, clade_val x, const options *opt,
                             solid *s) {
  const bool own = axes == 2 && !opt->transposed;
  clade__window *plane = &s->plane.window;
  clade_dtype types[2];
  int32_t pads[6];
  memset(s, 0, sizeof *s);
  s->op = op;
  s->missing = 3 - axes;
  s->plane.groups = opt->groups ? opt->groups : 1;
  CLADE_TRY(shape_of(g, s, "x", "n, channels", x, own ? 4 : axes == 1 ? 3 : 1, &types[0], &s->x));
  CLADE_TRY(shape_of(g, s, "w", opt->transposed ? "in, out / groups" : "out, in / groups", opt->w, own ? 2 : 0,
                     &types[1], &s->w));
  if (!own) CLADE_TRY(clade__want_type(op, "w", types[1], types[0]));
  for (int i = 0; i < s->missing; i++) s->stride[i] = s->dilation[i] = 1;
  CLADE_TRY(clade__window_numbers(op, "stride", opt->stride, axes, 1, s->stride + s->missing));
  CLADE_TRY(clade__window_numbers(op, "dilation", opt->dilation, axes, 1, s->dilation + s->missing));
  CLADE_TRY(clade__window_pads(op, opt->pad, opt->pads, axes, pads));
  for (int i = 0; i < 2 * axes; i++) s->pad[i / axes][s->missing + i % axes] = pads[i];
  s->depth = (clade__unfold_attrs){
      s->x.dim[2], (int32_t)s->w.dim[2], s->stride[0], s->dilation[0], {s->pad[0][0], s->pad[1][0]}};
  for (int i = 0; i < 2; i++) {
    plane->kernel[i] = (int32_t)s->w.dim[3 + i];
    plane->stride[i] = s->stride[1 + i];
    plane->dilation[i] = s->dilation[1 + i];
    for (int side = 0; side < 2; side++) plane->pad[2 * side + i] = s->pad[side][1 + i];
  }
  return CLADE_OK;
}

/* ---- parts of the graph ---- */
/* A bias has one value per channel of the result, in its type. */
static clade_status check_bias(const clade_graph *g, const char *op, clade_val y, clade_val bias, clade_shape *to) {
  clade_type result, type;
  char text[200];
  CLADE_TRY(clade_val_type(g, y, &result));
  const clade_status status = clade_val_type(g, bias, &type);
  const clade_dim channels = result.shape.dim[1];
  if (status != CLADE_OK) return clade__fail_in(status, "%s: .bias", op);
  if (type.shape.rank != 1 || type.shape.dim[0] != channels)
    return CLADE_FAIL(BAD_SHAPE, "%s: .bias is %s; expected [%" PRId64 "], a value for each channel of the result", op,
                      clade_shape_text(&type.shape, text, sizeof text), channels);
  *to = CLADE_SHAPE(channels, 1, 1, 1);
  to->rank = result.shape.rank - 1;
  return clade__want_type(op, ".bias", type.dtype, result.dtype);
}

/* Adds a bias; an invalid value means none. */
static clade_val add_bias(clade_graph *g, const char *op, clade_val y, clade_val bias) {
  clade_shape channel;
  if (!clade_val_ok(y) || (!bias.graph && !bias.id)) return y;
  const clade_status status = check_bias(g, op, y, bias, &channel);
  return status == CLADE_OK ? clade_add(g, y, clade_reshape(g, bias, channel)) : clade__graph_fail(g, status, NULL);
}

/* A value in a shape that may be its own. */
static clade_val shaped(clade_graph *g, clade_val v, clade_shape shape) {
  clade_type type;
  if (!clade_val_ok(v) || clade_val_type(g, v, &type) != CLADE_OK) return v;
  return clade_shape_equal(&type.shape, &shape) ? v : clade_reshape(g, v, shape);
}

/* With the axes that the convolution has, from three spatial ones. */
static clade_val finished(clade_graph *g, const solid *s, clade_val v, clade_shape shape) {
  shape.rank -= s->missing;
  for (int i = 2; i < shape.rank; i++) shape.dim[i] = shape.dim[i + s->missing];
  return shaped(g, v, shape);
}

/* How planes make up a convolution: depth and height are merged, if windows are points along both; all
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
  return shaped(g, x,
                by == MERGED ? CLADE_SHAPE(d[0], d[1], d[2] * d[3], d[4]) : CLADE_SHAPE(d[0], d[1] * d[2], d[3], d[4]));
}

static clade_val flatten_weights(clade_graph *g, const solid *s, clade_val w) {
  const clade_dim *d = s->w.dim;
  return shaped(g, w, CLADE_SHAPE(d[0], d[1] * d[2], d[3], d[4]));
}

/* ---- convolutions ---- */
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
static clade_val join(clade_graph *g, const solid *s, clade_val y, int64_t count, bool by_height) {
  clade_type type;
  if (!clade_val_ok(y) || clade_val_type(g, y, &type) != CLADE_OK) return y;
  const clade_dim *d = type.shape.dim, images = s->x.dim[0];
  if (by_height || count == 1) return finished(g, s, y, CLADE_SHAPE(images, d[1], count, d[2] / count, d[3]));
  y = clade_reshape(g, y, CLADE_SHAPE(images, count, d[1], d[2], d[3]));
  return clade_transpose(g, y, 5, (const int[]){0, 2, 1, 3, 4});
}

static clade_val convolution(clade_graph *g, const char *op, int axes, clade_val x, const options *opt) {
  solid s;
  int64_t count = 1;
  clade_status status = solid_of(g, op, axes, x, opt, &s);
  if (status == CLADE_OK && opt->output_pad && *opt->output_pad)
    status = CLADE_FAIL(INVALID, "%s: .output_pad is %d; only %s_transpose takes it", op, *opt->output_pad, op);
  if (status == CLADE_OK && axes == 3) status = windows_of(&s.depth, &count);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_dim *in = s.x.dim;
  const way by = way_of(&s, count);
  const clade_val w = flatten_weights(g, &s, opt->w);
  x = by != WINDOWS ? flatten(g, &s, x, by)
                    : clade_reshape(g, clade__unfold(g, x, &s.depth),
                                    CLADE_SHAPE(clade_dim_mul(in[0], count), in[1] * s.w.dim[2], in[3], in[4]));
  x = add_bias(g, op, clade__conv_node(g, &clade__op_conv2d, &s.plane, x, w, NULL), opt->bias);
  return join(g, &s, x, count, by == MERGED);
}

/* ---- transposed ---- */
/* w is [in, out / groups, ...], where `in` is the number of x's channels. */
static clade_status check_channels(const solid *s) {
  const clade_dim have = s->x.dim[1];
  const int groups = s->plane.groups;
  if (groups < 1 || have % groups)
    return CLADE_FAIL(INVALID, "%s: .groups is %d; expected a divisor of the %" PRId64 " channels of x", s->op, groups,
                      have);
  if (s->w.dim[0] != have)
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: w is for %" PRId64 " channels and x has %" PRId64 "; expected w as [in, out / groups, %s]",
                      s->op, s->w.dim[0], have, sizes[s->missing]);
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

static clade_val transposed(clade_graph *g, const char *op, int axes, clade_val x, const options *opt) {
  solid s;
  clade_status status = solid_of(g, op, axes, x, opt, &s);
  const clade_dim *a = s.x.dim, *y = s.y.dim, kernel = s.depth.kernel;
  if (status == CLADE_OK) status = check_channels(&s);
  s.y = CLADE_SHAPE(a[0], s.w.dim[1] * s.plane.groups, 1, 1, 1);
  for (int i = s.missing; i < 3 && status == CLADE_OK; i++)
    status = widen(&s, i, opt->output_pad[i - s.missing], &s.y.dim[2 + i]);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  s.depth.size = y[2];
  const way by = way_of(&s, a[2]);
  clade_shape out = CLADE_SHAPE(a[0], y[1] * kernel, by == MERGED ? y[2] * y[3] : y[3], y[4]);
  if (by == WINDOWS) {
    out.dim[0] = clade_dim_mul(a[0], a[2]);
    x = clade_transpose(g, x, 5, (const int[]){0, 2, 1, 3, 4});
    x = clade_reshape(g, x, CLADE_SHAPE(out.dim[0], a[1], a[3], a[4]));
  } else {
    x = flatten(g, &s, x, by);
  }
  x = clade__conv_node(g, &clade__op_conv2d_data, &s.plane, x, flatten_weights(g, &s, opt->w), &out);
  if (by != WINDOWS && kernel == 1) return finished(g, &s, add_bias(g, op, x, opt->bias), s.y);
  x = by != WINDOWS ? clade_reshape(g, x, s.y)
                    : add_up(g, &s, clade_reshape(g, x, CLADE_SHAPE(a[0], a[2], y[1], kernel, y[3], y[4])));
  return add_bias(g, op, x, opt->bias);
}

/* ---- builders ---- */
/* Options of one axis are numbers, others arrays. */
#define BUILDER(NAME, OPTIONS, AXES, TRANSPOSED, OUTPUT_PAD)                                   \
  clade_val clade_##NAME##_(clade_graph *g, clade_val x, const clade_##OPTIONS##_opt *given) { \
    clade_##OPTIONS##_opt o;                                                                   \
    const clade_status status = clade__opt_copy(&o, sizeof o, given, #NAME);                   \
    const options opt = {o.w,                                                                  \
                         o.bias,                                                               \
                         (const int *)&o.stride,                                               \
                         (const int *)&o.pad,                                                  \
                         o.pads,                                                               \
                         (const int *)&o.dilation,                                             \
                         OUTPUT_PAD,                                                           \
                         o.groups,                                                             \
                         TRANSPOSED};                                                          \
    if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);                         \
    return (TRANSPOSED ? transposed : convolution)(g, #NAME, AXES, x, &opt);                   \
  }
BUILDER(conv1d, conv1d, 1, false, &o.output_pad)
BUILDER(conv2d, conv2d, 2, false, NULL)
BUILDER(conv3d, conv3d, 3, false, NULL)
BUILDER(conv1d_transpose, conv1d, 1, true, &o.output_pad)
BUILDER(conv2d_transpose, conv2d_transpose, 2, true, o.output_pad)
BUILDER(conv3d_transpose, conv3d_transpose, 3, true, o.output_pad)

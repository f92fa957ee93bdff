/* Builders of convolutions over one to three axes. One axis is a height of 1. Three are composed of unfold along the
 * depth and conv2d: the slices that a window covers become channels. */
#include "op/conv/build.h"
#include "op/move/unfold.h"

#include <inttypes.h>

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
static clade_status pads_of(const char *op, int axes, const int *pad, const int *pads, clade__conv_axes *a) {
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

clade_status clade__conv_axes_of(const clade_graph *g, const char *op, int axes, clade_val x,
                                 const clade__conv_opt *opt, clade__conv_axes *a) {
  clade_type x_type, w;
  CLADE_TRY(check_shapes(g, op, x, opt->w, axes + 2, axes == 1 ? 3 : 1, &x_type, &w));
  *a = (clade__conv_axes){.op = op, .missing = 3 - axes, .groups = opt->groups ? opt->groups : 1, .dtype = w.dtype};
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

clade_val clade__conv_bias(clade_graph *g, const char *op, clade_val y, clade_val bias) {
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
  return clade__conv_bias(g, "conv2d", clade__conv_node(g, &clade__op_conv2d, &at, x, opt.w, NULL), opt.bias);
}

/* The height and width of a convolution: x and w are [images, channels, height, width]. */
static clade_val planes(clade_graph *g, const clade__conv_axes *a, clade_val x, clade_val w, clade_val bias) {
  return clade_conv2d(g, x, w, .bias = bias, .stride = {a->stride[1], a->stride[2]},
                      .pads = {a->pad[0][1], a->pad[0][2], a->pad[1][1], a->pad[1][2]},
                      .dilation = {a->dilation[1], a->dilation[2]}, .groups = a->groups);
}

/* ---- one axis ---- */
clade_val clade__conv_lift(clade_graph *g, clade_val x, const clade_shape *s) {
  return clade_reshape(g, x, CLADE_SHAPE(s->dim[0], s->dim[1], 1, s->dim[2]));
}

clade_val clade__conv_drop(clade_graph *g, clade_val y) {
  clade_type type;
  if (!clade_val_ok(y) || clade_val_type(g, y, &type) != CLADE_OK) return y;
  return clade_reshape(g, y, CLADE_SHAPE(type.shape.dim[0], type.shape.dim[1], type.shape.dim[3]));
}

clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt o;
  clade__conv_axes a;
  clade_status status = clade__opt_copy(&o, sizeof o, given, "conv1d");
  if (status == CLADE_OK && o.output_pad)
    status = CLADE_FAIL(INVALID, "conv1d: .output_pad is %d; only conv1d_transpose takes it", o.output_pad);
  const clade__conv_opt opt = {o.w, o.bias, &o.stride, &o.pad, o.pads, &o.dilation, NULL, o.groups};
  if (status == CLADE_OK) status = clade__conv_axes_of(g, "conv1d", 1, x, &opt, &a);
  if (status == CLADE_OK) status = bias_fits(g, "conv1d", o.bias, a.w.dim[0], a.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  x = clade__conv_lift(g, x, &a.x);
  return clade__conv_drop(g, planes(g, &a, x, clade__conv_lift(g, o.w, &a.w), o.bias));
}

/* ---- three axes ---- */
/* The window along the depth, and the number of its positions. */
static clade_status depth_of(const clade__conv_axes *a, clade__unfold_attrs *w, int64_t *count) {
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
  clade__conv_axes a = {0};
  clade__unfold_attrs depth;
  int64_t count;
  clade_status status = clade__opt_copy(&o, sizeof o, given, "conv3d");
  const clade__conv_opt opt = {o.w, o.bias, o.stride, o.pad, o.pads, o.dilation, NULL, o.groups};
  if (status == CLADE_OK) status = clade__conv_axes_of(g, "conv3d", 3, x, &opt, &a);
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

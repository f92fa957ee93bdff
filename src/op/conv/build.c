/* Builders of one- and two-dimensional convolutions, and of transposed ones, which are a convolution's gradient with
 * respect to its input. */
#include "op/conv/build.h"

#include <inttypes.h>
#include <stdio.h>

clade_status clade__conv_shapes(const clade_graph *g, const char *op, clade_val x, clade_val w, int rank, int free,
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

clade_status clade__conv_bias_fits(const clade_graph *g, const char *op, clade_val bias, clade_dim channels,
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
  if (status == CLADE_OK) status = clade__conv_bias_fits(g, op, bias, result.shape.dim[1], result.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_shape channel = {.rank = result.shape.rank - 1, .dim = {result.shape.dim[1]}};
  for (int i = 1; i < channel.rank; i++) channel.dim[i] = 1;
  return clade_add(g, y, clade_reshape(g, bias, channel));
}

clade_status clade__conv_pads(const char *op, int axes, const int *pad, const int *pads, int *both) {
  bool symmetric = false, free = false;
  for (int i = 0; i < 2 * axes; i++) {
    symmetric = symmetric || pad[i % axes];
    free = free || pads[i];
  }
  if (symmetric && free) return CLADE_FAIL(INVALID, "%s: .pad and .pads are both set; expected one of them", op);
  for (int i = 0; i < 2 * axes; i++) {
    both[i] = symmetric ? pad[i % axes] : pads[i];
    CLADE_TRY(clade__window_number(op, symmetric ? "pad" : "pads", axes > 1 || !symmetric ? i : -1, both[i], 0));
  }
  return CLADE_OK;
}

/* ---- two-dimensional ---- */
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

/* ---- transposed ---- */
clade_status clade__conv_widen(const char *op, const char *axis, int i, const clade__conv_along *a, clade_dim in,
                               clade_dim *out) {
  CLADE_TRY(clade__window_number(op, "output_pad", i, a->output_pad, 0));
  char at[16] = "";
  if (i >= 0) snprintf(at, sizeof at, "[%d]", i);
  if (a->output_pad >= a->stride)
    return CLADE_FAIL(INVALID, "%s: .output_pad%s is %d; expected less than .stride%s, which is %d", op, at,
                      a->output_pad, at, a->stride);
  int64_t extent = (a->kernel - 1) * a->dilation + 1, pad = (int64_t)a->pad[0] + a->pad[1];
  int64_t size = (in - 1) * a->stride + extent - pad + a->output_pad;
  if (size < 1 || size > CLADE__WINDOW_MOST - pad)
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: the %s of the result would be %" PRId64 ", of %" PRId64
                      " with stride %d, an extent of the kernel of %" PRId64 " and a padding of %" PRId64
                      "; expected 1 to %" PRId64,
                      op, axis, size, in, a->stride, extent, pad, CLADE__WINDOW_MOST - pad);
  *out = size;
  return CLADE_OK;
}

clade_status clade__conv_back_channels(const char *op, const clade_shape *x, const clade_shape *w, int groups) {
  static const char *const kernel[] = {"width", "height, width", "depth, height, width"};
  if (groups < 1 || x->dim[1] % groups)
    return CLADE_FAIL(INVALID, "%s: .groups is %d; expected a divisor of the %" PRId64 " channels of x", op, groups,
                      x->dim[1]);
  if (w->dim[0] != x->dim[1])
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: w is for %" PRId64 " channels and x has %" PRId64 "; expected w as [in, out / groups, %s]",
                      op, w->dim[0], x->dim[1], kernel[w->rank - 3]);
  return CLADE_OK;
}

static clade_status transposed(const clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *opt,
                               clade__conv_attrs *at, clade_shape *out) {
  clade_type x_type, w;
  memset(at, 0, sizeof *at);
  CLADE_TRY(clade__conv_shapes(g, "conv2d_transpose", x, opt->w, 4, 1, &x_type, &w));
  const clade_dim *in = x_type.shape.dim;
  const int kernel[] = {(int)w.shape.dim[2], (int)w.shape.dim[3]};
  const clade__window_opt window = {kernel, opt->stride, opt->pad, opt->pads, opt->dilation};
  CLADE_TRY(clade__window_make("conv2d_transpose", &window, false, &at->window));
  at->groups = opt->groups ? opt->groups : 1;
  CLADE_TRY(clade__conv_back_channels("conv2d_transpose", &x_type.shape, &w.shape, at->groups));
  *out = CLADE_SHAPE(in[0], w.shape.dim[1] * at->groups, 0, 0);
  for (int i = 0; i < 2; i++) {
    const clade__window *own = &at->window;
    const clade__conv_along along = {
        kernel[i], own->stride[i], own->dilation[i], {own->pad[i], own->pad[i + 2]}, opt->output_pad[i]};
    CLADE_TRY(clade__conv_widen("conv2d_transpose", i ? "width" : "height", i, &along, in[2 + i], &out->dim[2 + i]));
  }
  return CLADE_OK;
}

clade_val clade_conv2d_transpose_(clade_graph *g, clade_val x, const clade_conv2d_transpose_opt *given) {
  clade_conv2d_transpose_opt opt;
  clade__conv_attrs at;
  clade_shape shape;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "conv2d_transpose");
  if (status == CLADE_OK) status = transposed(g, x, &opt, &at, &shape);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  clade_val y = clade__conv_node(g, &clade__op_conv2d_data, &at, x, opt.w, &shape);
  return clade__conv_bias(g, "conv2d_transpose", y, opt.bias);
}

/* ---- one-dimensional: a height of 1 ---- */
typedef struct line {
  clade_val x, w;
  clade_shape from, by; /* shapes as given */
  clade_dtype dtype;
  int stride, dilation, both[2];
} line;

static clade_status line_of(clade_graph *g, const char *op, clade_val x, const clade_conv1d_opt *opt, line *l) {
  clade_type x_type, w;
  CLADE_TRY(clade__conv_shapes(g, op, x, opt->w, 3, 3, &x_type, &w));
  l->stride = opt->stride ? opt->stride : 1;
  l->dilation = opt->dilation ? opt->dilation : 1;
  CLADE_TRY(clade__window_number(op, "stride", -1, l->stride, 1));
  CLADE_TRY(clade__window_number(op, "dilation", -1, l->dilation, 1));
  CLADE_TRY(clade__conv_pads(op, 1, &opt->pad, opt->pads, l->both));
  l->from = x_type.shape;
  l->by = w.shape;
  l->dtype = w.dtype;
  const clade_dim *a = l->from.dim, *b = l->by.dim;
  l->x = clade_reshape(g, x, CLADE_SHAPE(a[0], a[1], 1, a[2]));
  l->w = clade_reshape(g, opt->w, CLADE_SHAPE(b[0], b[1], 1, b[2]));
  return CLADE_OK;
}

static clade_val flat(clade_graph *g, clade_val y) {
  clade_type type;
  if (!clade_val_ok(y) || clade_val_type(g, y, &type) != CLADE_OK) return y;
  return clade_reshape(g, y, CLADE_SHAPE(type.shape.dim[0], type.shape.dim[1], type.shape.dim[3]));
}

clade_val clade_conv1d_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt opt;
  line l;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "conv1d");
  if (status == CLADE_OK && opt.output_pad)
    status = CLADE_FAIL(INVALID, "conv1d: .output_pad is %d; only conv1d_transpose takes it", opt.output_pad);
  if (status == CLADE_OK) status = line_of(g, "conv1d", x, &opt, &l);
  if (status == CLADE_OK) status = clade__conv_bias_fits(g, "conv1d", opt.bias, l.by.dim[0], l.dtype);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  return flat(g, clade_conv2d(g, l.x, l.w, .bias = opt.bias, .stride = {1, l.stride}, .dilation = {1, l.dilation},
                              .pads = {0, l.both[0], 0, l.both[1]}, .groups = opt.groups));
}

static clade_status line_back(const clade_graph *g, const line *l, const clade_conv1d_opt *opt) {
  const int groups = opt->groups ? opt->groups : 1;
  const clade__conv_along along = {l->by.dim[2], l->stride, l->dilation, {l->both[0], l->both[1]}, opt->output_pad};
  clade_dim width;
  CLADE_TRY(clade__conv_back_channels("conv1d_transpose", &l->from, &l->by, groups));
  CLADE_TRY(clade__conv_bias_fits(g, "conv1d_transpose", opt->bias, l->by.dim[1] * groups, l->dtype));
  return clade__conv_widen("conv1d_transpose", "width", -1, &along, l->from.dim[2], &width);
}

clade_val clade_conv1d_transpose_(clade_graph *g, clade_val x, const clade_conv1d_opt *given) {
  clade_conv1d_opt opt;
  line l;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "conv1d_transpose");
  if (status == CLADE_OK) status = line_of(g, "conv1d_transpose", x, &opt, &l);
  if (status == CLADE_OK) status = line_back(g, &l, &opt);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  return flat(g, clade_conv2d_transpose(g, l.x, l.w, .bias = opt.bias, .stride = {1, l.stride},
                                        .dilation = {1, l.dilation}, .pads = {0, l.both[0], 0, l.both[1]},
                                        .output_pad = {0, opt.output_pad}, .groups = opt.groups));
}

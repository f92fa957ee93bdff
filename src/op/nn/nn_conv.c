/* Convolution layers: their parameters, and the ops that use them. */
#include <inttypes.h>
#include <stdio.h>

#include "op/nn/nn.h"

/* Options that all these layers have; `axes` is the number of spatial axes. */
typedef struct layer {
  const char *kind, *name;
  clade_val x;
  int64_t out;
  int axes, groups;
  const int *kernel;
  bool transposed, no_bias;
  clade_dtype dtype;
  clade_initial weight_init;
} layer;
#define LAYER(text, n, flip, k) \
  { text, name, opt.x, opt.out, n, opt.groups, k, flip, opt.no_bias, opt.dtype, opt.weight_init }

static clade_status check(const clade_graph *g, const layer *l, clade_type *x) {
  static const char *const axes[] = {"length", "height, width", "depth, height, width"};
  char text[200];
  CLADE_TRY(clade__name_check(l->kind, l->name));
  clade_status status = clade_val_type(g, l->x, x);
  if (status != CLADE_OK) return clade__fail_in(status, "%s \"%s\": x", l->kind, l->name);
  if (x->shape.rank != l->axes + 2 || clade_dim_is_symbol(x->shape.dim[1]))
    return CLADE_FAIL(BAD_SHAPE, "%s \"%s\": x is %s; expected [n, channels, %s] with a size for channels", l->kind,
                      l->name, clade_shape_text(&x->shape, text, sizeof text), axes[l->axes - 1]);
  if (l->out < 1)
    return CLADE_FAIL(INVALID, "%s \"%s\": .out is %" PRId64 "; expected at least 1", l->kind, l->name, l->out);
  for (int i = 0; i < l->axes; i++)
    if (l->kernel[i] < 1)
      return CLADE_FAIL(INVALID, "%s \"%s\": .kernel[%d] is %d; expected at least 1", l->kind, l->name, i,
                        l->kernel[i]);
  return CLADE_OK;
}

/* In a pruned model the number of groups follows from the shape of the weight: x's channels divided by the weight's
 * second axis. */
static void take_groups(const clade_graph *g, const clade_shape *x, layer *l) {
  char name[300];
  snprintf(name, sizeof name, "%s.weight", l->name);
  const clade_shape *weight = l->groups && !l->transposed ? clade__shapes_find(&g->shapes, name) : NULL;
  if (weight && weight->rank == x->rank && weight->dim[1] > 0 && x->dim[1] / weight->dim[1] <= INT32_MAX)
    l->groups = (int)(x->dim[1] / weight->dim[1]);
}

static clade_status check_groups(const layer *l, const clade_type *x) {
  char text[200];
  if (l->groups < 0 || (l->groups && x->shape.dim[1] % l->groups))
    return CLADE_FAIL(BAD_SHAPE, "%s \"%s\": x is %s: its channels are not divisible by .groups, which is %d", l->kind,
                      l->name, clade_shape_text(&x->shape, text, sizeof text), l->groups);
  if (l->transposed && l->groups && l->out % l->groups)
    return CLADE_FAIL(INVALID, "%s \"%s\": .out is %" PRId64 ", which is not divisible by .groups, which is %d",
                      l->kind, l->name, l->out, l->groups);
  return CLADE_OK;
}

/* Creates NAME.weight and NAME.bias; the bias is invalid if the layer has none. As in PyTorch the fan-in is taken from
 * the weight's second axis, for transposed layers too. */
static clade_status parameters(clade_graph *g, layer *l, clade_val *w, clade_val *bias) {
  clade_type x;
  int64_t elements;
  clade_shape shape = {.rank = l->axes + 2}, window = {.rank = l->axes + 1};
  CLADE_TRY(check(g, l, &x));
  take_groups(g, &x.shape, l);
  CLADE_TRY(check_groups(l, &x));
  int groups = l->groups ? l->groups : 1;
  shape.dim[0] = l->transposed ? x.shape.dim[1] : l->out;
  shape.dim[1] = (l->transposed ? l->out : x.shape.dim[1]) / groups;
  for (int i = 0; i < l->axes; i++) shape.dim[2 + i] = l->kernel[i];
  memcpy(window.dim, shape.dim + 1, sizeof *window.dim * (size_t)window.rank);
  clade_status status = clade_shape_elements(&window, &elements);
  if (status == CLADE_OK) status = clade__type_check(&(clade_type){.dtype = x.dtype, .shape = shape}, true);
  if (status != CLADE_OK)
    return clade__fail_in(status, "%s \"%s\": .out is %" PRId64 ", its weight", l->kind, l->name, l->out);
  *w = clade__nn_weight(g, l->name, l->dtype, x.dtype, shape, elements, l->weight_init);
  *bias = (clade_val){0};
  if (!l->no_bias) *bias = clade__nn_parameter(g, l->name, "bias", l->dtype, x.dtype, CLADE_SHAPE(l->out), elements);
  return CLADE_OK;
}

/* Convolution and its transpose share one options struct; the op refuses .output_pad if it is not transposed. */
static clade_val line(clade_graph *g, const char *kind, const char *name, const clade_nn_conv1d_opt *given,
                      bool transposed) {
  clade_nn_conv1d_opt opt;
  clade_conv1d_opt conv = {.size = sizeof conv};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, kind);
  layer l = LAYER(kind, 1, transposed, &opt.kernel);
  if (status == CLADE_OK) status = parameters(g, &l, &conv.w, &conv.bias);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  conv.stride = opt.stride;
  conv.pad = opt.pad;
  memcpy(conv.pads, opt.pads, sizeof conv.pads);
  conv.dilation = opt.dilation;
  conv.groups = l.groups;
  conv.output_pad = opt.output_pad;
  return transposed ? clade_conv1d_transpose_(g, opt.x, &conv) : clade_conv1d_(g, opt.x, &conv);
}

clade_val clade_nn_conv1d_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt) {
  return line(g, "nn_conv1d", name, opt, false);
}
clade_val clade_nn_conv1d_transpose_(clade_graph *g, const char *name, const clade_nn_conv1d_opt *opt) {
  return line(g, "nn_conv1d_transpose", name, opt, true);
}

/* Copies the window options, which have the same names in layer and op. */
#define COPY_WINDOW(to)                                    \
  do {                                                     \
    memcpy(to.stride, opt.stride, sizeof to.stride);       \
    memcpy(to.pad, opt.pad, sizeof to.pad);                \
    memcpy(to.pads, opt.pads, sizeof to.pads);             \
    memcpy(to.dilation, opt.dilation, sizeof to.dilation); \
    to.groups = l.groups;                                  \
  } while (0)

clade_val clade_nn_conv2d_(clade_graph *g, const char *name, const clade_nn_conv2d_opt *given) {
  clade_nn_conv2d_opt opt;
  clade_conv2d_opt conv = {.size = sizeof conv};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_conv2d");
  layer l = LAYER("nn_conv2d", 2, false, opt.kernel);
  if (status == CLADE_OK) status = parameters(g, &l, &conv.w, &conv.bias);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  COPY_WINDOW(conv);
  return clade_conv2d_(g, opt.x, &conv);
}

clade_val clade_nn_conv2d_transpose_(clade_graph *g, const char *name, const clade_nn_conv2d_transpose_opt *given) {
  clade_nn_conv2d_transpose_opt opt;
  clade_conv2d_transpose_opt conv = {.size = sizeof conv};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_conv2d_transpose");
  layer l = LAYER("nn_conv2d_transpose", 2, true, opt.kernel);
  if (status == CLADE_OK) status = parameters(g, &l, &conv.w, &conv.bias);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  COPY_WINDOW(conv);
  memcpy(conv.output_pad, opt.output_pad, sizeof conv.output_pad);
  return clade_conv2d_transpose_(g, opt.x, &conv);
}

clade_val clade_nn_conv3d_(clade_graph *g, const char *name, const clade_nn_conv3d_opt *given) {
  clade_nn_conv3d_opt opt;
  clade_conv3d_opt conv = {.size = sizeof conv};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_conv3d");
  layer l = LAYER("nn_conv3d", 3, false, opt.kernel);
  if (status == CLADE_OK) status = parameters(g, &l, &conv.w, &conv.bias);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  COPY_WINDOW(conv);
  return clade_conv3d_(g, opt.x, &conv);
}

clade_val clade_nn_conv3d_transpose_(clade_graph *g, const char *name, const clade_nn_conv3d_transpose_opt *given) {
  clade_nn_conv3d_transpose_opt opt;
  clade_conv3d_transpose_opt conv = {.size = sizeof conv};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_conv3d_transpose");
  layer l = LAYER("nn_conv3d_transpose", 3, true, opt.kernel);
  if (status == CLADE_OK) status = parameters(g, &l, &conv.w, &conv.bias);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  COPY_WINDOW(conv);
  memcpy(conv.output_pad, opt.output_pad, sizeof conv.output_pad);
  return clade_conv3d_transpose_(g, opt.x, &conv);
}

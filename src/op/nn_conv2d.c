/* The convolution layer: its parameters, and the op that uses them. */
#include <inttypes.h>

#include "op/nn.h"

static clade_status check(const clade_graph *g, const char *name, const clade_nn_conv2d_opt *opt, clade_type *x) {
  char text[200];
  CLADE_TRY(clade__name_check("nn_conv2d", name));
  clade_status status = clade_val_type(g, opt->x, x);
  if (status != CLADE_OK) return clade__fail_in(status, "nn_conv2d \"%s\": x", name);
  if (x->shape.rank != 4 || clade_dim_is_symbol(x->shape.dim[1]))
    return CLADE_FAIL(SHAPE,
                      "nn_conv2d \"%s\": x is %s; expected [n, channels, height, width] with a size for channels", name,
                      clade_shape_text(&x->shape, text, sizeof text));
  if (opt->out < 1)
    return CLADE_FAIL(INVALID, "nn_conv2d \"%s\": .out is %" PRId64 "; expected at least 1", name, opt->out);
  for (int i = 0; i < 2; i++)
    if (opt->kernel[i] < 1)
      return CLADE_FAIL(INVALID, "nn_conv2d \"%s\": .kernel[%d] is %d; expected at least 1", name, i, opt->kernel[i]);
  if (opt->groups < 0 || (opt->groups && x->shape.dim[1] % opt->groups))
    return CLADE_FAIL(SHAPE, "nn_conv2d \"%s\": x is %s: its channels are not divisible by .groups, which is %d", name,
                      clade_shape_text(&x->shape, text, sizeof text), opt->groups);
  return CLADE_OK;
}

clade_val clade_nn_conv2d_(clade_graph *g, const char *name, const clade_nn_conv2d_opt *given) {
  clade_nn_conv2d_opt opt;
  clade_type x;
  int64_t elements;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_conv2d");
  if (status == CLADE_OK) status = check(g, name, &opt, &x);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  int groups = opt.groups ? opt.groups : 1;
  const clade_shape window = CLADE_SHAPE(x.shape.dim[1] / groups, opt.kernel[0], opt.kernel[1]);
  const clade_shape weight = CLADE_SHAPE(opt.out, window.dim[0], window.dim[1], window.dim[2]);
  if ((status = clade_shape_elements(&window, &elements)) != CLADE_OK) return clade__graph_fail(g, status, "nn_conv2d");
  clade_conv2d_opt conv = {.size = sizeof conv, .groups = groups};
  memcpy(conv.stride, opt.stride, sizeof conv.stride);
  memcpy(conv.pad, opt.pad, sizeof conv.pad);
  memcpy(conv.pads, opt.pads, sizeof conv.pads);
  memcpy(conv.dilation, opt.dilation, sizeof conv.dilation);
  conv.w = clade__nn_weight(g, name, opt.dtype, x.dtype, weight, elements, opt.weight_init);
  if (!opt.no_bias)
    conv.bias = clade__nn_parameter(g, name, "bias", opt.dtype, x.dtype, CLADE_SHAPE(opt.out), elements);
  return clade_conv2d_(g, opt.x, &conv);
}

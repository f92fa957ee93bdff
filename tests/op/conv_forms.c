/* Convolutions as users build them: 1D, 2D, 3D, and transposed. */
#include <clade/nn.h>

#include <math.h>

#include "conv_kit.h"

const op_form conv_forms[] = {
    {"conv2d", NULL}, {"conv1d", "winograd winograd_group bytes"}, {"conv3d", "bytes"}, {NULL, NULL}};
const op_form conv_data_forms[] = {
    {"conv2d", NULL},           {"conv1d", "winograd winograd_group"},           {"conv3d", NULL},
    {"conv2d_transpose", NULL}, {"conv1d_transpose", "winograd winograd_group"}, {NULL, NULL}};

static clade_val plane(clade_graph *g, const conv *v, clade_val x, clade_val w, clade_val bias) {
  const clade__window *own = &v->window;
  clade_conv2d_opt opt = {.size = sizeof opt, .w = w, .bias = bias, .groups = v->groups > 1 ? (int)v->groups : 0};
  bool symmetric = own->pad[0] == own->pad[2] && own->pad[1] == own->pad[3];
  for (int i = 0; i < 2; i++) {
    opt.stride[i] = own->stride[i];
    opt.dilation[i] = own->dilation[i];
    if (symmetric) opt.pad[i] = own->pad[i];
  }
  for (int i = 0; i < 4 && !symmetric; i++) opt.pads[i] = own->pad[i];
  return clade_conv2d_(g, x, &opt);
}

/* output padding of a transposed convolution */
static int more(const conv *v, int axis) {
  const clade__window *own = &v->window;
  int last = v->x.rank - 2 + axis;
  return (int)(v->x.dim[last] + own->pad[axis] + own->pad[axis + 2] - (v->y.dim[last] - 1) * own->stride[axis] -
               (own->kernel[axis] - 1) * own->dilation[axis] - 1);
}

clade_val conv_build(const op_case *c, clade_graph *g, clade_val x, clade_val w, clade_val bias) {
  const conv v = conv_of(c);
  const clade__window *own = &v.window;
  const clade__unfold_attrs *depth = &v.depth;
  const int *pad = own->pad, *stride = own->stride, *dilation = own->dilation, groups = (int)v.groups;
  switch (c->form) {
  case CONV_LINE:
    return clade_conv1d(g, x, w, .bias = bias, .stride = stride[1], .dilation = dilation[1], .groups = groups,
                        .pads = {pad[1], pad[3]});
  case CONV_LINE_TRANSPOSED:
    return clade_conv1d_transpose(g, x, w, .bias = bias, .stride = stride[1], .dilation = dilation[1], .groups = groups,
                                  .pads = {pad[1], pad[3]}, .output_pad = more(&v, 1));
  case CONV_TRANSPOSED:
    return clade_conv2d_transpose(g, x, w, .bias = bias, .stride = {stride[0], stride[1]},
                                  .dilation = {dilation[0], dilation[1]}, .groups = groups,
                                  .pads = {pad[0], pad[1], pad[2], pad[3]}, .output_pad = {more(&v, 0), more(&v, 1)});
  case CONV_SOLID:
    return clade_conv3d(g, x, w, .bias = bias, .stride = {depth->stride, stride[0], stride[1]},
                        .dilation = {depth->dilation, dilation[0], dilation[1]}, .groups = groups,
                        .pads = {depth->pad[0], pad[0], pad[1], depth->pad[1], pad[2], pad[3]});
  default: return plane(g, &v, x, w, bias);
  }
}

double conv_stored_epsilon(clade_dtype t) { return t == CLADE_F16 ? 0x1p-11 : t == CLADE_BF16 ? 0x1p-8 : 0; }

void conv_bias_reference(const op_case *c, const op_array *bias, op_array *out) {
  int64_t pixels = 1;
  for (int k = 2; k < out->shape.rank; k++) pixels *= out->shape.dim[k];
  for (int64_t i = 0; i < out->n; i++) { /* the product may be stored and rounded first */
    double added = bias->v[i / pixels % out->shape.dim[1]];
    out->bound[i] += conv_stored_epsilon(c->dtype) * (fabs(out->v[i]) + 1e-4);
    out->bound[i] += 0x1p-22 * (fabs(out->v[i]) + fabs(added) + 4);
    out->v[i] += added;
  }
}

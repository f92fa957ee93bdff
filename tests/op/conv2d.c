/* Convolutions of random shapes, windows and groups: through the builder, with a bias, and with a program at the end.
 */
#include <clade/nn.h>

#include <math.h>

#include "fft_kit.h"

enum { BIAS = 20 }; /* through the builder */

static void draw(op_case *c, op_random *r) {
  conv v = conv_draw(c, r);
  int extra = op_chance(r, 0.5);
  c->i[BIAS] = extra && (c->gradient || op_chance(r, 0.4));
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.x, .low = -2, .high = 2};
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.w, .low = -2, .high = 2};
  if (c->i[BIAS])
    c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = CLADE_SHAPE(v.y.dim[1]), .low = -2, .high = 2};
  else if (extra)
    conv_program_add(c, r, &v.y);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  conv v = conv_of(c);
  if (conv_has_program(c)) {
    clade__conv_attrs at = conv_attrs(c, &v);
    out[0] = clade_node_add(g, &clade__op_conv2d, NULL, &at, 4, in, NULL);
    return;
  }
  const clade__window *w = &v.window;
  clade_conv2d_opt opt = {.size = sizeof opt, .w = in[1], .groups = v.groups > 1 ? (int)v.groups : 0};
  bool symmetric = w->pad[0] == w->pad[2] && w->pad[1] == w->pad[3];
  for (int i = 0; i < 2; i++) {
    opt.stride[i] = w->stride[i];
    opt.dilation[i] = w->dilation[i];
    if (symmetric) opt.pad[i] = w->pad[i];
  }
  for (int i = 0; i < 4 && !symmetric; i++) opt.pads[i] = w->pad[i];
  if (c->i[BIAS]) opt.bias = in[2];
  out[0] = clade_conv2d_(g, in[0], &opt);
}

static double stored_epsilon(clade_dtype t) { return t == CLADE_F16 ? 0x1p-11 : t == CLADE_BF16 ? 0x1p-8 : 0; }

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = conv_of(c);
  op_result(out, c->dtype, v.y);
  conv_reference(&v, CONV_Y, in[0].v, in[1].v, NULL, out);
  conv_winograd_bound(c, CONV_Y, in[0].v, in[1].v, out);
  fft_kit_bound(c, CONV_Y, in[0].v, in[1].v, out);
  if (conv_has_program(c)) conv_program_reference(c, in, out);
  int64_t pixels = v.y.dim[2] * v.y.dim[3];
  for (int64_t i = 0; i < out->n && c->i[BIAS]; i++) { /* the product may be stored first */
    double more = in[2].v[i / pixels % v.y.dim[1]];
    out->bound[i] += stored_epsilon(c->dtype) * (fabs(out->v[i]) + 1e-4);
    out->bound[i] += 0x1p-22 * (fabs(out->v[i]) + fabs(more) + 4);
    out->v[i] += more;
  }
}

const op_test op_test_conv2d = {"conv2d", conv_dtypes, draw, build, reference, NULL, 0};

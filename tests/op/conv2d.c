/* Convolutions of random shapes, windows and groups: through the builder, with a bias, and with a program at the end.
 */
#include <clade/nn.h>

#include <math.h>

#include "conv_kit.h"

enum { BIAS = 20, EPILOGUE }; /* BIAS: through the builder; EPILOGUE: bias, residual and relu in the node itself */

static void draw(op_case *c, op_random *r) {
  conv v = conv_draw(c, r);
  int extra = op_chance(r, 0.5);
  c->i[BIAS] = extra && (c->gradient || op_chance(r, 0.4));
  c->i[EPILOGUE] = extra && !c->i[BIAS];
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.x, .low = -2, .high = 2};
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.w, .low = -2, .high = 2};
  clade_shape bias = c->i[BIAS] ? CLADE_SHAPE(v.y.dim[1]) : CLADE_SHAPE(v.y.dim[1], 1, 1);
  if (extra) c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = bias, .low = -2, .high = 2};
  if (c->i[EPILOGUE]) c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.y, .low = -2, .high = 2};
}

/* relu(result + input 1 + input 2) */
static clade__elt program(clade_dtype t) {
  uint8_t type = (uint8_t)t;
  uint16_t add = clade__elt_by_name("add")->number;
  clade__elt p;
  memset(&p, 0, sizeof p);
  p.n_in = 3;
  p.n_insn = 3;
  for (int i = 0; i < 3; i++) p.in_dtype[i] = type;
  p.insn[0] = (clade__elt_insn){.fn = add, .dtype = type, .arg = {0, 1}};
  p.insn[1] = (clade__elt_insn){.fn = add, .dtype = type, .arg = {3, 2}};
  p.insn[2] = (clade__elt_insn){.fn = clade__elt_by_name("relu")->number, .dtype = type, .arg = {4}};
  return p;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  conv v = conv_of(c);
  if (c->i[EPILOGUE]) {
    clade__conv_attrs at = conv_attrs(&v);
    at.epilogue = program(c->dtype);
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
  if (conv_is_loose(c)) conv_winograd_bound(&v, CONV_Y, in[0].v, in[1].v, out);
  int64_t pixels = v.y.dim[2] * v.y.dim[3];
  for (int64_t i = 0; i < out->n && c->n_in > 2; i++) {
    double more = in[2].v[i / pixels % v.y.dim[1]];
    if (c->i[BIAS]) /* the product may be stored first */
      out->bound[i] += stored_epsilon(c->dtype) * (fabs(out->v[i]) + 1e-4);
    else
      more += in[3].v[i];
    out->bound[i] += 0x1p-22 * (fabs(out->v[i]) + fabs(more) + 4);
    out->v[i] += more;
    if (c->i[EPILOGUE]) out->v[i] = fmax(0, out->v[i]);
  }
}

const op_test op_test_conv2d = {"conv2d", conv_dtypes, draw, build, reference, NULL, 0};

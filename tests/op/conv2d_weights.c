/* Weight gradient of random convolutions, as its own op, and as the derivative of 1D and 3D convolutions. */
#include "conv_kit.h"

static void draw(op_case *c, op_random *r) {
  conv v = conv_draw(c, r);
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = v.x, .low = -2, .high = 2};
  c->in[1] = (op_input){.dtype = c->dtype, .shape = v.y, .low = -2, .high = 2};
  c->differentiable = 3;
  if (c->form != CONV_PLANE) /* the differentiated operand */
    c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.w, .low = -2, .high = 2};
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  if (c->form != CONV_PLANE) {
    clade_val y = conv_build(c, g, in[0], in[2], (clade_val){0});
    clade_gradients(g, y, in[1], 1, &in[2], out);
    return;
  }
  conv v = conv_of(c);
  clade__conv_attrs at = conv_attrs(c, &v);
  out[0] = clade__conv_node(g, &clade__op_conv2d_weights, &at, in[0], in[1], &v.w);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = conv_of(c);
  op_result(out, c->dtype, v.w);
  conv_reference(&v, CONV_W, in[0].v, NULL, in[1].v, out);
  conv_winograd_bound(c, CONV_W, in[0].v, in[1].v, out);
}

const op_test op_test_conv2d_weights = {"conv2d_weights", op_computed_floats, draw, build, reference, NULL, 0,
                                        conv_forms};

/* Data gradient of random convolutions, as its own op, as the derivative of 1D and 3D convolutions, and as
 * transposed convolutions. */
#include "fft_kit.h"

enum { BIAS = 20 }; /* by the public builder */

static bool transposed(const op_case *c) { return c->form == CONV_TRANSPOSED || c->form == CONV_LINE_TRANSPOSED; }

static void draw(op_case *c, op_random *r) {
  conv v = conv_draw(c, r);
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = v.y, .low = -2, .high = 2};
  c->in[1] = (op_input){.dtype = c->dtype, .shape = v.w, .low = -2, .high = 2};
  if (c->form == CONV_PLANE) {
    if (!c->gradient && op_chance(r, 0.3)) conv_program_add(c, r, &v.x);
  } else if (!transposed(c)) { /* the differentiated operand */
    c->differentiable = 3;
    c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.x, .low = -2, .high = 2};
  } else if ((c->i[BIAS] = op_chance(r, 0.5))) {
    c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = CLADE_SHAPE(v.x.dim[1]), .low = -2, .high = 2};
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  if (transposed(c)) {
    out[0] = conv_build(c, g, in[0], in[1], c->i[BIAS] ? in[2] : (clade_val){0});
  } else if (c->form != CONV_PLANE) {
    clade_val y = conv_build(c, g, in[2], in[1], (clade_val){0});
    clade_gradients(g, y, in[0], 1, &in[2], out);
  } else {
    conv v = conv_of(c);
    clade__conv_attrs at = conv_attrs(c, &v);
    at.shape.rank = v.x.rank;
    memcpy(at.shape.dim, v.x.dim, sizeof at.shape.dim);
    out[0] = clade_node_add(g, &clade__op_conv2d_data, NULL, &at, c->n_in, in, NULL);
  }
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = conv_of(c);
  op_result(out, c->dtype, v.x);
  conv_reference(&v, CONV_X, NULL, in[1].v, in[0].v, out);
  conv_winograd_bound(c, CONV_X, in[0].v, in[1].v, out);
  fft_kit_bound(c, CONV_X, in[0].v, in[1].v, out);
  if (conv_has_program(c)) conv_program_reference(c, in, out);
  if (c->i[BIAS]) conv_bias_reference(c, &in[2], out);
}

const op_test op_test_conv2d_data = {"conv2d_data",  op_computed_floats, draw, build, reference, NULL, 0,
                                     conv_data_forms};

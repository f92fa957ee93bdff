/* Convolutions of random shapes, windows and groups: built by the public functions, with a bias, and with an
 * epilogue. */
#include "fft_kit.h"

enum { BIAS = 20 }; /* by the public builder */

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_I8, CLADE_U8, CLADE_DTYPE_NONE};

/* Full-range x and w with an i32 bias, over height and width. */
static void draw_bytes(op_case *c, op_random *r) {
  c->form = CONV_PLANE;
  const conv v = conv_draw_others(c, r, 0.6);
  const double low = c->dtype == CLADE_U8 ? 0 : -128;
  c->i[BIAS] = op_chance(r, 0.3);
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.x, .low = low, .high = low + 255};
  c->in[c->n_in++] = (op_input){.dtype = CLADE_I8, .shape = v.w, .low = -128, .high = 127};
  if (c->i[BIAS])
    c->in[c->n_in++] = (op_input){.dtype = CLADE_I32, .shape = CLADE_SHAPE(v.y.dim[1]), .low = -1e4, .high = 1e4};
}

static bool is_bytes(const op_case *c) { return c->dtype == CLADE_I8 || c->dtype == CLADE_U8; }

static void draw(op_case *c, op_random *r) {
  if (is_bytes(c)) {
    draw_bytes(c, r);
    return;
  }
  conv v = conv_draw_others(c, r, c->tiles ? 0 : 0.6);
  int extra = op_chance(r, 0.5);
  c->i[BIAS] = extra && (c->gradient || c->form != CONV_PLANE || op_chance(r, 0.4));
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.x, .low = -2, .high = 2};
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.w, .low = -2, .high = 2};
  if (c->i[BIAS])
    c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = CLADE_SHAPE(v.y.dim[1]), .low = -2, .high = 2};
  else if (extra && c->form == CONV_PLANE)
    conv_program_add(c, r, &v.y);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  conv v = conv_of(c);
  clade__conv_attrs at = conv_attrs(c, &v);
  if (conv_has_program(c))
    out[0] = clade_node_add(g, &clade__op_conv2d, NULL, &at, 4, in, NULL);
  else
    out[0] = conv_build(c, g, in[0], in[1], c->i[BIAS] ? in[2] : (clade_val){0});
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = conv_of(c);
  op_result(out, clade__dtype_row(c->dtype)->product, v.y);
  conv_reference(&v, CONV_Y, in[0].v, in[1].v, NULL, out);
  if (is_bytes(c)) { /* integer results are exact */
    for (int64_t i = 0; i < out->n; i++) {
      out->v[i] += c->i[BIAS] ? in[2].v[i / (v.y.dim[2] * v.y.dim[3]) % v.y.dim[1]] : 0;
      out->bound[i] = 0;
    }
    return;
  }
  conv_winograd_bound(c, CONV_Y, in[0].v, in[1].v, out);
  fft_kit_bound(c, CONV_Y, in[0].v, in[1].v, out);
  if (conv_has_program(c)) conv_program_reference(c, in, out);
  if (c->i[BIAS]) conv_bias_reference(c, &in[2], out);
}

const op_test op_test_conv2d = {"conv2d", dtypes, draw, build, reference, NULL, 0, conv_forms};

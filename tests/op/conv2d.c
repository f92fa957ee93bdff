/* Convolutions of random shapes, windows and groups: built by the public functions, with a bias, and with an
 * epilogue. */
#include <math.h>
#include <string.h>

#include "fft_kit.h"

enum { BIAS = 20, ENDS }; /* by the public builder; the epilogue of sums of bytes, or none */

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_I8, CLADE_U8, CLADE_DTYPE_NONE};

/* Full-range x and w with an i32 bias, over height and width. */
static void draw_bytes(op_case *c, op_random *r) {
  c->form = CONV_PLANE;
  const conv v = conv_draw(c, r);
  const double low = c->dtype == CLADE_U8 ? 0 : -128;
  c->i[BIAS] = op_chance(r, 0.3);
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = v.x, .low = low, .high = low + 255};
  c->in[c->n_in++] = (op_input){.dtype = CLADE_I8, .shape = v.w, .low = -128, .high = 127};
  if (c->i[BIAS])
    c->in[c->n_in++] = (op_input){.dtype = CLADE_I32, .shape = CLADE_SHAPE(v.y.dim[1]), .low = -1e4, .high = 1e4};
  if (c->i[BIAS] || op_chance(r, 0.5)) return;
  static const clade_dtype ends[] = {CLADE_F32, CLADE_U8, CLADE_I8};
  c->i[ENDS] = (int)ends[op_integer(r, 0, 2)];
  c->in[c->n_in++] = (op_input){.dtype = CLADE_F32, .shape = CLADE_SHAPE(v.y.dim[1], 1, 1), .low = 0, .high = 1e-2};
  c->in[c->n_in++] = (op_input){.dtype = CLADE_F32, .shape = v.y, .low = -200, .high = 200};
}

/* The sums in f32, by a scale for each channel, and a summand; perhaps rounded to bytes. */
static clade__elt requantize(const op_case *c) {
  static const char *const names[] = {"cast", "mul", "add", "round", "cast"};
  clade__elt p;
  memset(&p, 0, sizeof p);
  p.n_in = 3;
  p.in_dtype[0] = CLADE_I32;
  p.in_dtype[1] = p.in_dtype[2] = CLADE_F32;
  p.n_insn = c->i[ENDS] == CLADE_F32 ? 3 : 5;
  for (int i = 0; i < p.n_insn; i++) {
    p.insn[i] = (clade__elt_insn){
        .fn = clade__elt_by_name(names[i])->number, .dtype = CLADE_F32, .arg = {(uint8_t)(i ? i + 2 : 0)}};
    if (i == 1 || i == 2) p.insn[i].arg[1] = (uint8_t)i;
  }
  p.insn[p.n_insn - 1].dtype = (uint8_t)c->i[ENDS];
  return p;
}

static void requantized(const op_case *c, const op_array *in, op_array *out) {
  const int64_t channels = out->shape.dim[1], pixels = out->shape.dim[2] * out->shape.dim[3];
  const clade_dtype to = (clade_dtype)c->i[ENDS];
  out->dtype = to;
  for (int64_t i = 0; i < out->n; i++) {
    const double part = out->v[i] * in[2].v[i / pixels % channels], more = in[3].v[i];
    const double error = 0x1p-22 * (fabs(part) + fabs(more));
    out->v[i] = part + more;
    out->bound[i] = error;
    if (to == CLADE_F32) continue;
    const double low = (double)clade__dtype_low(to), high = (double)clade__dtype_high(to);
    const double least = fmin(fmax(nearbyint(part + more - error), low), high);
    out->v[i] = fmin(fmax(nearbyint(part + more + error), low), high);
    out->bound[i] = out->v[i] - least; /* near a tie either may come out */
  }
}

static bool is_bytes(const op_case *c) { return c->dtype == CLADE_I8 || c->dtype == CLADE_U8; }

static void draw(op_case *c, op_random *r) {
  if (is_bytes(c)) {
    draw_bytes(c, r);
    return;
  }
  conv v = conv_draw(c, r);
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
  if (c->i[ENDS]) at.epilogue = requantize(c);
  if (conv_has_program(c) || c->i[ENDS])
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
    if (c->i[ENDS]) requantized(c, in, out);
    return;
  }
  conv_winograd_bound(c, CONV_Y, in[0].v, in[1].v, out);
  fft_kit_bound(c, CONV_Y, in[0].v, in[1].v, out);
  if (conv_has_program(c)) conv_program_reference(c, in, out);
  if (c->i[BIAS]) conv_bias_reference(c, &in[2], out);
}

const op_test op_test_conv2d = {"conv2d", dtypes, draw, build, reference, NULL, 0, conv_forms};

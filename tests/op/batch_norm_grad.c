/* Derivatives of batch normalization as their own op, for arbitrary mean and deviation. */
#include <math.h>
#include <stdio.h>

#include "norm_kit.h"

enum { X, DY, WEIGHT, MEAN, RSTD };

static void draw(op_case *c, op_random *r) {
  const clade_shape x = norm_draw(c, r), channels = CLADE_SHAPE(x.dim[1]);
  c->n_in = 5;
  c->n_out = 3;
  c->in[X] = c->in[DY] = (op_input){.dtype = c->dtype, .shape = x, .low = -2, .high = 3};
  for (int i = WEIGHT; i <= RSTD; i++)
    c->in[i] = (op_input){.dtype = CLADE_F32, .shape = channels, .low = -1, .high = 2};
  c->in[RSTD].low = 0.1;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  (void)c;
  clade_node_add(g, &clade__op_batch_norm_grad, NULL, NULL, 5, in, out);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  const clade_shape *x = &in->shape;
  int64_t channels = x->dim[1], inner = 1;
  for (int i = 2; i < x->rank; i++) inner *= x->dim[i];
  int64_t count = x->dim[0] * inner;
  op_result(&out[0], c->dtype, *x);
  op_result(&out[1], CLADE_F32, in[WEIGHT].shape);
  op_result(&out[2], CLADE_F32, in[WEIGHT].shape);
  for (int64_t ch = 0; ch < channels; ch++) {
    double s = 0, q = 0, s_size = 0, q_size = 0, n = (double)count;
    double w = in[WEIGHT].v[ch], mean = in[MEAN].v[ch], rstd = in[RSTD].v[ch];
    for (int64_t k = 0; k < count; k++) {
      int64_t at = (k / inner * channels + ch) * inner + k % inner;
      double dy = in[DY].v[at], hat = (in[X].v[at] - mean) * rstd;
      s += dy, s_size += fabs(dy);
      q += dy * hat, q_size += fabs(dy * hat);
    }
    out[1].v[ch] = q, out[1].bound[ch] = 0x1p-19 * q_size;
    out[2].v[ch] = s, out[2].bound[ch] = 0x1p-19 * s_size;
    for (int64_t k = 0; k < count; k++) {
      int64_t at = (k / inner * channels + ch) * inner + k % inner;
      double dy = in[DY].v[at], hat = (in[X].v[at] - mean) * rstd;
      out[0].v[at] = w * rstd * (dy - (s + hat * q) / n);
      out[0].bound[at] = fabs(w) * rstd * (0x1p-21 * fabs(dy) + 0x1p-19 * (s_size + (1 + fabs(hat)) * q_size) / n);
    }
  }
}

const op_test op_test_batch_norm_grad = {"batch_norm_grad", op_computed_floats, draw, build, reference, NULL, 0, NULL};

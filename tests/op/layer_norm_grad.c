/* The derivatives of layer normalisation by themselves, from any mean and deviation. */
#include <math.h>
#include <stdio.h>

#include "op_test.h"

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_DTYPE_NONE};
enum { X, DY, WEIGHT, MEAN, RSTD };

static void draw(op_case *c, op_random *r) {
  clade_shape x = op_draw_shape(r, c, 1, 4, 8000), row = {0}, rows = {0};
  bool large = !c->small && op_chance(r, 0.1); /* more than one chunk, long rows */
  if (large && op_chance(r, 0.5))
    x = CLADE_SHAPE(op_integer(r, 100, 400), op_integer(r, 1, 40));
  else if (large)
    x = CLADE_SHAPE(op_integer(r, 1, 4), op_integer(r, 1000, 5000));
  int axes = large ? 1 : (int)op_integer(r, 1, x.rank);
  for (int i = 0; i < x.rank; i++) {
    clade_shape *to = i < x.rank - axes ? &rows : &row;
    to->dim[to->rank++] = x.dim[i];
  }
  c->n_in = 5;
  c->n_out = 3;
  c->in[X] = c->in[DY] = (op_input){.dtype = c->dtype, .shape = x, .low = -2, .high = 3};
  c->in[WEIGHT] = (op_input){.dtype = CLADE_F32, .shape = row, .low = -1, .high = 2};
  c->in[MEAN] = (op_input){.dtype = CLADE_F32, .shape = rows, .low = -1, .high = 2};
  c->in[RSTD] = (op_input){.dtype = CLADE_F32, .shape = rows, .low = 0.1, .high = 2};
  snprintf(c->note, sizeof c->note, "axes %d", axes);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  (void)c;
  clade_node_add(g, &clade__op_layer_norm_grad, NULL, NULL, 5, in, out);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t n = in[WEIGHT].n, rows = in[MEAN].n;
  op_result(&out[0], c->dtype, in[X].shape);
  op_result(&out[1], CLADE_F32, in[WEIGHT].shape);
  op_result(&out[2], CLADE_F32, in[WEIGHT].shape);
  for (int64_t row = 0; row < rows; row++) {
    const double *x = in[X].v + row * n, *dy = in[DY].v + row * n, *w = in[WEIGHT].v;
    double mean = in[MEAN].v[row], rstd = in[RSTD].v[row], s = 0, q = 0, size = 0, off = 0x1p-18;
    for (int64_t i = 0; i < n; i++) {
      double hat = (x[i] - mean) * rstd;
      s += dy[i] * w[i];
      q += dy[i] * w[i] * hat;
      size += fabs(dy[i] * w[i]) * (1 + fabs(hat));
      out[1].v[i] += dy[i] * hat, out[1].bound[i] += 0x1p-18 * fabs(dy[i] * hat);
      out[2].v[i] += dy[i], out[2].bound[i] += 0x1p-18 * fabs(dy[i]);
    }
    for (int64_t i = 0; i < n; i++) {
      double hat = (x[i] - mean) * rstd;
      out[0].v[row * n + i] = rstd * (dy[i] * w[i] - (s + hat * q) / (double)n);
      out[0].bound[row * n + i] = rstd * (0x1p-21 * fabs(dy[i] * w[i]) + off * (1 + fabs(hat)) * size / (double)n);
    }
  }
}

const op_test op_test_layer_norm_grad = {"layer_norm_grad", dtypes, draw, build, reference, NULL, 0};

/* Derivatives of row and group normalization as their own op, for arbitrary mean and deviation. In a third of the
 * cases some gradients are NaN or infinite. */
#include <math.h>
#include <stdio.h>

#include "op/norm/layer_norm.h"
#include "norm_kit.h"

enum { X, DY, WEIGHT, MEAN, RSTD };
enum { AXES, GROUPS, WITHOUT_MEAN };

static clade_shape rows_of_axes(op_case *c, op_random *r, clade_shape *row, clade_shape *rows) {
  clade_shape x = op_draw_shape(r, c, 1, 4, 8000);
  bool large = !c->small && op_chance(r, c->light ? 0.04 : 0.1); /* more than one chunk, long rows */
  if (large && op_chance(r, 0.5))
    x = CLADE_SHAPE(op_integer(r, 100, 400), op_integer(r, 1, 40));
  else if (large)
    x = CLADE_SHAPE(op_chance(r, 0.5) ? op_integer(r, 1, 4) : op_integer(r, 32, 40), op_integer(r, 1000, 5000));
  c->i[AXES] = large ? 1 : (int)op_integer(r, 1, x.rank);
  for (int i = 0; i < x.rank; i++) {
    clade_shape *to = i < x.rank - c->i[AXES] ? rows : row;
    to->dim[to->rank++] = x.dim[i];
  }
  c->i[WITHOUT_MEAN] = op_chance(r, 0.5);
  return x;
}

static clade_shape groups_of_channels(op_case *c, op_random *r, clade_shape *row, clade_shape *rows) {
  int64_t groups = op_integer(r, 1, c->small ? 2 : 5), each = op_integer(r, 1, c->small ? 3 : 7);
  bool many = !c->small && op_chance(r, 0.1); /* more than one sample in a chunk */
  clade_shape inner = op_draw_shape(r, c, 0, 2, c->small || many ? 16 : 3000);
  clade_shape x = CLADE_SHAPE(many ? op_integer(r, 500, 700) : op_integer(r, 0, c->small ? 2 : 4), groups * each);
  for (int i = 0; i < inner.rank; i++) x.dim[x.rank++] = inner.dim[i];
  c->i[GROUPS] = (int)groups;
  *row = CLADE_SHAPE(groups * each);
  *rows = CLADE_SHAPE(x.dim[0], groups);
  return x;
}

/* Groups of which L2 holds two, while the last-level cache does not hold all. */
static clade_shape together(op_case *c, op_random *r, clade_shape *row, clade_shape *rows) {
  int64_t groups = op_integer(r, 1, 3), each = op_integer(r, 1, 3);
  clade_shape x = CLADE_SHAPE(9, groups * each, 32 * op_integer(r, 1, c->small ? 2 : 50));
  c->i[GROUPS] = (int)groups;
  *row = CLADE_SHAPE(groups * each);
  *rows = CLADE_SHAPE(9, groups);
  if (!c->small) c->told.units = 1;
  return norm_too_large(c, x, 1 << 20);
}

static void draw(op_case *c, op_random *r) {
  clade_shape row = {0}, rows = {0}, x;
  if (c->small ? c->number == 1 : op_chance(r, 0.1))
    x = together(c, r, &row, &rows);
  else
    x = op_chance(r, 0.5) ? rows_of_axes(c, r, &row, &rows) : groups_of_channels(c, r, &row, &rows);
  c->any_units = !c->small;
  c->n_in = 5;
  c->n_out = 3;
  c->in[X] = c->in[DY] = (op_input){.dtype = c->dtype, .shape = x, .low = -2, .high = 3};
  c->in[WEIGHT] = (op_input){.dtype = CLADE_F32, .shape = row, .low = -1, .high = 2};
  c->in[MEAN] = (op_input){.dtype = CLADE_F32, .shape = rows, .low = -1, .high = 2};
  c->in[RSTD] = (op_input){.dtype = CLADE_F32, .shape = rows, .low = 0.1, .high = 2};
  snprintf(c->note, sizeof c->note, "axes %d groups %d%s", c->i[AXES], c->i[GROUPS],
           c->i[WITHOUT_MEAN] ? " without the mean's part" : "");
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__norm_attrs a;
  memset(&a, 0, sizeof a);
  a.n_axes = c->i[AXES];
  a.groups = c->i[GROUPS];
  a.rms = c->i[WITHOUT_MEAN];
  clade_node_add(g, &clade__op_layer_norm_grad, NULL, &a, 5, in, out);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  (void)c;
  if (!in[DY].n || op_chance(r, 0.67)) return;
  for (int64_t times = op_chance(r, 0.7) ? 1 : 3; times > 0; times--)
    in[DY].v[op_integer(r, 0, in[DY].n - 1)] = op_not_finite(r);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t rows = in[MEAN].n, n = rows ? in[X].n / rows : 0, weights = in[WEIGHT].n, inner = 1;
  for (int i = 2; c->i[GROUPS] && i < in[X].shape.rank; i++) inner *= in[X].shape.dim[i];
  op_result(&out[0], c->dtype, in[X].shape);
  op_result(&out[1], CLADE_F32, in[WEIGHT].shape);
  op_result(&out[2], CLADE_F32, in[WEIGHT].shape);
  for (int64_t row = 0; row < rows; row++) {
    const double *x = in[X].v + row * n, *dy = in[DY].v + row * n;
    double mean = in[MEAN].v[row], rstd = in[RSTD].v[row], s = 0, q = 0, size = 0, off = 0x1p-18;
    for (int64_t i = 0; i < n; i++) {
      int64_t at = (row * n + i) / inner % weights;
      double hat = (x[i] - mean) * rstd, w = in[WEIGHT].v[at];
      s += c->i[WITHOUT_MEAN] ? 0 : dy[i] * w;
      q += dy[i] * w * hat;
      size += fabs(dy[i] * w) * (1 + fabs(hat));
      out[1].v[at] += dy[i] * hat, out[1].bound[at] += 0x1p-18 * fabs(dy[i] * hat);
      out[2].v[at] += dy[i], out[2].bound[at] += 0x1p-18 * fabs(dy[i]);
    }
    for (int64_t i = 0; i < n; i++) {
      double hat = (x[i] - mean) * rstd, w = in[WEIGHT].v[(row * n + i) / inner % weights];
      out[0].v[row * n + i] = rstd * (dy[i] * w - (s + hat * q) / (double)n);
      out[0].bound[row * n + i] = rstd * (0x1p-21 * fabs(dy[i] * w) + off * (1 + fabs(hat)) * size / (double)n);
    }
  }
  for (int k = 0; k < c->n_out; k++)
    for (int64_t i = 0; i < out[k].n; i++)
      if (!isfinite(out[k].bound[i])) out[k].bound[i] = 0;
}

const op_test op_test_layer_norm_grad = {"layer_norm_grad", op_computed_floats, draw, build, reference, fill, 0, NULL};

/* Layer, RMS, group and instance normalization of random shapes, including means that are large relative to the
 * deviation, and without a weight or a bias. */
#include <clade/nn.h>

#include <math.h>
#include <stdio.h>

#include "norm_kit.h"

enum { KIND, AXES, GROUPS, WEIGHT, BIAS };
enum { LAYER, RMS, GROUP, INSTANCE };
enum { EPS };

/* The last axes, or [samples, channels, ...] with a number of channels that has divisors. */
static clade_shape rows_of_axes(op_case *c, op_random *r, clade_shape *row) {
  clade_shape x = op_draw_shape(r, c, 1, 4, c->gradient ? 40 : 8000);
  if (!c->small && !c->gradient && op_chance(r, 0.1)) x = CLADE_SHAPE(op_integer(r, 1, 4), op_integer(r, 1000, 5000));
  c->i[AXES] = (int)op_integer(r, 1, x.rank);
  for (int i = x.rank - c->i[AXES]; i < x.rank; i++) row->dim[row->rank++] = x.dim[i];
  return x;
}
static clade_shape groups_of_channels(op_case *c, op_random *r, clade_shape *row) {
  bool few = c->small || c->gradient;
  int64_t groups = op_integer(r, 1, few ? 2 : 5), each = c->i[KIND] == INSTANCE ? 1 : op_integer(r, 1, few ? 3 : 7);
  clade_shape inner = op_draw_shape(r, c, 0, 3, c->gradient ? 6 : few ? 16 : 3000);
  clade_shape x = CLADE_SHAPE(op_chance(r, 0.05) && !c->gradient ? 0 : op_integer(r, 1, few ? 2 : 4), groups * each);
  for (int i = 0; i < inner.rank; i++) x.dim[x.rank++] = inner.dim[i];
  c->i[GROUPS] = (int)groups;
  *row = CLADE_SHAPE(groups * each);
  return x;
}

static void draw(op_case *c, op_random *r) {
  clade_shape row = {0}, x;
  const bool large = !c->gradient && (c->small ? c->number == 1 : op_chance(r, 0.1)); /* for the L2 cache */
  c->any_units = !c->small;
  c->i[KIND] = (int)op_integer(r, large ? GROUP : LAYER, INSTANCE);
  x = c->i[KIND] < GROUP ? rows_of_axes(c, r, &row) : groups_of_channels(c, r, &row);
  if (large) { /* L2 holds less than one row, or one but not two */
    const int64_t inner = 32 * op_integer(r, 1, c->small ? 2 : 50), n = row.dim[0] / c->i[GROUPS] * inner;
    const uint64_t cache = c->small || op_chance(r, 0.7) ? (uint64_t)(2 * n) * sizeof(float) : 1;
    x = norm_too_large(c, CLADE_SHAPE(9, row.dim[0], inner), cache);
    if (!c->small) c->told.units = 1;
  }
  double center = c->gradient || op_chance(r, 0.5) ? 0 : op_uniform(r, -100, 100);
  c->i[WEIGHT] = op_chance(r, 0.8);
  c->i[BIAS] = c->i[KIND] != RMS && op_chance(r, 0.8);
  c->n_in = 1 + c->i[WEIGHT] + c->i[BIAS];
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x, .low = center - 2, .high = center + 2};
  for (int i = 1; i < 3; i++) c->in[i] = (op_input){.dtype = CLADE_F32, .shape = row, .low = -1.5, .high = 2};
  c->f[EPS] = c->gradient ? 0.1 : op_chance(r, 0.5) ? 1e-5 : 1e-2;
  snprintf(c->note, sizeof c->note, "%s axes %d groups %d%s%s center %g eps %g",
           (const char *[]){"layer", "rms", "group", "instance"}[c->i[KIND]], c->i[AXES], c->i[GROUPS],
           c->i[WEIGHT] ? " weight" : "", c->i[BIAS] ? " bias" : "", center, c->f[EPS]);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  const clade_val none = {0}, weight = c->i[WEIGHT] ? in[1] : none, bias = c->i[BIAS] ? in[1 + c->i[WEIGHT]] : none;
  switch (c->i[KIND]) {
  case LAYER: out[0] = clade_layer_norm(g, in[0], weight, bias, c->i[AXES], c->f[EPS]); break;
  case RMS: out[0] = clade_rms_norm(g, in[0], weight, c->i[AXES], c->f[EPS]); break;
  case GROUP: out[0] = clade_group_norm(g, in[0], weight, bias, c->i[GROUPS], c->f[EPS]); break;
  default: out[0] = clade_instance_norm(g, in[0], weight, bias, c->f[EPS]); break;
  }
}

static int64_t product(const clade_shape *x, int from) {
  int64_t n = 1;
  for (int i = from; i < x->rank; i++) n *= x->dim[i];
  return n;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  const clade_shape *x = &in->shape;
  bool groups = c->i[KIND] >= GROUP;
  int64_t inner = groups ? product(x, 2) : 1,
          n = groups ? product(x, 1) / c->i[GROUPS] : product(x, x->rank - c->i[AXES]);
  int64_t weights = groups ? x->dim[1] : n;
  op_result(out, c->dtype, *x);
  for (int64_t row = 0; n && row < in->n / n; row++) {
    const double *v = in->v + row * n;
    double mean = 0, var = 0, size = 0;
    for (int64_t i = 0; i < n; i++) mean += v[i] / (double)n, size += fabs(v[i]) / (double)n;
    if (c->i[KIND] == RMS) mean = size = 0;
    for (int64_t i = 0; i < n; i++) var += (v[i] - mean) * (v[i] - mean) / (double)n;
    double rstd = 1 / sqrt(var + (double)(float)c->f[EPS]);
    double off_mean = c->i[KIND] == RMS ? 0 : 0x1p-20 * sqrt(var) + 0x1p-22 * size;
    double off_var = 0x1p-19 * var + 4 * off_mean * off_mean;
    for (int64_t i = 0; i < n; i++) {
      int64_t at = (row * n + i) / inner % weights;
      double hat = (v[i] - mean) * rstd, w = c->i[WEIGHT] ? in[1].v[at] : 1;
      double b = c->i[BIAS] ? in[1 + c->i[WEIGHT]].v[at] : 0;
      out->v[row * n + i] = hat * w + b;
      out->bound[row * n + i] =
          fabs(w) * rstd * (off_mean + fabs(hat) * (off_var * rstd + 0x1p-21 / rstd)) + 0x1p-22 * fabs(b);
    }
  }
}

const op_test op_test_layer_norm = {"layer_norm", op_computed_floats, draw, build, reference, NULL, 0, NULL};

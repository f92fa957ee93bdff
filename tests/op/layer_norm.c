/* Layer normalisation of random shapes, also where the mean is large beside the deviation. */
#include <clade/nn.h>

#include <math.h>
#include <stdio.h>

#include "op_test.h"

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_DTYPE_NONE};
enum { AXES };
enum { EPS };

static void draw(op_case *c, op_random *r) {
  clade_shape x = op_draw_shape(r, c, 1, 4, c->gradient ? 40 : 8000), row = {0};
  if (!c->small && !c->gradient && op_chance(r, 0.1)) x = CLADE_SHAPE(op_integer(r, 1, 4), op_integer(r, 1000, 5000));
  int axes = (int)op_integer(r, 1, x.rank);
  for (int i = x.rank - axes; i < x.rank; i++) row.dim[row.rank++] = x.dim[i];
  double centre = c->gradient || op_chance(r, 0.5) ? 0 : op_uniform(r, -100, 100);
  c->n_in = 3;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x, .low = centre - 2, .high = centre + 2};
  for (int i = 1; i < 3; i++) c->in[i] = (op_input){.dtype = CLADE_F32, .shape = row, .low = -1.5, .high = 2};
  c->i[AXES] = axes;
  c->f[EPS] = c->gradient ? 0.1 : op_chance(r, 0.5) ? 1e-5 : 1e-2;
  snprintf(c->note, sizeof c->note, "axes %d centre %g eps %g", axes, centre, c->f[EPS]);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade_layer_norm(g, in[0], in[1], in[2], c->i[AXES], c->f[EPS]);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t n = in[1].n;
  op_result(out, c->dtype, in->shape);
  for (int64_t row = 0; n && row < in->n / n; row++) {
    const double *x = in->v + row * n;
    double mean = 0, var = 0, size = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n, size += fabs(x[i]) / (double)n;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)n;
    double rstd = 1 / sqrt(var + (double)(float)c->f[EPS]);
    double off_mean = 0x1p-20 * sqrt(var) + 0x1p-22 * size, off_var = 0x1p-19 * var + 4 * off_mean * off_mean;
    for (int64_t i = 0; i < n; i++) {
      double hat = (x[i] - mean) * rstd, w = in[1].v[i], b = in[2].v[i];
      out->v[row * n + i] = hat * w + b;
      out->bound[row * n + i] =
          fabs(w) * rstd * (off_mean + fabs(hat) * (off_var * rstd + 0x1p-21 / rstd)) + 0x1p-22 * fabs(b);
    }
  }
}

const op_test op_test_layer_norm = {"layer_norm", dtypes, draw, build, reference, NULL, 0};

/* The perceptron in double; each value carries a bound on the error of a float computation. */
#include "cli/reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/base.h"

/* A value and the bound on its error in float. */
typedef struct ranged {
  double value, error;
} ranged;

typedef struct layer {
  float *weight, *bias;
  int in, out;
} layer;

enum { SAFETY = 6 };
static const double unit = FLT_EPSILON / 2; /* unit roundoff of f32 */

/* Reads exactly `elements` floats. */
static clade_status read_variable(const clade_vars *vars, const char *part, int number, int elements, float **data) {
  char name[32];
  snprintf(name, sizeof name, "fc%d.%s", number + 1, part);
  if (!(*data = clade__new((size_t)elements, sizeof **data))) return CLADE_NO_MEMORY;
  return clade_vars_get(vars, name, *data, (size_t)elements * sizeof **data);
}

static clade_status read_layer(const clade_vars *vars, int number, layer *l) {
  l->in = mlp_width[number];
  l->out = mlp_width[number + 1];
  CLADE_TRY(read_variable(vars, "weight", number, l->in * l->out, &l->weight));
  return read_variable(vars, "bias", number, l->out, &l->bias);
}

/* Rounding errors of a float sum of n products act like independent random variables with mean 0: with high
 * probability they stay within SAFETY sqrt(n) u times the sum of the products' magnitudes (Higham and Mary, 2019),
 * and errors of the inputs add in quadrature. A worst-case bound would be too wide to detect faults. */
static void linear(const layer *l, const ranged *x, bool relu, ranged *y) {
  double gamma = SAFETY * sqrt(l->in + 2.0) * unit;
  for (int o = 0; o < l->out; ++o) {
    double sum = l->bias[o], size = fabs(sum), squares = 0;
    for (int i = 0; i < l->in; ++i) {
      double w = l->weight[o * l->in + i];
      sum += w * x[i].value;
      size += fabs(w * x[i].value);
      squares += w * w * x[i].error * x[i].error;
    }
    y[o] = (ranged){relu && sum < 0 ? 0 : sum, sqrt(squares) + gamma * size};
  }
}

/* OpenCL allows exp an error of 3 ulp and a division 2.5 ulp. The difference to the largest element is rounded
 * before. */
static void softmax(const ranged *x, int n, ranged *p) {
  double largest = -INFINITY, sum = 0, shift = 0;
  for (int i = 0; i < n; ++i) {
    largest = fmax(largest, x[i].value);
    shift = fmax(shift, x[i].error);
  }
  for (int i = 0; i < n; ++i) sum += exp(x[i].value - largest);
  for (int i = 0; i < n; ++i) {
    double away = fabs(x[i].value - largest), value = exp(x[i].value - largest) / sum;
    double relative = expm1(2 * shift + (away + 2 * shift) * unit) + (3 + 3 + n + 2.5) * FLT_EPSILON;
    p[i] = (ranged){value, value * relative + FLT_MIN};
  }
}

static void check_row(const ranged *want, const float *got, reference_result *result) {
  for (int i = 0; i < MLP_OUT; ++i) {
    double error = fabs((double)got[i] - want[i].value);
    if (!(error <= want[i].error)) result->within = false; /* a NaN is out of bounds */
    if (!(error <= result->max_error)) {
      result->max_error = error;
      result->bound = want[i].error;
    }
  }
}

clade_status reference_check(const clade_vars *vars, int64_t batch, const float *x, const float *p,
                             reference_result *result) {
  layer layers[MLP_LAYERS] = {{0}};
  ranged a[MLP_IN], b[MLP_IN];
  clade_status status = CLADE_OK;
  *result = (reference_result){.within = true};
  for (int i = 0; i < MLP_LAYERS && !status; ++i) status = read_layer(vars, i, &layers[i]);
  for (int64_t row = 0; row < batch && !status; ++row) {
    for (int i = 0; i < MLP_IN; ++i) a[i] = (ranged){x[row * MLP_IN + i], 0};
    linear(&layers[0], a, true, b);
    linear(&layers[1], b, true, a);
    linear(&layers[2], a, false, b);
    softmax(b, MLP_OUT, a);
    check_row(a, p + row * MLP_OUT, result);
  }
  for (int i = 0; i < MLP_LAYERS; ++i) {
    clade__free(layers[i].weight);
    clade__free(layers[i].bias);
  }
  return status;
}

/* Ranges of layer inputs: which magnitudes 8 bits represent. */
#include <math.h>

#include "quant/quant.h"

/* Doubles the range, merging pairs of bins, until it contains `to`. */
static void widen(clade__range *r, double to) {
  if (!(r->top > 0)) {
    r->top = to > 0 ? to : 0;
    return;
  }
  while (r->top < to) {
    for (int i = 0; i < CLADE__RANGE_BINS / 2; i++) r->bins[i] = r->bins[2 * i] + r->bins[2 * i + 1];
    memset(r->bins + CLADE__RANGE_BINS / 2, 0, sizeof r->bins / 2);
    r->top *= 2;
  }
}

static size_t bin_of(const clade__range *r, double magnitude) {
  const double at = r->top > 0 ? magnitude / r->top * CLADE__RANGE_BINS : 0;
  return at < CLADE__RANGE_BINS ? (size_t)at : CLADE__RANGE_BINS - 1;
}

bool clade__range_add(clade__range *r, const float *x, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) return false;
    most = fmax(most, fabs((double)x[i]));
    r->negative |= x[i] < 0;
  }
  widen(r, most);
  r->most = fmax(r->most, most);
  r->n += n;
  for (size_t i = 0; i < n; i++) r->bins[bin_of(r, fabs((double)x[i]))]++;
  return true;
}

static double part(const clade__range *r) { return r->top / CLADE__RANGE_BINS; }

static double percentile(const clade__range *r, double fraction) {
  double below = 0;
  for (int i = 0; i < CLADE__RANGE_BINS; i++) {
    below += (double)r->bins[i];
    if (below >= fraction * (double)r->n) return fmin(r->most, (i + 1) * part(r));
  }
  return r->most;
}

/* Squared error of quantization with this limit, with each element at the center of its bin. */
static double error_of(const clade__range *r, double limit, int levels) {
  const double step = limit / levels;
  double sum = 0;
  for (int i = 0; i < CLADE__RANGE_BINS; i++) {
    const double x = (i + 0.5) * part(r);
    const double off = x - step * fmin(nearbyint(x / step), levels);
    sum += (double)r->bins[i] * off * off;
  }
  return sum;
}

static double least_error(const clade__range *r, int levels) {
  enum { LIMITS = 128, LEAST = 8 };
  double best = r->most, least = error_of(r, best, levels);
  for (int i = LIMITS - 1; i >= LEAST; i--) {
    const double limit = r->most * i / LIMITS, error = error_of(r, limit, levels);
    if (error < least) least = error, best = limit;
  }
  return best;
}

double clade__range_limit(const clade__range *r, clade_calibration calibration, int levels) {
  double limit = r->most;
  if (!(limit > 0)) return 1; /* all values are 0: any scale fits */
  if (calibration == CLADE_CALIBRATE_PERCENTILE) limit = percentile(r, 0.9999);
  if (calibration == CLADE_CALIBRATE_MSE) limit = least_error(r, levels);
  return fmax(limit, (double)levels * 0x1p-100); /* keeps the scale and its reciprocal normal numbers */
}

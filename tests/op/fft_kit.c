/* Spectra of weights, and the error bound of convolutions by Fourier transforms: direct sums in double. */
#include "fft_kit.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

void fft_kit_weights(const double *w, const clade_shape *shape, int axis, int side, op_array *out) {
  const int64_t rows = shape->dim[axis], high = shape->dim[2], wide = shape->dim[3];
  for (int64_t o = 0; o < out->n; o++) {
    int64_t at[CLADE_MAX_RANK];
    op_unravel(&out->shape, o, at);
    const int64_t row = at[0] * LANES + at[3] % LANES, pair[] = {axis ? at[2] : row, axis ? row : at[2]};
    const double *window = w + (pair[0] * shape->dim[1] + pair[1]) * high * wide;
    for (int64_t k = 0; k < high * wide && row < rows; k++) {
      double turns = (double)(at[1] % side * (k / wide) + at[1] / side * (k % wide)) / side;
      double angle = 6.28318530717958647693 * turns, value = window[k] / (2 * side * side);
      out->v[o] += value * (at[3] < LANES ? cos(angle) : -sin(angle));
      out->bound[o] += 16 * log2(side) * 0x1p-24 * fabs(value);
    }
    if (row >= rows) out->bound[o] = HUGE_VAL;
  }
}

/* Euclidean norm of a tile. */
static double norm(const clade_shape *s, const double *plane, int64_t y, int64_t x, int side) {
  double sum = 0;
  for (int64_t i = CLADE_MAX(y, 0); i < CLADE_MIN(y + side, s->dim[2]); i++)
    for (int64_t j = CLADE_MAX(x, 0); j < CLADE_MIN(x + side, s->dim[3]); j++)
      sum += plane[i * s->dim[3] + j] * plane[i * s->dim[3] + j];
  return sqrt(sum);
}

static void plane_bound(const op_case *c, const conv *v, int want, const double *a, const double *b, op_array *out) {
  const bool data = want == CONV_X;
  const clade_shape *source = data ? &v->y : &v->x, *y = &out->shape;
  const int side = c->config[0]; /* its parameter "side" */
  const int64_t high = v->w.dim[2], wide = v->w.dim[3], down = side - high + 1, across = side - wide + 1;
  const int64_t inner = v->groups > 1 ? 1 : source->dim[1], plane = source->dim[2] * source->dim[3];
  for (int64_t i = 0; i < y->dim[0] * y->dim[1]; i++)
    for (int64_t t = 0; t < (y->dim[2] + down - 1) / down * ((y->dim[3] + across - 1) / across); t++) {
      const int64_t grid = (y->dim[3] + across - 1) / across, line = t / grid * down, place = t % grid * across;
      const int64_t image = i / y->dim[1], row = i % y->dim[1];
      double sum = 0;
      for (int64_t k = 0; k < inner; k++) {
        const int64_t channel = v->groups > 1 ? row : k;
        const double *own = a + (image * source->dim[1] + channel) * plane;
        const double *window = b + (v->groups > 1 ? row : data ? k * v->w.dim[1] + row : row * inner + k) * high * wide;
        double weights = 0;
        for (int64_t j = 0; j < high * wide; j++) weights += fabs(window[j]);
        sum += weights * norm(source, own, line + (data ? v->window.pad[0] - high + 1 : -v->window.pad[0]),
                              place + (data ? v->window.pad[1] - wide + 1 : -v->window.pad[1]), side);
      }
      for (int64_t p = line; p < CLADE_MIN(line + down, y->dim[2]); p++)
        for (int64_t q = place; q < CLADE_MIN(place + across, y->dim[3]); q++) {
          double *bound = &out->bound[(i * y->dim[2] + p) * y->dim[3] + q];
          *bound = CLADE_MAX(*bound, sum * (3 * (double)inner + 48 * log2(side)) * 0x1p-24);
        }
    }
}

void fft_kit_bound(const op_case *c, int want, const double *a, const double *b, op_array *out) {
  if (c->took && strcmp(c->took, "fft") == 0) conv_planes_bound(c, plane_bound, want, a, b, out);
}

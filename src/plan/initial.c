/* Initial values of variables: each element is a pure function of a key derived from seed and name. */
#include <math.h>

#include "plan/plan.h"

/* Standard normal by the Box-Muller transform; the first uniform number is never 0. */
static double normal(uint64_t key, uint64_t i) {
  const double pi = 3.14159265358979323846;
  uint32_t x[4];
  clade__philox(key, 0, i, x);
  return sqrt(-2 * log(((double)x[0] + 0.5) * 0x1p-32)) * cos(2 * pi * ((double)x[1] * 0x1p-32));
}

/* Removes the projections of `v` onto the preceding vectors. A second round removes the rounding error. */
static void make_orthogonal(double *v, const double *before, size_t count, size_t length) {
  for (int round = 0; round < 2; round++)
    for (size_t k = 0; k < count; k++) {
      const double *u = before + k * length;
      double along = 0;
      for (size_t i = 0; i < length; i++) along += u[i] * v[i];
      for (size_t i = 0; i < length; i++) v[i] -= along * u[i];
    }
}

/* Gram-Schmidt orthonormalization of normal vectors: the rows of the matrix, or its columns if they are fewer. */
static clade_status orthonormal(clade__initial *s, size_t rows, size_t columns) {
  size_t count = CLADE_MIN(rows, columns), length = CLADE_MAX(rows, columns), elements;
  if (!clade__mul(count, length, &elements)) return CLADE_FAIL(OVERFLOW, "%zu times %zu elements", rows, columns);
  if (!(s->matrix = clade__new(elements, sizeof *s->matrix))) return CLADE_NO_MEMORY;
  for (size_t k = 0; k < count; k++) {
    double *v = s->matrix + k * length, square = 0;
    for (size_t i = 0; i < length; i++) v[i] = normal(s->key, k * length + i);
    make_orthogonal(v, s->matrix, k, length);
    for (size_t i = 0; i < length; i++) square += v[i] * v[i];
    for (size_t i = 0; i < length; i++) v[i] /= sqrt(square);
  }
  s->rows = rows;
  s->columns = columns;
  return CLADE_OK;
}

clade_status clade__initial_open(const clade_initial *how, const clade_shape *shape, uint64_t key,
                                 clade__initial *out) {
  size_t columns = 1;
  *out = (clade__initial){.how = *how, .key = key};
  if (how->kind != CLADE_INIT_ORTHOGONAL) return CLADE_OK;
  for (int i = 1; i < shape->rank; i++) columns *= (size_t)shape->dim[i]; /* no overflow: its bytes were checked */
  return orthonormal(out, (size_t)shape->dim[0], columns);
}

double clade__initial_at(const clade__initial *s, uint64_t i) {
  const clade_initial *how = &s->how;
  switch (how->kind) {
  case CLADE_INIT_UNSET:
  case CLADE_INIT_ZERO: break;
  case CLADE_INIT_FILL: return how->a;
  case CLADE_INIT_UNIFORM: return how->a + (how->b - how->a) * clade__uniform(s->key, 0, i);
  case CLADE_INIT_NORMAL: return how->a + how->b * normal(s->key, i);
  case CLADE_INIT_ORTHOGONAL: {
    size_t row = i / s->columns, column = i % s->columns;
    return how->a * (s->rows <= s->columns ? s->matrix[i] : s->matrix[column * s->rows + row]);
  }
  }
  return 0;
}

void clade__initial_close(clade__initial *s) {
  clade__free(s->matrix);
  s->matrix = NULL;
}

/* Random numbers, shapes, and shapes that broadcast to them. */
#include <math.h>

#include "op_test.h"

static double next(op_random *r) { /* clade__uniform(seed, 0, count) */
  if (r->count % 4 == 0) clade__philox(r->seed, 0, r->count / 4, r->four);
  return (double)(r->four[r->count++ % 4] >> 8) * 0x1p-24;
}

double op_uniform(op_random *r, double low, double high) { return low + (high - low) * next(r); }

int64_t op_integer(op_random *r, int64_t low, int64_t high) {
  int64_t v = low + (int64_t)(next(r) * (double)(high - low + 1));
  return CLADE_MIN(v, high);
}

bool op_chance(op_random *r, double probability) { return op_uniform(r, 0, 1) < probability; }
double op_not_finite(op_random *r) { return (double[]){NAN, -INFINITY, INFINITY}[op_integer(r, 0, 2)]; }

int64_t op_draw_extent(op_random *r, const op_case *c, int64_t most) {
  static const int64_t extents[] = {1,  2,  3,  4,  5,  7,  8,  11,  13,  15,  16,  17,  23,  31,
                                    32, 33, 37, 61, 63, 64, 65, 127, 128, 129, 251, 256, 257, 509};
  int64_t n = (int64_t)CLADE_COUNT(extents);
  most = c->small ? CLADE_MIN(most, 8) : c->gradient ? CLADE_MIN(most, 13) : most;
  if (most < 1) return 1;
  if (!c->gradient && op_chance(r, 0.03)) return 0;
  while (n > 1 && extents[n - 1] > most) n--;
  if (op_chance(r, 0.15)) return op_integer(r, 1, most);
  return extents[op_integer(r, 0, n - 1)];
}

clade_shape op_draw_shape(op_random *r, const op_case *c, int min_rank, int max_rank, int64_t elements) {
  clade_shape shape = {.rank = (int)op_integer(r, min_rank, max_rank)};
  if (c->light) elements = CLADE_MAX(elements / 4, CLADE_MIN(elements, 100));
  int64_t left = c->small ? CLADE_MIN(elements, 64) : c->gradient ? CLADE_MIN(elements, 96) : elements;
  int first = shape.rank ? (int)op_integer(r, 0, shape.rank - 1) : 0; /* so that any axis can be the long one */
  for (int k = 0; k < shape.rank; k++) {
    int64_t d = op_draw_extent(r, c, left);
    shape.dim[(first + k) % shape.rank] = d;
    if (d > 1) left /= d;
  }
  return shape;
}

bool op_draw_long(op_random *r, op_case *c, clade_shape *shape) {
  if (c->small || c->light || c->gradient || (c->dtype != CLADE_F32 && c->dtype != CLADE_I32) || c->number % 16 != 5)
    return false;
  const int64_t n = op_integer(r, 17000, 20000), few = op_integer(r, 2, 64);
  *shape = op_chance(r, 0.5) ? CLADE_SHAPE(op_integer(r, 1, 2), n) : CLADE_SHAPE(n / few, few);
  c->told.units = 1;
  c->told.last_cache = 1 << 14;
  return true;
}

clade_shape op_draw_broadcast(op_random *r, const clade_shape *shape) {
  int front = op_chance(r, 0.5) && shape->rank ? (int)op_integer(r, 0, shape->rank) : 0;
  clade_shape from = {.rank = shape->rank - front};
  for (int i = 0; i < from.rank; i++) from.dim[i] = op_chance(r, 0.35) ? 1 : shape->dim[front + i];
  return from;
}

bool op_is_float(clade_dtype t) { return clade__is_float(t); }

/* Overflow-checked arithmetic on sizes. */
#include "base/base.h"

bool clade__mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
bool clade__add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

bool clade__round_up(size_t value, size_t multiple, size_t *out) {
  size_t sum;
  if (!clade__add(value, multiple - 1, &sum)) return false;
  *out = sum - sum % multiple;
  return true;
}

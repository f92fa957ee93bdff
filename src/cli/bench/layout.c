/* Conversions between dense and blocked layouts on the host. */
#include "cli/bench/bench.h"
#include "op/move/pack.h"

/* Converts one block of a packed tensor in either direction. */
static void move(const clade__packed *p, int64_t item, size_t each, char *dense, char *packed, bool back) {
  int64_t rows = (p->before + p->interleave - 1) / p->interleave, blocks = (p->axis + p->block - 1) / p->block;
  int64_t column = item % p->inner, rest = item / p->inner, first = rest % blocks * p->block;
  rest /= blocks;
  int64_t row = rest % rows * p->interleave, base = rest / rows * p->before;
  char *at = packed + (size_t)(item * p->block * p->interleave) * each;
  for (int64_t i = 0; i < p->block; i++)
    for (int64_t j = 0; j < p->interleave; j++, at += each) {
      bool inside = first + i < p->axis && row + j < p->before;
      char *element =
          inside ? dense + (size_t)(((base + row + j) * p->axis + first + i) * p->inner + column) * each : NULL;
      if (back && inside) memcpy(element, at, each);
      if (!back && inside) memcpy(at, element, each);
      if (!back && !inside) memset(at, 0, each);
    }
}

static void move_all(const clade_type *type, char *dense, char *packed, bool back) {
  clade__packed p = clade__packed_of(type);
  size_t each = 0;
  if (clade__dtype_element(type->dtype, &each)) return;
  for (int64_t item = 0, n = clade__packed_blocks(&p); item < n; item++) move(&p, item, each, dense, packed, back);
}

void bench_pack(const clade_type *type, const void *dense, void *packed) {
  move_all(type, (char *)(uintptr_t)dense, packed, false);
}

void bench_unpack(const clade_type *type, const void *packed, void *dense) {
  move_all(type, dense, (char *)(uintptr_t)packed, true);
}

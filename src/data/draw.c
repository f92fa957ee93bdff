/* Random draws as functions of their purpose, and the permutation of an epoch. */
#include "data/data.h"

clade__draw clade__draw_of(uint64_t key, clade__purpose purpose, uint64_t epoch, uint64_t index) {
  return (clade__draw){.key = key, .counter = (uint64_t)purpose << 56 ^ epoch, .element = index << 16};
}

uint32_t clade__draw_bits(clade__draw *draw) {
  if (draw->left == 0) {
    clade__philox(draw->key, draw->counter, draw->element++, draw->word);
    draw->left = 4;
  }
  return draw->word[--draw->left];
}

int clade__draw_int(clade__draw *draw, int low, int high) {
  uint64_t choices = (uint64_t)(high - low) + 1;
  return low + (int)(clade__draw_bits(draw) * choices >> 32);
}

/* A permutation without a table: a Feistel network over pairs (a, b) with a < rows and b < columns, whose rounds add
 * modulo rows or columns. It permutes rows * columns >= n numbers; a result beyond n is permuted again. */
int64_t clade__shuffled(uint64_t key, int64_t epoch, int64_t n, int64_t position) {
  enum { ROUNDS = 8 };
  uint64_t rows = 1, whole = (uint64_t)n, at = (uint64_t)position;
  while (rows * rows < whole) rows *= 2;
  uint64_t columns = (whole + rows - 1) / rows;
  do {
    uint64_t a = at / columns, b = at % columns;
    for (uint64_t round = 0; round < ROUNDS; round++) {
      clade__draw draw = clade__draw_of(key, CLADE__DRAW_ORDER, (uint64_t)epoch, (round & 1 ? a : b) * ROUNDS + round);
      uint64_t bits = (uint64_t)clade__draw_bits(&draw) << 32;
      bits |= clade__draw_bits(&draw);
      if (round & 1)
        b = (b + bits % columns) % columns;
      else
        a = (a + bits % rows) % rows;
    }
    at = a * columns + b;
  } while (at >= whole);
  return (int64_t)at;
}

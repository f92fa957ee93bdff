/* Adds rows to a table by index. Indices are sorted together with their positions, by a stable radix sort from the
 * lowest digit on: each pass counts the digits of each part, and moves the keys accordingly. Then each row of the table
 * adds what has its index, in the order of positions. A key is an index with its position in the lower half; indices
 * out of range come last. */
#define DIGITS 1024

#if defined WANT_scatter_add_count || defined WANT_scatter_add_place
#include "scatter_add_keys.cl"
#define DIGIT(key) ((int)((key) >> (32 + 10 * digit)) & (DIGITS - 1))
#endif

#ifdef WANT_scatter_add_count
BODY(scatter_add_count_item)(const long item, ARGS) {
  const long begin = item * part, end = min(begin + part, (long)n);
  if (begin >= n) return;
  USE(const int, ids);
  USE(const long, from);
  USE(uint, counts);
  uint count[DIGITS];
  for (int d = 0; d < DIGITS; d++) count[d] = 0;
  for (index_t i = (index_t)begin; i < end; i++) count[DIGIT(FN(key)(ids, from, i, rows, sorted))]++;
  for (int d = 0; d < DIGITS; d++) counts[d * parts + (int)item] = count[d];
}

KERNEL(scatter_add_count)(ARGS) {
  FN(scatter_add_count_item)((long)get_global_id(0), PASS(ids), PASS(from), PASS(counts), PASS(to), n, part, parts, rows, digit, sorted);
}
#endif

#ifdef WANT_scatter_add_place
BODY(scatter_add_place_item)(const long item, ARGS) {
  const long begin = item * part, end = min(begin + part, (long)n);
  if (begin >= n) return;
  USE(const int, ids);
  USE(const long, from);
  USE(uint, counts);
  USE(long, to);
  uint next[DIGITS], before = 0;
  for (int d = 0; d < DIGITS; d++)
    for (int p = 0; p < parts; p++) {
      if (p == (int)item) next[d] = before;
      before += counts[d * parts + p];
    }
  for (index_t i = (index_t)begin; i < end; i++) {
    const long key = FN(key)(ids, from, i, rows, sorted);
    to[next[DIGIT(key)]++] = key;
  }
}

KERNEL(scatter_add_place)(ARGS) {
  FN(scatter_add_place_item)((long)get_global_id(0), PASS(ids), PASS(from), PASS(counts), PASS(to), n, part, parts, rows, digit, sorted);
}
#endif
#undef ARGS

#ifdef WANT_scatter_add_sum
/* Compensated sum of a row's keys (Knuth's two-sum); V: float, or sixteen of them from column i on. An infinity makes
 * the compensation NaN; the plain sum is right then. While a row is added, the rows of later keys are prefetched.
 *
 * For whole vectors that start from zero, up to two keys are added without a branch on their number, which is hard to
 * predict: missing keys read the rows of the next keys, which are needed soon, and are masked. The sum of two is exact
 * enough without compensation. +0 is added to it, as in the other branch, so that the sign of a zero does not depend on
 * the branch, and thus on the division of work. -0 is added to a given row without keys, which leaves it unchanged; it
 * is not written if y is x. */
#define ROW(k) (((index_t)(keys[k] & 0xffffffff) + block * n) * width)
#define ASK(k) \
  for (index_t i = column; i < stop; i += 64 / sizeof(STORAGE(T))) SOON(dy + ROW(k) + i)
#define SUM(V, GET)                                                                    \
  V s = 0, lost = given && end == first ? -0.0f : 0.0f;                                \
  index_t k = first;                                                                   \
  if (given)                                                                           \
    s = GET(T, x, to + i);                                                             \
  else if (k < end)                                                                    \
    s = GET(T, dy, ROW(k++) + i);                                                      \
  for (; k < end; k++) {                                                               \
    const V v = GET(T, dy, ROW(k) + i), sum = s + v, back = sum - s;                   \
    lost += (s - (sum - back)) + (v - back);                                           \
    s = sum;                                                                           \
  }                                                                                    \
  const V v = lost == lost ? s + lost : s;
#define ARGS                                                                                                       \
  ARG(const long, keys), ARG(const STORAGE(T), dy), ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t n, \
  const index_t width, const index_t outer, const int rows, const int piece, const index_t columns,                \
  const int given, const int stream
BODY(scatter_add_sum_item)(const long item, ARGS) {
  if (columns < 1) return;
  const index_t blocks = (width + columns - 1) / columns, pieces = (rows - 1) / piece + 1;
  const index_t line = (index_t)(item / blocks), column = (index_t)(item - line * (long)blocks) * columns;
  const index_t block = line / pieces;
  if (block >= outer) return;
  USE(const long, keys);
  USE(const STORAGE(T), dy);
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t stop = min(column + columns, width);
  long row = (long)(line - block * pieces) * piece;
  const long last = min(row + piece, (long)rows);
  index_t first = 0, end = n;
  while (first < end) { /* binary search for the first key of these rows */
    const index_t middle = first + (end - first) / 2;
    if (keys[middle] >> 32 < row)
      first = middle + 1;
    else
      end = middle;
  }
  const index_t later = max(AHEAD / 2 / (stop - column), (index_t)2); /* in keys */
  for (index_t k = first; k < min(first + later, n); k++) ASK(k);
  index_t asked = first + later;
  const bool whole = piece > 1 && !given && (stop - column) % 16 == 0; /* masked reads do not pay for one row */
  for (; row < last; row++, first = end) {
    if (whole && asked + 2 < n && keys[first + 2] >> 32 != row) {
      const int one = keys[first] >> 32 == row, two = one & (keys[first + 1] >> 32 == row);
      const index_t a = ROW(first), b = ROW(first + 1), to = (block * rows + (index_t)row) * width;
      end = first + one + two;
      const index_t soon = keys[asked] >> 32 < last ? ROW(asked) : a;
      for (index_t i = column; i < stop; i += 16) {
        SOON(dy + soon + i);
        const int16 v = as_int16(LOAD16(T, dy, a + i)) & -one, w = as_int16(LOAD16(T, dy, b + i)) & -two;
        STREAM16(T, y, to + i, as_float16(v) + as_float16(w) + 0.0f, stream);
      }
      asked += asked < end + 2 * later;
      for (; asked < min(end + later, n); asked++) ASK(asked);
      continue;
    }
    for (end = first; end < n && keys[end] >> 32 == row; end++)
      if (end + later >= asked && end + later < n && keys[end + later] >> 32 < last) ASK(end + later);
    asked = max(asked, end + later);
    if (given && x == y && end == first) continue;
    const index_t to = (block * rows + (index_t)row) * width;
    index_t i = column;
    for (; i + 16 <= stop; i += 16) {
      SUM(float16, LOAD16)
      STREAM16(T, y, to + i, v, stream);
    }
    for (; i < stop; i++) {
      SUM(float, LOAD)
      STORE(T, y, to + i, v);
    }
  }
}

KERNEL(scatter_add_sum)(ARGS) {
  FN(scatter_add_sum_item)((long)get_global_id(0), PASS(keys), PASS(dy), PASS(x), PASS(y), n, width, outer, rows, piece, columns,
            given, stream);
}
#endif

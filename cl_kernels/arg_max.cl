/* Index of the first largest element along the middle axis of (outer, n, inner). */
#ifdef WANT_arg_max_forward_ref
#define ARGS ARG(const STORAGE(T), x), ARG(int, y), const index_t outer, const int n, const index_t inner
BODY(arg_max_forward_ref_item)(const long item, ARGS) {
  if (item >= (long)outer * inner) return;
  USE(const STORAGE(T), x);
  USE(int, y);
  const index_t row = (index_t)item / inner; /* no remainder: Oclgrind lacks an instruction for both */
  const index_t base = row * n * inner + (index_t)item - row * inner;
  COMPUTE(T) best = LOAD(T, x, base);
  int at = 0;
  for (int i = 1; i < n; i++) {
    const COMPUTE(T) v = LOAD(T, x, base + i * inner);
    if (v > best || (v != v && best == best)) {
      best = v;
      at = i;
    }
  }
  y[item] = at;
}

KERNEL(arg_max_forward_ref)(ARGS) {
  FN(arg_max_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, inner);
}
#undef ARGS
#endif

#ifdef WANT_arg_max_forward_lines
static inline void FN(take)(float16 *best, int16 *at, const float16 v, const int i) {
  const int16 better = !(v <= *best) && *best == *best; /* NaN is larger, but not than another NaN */
  *best = select(*best, v, better);
  *at = select(*at, (int16)(i), better);
}

/* Sixteen lines at once, in strips of up to STRIP adjacent lines. FEW_BESIDE: fewer than sixteen lines are adjacent. */
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(int, y), const index_t outer, const int n, const index_t inner, const index_t strip
BODY(arg_max_forward_lines_item)(const long item, ARGS) {
  if (item >= (long)outer * inner) return; /* before any division by sizes */
  USE(const STORAGE(T), x);
  USE(int, y);
#if FEW_BESIDE
  const index_t lines = outer * inner, first = (index_t)item * 16, width = min((index_t)16, lines - first);
  size_t place[16];
  clade_places(place, (size_t)first, (size_t)lines, (size_t)n, (size_t)inner);
#else
  const index_t strips = (inner + strip - 1) / strip, block = (index_t)(item / strips);
  if (block >= outer) return;
  const index_t column = (index_t)(item - block * (long)strips) * strip, width = min(strip, inner - column);
  const index_t first = block * inner + column, begin = block * n * inner + column;
  const index_t next = column + strip < inner ? begin + strip : (block + 1) * n * inner;
#endif
  float16 best[STRIP / 16];
  int16 at[STRIP / 16];
  for (index_t k = 0; k < width; k += 16) {
    best[k / 16] = -INFINITY;
    at[k / 16] = 0;
  }
#if FEW_BESIDE
  for (int i = 0; i < n; i++) FN(take)(best, at, APART16(T, x, place, (size_t)(i * inner)), i);
#else
  const index_t whole = width - width % 16;
  int i = 0;
  for (; i + 4 <= n; i += 4) { /* prefetches the next four into L2; they share few sets of L1 */
    const index_t from = begin + i * inner, soon = i + 8 <= n ? from + 4 * inner : next;
    for (index_t k = 0; k < whole; k += 16) {
      float16 best16 = best[k / 16];
      int16 at16 = at[k / 16];
#pragma unroll
      for (int l = 0; l < 4; l++) {
        LATER(x + soon + l * inner + k);
        FN(take)(&best16, &at16, LOAD16(T, x, from + l * inner + k), i + l);
      }
      best[k / 16] = best16;
      at[k / 16] = at16;
    }
  }
  for (; i < n; i++)
    for (index_t k = 0; k < whole; k += 16) FN(take)(&best[k / 16], &at[k / 16], LOAD16(T, x, begin + i * inner + k), i);
  if (whole < width)
    for (i = 0; i < n; i++)
      FN(take)(&best[whole / 16], &at[whole / 16], SOME16(T, x, begin + i * inner + whole, width - whole), i);
#endif
  const int *each = (const int *)at;
  for (index_t l = 0; l < width; l++) y[first + l] = each[l];
}

KERNEL(arg_max_forward_lines)(ARGS) {
  FN(arg_max_forward_lines_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, inner, strip);
}
#undef ARGS
#endif

#ifdef WANT_arg_max_forward_rows
/* Vectors along one row: each lane holds the best of every sixteenth element, and its first NaN, which comparisons
 * miss. */
static inline int FN(smallest)(int16 v) {
  const int8 a = min(v.lo, v.hi);
  const int4 b = min(a.lo, a.hi);
  const int2 c = min(b.lo, b.hi);
  return min(c.s0, c.s1);
}
#define ARGS ARG(const STORAGE(T), x), ARG(int, y), const index_t outer, const int n, const index_t piece
BODY(arg_max_forward_rows_item)(const long item, ARGS) {
  if (item * piece >= outer) return;
  USE(const STORAGE(T), x);
  USE(int, y);
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const index_t end = (index_t)min((item + 1) * piece, (long)outer);
  for (index_t row = (index_t)(item * piece); row < end; row++) {
    const index_t base = row * n;
    SOON(x + base + AHEAD);
    float16 best = LOAD16(T, x, base);
    int16 from = 0, none = best != best ? (int16)(0) : (int16)(n);
    for (int i = 16; i < n; i += 16) {
      const int at = min(i, n - 16); /* the last vector overlaps the one before */
      SOON(x + base + i + AHEAD);
      const float16 v = LOAD16(T, x, base + at);
      none = v != v ? min(none, (int16)(at)) : none;
      from = v > best ? (int16)(at) : from;
      best = LARGER(v, best);
    }
    const int missing = FN(smallest)(none + lane);
    const int first = FN(smallest)(best == clade_largest(best) ? from + lane : (int16)(n));
    y[row] = missing < n ? missing : first;
  }
}

KERNEL(arg_max_forward_rows)(ARGS) {
  FN(arg_max_forward_rows_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, piece);
}
#endif

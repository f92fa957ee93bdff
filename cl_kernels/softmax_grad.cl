/* Gradient of softmax, (dy - sum(dy y)) y, or of log-softmax (LOG), dy - sum(dy) exp(y). */
#if LOG
#define TERM(y, d)        (d)
#define RESULT(y, d, s)   ((d) - (s) * exp(y))
#define RESULT16(y, d, s) fma((float16)(-(s)), clade_exp_below(y), d)
#else
#define TERM(y, d)        ((y) * (d))
#define RESULT(y, d, s)   (((d) - (s)) * (y))
#define RESULT16          RESULT
#endif

#ifdef WANT_softmax_grad_ref
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), y), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index_t outer, const index_t n, \
      const index_t inner
BODY(softmax_grad_ref_item)(const long item, ARGS) {
  if (item >= (long)outer * inner) return;
  USE(const STORAGE(T), y);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  const index_t row = (index_t)item / inner, base = row * n * inner + (index_t)item - row * inner;
  float s = 0, lost = 0;
  for (index_t i = base; i < base + n * inner; i += inner) clade_take(&s, &lost, TERM(LOAD(T, y, i), LOAD(T, dy, i)));
  s = CLADE_TOTAL(s, lost);
  for (index_t i = base; i < base + n * inner; i += inner) {
    const float v = LOAD(T, y, i), d = LOAD(T, dy, i);
    STORE(T, dx, i, RESULT(v, d, s));
  }
}

KERNEL(softmax_grad_ref)(ARGS) {
  FN(softmax_grad_ref_item)((long)get_global_id(0), PASS(y), PASS(dy), PASS(dx), outer, n, inner);
}
#undef ARGS
#endif

#if defined WANT_softmax_grad_rows || defined WANT_softmax_grad_lines
static inline void FN(take)(float16 *s, float16 *lost, const float16 v) {
  const float16 sum = *s + v, back = sum - *s;
  *lost += (*s - (sum - back)) + (v - back);
  *s = sum;
}
#endif

#ifdef WANT_softmax_grad_rows
/* While a row is written, the next one is read from memory and summed, and is then in L1 for its own write. */
#define ARGS                                                                                                      \
  ARG(const STORAGE(T), y), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index_t outer, const index_t n, \
      const index_t piece, const int stream
BODY(softmax_grad_rows_item)(const long item, ARGS) {
  if (item * piece >= outer) return;
  USE(const STORAGE(T), y);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  const index_t begin = (index_t)(item * piece) * n, end = (index_t)min((item + 1) * piece, (long)outer) * n;
  const index_t whole = n - n % 16, left = n - whole;
  float s = 0;
  for (index_t row = begin - n; row < end; row += n) { /* the first turn writes nothing */
    const index_t next = row + n < end ? row + n : row;
    float16 s16 = 0, c16 = 0;
    for (index_t from = 0; from < whole; from += 256) { /* sums of pieces are compensated */
      float16 part = 0;
      for (index_t i = from; i < min(from + 256, whole); i += 16) {
        const float16 v = LOAD16(T, y, next + i), d = LOAD16(T, dy, next + i);
        SOON(y + next + AHEAD / 2 + i);
        SOON(dy + next + AHEAD / 2 + i);
        part += TERM(v, d);
        if (row < begin) continue;
        const float16 own = LOAD16(T, y, row + i), r = RESULT16(own, LOAD16(T, dy, row + i), s);
        STREAM16(T, dx, row + i, r, stream);
      }
      FN(take)(&s16, &c16, part);
    }
    float rest = 0;
    for (index_t i = whole; i < n; i++) rest += TERM(LOAD(T, y, next + i), LOAD(T, dy, next + i));
    if (left && row >= begin) {
      const float16 own = SOME16(T, y, row + whole, left), r = RESULT16(own, SOME16(T, dy, row + whole, left), s);
      PUT16(T, dx, row + whole, left, r);
    }
    s = clade_lanes(CLADE_TOTAL(s16, c16), rest);
  }
}

KERNEL(softmax_grad_rows)(ARGS) {
  FN(softmax_grad_rows_item)((long)get_global_id(0), PASS(y), PASS(dy), PASS(dx), outer, n, piece, stream);
}
#undef ARGS
#endif

#ifdef WANT_softmax_grad_lines
/* A work-item does up to STRIP adjacent lines. */
static inline float16 FN(some)(const __global STORAGE(T) *x, index_t at, index_t left) {
  return left < 16 ? SOME16(T, x, at, left) : LOAD16(T, x, at);
}
#define ARGS                                                                                                      \
  ARG(const STORAGE(T), y), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index_t outer, const index_t n, \
      const index_t inner, const int stream
BODY(softmax_grad_lines_item)(const long item, ARGS) {
  const index_t strips = (inner + STRIP - 1) / STRIP;
  if (item >= (long)outer * strips) return;
  USE(const STORAGE(T), y);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  const index_t block = (index_t)(item / strips), first = (index_t)(item - block * (long)strips) * STRIP;
  const index_t width = min((index_t)STRIP, inner - first), begin = block * n * inner + first;
  float16 s[STRIP / 16], lost[STRIP / 16];
  for (int k = 0; k < STRIP / 16; k++) s[k] = lost[k] = 0;
  for (index_t i = 0, at = begin; i < n; i++, at += inner)
    for (index_t k = 0; k < width; k += 16) {
      SOON(dy + at + 4 * inner + k);
#if !LOG
      SOON(y + at + 4 * inner + k);
#endif
      const float16 v = FN(some)(y, at + k, width - k), d = FN(some)(dy, at + k, width - k);
      FN(take)(&s[k / 16], &lost[k / 16], TERM(v, d));
    }
  for (int k = 0; k < STRIP / 16; k++) s[k] = CLADE_TOTAL(s[k], lost[k]);
  for (index_t i = 0, at = begin; i < n; i++, at += inner)
    for (index_t k = 0; k < width; k += 16) {
      const float16 v = FN(some)(y, at + k, width - k);
      const float16 r = RESULT16(v, FN(some)(dy, at + k, width - k), s[k / 16]);
      if (width - k < 16)
        PUT16(T, dx, at + k, width - k, r);
      else
        STREAM16(T, dx, at + k, r, stream);
    }
}

KERNEL(softmax_grad_lines)(ARGS) {
  FN(softmax_grad_lines_item)((long)get_global_id(0), PASS(y), PASS(dy), PASS(dx), outer, n, inner, stream);
}
#endif

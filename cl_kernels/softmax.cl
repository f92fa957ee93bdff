/* Softmax: maximum, sum, division (LOG: its logarithm, by a subtraction). The element is read three times, so that
 * nothing is kept between the passes; the sum keeps the rounding errors of its additions beside it. */
#if LOG
#define BY(sum)            log(sum)
#define RESULT(v, top, by) ((v) - (top) - (by))
#else
#define BY(sum)            (sum)
#define RESULT(v, top, by) (exp((v) - (top)) / (by))
#endif

#ifdef WANT_softmax_forward_ref
#define ARGS ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t n, const index_t inner
BODY(line)(const long item, ARGS) {
  if (item >= (long)outer * inner) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t row = (index_t)item / inner; /* no remainder: Oclgrind lacks an instruction that the pair becomes */
  const index_t base = row * n * inner + (index_t)item - row * inner;
  float top = -INFINITY, s = 0, c = 0;
  for (index_t i = 0; i < n; i++) {
    const float v = LOAD(T, x, base + i * inner);
    top = v > top || v != v ? v : top;
  }
  for (index_t i = 0; i < n; i++) {
    const float v = exp(LOAD(T, x, base + i * inner) - top), sum = s + v, back = sum - s;
    c += (s - (sum - back)) + (v - back);
    s = sum;
  }
  const float by = BY(s + c);
  for (index_t i = 0; i < n; i++) {
    const float v = RESULT(LOAD(T, x, base + i * inner), top, by);
    STORE(T, y, base + i * inner, v);
  }
}

KERNEL(softmax_forward_ref)(ARGS) {
  FN(line)((long)get_global_id(0), PASS(x), PASS(y), outer, n, inner);
}
#undef ARGS
#endif

#ifdef WANT_softmax_forward_vec
/* A row at once, 16 elements at a time. */
#define ARGS ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t n
BODY(row)(const long item, ARGS) {
  if (item >= outer) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t base = (index_t)item * n, whole = n - n % 16;
  float16 top16 = -INFINITY, s16 = 0;
  for (index_t i = 0; i < whole; i += 16) {
    const float16 v = LOAD16(T, x, base + i);
    top16 = select(top16, v, v > top16 || v != v);
  }
  float lane[16], top = -INFINITY, s = 0;
  vstore16(top16, 0, lane);
  for (int l = 0; l < 16; l++) top = lane[l] > top || lane[l] != lane[l] ? lane[l] : top;
  for (index_t i = whole; i < n; i++) {
    const float v = LOAD(T, x, base + i);
    top = v > top || v != v ? v : top;
  }
  float16 c16 = 0;
  for (index_t i = 0; i < whole; i += 16) {
    const float16 v = exp(LOAD16(T, x, base + i) - top), sum = s16 + v, back = sum - s16;
    c16 += (s16 - (sum - back)) + (v - back);
    s16 = sum;
  }
  vstore16(s16 + c16, 0, lane);
  for (int l = 0; l < 16; l++) s += lane[l];
  for (index_t i = whole; i < n; i++) s += exp(LOAD(T, x, base + i) - top);
  const float by = BY(s);
  for (index_t i = 0; i < whole; i += 16) {
    const float16 v = RESULT(LOAD16(T, x, base + i), top, by);
    STORE16(T, y, base + i, v);
  }
  for (index_t i = whole; i < n; i++) {
    const float v = RESULT(LOAD(T, x, base + i), top, by);
    STORE(T, y, base + i, v);
  }
}

KERNEL(softmax_forward_vec)(ARGS) {
  FN(row)((long)get_global_id(0), PASS(x), PASS(y), outer, n);
}
#undef ARGS
#endif
#undef BY
#undef RESULT

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
BODY(softmax_forward_ref_item)(const long item, ARGS) {
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
  FN(softmax_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, inner);
}
#undef ARGS
#endif

#ifdef WANT_softmax_forward_vec
/* A row at once, 16 elements at a time. What exp gives for rows of up to KEPT elements is kept until the sum is known,
 * and while it is computed what the next rows read is on its way. */
#define KEEPS (!LOG && KEPT)
static inline float16 FN(some)(const __global STORAGE(T) *x, index_t at, index_t left) {
  if (left >= 16) return LOAD16(T, x, at);
  float lane[16];
  for (int l = 0; l < 16; l++) lane[l] = l < left ? LOAD(T, x, at + l) : -INFINITY;
  return vload16(0, lane);
}
/* NaN is left to the sum, which it makes NaN. */
#define LARGER(v, top) ((v) > (top) ? (v) : (top))
static inline float FN(largest)(float16 v) {
  const float8 a = LARGER(v.hi, v.lo);
  const float4 b = LARGER(a.hi, a.lo);
  const float2 c = LARGER(b.hi, b.lo);
  return LARGER(c.s1, c.s0);
}
static inline void FN(take)(float16 *s, float16 *lost, const float16 v) {
  const float16 sum = *s + v, back = sum - *s;
  *lost += (*s - (sum - back)) + (v - back);
  *s = sum;
}
#if LOG
#define VALUE(v, i) ((v) - top - by)
#elif KEEPS
#define VALUE(v, i) ((n <= KEPT ? vload16(0, kept + (i)) : clade_exp_below((v) - top)) * by)
#else
#define VALUE(v, i) (clade_exp_below((v) - top) * by)
#endif
#define ARGS                                                                                                 \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t n, const index_t piece,   \
      const int stream
BODY(softmax_forward_vec_item)(const long item, ARGS) {
  if (item * piece >= outer) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min((item + 1) * piece, (long)outer), whole = n - n % 16, left = n - whole;
  const index_t far = max(n, (index_t)AHEAD); /* half of a row is asked for in each pass: memory works through both */
#if KEEPS
  float kept[KEPT] __attribute__((aligned(64)));
#endif
  float16 top16 = -INFINITY;
  for (index_t i = 0; i < n; i += 16) {
    const float16 v = FN(some)(x, (index_t)(item * piece) * n + i, n - i);
    top16 = LARGER(v, top16);
  }
  for (index_t row = (index_t)(item * piece); row < end; row++) {
    const index_t base = row * n, next = base + (row + 1 < end ? n : 0);
    const float top = FN(largest)(top16);
    float16 s16 = 0, c16 = 0;
    for (index_t begin = 0; begin < whole; begin += 256) { /* sums of pieces keep what is lost */
      float16 part = 0;
      for (index_t i = begin; i < min(begin + 256, whole); i += 16) {
        const float16 v = clade_exp_below(LOAD16(T, x, base + i) - top);
        SOON(x + base + far + i / 2);
        part += v;
#if KEEPS
        if (n <= KEPT) vstore16(v, 0, kept + i);
#endif
      }
      FN(take)(&s16, &c16, part);
    }
    if (left) {
      const float16 v = clade_exp_below(FN(some)(x, base + whole, left) - top);
      FN(take)(&s16, &c16, v);
#if KEEPS
      if (n <= KEPT) vstore16(v, 0, kept + whole);
#endif
    }
    const float sum = clade_lanes(s16 + c16, 0);
#if LOG
    const float by = clade_log((float16)(sum)).s0; /* a call of `log` would put all constants into memory and back */
#else
    const float by = 1.0f / sum;
#endif
    top16 = -INFINITY;
    for (index_t i = 0; i < whole; i += 16) {
      const float16 v = VALUE(LOAD16(T, x, base + i), i);
      const float16 other = LOAD16(T, x, next + i); /* the next row's largest, while this one is written */
      top16 = LARGER(other, top16);
      SOON(x + base + far + (n + i) / 2);
      STREAM16(T, y, base + i, v, stream);
    }
    if (left) {
      const float16 v = VALUE(FN(some)(x, base + whole, left), whole), other = FN(some)(x, next + whole, left);
      top16 = LARGER(other, top16);
      PUT16(T, y, base + whole, left, v);
    }
  }
}

KERNEL(softmax_forward_vec)(ARGS) {
  FN(softmax_forward_vec_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, piece, stream);
}
#undef ARGS
#undef LARGER
#undef KEEPS
#undef VALUE
#endif
#undef BY
#undef RESULT

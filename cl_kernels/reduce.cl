/* Sum, mean, maximum and minimum. Sums are compensated (Knuth's two-sum), so that the error is a few units of 2^-24 of
 * the sum of absolute values for any number of elements. Groups of four vectors are first added without compensation,
 * which costs two of these units and saves two thirds of the work. NaN wins in maximum and minimum.
 *
 * T: stored type of x. Y: type of the result, T or f32. ACC: accumulation type (float, or an integer; unsigned for sums,
 * which wrap around). FLOAT: ACC is float. KIND: 0 sum, divided by `count`; 2 maximum; 3 minimum. EMPTY: the result over
 * no elements. */
#if KIND == 2
#define BETTER(v, s) ((v) > (s))
#else
#define BETTER(v, s) ((v) < (s))
#endif

static inline void FN(take)(ACC *s, ACC *c, ACC v) {
#if KIND >= 2
  *s = BETTER(v, *s) || v != v ? v : *s;
#elif FLOAT
  const float sum = *s + v, back = sum - *s;
  *c += (*s - (sum - back)) + (v - back);
  *s = sum;
#else
  *s += v;
#endif
}

static inline ACC FN(total)(ACC s, ACC c) {
#if FLOAT && KIND < 2
  return CLADE_TOTAL(s, c);
#else
  return s;
#endif
}

#if FLOAT && KIND < 2
#define FINISH(v, n) ((v) / (n))
#else
#define FINISH(v, n) (v)
#endif

#ifdef WANT_reduce_forward_ref
/* Any axes: four kept and four reduced ones, outermost first. */
#define ARGS                                                                                 \
  ARG(const STORAGE(T), x), ARG(STORAGE(Y), y), const index_t outputs, const index8_t dims,  \
  const index8_t strides, const float count
BODY(reduce_forward_ref_item)(const long item, ARGS) {
  if (item >= outputs) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(Y), y);
  index_t rest = (index_t)item, from = rest % dims.s3 * strides.s3;
  rest /= dims.s3;
  from += rest % dims.s2 * strides.s2;
  rest /= dims.s2;
  from += rest % dims.s1 * strides.s1 + rest / dims.s1 * strides.s0;
  ACC s = EMPTY, c = 0;
  for (index_t i = 0; i < dims.s4; i++)
    for (index_t j = 0; j < dims.s5; j++)
      for (index_t k = 0; k < dims.s6; k++) {
        const index_t row = from + i * strides.s4 + j * strides.s5 + k * strides.s6;
        for (index_t l = 0; l < dims.s7; l++) FN(take)(&s, &c, (ACC)LOAD(T, x, row + l * strides.s7));
      }
  STORE(Y, y, item, FINISH(FN(total)(s, c), count));
}

KERNEL(reduce_forward_ref)(ARGS) {
  FN(reduce_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), outputs, dims, strides, count);
}
#undef ARGS
#endif

#ifdef WANT_reduce_forward_split
/* (outer, reduced, inner) in chunks of the middle axis. DIRECT: there is one chunk, and `out` is the result.
 *
 *   MODE 0  a work-item reduces one column of a chunk
 *        1  the same for inner 1, 16 elements at once
 *        2  WIDE columns of a chunk, row by row
 *        3  the inner axis is in blocks of 16, (outer, inner / 16, reduced, 16), and a work-item reduces one block
 *        4  sixteen results at once, whose elements may be anywhere; `chunk` is the number of results of a work-item */
#if DIRECT
#define OUT              STORAGE(Y)
#define PUT(p, at, v, n) STORE(Y, p, at, FINISH(v, n))
#else
#define OUT              ACC
#define PUT(p, at, v, n) (p)[at] = (v)
#endif

#if MODE > 0
static inline void FN(take16)(float16 *s, float16 *c, float16 v) {
#if KIND >= 2
  *s = select(*s, v, BETTER(v, *s) || v != v);
#else
  const float16 sum = *s + v, back = sum - *s;
  *c += (*s - (sum - back)) + (v - back);
  *s = sum;
#endif
}
static inline float16 FN(both16)(float16 a, float16 b) {
#if KIND >= 2
  return select(a, b, BETTER(b, a) || b != b);
#else
  return a + b;
#endif
}
/* Four vectors, `apart` from each other. */
static inline void FN(take4)(float16 *s, float16 *c, const __global STORAGE(T) *x, index_t at, index_t apart) {
  const float16 a = LOAD16(T, x, at), b = LOAD16(T, x, at + apart);
  const float16 d = LOAD16(T, x, at + 2 * apart), e = LOAD16(T, x, at + 3 * apart);
  FN(take16)(s, c, FN(both16)(FN(both16)(a, b), FN(both16)(d, e)));
}
#endif

#define ARGS                                                                                                 \
  ARG(const STORAGE(T), x), ARG(OUT, out), const index_t outer, const index_t reduced, const index_t inner,  \
  const index_t chunks, const index_t chunk, const float count
BODY(reduce_forward_split_item)(const long item, ARGS) {
#if MODE == 4
  const index_t lines = outer * inner, last = (index_t)min((item + 1) * chunk, (long)lines);
  if (item * chunk >= (long)lines) return;
  USE(const STORAGE(T), x);
  USE(OUT, out);
  for (index_t first = (index_t)(item * chunk); first < last; first += 16) {
    float16 s16 = EMPTY, c16 = 0;
    if (inner == 1 && COLUMNS_INSIDE(first, reduced, lines)) {
      for (index_t r = 0; r < reduced; r += 8) {
        float16 column[8];
        COLUMNS8(T, column, x, (size_t)(first * reduced + r), (size_t)reduced);
#pragma unroll
        for (int l = 0; l < 8; l++)
          if (r + l < reduced) {
            SOON(x + first * reduced + (r + l) * 16 + AHEAD); /* as many cache lines as columns */
            FN(take16)(&s16, &c16, column[l]);
          }
      }
    } else {
      size_t place[16];
      clade_places(place, (size_t)first, (size_t)lines, (size_t)reduced, (size_t)inner);
      for (index_t r = 0; r < reduced; r++) FN(take16)(&s16, &c16, APART16(T, x, place, (size_t)(r * inner)));
    }
#if KIND < 2
    s16 = FINISH(CLADE_TOTAL(s16, c16), count);
#endif
    if (last - first < 16)
      PUT16(Y, out, first, last - first, s16);
    else
      STORE16(Y, out, first, s16);
  }
#else
#if MODE == 2
  const index_t blocks = (inner + WIDE - 1) / WIDE;
#else
  const index_t blocks = MODE == 3 ? (inner + 15) / 16 : inner;
#endif
  if (item >= (long)outer * chunks * blocks) return;
  USE(const STORAGE(T), x);
  USE(OUT, out);
  const index_t part = (index_t)(item / blocks);
  const index_t begin = part % chunks * chunk, end = min(begin + chunk, reduced);
  const index_t base = part / chunks * reduced * inner;
#if MODE == 1
  float16 s16 = EMPTY, c16 = 0;
  index_t r = begin;
  for (; r + 64 <= end; r += 64) {
#pragma unroll
    for (int l = 0; l < 64; l += 16) SOON(x + base + r + l + AHEAD);
    FN(take4)(&s16, &c16, x, base + r, 16);
  }
  for (; r + 16 <= end; r += 16) FN(take16)(&s16, &c16, LOAD16(T, x, base + r));
  float lane[16];
  vstore16(s16, 0, lane);
  ACC s = EMPTY, c = 0;
#if KIND < 2
  float lost[16];
  vstore16(c16, 0, lost);
  for (int l = 0; l < 16; l++) c += lost[l];
#endif
  for (int l = 0; l < 16; l++) FN(take)(&s, &c, lane[l]);
  for (; r < end; r++) FN(take)(&s, &c, LOAD(T, x, base + r));
  PUT(out, part, FN(total)(s, c), count);
#else
#if MODE == 3
  const index_t column = (index_t)(item - part * (long)blocks) * 16;
  const index_t lie = (part / chunks * blocks + column / 16) * reduced * 16;
  float16 s16 = EMPTY, c16 = 0;
  index_t r = begin;
  for (; r + 4 <= end; r += 4) FN(take4)(&s16, &c16, x, lie + r * 16, 16);
  for (; r < end; r++) FN(take16)(&s16, &c16, LOAD16(T, x, lie + r * 16));
  float lane[16], lost[16];
  vstore16(s16, 0, lane);
  vstore16(c16, 0, lost);
  for (int l = 0; l < min((index_t)16, inner - column); l++)
    PUT(out, part * inner + column + l, FN(total)(lane[l], lost[l]), count);
#else
#if MODE == 2
  const index_t column = (index_t)(item - part * (long)blocks) * WIDE, columns = min((index_t)WIDE, inner - column);
  const index_t whole = columns - columns % 16;
  float16 s16[WIDE / 16], c16[WIDE / 16];
  for (index_t j = 0; j < whole; j += 16) {
    s16[j / 16] = EMPTY;
    c16[j / 16] = 0;
  }
  /* Prefetches the next four rows into L2, since rows share few sets of L1; after the last rows, those of the next
   * columns. */
  const index_t next = column + WIDE < inner ? base + begin * inner + column + WIDE : base + end * inner;
  index_t r = begin;
  for (; r + 4 <= end; r += 4) {
    const index_t at = base + r * inner + column, soon = r + 8 <= end ? at + 4 * inner : next;
    for (index_t j = 0; j < whole; j += 16) {
#pragma unroll
      for (int l = 0; l < 4; l++) LATER(x + soon + l * inner + j);
      FN(take4)(s16 + j / 16, c16 + j / 16, x, at + j, inner);
    }
  }
  for (; r < end; r++)
    for (index_t j = 0; j < whole; j += 16)
      FN(take16)(s16 + j / 16, c16 + j / 16, LOAD16(T, x, base + r * inner + column + j));
  const float *s1 = (const float *)s16, *c1 = (const float *)c16;
  for (index_t j = 0; j < whole; j++) PUT(out, part * inner + column + j, FN(total)(s1[j], c1[j]), count);
#else
  const index_t column = (index_t)(item - part * (long)blocks), columns = 1, whole = 0;
#endif
  for (index_t j = column + whole; j < column + columns; j++) {
    ACC s = EMPTY, c = 0;
    for (index_t r = begin; r < end; r++) FN(take)(&s, &c, (ACC)LOAD(T, x, base + r * inner + j));
    PUT(out, part * inner + j, FN(total)(s, c), count);
  }
#endif
#endif
#endif
}

KERNEL(reduce_forward_split)(ARGS) {
  FN(reduce_forward_split_item)((long)get_global_id(0), PASS(x), PASS(out), outer, reduced, inner, chunks, chunk, count);
}
#undef ARGS
#endif

#ifdef WANT_reduce_forward_join
/* Combines the chunks of each output, in order. */
#define ARGS                                                                                                   \
  ARG(const ACC, part), ARG(STORAGE(Y), y), const index_t outputs, const index_t inner, const index_t chunks,  \
  const float count
BODY(reduce_forward_join_item)(const long item, ARGS) {
  if (item >= outputs) return;
  USE(const ACC, part);
  USE(STORAGE(Y), y);
  const index_t row = (index_t)item / inner, column = (index_t)item - row * inner;
  ACC s = EMPTY, c = 0;
  for (index_t i = 0; i < chunks; i++) FN(take)(&s, &c, part[(row * chunks + i) * inner + column]);
  STORE(Y, y, item, FINISH(FN(total)(s, c), count));
}

KERNEL(reduce_forward_join)(ARGS) {
  FN(reduce_forward_join_item)((long)get_global_id(0), PASS(part), PASS(y), outputs, inner, chunks, count);
}
#endif

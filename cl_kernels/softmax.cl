/* Softmax: maximum, sum, division (LOG: log-softmax, by a subtraction). `ref` reads an element three times and stores
 * nothing between the passes; its sum is compensated. */
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
  const index_t row = (index_t)item / inner; /* no remainder: Oclgrind lacks an instruction for both */
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

#if defined WANT_softmax_forward_vec || defined WANT_softmax_forward_rows || defined WANT_softmax_forward_lines
/* The maximum ignores NaN; the sum then becomes NaN. */
static inline void FN(take)(float16 *s, float16 *lost, const float16 v) {
  const float16 sum = *s + v, back = sum - *s;
  *lost += (*s - (sum - back)) + (v - back);
  *s = sum;
}
#endif

#ifdef WANT_softmax_forward_vec
/* One row at a time, in vectors of 16. For rows of up to KEPT elements, the results of exp are kept until the sum is
 * known. Meanwhile the next rows are prefetched. */
#define KEEPS (!LOG && KEPT)
static inline float16 FN(some)(const __global STORAGE(T) *x, index_t at, index_t left) {
  if (left >= 16) return LOAD16(T, x, at);
  float lane[16];
  for (int l = 0; l < 16; l++) lane[l] = l < left ? LOAD(T, x, at + l) : -INFINITY;
  return vload16(0, lane);
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
  const index_t far = max(n, (index_t)AHEAD); /* each pass prefetches half of a row, so that memory is busy in both */
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
    const float top = clade_largest(top16);
    float16 s16 = 0, c16 = 0;
    for (index_t begin = 0; begin < whole; begin += 256) { /* sums of pieces are compensated */
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
    const float by = clade_log((float16)(sum)).s0; /* a call of `log` would spill all constants to memory */
#else
    const float by = 1.0f / sum;
#endif
    top16 = -INFINITY;
    for (index_t i = 0; i < whole; i += 16) {
      const float16 v = VALUE(LOAD16(T, x, base + i), i);
      const float16 other = LOAD16(T, x, next + i); /* the next row's maximum, while this row is written */
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
#endif

#ifdef WANT_softmax_forward_rows
/* Sixteen rows of up to MOST elements at once, transposed in registers: a vector has an element of each row. Transposed
 * back into private memory with the last eight elements first, since their excess is overwritten by the first eight. */
__attribute__((always_inline)) static inline void FN(turn_back)(float *line, const float16 *column, index_t n) {
  float8 low[8], high[8];
#pragma unroll
  for (int l = 0; l < 8; l++) {
    low[l] = column[l].lo;
    high[l] = column[l].hi;
  }
  clade_turn(low);
  clade_turn(high);
#pragma unroll
  for (int l = 0; l < 8; l++) vstore8(low[l], 0, line + l * n);
#pragma unroll
  for (int l = 0; l < 8; l++) vstore8(high[l], 0, line + (l + 8) * n);
}
#define ARGS                                                                                                 \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t n, const index_t piece,   \
      const int stream
BODY(softmax_forward_rows_item)(const long item, ARGS) {
  if (item * piece >= outer) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min((item + 1) * piece, (long)outer);
  float16 column[MOST];
  float line[16 * MOST + 8] __attribute__((aligned(64)));
  for (index_t first = (index_t)(item * piece); first < end; first += 16) {
    const index_t begin = first * n, left = min((index_t)16, end - first) * n;
    float16 top = -INFINITY, s = 0, lost = 0;
    if (COLUMNS_INSIDE(first, n, outer)) {
      for (index_t i = 0; i < n; i += 8) COLUMNS8(T, column + i, x, (size_t)(begin + i), (size_t)n);
    } else {
      for (index_t l = 0; l < 16; l++) /* the last row is repeated */
#pragma clang loop vectorize(disable) unroll(disable)
        for (index_t i = 0; i < n; i++) ((float *)(column + i))[l] = LOAD(T, x, min(first + l, outer - 1) * n + i);
    }
    for (index_t i = 0; i < n; i++) {
      SOON(x + (size_t)begin + (size_t)i * 16 + AHEAD); /* as many cache lines as columns */
      top = LARGER(column[i], top);
    }
    for (index_t i = 0; i < n; i++) {
      const float16 v = clade_exp_below(column[i] - top);
      FN(take)(&s, &lost, v);
#if !LOG
      column[i] = v;
#endif
    }
#if LOG
    const float16 by = clade_log(s + lost);
    for (index_t i = 0; i < n; i++) column[i] = column[i] - top - by;
#else
    const float16 by = 1.0f / (s + lost);
    for (index_t i = 0; i < n; i++) column[i] *= by;
#endif
    for (index_t i = (n - 1) / 8 * 8; i >= 0; i -= 8) FN(turn_back)(line + i, column + i, n);
    for (index_t i = 0; i < left; i += 16) {
      const float16 v = *(const float16 *)(line + i);
      if (left - i < 16)
        PUT16(T, y, begin + i, left - i, v);
      else
        STREAM16(T, y, begin + i, v, stream);
    }
  }
}

KERNEL(softmax_forward_rows)(ARGS) {
  FN(softmax_forward_rows_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, piece, stream);
}
#undef ARGS
#endif

#ifdef WANT_softmax_forward_lines
/* Strips of 16 to STRIP adjacent lines, sixteen lines per vector. One strip is read while the previous one is summed
 * and the one before that is written, row by row, so that memory access overlaps computation; a single strip is read,
 * summed and written in turns. If KEPT is not 0, a strip is kept between the passes. FEW_BESIDE: fewer than 16 lines
 * are adjacent, so vectors are gathered. */
#define TALL 8
typedef struct {
  index_t width;
#if FEW_BESIDE
  size_t place[16];
#else
  index_t begin;
#endif
} FN(lines);
#if FEW_BESIDE
#define READ(of, at, left)     APART16(T, x, (of)->place, (size_t)(at))
#define WRITE(of, at, left, v) FN(scatter)(y, (of)->place, (size_t)(at), (of)->width, v)
static inline void FN(scatter)(__global STORAGE(T) *y, const size_t *place, size_t at, index_t width, float16 v) {
  float lane[16];
  vstore16(v, 0, lane);
  if (width < 16) {
    for (index_t l = 0; l < width; l++) STORE(T, y, place[l] + at, lane[l]);
    return;
  }
#pragma unroll
  for (int l = 0; l < 16; l++) STORE(T, y, place[l] + at, lane[l]);
}
#else
#define READ(of, at, left)     FN(some)(x, (of)->begin + (at), left)
#define WRITE(of, at, left, v) FN(put)(y, (of)->begin + (at), left, v, stream)
static inline float16 FN(some)(const __global STORAGE(T) *x, index_t at, index_t left) {
  return left < 16 ? SOME16(T, x, at, left) : LOAD16(T, x, at);
}
static inline void FN(put)(__global STORAGE(T) *y, index_t at, index_t left, float16 v, int stream) {
  if (left < 16)
    PUT16(T, y, at, left, v);
  else
    STREAM16(T, y, at, v, stream);
}
#endif
#if KEPT
#define FORMER(of, at, left) (*kept) /* vstore16 would take three instructions */
#define KEEP(v) *kept = v
#else
#define KEEP(v)
#if FEW_BESIDE
#define FORMER READ
#else
#define FORMER(of, at, left) FN(again)(x, (of)->begin + (at), inner, left)
static inline float16 FN(again)(const __global STORAGE(T) *x, index_t at, index_t inner, index_t left) {
  SOON(x + at + TALL * (long)inner);
  return FN(some)(x, at, left);
}
#endif
#endif
/* A vector, of which `left` lanes exist. */
static inline void FN(write)(const __global STORAGE(T) *x, __global STORAGE(T) *y, const FN(lines) *of, index_t at,
                             index_t inner, index_t left, const float16 *kept, const float16 *top, const float16 *by,
                             int stream) {
#if LOG
  const float16 v = FORMER(of, at, left) - *top - *by;
#elif KEPT
  const float16 v = *kept * *by;
#else
  const float16 v = clade_exp_below(FORMER(of, at, left) - *top) * *by;
#endif
  WRITE(of, at, left, v);
}
static inline void FN(read)(const __global STORAGE(T) *x, const __global STORAGE(T) *soon, const FN(lines) *of,
                            index_t at, index_t left, float16 *kept, float16 *top) {
  const float16 v = READ(of, at, left);
  LATER(soon); /* rows share few sets of L1 */
  *top = LARGER(v, *top);
  KEEP(v);
}
/* Sums some rows of a strip. */
static inline void FN(sum)(const __global STORAGE(T) *x, const FN(lines) *of, index_t at, index_t inner, index_t rows,
                           index_t left, float16 *kept, index_t beside, float16 top, float16 *s, float16 *lost) {
  float16 part = 0;
  for (index_t i = 0; i < rows; i++, at += inner, kept += beside) {
    const float16 v = clade_exp_below(FORMER(of, at, left) - top);
    part += v;
#if !LOG
    KEEP(v);
#endif
  }
  FN(take)(s, lost, part); /* sums of pieces are compensated */
}
#define ARGS                                                                                                 \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t n, const index_t inner,   \
      const index_t strip, const index_t piece, const int stream
BODY(softmax_forward_lines_item)(const long item, ARGS) {
  if (item * piece >= (long)outer * inner) return; /* before any division by sizes */
#if FEW_BESIDE
  const index_t lines = outer * inner, strips = (lines + strip - 1) / strip, all = strips;
#else
  const index_t strips = (inner + strip - 1) / strip, all = outer * strips;
#endif
  if (item * piece >= (long)all) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
#if KEPT
  float16 room[2][KEPT / 16], *own = room[0], *other = room[1];
#else
  float16 *own = 0, *other = 0;
#endif
  const index_t first = (index_t)(item * piece), end = (index_t)min((item + 1) * piece, (long)all);
  const index_t far = max((index_t)AHEAD / strip, (index_t)1), beside = strip / 16;
  FN(lines) fresh = {0}, summed = {0}, done = {0};
  float16 top[STRIP / 16], fresh_top[STRIP / 16], done_top[STRIP / 16];
  float16 by[STRIP / 16], s[STRIP / 16], lost[STRIP / 16];
  for (index_t part = first; part < end + 2; part++) {
    done = summed;
    summed = fresh;
    fresh.width = 0;
    const __global STORAGE(T) *soon = x, *then = x;
    if (part < end) {
#if FEW_BESIDE
      fresh.width = min(strip, lines - part * strip);
      clade_places(fresh.place, (size_t)(part * strip), (size_t)lines, (size_t)n, (size_t)inner);
#else
      const index_t block = part / strips, first_line = (part - block * strips) * strip;
      fresh.width = min(strip, inner - first_line);
      fresh.begin = block * n * inner + first_line;
      soon = x + fresh.begin + (long)far * inner;
      then = first_line + strip < inner ? soon + strip - (long)n * inner : soon - first_line;
#endif
    }
    for (index_t v = 0; v < beside; v++) {
      fresh_top[v] = -INFINITY;
      s[v] = lost[v] = 0;
    }
    for (index_t i = 0, column = 0; i < n; i++) {
      const index_t turn = i % TALL, base = i - turn, tall = min((index_t)TALL, n - base), at = i * inner;
      float16 *kept = other + i * beside;
      index_t k = 0, v = 0;
      for (; k + 16 <= done.width; k += 16, v++)
        FN(write)(x, y, &done, at + k, inner, 16, kept + v, done_top + v, by + v, stream);
      if (k < done.width) FN(write)(x, y, &done, at + k, inner, done.width - k, kept + v, done_top + v, by + v, stream);
      const __global STORAGE(T) *ask = (i + far < n ? soon : then) + at;
      for (k = v = 0; k + 16 <= fresh.width; k += 16, v++)
        FN(read)(x, ask + k, &fresh, at + k, 16, kept + v, fresh_top + v);
      if (k < fresh.width) FN(read)(x, ask + k, &fresh, at + k, fresh.width - k, kept + v, fresh_top + v);
      if (turn == 0) column = 0; /* each of the TALL rows is followed by as many columns over all rows */
      const index_t stop = min(turn + 1 == tall ? beside : beside * (turn + 1) / TALL, (summed.width + 15) / 16);
      for (; column < stop; column++) {
        const index_t left = summed.width - column * 16, from = base * inner + column * 16;
        float16 *own_kept = own + base * beside + column;
        if (tall == TALL && left >= 16)
          FN(sum)(x, &summed, from, inner, TALL, 16, own_kept, beside, top[column], s + column, lost + column);
        else
          FN(sum)(x, &summed, from, inner, tall, left, own_kept, beside, top[column], s + column, lost + column);
      }
    }
    for (index_t v = 0; v * 16 < summed.width; v++) {
#if LOG
      by[v] = clade_log(s[v] + lost[v]);
#else
      by[v] = 1.0f / (s[v] + lost[v]);
#endif
      done_top[v] = top[v];
    }
    for (index_t v = 0; v * 16 < fresh.width; v++) top[v] = fresh_top[v];
    float16 *swap = own;
    own = other;
    other = swap;
  }
}

KERNEL(softmax_forward_lines)(ARGS) {
  FN(softmax_forward_lines_item)((long)get_global_id(0), PASS(x), PASS(y), outer, n, inner, strip, piece, stream);
}
#endif

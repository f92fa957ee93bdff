/* Pooling: the maximum or mean of each window, and the gradients. dims: planes; height and width of x, of y, of the
 * kernel; for means the divisor (0: the pixels in the window). map, for height and for width: tap k of window p is
 * pixel p * mul + add + k * delta (mul, add, delta, unused). In gradients, a pixel gathers from the windows that cover
 * it. */
#ifdef WANT_pool2d_forward_ref
KERNEL(pool2d_forward_ref)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index8_t dims, const index8_t map) {
  const index_t at = get_global_id(0), plane = get_global_id(1);
  if (at >= dims.s3 * dims.s4 || plane >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  x += plane * dims.s1 * dims.s2;
  const index_t y0 = at / dims.s4 * map.s0 + map.s1, x0 = at % dims.s4 * map.s4 + map.s5;
  float top = -INFINITY, sum = 0;
  index_t count = 0;
  for (index_t ky = 0; ky < dims.s5; ky++)
    for (index_t kx = 0; kx < dims.s6; kx++) {
      const index_t py = y0 + ky * map.s2, px = x0 + kx * map.s6;
      const bool in = py >= 0 && py < dims.s1 && px >= 0 && px < dims.s2;
      const float v = LOAD(T, x, in ? py * dims.s2 + px : 0);
      top = in && (v > top || v != v) ? v : top;
      sum += in ? v : 0.0f;
      count += in;
    }
  if (dims.s7) count = dims.s7;
  STORE(T, y, plane * dims.s3 * dims.s4 + at, MAX ? top : sum / (float)max(count, (index_t)1));
}
#endif

#ifdef WANT_max_pool2d_backward_ref
/* True if tap (ky, kx), whose pixel is `own`, is the first maximum of the window that begins at (y0, x0). */
static bool FN(first)(const __global STORAGE(T) *x, const index8_t dims, const index8_t map, index_t y0, index_t x0,
                      index_t ky, index_t kx, float own) {
  for (index_t j = 0; j < dims.s5; j++)
    for (index_t i = 0; i < dims.s6; i++) {
      const index_t py = y0 + j * map.s2, px = x0 + i * map.s6;
      if (py < 0 || py >= dims.s1 || px < 0 || px >= dims.s2) continue;
      const float v = LOAD(T, x, py * dims.s2 + px);
      const bool same = v == own || (v != v && own != own), before = j < ky || (j == ky && i < kx);
      if (same ? before : v > own || v != v) return false;
    }
  return true;
}

KERNEL(max_pool2d_backward_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map) {
  const index_t at = get_global_id(0), plane = get_global_id(1);
  if (at >= dims.s1 * dims.s2 || plane >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  x += plane * dims.s1 * dims.s2;
  const index_t py = at / dims.s2 - map.s1, px = at % dims.s2 - map.s5, windows = plane * dims.s3 * dims.s4;
  const float own = LOAD(T, x, at);
  float sum = 0;
  for (index_t wy = py / map.s0; wy >= 0 && py - wy * map.s0 <= (dims.s5 - 1) * map.s2; wy--) {
    const index_t ky = (py - wy * map.s0) / map.s2;
    if (wy >= dims.s3 || wy * map.s0 + ky * map.s2 != py) continue;
    for (index_t wx = px / map.s4; wx >= 0 && px - wx * map.s4 <= (dims.s6 - 1) * map.s6; wx--) {
      const index_t kx = (px - wx * map.s4) / map.s6;
      if (wx >= dims.s4 || wx * map.s4 + kx * map.s6 != px) continue;
      if (FN(first)(x, dims, map, wy * map.s0 + map.s1, wx * map.s4 + map.s5, ky, kx, own))
        sum += LOAD(T, dy, windows + wy * dims.s4 + wx);
    }
  }
  STORE(T, dx, plane * dims.s1 * dims.s2 + at, sum);
}
#endif

#ifdef WANT_avg_pool2d_backward_ref
/* Number of a window's taps that are pixels, for a window that begins at `start`. */
static inline index_t FN(covered)(index_t start, index_t delta, index_t taps, index_t size) {
  const index_t first = start < 0 ? (delta - 1 - start) / delta : 0;
  const index_t end = start < size ? min(taps, (size - 1 - start) / delta + 1) : 0;
  return max(end - first, (index_t)0);
}

KERNEL(avg_pool2d_backward_ref)
(ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map) {
  const index_t at = get_global_id(0), plane = get_global_id(1);
  if (at >= dims.s1 * dims.s2 || plane >= dims.s0) return;
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  dy += plane * dims.s3 * dims.s4;
  const index_t py = at / dims.s2 - map.s1, px = at % dims.s2 - map.s5;
  float sum = 0;
  for (index_t wy = py / map.s0; wy >= 0 && py - wy * map.s0 <= (dims.s5 - 1) * map.s2; wy--) {
    if (wy >= dims.s3 || (py - wy * map.s0) % map.s2) continue;
    const index_t high = FN(covered)(wy * map.s0 + map.s1, map.s2, dims.s5, dims.s1);
    for (index_t wx = px / map.s4; wx >= 0 && px - wx * map.s4 <= (dims.s6 - 1) * map.s6; wx--) {
      if (wx >= dims.s4 || (px - wx * map.s4) % map.s6) continue;
      const index_t count = dims.s7 ? dims.s7 : high * FN(covered)(wx * map.s4 + map.s5, map.s6, dims.s6, dims.s2);
      sum += LOAD(T, dy, wy * dims.s4 + wx) / (float)count;
    }
  }
  STORE(T, dx, plane * dims.s1 * dims.s2 + at, sum);
}
#endif

#if MAX
#define NONE       (-INFINITY)
#define TAKE(s, v) ((s) != (s) ? (s) : (s) > (v) ? (s) : (v)) /* one instruction, which also keeps a NaN of s */
#else
#define NONE       0.0f
#define TAKE(s, v) ((s) + (v))
#endif

/* ---- vec: rows of windows, sixteen pixels or eight windows at a time; no dilation ---- */
#if defined WANT_pool2d_forward_vec || defined WANT_pool2d_backward_vec
/* MAX: maxima, else sums. TAPS and STEP: size and stride of common square windows, for which loops are unrolled; else
 * 0. */
#if TAPS
#define KH TAPS
#define KW TAPS
#define SY STEP
#define SX STEP
#else
#define KH dims.s5
#define KW dims.s6
#define SY map.s0
#define SX map.s4
#endif

/* line[0, span) = TAKE over `count` rows of pixels, from p on and columns from `first` on; NONE beyond the edges.
 * `left` elements from p on may be read. */
#define DOWN(more)                                         \
  for (; i < whole; i += 16) {                             \
    float16 v = LOAD16(T, p, i);                           \
    SOON(p + i + AHEAD);                                   \
    for (index_t k = 1; k < more; k++) {                   \
      const float16 next = LOAD16(T, p, k * width + i);    \
      v = TAKE(v, next);                                   \
    }                                                      \
    vstore16(v, 0, line + i);                              \
  }
__attribute__((noinline)) static void FN(down)(const __global STORAGE(T) *p, const long left, const index_t count,
                                               const index_t width, const index_t first, const index_t span,
                                               float *line) {
  const index_t begin = min(max(-first, (index_t)0), span), end = max(min(span, width - first), begin);
  const long over = left - (long)(count - 1) * width - first; /* columns that can be read in every row */
  const index_t whole = count > 0 ? min(end, (index_t)min(over - 15, (long)end)) : begin;
  index_t i = begin;
  p += first;
#pragma clang loop vectorize(disable)
  for (index_t l = 0; l < begin; l++) line[l] = NONE;
#if TAPS
  if (count == TAPS) { DOWN(TAPS) } else
#endif
  { DOWN(count) }
#pragma clang loop vectorize(disable)
  for (; i < end; i++) {
    float v = NONE;
    for (index_t k = 0; k < count; k++) {
      const float next = LOAD(T, p, k * width + i);
      v = TAKE(v, next);
    }
    line[i] = v;
  }
#pragma clang loop vectorize(disable)
  for (i = end; i < span + 16; i++) line[i] = NONE;
}

/* Eight elements, `step` apart. */
static inline float8 FN(every)(const float *line, const index_t step) {
  if (step == 1) return vload8(0, line);
  if (step == 2) return vload16(0, line).even;
  return (float8)(line[0], line[step], line[2 * step], line[3 * step], line[4 * step], line[5 * step],
                  line[6 * step], line[7 * step]);
}

#if !MAX
/* Pixels covered along a row of `size` pixels by each of eight windows; the first begins at `start`, and they are
 * `step` apart. */
static inline float8 FN(covered)(const index_t start, const index_t step, const index_t taps, const index_t size) {
  const int8 from = (int)start + (int)step * (int8)(0, 1, 2, 3, 4, 5, 6, 7);
  return convert_float8(max(min(from + (int)taps, (int8)(int)size) - max(from, (int8)0), (int8)0));
}

static inline float8 FN(divisor)(const index8_t dims, const index8_t map, const index_t rows, const index_t column) {
  if (dims.s7) return (float8)(float)dims.s7;
  return max(FN(covered)(column * SX + map.s5, SX, KW, dims.s2) * (float)rows, (float8)1.0f);
}
#endif
#endif

#ifdef WANT_pool2d_forward_vec
#if TAPS == 2 && STEP == 2
/* Adjacent 2 x 2 windows, directly from two rows, sixteen at a time; the last sixteen overlap those before. With fewer
 * windows, x and y must have room for sixteen. */
static inline void FN(pairs)(const __global STORAGE(T) *x, __global STORAGE(T) *y, const index_t windows,
                             const index_t width, const int stream) {
  for (index_t at = 0; at < windows; at += 16) {
    const index_t i = max(min(at, windows - 16), (index_t)0);
    const float16 a = LOAD16(T, x, 2 * i), b = LOAD16(T, x, 2 * i + 16);
    const float16 c = LOAD16(T, x, width + 2 * i), d = LOAD16(T, x, width + 2 * i + 16);
#pragma unroll
    for (int k = 0; k < 64; k += 16) SOON(x + FAR + 4 * i + k); /* both rows are contiguous */
    const float16 left = TAKE(a, c), right = TAKE(b, d);
    const float16 even = EVEN16(left, right), odd = ODD16(left, right);
#if MAX
    const float16 v = TAKE(even, odd);
#else
    const float16 v = TAKE(even, odd) * 0.25f;
#endif
    STREAM16(T, y, i, v, stream);
  }
}
#elif TAPS == 3 && STEP == 2
/* Sixteen or more 3 x 3 windows, directly from three rows; the first one begins at pixel `first`, which may be -1. The
 * last sixteen overlap those before. */
static inline void FN(triples)(const __global STORAGE(T) *x, __global STORAGE(T) *y, const index_t windows,
                               const index_t width, const index_t first, const float by, const float edge,
                               const int stream) {
  for (index_t at = 0; at < windows; at += 16) {
    const index_t i = min(at, windows - 16), p = 2 * i + first + 1, own = max(p - 1, (index_t)0);
    float16 left = LOAD16(T, x, p), right = LOAD16(T, x, p + 16);
    float16 before = LOAD(T, x, own);
#pragma unroll
    for (int k = 0; k < 64; k += 16) SOON(x + 3 * width + AHEAD + 4 * i + k); /* two of three rows are new */
#pragma unroll
    for (int k = 1; k < 3; k++) {
      const float16 a = LOAD16(T, x, k * width + p), b = LOAD16(T, x, k * width + p + 16);
      const float16 c = LOAD(T, x, k * width + own);
      left = TAKE(left, a);
      right = TAKE(right, b);
      before = TAKE(before, c);
    }
    if (p == 0) before = NONE;
    const float16 even = EVEN16(left, right), odd = ODD16(left, right), last = BEHIND16(before, odd);
    float16 v = TAKE(even, odd);
    v = TAKE(v, last);
#if !MAX
    float16 divisor = by;
    if (p == 0) divisor.s0 = edge;
    v /= divisor;
#endif
    STREAM16(T, y, i, v, stream);
  }
}
#endif

/* A work-item computes `piece` rows of y, in pieces of `tile` windows. JOINED rows are processed as one if windows
 * leave no gaps; `tile` is then the width of y. */
#define ARGS                                                                                           \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index8_t dims, const index8_t map,               \
      const index_t piece, const index_t tile, const index_t joined, const int stream
BODY(pool2d_forward_vec_item)(const long item, ARGS) {
  const long rows = (long)dims.s0 * dims.s3, begin = item * piece;
  if (begin >= rows) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, rows), pixels = dims.s1 * dims.s2;
  index_t row = (index_t)begin;
#if TAPS == 2 && STEP == 2
  if (!map.s1 && !map.s5 && 2 * dims.s3 <= dims.s1 && 2 * dims.s4 <= dims.s2) {
    for (; row < end; row++) {
      const index_t own = stream ? (index_t)begin + ROW_IN_TURN(row - (index_t)begin, end - (index_t)begin) : row;
      const index_t plane = own / dims.s3, at = plane * pixels + (own - plane * dims.s3) * 2 * dims.s2;
      const bool room = !stream && (end - row) * dims.s4 >= 16 && at + dims.s2 + 32 <= dims.s0 * pixels;
      if (dims.s4 < 16 && !room) break; /* the excess is overwritten by the next rows */
      FN(pairs)(x + at, y + own * dims.s4, dims.s4, dims.s2, stream);
    }
  }
#endif
  float line[LINE + 32];
  for (; row < end; row += joined) {
    const index_t count = min(joined, end - row);
    index_t c = 0;
#if TAPS == 3 && STEP == 2
    const index_t whole = min((dims.s2 - 3 - map.s5) / 2 + 1, dims.s4), up = row % dims.s3 * 2 + map.s1;
    if (map.s5 >= -1 && whole >= 16 && up >= 0 && up + 3 <= dims.s1) {
      FN(triples)(x + row / dims.s3 * pixels + up * dims.s2, y + row * dims.s4, whole, dims.s2, map.s5,
                  dims.s7 ? (float)dims.s7 : 9.0f, dims.s7 ? (float)dims.s7 : 6.0f, stream);
      c = whole;
    }
#endif
    for (; c < dims.s4; c += tile) {
      const index_t n = min(tile, dims.s4 - c), first = c * SX + map.s5;
      const index_t span = joined > 1 ? dims.s2 : (n - 1) * SX + KW;
      index_t high = 1;
      for (index_t r = 0; r < count; r++) {
        const index_t plane = (row + r) / dims.s3, top = (row + r - plane * dims.s3) * SY + map.s1;
        const index_t from = max(top, (index_t)0), at = plane * pixels + from * dims.s2;
        high = max(min(top + KH, dims.s1) - from, (index_t)0);
        FN(down)(x + at, (long)dims.s0 * pixels - at, high, dims.s2, first, span, line + r * dims.s2);
      }
      const index_t all = n * count, to = row * dims.s4 + c, room = end * dims.s4 - to;
      for (index_t o = 0; o < all; o += 8) {
#if TAPS && STEP == 2
        const float16 pairs = vload16(0, line + o * 2);
        float8 v = TAKE(pairs.even, pairs.odd);
#if TAPS == 3
        const float8 third = vload16(0, line + o * 2 + 2).even;
        v = TAKE(v, third);
#endif
#else
        float8 v = NONE;
        for (index_t k = 0; k < KW; k++) {
          const float8 next = FN(every)(line + o * SX + k, SX);
          v = TAKE(v, next);
        }
#endif
#if !MAX
        v /= joined > 1 ? (float8)((float)high * KW) : FN(divisor)(dims, map, high, c + o);
#endif
        if (o + 8 <= room) { /* the excess is overwritten */
          STOREN(8, T, y, to + o, v);
        } else {
          float lane[8];
          vstore8(v, 0, lane);
          for (index_t l = 0; o + l < all; l++) STORE(T, y, to + o + l, lane[l]);
        }
      }
    }
  }
}

KERNEL(pool2d_forward_vec)(ARGS) {
  FN(pool2d_forward_vec_item)((long)get_global_id(0), PASS(x), PASS(y), dims, map, piece, tile, joined, stream);
}
#undef ARGS
#endif

#ifdef WANT_pool2d_backward_vec
#if MAX
#define ARG_X   ARG(const STORAGE(T), x),
#define PASS_X  PASS(x),
#define ARG_PTR const __global STORAGE(T) *x,
#define PTR(at) x + (at),
#else
#define ARG_X
#define PASS_X
#define ARG_PTR
#define PTR(at)
#endif
#define BEATS(v, best) (~((v) <= (best)) & ((best) == (best))) /* true for NaN too */
/* Windows and places at a time: sixteen if loops over taps are unrolled. */
#if TAPS
#define WIDE   16
#define PLACES 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#else
#define WIDE   8
#define PLACES 0, 1, 2, 3, 4, 5, 6, 7
#endif
typedef CLADE_PASTE(float, WIDE) FN(floats);
typedef CLADE_PASTE(int, WIDE) FN(ints);
#define TO(p, v) CLADE_PASTE(vstore, WIDE)(CLADE_PASTE(as_float, WIDE)(v), 0, p)
/* Sums for adjacent places over the windows that reach band m, with row `ry` and column `rx` within the stride. */
static inline FN(floats) FN(gather)(const float *g, const int *hit, const index8_t dims, const index8_t map,
                                const index_t m, const index_t ring, const index_t pitch, const index_t at,
                                const index_t ry, const index_t rx) {
  const index_t slot = m % ring;
  FN(floats) sum = 0;
#pragma unroll
  for (index_t j = 0, ky = ry; ky < KH; j++, ky += SY) {
    if (m < j || m - j >= dims.s3) continue;
    const index_t row = (slot < j ? slot - j + ring : slot - j) * pitch + at;
#pragma unroll
    for (index_t i = 0, kx = rx; kx < KW; i++, kx += SX) {
      const FN(floats) v = CLADE_PASTE(vload, WIDE)(0, g + row - i);
#if MAX
      sum += select((FN(floats))0, v, CLADE_PASTE(vload, WIDE)(0, hit + row - i) == (int)(ky * KW + kx));
#else
      sum += v;
#endif
    }
  }
  return sum;
}
#define GATHER(ry, rx) FN(gather)(g, hit, dims, map, m, ring, pitch, at, ry, rx)

#if TAPS == 2 && STEP == 2
/* Adjacent 2 x 2 windows from the first pixel on: two rows of dx from a row of windows, eight at a time; the last eight
 * overlap those before. Pixels behind them get zero. `room`: fewer than eight may be done as eight. */
static inline void FN(pairs)(ARG_PTR const __global STORAGE(T) *dy, __global STORAGE(T) *dx, const index_t windows,
                             const index_t width, const bool room, const int stream) {
  for (index_t at = 0; at < windows && (windows >= 8 || room); at += 8) {
    const index_t i = max(min(at, windows - 8), (index_t)0);
    const float8 g = LOADN(8, T, dy, i);
    float16 up, down;
    SOON(dy + AHEAD / 4 + i);
#if MAX
    const float16 a = LOAD16(T, x, 2 * i), b = LOAD16(T, x, width + 2 * i);
    SOON(x + AHEAD + 4 * i);
    SOON(x + AHEAD + 4 * i + 16);
    const int8 second = BEATS(a.odd, a.even);
    float8 best = select(a.even, a.odd, second);
    const int8 third = BEATS(b.even, best);
    best = select(best, b.even, third);
    const int8 last = BEATS(b.odd, best), below = third | last;
    up.even = select(g, (float8)(0.0f), second | below);
    up.odd = select((float8)(0.0f), g, second & ~below);
    down.even = select((float8)(0.0f), g, third & ~last);
    down.odd = select((float8)(0.0f), g, last);
#else
    up.even = up.odd = g * 0.25f;
    down = up;
#endif
    STREAM16(T, dx, 2 * i, up, stream);
    STREAM16(T, dx, width + 2 * i, down, stream);
  }
  for (index_t i = windows >= 8 || room ? windows : 0; i < windows; i++) {
    const float g = LOAD(T, dy, i);
#if MAX
    float best = LOAD(T, x, 2 * i);
    int which = 0;
    for (int k = 1; k < 4; k++) {
      const float v = LOAD(T, x, (k >> 1) * width + 2 * i + (k & 1));
      if (v > best || (v != v && best == best)) {
        best = v;
        which = k;
      }
    }
#endif
    for (int k = 0; k < 4; k++) {
#if MAX
      const float v = k == which ? g : 0.0f;
#else
      const float v = g * 0.25f;
#endif
      STORE(T, dx, (k >> 1) * width + 2 * i + (k & 1), v);
    }
  }
  for (index_t r = 0; r < 2; r++)
    for (index_t i = 2 * windows; i < width; i++) STORE(T, dx, r * width + i, 0.0f);
}
#endif

/* dx is computed in bands of as many rows as the stride, and likewise along a row: band m and place o are reached by
 * the windows m - j and o - i. A work-item does `piece` of the `bands` of each plane, in pieces of `tile` places. A
 * ring buffer keeps the rows of windows that reach a band: their gradients and, for maxima, the tap that attains it. */
#define ARGS                                                                                                   \
  ARG_X ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map,               \
      const index_t bands, const index_t piece, const index_t tile, const int stream
BODY(pool2d_backward_vec_item)(const long item, ARGS) {
  const long all = (long)dims.s0 * bands, begin = item * piece, end = min(begin + piece, all);
  if (begin >= all) return;
#if MAX
  USE(const STORAGE(T), x);
  float lines[LINE + 32];
  int hit[RING + 32];
#else
  const int *hit = 0;
#endif
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  float g[RING + 32], out[LINE + 32];
  const index_t pixels = dims.s1 * dims.s2, windows = dims.s3 * dims.s4;
#if TAPS == 2 && STEP == 2
  if (!map.s1 && !map.s5 && 2 * dims.s3 <= dims.s1 && 2 * dims.s4 <= dims.s2) {
    const long stop = end / bands * pixels + end % bands * 2 * dims.s2; /* start of the next item's */
    for (long b = begin; b < end; b++) {
      const index_t p = (index_t)(b / bands), m = (index_t)(b - (long)p * bands), at = p * pixels + m * 2 * dims.s2;
      const index_t from = p * windows + m * dims.s4;
      const bool room = !stream && at + dims.s2 + 16 <= stop && from + 8 <= dims.s0 * windows;
      if (m < dims.s3) /* the excess is overwritten by the next bands */
        FN(pairs)(PTR(at) dy + from, dx + at, dims.s4, dims.s2, room, stream);
      else
        for (index_t i = 0; i < min(2 * dims.s2, pixels - m * 2 * dims.s2); i++) STORE(T, dx, at + i, 0.0f);
    }
    return;
  }
#endif
  const index_t more = (KW - 1) / SX, ring = (KH - 1) / SY + 1, places = (dims.s2 - 1 - map.s5) / SX + 1;
  for (index_t c = 0; c < places; c += tile) {
    const index_t n = min(tile, places - c), pitch = tile + more + 16, o0 = c - more;
    index_t plane = -1, next = 0;
    for (long b = begin; b < end; b++) {
      const index_t p = (index_t)(b / bands), m = (index_t)(b - (long)p * bands);
      if (p != plane) next = max(m - ring + 1, (index_t)0);
      plane = p;
      for (; next <= min(m, dims.s3 - 1); next++) { /* a row of windows joins the ring */
        const index_t top = next * SY + map.s1, a = max(top, (index_t)0), e = min(top + KH, dims.s1);
        const index_t low = max(-o0, (index_t)0), high = max(min(n + more, dims.s4 - o0), low);
        const index_t from = p * windows + next * dims.s4 + o0;
        float *row = g + next % ring * pitch;
        for (index_t i = 0; i < low; i++) row[i] = 0;
        for (index_t i = low; i < high; i += 8) {
          if ((long)from + i + 8 <= (long)dims.s0 * windows) {
            float8 v = LOADN(8, T, dy, from + i);
#if !MAX
            v /= FN(divisor)(dims, map, e - a, o0 + i);
#endif
            vstore8(v, 0, row + i);
          } else {
            for (index_t l = i; l < high; l++) {
              float v = LOAD(T, dy, from + l);
#if !MAX
              v /= FN(divisor)(dims, map, e - a, o0 + l).s0;
#endif
              row[l] = v;
            }
          }
        }
        for (index_t i = high; i < pitch; i++) row[i] = 0;
#if MAX
        const index_t first = o0 * SX + map.s5, span = (n + more - 1) * SX + KW, step = span + 16;
        for (index_t k = a; k < e; k++) {
          const index_t at = p * pixels + k * dims.s2;
          FN(down)(x + at, (long)dims.s0 * pixels - at, 1, dims.s2, first, span, lines + (k - a) * step);
        }
        int *chosen = hit + next % ring * pitch;
        for (index_t i = 0; i < n + more; i += WIDE) { /* initially the first pixel: it may be -infinity */
          const FN(ints) begins = max(-((int)((o0 + i) * SX + map.s5) + (int)SX * (FN(ints))(PLACES)), (FN(ints))0);
          FN(ints) which = (int)(a - top) * (int)KW + begins;
          FN(floats) best = -INFINITY;
          for (index_t k = a; k < e; k++) {
            const float *p = lines + (k - a) * step + i * SX;
#if TAPS /* row by row, for independent dependency chains */
            const float16 low = vload16(0, p), high = vload16(0, p + 16), odd = (float16)(low.odd, high.odd);
            float16 first = (float16)(low.even, high.even);
            int16 better = BEATS(odd, first), tap = select(begins, (int16)1, better);
            first = select(first, odd, better);
#if TAPS == 3
            const float16 last = (float16)(vload16(0, p + 2).even, vload16(0, p + 18).even);
            better = BEATS(last, first);
            tap = select(tap, (int16)2, better);
            first = select(first, last, better);
#endif
            better = k == a ? (int16)(-1) : BEATS(first, best);
            best = select(best, first, better);
            which = select(which, tap + (int)((k - top) * TAPS), better);
#else
            for (index_t t = 0; t < KW; t++) {
              const float8 v = FN(every)(p + t, SX);
              const int8 better = BEATS(v, best);
              best = select(best, v, better);
              which = select(which, (int8)(int)((k - top) * KW + t), better);
            }
#endif
          }
          TO(chosen + i, which);
        }
#endif
      }
      for (index_t ry = 0; ry < SY; ry++) {
        const index_t py = m * SY + ry + map.s1;
        if (py < 0 || py >= dims.s1) continue;
        for (index_t k = 0; k < n; k += WIDE) {
          const index_t at = more + k;
#if TAPS
          const float16 even = ry ? GATHER(1, 0) : GATHER(0, 0), odd = ry ? GATHER(1, 1) : GATHER(0, 1);
          float16 low, high;
          low.even = even.lo, low.odd = odd.lo;
          high.even = even.hi, high.odd = odd.hi;
          TO(out + 2 * k, low);
          TO(out + 2 * k + 16, high);
#else
          if (SX == 1) {
            TO(out + k, GATHER(ry, 0));
          } else if (SX == 2) {
            float16 v;
            v.even = GATHER(ry, 0);
            v.odd = GATHER(ry, 1);
            vstore16(v, 0, out + 2 * k);
          } else {
            for (index_t rx = 0; rx < SX; rx++) {
              float lane[8];
              vstore8(GATHER(ry, rx), 0, lane);
              for (int l = 0; l < 8; l++) out[(k + l) * SX + rx] = lane[l];
            }
          }
#endif
        }
        const index_t left = c * SX + map.s5, skip = max(-left, (index_t)0), stop = min(n * SX, dims.s2 - left);
        const index_t to = p * pixels + py * dims.s2 + left;
        index_t i = skip;
        for (; i + 16 <= stop; i += 16) {
          const float16 v = vload16(0, out + i);
          STREAM16(T, dx, to + i, v, stream);
        }
        for (; i < stop; i++) STORE(T, dx, to + i, out[i]);
      }
    }
  }
}

KERNEL(pool2d_backward_vec)(ARGS) {
  FN(pool2d_backward_vec_item)((long)get_global_id(0), PASS_X PASS(dy), PASS(dx), dims, map, bands, piece, tile, stream);
}
#endif

/* Gradient of 3 x 3 max pooling with stride 2 and padding 1: sixteen windows of a row at a time, entirely in registers.
 * Arguments as in pool2d.cl. A window's gradient goes to its first tap that equals the maximum.
 *
 * Row w of windows contributes to rows 2w - 1, 2w and 2w + 1 of dx. The last of these is kept in `even` and `odd` until
 * row w + 1 has contributed. Columns are processed from the right: an odd column belongs to two windows, the right one
 * of which may be in the vector before. */
#define LANES   ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

/* A plane, and the number of elements of x and dy from its beginning on, since reads may exceed its rows. */
typedef struct {
  const __global STORAGE(T) *x, *dy;
  __global STORAGE(T) *dx;
  index_t height, width, high, wide; /* in pixels; in windows */
  long left, left_dy;
  int stream;
} FN(plane);

/* Loads the pixels left of, at and right of the centers of sixteen windows of a row, from column `c` on; -infinity
 * outside of the image. Pixels read from other rows belong to windows that do not exist. */
__attribute__((always_inline)) static inline void FN(taps)(const FN(plane) *p, const bool whole, const long row, const index_t c, float16 *tap) {
  const __global STORAGE(T) *x = p->x + row * p->width;
  const float16 before = c ? LOAD(T, x, c - 1) : -INFINITY;
  float16 a, b;
  if (whole || (p->width % 2 == 0 && row * p->width + c + 32 <= p->left)) {
    a = LOAD16(T, x, c);
    b = LOAD16(T, x, c + 16);
  } else {
    float lane[32];
#pragma clang loop vectorize(disable) unroll(disable)
    for (index_t i = 0; i < 32; i++) lane[i] = c + i < p->width ? LOAD(T, x, c + i) : -INFINITY;
    a = vload16(0, lane);
    b = vload16(1, lane);
  }
  tap[1] = EVEN16(a, b);
  tap[2] = ODD16(a, b);
  tap[0] = BEHIND16(before, tap[2]);
}

/* Stores up to 32 pixels of a row of dx from column c on. */
__attribute__((always_inline)) static inline void FN(put)(const FN(plane) *p, const bool whole, const long row, const index_t c, const float16 even,
                           const float16 odd) {
  __global STORAGE(T) *dx = p->dx + row * p->width;
  const index_t n = whole ? 32 : p->width - c;
  const float16 low = MIXED16(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  if (n >= 16) STREAM16(T, dx, c, low, p->stream);
  else PUT16(T, dx, c, n, low);
  if (n <= 16) return;
  const float16 high = MIXED16(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  if (n >= 32) STREAM16(T, dx, c + 16, high, p->stream);
  else PUT16(T, dx, c + 16, n - 16, high);
}

static inline float16 FN(largest)(const float16 *tap) {
  const float16 two = LARGER(tap[0], tap[1]);
  return LARGER(two, tap[2]);
}

/* The values of some lanes; and the rest, in the other lanes. */
#define SOME(v, lanes) select((float16)(0.0f), v, lanes)
#define LEFT(v, some)  as_float16(as_int16(v) ^ as_int16(some))

/* Sixteen windows of row w from `first` on: adds their contributions to the end of the row above, if `above`, and to
 * their own rows. whole: all windows and all pixels that they cover exist. next: contributions of the windows to the
 * right to their left columns. */
__attribute__((always_inline)) static inline void FN(windows)(const FN(plane) *p, const bool whole, const index_t w, const index_t first,
                               const bool above, const bool own, float16 *next, float *even, float *odd) {
  const long top = 2 * (long)w - 1;
  const index_t c = 2 * first;
  float16 tap[9], g = 0, sent[9];
#pragma unroll
  for (int r = 0; r < 3; r++) {
    tap[3 * r] = tap[3 * r + 1] = tap[3 * r + 2] = -INFINITY;
    if (whole || (top + r >= 0 && top + r < p->height)) FN(taps)(p, whole, top + r, c, tap + 3 * r);
  }
  const __global STORAGE(T) *soon = p->x + ((top + 3) * p->width + 2 * c); /* two of three rows are new */
#pragma unroll
  for (int k = 0; k < 64; k += 16) SOON(soon + AHEAD + k);
  const long from = (long)w * p->wide + first;
  SOON(p->dy + from + AHEAD / 4);
  if (whole)
    g = LOAD16(T, p->dy, from);
  else if (w < p->high) {
    const int n = (int)min(p->wide - first, (index_t)16);
    g = from + 16 <= p->left_dy ? LOAD16(T, p->dy, from) : SOME16(T, p->dy, from, n);
    g = select((float16)(0.0f), g, LANES < n);
  }
  float16 row[3], best = -INFINITY;
  int16 number = -1;
#pragma unroll
  for (int r = 0; r < 3; r++) {
    row[r] = FN(largest)(tap + 3 * r);
    best = LARGER(row[r], best);
    number &= (tap[3 * r] == tap[3 * r]) & (tap[3 * r + 1] == tap[3 * r + 1]) & (tap[3 * r + 2] == tap[3 * r + 2]);
  }
  if (ANY16(~(number & (best > -INFINITY)))) { /* the first NaN, or the first tap that is a pixel */
    const int16 lowest = number & (best == -INFINITY), rare = lowest | ~number;
#pragma unroll
    for (int k = 0; k < 9; k++) {
      const int16 column = (int)c + 2 * LANES + (k % 3 - 1);
      const bool inside = top + k / 3 >= 0 && top + k / 3 < p->height;
      const int16 pixel = (inside ? -1 : 0) & (column >= 0) & (column < (int)p->width);
      const int16 like = select(~(tap[k] == tap[k]), pixel, lowest);
      tap[k] = select(tap[k], select((float16)(0.0f), (float16)(1.0f), like), rare);
    }
#pragma unroll
    for (int r = 0; r < 3; r++) row[r] = FN(largest)(tap + 3 * r);
    best = select(best, (float16)(1.0f), rare);
  }
#pragma unroll
  for (int r = 0; r < 3; r++) { /* the first row with the maximum, and in it the first tap */
    const float16 part = r < 2 ? SOME(g, row[r] == best) : g;
    g = LEFT(g, part);
    sent[3 * r] = SOME(part, tap[3 * r] == row[r]);
    const float16 rest = LEFT(part, sent[3 * r]);
    sent[3 * r + 1] = SOME(rest, tap[3 * r + 1] == row[r]);
    sent[3 * r + 2] = LEFT(rest, sent[3 * r + 1]);
  }
#pragma unroll
  for (int r = 0; r < 3; r++) { /* odd columns receive from both sides */
    const float16 near = sent[3 * r];
    sent[3 * r + 2] += MIXED16(near, next[r], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    next[r] = near;
  }
  if (whole || above) FN(put)(p, whole, top, c, vload16(0, even + first) + sent[1], vload16(0, odd + first) + sent[2]);
  if (whole || own) {
    FN(put)(p, whole, top + 1, c, sent[4], sent[5]);
    vstore16(sent[7], 0, even + first);
    vstore16(sent[8], 0, odd + first);
  }
}

/* A work-item does `piece` pairs of rows, beginning with an even one, over all planes; it recomputes the windows that
 * it shares with another work-item. */
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims,               \
      const index8_t map, const index_t piece, const int stream
BODY(max_pool2d_backward_triples_item)(const long item, ARGS) {
  const long pairs = (long)dims.s0 * dims.s3, begin = item * piece, end = min(begin + piece, pairs);
  if (begin >= pairs) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  float even[WIDE], odd[WIDE];
  for (long pair = begin; pair < end;) {
    const index_t plane = (index_t)(pair / dims.s3), from = (index_t)(pair - (long)plane * dims.s3);
    const index_t to = (index_t)min((long)dims.s3, from + (end - pair));
    const long at = (long)plane * dims.s1 * dims.s2, at_dy = (long)plane * dims.s3 * dims.s4;
    const FN(plane) p = {x + at, dy + at_dy, dx + at, dims.s1, dims.s2, dims.s3, dims.s4,
                         (long)dims.s0 * dims.s1 * dims.s2 - at, (long)dims.s0 * dims.s3 * dims.s4 - at_dy, stream};
    for (index_t w = from; w <= to; w++) {
      const bool above = w > from && 2 * w <= p.height, own = w < to, inside = above && own && 2 * w + 1 < p.height;
      float16 next[3] = {0, 0, 0};
      for (index_t first = (p.wide - 1) / 16 * 16; first >= 0; first -= 16)
        if (inside && 2 * first + 32 <= p.width)
          FN(windows)(&p, true, w, first, above, own, next, even, odd);
        else
          FN(windows)(&p, false, w, first, above, own, next, even, odd);
    }
    pair += to - from;
  }
}

KERNEL(max_pool2d_backward_triples)(ARGS) {
  FN(max_pool2d_backward_triples_item)((long)get_global_id(0), PASS(x), PASS(dy), PASS(dx), dims, map, piece, stream);
}

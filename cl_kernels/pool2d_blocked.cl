/* Pooling of images with channels in blocks of 16: one channel per lane; planes are blocks of channels. Arguments as in
 * pool2d.cl. */
#if MAX
#define NONE       (-INFINITY)
#define TAKE(s, v) (((v) > (s)) | ((v) != (v)) ? (v) : (s))
#else
#define NONE       0.0f
#define TAKE(s, v) ((s) + (v))
#endif

/* Taps [first, end) of a window along one axis that are pixels; the window begins at `start`, with taps `delta` apart.
 */
static inline index_t FN(first_tap)(const index_t start, const index_t delta, const index_t taps) {
  return start < 0 ? min((delta - 1 - start) / delta, taps) : 0;
}
static inline index_t FN(end_tap)(const index_t start, const index_t delta, const index_t taps, const index_t size) {
  return start < size ? min(taps, (size - 1 - start) / delta + 1) : 0;
}

#ifdef WANT_pool2d_forward_blocked
#define ARGS                                                                                           \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index8_t dims, const index8_t map,               \
      const index_t piece, const int stream
BODY(pool2d_forward_blocked_item)(const long item, ARGS) {
  const long rows = (long)dims.s0 * dims.s3, begin = item * piece;
  if (begin >= rows) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t end = (index_t)min(begin + piece, rows);
  for (index_t row = (index_t)begin; row < end; row++) {
    const index_t plane = row / dims.s3, top = (row - plane * dims.s3) * map.s0 + map.s1;
    const index_t k0 = FN(first_tap)(top, map.s2, dims.s5), k1 = FN(end_tap)(top, map.s2, dims.s5, dims.s1);
    const __global STORAGE(T) *line = x + (plane * dims.s1 + top) * dims.s2 * 16;
    for (index_t c = 0, left = map.s5; c < dims.s4; c++, left += map.s4) {
      const index_t t0 = FN(first_tap)(left, map.s6, dims.s6), t1 = FN(end_tap)(left, map.s6, dims.s6, dims.s2);
      float16 v = NONE;
      for (index_t k = k0; k < k1; k++)
        for (index_t t = t0; t < t1; t++) {
          const float16 next = LOAD16(T, line, (k * map.s2 * dims.s2 + left + t * map.s6) * 16);
          v = TAKE(v, next);
        }
#if !MAX
      v /= (float)(dims.s7 ? dims.s7 : max((k1 - k0) * (t1 - t0), (index_t)1));
#endif
      STREAM16(T, y, (row * dims.s4 + c) * 16, v, stream);
    }
  }
}

KERNEL(pool2d_forward_blocked)(ARGS) {
  FN(pool2d_forward_blocked_item)((long)get_global_id(0), PASS(x), PASS(y), dims, map, piece, stream);
}
#undef ARGS
#endif

#ifdef WANT_pool2d_backward_blocked
#if MAX
#define ARG_X  ARG(const STORAGE(T), x),
#define PASS_X PASS(x),
#else
#define ARG_X
#define PASS_X
#endif
/* A tile of `box` rows and `wide` columns of a plane of dx: adds the contributions of the windows that reach it, window
 * by window. */
#define ARGS                                                                                                   \
  ARG_X ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map,               \
      const index_t box, const index_t wide, const int stream
BODY(pool2d_backward_blocked_item)(const long item, ARGS) {
  const long down = box ? (dims.s1 + box - 1) / box : 0, across = wide ? (dims.s2 + wide - 1) / wide : 0;
  if (item >= dims.s0 * down * across) return;
#if MAX
  USE(const STORAGE(T), x);
#endif
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  const index_t plane = (index_t)(item / (down * across)), rest = (index_t)(item - plane * down * across);
  const index_t y0 = rest / (index_t)across * box, x0 = rest % (index_t)across * wide;
  const index_t y1 = min(y0 + box, dims.s1), x1 = min(x0 + wide, dims.s2);
  const index_t high = (dims.s5 - 1) * map.s2, broad = (dims.s6 - 1) * map.s6;
  float sum[BOX];
  for (index_t i = 0; i < (y1 - y0) * (x1 - x0); i++) vstore16((float16)(0.0f), i, sum);
  /* from the first window whose last tap reaches the tile to the last one whose first tap does */
  const index_t wy = max(y0 - map.s1 - high + map.s0 - 1, (index_t)0) / map.s0;
  const index_t wx = max(x0 - map.s5 - broad + map.s4 - 1, (index_t)0) / map.s4;
  for (index_t r = wy, top = wy * map.s0 + map.s1; r < dims.s3 && top < y1; r++, top += map.s0) {
    const index_t k0 = FN(first_tap)(top, map.s2, dims.s5), k1 = FN(end_tap)(top, map.s2, dims.s5, dims.s1);
    for (index_t c = wx, left = wx * map.s4 + map.s5; c < dims.s4 && left < x1; c++, left += map.s4) {
      const index_t t0 = FN(first_tap)(left, map.s6, dims.s6), t1 = FN(end_tap)(left, map.s6, dims.s6, dims.s2);
      float16 g = LOAD16(T, dy, ((plane * dims.s3 + r) * dims.s4 + c) * 16);
#if MAX
      float16 best = -INFINITY;
      int16 which = (int)(k0 * dims.s6 + t0); /* initially the first tap that is a pixel, which may be -infinity */
      for (index_t k = k0; k < k1; k++)
        for (index_t t = t0; t < t1; t++) {
          const float16 v = LOAD16(T, x, ((plane * dims.s1 + top + k * map.s2) * dims.s2 + left + t * map.s6) * 16);
          const int16 better = (v > best) | ((v != v) & (best == best));
          best = select(best, v, better);
          which = select(which, (int16)((int)(k * dims.s6 + t)), better);
        }
#else
      g /= (float)(dims.s7 ? dims.s7 : max((k1 - k0) * (t1 - t0), (index_t)1));
#endif
      for (index_t k = k0; k < k1; k++) {
        const index_t py = top + k * map.s2 - y0;
        if (py < 0 || py >= y1 - y0) continue;
        for (index_t t = t0; t < t1; t++) {
          const index_t px = left + t * map.s6 - x0, at = py * (x1 - x0) + px;
          if (px < 0 || px >= x1 - x0) continue;
#if MAX
          const float16 v = select((float16)(0.0f), g, which == (int)(k * dims.s6 + t));
#else
          const float16 v = g;
#endif
          vstore16(vload16(at, sum) + v, at, sum);
        }
      }
    }
  }
  for (index_t r = y0; r < y1; r++)
    for (index_t c = x0; c < x1; c++) {
      const float16 v = vload16((r - y0) * (x1 - x0) + c - x0, sum);
      STREAM16(T, dx, ((plane * dims.s1 + r) * dims.s2 + c) * 16, v, stream);
    }
}

KERNEL(pool2d_backward_blocked)(ARGS) {
  FN(pool2d_backward_blocked_item)((long)get_global_id(0), PASS_X PASS(dy), PASS(dx), dims, map, box, wide, stream);
}
#endif

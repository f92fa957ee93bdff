/* Pooling and its gradients on GPUs. For windows a work-item has a strip of STRIP consecutive windows in a column, so
 * that neighboring items read neighboring pixels. For pixels it has four consecutive ones of a row, and visits the
 * windows that cover any of them. Positions are computed once for all of these. The index of each window's maximum is
 * found once, by its own launch. dims and map as in pool2d.cl. */
#define STRIP 4

#ifdef WANT_pool2d_forward_group
/* TAPS: size of common square windows without dilation, for which loops are unrolled; 0: any. WINNERS: instead of the
 * maximum, writes the index in its plane of the first pixel that attains it, or -1 for a window without pixels. */
#if TAPS
#define KH TAPS
#define KW TAPS
#define DY 1
#define DX 1
#define EACH _Pragma("unroll")
#else
#define KH dims.s5
#define KW dims.s6
#define DY map.s2
#define DX map.s6
#define EACH
#endif
#if WINNERS
#define RESULT int
#else
#define RESULT STORAGE(T)
#endif
KERNEL(pool2d_forward_group)
(ARG(const STORAGE(T), x), ARG(RESULT, y), const index8_t dims, const index8_t map, const index_t total) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= total) return;
  USE(const STORAGE(T), x);
  USE(RESULT, y);
  const index_t strips = (dims.s3 + STRIP - 1) / STRIP, rest = item / dims.s4, column = item - rest * dims.s4;
  const index_t plane = rest / strips, first = (rest - plane * strips) * STRIP, base = plane * dims.s1 * dims.s2;
  const index_t x0 = column * map.s4 + map.s5, to = (plane * dims.s3 + first) * dims.s4 + column;
  for (int o = 0; o < STRIP && first + o < dims.s3; o++) {
    const index_t y0 = (first + o) * map.s0 + map.s1;
    float top = -INFINITY, sum = 0;
    index_t winner = -1, count = 0;
    EACH for (index_t ky = 0; ky < KH; ky++) {
      const index_t py = y0 + ky * DY;
      EACH for (index_t kx = 0; kx < KW; kx++) {
        const index_t px = x0 + kx * DX, at = py * dims.s2 + px;
        const bool in = py >= 0 && py < dims.s1 && px >= 0 && px < dims.s2;
        const float v = LOAD(T, x, in ? base + at : base);
        winner = in && (winner < 0 || v > top || (v != v && top == top)) ? at : winner;
        top = in && (v > top || v != v) ? v : top;
        sum += in ? v : 0.0f;
        count += in;
      }
    }
    if (dims.s7) count = dims.s7;
#if WINNERS
    y[to + o * dims.s4] = (int)winner;
#else
    STORE(T, y, to + o * dims.s4, MAX ? top : sum / (float)max(count, (index_t)1));
#endif
  }
}
#endif

#if defined WANT_max_pool2d_backward_group || defined WANT_avg_pool2d_backward_group
/* Four pixels of a row, and the windows that cover any of them: [up, down] and [low, high]; a row has `fours` groups of
 * four. */
#define PIXELS                                                                                                   \
  const index_t row = item / fours, px = (item - row * fours) * 4, plane = row / dims.s1, py = row - plane * dims.s1; \
  const int left = (int)min(dims.s2 - px, (index_t)4);                                                           \
  const index_t in_y = py - map.s1, in_x = px - map.s5, tall = (dims.s5 - 1) * map.s2, wide = (dims.s6 - 1) * map.s6; \
  const index_t up = in_y > tall ? (in_y - tall + map.s0 - 1) / map.s0 : 0;                                       \
  const index_t low = in_x > wide ? (in_x - wide + map.s4 - 1) / map.s4 : 0;                                      \
  const index_t down = min(in_y / map.s0, dims.s3 - 1), high = min((in_x + left - 1) / map.s4, dims.s4 - 1);      \
  float lane[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#endif

#ifdef WANT_max_pool2d_backward_group
KERNEL(max_pool2d_backward_group)
(ARG(const int, winners), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map,
 const index_t fours, const index_t total) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= total) return;
  USE(const int, winners);
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  PIXELS
  const index_t first = py * dims.s2 + px;
  for (index_t wy = up; wy <= down; wy++)
    for (index_t wx = low; wx <= high; wx++) {
      const index_t at = (plane * dims.s3 + wy) * dims.s4 + wx, which = winners[at] - first;
      const float v = LOAD(T, dy, at);
#pragma unroll
      for (int l = 0; l < 4; l++) lane[l] += which == l ? v : 0.0f;
    }
  FOUR_STORE(T, dx, plane * dims.s1 * dims.s2 + first, left, lane)
}
#endif

#ifdef WANT_avg_pool2d_backward_group
/* Number of a window's taps that are pixels, for a window that begins at `start`. */
static inline index_t FN(covered)(index_t start, index_t delta, index_t taps, index_t size) {
  const index_t first = start < 0 ? (delta - 1 - start) / delta : 0;
  const index_t end = start < size ? min(taps, (size - 1 - start) / delta + 1) : 0;
  return max(end - first, (index_t)0);
}

KERNEL(avg_pool2d_backward_group)
(ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map, const index_t fours,
 const index_t total) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= total) return;
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  PIXELS
  for (index_t wy = up; wy <= down; wy++) {
    if (map.s2 != 1 && (in_y - wy * map.s0) % map.s2) continue;
    const index_t lines = FN(covered)(wy * map.s0 + map.s1, map.s2, dims.s5, dims.s1);
    for (index_t wx = low; wx <= high; wx++) {
      const index_t count = dims.s7 ? dims.s7 : lines * FN(covered)(wx * map.s4 + map.s5, map.s6, dims.s6, dims.s2);
      const float v = LOAD(T, dy, (plane * dims.s3 + wy) * dims.s4 + wx) / (float)count;
#pragma unroll
      for (int l = 0; l < 4; l++) {
        const index_t by = in_x + l - wx * map.s4;
        lane[l] += by >= 0 && by <= wide && (map.s6 == 1 || by % map.s6 == 0) ? v : 0.0f;
      }
    }
  }
  FOUR_STORE(T, dx, (plane * dims.s1 + py) * dims.s2 + px, left, lane)
}
#endif

/* Pooling and its gradients on GPUs with channels last. A work-item has four channels of a window, or of a pixel, so that
 * neighboring items read neighboring channels of the same pixels. The index of each window's maximum is found once, by
 * its own launch. dims and map as in pool2d.cl; `channels` is a multiple of four. */
/* Four channels from c on at (row, column) of an image. */
#define OPEN_AT(high, wide)                                                                                      \
  const index_t item = (index_t)get_global_id(0);                                                                \
  if (item >= total) return;                                                                                     \
  const index_t fours = channels / 4, place = item / fours, c = (item - place * fours) * 4, line = place / (wide); \
  const index_t column = place - line * (wide), image = line / (high), row = line - image * (high);              \
  float lane[4] = {0.0f, 0.0f, 0.0f, 0.0f};

#ifdef WANT_pool2d_forward_group_last
/* WINNERS: instead of the maximum, writes the index in its plane of the first pixel that attains it, or -1 for a window
 * without pixels. */
#if WINNERS
#define RESULT int
#else
#define RESULT STORAGE(T)
#endif
KERNEL(pool2d_forward_group_last)
(ARG(const STORAGE(T), x), ARG(RESULT, y), const index8_t dims, const index8_t map, const index_t channels,
 const index_t total) {
  OPEN_AT(dims.s3, dims.s4)
  USE(const STORAGE(T), x);
  USE(RESULT, y);
  const index_t y0 = row * map.s0 + map.s1, x0 = column * map.s4 + map.s5;
  float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  int winner[4] = {-1, -1, -1, -1};
  index_t count = 0;
  for (index_t ky = 0; ky < dims.s5; ky++) {
    const index_t py = y0 + ky * map.s2;
    if (py < 0 || py >= dims.s1) continue;
    for (index_t kx = 0; kx < dims.s6; kx++) {
      const index_t px = x0 + kx * map.s6, at = py * dims.s2 + px;
      if (px < 0 || px >= dims.s2) continue;
      FOUR_READ(T, lane, x, (image * dims.s1 * dims.s2 + at) * channels + c, 4)
#pragma unroll
      for (int l = 0; l < 4; l++) {
        const float v = lane[l];
        winner[l] = winner[l] < 0 || v > top[l] || (v != v && top[l] == top[l]) ? (int)at : winner[l];
        top[l] = v > top[l] || v != v ? v : top[l];
        sum[l] += v;
      }
      count++;
    }
  }
  if (dims.s7) count = dims.s7;
#if WINNERS
#pragma unroll
  for (int l = 0; l < 4; l++) y[item * 4 + l] = winner[l];
#else
#pragma unroll
  for (int l = 0; l < 4; l++) lane[l] = MAX ? top[l] : sum[l] / (float)max(count, (index_t)1);
  FOUR_STORE(T, y, item * 4, 4, lane)
#endif
}
#endif

#ifdef WANT_pool2d_backward_group_last
#if MAX
#define WINNERS_ARG ARG(const int, winners),
#else
#define WINNERS_ARG
#endif
/* Number of a window's taps that are pixels, for a window that begins at `start`. */
static inline index_t FN(inside)(index_t start, index_t delta, index_t taps, index_t size) {
  const index_t first = start < 0 ? (delta - 1 - start) / delta : 0;
  const index_t end = start < size ? min(taps, (size - 1 - start) / delta + 1) : 0;
  return max(end - first, (index_t)0);
}
/* Adds what each window that covers the pixel gives to it. */
KERNEL(pool2d_backward_group_last)
(WINNERS_ARG ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx), const index8_t dims, const index8_t map,
 const index_t channels, const index_t total) {
  OPEN_AT(dims.s1, dims.s2)
#if MAX
  USE(const int, winners);
#endif
  USE(const STORAGE(T), dy);
  USE(STORAGE(T), dx);
  const index_t in_y = row - map.s1, in_x = column - map.s5, tall = (dims.s5 - 1) * map.s2, wide = (dims.s6 - 1) * map.s6;
  const index_t up = in_y > tall ? (in_y - tall + map.s0 - 1) / map.s0 : 0;
  const index_t low = in_x > wide ? (in_x - wide + map.s4 - 1) / map.s4 : 0;
  const index_t down = min(in_y / map.s0, dims.s3 - 1), high = min(in_x / map.s4, dims.s4 - 1);
  float v[4];
  for (index_t wy = up; wy <= down; wy++)
    for (index_t wx = low; wx <= high; wx++) {
      const index_t at = ((image * dims.s3 + wy) * dims.s4 + wx) * channels + c;
      FOUR_READ(T, v, dy, at, 4)
#if MAX
#pragma unroll
      for (int l = 0; l < 4; l++) lane[l] += winners[at + l] == row * dims.s2 + column ? v[l] : 0.0f;
#else
      if ((in_y - wy * map.s0) % map.s2 || (in_x - wx * map.s4) % map.s6) continue;
      const index_t pixels = FN(inside)(wy * map.s0 + map.s1, map.s2, dims.s5, dims.s1) *
                             FN(inside)(wx * map.s4 + map.s5, map.s6, dims.s6, dims.s2);
      const float count = (float)(dims.s7 ? dims.s7 : pixels);
#pragma unroll
      for (int l = 0; l < 4; l++) lane[l] += v[l] / count;
#endif
    }
  FOUR_STORE(T, dx, item * 4, 4, lane)
}
#endif

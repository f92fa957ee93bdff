/* Means of windows, and what each pixel gave to them. dims: planes, height and width of x, of y, of the kernel, and what
 * sums are divided by (0: by the number of pixels that a window covers). map: along the height, then the width, tap k of
 * window p is the pixel p * mul + add + k * delta (mul, add, delta, unused). */
#ifdef WANT_avg_pool2d_forward_ref
KERNEL(avg_pool2d_forward_ref)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index8_t dims, const index8_t map) {
  const index_t at = get_global_id(0), plane = get_global_id(1);
  if (at >= dims.s3 * dims.s4 || plane >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  x += plane * dims.s1 * dims.s2;
  const index_t y0 = at / dims.s4 * map.s0 + map.s1, x0 = at % dims.s4 * map.s4 + map.s5;
  float sum = 0;
  index_t count = 0;
  for (index_t ky = 0; ky < dims.s5; ky++)
    for (index_t kx = 0; kx < dims.s6; kx++) {
      const index_t py = y0 + ky * map.s2, px = x0 + kx * map.s6;
      const bool in = py >= 0 && py < dims.s1 && px >= 0 && px < dims.s2;
      const float v = LOAD(T, x, in ? py * dims.s2 + px : 0);
      sum += in ? v : 0.0f;
      count += in;
    }
  if (dims.s7) count = dims.s7;
  STORE(T, y, plane * dims.s3 * dims.s4 + at, sum / (float)max(count, (index_t)1));
}
#endif

#ifdef WANT_avg_pool2d_backward_ref
/* How many taps of the window that begins at `start` are pixels. */
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

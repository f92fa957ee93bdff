/* Maxima of windows, and which pixels they are. dims: planes, height and width of x, of y, of the kernel. map: along the
 * height, then the width, tap k of window p is the pixel p * mul + add + k * delta (mul, add, delta, unused). Backwards,
 * a pixel goes through the windows that cover it. */
#ifdef WANT_max_pool2d_forward_ref
KERNEL(max_pool2d_forward_ref)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index8_t dims, const index8_t map) {
  const index_t at = get_global_id(0), plane = get_global_id(1);
  if (at >= dims.s3 * dims.s4 || plane >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  x += plane * dims.s1 * dims.s2;
  const index_t y0 = at / dims.s4 * map.s0 + map.s1, x0 = at % dims.s4 * map.s4 + map.s5;
  float top = -INFINITY;
  for (index_t ky = 0; ky < dims.s5; ky++)
    for (index_t kx = 0; kx < dims.s6; kx++) {
      const index_t py = y0 + ky * map.s2, px = x0 + kx * map.s6;
      const bool in = py >= 0 && py < dims.s1 && px >= 0 && px < dims.s2;
      const float v = LOAD(T, x, in ? py * dims.s2 + px : 0);
      top = in && (v > top || v != v) ? v : top;
    }
  STORE(T, y, plane * dims.s3 * dims.s4 + at, top);
}
#endif

#ifdef WANT_max_pool2d_backward_ref
static inline bool FN(same)(float a, float b) { return a == b || (a != a && b != b); }

/* Whether a tap before (ky, kx) has the value too, in the window that begins at (y0, x0). */
static bool FN(earlier)(const __global STORAGE(T) *x, const index8_t dims, const index8_t map, index_t y0, index_t x0,
                        index_t ky, index_t kx, float value) {
  for (index_t j = 0; j <= ky; j++)
    for (index_t i = 0; i < (j < ky ? dims.s6 : kx); i++) {
      const index_t py = y0 + j * map.s2, px = x0 + i * map.s6;
      const bool in = py >= 0 && py < dims.s1 && px >= 0 && px < dims.s2;
      if (in && FN(same)(LOAD(T, x, py * dims.s2 + px), value)) return true;
    }
  return false;
}

KERNEL(max_pool2d_backward_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(const STORAGE(T), dy), ARG(STORAGE(T), dx),
 const index8_t dims, const index8_t map) {
  const index_t at = get_global_id(0), plane = get_global_id(1);
  if (at >= dims.s1 * dims.s2 || plane >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
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
      const index_t kx = (px - wx * map.s4) / map.s6, window = windows + wy * dims.s4 + wx;
      if (wx >= dims.s4 || wx * map.s4 + kx * map.s6 != px) continue;
      if (FN(same)(own, LOAD(T, y, window)) &&
          !FN(earlier)(x, dims, map, wy * map.s0 + map.s1, wx * map.s4 + map.s5, ky, kx, own))
        sum += LOAD(T, dy, window);
    }
  }
  STORE(T, dx, plane * dims.s1 * dims.s2 + at, sum);
}
#endif

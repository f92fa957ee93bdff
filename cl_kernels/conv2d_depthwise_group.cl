/* Depthwise convolution and its gradients on GPUs. A work-item computes a strip of STRIP consecutive places in a column
 * of the image: neighboring items read neighboring pixels, lines that windows share are read once, and positions are
 * computed once per strip. dims, taps and map as in conv2d.cl.
 *
 * TAPS, STEP: size and stride of a square window without dilation, so that loops are unrolled and pixels stay in
 * registers; 0: any window. */
#define STRIP 7 /* images often have 7, 14, 28, 56 or 112 lines */
#define EPILOGUE_AT(strides) (batch * (strides).s5)

/* Column, plane and first line of work-item `at`, for lines of `wide` places and `strips` strips per column. */
#define STRIP_OF(at, wide, strips)                                                              \
  const index_t rest = (at) / (wide), column = (at) - rest * (wide), plane = rest / (strips);   \
  const index_t first = (rest - plane * (strips)) * STRIP;

#if TAPS
/* Loads the lines of the source that a strip reads, and applies BODY to each: TAPS pixels v from column x0 on, zeros in
 * the padding. All are loaded, from clamped positions, so that no load depends on a branch. */
#define REACHED ((STRIP - 1) * STEP + TAPS)
#define LINES(x, base, y0, x0, high, wide, BODY)                                                     \
  _Pragma("unroll") for (int r = 0; r < REACHED; r++) {                                              \
    float v[TAPS];                                                                                   \
    _Pragma("unroll") for (int k = 0; k < TAPS; k++) {                                               \
      const bool in = inside[k] && (y0) + r >= 0 && (y0) + r < (high);                               \
      const float got = LOAD(T, x, (base) + (in ? ((y0) + r) * (wide) + (x0) + k : 0));              \
      v[k] = in ? got : 0.0f;                                                                        \
    }                                                                                                \
    _Pragma("unroll") for (int o = 0; o < STRIP; o++)                                                \
      if (r >= o * STEP && r < o * STEP + TAPS)                                                      \
        _Pragma("unroll") for (int k = 0; k < TAPS; k++) BODY((r - o * STEP) * TAPS + k, o, v[k])    \
  }
#endif

#ifdef WANT_conv2d_depthwise_group
/* taps: height and width of the kernel, the weights' stride per channel, and the distance of taps that reach whole
 * places, along both axes. */
KERNEL(conv2d_depthwise_group)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index_t total,
 const index8_t taps, const index8_t map EPILOGUE_ARGS) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= total) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  STRIP_OF(item, dims.s7, (dims.s6 + STRIP - 1) / STRIP)
  const index_t batch = plane / dims.s1, row = plane - batch * dims.s1, pixels = dims.s6 * dims.s7;
  const index_t base = plane * dims.s4 * dims.s5, by = row * taps.s2;
  const int many = (int)min(dims.s6 - first, (index_t)STRIP);
  EPILOGUE_USE
  const index_t top = first * dims.s7 + column;
#define PUT(o, v)                                \
  {                                              \
    const index_t column = top + (o) * dims.s7;  \
    const float i0 = v;                          \
    EPILOGUE                                     \
    STORE(OUT, y, plane * pixels + column, r);   \
  }
#if TAPS
  float sum[STRIP];
  /* reversed taps are processed from the last one on */
  const bool back = map.s2 < 0;
  const index_t shift = back ? TAPS - 1 : 0, y0 = first * STEP + map.s1 - shift, x0 = column * STEP + map.s5 - shift;
  bool inside[TAPS];
  float weight[TAPS * TAPS];
#pragma unroll
  for (int k = 0; k < TAPS; k++) inside[k] = x0 + k >= 0 && x0 + k < dims.s5;
#pragma unroll
  for (int k = 0; k < TAPS * TAPS; k++) weight[k] = LOAD(T, w, by + (back ? TAPS * TAPS - 1 - k : k));
#pragma unroll
  for (int o = 0; o < STRIP; o++) sum[o] = 0;
#define ADD(tap, o, v) sum[o] += weight[tap] * (v);
  LINES(x, base, y0, x0, dims.s4, dims.s5, ADD)
#undef ADD
#pragma unroll
  for (int o = 0; o < STRIP; o++)
    if (o < many) PUT(o, sum[o])
#else
  /* Only every `step`-th tap reaches a whole place; FIRST_OF finds the first one. */
#define FIRST_OF(k, at, taps, step, delta, div)                          \
  while (k < (step) && ((at) + k * (delta)) % (div)) k++;                \
  if (k == (step)) k = (taps);
  const index_t x0 = column * map.s4 + map.s5, move = map.s6 * taps.s4 / map.s7;
  index_t kx0 = 0;
  FIRST_OF(kx0, x0, taps.s1, taps.s4, map.s6, map.s7)
  const index_t sx0 = (x0 + kx0 * map.s6) / map.s7;
#pragma unroll 1
  for (int o = 0; o < many; o++) {
    float sum = 0;
    const index_t y0 = (first + o) * map.s0 + map.s1, down = map.s2 * taps.s3 / map.s3;
    index_t ky = 0;
    FIRST_OF(ky, y0, taps.s0, taps.s3, map.s2, map.s3)
    for (index_t sy = (y0 + ky * map.s2) / map.s3; ky < taps.s0; ky += taps.s3, sy += down) {
      if (sy < 0 || sy >= dims.s4) continue;
      for (index_t kx = kx0, sx = sx0; kx < taps.s1; kx += taps.s4, sx += move)
        if (sx >= 0 && sx < dims.s5)
          sum += LOAD(T, w, by + ky * taps.s1 + kx) * LOAD(T, x, base + sy * dims.s5 + sx);
    }
    PUT(o, sum)
  }
#endif
}
#endif

#ifdef WANT_conv2d_weights_depthwise_group
/* A team sums `chunk` of the `strips` strips of a channel: for all of its weights, or for any window one weight at a
 * time. y is the gradient of the convolution's result. */
KERNEL(conv2d_weights_depthwise_group)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps,
 const index8_t map, const index_t strips, const index_t chunk) {
  TEAM_ROOM(float, room);
  const int tap_count = (int)(taps.s0 * taps.s1), each = TAPS ? 1 : tap_count;
  const long lines = (long)dims.s1 * taps.s2 * each;
  if (TEAM_FIRST >= lines) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  const index_t line = (index_t)TEAM_LINE, number = line / each, part = number / dims.s1, c = number - part * dims.s1;
  const index_t high = (dims.s6 + STRIP - 1) / STRIP, pixels = dims.s6 * dims.s7, begin = part * chunk;
  const index_t end = TEAM_LINE < lines ? min(begin + chunk, strips) : begin;
  const bool tells = TEAM_TELLS(lines);
#if TAPS
  float sum[TAPS * TAPS];
#pragma unroll
  for (int k = 0; k < TAPS * TAPS; k++) sum[k] = 0;
#else
  const int tap = (int)(line - number * each), ky = tap / (int)taps.s1, kx = tap - ky * (int)taps.s1;
  float sum = 0;
#endif
#pragma clang loop vectorize(disable)
  for (index_t s = begin + TEAM_LANE; s < end; s += TEAM) {
    STRIP_OF(s, dims.s7, high)
    const index_t image = plane * dims.s1 + c, base = image * dims.s4 * dims.s5;
    const index_t from = image * pixels + first * dims.s7 + column;
#if TAPS
    const index_t y0 = first * STEP + map.s1, x0 = column * STEP + map.s5;
    bool inside[TAPS];
    float d[STRIP];
#pragma unroll
    for (int k = 0; k < TAPS; k++) inside[k] = x0 + k >= 0 && x0 + k < dims.s5;
#pragma unroll
    for (int o = 0; o < STRIP; o++) d[o] = first + o < dims.s6 ? LOAD(T, y, from + o * dims.s7) : 0.0f;
#define ADD(tap, o, v) sum[tap] += d[o] * (v);
    LINES(x, base, y0, x0, dims.s4, dims.s5, ADD)
#else
    const index_t sx = column * map.s4 + map.s5 + kx * map.s6;
    if (sx < 0 || sx >= dims.s5) continue;
    for (int o = 0; o < STRIP && first + o < dims.s6; o++) {
      const index_t sy = (first + o) * map.s0 + map.s1 + ky * map.s2;
      if (sy >= 0 && sy < dims.s4) sum += LOAD(T, x, base + sy * dims.s5 + sx) * LOAD(T, y, from + o * dims.s7);
    }
#endif
  }
#define PLUS(a, b) { (a) += (b); }
#if TAPS
#pragma unroll
  for (int k = 0; k < TAPS * TAPS; k++) {
    float all = sum[k];
    TEAM_REDUCE(float, all, room, PLUS)
    if (tells) out[number * tap_count + k] = all;
  }
#else
  TEAM_REDUCE(float, sum, room, PLUS)
  if (tells) out[line] = sum;
#endif
}
#endif

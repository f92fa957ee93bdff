/* Convolution of 8-bit integers. A word holds two channels of a pixel, or two weights, in 16 bits each. Both products
 * are exact, and their sum is added to a 32-bit sum, so nothing saturates.
 *
 * The image is copied with a border of zeros, per pair of channels, and split into phases: pixels with the same
 * remainders modulo the strides. Neighboring results then read neighboring pixels of a phase, whatever the stride. */
#define WORD(low, high) ((int)((uint)(ushort)(short)(low) | (uint)(ushort)(short)(high) << 16))

#ifdef WANT_conv2d_bytes_image
/* sizes: lines of all phases, channels, pairs of them, height and width of the image, width of a phase. steps: strides
 * down and across; lines above, columns to the left; height of a phase. */
#define ARGS ARG(const STORAGE(T), x), ARG(int, to), const index8_t sizes, const index8_t steps
BODY(conv2d_bytes_image_item)(const long item, ARGS) {
  if (item >= sizes.s0) return;
  USE(const STORAGE(T), x);
  USE(int, to);
  const index_t line = (index_t)item, phase = line / steps.s4, pair = phase / (steps.s0 * steps.s1);
  const index_t row = line % steps.s4 * steps.s0 + phase / steps.s1 % steps.s0 - steps.s2;
  const index_t first = phase % steps.s1 - steps.s3, low = pair % sizes.s2 * 2;
  const index_t plane = sizes.s3 * sizes.s4;
  const bool in = row >= 0 && row < sizes.s3, both = low + 1 < sizes.s1;
  x += (pair / sizes.s2 * sizes.s1 + low) * plane + (in ? row : 0) * sizes.s4;
  to += line * sizes.s5;
  for (index_t i = 0, column = first; i < sizes.s5; i++, column += steps.s1) {
    const bool there = in && column >= 0 && column < sizes.s4;
    const int a = there ? LOAD(T, x, column) : 0, b = there && both ? LOAD(T, x, plane + column) : 0;
    to[i] = WORD(a, b);
  }
}

ITEM_KERNEL(conv2d_bytes_image, PASS(x), PASS(to), sizes, steps)
#endif

#ifdef WANT_conv2d_bytes_weights
/* sizes: blocks of all groups by pairs, blocks of rows, pairs of channels, taps, rows of a block, rows, channels.
 * Order: block, pair, tap, row of the block; missing rows and channels are 0. */
#define ARGS ARG(const char, w), ARG(int, to), const index8_t sizes
BODY(conv2d_bytes_weights_item)(const long item, ARGS) {
  if (item >= sizes.s0) return;
  USE(const char, w);
  USE(int, to);
  const index_t pair = (index_t)item % sizes.s2, block = (index_t)item / sizes.s2;
  const index_t row0 = block % sizes.s1 * sizes.s4, group = block / sizes.s1;
  to += (index_t)item * sizes.s3 * sizes.s4;
  for (index_t r = 0; r < sizes.s4; r++) {
    const bool in = row0 + r < sizes.s5, both = 2 * pair + 1 < sizes.s6;
    const __global char *from = w + ((group * sizes.s5 + (in ? row0 + r : 0)) * sizes.s6 + 2 * pair) * sizes.s3;
    for (index_t t = 0; t < sizes.s3; t++) {
      const int a = in ? from[t] : 0, b = in && both ? from[sizes.s3 + t] : 0;
      to[t * sizes.s4 + r] = WORD(a, b);
    }
  }
}

ITEM_KERNEL(conv2d_bytes_weights, PASS(w), PASS(to), sizes)
#endif

#ifdef WANT_conv2d_bytes
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#define MOST_TAPS            128
#ifdef __AVX2__
#define PRODUCTS(x, w) __builtin_ia32_pmaddwd256(as_short16(x), as_short16((int8)(w)))
#else
#define PRODUCTS(x, w) (((x) << 16 >> 16) * (int8)((short)(w)) + ((x) >> 16) * (int8)((w) >> 16))
#endif

/* sizes: images, groups, rows and blocks of them in a group, pairs of channels, height and width of the result. window:
 * its height and width, strides, dilation; height and width of a phase. A work-item computes a block of rows at 16
 * places of a phase; places beyond the end of a line are discarded. */
BODY(conv2d_bytes_tile)
(const index_t part, const index_t block, const index_t batch, ARG(const int, x), ARG(const int, w),
 ARG(STORAGE(OUT), y), const index8_t sizes, const index8_t window EPILOGUE_ARGS) {
  if (batch >= sizes.s0 || block >= sizes.s1 * sizes.s3) return;
  USE(const int, x);
  USE(const int, w);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  const index_t group = block / sizes.s3, row0 = block % sizes.s3 * ROWS, wide = window.s7;
  const index_t phase = window.s6 * wide, image = window.s2 * window.s3 * phase, taps = window.s0 * window.s1;
  index_t tap[MOST_TAPS];
  for (index_t t = 0; t < taps; t++) {
    const index_t down = t / window.s1 * window.s4, right = t % window.s1 * window.s5;
    tap[t] = (down % window.s2 * window.s3 + right % window.s3) * phase + down / window.s2 * wide + right / window.s3;
  }
  x += (batch * sizes.s1 + group) * sizes.s4 * image + part * 16;
  w += block * sizes.s4 * taps * ROWS;
  int8 sum[ROWS][2];
  UNROLLED(r, ROWS) sum[r][0] = sum[r][1] = 0;
  for (index_t c = 0; c < sizes.s4; c++, x += image)
    for (index_t t = 0; t < taps; t++, w += ROWS) {
      const int8 left = vload8(0, x + tap[t]), right = vload8(0, x + tap[t] + 8);
      UNROLLED(r, ROWS) {
        sum[r][0] += PRODUCTS(left, w[r]);
        sum[r][1] += PRODUCTS(right, w[r]);
      }
    }
  int tile[ROWS * 16];
  UNROLLED(r, ROWS) {
    vstore8(sum[r][0], 0, tile + 16 * r);
    vstore8(sum[r][1], 0, tile + 16 * r + 8);
  }
  index_t line = part * 16 / wide, place = part * 16 % wide;
  for (int i = 0; i < 16; i++, place++) {
    if (place == wide) place = 0, line++;
    if (place >= sizes.s6 || line >= sizes.s5) continue;
    const index_t column = line * sizes.s6 + place;
    for (index_t k = 0; k < ROWS && row0 + k < sizes.s2; k++) {
      const index_t row = group * sizes.s2 + row0 + k;
      const COMPUTE(T) i0 = tile[16 * k + i];
      EPILOGUE
      STORE(OUT, y, (batch * sizes.s1 * sizes.s2 + row) * sizes.s5 * sizes.s6 + column, r);
    }
  }
}

GROUP(1, 1, 1)
KERNEL(conv2d_bytes)(ARG(const int, x), ARG(const int, w), ARG(STORAGE(OUT), y), const index8_t sizes,
                     const index8_t window EPILOGUE_ARGS) {
  FN(conv2d_bytes_tile)
  (get_global_id(0), get_global_id(1), get_global_id(2), PASS(x), PASS(w), PASS(y), sizes, window EPILOGUE_PASS);
}
#endif

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

#ifdef WANT_conv2d_bytes
#define INTEGER   1
#define SUM       int
#define MOST_TAPS 128
#define AT_ONCE   64 /* pairs of channels */
#define ROWS      (BYTES / 2)
#include "conv2d_result.cl"
#ifdef __AVX2__
#define PRODUCTS(x, w) __builtin_ia32_pmaddwd256(as_short16(x), as_short16((int8)(w)))
#else
#define PRODUCTS(x, w) (((x) << 16 >> 16) * (int8)((short)(w)) + ((x) >> 16) * (int8)((w) >> 16))
#endif

/* x: the copy. Weights are in panels of ROWS rows, BYTES of them for each pair of channels. sizes: images, groups, rows and
 * panels of a group, pairs of channels, height and width of the result, vectors of a phase. window: its height and
 * width, strides, dilation; height and width of a phase. A work-item computes a panel at 16 places of a phase; places
 * beyond the end of a line are discarded. */
#define ARGS                                                                                                       \
  ARG(const int, x), ARG(const char, w), ARG(STORAGE(OUT), y), const index8_t sizes, const index8_t window,        \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_bytes_item)(const long item, ARGS) {
  const index_t parts = sizes.s7, panels = sizes.s1 * sizes.s3;
  if (item >= (long)sizes.s0 * panels * parts) return;
  const index_t part = item % parts, panel = item / parts % panels, batch = item / parts / panels;
  USE(const int, x);
  USE(const char, w);
  USE(STORAGE(OUT), y);
  const index_t group = panel / sizes.s3, row0 = panel % sizes.s3 * ROWS, wide = window.s7;
  const index_t phase = window.s6 * wide, image = window.s2 * window.s3 * phase, taps = window.s0 * window.s1;
  index_t tap[MOST_TAPS];
  for (index_t t = 0; t < taps; t++) {
    const index_t down = t / window.s1 * window.s4, right = t % window.s1 * window.s5;
    tap[t] = (down % window.s2 * window.s3 + right % window.s3) * phase + down / window.s2 * wide + right / window.s3;
  }
  x += (batch * sizes.s1 + group) * sizes.s4 * image + part * 16;
  w += panel * taps * sizes.s4 * BYTES;
  int8 sum[ROWS][2];
  UNROLLED(r, ROWS) sum[r][0] = sum[r][1] = 0;
  short words[AT_ONCE * BYTES] ALIGNED;
  for (index_t t = 0; t < taps; t++)
    for (index_t begin = 0, n; begin < sizes.s4; begin += n, w += n * BYTES) {
      const __global int *from = x + begin * image + tap[t];
      n = min(sizes.s4 - begin, (index_t)AT_ONCE);
      for (index_t k = 0; k < n * BYTES; k++) words[k] = w[k];
      const int *word = (const int *)words;
#pragma clang loop unroll(disable)
      for (index_t c = 0; c < n; c++, from += image, word += ROWS) {
        const int8 left = vload8(0, from), right = vload8(1, from);
        UNROLLED(r, ROWS) {
          sum[r][0] += PRODUCTS(left, word[r]);
          sum[r][1] += PRODUCTS(right, word[r]);
        }
      }
    }
  int tile[ROWS * 16];
  UNROLLED(r, ROWS) {
    vstore8(sum[r][0], 2 * r, tile);
    vstore8(sum[r][1], 2 * r + 1, tile);
  }
  index_t line = part * 16 / wide, place = part * 16 % wide;
  for (int i = 0, n; i < 16 && line < sizes.s5; i += n, place = 0, line++) {
    n = min(wide - place, (index_t)16 - i);
    FN(finish)
    (tile + i, 16, 0, 1, min(ROWS, (int)(sizes.s2 - row0)), (int2)(1, min(n, (int)(sizes.s6 - place))), (int2)(0, 1), false,
     y + batch * y_s.s5, y_s, batch, group * sizes.s2 + row0, line * sizes.s6 + place EPILOGUE_PASS);
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_bytes, PASS(x), PASS(w), PASS(y), sizes, window, y_s EPILOGUE_PASS)
#endif

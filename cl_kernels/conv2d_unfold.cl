/* Window matrices: im2col, and col2im, which adds. A row per tap and channel, and a column per place, hold the pixel
 * that the window at the place reads by the tap.
 *
 * dims: images, channels, height and width of the kernel, of the image, and of the places. window: strides, padding
 * before, and dilation of height and width. A work-item computes a part of some planes, or of the lines of their taps;
 * part: planes or lines of taps; lines and columns of the result. */
#define WINDOWS(size)                                                                                              \
  const int2 taps = (int2)(dims.s2, dims.s3), image = (int2)(dims.s4, dims.s5), places = (int2)(dims.s6, dims.s7); \
  const int2 step = (int2)(window.s0, window.s1), pad = (int2)(window.s2, window.s3);                              \
  const int2 apart = (int2)(window.s4, window.s5), box = (int2)(part.s1, part.s2);                                 \
  const int2 boxes = ((size) + box - 1) / box, at = (int2)(item / boxes.y % boxes.x, item % boxes.y) * box;        \
  const int2 many = min(box, (size) - at);                                                                         \
  const int channels = dims.s1, begin = item / boxes.y / boxes.x * (int)part.s0;

#ifdef WANT_conv2d_unfold
/* With zeros in the padding; the places of all images are side by side. */
APART static void FN(clear)(__global float *to, int many) {
  int i = 0;
  for (; i + 16 <= many; i += 16) vstore16((float16)(0), 0, to + i);
  ONE_BY_ONE for (; i < many; i++) to[i] = 0;
}

/* Copies `many` values that are `step` apart; vectors reach no further than the next one. */
APART static void FN(take)(const __global float *from, int many, int step, __global float *to) {
  int i = 0;
  for (; step == 1 && i + 16 <= many; i += 16) vstore16(vload16(0, from + i), 0, to + i);
  for (; step == 2 && i + 8 < many; i += 8) vstore8(vload16(0, from + 2 * i).even, 0, to + i);
  for (; step == 4 && i + 8 < many; i += 8)
    vstore8((float8)(vload16(0, from + 4 * i).s048c, vload16(0, from + 4 * i + 16).s048c), 0, to + i);
#pragma clang loop vectorize(disable)
  for (; i < many; i++) to[i] = from[i * step];
}

#define ARGS ARG(const float, x), ARG(float, y), const index8_t dims, const index8_t window, const index8_t part
BODY(conv2d_unfold_item)(const int item, ARGS) {
  if (part.s0 == 0) return;
  WINDOWS(places)
  const int plane = places.x * places.y, pitch = dims.s0 * plane;
  const int end = min(begin + (int)part.s0, (int)dims.s0 * channels * taps.x);
  USE(const float, x);
  USE(float, y);
  for (int set = begin; set < end; set++) {
    const int tap = set % taps.x, of = set / taps.x, down = at.x * step.x + tap * apart.x - pad.x;
    const int2 lines = clade_inside(down, step.x, image.x, many.x);
    const __global float *from = x + of * image.x * image.y + (lines.x * step.x + down) * image.y;
    __global float *to = y + of / channels * plane + (of % channels * taps.x + tap) * taps.y * pitch + at.x * places.y + at.y;
    for (int k = 0; k < taps.y; k++, to += pitch) {
      const int across = at.y * step.y + k * apart.y - pad.y;
      const int2 columns = clade_inside(across, step.y, image.y, many.y);
      for (int i = 0; i < many.x; i++) {
        const int2 own = i >= lines.x && i < lines.y ? columns : (int2)(many.y);
        __global float *line = to + i * places.y;
        FN(clear)(line, own.x);
        FN(take)(from + (i - lines.x) * step.x * image.y + own.x * step.y + across, own.y - own.x, step.y, line + own.x);
        FN(clear)(line + own.y, many.y - own.y);
      }
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_unfold, PASS(x), PASS(y), dims, window, part)
#endif

#ifdef WANT_conv2d_fold
/* x, the result of a matrix product, is [images, channels, taps, places]. A pixel is the sum of what reaches it. */
#include "conv2d_result.cl"
#define MARGIN 16 /* vectors may exceed an end by this */

/* Adds `many` values to places that are `step` apart. */
APART static void FN(add)(const __global float *from, int many, int step, float *to) {
  int i = 0;
  for (; step == 1 && i + 8 <= many; i += 8) vstore8(vload8(0, to + i) + vload8(0, from + i), 0, to + i);
  for (; step == 2 && i + 8 <= many; i += 8) {
    float16 v = (float16)(0);
    v.even = vload8(0, from + i);
    vstore16(vload16(0, to + 2 * i) + v, 0, to + 2 * i);
  }
  ONE_BY_ONE for (; i < many; i++) to[i * step] += from[i];
}

#define ARGS                                                                                                \
  ARG(const float, x), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t window, const index8_t part, \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_fold_item)(const int item, ARGS) {
  if (part.s0 == 0) return;
  WINDOWS(image)
  const int end = min(begin + (int)part.s0, (int)dims.s0 * channels), plane = many.x * many.y;
  USE(const float, x);
  USE(STORAGE(OUT), y);
  float sums[MOST_RESULTS + MARGIN] ALIGNED;
  for (int i = 0; i < (end - begin) * plane; i += 16) vstore16((float16)(0), 0, sums + i);
  const __global float *of = x + begin * taps.x * taps.y * places.x * places.y; /* of a tap */
  for (int tap = 0; tap < taps.x * taps.y; tap++, of += places.x * places.y) {
    /* target of the first place's contribution, and the places that contribute to the box */
    const int2 shift = (int2)(tap / taps.y, tap % taps.y) * apart - pad - at;
    const int2 lines = clade_inside(shift.x, step.x, many.x, places.x);
    const int2 columns = clade_inside(shift.y, step.y, many.y, places.y);
    for (int p = 0; p < end - begin; p++)
      for (int line = lines.x; line < lines.y && columns.x < columns.y; line++)
        FN(add)
        (of + (p * taps.x * taps.y * places.x + line) * places.y + columns.x, columns.y - columns.x, step.y,
         sums + p * plane + (line * step.x + shift.x) * many.y + columns.x * step.y + shift.y);
  }
  for (int p = begin; p < end; p++)
    FN(finish)
    (sums + (p - begin) * plane, plane, 0, 1, 1, (int2)(1, plane), (int2)(0, 1), false, y + p / channels * y_s.s5, y_s,
     p / channels, p % channels, at.x * image.y + at.y EPILOGUE_PASS);
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_fold, PASS(x), PASS(y), dims, window, part, y_s EPILOGUE_PASS)
#endif

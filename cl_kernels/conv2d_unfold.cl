/* im2col: the pixels that a convolution's windows read, as a matrix with a row per tap and channel and a column per
 * place; zeros in the padding.
 *
 * dims: images, channels, height and width of the kernel, of the source, of the places. window: strides, padding
 * before, and dilation of height and width; distances of images and of rows in y. A work-item computes a part of some
 * lines of taps; part: lines of taps; lines and columns of places. */
#ifdef WANT_conv2d_unfold
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
  const int2 taps = (int2)(dims.s2, dims.s3), source = (int2)(dims.s4, dims.s5), size = (int2)(dims.s6, dims.s7);
  const int2 step = (int2)(window.s0, window.s1), pad = (int2)(window.s2, window.s3);
  const int2 apart = (int2)(window.s4, window.s5), box = (int2)(part.s1, part.s2), boxes = (size + box - 1) / box;
  const int2 at = (int2)(item / boxes.y % boxes.x, item % boxes.y) * box, many = min(box, size - at);
  const int channels = dims.s1, pitch = window.s7, begin = item / boxes.y / boxes.x * (int)part.s0;
  const int end = min(begin + (int)part.s0, (int)dims.s0 * channels * taps.x);
  USE(const float, x);
  USE(float, y);
  for (int set = begin; set < end; set++) {
    const int tap = set % taps.x, plane = set / taps.x, image = plane / channels, channel = plane % channels;
    const int down = at.x * step.x + tap * apart.x - pad.x;
    const int2 lines = clade_inside(down, step.x, source.x, many.x);
    const __global float *from = x + plane * source.x * source.y + (lines.x * step.x + down) * source.y;
    __global float *to = y + image * (int)window.s6 + (channel * taps.x + tap) * taps.y * pitch + at.x * size.y + at.y;
    for (int k = 0; k < taps.y; k++, to += pitch) {
      const int across = at.y * step.y + k * apart.y - pad.y;
      const int2 columns = clade_inside(across, step.y, source.y, many.y);
      for (int i = 0; i < many.x; i++) {
        const int2 own = i >= lines.x && i < lines.y ? columns : (int2)(many.y);
        __global float *line = to + i * size.y;
        FN(clear)(line, own.x);
        FN(take)(from + (i - lines.x) * step.x * source.y + own.x * step.y + across, own.y - own.x, step.y, line + own.x);
        FN(clear)(line + own.y, many.y - own.y);
      }
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_unfold, PASS(x), PASS(y), dims, window, part)
#endif

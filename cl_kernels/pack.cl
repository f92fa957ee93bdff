/* Pack: each work-item writes one block, with zeros where the axes end inside it. */
#ifdef WANT_pack_forward_ref
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t before, const index_t axis,  \
  const index_t inner, const int block, const int interleave
BODY(pack_forward_ref_item)(const long item, ARGS) {
  if ((long)outer * before * axis * inner == 0) return;
  const index_t rows = (before + interleave - 1) / interleave, blocks = (axis + block - 1) / block;
  if (item >= (long)outer * rows * blocks * inner) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  index_t rest = (index_t)item;
  const index_t column = rest % inner;
  rest /= inner;
  const index_t first = rest % blocks * block;
  rest /= blocks;
  const index_t row = rest % rows * interleave, base = rest / rows * before;
  index_t to = (index_t)item * block * interleave;
  for (int i = 0; i < block; i++)
    for (int j = 0; j < interleave; j++, to++) {
      const bool inside = first + i < axis && row + j < before;
      y[to] = inside ? x[((base + row + j) * axis + first + i) * inner + column] : (STORAGE(T))0;
    }
}

KERNEL(pack_forward_ref)(ARGS) {
  FN(pack_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), outer, before, axis, inner, block, interleave);
}
#undef ARGS
#endif

#ifdef WANT_pack_forward_tiles
/* Blocks of 16 elements of 32 bits, one after the other: a work-item turns over up to STRIP columns of a block. */
#define ARGS                                                                                                      \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t axis, const index_t inner,     \
      const int stream
BODY(pack_forward_tiles_item)(const long item, ARGS) {
  const index_t strips = (inner + STRIP - 1) / STRIP, blocks = (axis + 15) / 16;
  if (item >= (long)outer * blocks * strips) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t place = (index_t)(item / strips), row = place / blocks, first = (place - row * blocks) * 16;
  const index_t begin = (index_t)(item - place * (long)strips) * STRIP, end = min(begin + STRIP, inner);
  const index_t from = (row * axis + first) * inner, to = place * inner * 16, lanes = min(axis - first, (index_t)16);
  for (index_t c = begin; c < end; c += 16) {
    if (lanes == 16 && c + 16 <= end) {
      clade_tile(x + from + c, inner, y + to + c * 16, 16, stream);
      continue;
    }
#pragma clang loop vectorize(disable) unroll(disable)
    for (index_t k = c; k < min(c + 16, end); k++)
      for (index_t l = 0; l < 16; l++) y[to + k * 16 + l] = l < lanes ? x[from + l * inner + k] : (STORAGE(T))0;
  }
}

KERNEL(pack_forward_tiles)(ARGS) {
  FN(pack_forward_tiles_item)((long)get_global_id(0), PASS(x), PASS(y), outer, axis, inner, stream);
}
#undef ARGS
#endif

#ifdef WANT_pack_forward_panels
/* sizes: matrices, the blocked axis, the other one, the distances between neighbours along both, bytes of an element;
 * block, interleave. `window` neighbours along the other axis lie side by side. A work-item writes what a block has of one
 * step along the other axis: words, or bytes, whatever the elements, since one kernel for all types is compiled sooner. */
#define ARGS ARG(const uchar, x), ARG(uchar, y), const index8_t sizes, const index_t window
BODY(pack_forward_panels_item)(const long item, ARGS) {
  const int block = (int)sizes.s6, interleave = (int)sizes.s7, bytes = (int)sizes.s5;
  if (sizes.s0 == 0) return;
  const long blocks = (sizes.s1 + block - 1) / block, steps = (sizes.s2 + interleave - 1) / interleave;
  if (item >= sizes.s0 * blocks * steps) return;
  const long panel = item / steps, step = item % steps * interleave, first = panel % blocks * block;
  const __global uchar *x = x_base + (x_at + panel / blocks * sizes.s1 * sizes.s2 + first * sizes.s3 +
                                      step / window * sizes.s4 + step % window) * bytes;
  __global uchar *y = y_base + (y_at + item * block * interleave) * bytes;
  if (bytes == 4 && interleave == 1) {
    const int lanes = (int)min((long)block, sizes.s1 - first);
    for (int i = 0; i < block; i++)
      ((__global uint *)y)[i] = i < lanes ? ((const __global uint *)x)[i * (long)sizes.s3] : 0;
    return;
  }
  for (int i = 0; i < block; i++, x += (long)sizes.s3 * bytes)
    for (int j = 0; j < interleave; j++)
      for (int b = 0; b < bytes; b++, y++)
        *y = first + i < sizes.s1 && step + j < sizes.s2 ? x[(long)j * sizes.s4 * bytes + b] : 0;
}

KERNEL(pack_forward_panels)(ARGS) {
  FN(pack_forward_panels_item)((long)get_global_id(0), PASS(x), PASS(y), sizes, window);
}
#undef ARGS
#endif

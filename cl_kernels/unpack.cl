/* Conversion from blocked layouts: each work-item reads a block, without its padding. */
#ifdef WANT_unpack_forward_ref
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t before, const index_t axis,  \
  const index_t inner, const int block, const int interleave
BODY(unpack_forward_ref_item)(const long item, ARGS) {
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
  const index_t from = (index_t)item * block * interleave;
  for (int i = 0; i < block && first + i < axis; i++)
    for (int j = 0; j < interleave && row + j < before; j++)
      y[((base + row + j) * axis + first + i) * inner + column] = x[from + i * interleave + j];
}

KERNEL(unpack_forward_ref)(ARGS) {
  FN(unpack_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(y), outer, before, axis, inner, block, interleave);
}
#undef ARGS
#endif

#ifdef WANT_unpack_forward_tiles
/* Blocks of multiples of sixteen elements of 8, 16 or 32 bits: a work-item transposes up to STRIP columns of a block. */
#define ARGS                                                                                                      \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t axis, const index_t inner,     \
      const index_t block, const int stream
BODY(unpack_forward_tiles_item)(const long item, ARGS) {
  const index_t strips = (inner + STRIP - 1) / STRIP, blocks = (axis + block - 1) / max(block, (index_t)1);
  if (item >= (long)outer * blocks * strips) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t place = (index_t)(item / strips), row = place / blocks, first = (place - row * blocks) * block;
  const index_t begin = (index_t)(item - place * (long)strips) * STRIP, end = min(begin + STRIP, inner);
  x += place * inner * block;
  y += (row * axis + first) * inner;
  for (index_t c = begin; c < end; c += 16)
    for (index_t b = 0; b < block; b += 16) {
      const index_t lanes = min(axis - first - b, (index_t)16);
      if (lanes == 16 && c + 16 <= end) {
        TURN_TILE(T)(x + c * block + b, block, y + b * inner + c, inner, stream);
        continue;
      }
      for (index_t l = 0; l < lanes; l++)
#pragma clang loop vectorize(disable) unroll(disable)
        for (index_t k = c; k < min(c + 16, end); k++) y[(b + l) * inner + k] = x[k * block + b + l];
    }
}

KERNEL(unpack_forward_tiles)(ARGS) {
  FN(unpack_forward_tiles_item)((long)get_global_id(0), PASS(x), PASS(y), outer, axis, inner, block, stream);
}
#endif

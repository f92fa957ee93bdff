/* Conversion to blocked layouts: each work-item writes a block, padded with zeros. */
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
/* Blocks of multiples of sixteen elements of 8, 16 or 32 bits: a work-item transposes up to STRIP columns of a block. */
#define ARGS                                                                                                      \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t axis, const index_t inner,     \
      const index_t block, const int stream
BODY(pack_forward_tiles_item)(const long item, ARGS) {
  const index_t strips = (inner + STRIP - 1) / STRIP, blocks = (axis + block - 1) / max(block, (index_t)1);
  if (item >= (long)outer * blocks * strips) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  const index_t place = (index_t)(item / strips), row = place / blocks, first = (place - row * blocks) * block;
  const index_t begin = (index_t)(item - place * (long)strips) * STRIP, end = min(begin + STRIP, inner);
  x += (row * axis + first) * inner;
  y += place * inner * block;
  for (index_t c = begin; c < end; c += 16)
    for (index_t b = 0; b < block; b += 16) {
      const index_t lanes = min(axis - first - b, (index_t)16);
      if (lanes == 16 && c + 16 <= end) {
        TURN_TILE(T)(x + b * inner + c, inner, y + c * block + b, block, stream);
        continue;
      }
#pragma clang loop vectorize(disable) unroll(disable)
      for (index_t k = c; k < min(c + 16, end); k++)
        for (index_t l = 0; l < 16; l++) y[k * block + b + l] = l < lanes ? x[(b + l) * inner + k] : (STORAGE(T))0;
    }
}

KERNEL(pack_forward_tiles)(ARGS) {
  FN(pack_forward_tiles_item)((long)get_global_id(0), PASS(x), PASS(y), outer, axis, inner, block, stream);
}
#undef ARGS
#endif

#ifdef WANT_pack_forward_panels
/* sizes: matrices; the blocked axis; windows and their places along the other one; strides along the blocked axis,
 * between windows, and between places; places of a window that a work-item writes. Elements are moved as bytes or
 * words, so that one kernel serves all types. */
#define ARGS                                                                                                     \
  ARG(const uchar, x), ARG(uchar, y), const index8_t sizes, const index_t bytes, const index_t block,            \
      const index_t interleave

/* Transposes sixteen lanes at a distance of `from` to columns, which are whole cache lines for most blocks. */
static inline void FN(columns)(const __global float *x, index_t from, index_t count, __global float *y, index_t to) {
  index_t k = 0;
  for (; k + 8 <= count; k += 8) {
    float8 low[8], high[8];
#pragma unroll
    for (int l = 0; l < 8; l++) {
      low[l] = LOADN(8, f32, x, l * from + k);
      high[l] = LOADN(8, f32, x, (l + 8) * from + k);
    }
    clade_turn(low);
    clade_turn(high);
#pragma unroll
    for (int l = 0; l < 8; l++) STOREN(16, f32, y + (k + l) * to, 0, (float16)(low[l], high[l]));
  }
#pragma clang loop vectorize(disable) unroll(disable)
  for (; k < count; k++) {
    float lanes[16];
#pragma unroll
    for (int l = 0; l < 16; l++) lanes[l] = x[l * from + k];
    STOREN(16, f32, y + k * to, 0, vload16(0, lanes));
  }
}

static inline void FN(words)(const __global float *x, index_t from, index_t apart, index_t count, index_t lanes,
                             __global float *y, index_t block) {
  index_t l = 0;
  if (apart == 1)
    for (; l + 16 <= min(lanes, block); l += 16) FN(columns)(x + l * from, from, count, y + l, block);
  for (index_t k = 0; k < count; k++)
    for (index_t i = l; i < block; i++) y[k * block + i] = i < lanes ? x[i * from + k * apart] : 0.0f;
}

BODY(pack_forward_panels_item)(const long item, ARGS) {
  const index_t axis = sizes.s1, windows = sizes.s2, window = sizes.s3, along = sizes.s4, apart = sizes.s6, run = sizes.s7;
  if (sizes.s0 == 0) return;
  const index_t blocks = (axis + block - 1) / block, runs = (window + run - 1) / run;
  if (item >= (long)sizes.s0 * blocks * windows * runs) return;
  const index_t place = (index_t)item / runs, begin = ((index_t)item - place * runs) * run, count = min(run, window - begin);
  const index_t panel = place / windows, at = place - panel * windows, first = panel % blocks * block;
  const index_t lanes = min(axis - first, block), steps = (windows * window + interleave - 1) / interleave * interleave;
  x_base += (long)(x_at + panel / blocks * axis * windows * window + first * along + at * sizes.s5 + begin * apart) * bytes;
  y_base += (long)(y_at + (panel * steps + at * window + begin) * block) * bytes;
  if (bytes == 4 && interleave == 1) {
    const index_t next = begin + run < window ? run * apart : sizes.s5 - begin * apart;
    for (index_t l = 0; l < lanes; l += along == 1 ? 16 : 1) SOON(x_base + (long)(l * along + next) * bytes);
    FN(words)((const __global float *)x_base, along, apart, count, lanes, (__global float *)y_base, block);
    return;
  }
  for (index_t k = 0; k < count; k += interleave)
    for (index_t i = 0; i < block; i++)
      for (index_t j = k; j < k + interleave; j++)
        for (index_t b = 0; b < bytes; b++, y_base++)
          *y_base = i < lanes && j < count ? x_base[(long)(i * along + j * apart) * bytes + b] : 0;
}

KERNEL(pack_forward_panels)(ARGS) {
  FN(pack_forward_panels_item)((long)get_global_id(0), PASS(x), PASS(y), sizes, bytes, block, interleave);
}
#undef ARGS
#endif

#ifdef WANT_pack_forward_words
/* Weights of windows with interleaved inner channels. sizes: extents of the blocked axis, of the other one and of the window;
 * strides of the two axes; the block; the interleave; bytes of an element. A work-item writes `interleave` inner channels of a
 * block for up to TAPS taps: drivers limit the iterations of its loops. */
#define ARGS ARG(const uchar, x), ARG(uchar, y), const index8_t sizes
BODY(pack_forward_words_item)(const long item, ARGS) {
  const index_t axis = sizes.s0, other = sizes.s1, window = sizes.s2, block = sizes.s5, quad = sizes.s6, bytes = sizes.s7;
  if (quad == 0) return;
  const index_t steps = (other + quad - 1) / quad, runs = (window + TAPS - 1) / TAPS;
  if (item >= (long)((axis + block - 1) / block) * steps * runs) return;
  const index_t place = (index_t)(item / runs), begin = (index_t)(item - (long)place * runs) * TAPS;
  const index_t panel = place / steps, step = place - panel * steps, first = step * quad;
  const index_t lanes = min(block, axis - panel * block);
  x_base += (long)(x_at + panel * block * sizes.s3 + first * sizes.s4) * bytes;
  y_base += (long)(y_at + (panel * window * steps + step) * block * quad) * bytes;
  for (index_t t = begin; t < min(begin + TAPS, window); t++) {
    __global uchar *to = y_base + (long)(t * steps * block * quad) * bytes;
    if (bytes == 2 && quad == 2 && first + 1 < other) {
      const __global ushort *from = (const __global ushort *)x_base + t;
      for (index_t i = 0; i < lanes; i++, from += sizes.s3) {
        ((__global ushort *)to)[2 * i] = from[0];
        ((__global ushort *)to)[2 * i + 1] = from[sizes.s4];
      }
      for (index_t i = 2 * lanes; i < 2 * block; i++) ((__global ushort *)to)[i] = 0;
      continue;
    }
    for (index_t i = 0; i < block; i++)
      for (index_t j = 0; j < quad; j++)
        for (index_t b = 0; b < bytes; b++, to++)
          *to = i < lanes && first + j < other ? x_base[(long)(i * sizes.s3 + j * sizes.s4 + t) * bytes + b] : 0;
  }
}

KERNEL(pack_forward_words)(ARGS) { FN(pack_forward_words_item)((long)get_global_id(0), PASS(x), PASS(y), sizes); }
#endif

/* Products whose operands are copied to local memory asynchronously, 16 bytes at a time: while one slice is multiplied,
 * the next COMING ones are being copied. A tile keeps the operand's memory order, unless it has to lie along the inner
 * axis. Included by product.cl. */
/* Copies a slice of one operand: lines from `from` on, of which `most` exist, and `steps` of the inner axis, with zeros
 * beyond. whole: all copies are aligned to 16 bytes. */
#if UNITS && WARPGROUP && WORD != 2
/* Element l of each of the four words. */
static inline uint FN(turned)(const uint *word, const int l) {
#if WORD == 1
  return word[l];
#elif IMITATE
  uint to = 0;
  for (int i = 0; i < 4; i++) to |= (word[i] >> 8 * l & 0xff) << 8 * i;
  return to;
#else
  uint low, high;
  __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(word[0]), "r"(word[1]), "r"(0x40 + 0x11 * l));
  __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(high) : "r"(word[2]), "r"(word[3]), "r"(0x40 + 0x11 * l));
  return FN(pair)(low, high, 16);
#endif
}
/* Transposes as well, not asynchronously: a work-item reads a word, which has elements of WORD lines, at EACH steps.
 * Adjacent work-items alternate between two words and four pieces of a line, so that they use different banks. */
__attribute__((always_inline)) static inline void FN(turn)(__local RAW *to, const __global RAW *from, const int lines,
                                                           const index_t most, const index_t steps, const index_t line,
                                                           const index_t step, const bool whole, const int id) {
  for (int i = id; i < lines * DEEP / (WORD * EACH); i += ITEMS) {
    const int across = 2 * WORD, part = i / 8 % (lines / across);
    const int n = part * across + i % 2 * WORD, k = (i / 2 % 4 + i / 8 / (lines / across) * 4) * EACH;
    uint word[EACH];
    UNROLL
    for (int j = 0; j < EACH; j++) {
      const __global RAW *source = from + n * line + (k + j) * step;
      const index_t there = k + j < steps ? most - n : 0;
      word[j] = 0;
      if (whole && there >= WORD)
        word[j] = *(const __global uint *)source;
      else
        for (int e = 0; e < WORD && e < there; e++) word[j] |= (uint)source[e * line] << 32 / WORD * e;
    }
    UNROLL
    for (int l = 0; l < WORD; l++) {
      __local uint4 *at = (__local uint4 *)&to[PLACE(false, lines, n + l, k)];
      *at = (uint4)(FN(turned)(word, l), FN(turned)(word + WORD, l), FN(turned)(word + 2 * WORD, l),
                    FN(turned)(word + 3 * WORD, l));
    }
  }
}
#endif
__attribute__((always_inline)) static inline void FN(bring)(__local RAW *to, const __global RAW *from, const bool deep,
                                                            const int lines, const index_t most, const index_t steps,
                                                            const index_t line, const index_t step, const bool whole,
                                                            const int id) {
#if UNITS && WARPGROUP && WORD != 2
  if (!deep) {
    FN(turn)(to, from, lines, most, steps, line, step, whole, id);
    return;
  }
#endif
  COPIES
  for (int turn = 0; turn < (lines * DEEP + EACH * ITEMS - 1) / (EACH * ITEMS); turn++) {
    const int i = EACH * (id + ITEMS * turn);
    if (lines * DEEP % (EACH * ITEMS) && i >= lines * DEEP) break;
    const int n = deep ? i / DEEP : i % lines, k = deep ? i % DEEP : i / lines;
    const index_t left = deep ? (n < most ? steps - k : 0) : (k < steps ? most - n : 0);
    const int there = (int)max((index_t)0, min(left, (index_t)EACH));
    const __global RAW *source = there ? from + n * line + k * step : from;
    __local RAW *at = to + PLACE(deep, lines, n, k);
    if (whole)
      FN(copy)(at, source, there * (int)sizeof(RAW));
    else
      for (int e = 0; e < EACH; e++) at[e] = e < there ? source[e * (deep ? step : line)] : (RAW)0;
  }
}
#ifdef WANT_conv2d_gather_last
/* Copies a slice of pixels: `there` channels from x on of the pixel that `tap` reaches from each of BM positions. */
__attribute__((always_inline)) static inline void FN(collect)(__local RAW *to, const __global RAW *x,
                                                              const __local INDEX4 *lines, const INDEX4 tap,
                                                              const int there, const index_t height, const index_t width,
                                                              const index_t pitch, const bool whole, const int id) {
  COPIES
  for (int turn = 0; turn < (BM * DEEP + EACH * ITEMS - 1) / (EACH * ITEMS); turn++) {
    const int i = EACH * (id + ITEMS * turn);
    if (BM * DEEP % (EACH * ITEMS) && i >= BM * DEEP) break;
    const INDEX4 p = lines[i / DEEP] + tap;
    const bool in = p.z >= 0 && p.z < height && p.w >= 0 && p.w < width;
    const __global RAW *source = in ? x + (p.y + p.z * width + p.w) * pitch : x;
    const int most = in ? there : 0;
    __local RAW *at = to + PLACE(true, BM, i / DEEP, i % DEEP);
    if (whole)
      FN(copy)(at, source, most * (int)sizeof(RAW));
    else
      for (int e = 0; e < EACH; e++) at[e] = e < most ? source[e] : (RAW)0;
  }
}
#endif
#ifdef WANT_conv2d_weights_last
/* Copies a slice of pixels: `there` channels from x on of the pixels that `tap` reaches from each of the `steps`
 * positions from `position` on. A turn of the group copies TURN_PLACES positions. */
#define TURN_PLACES (ITEMS * EACH / BN)
__attribute__((always_inline)) static inline void FN(collect)(__local RAW *to, const __global RAW *x, const INDEX4 tap,
                                                              const int there, const index_t position,
                                                              const index_t steps, const index8_t dims,
                                                              const index8_t map, const index_t pitch,
                                                              const bool whole, const int id) {
  int k = id * EACH / BN;
  index_t line = (position + k) / dims.s7, column = position + k - line * dims.s7, image = line / dims.s6;
  line -= image * dims.s6;
  COPIES
  for (int turn = 0; turn < (BN * DEEP + EACH * ITEMS - 1) / (EACH * ITEMS); turn++) {
    if (BN * DEEP % (EACH * ITEMS) && k >= DEEP) break;
    const index_t py = line * map.s0 + tap.z, px = column * map.s4 + tap.w;
    const bool in = k < steps && py >= 0 && py < dims.s4 && px >= 0 && px < dims.s5;
    const __global RAW *source = in ? x + ((image * dims.s4 + py) * dims.s5 + px) * pitch : x;
    const int most = in ? there : 0;
    __local RAW *at = to + PLACE(false, BN, id * EACH % BN, k);
    if (whole)
      FN(copy)(at, source, most * (int)sizeof(RAW));
    else
      for (int e = 0; e < EACH; e++) at[e] = e < most ? source[e] : (RAW)0;
    k += TURN_PLACES;
    for (column += TURN_PLACES; column >= dims.s7; column -= dims.s7)
      if (++line == dims.s6) line = 0, image++;
  }
}
#undef TURN_PLACES
#endif
#define SLICES(s, wanted)                           \
  if ((wanted) && (s) < slices) {                   \
    const index_t begins = (index_t)(s) * DEEP;     \
    COPY_LEFT(left[(s) % STAGES], begins)           \
    COPY_RIGHT(right[(s) % STAGES], begins)         \
  }

GROUP(ITEMS, 1, 1) STAGED(ARGS) {
  TILES
  TABLES
#if IMITATE
  int asked = 0, arrived = 0;
#endif
  const index_t matrix = (index_t)get_group_id(2);
  if (matrix >= MATRICES) return; /* the whole group */
  OPEN
  ITEM_PLACE
  const index_t row0 = (index_t)get_group_id(1) * BM, column0 = (index_t)get_group_id(0) * BN;
  STARTS
  const int slices = (int)((depth + DEEP - 1) / DEEP);
  SUMS
  for (int s = 0; s < COMING; s++) {
    BRING(s)
    COMMIT
  }
  for (int s = 0; s < slices; s++) {
    ARRIVED(COMING - 1)
    barrier(CLK_LOCAL_MEM_FENCE); /* slice s is copied, and nobody reads the slice that is overwritten now */
    BRING(s + COMING)
    COMMIT
    PRODUCTS(s)
    ENDED(1)
  }
  ENDED_ALL
  RESULTS
}

/* Multiply-adds of 32-bit words by CPUs' units, included by gemm_mma.cl, conv2d_mma.cl and conv2d_weights_mma.cl. A word
 * holds QUAD elements: four bytes or two bf16.
 *
 * - Vectors: DOT(sum, a, b) adds the products of a word of a with a word of b to each of 16 sums.
 * - TILES (AMX): TILE_DOT(sum, a, b) multiplies a tile of lines of words by one whose lines are vectors of b. Tiles 0 to 3 are
 *   sums, 4 and 5 lines of a, 6 and 7 lines of b. BEGIN_TILES(lines, words) sets how many lines of a there are, and how many words
 *   of the inner axis an instruction takes; END_TILES ends their use. Both may be used without tiles, too.
 *
 * The including file defines INTEGER; TILES; IMITATE (plain C instead of the unit's instructions, for tests: DOT); SIGNED and
 * FLIP: with both set, a is i8 and b is u8 (i8 with its sign bit flipped); with SIGNED alone, both are i8; with neither, a is u8
 * and b is i8. */
#if INTEGER
#define RAW         uchar
#define QUAD        4
#define SUM         uint
#define SUMS        uint16
#define VECTOR_NAME "vpdpbusd"
#if SIGNED
#define TILE_NAME "tdpbssd"
#else
#define TILE_NAME "tdpbusd"
#endif
#else
#define RAW         ushort
#define QUAD        2
#define SUM         float
#define SUMS        float16
#define VECTOR_NAME "vdpbf16ps"
#define TILE_NAME   "tdpbf16ps"
#endif
#define SHIFT (32 / QUAD)

#if IMITATE
#define DOT(sum, a, b) sum = FN(multiply)(sum, (uint16)(a), b)
/* sum + a * b, word by word. */
static inline SUMS FN(multiply)(SUMS sum, uint16 a, uint16 b) {
#if INTEGER
  for (int i = 0; i < QUAD; i++, a >>= SHIFT, b >>= SHIFT)
    sum += (SIGNED ? as_uint16(as_int16(a << 24) >> 24) : a & 0xffu) *
           (FLIP ? b & 0xffu : as_uint16(as_int16(b << 24) >> 24));
  return sum;
#else
  sum = fma(as_float16(a << 16), as_float16(b << 16), sum);
  return fma(as_float16(a & 0xffff0000u), as_float16(b & 0xffff0000u), sum);
#endif
}
#elif TILES
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
/* Lines begin `line` words apart. */
#define TILE_LOAD(t, p, line) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((size_t)(line)*4) : "memory")
#define TILE_STORE(t, p, line) \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((size_t)(line)*4) : "memory")
#define TILE_DOT(sum, a, b) __asm__ volatile(TILE_NAME " %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")
/* Sums of one or two tiles of lines by both vectors of a panel. */
#define ZERO_SUMS \
  TILE_ZERO(0);   \
  TILE_ZERO(1);   \
  TILE_ZERO(2);   \
  TILE_ZERO(3);
#define ADD_PRODUCTS(first, second, both, line, panel) \
  {                                                    \
    TILE_LOAD(4, first, line);                         \
    TILE_LOAD(6, panel, PANEL);                        \
    TILE_LOAD(7, (panel) + 16, PANEL);                 \
    TILE_DOT(0, 4, 6);                                 \
    TILE_DOT(1, 4, 7);                                 \
    if (both) {                                        \
      TILE_LOAD(5, second, line);                      \
      TILE_DOT(2, 5, 6);                               \
      TILE_DOT(3, 5, 7);                               \
    }                                                  \
  }
static inline void FN(begin_tiles)(const int lines, const int words) {
  uchar tiles[64];
  for (int i = 0; i < 64; i++) tiles[i] = i == 0;
  for (int t = 0; t < 8; t++) {
    tiles[16 + 2 * t] = t == 4 || t == 5 ? 4 * words : 64;
    tiles[48 + t] = t < 6 ? lines : words;
  }
  __asm__ volatile("ldtilecfg (%0)" ::"r"(tiles) : "memory");
}
#define BEGIN_TILES(lines, words) FN(begin_tiles)(lines, words)
#define END_TILES                 __asm__ volatile("tilerelease" ::: "memory")
#else
#define DOT(sum, a, b) __asm__(VECTOR_NAME DOT_ORDER ", %0" : "+v"(sum) : "v"((uint16)(a)), "v"(b))
#if SIGNED
#define DOT_ORDER " %1, %2" /* the signed operand first */
#else
#define DOT_ORDER " %2, %1"
#endif
#endif
#ifndef BEGIN_TILES
#define BEGIN_TILES(lines, words)
#define END_TILES
#endif

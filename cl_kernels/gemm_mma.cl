/* Matrix products by matrix units of CPUs: bytes to i32, exactly, and bf16 with sums in float. A word is what such a
 * unit takes at once of the inner axis: four bytes, or two bf16 (QUAD elements). The arguments are those of gemm.cl.
 *
 * A panel is what a tile of results reads of an operand, in words, with zeros past the end of the inner axis. Of a,
 * either ROWS words for each step of the inner axis (vectors) or ROWS lines of words (TILES); of b, PANEL words for
 * each step, and behind them what the sums begin with. TILES: the unit holds tiles of 16 x 16 words, and ROWS is 32;
 * else it multiplies vectors of 16 words by one word. IMITATE: plain C instead of the unit's instructions, for tests.
 *
 * A work-item does one of plan.s0 x plan.s1 parts of a matrix: at a time plan.s2 of the inner axis (a multiple of what
 * an instruction takes), plan.s3 rows, whose panels stay in the second cache, and plan.s4 columns. The panels are in
 * `space`, plan.s5 words for each work-item. Sums that the next part of the inner axis goes on with are in `sums`,
 * which may be y itself. */
#define PANEL 32
#if TILES
#define STEP 16 /* words of the inner axis that an instruction takes */
#else
#define STEP 1
#endif

/* u8 by i8. Vectors take an a of i8 as u8, which is 128 more, and the sums begin with so much less: FLIP. */
#if INTEGER
#define RAW               uchar
#define QUAD              4
#define WORD(p)           as_uint(vload4(0, p))
#define SUM               uint
#define SUMS              uint16
#define AS_SUMS           as_uint16
#define RESULT(x)         (int)(x)
#define STORE_SUMS(at, v) vstore16(as_int16(v), 0, (__global int *)y + (at))
#define SIGNED_u8         0
#define SIGNED_i8         1
#define SIGNED            CLADE_PASTE(SIGNED_, T)
#define TILE_NAME_u8      "tdpbusd"
#define TILE_NAME_i8      "tdpbssd"
#define TILE_NAME         CLADE_PASTE(TILE_NAME_, T)
#define VECTOR_NAME       "vpdpbusd"
#else
#define RAW               ushort
#define QUAD              2
#define WORD(p)           as_uint(vload2(0, p))
#define SUM               float
#define SUMS              float16
#define AS_SUMS           as_float16
#define RESULT(x)         ((x)*alpha)
#define STORE_SUMS(at, v) STOREN(16, OUT, y, at, (v)*alpha)
#define SIGNED            0
#define TILE_NAME         "tdpbf16ps"
#define VECTOR_NAME       "vdpbf16ps"
#endif
#if SIGNED && !TILES
#define FLIP 0x80808080u
#else
#define FLIP 0u
#endif
#define SHIFT (32 / QUAD)

static inline index_t FN(offset)(index8_t dims, index8_t strides, index_t at) {
  index_t from = at % dims.s5 * strides.s5;
  at /= dims.s5;
  from += at % dims.s4 * strides.s4;
  at /= dims.s4;
  from += at % dims.s3 * strides.s3;
  at /= dims.s3;
  from += at % dims.s2 * strides.s2;
  at /= dims.s2;
  return from + at % dims.s1 * strides.s1 + at / dims.s1 * strides.s0;
}
#define EPILOGUE_AT(strides) FN(offset)(dims, strides, batch)

/* ---- the unit: results of ROWS x PANEL from two panels ---- */
#if IMITATE
#define DOT(sum, a, b) sum = FN(multiply)(sum, a, b)
/* sum + a * b, a word of a with each of b. */
static inline SUMS FN(multiply)(SUMS sum, uint a, uint16 b) {
#if INTEGER
  for (int i = 0; i < QUAD; i++, a >>= SHIFT, b >>= SHIFT)
    sum += (uint)(SIGNED && TILES ? clade_wrap_i8((int)a) : (int)(a & 0xffu)) * as_uint16(as_int16(b << 24) >> 24);
  return sum;
#else
  sum = fma((float16)as_float(a << 16), as_float16(b << 16), sum);
  return fma((float16)as_float(a & 0xffff0000u), as_float16(b & 0xffff0000u), sum);
#endif
}
static inline void FN(tile)(const index_t rows, const __global uint *a, const __global uint *b, const index_t words,
                            SUM *part) {
  for (index_t i = 0; i < 2 * rows; i++) {
    const index_t r = i / 2, v = i % 2;
    SUMS sum = AS_SUMS(vload16(v, b + words * PANEL));
    for (index_t k = 0; k < words; k++) DOT(sum, TILES ? a[r * words + k] : a[k * ROWS + r], vload16(2 * k + v, b));
    vstore16(sum, i, part);
  }
}
#elif TILES
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::: "memory")
#define TILE_LOAD(t, p, line) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((size_t)(line)*4) : "memory")
#define TILE_STORE(t, p) \
  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((size_t)(PANEL * 4)) : "memory")
#define TILE_DOT(sum, a, b) __asm__ volatile(TILE_NAME " %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")
/* Eight tiles of 16 lines of 64 bytes, for the life of a work-item. */
static inline void FN(begin)(void) {
  uchar tiles[64];
  for (int i = 0; i < 64; i++)
    tiles[i] = i == 0 ? 1 : i >= 48 && i < 56 ? 16 : i >= 16 && i < 32 && i % 2 == 0 ? 64 : 0;
  __asm__ volatile("ldtilecfg (%0)" ::"r"(tiles) : "memory");
}
static inline void FN(end)(void) { __asm__ volatile("tilerelease" ::: "memory"); }
static inline void FN(tile)(const index_t rows, const __global uint *a, const __global uint *b, const index_t words,
                            SUM *part) {
  TILE_ZERO(0);
  TILE_ZERO(1);
  TILE_ZERO(2);
  TILE_ZERO(3);
  for (index_t k = 0; k < words; k += STEP, a += STEP, b += STEP * PANEL) {
    TILE_LOAD(4, a, words);
    TILE_LOAD(6, b, PANEL);
    TILE_LOAD(7, b + STEP, PANEL);
    TILE_DOT(0, 4, 6);
    TILE_DOT(1, 4, 7);
    if (rows > STEP) {
      TILE_LOAD(5, a + STEP * words, words);
      TILE_DOT(2, 5, 6);
      TILE_DOT(3, 5, 7);
    }
  }
  TILE_STORE(0, part);
  TILE_STORE(1, part + STEP);
  TILE_STORE(2, part + STEP * PANEL);
  TILE_STORE(3, part + STEP * PANEL + STEP);
}
#else
#define DOT(sum, a, b) __asm__(VECTOR_NAME " %2, %1, %0" : "+v"(sum) : "v"((uint16)(a)), "v"(b))
__attribute__((always_inline)) static inline void FN(rows)(const int height, const __global uint *a,
                                                           const __global uint *b, const index_t words, SUM *part) {
  SUMS sum[ROWS][2];
#pragma unroll
  for (int r = 0; r < height; r++)
#pragma unroll
    for (int v = 0; v < 2; v++) sum[r][v] = AS_SUMS(vload16(v, b + words * PANEL));
  for (index_t k = 0; k < words; k++, a += ROWS, b += PANEL) {
    const uint16 left = vload16(0, b), right = vload16(1, b);
#pragma unroll
    for (int r = 0; r < height; r++) {
      DOT(sum[r][0], a[r], left);
      DOT(sum[r][1], a[r], right);
    }
  }
#pragma unroll
  for (int r = 0; r < height; r++)
#pragma unroll
    for (int v = 0; v < 2; v++) vstore16(sum[r][v], v, part + r * PANEL);
}
/* Whole ones, or lower ones where there are no more rows. */
static inline void FN(tile)(const index_t rows, const __global uint *a, const __global uint *b, const index_t words,
                            SUM *part) {
  if (rows > (2 * ROWS + 2) / 3)
    FN(rows)(ROWS, a, b, words, part);
  else if (rows > (ROWS + 2) / 3)
    FN(rows)((2 * ROWS + 2) / 3, a, b, words, part);
  else
    FN(rows)((ROWS + 2) / 3, a, b, words, part);
}
#endif

/* ---- panels ---- */
/* Words of `lines` lines along the inner axis, of which there are n: word k of line i becomes to[i * line + k * apart].
 */
static inline void FN(pack_lines)(const __global RAW *from, index_t across, index_t along, index_t n, index_t depth,
                                  index_t words, const uint flip, __global uint *to, const int lines, index_t line,
                                  index_t apart) {
  for (int i = 0; i < lines; i++, from += across, to += line) {
    const index_t own = i < n ? depth : 0, whole = along == 1 ? own / QUAD : 0;
    for (index_t k = 0; k < whole; k++) to[k * apart] = WORD(from + k * QUAD) ^ flip;
    for (index_t k = whole; k < words; k++) {
      uint word = 0;
      for (int j = 0; j < QUAD; j++)
        if (k * QUAD + j < own) word |= (uint)from[(k * QUAD + j) * along] << SHIFT * j;
      to[k * apart] = word ^ flip;
    }
  }
}

/* A panel of b, of whose columns there are n. */
BODY(pack_b)
(const __global RAW *from, index_t across, index_t along, index_t n, index_t depth, index_t words, __global uint *to) {
  if (across == 1 && n >= PANEL) {
    for (index_t k = 0; k < words; k++)
      for (int v = 0; v < 2; v++) {
        uint16 word = 0;
        for (int j = 0; j < QUAD; j++)
          if (k * QUAD + j < depth)
            word |= convert_uint16(vload16(v, from + (k * QUAD + j) * along)) << (uint)(SHIFT * j);
        vstore16(word, v, to + k * PANEL);
      }
  } else {
    FN(pack_lines)(from, across, along, n, depth, words, 0, to, PANEL, 1, PANEL);
  }
  for (int v = 0; v < 2; v++) {
    SUMS more = 0;
#if SIGNED && !TILES
    for (index_t k = 0; k < words; k++) DOT(more, FLIP, vload16(v, to + k * PANEL));
#endif
    vstore16(-more, v, (__global SUM *)(to + words * PANEL));
  }
}
BODY(pack_a)
(const __global RAW *from, index_t across, index_t along, index_t n, index_t depth, index_t words, __global uint *to) {
  FN(pack_lines)(from, across, along, n, depth, words, FLIP, to, ROWS, TILES ? words : 1, TILES ? 1 : ROWS);
}

/* ---- results ---- */
#define GEMM_ARGS                                                                                                      \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha
#define GEMM_PASS PASS(a), PASS(b), PASS(y), dims, depth, a_s, b_s, alpha

/* Adds a tile's results to what is there, and ends them where the inner axis does. */
BODY(finish)
(const SUM *part, __global STORAGE(OUT) * y, __global SUM *sums, const index8_t dims, const float alpha,
 const index_t batch, const index_t row0, const index_t column0, const index_t rows, const index_t columns,
 const bool first, const bool last EPILOGUE_ARGS) {
  EPILOGUE_USE
  for (index_t row = row0; row < row0 + rows; row++, part += PANEL) {
    const index_t at = row * dims.s7 + column0;
    if (columns == PANEL && (PLAIN || !last)) {
      for (int v = 0; v < 2; v++) {
        SUMS sum = vload16(v, part);
        if (!first) sum += vload16(v, sums + at);
#if PLAIN
        if (last)
          STORE_SUMS(at + 16 * v, sum);
        else
#endif
          vstore16(sum, v, sums + at);
      }
    } else {
      for (index_t column = column0; column < column0 + columns; column++) {
        const SUM sum = part[column - column0] + (first ? 0 : sums[row * dims.s7 + column]);
        if (last) {
          const COMPUTE(T) i0 = RESULT(sum);
          EPILOGUE
          STORE(OUT, y, row * dims.s7 + column, r);
        } else {
          sums[row * dims.s7 + column] = sum;
        }
      }
    }
  }
}

BODY(gemm_forward_mma_item)(const long item, GEMM_ARGS, ARG(uint, space), ARG(SUM, sums), const index8_t plan EPILOGUE_ARGS) {
  const index_t down = plan.s0, across = plan.s1;
  const long batches = (long)dims.s0 * dims.s1 * dims.s2 * dims.s3 * dims.s4 * dims.s5;
  if (down == 0 || item >= down * across * batches) return;
  const index_t batch = (index_t)(item / (down * across)), tiles = (dims.s6 + ROWS - 1) / ROWS;
  const index_t panels = (dims.s7 + PANEL - 1) / PANEL, down_at = (index_t)(item % down);
  const index_t across_at = (index_t)(item / down % across);
  const index_t row0 = (index_t)((long)tiles * down_at / down) * ROWS;
  const index_t row1 = min((index_t)((long)tiles * (down_at + 1) / down) * ROWS, dims.s6);
  const index_t column0 = (index_t)((long)panels * across_at / across) * PANEL;
  const index_t column1 = min((index_t)((long)panels * (across_at + 1) / across) * PANEL, dims.s7);
  SUM part[ROWS * PANEL];
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  USE(uint, space);
  USE(SUM, sums);
  a += FN(offset)(dims, a_s, batch);
  b += FN(offset)(dims, b_s, batch);
  y += batch * dims.s6 * dims.s7;
  sums += batch * dims.s6 * dims.s7;
  space += item * plan.s5;
#if TILES && !IMITATE
  FN(begin)();
#endif
  for (index_t k = 0; k == 0 || k < depth; k += plan.s2) {
    const index_t left = min(plan.s2, depth - k), words = (left + QUAD * STEP - 1) / (QUAD * STEP) * STEP;
    const bool first = k == 0, last = k + left == depth;
    for (index_t i = row0; i < row1; i += plan.s3) {
      const index_t end = min(i + plan.s3, row1), count = (end - i + ROWS - 1) / ROWS;
      const index_t height = TILES ? ROWS : (end - i + count - 1) / count;
      __global uint *a_part = space, *b_part = space + (count * words * ROWS + 15) / 16 * 16;
      for (index_t r = 0; r < count; r++) FN(pack_a)
      ((const __global RAW *)(a + (i + r * height) * a_s.s6 + k * a_s.s7), a_s.s6, a_s.s7, dims.s6 - i - r * height,
       left, words, a_part + r * words * ROWS);
      for (index_t j = column0; j < column1; j += plan.s4) {
        const index_t to = min(j + plan.s4, column1), panel = (words + 1) * PANEL;
        for (index_t c = j; c < to; c += PANEL) FN(pack_b)
        ((const __global RAW *)(b + k * b_s.s6 + c * b_s.s7), b_s.s7, b_s.s6, dims.s7 - c, left, words,
         b_part + (c - j) / PANEL * panel);
        for (index_t c = j; c < to; c += PANEL)
          for (index_t r = 0; r < count; r++) {
            const index_t row = i + r * height, rows = min(height, end - row);
            FN(tile)(rows, a_part + r * words * ROWS, b_part + (c - j) / PANEL * panel, words, part);
            FN(finish)
            (part, y, sums, dims, alpha, batch, row, c, rows, min((index_t)PANEL, column1 - c), first,
             last EPILOGUE_PASS);
          }
      }
    }
  }
#if TILES && !IMITATE
  FN(end)();
#endif
}

GROUP(1, 1, 1)
KERNEL(gemm_forward_mma)(GEMM_ARGS, ARG(uint, space), ARG(SUM, sums), const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_mma_item)((long)get_global_id(0), GEMM_PASS, PASS(space), PASS(sums), plan EPILOGUE_PASS);
}
#undef PANEL
#undef STEP
#undef RAW
#undef QUAD
#undef WORD
#undef SUM
#undef SUMS
#undef AS_SUMS
#undef RESULT
#undef STORE_SUMS
#undef SIGNED_u8
#undef SIGNED_i8
#undef SIGNED
#undef TILE_NAME_u8
#undef TILE_NAME_i8
#undef TILE_NAME
#undef VECTOR_NAME
#undef FLIP
#undef SHIFT
#undef EPILOGUE_AT
#undef DOT
#undef TILE_ZERO
#undef TILE_LOAD
#undef TILE_STORE
#undef TILE_DOT
#undef GEMM_ARGS
#undef GEMM_PASS

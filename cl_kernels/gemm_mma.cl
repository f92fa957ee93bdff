/* Matrix products by matrix units of CPUs: 8-bit integers to i32, exactly, and bf16 with f32 sums. A word is the unit's
 * granularity along the inner axis: four bytes or two bf16 (QUAD elements). Arguments as in gemm.cl.
 *
 * A tile's operands are packed in words, padded with zeros at the end of the inner axis: TM lines of a, LINE words
 * apart; and a panel of b, with PANEL words per step. TILES: the unit multiplies tiles of 16 x 16 words (AMX), and TM
 * is 32; otherwise it multiplies vectors of 16 words by one word (VNNI, AVX512-BF16). IMITATE: plain C instead of the
 * unit's instructions, for tests.
 *
 * A work-item computes one of plan.s0 x plan.s1 parts of a matrix, with slices of plan.s2 of the inner axis (a multiple
 * of the unit's step), plan.s3 rows, whose lines stay in L2, and plan.s4 columns, whose panels serve the following
 * rows. Packed operands are in `space`, plan.s5 words per work-item. plan.s6: b is packed already. Partial sums between
 * slices are in `sums`, which may be y itself. */
#define PANEL 32
#if TILES
#define STEP 16 /* words of the inner axis per instruction */
#else
#define STEP 1
#endif
/* Loops over `height` rows; the constant bound lets the loop be unrolled, so that sums stay in registers. */
#define EACH_ROW(most) _Pragma("unroll") for (int r = 0; r < (most); r++) if (r < height)

#if INTEGER
#define RESULT(x)         (int)(x)
#define STORE_SUMS(at, v) vstore16(v, 0, (__global uint *)y + (at))
#define SIGNED_natural    0
#define SIGNED_whole      1
#define SIGNED            CLADE_PASTE(SIGNED_, CLADE_KIND(T))
#else
#define RESULT(x)         ((x)*alpha)
#if IMITATE || TILES
#define STORE_SUMS(at, v) STOREN(16, OUT, y, at, (v)*alpha)
#else
#define STORE_SUMS(at, v)                                                  \
  {                                                                        \
    ushort16 half_;                                                        \
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(half_) : "v"((float16)(v)*alpha)); \
    vstore16(half_, 0, y + (at));                                          \
  }
#endif
#define SIGNED            0
#endif
/* u8 by i8. Of an a of i8 vectors take b as u8, which is 128 more (FLIP), and a row's sums begin with so much less. */
#if SIGNED && !TILES
#define FLIP 0x80808080u
#else
#define FLIP 0u
#endif
#include "dot_units.cl"
#if FLIP
#define LESS(sum, a) DOT(sum, a, (uint16)(FLIP)) /* subtracts what FLIP adds to the products of a's words */
#else
#define LESS(sum, a)
#endif
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, batch)
/* Unaligned vectors, loaded and stored by one instruction. */
typedef uint8 FN(words8) __attribute__((aligned(1)));
typedef uint16 FN(words16) __attribute__((aligned(1)));

/* ---- results ---- */
/* What a tile needs besides its operands: the matrices, its position, and its size. */
#define TILE_ARGS                                                                                             \
  __global STORAGE(OUT) * y, __global SUM *sums, const index8_t dims, const float alpha, const index_t batch, \
      const index_t row0, const index_t column0, const index_t rows, const index_t columns, const bool first, \
      const bool last
#define TILE_PASS y, sums, dims, alpha, batch, row0, column0, rows, columns, first, last
#define WHOLE     (columns == PANEL && (PLAIN || !last))

/* Adds sixteen results of a whole tile to the partial sums, and finishes them in the last slice. */
static inline void FN(put)(SUMS sum, const index_t at, __global STORAGE(OUT) * y, __global SUM *sums, const float alpha,
                           const bool first, const bool last) {
  if (!first) sum += vload16(0, sums + at);
#if PLAIN
  if (last) {
    STORE_SUMS(at, sum);
    return;
  }
#endif
  vstore16(sum, 0, sums + at);
}

/* The same for any tile: if it is partial, sixteen elements at a time if the epilogue supports it, else one by one. */
#define EPILOGUE_LOAD16(T, p, s) \
  ((s).s7 ? LOAD16(T, p, row *(s).s6 + column * (s).s7) : (float16)(LOAD(T, p, row *(s).s6)))
BODY(finish)(const SUM *part, TILE_ARGS EPILOGUE_ARGS) {
  EPILOGUE_USE
  for (index_t row = row0; row < row0 + rows; row++, part += PANEL) {
    index_t c = 0;
    if (WHOLE)
      for (; c < PANEL; c += 16)
        FN(put)(vload16(0, part + c), row * dims.s7 + column0 + c, y, sums, alpha, first, last);
#if WIDE && !INTEGER
    for (; last && c + 16 <= columns; c += 16) {
      const index_t column = column0 + c, at = row * dims.s7 + column;
      const float16 i0 = (vload16(0, part + c) + (first ? (float16)(0.0f) : vload16(0, sums + at))) * alpha;
      EPILOGUE16
      STORE16(OUT, y, at, r);
    }
#endif
    for (; c < columns; c++) {
      const index_t column = column0 + c, at = row * dims.s7 + column;
      const SUM sum = part[c] + (first ? 0 : sums[at]);
      if (last) {
        const COMPUTE(T) i0 = RESULT(sum);
        EPILOGUE
        STORE(OUT, y, at, r);
      } else {
        sums[at] = sum;
      }
    }
  }
}

/* ---- the unit: TM x PANEL results from lines of a and a panel of b ---- */
#if FLIP
/* Initial or final value of a row's sums: minus the total of `more`, which is what FLIP adds. */
static inline uint FN(start)(SUMS more) {
  more.lo += more.hi;
  more.s0123 += more.s4567;
  more.s01 += more.s23;
  return -(uint)(more.s0 + more.s1);
}
#endif

#define GEMM_ARGS                                                                                                      \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha
#define GEMM_PASS PASS(a), PASS(b), PASS(y), dims, depth, a_s, b_s, alpha

#ifdef WANT_gemm_forward_mma
#define START(r) (FLIP ? (SUMS)(a[(r)*LINE + LINE - 1]) : (SUMS)(0))
#define HIGH (TILES ? TM : (2 * TM + 2) / 3) /* height of a smaller tile for few remaining rows; LOW is still smaller */
#define LOW ((TM + 2) / 3)
/* `soon`: data of later tiles, prefetched at `pace` words per step. The last word of a line of a is its initial sum. */
#define TILE_OPERANDS                                                                                         \
  const __global uint *a, const __global uint *b, const index_t words, const __global uint *soon, const index_t pace
#if IMITATE || TILES
#define PIECE    (TILES ? STEP : TM)
#define PIECES   (TM / PIECE)
#define BY_PLACE LINE
#define BY_WORD  1
#define WORDS    inner /* one block */
#include "mma_tile.cl"
static inline void FN(tile)(TILE_OPERANDS, TILE_ARGS EPILOGUE_ARGS) {
  const int none = 0, at[2] = {0, rows > STEP ? STEP * LINE : 0};
  const SUM start[PANEL] ALIGNED = {0};
  SUM part[TM * PANEL] ALIGNED;
  FN(sum_tile)(b, 0, a, at, 0, 1, &none, &none, words, start, LINE, STEP, part);
  for (index_t i = 0; FLIP && i < rows * PANEL; i++) part[i] += a[i / PANEL * LINE + LINE - 1];
  FN(finish)(part, TILE_PASS EPILOGUE_PASS);
}
#else
__attribute__((always_inline)) static inline void FN(tile_of)(const int height, TILE_OPERANDS, TILE_ARGS EPILOGUE_ARGS) {
  SUMS sum[TM][2];
  EACH_ROW(TM)
#pragma unroll
    for (int v = 0; v < 2; v++) {
      const index_t at = (row0 + r) * dims.s7 + column0 + 16 * v;
      if (INTEGER && first && last) /* bf16 products take twice as long, with half the bytes of results */
        LATER(y + at);
      else if (INTEGER || !first)
        LATER(sums + at);
      sum[r][v] = START(r);
    }
  for (index_t k = 0; k < words; k++, a++, b += PANEL, soon += pace) {
    const uint16 left = vload16(0, b) ^ FLIP, right = vload16(1, b) ^ FLIP;
    LATER(soon);
    LATER(soon + 16);
    EACH_ROW(TM) {
      const uint16 word = a[r * LINE];
      DOT(sum[r][0], word, left);
      DOT(sum[r][1], word, right);
    }
  }
  if (WHOLE) {
    EACH_ROW(TM)
      if (r < rows)
#pragma unroll
        for (int v = 0; v < 2; v++)
          FN(put)(sum[r][v], (row0 + r) * dims.s7 + column0 + 16 * v, y, sums, alpha, first, last);
  } else {
    SUM part[TM * PANEL];
    EACH_ROW(TM)
#pragma unroll
      for (int v = 0; v < 2; v++) vstore16(sum[r][v], v, part + r * PANEL);
    FN(finish)(part, TILE_PASS EPILOGUE_PASS);
  }
}
static inline void FN(tile)(TILE_OPERANDS, TILE_ARGS EPILOGUE_ARGS) {
  if (rows > HIGH)
    FN(tile_of)(TM, a, b, words, soon, pace, TILE_PASS EPILOGUE_PASS);
  else if (rows > LOW)
    FN(tile_of)(HIGH, a, b, words, soon, pace, TILE_PASS EPILOGUE_PASS);
  else
    FN(tile_of)(LOW, a, b, words, soon, pace, TILE_PASS EPILOGUE_PASS);
}
#endif

/* ---- packing ---- */
/* Word k of a line of `depth` elements. */
static inline uint FN(word)(const __global RAW *from, const index_t along, const index_t k, const index_t depth) {
  uint word = 0;
  for (int j = 0; j < QUAD; j++)
    if (k * QUAD + j < depth) word |= (uint)from[(k * QUAD + j) * along] << SHIFT * j;
  return word;
}

/* Packs TM lines of a, of which n exist; the last one is repeated. Prefetches the next tile's. */
BODY(pack_a)(const __global RAW *a, index_t across, index_t along, index_t n, index_t depth, index_t words, __global uint *to) {
  const index_t whole = along == 1 ? depth / QUAD / 16 * 16 : 0;
  for (int i = 0; i < TM; i++, to += LINE) {
    const __global RAW *from = a + min((index_t)i, n - 1) * across;
    SUMS more = 0;
    for (index_t k = 0; k < whole; k += 16) {
      const uint16 word = *(const __global FN(words16) *)(from + k * QUAD);
      LATER(from + k * QUAD + (long)TM * across);
      LESS(more, word);
      *(__global FN(words16) *)(to + k) = word;
    }
    for (index_t k = whole; k < words; k++) {
      to[k] = FN(word)(from, along, k, depth);
      LESS(more, ((uint16)(to[k], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)));
    }
#if FLIP
    to[LINE - 1] = FN(start)(more);
#endif
  }
}

/* Packs a panel of b, of which n columns exist. If they are contiguous along the inner axis, 8 x 8 words are transposed
 * in registers. */
BODY(pack_b)(const __global RAW *from, index_t across, index_t along, index_t n, index_t depth, index_t words, __global uint *to) {
  index_t whole = 0;
  if (across == 1 && n >= PANEL) {
    for (; whole < words; whole++)
      for (int v = 0; v < 2; v++) {
        uint16 word = 0;
        for (int j = 0; j < QUAD; j++)
          if (whole * QUAD + j < depth)
            word |= convert_uint16(vload16(v, from + (whole * QUAD + j) * along)) << (uint)(SHIFT * j);
        vstore16(word, v, to + whole * PANEL);
      }
  } else if (along == 1) {
    whole = depth / QUAD / 8 * 8;
    for (int i = 0; i < PANEL; i += 8)
      for (index_t k = 0; k < whole; k += 8) {
        float8 x[8];
#pragma unroll
        for (int l = 0; l < 8; l++)
          x[l] = as_float8(*(const __global FN(words8) *)(from + min((index_t)(i + l), n - 1) * across + k * QUAD));
        clade_turn_within(x);
        clade_turn_apart(x);
#pragma unroll
        for (int l = 0; l < 8; l++) vstore8(as_uint8(x[l]), 0, to + (k + l) * PANEL + i);
      }
  }
  for (int i = 0; i < PANEL; i++)
    for (index_t k = whole; k < words; k++)
      to[k * PANEL + i] = FN(word)(from + min((index_t)i, n - 1) * across, along, k, depth);
}

BODY(gemm_forward_mma_item)(const long item, GEMM_ARGS, ARG(uint, space), ARG(SUM, sums), const index8_t plan EPILOGUE_ARGS) {
  const index_t down = plan.s0, across = plan.s1;
  if (down == 0 || item >= down * across * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / (down * across)), tiles = (dims.s6 + TM - 1) / TM;
  const index_t panels = (dims.s7 + PANEL - 1) / PANEL, down_at = (index_t)(item % down);
  const index_t across_at = (index_t)(item / down % across);
  const index_t row0 = (index_t)((long)tiles * down_at / down) * TM;
  const index_t row1 = min((index_t)((long)tiles * (down_at + 1) / down) * TM, dims.s6);
  const index_t column0 = (index_t)((long)panels * across_at / across) * PANEL;
  const index_t column1 = min((index_t)((long)panels * (across_at + 1) / across) * PANEL, dims.s7);
  const bool panels_lie = plan.s6;
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  USE(uint, space);
  USE(SUM, sums);
  a += BATCH_OFFSET(dims, a_s, batch);
  b += BATCH_OFFSET(dims, b_s, batch);
  y += batch * dims.s6 * dims.s7;
  sums += batch * dims.s6 * dims.s7;
  space += item * plan.s5;
  __global uint *b_part = space + (plan.s3 + TM - 1) / TM * TM * LINE;
  BEGIN_TILES(STEP, STEP);
  for (index_t k = 0; k == 0 || k < depth; k += plan.s2) {
    const index_t left = min(plan.s2, depth - k), words = (left + QUAD * STEP - 1) / (QUAD * STEP) * STEP;
    const bool first = k == 0, last = k + left == depth;
    for (index_t j = column0; j < column1; j += plan.s4) {
      const index_t to = min(j + plan.s4, column1);
      for (index_t i = row0; i < row1; i += plan.s3) {
        const index_t end = min(i + plan.s3, row1), count = (end - i + TM - 1) / TM;
        const index_t pace = PANEL / min(count, (index_t)8);
        for (index_t c = j; c < to; c += PANEL) {
          __global uint *copy = b_part + (c - j) * words;
          const __global uint *right = copy, *soon = copy;
          if (panels_lie) {
            const index_t length = (depth + QUAD - 1) / QUAD;
            right = (const __global uint *)b + c * length + k / QUAD * PANEL;
            soon = right + length * PANEL; /* the next panel */
          } else if (i == row0) {
            FN(pack_b)
            ((const __global RAW *)(b + k * b_s.s6 + c * b_s.s7), b_s.s7, b_s.s6, dims.s7 - c, left, words, copy);
          }
          for (index_t row = i, r = 0, rows; row < end; row += rows, r++) {
            __global uint *lines = space + r * TM * LINE;
            /* at most two tiles of HIGH rows rather than one of a few, whose sums would be limited by latency */
            rows = end - row > TM + LOW ? TM : end - row > TM ? HIGH : end - row;
            if (c == j && (j == column0 || row1 - row0 > plan.s3)) FN(pack_a)
            ((const __global RAW *)(a + row * a_s.s6 + k * a_s.s7), a_s.s6, a_s.s7, dims.s6 - row, left, words, lines);
            FN(tile)(lines, right, words, soon, r < 8 ? pace : 0, y, sums, dims, alpha, batch, row, c, rows,
                     min((index_t)PANEL, column1 - c), first, last EPILOGUE_PASS);
            soon += words * pace;
          }
        }
      }
    }
  }
  END_TILES;
}

GROUP(1, 1, 1) KERNEL(gemm_forward_mma)(GEMM_ARGS, ARG(uint, space), ARG(SUM, sums), const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_mma_item)((long)get_global_id(0), GEMM_PASS, PASS(space), PASS(sums), plan EPILOGUE_PASS);
}
#endif

#ifdef WANT_gemm_forward_mma_bare
/* Rows of a in place, and packed b, two panels per tile: nothing is packed, and no partial sums are stored. Twice as
 * many products per loaded value of b leave time to read it from L2. */
enum { FN(PAIR) = 2 * PANEL, FN(MOST_ROWS) = 8 };
typedef uint FN(word1) __attribute__((aligned(1)));

#define BARE_OPERANDS                                                                                              \
  const __global RAW *a, const index_t line, const uint *starts, const __global uint *b, const index_t apart,      \
      const index_t words, const __global uint *soon, const index_t pace
#if IMITATE
static inline void FN(bare_tile)(const int vectors, BARE_OPERANDS, TILE_ARGS EPILOGUE_ARGS) {
  SUM part[FN(MOST_ROWS) * PANEL];
  for (int panel = 0; 2 * panel < vectors && panel * PANEL < columns; panel++) {
    for (index_t i = 0; i < 2 * rows; i++) {
      const index_t r = i / 2, v = i % 2;
      const __global FN(word1) *at = (const __global FN(word1) *)(a + r * line);
      SUMS sum = FLIP ? (SUMS)(starts[r]) : (SUMS)(0);
      for (index_t k = 0; k < words; k++) DOT(sum, at[k], vload16(2 * k + v, b + panel * apart) ^ FLIP);
      vstore16(sum, i, part);
    }
    const index_t there = min((index_t)PANEL, columns - panel * PANEL);
    FN(finish)(part, y, sums, dims, alpha, batch, row0, column0 + panel * PANEL, rows, there, first, last EPILOGUE_PASS);
  }
}
#else
__attribute__((always_inline)) static inline void FN(bare_tile)(const int height, const int vectors, BARE_OPERANDS,
                                                                TILE_ARGS EPILOGUE_ARGS) {
  SUMS sum[FN(MOST_ROWS)][4];
  const __global FN(word1) *at[FN(MOST_ROWS)];
  EACH_ROW(FN(MOST_ROWS)) {
    at[r] = (const __global FN(word1) *)(a + min((index_t)r, rows - 1) * line);
#pragma unroll
    for (int v = 0; v < 4; v++) sum[r][v] = 0;
  }
  const __global STORAGE(OUT) *result = y + row0 * dims.s7 + column0;
  for (index_t k = 0; k < words; k++, b += PANEL, soon += pace) {
    uint16 right[4];
#pragma unroll
    for (int v = 0; v < 4; v++)
      if (v < vectors) right[v] = vload16(v % 2, b + v / 2 * apart) ^ FLIP;
    LATER(soon);
    if (INTEGER && k % 16 == 0) { /* one row of results per step, since all at once would delay the products */
#pragma unroll
      for (int v = 0; v < 4; v++)
        if (v < vectors) LATER(result + 16 * v);
      result += k < 16 * (height - 1) ? dims.s7 : 0;
    }
    EACH_ROW(FN(MOST_ROWS)) {
      const uint16 word = at[r][k];
#pragma unroll
      for (int v = 0; v < 4; v++)
        if (v < vectors) DOT(sum[r][v], word, right[v]);
    }
  }
  EACH_ROW(FN(MOST_ROWS))
#pragma unroll
    for (int v = 0; v < 4; v++)
      if (FLIP) sum[r][v] += (SUMS)(starts[min((index_t)r, rows - 1)]);
  if (PLAIN && columns >= 16 * vectors) { /* constant indices: variable ones would force the sums into memory */
    EACH_ROW(FN(MOST_ROWS))
#pragma unroll
      for (int v = 0; v < 4; v++)
        if (r < rows && v < vectors)
          FN(put)(sum[r][v], (row0 + r) * dims.s7 + column0 + 16 * v, y, sums, alpha, first, last);
    return;
  }
#pragma unroll
  for (int panel = 0; panel < 2; panel++) {
    const index_t column = column0 + panel * PANEL, there = min((index_t)PANEL, columns - panel * PANEL);
    if (2 * panel >= vectors || there <= 0) continue;
    SUM part[FN(MOST_ROWS) * PANEL];
    EACH_ROW(FN(MOST_ROWS))
#pragma unroll
      for (int v = 0; v < 2; v++) vstore16(sum[r][2 * panel + v], v, part + r * PANEL);
    FN(finish)(part, y, sums, dims, alpha, batch, row0, column, rows, there, first, last EPILOGUE_PASS);
  }
}
#endif

#if FLIP
static inline uint FN(start_of)(const __global RAW *from, const index_t words) {
  SUMS more = 0;
  index_t k = 0;
  for (; k + 16 <= words; k += 16) LESS(more, *(const __global FN(words16) *)(from + k * QUAD));
  for (; k < words; k++)
    LESS(more, ((uint16)(*(const __global FN(word1) *)(from + k * QUAD), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)));
  return FN(start)(more);
}
#endif

/* A work-item computes one of plan.s0 x plan.s1 parts of a matrix, with plan.s2 rows, which stay in L2. */
BODY(gemm_forward_mma_bare_item)(const long item, GEMM_ARGS, const index8_t plan EPILOGUE_ARGS) {
  const index_t down = plan.s0, across = plan.s1;
  if (down == 0 || item >= down * across * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / (down * across)), panels = (dims.s7 + PANEL - 1) / PANEL;
  const index_t across_at = (index_t)(item / down % across), row0 = (index_t)(item % down) * plan.s2;
  const index_t row1 = min(row0 + plan.s2, dims.s6), words = depth / QUAD;
  const index_t column0 = (index_t)((long)panels * across_at / across) * PANEL;
  const index_t column1 = min((index_t)((long)panels * (across_at + 1) / across) * PANEL, dims.s7);
  const bool low = row1 - row0 > 4 && row1 - row0 <= 8; /* one tile of a single panel */
  const index_t pace = low ? 0 : FN(PAIR) / clamp((row1 - row0) / 6, (index_t)4, (index_t)8);
  uint starts[BM];
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  a += BATCH_OFFSET(dims, a_s, batch);
  b += BATCH_OFFSET(dims, b_s, batch);
  y += batch * dims.s6 * dims.s7;
  __global SUM *sums = (__global SUM *)y; /* a single slice of the inner axis */
  for (index_t c = column0, wide; c < column1; c += wide) {
    const bool narrow = low || column1 - c <= PANEL;
    wide = narrow ? PANEL : FN(PAIR);
    const __global uint *right = (const __global uint *)b + c * words, *next = right + words * wide;
    for (index_t row = row0, rows; row < row1; row += rows) {
      const index_t left = row1 - row;
      const __global RAW *from = (const __global RAW *)(a + row * a_s.s6);
      const bool fresh = c == column0; /* prefetches the following rows, otherwise the next panels */
      rows = narrow ? min(left, (index_t)8) : left == 7 || left == 8 ? 4 : min(left, (index_t)6);
#if FLIP
      for (index_t r = 0; fresh && r < rows; r++) starts[row - row0 + r] = FN(start_of)(from + r * a_s.s6, words);
#endif
      const __global uint *soon = fresh ? (const __global uint *)(from + rows * a_s.s6) : next;
#define TILE(...)                                                                                                \
  FN(bare_tile)(__VA_ARGS__, from, a_s.s6, starts + row - row0, right, words *PANEL, words, soon, fresh ? rows : pace, y, \
                sums, dims, alpha, batch, row, c, rows, min(wide, column1 - c), true, true EPILOGUE_PASS)
#if IMITATE
      TILE(narrow ? 2 : 4);
#else
      if (narrow && rows > 4)
        TILE(8, 2);
      else if (narrow && rows > 2)
        TILE(4, 2);
      else if (narrow)
        TILE(2, 2);
      else if (rows > 4)
        TILE(6, 4);
      else if (rows > 2)
        TILE(4, 4);
      else
        TILE(2, 4);
#endif
      next += words * pace;
    }
  }
}

GROUP(1, 1, 1) KERNEL(gemm_forward_mma_bare)(GEMM_ARGS, const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_mma_bare_item)((long)get_global_id(0), GEMM_PASS, plan EPILOGUE_PASS);
}
#endif

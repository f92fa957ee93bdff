/* Matrix products: y = epilogue(alpha * a b), batched.
 *
 * dims: six batch dimensions, rows, columns. a_s: six batch strides, then those of rows and of the inner axis. b_s: six
 * batch strides, then those of the inner axis and of columns. depth: length of the inner axis. TB: type of b, if it may
 * differ from T. ACC: float, or uint for integers, which wrap around. OUT: stored type of y. EPILOGUE computes r from
 * i0 at (row, column); EPILOGUE_ARGS, EPILOGUE_PASS and EPILOGUE_USE provide its operands. */
#define GEMM_ARGS                                                                                                      \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha
#define GEMM_PASS            PASS(a), PASS(b), PASS(y), dims, depth, a_s, b_s, alpha
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, batch)
/* Declares the matrices of the batch. */
#define GEMM_USE_MATRICES            \
  USE(const STORAGE(T), a);          \
  USE(const STORAGE(TB), b);         \
  USE(STORAGE(OUT), y);              \
  a += BATCH_OFFSET(dims, a_s, batch); \
  b += BATCH_OFFSET(dims, b_s, batch); \
  y += batch * (index_t)dims.s6 * dims.s7;
#define GEMM_STORE(result, row_, column_)           \
  {                                                 \
    const index_t row = (row_), column = (column_); \
    const COMPUTE(T) i0 = (result);                 \
    EPILOGUE                                        \
    STORE(OUT, y, row *dims.s7 + column, r);        \
  }

#ifdef WANT_gemm_forward_ref
BODY(result)(const index_t row0, const index_t column0, const index_t batch, GEMM_ARGS EPILOGUE_ARGS) {
  USE(const STORAGE(T), a);
  USE(const STORAGE(TB), b);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  a += BATCH_OFFSET(dims, a_s, batch) + row0 * a_s.s6;
  y += batch * (index_t)dims.s6 * dims.s7;
  const index_t first = BATCH_OFFSET(dims, b_s, batch) + column0 * b_s.s7; /* an index: block elements have no address */
  ACC sum = 0;
  for (index_t k = 0; k < depth; k++)
    sum += (ACC)LOAD(T, a, k * a_s.s7) * (ACC)LOAD(TB, b, first + k * b_s.s6);
  GEMM_STORE((COMPUTE(T))(sum * (ACC)alpha), row0, column0)
}

KERNEL(gemm_forward_ref)(GEMM_ARGS EPILOGUE_ARGS) {
  const index_t column0 = get_global_id(0), row0 = get_global_id(1), batch = get_global_id(2);
  if (row0 < dims.s6 && column0 < dims.s7 && batch < BATCHES(dims))
    FN(result)(row0, column0, batch, GEMM_PASS EPILOGUE_PASS);
}
#endif

#if defined WANT_gemm_forward_vec || defined WANT_gemm_forward_vec_bare
/* For CPUs with vectors of WIDTH floats. The register tile is TM rows by VECTORS vectors. A panel holds what a tile
 * reads of an operand: for each step of the inner axis, TM rows of a, or the columns of b, side by side.
 *
 * A work-item computes one of plan.s0 x plan.s1 parts of a matrix. For a slice of plan.s2 steps of the inner axis and
 * plan.s3 rows it packs panels of a, which stay in L2. The first rows also pack panels of b, one of which stays in L1
 * while all panels of a use it: the first tile does that while it computes, if rows of b are contiguous floats;
 * otherwise plan.s4 columns are packed beforehand. Packed panels of plan.s5 columns are kept for the following rows.
 * Panels are in `space`, plan.s6 floats per work-item. plan.s7: b (1) or a (2) is packed already; an argument rather
 * than a define, so that training, where weights change, and its test share kernels. Partial sums between slices of the
 * inner axis are in `sums`, which may be y itself. */
#define PANEL  (VECTORS * WIDTH)
#define HIGH   ((2 * TM + 2) / 3) /* height of a smaller tile for few remaining rows; LOW is still smaller */
#define LOW    ((TM + 2) / 3)
#define NARROW ((VECTORS + 1) / 2)

/* 8-bit integers are multiplied as floats, exactly, since the sums of a slice stay below 2^24; slices are added as
 * integers. A signed byte is converted by flipping its highest bit and subtracting 128. */
#if INTEGER
#define RAW                uchar
#define FLIP_natural      0
#define FLIP_whole        128
#define FLIP(T)            CLADE_PASTE(FLIP_, CLADE_KIND(T))
#define EIGHT(p, i)        convert_float8((convert_int8(vload8(0, (p) + (i))) ^ (int8)(flip)) - (int8)(flip))
#define ONE(p, i)          (float)(((int)(p)[i] ^ flip) - flip)
#define SUM                uint
#define TOTAL              CLADE_PASTE(uint, WIDTH)
#define TOTAL_OF(v)        CLADE_PASTE(convert_uint, WIDTH)(CLADE_PASTE(convert_int, WIDTH)(v))
#define SUM_OF(x)          (uint)(int)(x)
#define RESULT(x)          (int)(x)
#define STORE_TOTAL(at, v) CLADE_PASTE(vstore, WIDTH)(CLADE_PASTE(as_int, WIDTH)(v), 0, y + (at))
#else
#define RAW                STORAGE(T)
#define FLIP(T)            0
#define EIGHT(p, i)        LOADN(8, T, p, i)
#define ONE(p, i)          LOAD(T, p, i)
#define SUM                float
#define TOTAL              VECTOR
#define TOTAL_OF(v)        (v)
#define SUM_OF(x)          (x)
#define RESULT(x)          ((x)*alpha)
#define STORE_TOTAL(at, v) STOREN(WIDTH, OUT, y, at, (v)*alpha)
#endif

/* Packs a panel of an operand whose rows are contiguous. `n` elements exist, the others are 0. Copies eight at a time,
 * the last eight overlapping if the width is no multiple of eight; for widths below eight, the excess is overwritten.
 */
#define EIGHT_AT(i, width) ((width) > 8 ? min((i), (width)-8) : (i))
#define WIDEST             (TM + PANEL) /* upper bound: loops with a constant count are unrolled */
static inline void FN(copy)(const __global RAW *from, const int flip, index_t stride, index_t n, index_t depth,
                            __global float *to, const int width) {
  if (n >= max(width, 8)) {
    for (; depth; depth--, from += stride, to += width)
#pragma unroll
      for (int i = 0; i < WIDEST; i += 8)
        if (i < width) vstore8(EIGHT(from, EIGHT_AT(i, width)), 0, to + EIGHT_AT(i, width));
  } else if (n >= 8) { /* the last eight that exist, over zeros */
    for (; depth; depth--, from += stride, to += width) {
#pragma unroll
      for (int i = 0; i < WIDEST; i += 8) {
        if (i >= width) continue;
        const int at = EIGHT_AT(i, width);
        vstore8(at + 8 <= n ? EIGHT(from, at) : (float8)(0), 0, to + at);
      }
      vstore8(EIGHT(from, n - 8), 0, to + n - 8);
    }
  } else {
    for (; depth; depth--, from += stride, to += width)
      for (int i = 0; i < width; i++) to[i] = i < n ? ONE(from, i) : 0.0f;
  }
}

/* The same for an operand that is contiguous along the inner axis: 8 x 8 blocks are transposed in registers. Only eight
 * rows are read at a time; more rows at a power-of-two distance would evict each other's lines from L1. */
static inline void FN(turn)(const __global RAW *from, const int flip, index_t stride, index_t n, index_t depth,
                            __global float *to, const int width) {
  const index_t whole = depth / 8 * 8;
  for (int e = 0; e < width; e += 8) {
    const int i = EIGHT_AT(e, width);
    for (index_t k = 0; k < whole; k += 8) {
      float8 x[8];
#pragma unroll
      for (int l = 0; l < 8; l++) x[l] = EIGHT(from + k, min((index_t)(i + l), n - 1) * stride);
      clade_turn_within(x);
      clade_turn_apart(x); /* last, since tiles read single floats of a, and panels of b much later */
#pragma unroll
      for (int l = 0; l < 8; l++) vstore8(x[l], 0, to + (k + l) * width + i);
    }
  }
  from += whole;
  to += whole * width;
  for (index_t k = whole; k < depth; k++, from++, to += width)
#pragma clang loop vectorize(disable) unroll(disable)
    for (int i = 0; i < width; i++) to[i] = ONE(from, min((index_t)i, n - 1) * stride);
}

/* Packs a panel of a. `across` and `along` are its strides, across and along the inner axis; one of them, or its axis,
 * is 1. */
BODY(pack_a)
(const __global RAW *from, const int flip, index_t across, index_t along, index_t n, index_t depth,
 __global float *to) {
  if (along == 1)
    FN(turn)(from, flip, across, n, depth, to, TM);
  else
    FN(copy)(from, flip, along, n, depth, to, TM);
}
/* Packs `columns` columns of b into panels. Rows of bytes are read to their end. */
BODY(pack_b)
(const __global RAW *from, const int flip, index_t across, index_t along, index_t n, index_t columns, index_t depth,
 __global float *to) {
  const index_t whole = INTEGER && across == 1 ? min(n, columns) / PANEL * PANEL : 0;
  const __global RAW *row = from;
  __global float *at = to;
  for (index_t k = 0; k < depth; k++, row += along, at += PANEL)
    for (index_t c = 0; c < whole; c += PANEL)
#pragma unroll
      for (int i = 0; i < PANEL; i += 8) vstore8(EIGHT(row, c + i), 0, at + c * depth + i);
  for (index_t c = whole; c < columns; c += PANEL) {
    if (across == 1)
      FN(copy)(from + c, flip, along, n - c, depth, to + c * depth, PANEL);
    else
      FN(turn)(from + c * across, flip, across, n - c, depth, to + c * depth, PANEL);
  }
}

/* What a tile needs besides its panels: the matrices, its position, and its size. */
#define TILE_ARGS                                                                                             \
  __global STORAGE(OUT) * y, __global SUM *sums, const index8_t dims, const float alpha, const index_t batch, \
      const index_t row0, const index_t column0, const index_t rows, const index_t columns, const bool first, \
      const bool last
#define TILE_PASS y, sums, dims, alpha, batch, row0, column0, rows, columns, first, last

/* Stores a partial tile, or one with an epilogue: sixteen elements at a time if the epilogue supports it, else one by
 * one; partial sums as vectors. */
#define EPILOGUE_LOAD16(T, p, s) \
  ((s).s7 ? LOAD16(T, p, row *(s).s6 + column * (s).s7) : (float16)(LOAD(T, p, row *(s).s6)))
BODY(finish)(const float *part, TILE_ARGS EPILOGUE_ARGS) {
  EPILOGUE_USE
  for (index_t r = 0; r < rows; r++, part += PANEL) {
    index_t c = 0;
#if WIDE && !INTEGER
    for (; last && c + 16 <= columns; c += 16) {
      const index_t row = row0 + r, column = column0 + c, at = row * dims.s7 + column;
      const float16 i0 = (vload16(0, part + c) + (first ? (float16)(0.0f) : vload16(0, sums + at))) * alpha;
      EPILOGUE16
      STORE16(OUT, y, at, r);
    }
#endif
    for (; !last && c + WIDTH <= columns; c += WIDTH) {
      __global SUM *to = sums + (row0 + r) * dims.s7 + column0 + c;
      TOTAL total = TOTAL_OF(VLOAD(0, part + c));
      if (!first) total += VLOAD(0, to);
      VSTORE(total, 0, to);
    }
    for (; c < columns; c++) {
      const index_t at = (row0 + r) * dims.s7 + column0 + c;
      const SUM sum = first ? SUM_OF(part[c]) : sums[at] + SUM_OF(part[c]);
      if (last)
        GEMM_STORE(RESULT(sum), row0 + r, column0 + c)
      else
        sums[at] = sum;
    }
  }
}

/* Strides: a_row between rows of a, a_step and b_step between steps of the inner axis. `fresh`: the panel of b is not
 * packed yet. It is read in place, with rows `along` apart, and stored to the panel for the following tiles, which
 * costs little; the same row of the next panel is prefetched. Otherwise `from` is data of later tiles, which is
 * prefetched, `along` elements per step. */
#define STEP_ARGS                                                                                                    \
  const __global float *a, const index_t a_row, const index_t a_step, const __global RAW *from, const index_t along, \
      __global float *b, const index_t b_step, index_t depth
#define STEPS(height, vectors, fresh)                                       \
  for (; depth; depth--, a += a_step, b += b_step, from += along) FN(step)( \
      sum, height, vectors, fresh, row, a, from, b)
__attribute__((always_inline)) static inline void FN(step)(VECTOR (*sum)[VECTORS], const int height, const int vectors,
                                                           const bool fresh, const index_t *row, const __global float *a,
                                                           const __global RAW *from, __global float *b) {
  VECTOR right[VECTORS];
#if !INTEGER
  if (fresh) {
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      right[v] = LOADN(WIDTH, T, from, v * WIDTH);
      VSTORE(right[v], v, b);
    }
#pragma unroll
    for (int c = 0; c < PANEL; c += 16) LATER(from + PANEL + c + 15);
  } else
#endif
  {
#pragma unroll
    for (int c = 0; c < PANEL; c += 16) LATER(from + c);
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
      if (v < vectors) right[v] = VLOAD(v, b);
  }
#pragma unroll
  for (int r = 0; r < TM; r++) {
    if (r >= height) continue;
    const VECTOR left = a[row[r]];
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
      if (v < vectors) sum[r][v] = fma(left, right[v], sum[r][v]);
  }
}
__attribute__((always_inline)) static inline void FN(begin)(VECTOR (*sum)[VECTORS], index_t *row, const index_t rows,
                                                            const index_t a_row, const index_t a_step) {
#pragma unroll
  for (int r = 0; r < TM; r++) {
    row[r] = a_step == TM ? r : min((index_t)r, rows - 1) * a_row; /* packed panels have all rows of a tile */
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[r][v] = 0;
  }
}
__attribute__((always_inline)) static inline void FN(keep)(float *part, VECTOR (*sum)[VECTORS]) {
#pragma unroll
  for (int r = 0; r < TM; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) VSTORE(sum[r][v], v, part + r * PANEL);
}

__attribute__((always_inline)) static inline void FN(tile)(const bool fresh, STEP_ARGS, TILE_ARGS EPILOGUE_ARGS) {
  VECTOR sum[TM][VECTORS];
  index_t row[TM];
  FN(begin)(sum, row, rows, a_row, a_step);
#pragma unroll
  for (int r = 0; r < TM; r++)
#pragma unroll
    for (int c = 0; c < PANEL; c += 16)
      if (!first) LATER(sums + (row0 + min((index_t)r, rows - 1)) * dims.s7 + column0 + c);
  if (fresh)
#pragma unroll 4
    STEPS(TM, VECTORS, true);
  else
#pragma unroll 4
    STEPS(TM, VECTORS, false);
#if PLAIN
  if (columns == PANEL) {
#pragma unroll
    for (int r = 0; r < TM; r++)
      if (r < rows) {
        const index_t at = (row0 + r) * dims.s7 + column0;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
          TOTAL total = TOTAL_OF(sum[r][v]);
          if (!first) total += VLOAD(v, sums + at);
          if (last)
            STORE_TOTAL(at + v * WIDTH, total);
          else
            VSTORE(total, v, sums + at);
        }
      }
    return;
  }
#endif
  float part[TM * PANEL];
  FN(keep)(part, sum);
  FN(finish)(part, TILE_PASS EPILOGUE_PASS);
}

/* A tile with fewer rows, or one at the end of b that uses at most half of a panel's vectors. */
APART static void FN(less)(STEP_ARGS, TILE_ARGS EPILOGUE_ARGS) {
  VECTOR sum[TM][VECTORS];
  index_t row[TM];
  float part[TM * PANEL];
  FN(begin)(sum, row, rows, a_row, a_step);
  if (rows > HIGH)
    STEPS(TM, NARROW, false);
  else if (rows > LOW)
#pragma unroll 4
    STEPS(HIGH, VECTORS, false);
  else
    STEPS(LOW, VECTORS, false);
  FN(keep)(part, sum);
  FN(finish)(part, TILE_PASS EPILOGUE_PASS);
}

#ifdef WANT_gemm_forward_vec
#if !INTEGER
/* One row by packed panels of b. Nothing is reused, so b is limited by memory bandwidth: STREAMS panels are read at
 * once, each prefetched by hardware; the last panel is repeated if there are fewer. Sums are combined per slice of
 * `part` steps, as tiles do. */
#define STREAMS 4
APART static void FN(row)(const __global float *a, const index_t a_step, const __global float *b, const index_t depth,
                          const index_t part, __global SUM *sums, __global STORAGE(OUT) * y, const index8_t dims,
                          const float alpha, const index_t batch, const index_t column0, const index_t columns EPILOGUE_ARGS) {
  VECTOR total[STREAMS][VECTORS], sum[STREAMS][VECTORS];
  float result[STREAMS * PANEL];
  const __global float *panel[STREAMS];
#pragma unroll
  for (int s = 0; s < STREAMS; s++) panel[s] = b + min((index_t)s, (columns - 1) / PANEL) * depth * PANEL;
  for (index_t k = 0; k == 0 || k < depth; k += part) {
    const index_t end = min(k + part, depth);
#pragma unroll
    for (int s = 0; s < STREAMS; s++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[s][v] = 0;
    for (index_t i = k; i < end; i++) {
      const VECTOR left = a[i * a_step];
#pragma unroll
      for (int s = 0; s < STREAMS; s++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++) sum[s][v] = fma(left, VLOAD(v, panel[s] + i * PANEL), sum[s][v]);
    }
#pragma unroll
    for (int s = 0; s < STREAMS; s++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) total[s][v] = k ? total[s][v] + sum[s][v] : sum[s][v];
  }
#pragma unroll
  for (int s = 0; s < STREAMS; s++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) VSTORE(total[s][v], v, result + s * PANEL);
  FN(finish)(result, y, sums, dims, alpha, batch, 0, column0, 1, columns, true, true EPILOGUE_PASS);
}
#endif

BODY(gemm_forward_vec_item)(const long item, GEMM_ARGS, ARG(float, space), ARG(SUM, sums), const index8_t plan EPILOGUE_ARGS) {
  const index_t down = plan.s0, across = plan.s1;
  if (down == 0 || item >= down * across * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / (down * across)), tiles = (dims.s6 + TM - 1) / TM;
  const index_t panels = (dims.s7 + PANEL - 1) / PANEL, down_at = (index_t)(item % down);
  const index_t across_at = (index_t)(item / down % across);
  const index_t row0 = (index_t)((long)tiles * down_at / down) * TM;
  const index_t row1 = min((index_t)((long)tiles * (down_at + 1) / down) * TM, dims.s6);
  const index_t column0 = (index_t)((long)panels * across_at / across) * PANEL;
  const index_t column1 = min((index_t)((long)panels * (across_at + 1) / across) * PANEL, dims.s7);
  GEMM_USE_MATRICES
  USE(float, space);
  USE(SUM, sums);
  sums += batch * dims.s6 * dims.s7;
  space += item * plan.s6;
  const bool panels_lie = plan.s7 & 1, rows_lie = plan.s7 & 2, beside = !panels_lie && !INTEGER && b_s.s7 == 1;
#if !INTEGER
  if (panels_lie && dims.s6 == 1) {
    const index_t step = rows_lie ? TM : a_s.s7;
    const __global float *row = (const __global float *)a, *panel = (const __global float *)b;
    for (index_t c = column0; c < column1; c += STREAMS * PANEL)
      FN(row)(row, step, panel + c * depth, depth, plan.s2, sums, y, dims, alpha, batch, c,
              min((index_t)STREAMS * PANEL, column1 - c) EPILOGUE_PASS);
    return;
  }
#endif
  for (index_t k = 0; k == 0 || k < depth; k += plan.s2) {
    const index_t part = min(plan.s2, depth - k);
    const bool first = k == 0, last = k + part == depth;
    __global float *b_part = space + ((rows_lie ? 0 : plan.s3 * part) + 8 + 15) / 16 * 16; /* aligned to a cache line */
    for (index_t j = column0; j < column1; j += plan.s5) {
      const index_t to = min(j + plan.s5, column1);
      for (index_t i = row0; i < row1; i += plan.s3) {
        const index_t end = min(i + plan.s3, row1), count = (end - i + TM - 1) / TM,
                      equal = (end - i + count - 1) / count, height = rows_lie || equal > HIGH ? TM : equal;
        const __global float *high = rows_lie ? (const __global float *)a + i * depth + k * TM : space;
        if (!rows_lie && (j == column0 || row1 - row0 > plan.s3))
          for (index_t r = 0; r < count; r++) FN(pack_a)
        ((const __global RAW *)(a + (i + r * height) * a_s.s6 + k * a_s.s7), FLIP(T), a_s.s6, a_s.s7,
         dims.s6 - i - r * height, part, space + r * part * TM);
        for (index_t c = j; c < to; c += PANEL) {
          const bool fresh = i == row0 && beside && c + PANEL <= dims.s7;
          const index_t columns = min((index_t)PANEL, column1 - c);
          const __global RAW *from = (const __global RAW *)(b + k * b_s.s6 + c * b_s.s7);
          const __global float *left = high;
          __global float *right = b_part + (c - j) * part;
          index_t along = b_s.s6;
          if (panels_lie) {
            right = (__global float *)b + c * depth + k * PANEL;
            from = (const __global RAW *)(right + depth * PANEL); /* the next panel */
            along = PANEL / min(count, (index_t)8);
          } else if (i == row0 && !fresh && (beside || (c - j) % plan.s4 == 0)) {
            FN(pack_b)
            (from, FLIP(TB), b_s.s7, b_s.s6, dims.s7 - c, beside ? PANEL : min(plan.s4, to - c), part, right);
          }
          if (!panels_lie && !fresh) from = (const __global RAW *)right, along = 0;
          for (index_t r = i; r < end; r += height, left += (rows_lie ? depth : part) * TM) {
            const index_t rows = min(height, end - r);
            const bool begins = fresh && r == i;
            if (begins || (rows > HIGH && columns > NARROW * WIDTH))
              FN(tile)
              (begins, left, 1, TM, from, along, right, PANEL, part, y, sums, dims, alpha, batch, r, c, rows, columns, first,
               last EPILOGUE_PASS);
            else
              FN(less)
              (left, 1, TM, from, along, right, PANEL, part, y, sums, dims, alpha, batch, r, c, rows, columns, first, last
               EPILOGUE_PASS);
            if (begins) from = (const __global RAW *)right, along = 0;
            from += part * along;
            if (r >= i + 7 * height) along = 0;
          }
        }
      }
    }
  }
}

GROUP(1, 1, 1)
KERNEL(gemm_forward_vec)(GEMM_ARGS, ARG(float, space), ARG(SUM, sums), const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_vec_item)((long)get_global_id(0), GEMM_PASS, PASS(space), PASS(sums), plan EPILOGUE_PASS);
}
#endif

#ifdef WANT_gemm_forward_vec_bare
/* Small b with whole panels of columns, both operands row-major: nothing is packed. A work-item computes one of plan.s0
 * parts of the rows. */
BODY(gemm_forward_vec_bare_item)(const long item, GEMM_ARGS, const index8_t plan EPILOGUE_ARGS) {
  enum { FORESEEN = 8 }; /* rows of b that the first tiles prefetch ahead */
  const index_t down = plan.s0;
  if (down == 0 || item >= down * BATCHES(dims)) return;
  const index_t batch = (index_t)(item / down), tiles = (dims.s6 + TM - 1) / TM, at = (index_t)(item % down);
  const index_t row0 = (index_t)((long)tiles * at / down) * TM;
  const index_t row1 = min((index_t)((long)tiles * (at + 1) / down) * TM, dims.s6);
  GEMM_USE_MATRICES
  __global SUM *sums = (__global SUM *)y; /* a single slice of the inner axis */
  for (index_t r = row0; r < row1; r += TM)
    for (index_t c = 0; c < dims.s7; c += PANEL) {
      const index_t rows = min((index_t)TM, row1 - r);
      const __global float *left = a + r * a_s.s6;
      const bool fresh = r == row0;
      const __global float *soon = fresh ? b + c + (long)FORESEEN * b_s.s6 : left + (long)TM * a_s.s6;
      const index_t along = fresh ? b_s.s6 : c ? 0 : TM;
      __global float *right = (__global float *)b + c;
      if (rows > HIGH)
        FN(tile)
        (false, left, a_s.s6, 1, soon, along, right, b_s.s6, depth, y, sums, dims, alpha, batch, r, c, rows, PANEL, true, true
         EPILOGUE_PASS);
      else
        FN(less)
        (left, a_s.s6, 1, soon, along, right, b_s.s6, depth, y, sums, dims, alpha, batch, r, c, rows, PANEL, true, true
         EPILOGUE_PASS);
    }
}

GROUP(1, 1, 1) KERNEL(gemm_forward_vec_bare)(GEMM_ARGS, const index8_t plan EPILOGUE_ARGS) {
  FN(gemm_forward_vec_bare_item)((long)get_global_id(0), GEMM_PASS, plan EPILOGUE_PASS);
}
#endif
#endif

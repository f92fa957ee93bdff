/* Matrix products on GPUs, tiled in local memory. A kernel combines three choices:
 *
 *   source   matrices (gemm), or images whose pixels are gathered while they are loaded: for results and the gradient
 *            of the input (conv2d, conv2d_data), or for the gradient of the weights (conv2d_weights);
 *            product_sources.cl
 *   product  multiply-adds (below), in float, or for integers (INTEGER) in uint, which wraps around; or, with UNITS,
 *            NVIDIA's matrix units (product_units.cl)
 *   loading  through registers, for all sources and products; or, for units, asynchronous copies (STAGES) of matrices
 *            and of images with channels last
 *
 * If there are few results, the inner axis is split into parts (IN_PARTS), which another launch adds (split-K).
 *
 * A group computes BM x BN results from slices of BK steps of the inner axis (for units: BK words of four bytes, two
 * halves or one float). A work-item, or a warp, computes TM x TN of them. Each sum runs along the inner axis in order,
 * whatever the tile.
 *
 * A product defines:
 *
 *   RAW, ELEMENT(T, p, i)   type of an element in local memory; element i of an operand as such
 *   ALONG(deep)             whether a tile lies along the inner axis, given whether its operand does
 *   ITEMS, SLICE_STEPS      work-items of a group; steps of the inner axis in a slice
 *   TILES, ITEM_PLACE, SUMS declarations: slices of both operands; position of the item in the tile; its accumulators
 *   PRODUCTS(s)             adds the products of slice s
 *   SEEN                    makes a written slice visible to the unit, before the barrier
 *   ENDED(n)                waits until all products but those of the last n slices are complete
 *   ENDED_ALL               waits for all of them, before the accumulators are read; ENDED(0) unless defined
 *   RESULTS                 a PUT(sum, row, column) for each result that exists */
#if ROLLED /* on CPUs, for tests: PoCL takes seconds to compile unrolled loops */
#define UNROLL _Pragma("nounroll")
#else
#define UNROLL _Pragma("unroll")
#endif
#ifndef STAGES
#define STAGES 2 /* slices in local memory */
#endif

#ifdef WANT_conv2d_gather_tiles /* weights are the left operand */
#define LEFT_TYPE  TB
#define RIGHT_TYPE T
#elif defined WANT_conv2d_weights_tiles || defined WANT_conv2d_weights_last /* both are of one type */
#define LEFT_TYPE  T
#define RIGHT_TYPE T
#else
#define LEFT_TYPE  T
#define RIGHT_TYPE TB
#endif
#if INTEGER
#define NUMBER      uint
#define NUMBER4     uint4
#define SCALED(sum) (int)((sum) * (uint)(int)alpha)
#define FOUR_AT(p)  (uint4)(0) /* integers have no aligned loads of four */
#else
#define NUMBER      float
#define NUMBER4     float4
#define SCALED(sum) ((sum) * alpha)
#define FOUR_AT(p)  CLADE_ACCESS(CLADE_GET4, T)(T, p)
#endif

#if UNITS
#include "product_units.cl"
#else
/* ---- multiply-adds: a work-item's rows and columns are in groups of four adjacent ones, which are loaded as vectors
 * ---- */
#define ACROSS (BN / TN)
#define DOWN   (BM / TM)
#define ITEMS  (DOWN * ACROSS)
/* Position of a work-item in the tile. If possible, 32 consecutive items form a rectangle of 4 x 8, which minimizes the
 * number of different vectors that they load. */
#define SQUARES (ACROSS % 8 == 0 && DOWN % 4 == 0)
#define ACROSS_AT(id) (SQUARES ? (id) / 32 % (ACROSS / 8) * 8 + (id) % 8 : (id) % ACROSS)
#define DOWN_AT(id)   (SQUARES ? (id) / 32 / (ACROSS / 8) * 4 + (id) % 32 / 8 : (id) / ACROSS)
#define FEWER(a, b)  ((a) < (b) ? (a) : (b))
#define ROW(i)    ((i) / FEWER(TM, 4) * DOWN * FEWER(TM, 4) + DOWN_AT(id) * FEWER(TM, 4) + (i) % FEWER(TM, 4))
#define COL(j)    ((j) / FEWER(TN, 4) * ACROSS * FEWER(TN, 4) + ACROSS_AT(id) * FEWER(TN, 4) + (j) % FEWER(TN, 4))
/* Loads a work-item's operands of one step. Lines of local memory are aligned to 16 bytes. */
#define FRAGMENT(to, line, n, PLACE)                                                                  \
  if ((n) % 4 == 0) {                                                                                 \
    UNROLL                                                                                            \
    for (int i = 0; i < (n) / 4; i++) {                                                               \
      const NUMBER4 four = *(const __local NUMBER4 *)&(line)[PLACE(4 * i)];                           \
      to[4 * i] = four.s0, to[4 * i + 1] = four.s1, to[4 * i + 2] = four.s2, to[4 * i + 3] = four.s3; \
    }                                                                                                 \
  } else {                                                                                            \
    UNROLL                                                                                            \
    for (int i = 0; i < (n); i++) to[i] = (line)[PLACE(i)];                                           \
  }
#define PRODUCTS(s)                                                 \
  UNROLL                                                            \
  for (int k = 0; k < BK; k++) {                                    \
    NUMBER row[TM], column[TN];                                     \
    FRAGMENT(row, left[(s) % STAGES][k], TM, ROW)                   \
    FRAGMENT(column, right[(s) % STAGES][k], TN, COL)               \
    UNROLL                                                          \
    for (int i = 0; i < TM; i++)                                    \
      UNROLL                                                        \
      for (int j = 0; j < TN; j++) sum[i][j] += row[i] * column[j]; \
  }
#define ENDED(n)
#define SEEN
#define RESULTS                                               \
  UNROLL                                                      \
  for (int i = 0; i < TM; i++)                                \
    UNROLL                                                    \
    for (int j = 0; j < TN; j++)                              \
      if (row0 + ROW(i) < rows && column0 + COL(j) < columns) \
        PUT(sum[i][j], row0 + ROW(i), column0 + COL(j))
#define ITEM_PLACE const int id = (int)get_local_id(0);
#define SUMS                   \
  NUMBER sum[TM][TN];          \
  UNROLL                       \
  for (int i = 0; i < TM; i++) \
    UNROLL                     \
    for (int j = 0; j < TN; j++) sum[i][j] = 0;
#define TILES                                                           \
  __local NUMBER left[STAGES][BK][BM + 4] __attribute__((aligned(16))); \
  __local NUMBER right[STAGES][BK][BN + 4] __attribute__((aligned(16)));
#define RAW               NUMBER
#define ELEMENT(T, p, at) (NUMBER)LOAD(T, p, at)
#define SLICE_STEPS       BK
#define ALONG(deep)       (deep)
#endif

#define TURNS(deep) (ALONG(deep) && !(deep)) /* the operand is transposed on the way */

#ifndef ENDED_ALL
#define ENDED_ALL ENDED(0)
#endif
#include "product_sources.cl"

#ifdef ENTRY
/* ---- loading through registers ---- While a slice is multiplied, the elements of the next one are loaded into
 * registers, and then stored to the other half of local memory. */
/* Fills the source's tables for slice s. */
#define STEPS(s)                                                                            \
  for (int i = id; i < SLICE_STEPS && (index_t)(s) * SLICE_STEPS + i < depth; i += ITEMS) { \
    const int k_at = (s) % 2 * SLICE_STEPS + i;                                             \
    STEP((index_t)(s) * SLICE_STEPS + i)                                                    \
  }
/* Number of elements that a work-item loads of a slice of `lines` lines, and the position of its element e in the
 * slice: along the inner axis, and across. A slice that is transposed is loaded RUN steps at a time, so that adjacent
 * work-items read adjacent elements. */
#define SHARE(lines) ((lines) * SLICE_STEPS / ITEMS)
#define PLACE_K(deep, e, lines) \
  (TURNS(deep) ? (e) / (RUN * (lines)) * RUN + (e) % RUN : (deep) ? (e) % SLICE_STEPS : (e) / (lines))
#define PLACE_L(deep, e, lines) (TURNS(deep) ? (e) / RUN % (lines) : (deep) ? (e) / SLICE_STEPS : (e) % (lines))
/* Loads element e of slice s into `v`, or 0 beyond the operand. SIDE is LEFT or RIGHT. */
#define LOAD_ONE(v, SIDE, lines, first, count, s, e)                                     \
  {                                                                                      \
    const int k = PLACE_K(SIDE##_DEEP, e, lines), n_at = PLACE_L(SIDE##_DEEP, e, lines); \
    const int k_at = (s) % 2 * SLICE_STEPS + k;                                          \
    const bool in = (first) + n_at < (count) && (index_t)(s) * SLICE_STEPS + k < depth;  \
    v = in ? SIDE((index_t)(s) * SLICE_STEPS + k, (first) + n_at) : (RAW)0;              \
  }
/* True if a work-item loads RUN consecutive elements at a time. */
#define IN_RUNS(SIDE, lines) \
  (SIDE##_RUNS && !TURNS(SIDE##_DEEP) && SHARE(lines) % RUN == 0 && \
   ((size_t)SIDE##_BASE & (RUN * sizeof(*SIDE##_BASE) - 1)) == 0)
/* Loads RUN consecutive elements, from e on, into `v`; `expression` reads them at `from`. */
#define LOAD_RUN(v, expression, SIDE, lines, first, count, s, e)                               \
  {                                                                                            \
    const int k = PLACE_K(SIDE##_DEEP, e, lines), n_at = PLACE_L(SIDE##_DEEP, e, lines);       \
    const int k_at = (s) % 2 * SLICE_STEPS + k;                                                \
    if ((first) + n_at < (count) && (index_t)(s) * SLICE_STEPS + k < depth) {                  \
      const size_t from = (size_t)SIDE##_FROM((index_t)(s) * SLICE_STEPS + k, (first) + n_at); \
      v = expression;                                                                          \
    }                                                                                          \
  }
#if UNITS
/* A work-item stores 16 bytes to local memory at a time, from elements that are consecutive in memory too. */
#if WORD == 4
#define LOAD_WORD(to, SIDE, lines, first, count, s, e)                 \
  {                                                                    \
    RAW part[4];                                                       \
    UNROLL                                                             \
    for (int b = 0; b < 4; b++) LOAD_ONE(part[b], SIDE, lines, first, count, s, (e) + b) \
    to = FN(pair)(FN(pair)(part[0], part[1], 8), FN(pair)(part[2], part[3], 8), 16);     \
  }
#elif WORD == 2
#define LOAD_WORD(to, SIDE, lines, first, count, s, e)      \
  {                                                         \
    RAW low, high;                                          \
    LOAD_ONE(low, SIDE, lines, first, count, s, e)          \
    LOAD_ONE(high, SIDE, lines, first, count, s, (e) + 1)   \
    to = FN(pair)(low, high, 16);                           \
  }
#else
#define LOAD_WORD(to, SIDE, lines, first, count, s, e) LOAD_ONE(to, SIDE, lines, first, count, s, e)
#endif
#define RUN EACH
#if WARPGROUP && WORD == 4
/* Bytes take so many registers that they are loaded when they are stored, 16 of a work-item at a time, while the unit
 * multiplies. */
#define SLICE_REGISTERS(name, lines)
#define LOAD_SLICE(to, SIDE, lines, first, count, s)
#define STORE_SLICE(tile, from_registers, SIDE, lines, first, count, s)                                           \
  _Pragma("unroll 2")                                                                                             \
  for (int i = 0; i < SHARE(lines) / EACH; i++) {                                                                 \
    const int e = (id + ITEMS * i) * EACH;                                                                        \
    uint4 run = 0;                                                                                                \
    if (IN_RUNS(SIDE, lines)) {                                                                                   \
      LOAD_RUN(run, *(const __global uint4 *)((const __global RAW *)SIDE##_BASE + from), SIDE, lines, first, count, s, e) \
    } else {                                                                                                      \
      LOAD_WORD(run.s0, SIDE, lines, first, count, s, e)                                                          \
      LOAD_WORD(run.s1, SIDE, lines, first, count, s, e + WORD)                                                   \
      LOAD_WORD(run.s2, SIDE, lines, first, count, s, e + 2 * WORD)                                               \
      LOAD_WORD(run.s3, SIDE, lines, first, count, s, e + 3 * WORD)                                               \
    }                                                                                                             \
    const int at = PLACE(SIDE##_DEEP, lines, PLACE_L(SIDE##_DEEP, e, lines), PLACE_K(SIDE##_DEEP, e, lines));     \
    __local uint4 *to = (__local uint4 *)&tile[at];                                                               \
    *to = run;                                                                                                    \
  }
#else
#define SLICE_REGISTERS(name, lines) uint name[SHARE(lines) / WORD];
#define LOAD_SLICE(to, SIDE, lines, first, count, s)                                                                   \
  if (IN_RUNS(SIDE, lines)) {                                                                                          \
    UNROLL                                                                                                             \
    for (int i = 0; i < SHARE(lines) / EACH; i++) {                                                                    \
      uint4 run = 0;                                                                                                   \
      LOAD_RUN(run, *(const __global uint4 *)((const __global RAW *)SIDE##_BASE + from), SIDE, lines, first, count, s, \
          (id + ITEMS * i) * EACH)                                                                                     \
      to[4 * i] = run.s0, to[4 * i + 1] = run.s1, to[4 * i + 2] = run.s2, to[4 * i + 3] = run.s3;                      \
    }                                                                                                                  \
  } else {                                                                                                             \
    UNROLL                                                                                                             \
    for (int i = 0; i < SHARE(lines) / WORD; i++)                                                                      \
      LOAD_WORD(to[i], SIDE, lines, first, count, s, (id + ITEMS * (i / 4)) * EACH + i % 4 * WORD)                     \
  }
#define STORE_SLICE(tile, from, SIDE, lines, first, count, s)                                                   \
  UNROLL                                                                                                        \
  for (int i = 0; i < SHARE(lines) / EACH; i++) {                                                               \
    const int e = (id + ITEMS * i) * EACH;                                                                      \
    const int at = PLACE(SIDE##_DEEP, lines, PLACE_L(SIDE##_DEEP, e, lines), PLACE_K(SIDE##_DEEP, e, lines));   \
    __local uint4 *to = (__local uint4 *)&tile[at]; /* a variable: otherwise clang stores element by element */ \
    *to = (uint4)(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);                              \
  }
#endif
#else
#define SLICE_REGISTERS(name, lines) NUMBER name[SHARE(lines)];
#define RUN 4
#define LOAD_SLICE(to, SIDE, lines, first, count, s)                                                                 \
  if (IN_RUNS(SIDE, lines)) {                                                                                        \
    UNROLL                                                                                                           \
    for (int i = 0; i < SHARE(lines) / 4; i++) {                                                                     \
      NUMBER4 run = 0;                                                                                               \
      LOAD_RUN(run, FOUR_AT(SIDE##_BASE + from), SIDE, lines, first, count, s, (id + ITEMS * i) * 4)                 \
      to[4 * i] = run.s0, to[4 * i + 1] = run.s1, to[4 * i + 2] = run.s2, to[4 * i + 3] = run.s3;                    \
    }                                                                                                                \
  } else {                                                                                                           \
    UNROLL                                                                                                           \
    for (int i = 0; i < SHARE(lines); i++) LOAD_ONE(to[i], SIDE, lines, first, count, s, id + ITEMS * i)             \
  }
#define STORE_SLICE(tile, from, SIDE, lines, first, count, s)                                                     \
  if (IN_RUNS(SIDE, lines)) {                                                                                     \
    UNROLL                                                                                                        \
    for (int i = 0; i < SHARE(lines) / 4; i++) {                                                                  \
      const int e = (id + ITEMS * i) * 4, k = PLACE_K(SIDE##_DEEP, e, lines), l = PLACE_L(SIDE##_DEEP, e, lines); \
      const NUMBER4 four = (NUMBER4)(from[4 * i], from[4 * i + 1], from[4 * i + 2], from[4 * i + 3]);             \
      if (SIDE##_DEEP) {                                                                                          \
        tile[k][l] = four.s0;                                                                                     \
        tile[k + 1][l] = four.s1;                                                                                 \
        tile[k + 2][l] = four.s2;                                                                                 \
        tile[k + 3][l] = four.s3;                                                                                 \
      } else {                                                                                                    \
        __local NUMBER4 *to = (__local NUMBER4 *)&tile[k][l];                                                     \
        *to = four;                                                                                               \
      }                                                                                                           \
    }                                                                                                             \
  } else {                                                                                                        \
    UNROLL                                                                                                        \
    for (int i = 0; i < SHARE(lines); i++) {                                                                      \
      const int e = id + ITEMS * i;                                                                               \
      tile[PLACE_K(SIDE##_DEEP, e, lines)][PLACE_L(SIDE##_DEEP, e, lines)] = from[i];                             \
    }                                                                                                             \
  }
#endif

GROUP(ITEMS, 1, 1) ENTRY(ARGS) {
  TILES
  TABLES
  const index_t matrix = (index_t)get_group_id(2);
  if (matrix >= MATRICES) return; /* the whole group: programs are warmed up by such launches */
  OPEN
  ITEM_PLACE
  const index_t row0 = (index_t)get_group_id(1) * BM, column0 = (index_t)get_group_id(0) * BN;
  const int slices = (int)((depth + SLICE_STEPS - 1) / SLICE_STEPS);
  SUMS
  for (int n_at = id; n_at < BN && column0 + n_at < columns; n_at += ITEMS) {
    COLUMN(column0 + n_at)
  }
  STEPS(0)
  for (int s = -1; s < slices; s++) { /* slice -1 is only loaded */
    SLICE_REGISTERS(left_next, BM)
    SLICE_REGISTERS(right_next, BN)
    barrier(CLK_LOCAL_MEM_FENCE);
    if (s + 1 < slices) {
      LOAD_SLICE(left_next, LEFT, BM, row0, rows, s + 1)
      LOAD_SLICE(right_next, RIGHT, BN, column0, columns, s + 1)
    }
    STEPS(s + 2)
    if (s >= 0) {
      PRODUCTS(s)
    }
    if (s + 1 < slices) {
      STORE_SLICE(left[(s + 1) % 2], left_next, LEFT, BM, row0, rows, s + 1)
      STORE_SLICE(right[(s + 1) % 2], right_next, RIGHT, BN, column0, columns, s + 1)
      SEEN
    }
    ENDED(0)
  }
  RESULTS
}
#endif

#ifdef STAGED
#include "product_staged.cl"
#endif

#ifdef WANT_product_join
/* ---- split-K: adds the parts in order ---- dims: six batch dimensions, rows and columns. */
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, batch)
KERNEL(product_join)
(ARG(const NUMBER, sums), ARG(STORAGE(OUT), y), const index8_t dims, const index_t parts, const float alpha EPILOGUE_ARGS) {
  const index_t column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  if (row >= dims.s6 || column >= dims.s7 || batch >= BATCHES(dims)) return;
  USE(const NUMBER, sums);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  const index_t results = (index_t)BATCHES(dims) * dims.s6 * dims.s7, at = (batch * dims.s6 + row) * dims.s7 + column;
  NUMBER sum = 0;
  for (index_t part = 0; part < parts; part++) sum += sums[part * results + at];
  const COMPUTE(T) i0 = SCALED(sum);
  EPILOGUE
  STORE(OUT, y, at, r);
}
#endif

/* ---- macros of the included files, too ---- */

/* Products of few rows on GPUs, limited by the bandwidth of b: each of its elements is read once, 16 bytes at a time,
 * for all rows. Products of few columns are computed transposed. Arguments as in gemm.cl, and `plan`: row and column
 * strides of y, steps of the inner axis per part, and number of parts.
 *
 * A group has TEAM x BESIDE items (prelude_group.cl), and LINES columns per team or, if SPREAD, per item:
 *
 *   SPREAD 0  columns are contiguous along the inner axis: a team's items take turns with 16-byte runs of LINES columns
 *   SPREAD 1  columns are adjacent: an item has as many as 16 bytes hold, and every TEAMth step of the inner axis
 *
 * Each item sums along the inner axis in order; then the sums of 32 neighboring items (SPREAD: of a team) are added in
 * order, then the results of these. The order depends only on the sizes.
 *
 * ROWS: 1, 4, 8 or 16, at least the number of rows. IN_PARTS: stores partial sums, which product_join adds. */
#ifdef WANT_gemm_forward_few
#if ROLLED /* on CPUs, for tests: PoCL takes seconds to compile unrolled loops */
#define UNROLL _Pragma("nounroll")
#else
#define UNROLL _Pragma("unroll")
#endif
#define ITEMS (TEAM * BESIDE)
#define WARP  32
#define EACH  (16 / (int)sizeof(STORAGE(T)))
#define LINES (SPREAD ? EACH : 4)
#define SEAT  (SPREAD ? TEAM_ITEM % BESIDE : TEAM_ITEM / TEAM)
/* Rows are computed in blocks; blocks without any row are skipped, and in the last one the last row is repeated. */
#define BLOCK     (ROWS < 4 ? ROWS : 4)
#define ROW_AT(m) (min(m, few - 1) * a_s.s6)
#define ROUNDS    (ROWS * LINES > 32 ? 2 : 4) /* runs of a column that are loaded together */
/* Loops that must not be vectorized (prelude_group.cl). */
#define TURNS _Pragma("clang loop vectorize(disable)")

/* Converts 16 bytes to floats. */
#define NUMBERS_f32(to, v)                                              \
  {                                                                     \
    const float4 four = as_float4(v);                                   \
    to[0] = four.s0, to[1] = four.s1, to[2] = four.s2, to[3] = four.s3; \
  }
#define NUMBERS_bf16(to, v)                                                   \
  {                                                                           \
    const uint4 w = v;                                                        \
    const float4 even = as_float4(w << 16), odd = as_float4(w & 0xffff0000u); \
    to[0] = even.s0, to[2] = even.s1, to[4] = even.s2, to[6] = even.s3;       \
    to[1] = odd.s0, to[3] = odd.s1, to[5] = odd.s2, to[7] = odd.s3;           \
  }
/* Half by half, since clang would load all 16 bytes as two loads of 8. */
#define NUMBERS_f16(to, v)                                                                              \
  {                                                                                                     \
    const uint4 w = v;                                                                                  \
    const ushort half_of[8] = {(ushort)w.s0, (ushort)(w.s0 >> 16), (ushort)w.s1, (ushort)(w.s1 >> 16),  \
                               (ushort)w.s2, (ushort)(w.s2 >> 16), (ushort)w.s3, (ushort)(w.s3 >> 16)}; \
    UNROLL                                                                                              \
    for (int h = 0; h < EACH; h++) to[h] = vload_half(h, (const half *)half_of);                        \
  }
#define NUMBERS(to, v) CLADE_ACCESS(NUMBERS, T)(to, v)
#define RUN_AT(p)      (*(const __global uint4 *)(p))
/* True if lines of p, `line` apart with elements `next` apart, can be read as aligned 16 bytes. */
#define IN_RUNS(p, line, next) ((next) == 1 && (((size_t)(p) | (size_t)(line) * sizeof(*(p))) & 15) == 0)

#if IN_PARTS
#define TO   f32
#define ARGS const index8_t plan
#define OPEN y += (part * (index_t)BATCHES(dims) + batch) * few * columns;
#define PUT(sum, m, n) y[(m) * plan.s0 + (n) * plan.s1] = sum;
#else
#define TO   OUT
#define ARGS const index8_t plan EPILOGUE_ARGS
#define OPEN   \
  EPILOGUE_USE \
  y += batch * few * columns;
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, batch)
#define PUT(sum, m, n)                                 \
  {                                                    \
    const index_t row = (m), column = (n);             \
    const COMPUTE(T) i0 = (sum) * alpha;               \
    EPILOGUE                                           \
    STORE(OUT, y, row *plan.s0 + column * plan.s1, r); \
  }
#endif

/* Position of the item's column l; the last column is repeated. */
#define LINE_AT(l) (min(column0 + (l), columns - 1) * b_s.s7)
/* Products of one step: all rows times `right`, the step's values in the item's columns, element by element. */
#define ROWS_OF_STEP(k, right)                                                      \
  UNROLL                                                                            \
  for (int from = 0; from < ROWS; from += BLOCK)                                    \
    if (from < few)                                                                 \
      UNROLL                                                                        \
      for (int m = from; m < from + BLOCK; m++) {                                   \
        const float left = LOAD(T, a, ROW_AT(m) + (k) * a_s.s7);                    \
        UNROLL                                                                      \
        for (int l = 0; l < LINES; l++) sum[l][m] = fma(left, right[l], sum[l][m]); \
      }
#define ONE_STEP(k)                                                                   \
  {                                                                                   \
    float right[LINES];                                                               \
    UNROLL                                                                            \
    for (int l = 0; l < LINES; l++) right[l] = LOAD(T, b, LINE_AT(l) + (k) * b_s.s6); \
    ROWS_OF_STEP(k, right)                                                            \
  }

/* ---- sums over items, for one column and up to eight rows at a time, in local memory; runs of 32 are padded by a word
 * to avoid bank conflicts ---- */
#define SLAB  (ROWS < 8 ? ROWS : 8)
#define PITCH (ITEMS + ITEMS / WARP)
#define SEATS (SPREAD ? BESIDE : ITEMS / WARP) /* partial sums per row */
#define SUM_AT(m, seat, lane) \
  room[(m) * PITCH + (SPREAD ? (lane) * (BESIDE + 1) + (seat) : (seat) * (WARP + 1) + (lane))]
#if TEAM > WARP
#define TELL(total, m, seat, l) runs[((m) * LINES + (l)) * SEATS + (seat)] = total;
#else
#define TELL(total, m, seat, l)                                \
  {                                                            \
    const index_t at = (tile * BESIDE + (seat)) * LINES + (l); \
    if (at < columns) PUT(total, m, at)                        \
  }
#endif

GROUP(ITEMS, 1, 1) KERNEL(gemm_forward_few)
(ARG(const STORAGE(T), a), ARG(const STORAGE(T), b), ARG(STORAGE(TO), y), const index8_t dims, const index_t inner,
 const index8_t a_s, const index8_t b_s, const float alpha, ARGS) {
  __local float room[SLAB * PITCH];
#if TEAM > WARP
  __local float runs[ROWS * LINES * SEATS];
#endif
  const int few = (int)dims.s6;
  const index_t columns = dims.s7, parts = plan.s3, tiles = (columns + BESIDE * LINES - 1) / (BESIDE * LINES);
  const index_t group = (index_t)get_group_id(0);
  if (group >= tiles * parts * (index_t)BATCHES(dims)) return; /* the whole group */
  const index_t tile = group % tiles, part = group / tiles % parts, batch = group / tiles / parts;
  const index_t first = part * plan.s2, depth = min(plan.s2, inner - first);
  USE(const STORAGE(T), a);
  USE(const STORAGE(T), b);
  USE(STORAGE(TO), y);
  OPEN
  a += BATCH_OFFSET(dims, a_s, batch) + first * a_s.s7;
  b += BATCH_OFFSET(dims, b_s, batch) + first * b_s.s6;
  const index_t column0 = (tile * BESIDE + SEAT) * LINES;
  float sum[LINES][ROWS];
  UNROLL
  for (int l = 0; l < LINES; l++)
    UNROLL
    for (int m = 0; m < ROWS; m++) sum[l][m] = 0;
#if SPREAD
  const bool whole = IN_RUNS(b, b_s.s6, b_s.s7) && column0 + EACH <= columns;
  index_t k = TEAM_LANE;
  TURNS
  for (; whole && k < depth; k += ROUNDS * TEAM) {
    uint4 run[ROUNDS];
    UNROLL
    for (int i = 0; i < ROUNDS; i++)
      if (k + i * TEAM < depth) run[i] = RUN_AT(b + ((k + i * TEAM) * b_s.s6 + column0));
    UNROLL
    for (int i = 0; i < ROUNDS; i++)
      if (k + i * TEAM < depth) {
        float right[EACH];
        NUMBERS(right, run[i])
        ROWS_OF_STEP(k + i * TEAM, right)
      }
  }
  TURNS
  for (; k < depth; k += TEAM) ONE_STEP(k)
#else
  const bool whole = IN_RUNS(b, b_s.s7, b_s.s6) && IN_RUNS(a, a_s.s6, a_s.s7) && depth % EACH == 0;
  index_t k = TEAM_LANE * EACH;
  TURNS
  for (; whole && k < depth; k += TEAM * EACH) {
    uint4 run[LINES];
    UNROLL
    for (int l = 0; l < LINES; l++) run[l] = RUN_AT(b + (LINE_AT(l) + k));
    float right[LINES][EACH];
    UNROLL
    for (int l = 0; l < LINES; l++) NUMBERS(right[l], run[l])
    UNROLL
    for (int from = 0; from < ROWS; from += BLOCK)
      if (from < few)
        UNROLL
        for (int m = from; m < from + BLOCK; m++) {
          float left[EACH];
          NUMBERS(left, RUN_AT(a + (ROW_AT(m) + k)))
          UNROLL
          for (int e = 0; e < EACH; e++)
            UNROLL
            for (int l = 0; l < LINES; l++) sum[l][m] = fma(left[e], right[l][e], sum[l][m]);
        }
  }
  TURNS
  for (; k < depth; k += TEAM * EACH)
    TURNS
    for (int e = 0; e < EACH && k + e < depth; e++) ONE_STEP(k + e)
#endif
  UNROLL
  for (int from = 0; from < ROWS; from += SLAB) {
    UNROLL
    for (int l = 0; l < LINES; l++) {
      barrier(CLK_LOCAL_MEM_FENCE);
      UNROLL
      for (int m = 0; m < SLAB; m++) room[m * PITCH + TEAM_ITEM + TEAM_ITEM / WARP] = sum[l][from + m];
      barrier(CLK_LOCAL_MEM_FENCE);
      TURNS
      for (int i = TEAM_ITEM; i < min(few - from, SLAB) * SEATS; i += ITEMS) {
        const int m = i / SEATS, seat = i % SEATS;
        float total = 0;
        UNROLL
        for (int lane = 0; lane < ITEMS / SEATS; lane++) total += SUM_AT(m, seat, lane);
        TELL(total, from + m, seat, l)
      }
    }
  }
#if TEAM > WARP
  barrier(CLK_LOCAL_MEM_FENCE);
  TURNS
  for (int i = TEAM_ITEM; i < few * LINES; i += ITEMS) {
    float total = 0;
    UNROLL
    for (int seat = 0; seat < SEATS; seat++) total += runs[i * SEATS + seat];
    if (tile * LINES + i % LINES < columns) PUT(total, i / LINES, tile * LINES + i % LINES)
  }
#endif
}
#endif

/* Products of matrices by work-groups that share tiles in local memory: for devices where that memory is near and
 * work-items run in step. The product has one text, at the end; what is multiplied and where results go each kernel
 * says before it:
 *
 *   ENTRY, ARGS        the kernel by its name, and what it takes
 *   MATRICES           how many products there are; a group does a tile of number `matrix`
 *   OPEN               statements that make `rows`, `columns` and `depth` of it, and what the others need
 *   TABLES             local memory of its own, which STEP(k) fills for a step of the inner axis and COLUMN(n) for a
 *                      column, k_at and n_at being their places in the tile
 *   LEFT(m, k)         an element of the left operand, and RIGHT(k, n) of the right one; LEFT_DEEP and RIGHT_DEEP say
 *                      that neighbors in memory are neighbors along the inner axis
 *   PUT(sum, m, n)     takes a result
 *
 * A group does BM x BN results, BK steps of the inner axis at a time; each of its work-items TM x TN of
 * them, as far apart as there are work-items along that axis, so that neighbors read and write neighbors. Sums go
 * along the inner axis from end to end, whatever the tile. */
#if ROLLED /* on CPUs, where tests run it: PoCL compiles unrolled loops for seconds */
#define UNROLL _Pragma("nounroll")
#else
#define UNROLL _Pragma("unroll")
#endif
#define ACROSS (BN / TN)
#define ITEMS  (BM / TM * ACROSS)

#ifdef WANT_gemm_forward_simt
/* The arguments are those of gemm.cl. */
#define ENTRY KERNEL(gemm_forward_simt)
#define ARGS                                                                                                           \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha EPILOGUE_ARGS
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, matrix)
#define MATRICES             BATCHES(dims)
#define OPEN                                          \
  const index_t rows = dims.s6, columns = dims.s7;    \
  USE(const STORAGE(T), a);                           \
  USE(const STORAGE(TB), b);                          \
  USE(STORAGE(OUT), y);                               \
  EPILOGUE_USE                                        \
  a += BATCH_OFFSET(dims, a_s, matrix);               \
  b += BATCH_OFFSET(dims, b_s, matrix);               \
  y += matrix * rows * columns;
#define TABLES
#define STEP(k)
#define COLUMN(n)
#define LEFT_DEEP   (a_s.s7 == 1)
#define RIGHT_DEEP  (b_s.s7 != 1)
#define LEFT(m, k)  LOAD(T, a, (m) * a_s.s6 + (k) * a_s.s7)
#define RIGHT(k, n) LOAD(TB, b, (k) * b_s.s6 + (n) * b_s.s7)
#define PUT(sum, m, n)                        \
  {                                           \
    const index_t row = (m), column = (n);    \
    const COMPUTE(T) i0 = (sum) * alpha;      \
    EPILOGUE                                  \
    STORE(OUT, y, row * columns + column, r); \
  }
#endif

#if defined(WANT_conv2d_gather_simt) || defined(WANT_conv2d_weights_simt)
/* Convolutions as products. An image's pixels become a matrix while they are copied to local memory: its element
 * belongs to a place of the result and to a tap of a channel. The one is a column and the other a step of the inner
 * axis, or the other way round; each knows half of where the pixel is, and the halves are added: what the left operand's
 * element is distant; what x's is, lines and places apart; line; place. Around the image there are zeros. */
#define HALF_0      int4
#define HALF_1      long4
#define HALF        CLADE_PASTE(HALF_, INDEX64)
#define TABLES      __local HALF step_half[BK], column_half[BN];
#define RIGHT(k, n) FN(pixel)(x, step_half[k_at] + column_half[n_at], dims.s4, dims.s5)
static inline float FN(pixel)(const __global STORAGE(T) * x, const HALF p, const index_t height, const index_t width) {
  const bool in = p.z >= 0 && p.z < height && p.w >= 0 && p.w < width;
  return in ? LOAD(T, x, p.y + p.z * width + p.w) : 0.0f;
}
#endif

#ifdef WANT_conv2d_gather_simt
/* Rows: channels of a group of the result. Columns: places of all images. Steps: taps of all inner channels. dims, taps
 * and map are those of conv2d.cl, and taps.s5 and s6: from one tap to the next that reaches a whole place. Where div is
 * above 1 the places of the result fall into phases, p = phase + div * place, each of which has taps of its own and is
 * a matrix. */
#define ENTRY KERNEL(conv2d_gather_simt)
#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map EPILOGUE_ARGS
#define EPILOGUE_AT(strides) (batch * (strides).s5)

/* Of a phase along an axis: its first tap, how many it has, and the place p * mul + shift + i * move that tap i of them
 * reaches from place p. */
static inline HALF FN(phase)(const index_t from, const index_t delta, const index_t div, const index_t step,
                             const index_t taps) {
  index_t tap = 0;
  while (tap < step && tap < taps && (from + tap * delta) % div) tap++;
  const index_t count = tap < step && tap < taps ? (taps - tap + step - 1) / step : 0;
  return (HALF)(tap, count, (from + tap * delta) / div, step * delta / div);
}
static inline HALF FN(step)(const index_t k, const HALF down, const HALF across, const index8_t dims,
                            const index8_t taps) {
  const index_t count = down.y * across.y, channel = k / count, i = k % count / across.y, j = k % across.y;
  const index_t tap = (down.x + i * taps.s5) * taps.s1 + across.x + j * taps.s6;
  return (HALF)(channel * taps.s4 + tap, channel * dims.s4 * dims.s5, down.z + i * down.w, across.z + j * across.w);
}
/* Image, line and place. */
static inline HALF FN(place)(const index_t n, const index_t high, const index_t wide) {
  return (HALF)(n / (high * wide), n / wide % high, n % wide, 0);
}
#define PHASES(k, of) min(map.k, dims.of)
#define MATRICES      ((long)dims.s1 * PHASES(s3, s6) * PHASES(s7, s7))
#define OPEN                                                                                                     \
  const index_t phase_x = matrix % PHASES(s7, s7), phase_y = matrix / PHASES(s7, s7) % PHASES(s3, s6);           \
  const index_t group = matrix / (PHASES(s7, s7) * PHASES(s3, s6)), plane = dims.s4 * dims.s5;                   \
  const HALF down = FN(phase)(phase_y * map.s0 + map.s1, map.s2, map.s3, taps.s5, taps.s0);                      \
  const HALF across = FN(phase)(phase_x * map.s4 + map.s5, map.s6, map.s7, taps.s6, taps.s1);                    \
  const index_t high = (dims.s6 - phase_y + map.s3 - 1) / map.s3, wide = (dims.s7 - phase_x + map.s7 - 1) / map.s7; \
  const index_t rows = dims.s2, columns = dims.s0 * high * wide, depth = dims.s3 * down.y * across.y;            \
  USE(const STORAGE(T), x);                                                                                      \
  USE(const STORAGE(T), w);                                                                                      \
  USE(STORAGE(OUT), y);                                                                                          \
  x += group * dims.s3 * plane;                                                                                  \
  w += group * taps.s2;
#define STEP(k)    step_half[k_at] = FN(step)(k, down, across, dims, taps);
#define COLUMN(n)                                                                                        \
  {                                                                                                      \
    const HALF p = FN(place)(n, high, wide);                                                             \
    column_half[n_at] = (HALF)(0, p.x * dims.s1 * dims.s3 * plane, p.y * map.s0, p.z * map.s4);          \
  }
#define LEFT_DEEP  (taps.s4 < taps.s3)
#define RIGHT_DEEP false
#define LEFT(m, k) LOAD(T, w, (m) * taps.s3 + step_half[k_at].x)
#define PUT(sum, m, n)                                                                                     \
  {                                                                                                        \
    const HALF p = FN(place)(n, high, wide);                                                               \
    const index_t row = group * rows + (m), batch = p.x, pixels = dims.s6 * dims.s7;                       \
    const index_t column = (phase_y + p.y * map.s3) * dims.s7 + phase_x + p.z * map.s7;                    \
    EPILOGUE_USE                                                                                           \
    const COMPUTE(T) i0 = sum;                                                                             \
    EPILOGUE                                                                                               \
    STORE(OUT, y, (batch * dims.s1 * rows + row) * pixels + column, r);                                    \
  }
#endif

#ifdef WANT_conv2d_weights_simt
/* Rows: channels of a group of y. Columns: taps of all inner channels. Steps: `span` places of all images for each part
 * of the sum. The arguments are those of conv2d_weights.cl. */
#define ENTRY KERNEL(conv2d_weights_simt)
#define ARGS                                                                                                       \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps, \
      const index8_t map, const index_t span
#define MATRICES ((long)dims.s1 * taps.s2)
#define OPEN                                                                                          \
  const index_t group = matrix % dims.s1, first = matrix / dims.s1 * span, pixels = dims.s6 * dims.s7; \
  const index_t rows = dims.s2, columns = dims.s3 * taps.s0 * taps.s1, plane = dims.s4 * dims.s5;     \
  const index_t depth = min(span, dims.s0 * pixels - first);                                          \
  USE(const STORAGE(T), x);                                                                           \
  USE(const STORAGE(T), y);                                                                           \
  USE(float, out);                                                                                    \
  x += group * dims.s3 * plane;                                                                       \
  y += group * rows * pixels;                                                                         \
  out += matrix * rows * columns;
#define STEP(k)                                                                                                     \
  {                                                                                                                 \
    const index_t image = (first + (k)) / pixels, pixel = (first + (k)) % pixels;                                   \
    step_half[k_at] = (HALF)(image * dims.s1 * rows * pixels + pixel, image * dims.s1 * dims.s3 * plane,            \
                             pixel / dims.s7 * map.s0 + map.s1, pixel % dims.s7 * map.s4 + map.s5);                 \
  }
#define COLUMN(n)                                                                                        \
  {                                                                                                      \
    const index_t line = (n) / taps.s1;                                                                  \
    column_half[n_at] = (HALF)(0, line / taps.s0 * plane, line % taps.s0 * map.s2, (n) % taps.s1 * map.s6); \
  }
#define LEFT_DEEP      true
#define RIGHT_DEEP     true
#define LEFT(m, k)     LOAD(T, y, (m) * pixels + step_half[k_at].x)
#define PUT(sum, m, n) out[(m) * columns + (n)] = sum;
#endif

/* What is known of the steps from step0 on, of which there may be fewer. */
#define STEPS(step0)                                                           \
  for (int k_at = id; k_at < BK && (step0) + k_at < depth; k_at += ITEMS) { \
    STEP((step0) + k_at)                                                       \
  }
GROUP(ITEMS, 1, 1) ENTRY(ARGS) {
  __local float left[BK][BM + 1], right[BK][BN + 1];
  TABLES
  const index_t matrix = (index_t)get_group_id(2);
  if (matrix >= MATRICES) return; /* the whole group */
  OPEN
  const int id = (int)get_local_id(0), x_id = id % ACROSS, y_id = id / ACROSS;
  const index_t row0 = (index_t)get_group_id(1) * BM, column0 = (index_t)get_group_id(0) * BN;
  float sum[TM][TN];
  UNROLL
  for (int i = 0; i < TM; i++)
    UNROLL
    for (int j = 0; j < TN; j++) sum[i][j] = 0;
  for (int n_at = id; n_at < BN && column0 + n_at < columns; n_at += ITEMS) {
    COLUMN(column0 + n_at)
  }
  STEPS(0)
  barrier(CLK_LOCAL_MEM_FENCE);
  for (index_t step0 = 0; step0 < depth; step0 += BK) {
    for (int i = id; i < BM * BK; i += ITEMS) {
      const int k_at = LEFT_DEEP ? i % BK : i / BM, m_at = LEFT_DEEP ? i / BK : i % BM;
      const bool in = row0 + m_at < rows && step0 + k_at < depth;
      left[k_at][m_at] = in ? LEFT(row0 + m_at, step0 + k_at) : 0.0f;
    }
    for (int i = id; i < BN * BK; i += ITEMS) {
      const int k_at = RIGHT_DEEP ? i % BK : i / BN, n_at = RIGHT_DEEP ? i / BK : i % BN;
      const bool in = column0 + n_at < columns && step0 + k_at < depth;
      right[k_at][n_at] = in ? RIGHT(step0 + k_at, column0 + n_at) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    STEPS(step0 + BK)
    for (int k = 0; k < BK; k++) {
      float row[TM], column[TN];
      UNROLL
      for (int i = 0; i < TM; i++) row[i] = left[k][y_id + BM / TM * i];
      UNROLL
      for (int j = 0; j < TN; j++) column[j] = right[k][x_id + ACROSS * j];
      UNROLL
      for (int i = 0; i < TM; i++)
        UNROLL
        for (int j = 0; j < TN; j++) sum[i][j] += row[i] * column[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  UNROLL
  for (int i = 0; i < TM; i++)
    UNROLL
    for (int j = 0; j < TN; j++) {
      const index_t m = row0 + y_id + BM / TM * i, n = column0 + x_id + ACROSS * j;
      if (m < rows && n < columns) PUT(sum[i][j], m, n)
    }
}
#undef UNROLL
#undef ACROSS
#undef ITEMS
#undef ENTRY
#undef ARGS
#undef EPILOGUE_AT
#undef MATRICES
#undef OPEN
#undef TABLES
#undef STEP
#undef COLUMN
#undef LEFT_DEEP
#undef RIGHT_DEEP
#undef LEFT
#undef RIGHT
#undef PUT
#undef HALF_0
#undef HALF_1
#undef HALF
#undef PHASES
#undef STEPS

/* Operands of matrix products (product.cl): matrices, and images whose pixels are gathered into columns. A source
 * defines
 *
 *   ENTRY, ARGS        name and arguments of the kernel
 *   MATRICES           number of products; a group computes a tile of number `matrix`
 *   OPEN               declares the product's `rows`, `columns` and `depth`, and variables of the other macros
 *   TABLES             local memory that STEP(k) fills for a step of the inner axis, and COLUMN(n) for a column, at
 *                      k_at and n_at; it holds the steps of two slices
 *   LEFT(k, m)         element of the left operand; RIGHT(k, n) of the right one
 *   LEFT_FROM(k, m)    its position in LEFT_BASE; likewise RIGHT_FROM and RIGHT_BASE
 *   PUT(sum, m, n)     stores a result
 *
 * For asynchronous copies it defines STAGED instead of ENTRY, and instead of elements
 *
 *   STARTS             variables of the copies of a tile, and TABLES
 *   COPY_LEFT(to, k)   copies the slice from step k on; likewise COPY_RIGHT
 *
 * The host (src/op/product.h) defines LEFT_DEEP and RIGHT_DEEP: the operand is contiguous along the inner axis; and
 * LEFT_RUNS and RIGHT_RUNS: if the operand's start is aligned to a run (16 bytes for units, else four elements), all of
 * its runs are, and the last one ends within the operand. */
#if defined WANT_gemm_forward_tiles || defined WANT_gemm_forward_stages
/* Arguments as in gemm.cl. */
#ifdef WANT_gemm_forward_tiles
#define ENTRY KERNEL(gemm_forward_tiles)
#else
#define STAGED KERNEL(gemm_forward_stages)
/* True if an operand can be copied 16 bytes at a time: its lines are `line` apart, with elements `next` apart. */
#define WHOLE(p, line, next) ((next) == 1 && ((size_t)(p) | (size_t)(line) * sizeof(RAW)) % 16 == 0)
#define STARTS                                                                                                      \
  const __global RAW *left_from = (const __global RAW *)a + row0 * a_s.s6;                                          \
  const __global RAW *right_from = (const __global RAW *)b + column0 * b_s.s7;                                      \
  const bool left_whole = LEFT_DEEP ? WHOLE(left_from, a_s.s6, a_s.s7) : WHOLE(left_from, a_s.s7, a_s.s6);          \
  const bool right_whole = RIGHT_DEEP ? WHOLE(right_from, b_s.s7, b_s.s6) : WHOLE(right_from, b_s.s6, b_s.s7);
#define COPY_LEFT(to, k) \
  FN(bring)(to, left_from + (k) * a_s.s7, LEFT_DEEP, BM, rows - row0, depth - (k), a_s.s6, a_s.s7, left_whole, id);
#define COPY_RIGHT(to, k) \
  FN(bring)(to, right_from + (k) * b_s.s6, RIGHT_DEEP, BN, columns - column0, depth - (k), b_s.s7, b_s.s6, right_whole, id);
#endif
#if IN_PARTS
/* Split-K: parts of `span` steps each, whose results are stored as sums for product_join. */
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(NUMBER, y), const index8_t dims, const index_t inner, \
      const index8_t a_s, const index8_t b_s, const float alpha, const index_t span, const index_t parts
#define MATRICES (BATCHES(dims) * parts)
#define OPEN                                                                     \
  const index_t rows = dims.s6, columns = dims.s7, batch = matrix / parts;       \
  const index_t first = matrix % parts * span, depth = min(span, inner - first); \
  USE(const STORAGE(T), a);                                                      \
  USE(const STORAGE(TB), b);                                                     \
  USE(NUMBER, y);                                                                \
  a += BATCH_OFFSET(dims, a_s, batch) + first * a_s.s7;                          \
  b += BATCH_OFFSET(dims, b_s, batch) + first * b_s.s6;                          \
  y += (matrix % parts * (index_t)BATCHES(dims) + batch) * rows * columns;
#define PUT(sum, m, n) y[(m) * columns + (n)] = sum;
#else
#define ARGS                                                                                                           \
  ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth, \
      const index8_t a_s, const index8_t b_s, const float alpha EPILOGUE_ARGS
#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, matrix)
#define MATRICES             BATCHES(dims)
#define OPEN                                       \
  const index_t rows = dims.s6, columns = dims.s7; \
  USE(const STORAGE(T), a);                        \
  USE(const STORAGE(TB), b);                       \
  USE(STORAGE(OUT), y);                            \
  EPILOGUE_USE                                     \
  a += BATCH_OFFSET(dims, a_s, matrix);            \
  b += BATCH_OFFSET(dims, b_s, matrix);            \
  y += matrix * rows * columns;
#define PUT(sum, m, n)                        \
  {                                           \
    const index_t row = (m), column = (n);    \
    const COMPUTE(T) i0 = SCALED(sum);        \
    EPILOGUE                                  \
    STORE(OUT, y, row * columns + column, r); \
  }
#endif
#define TABLES
#define STEP(k)
#define COLUMN(n)
#define LEFT_BASE       a
#define RIGHT_BASE      b
#define LEFT_FROM(k, m)  ((m) * a_s.s6 + (k) * a_s.s7)
#define RIGHT_FROM(k, n) ((k) * b_s.s6 + (n) * b_s.s7)
#define LEFT(k, m)       ELEMENT(T, a, LEFT_FROM(k, m))
#define RIGHT(k, n)      ELEMENT(TB, b, RIGHT_FROM(k, n))
#endif

#define INDEX4_0      int4
#define INDEX4_1      long4
#define INDEX4        CLADE_PASTE(INDEX4_, INDEX64)

#if defined WANT_conv2d_gather_tiles || defined WANT_conv2d_weights_tiles
/* Convolutions as products. An element of the window matrix belongs to an output position and to a tap of a channel,
 * one of which is the column, the other the step of the inner axis. Each contributes four offsets, which are added:
 * offset of the left operand's element; offset in x without line and column; line; column. Outside of the image,
 * elements are zero. */
#define TABLES      __local INDEX4 step_offset[2 * SLICE_STEPS], column_offset[BN];
#define RIGHT_BASE       x
#define RIGHT_FROM(k, n) FN(place_of)(step_offset[k_at] + column_offset[n_at], dims.s5)
#define RIGHT(k, n)      FN(pixel)(x, step_offset[k_at] + column_offset[n_at], dims.s4, dims.s5)
static inline index_t FN(place_of)(const INDEX4 p, const index_t width) { return p.y + p.z * width + p.w; }
static inline RAW FN(pixel)(const __global STORAGE(T) * x, const INDEX4 p, const index_t height, const index_t width) {
  const bool in = p.z >= 0 && p.z < height && p.w >= 0 && p.w < width;
  return in ? ELEMENT(T, x, FN(place_of)(p, width)) : (RAW)0;
}
#endif

#if defined WANT_conv2d_gather_tiles || defined WANT_conv2d_gather_last
/* dims, taps and map as in conv2d.cl; taps.s5 and s6: distance of taps that reach whole positions. If div is above 1,
 * the positions fall into phases, p = phase + div * place, each of which has its own taps and is a matrix of its own. */
#if IN_PARTS
#define ARGS                                                                                                   \
  ARG(const STORAGE(T), x), ARG(const STORAGE(TB), w), ARG(NUMBER, y), const index8_t dims, const index8_t taps, \
      const index8_t map, const index_t span, const index_t parts
#define PART  (matrix % parts)
#define FIRST (PART * span)
#define SPAN  max((index_t)0, min(span, steps - FIRST))
#define PHASE (matrix / parts)
#define CUTS  parts
#define RESULT         NUMBER
#define STORE_AT(sum, at)  y[PART * dims.s0 * dims.s1 * dims.s2 * pixels + (at)] = sum;
#else
#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(TB), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map EPILOGUE_ARGS
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#define FIRST 0
#define SPAN  steps
#define PHASE matrix
#define CUTS  1
#define RESULT         STORAGE(OUT)
#define STORE_AT(sum, at)    \
  EPILOGUE_USE               \
  const COMPUTE(T) i0 = (COMPUTE(T))(sum); \
  EPILOGUE                   \
  STORE(OUT, y, at, r);
#endif

/* A phase along an axis: its first tap, the number of its taps, and the source position p * mul + shift + i * move that
 * its tap i reaches from place p. */
static inline INDEX4 FN(phase)(const index_t from, const index_t delta, const index_t div, const index_t step,
                             const index_t taps) {
  index_t tap = 0;
  while (tap < step && tap < taps && (from + tap * delta) % div) tap++;
  const index_t count = tap < step && tap < taps ? (taps - tap + step - 1) / step : 0;
  return (INDEX4)(tap, count, (from + tap * delta) / div, step * delta / div);
}
/* Tap number i of a phase: its number in the window, 0, and what its source position adds to that of the first tap. */
static inline INDEX4 FN(tap)(const index_t number, const INDEX4 down, const INDEX4 across, const index8_t taps) {
  const index_t i = number / across.y, j = number % across.y;
  return (INDEX4)((down.x + i * taps.s5) * taps.s1 + across.x + j * taps.s6, 0, down.z + i * down.w, across.z + j * across.w);
}
/* Image, line and column. */
static inline INDEX4 FN(place)(const index_t n, const index_t high, const index_t wide) {
  return (INDEX4)(n / (high * wide), n / wide % high, n % wide, 0);
}
#define PHASES(k, of) min(map.k, dims.of)
#define MATRICES      ((long)dims.s1 * PHASES(s3, s6) * PHASES(s7, s7) * CUTS)
#define OPEN_PHASE                                                                                                  \
  const index_t phase_x = PHASE % PHASES(s7, s7), phase_y = PHASE / PHASES(s7, s7) % PHASES(s3, s6);                \
  const index_t group = PHASE / (PHASES(s7, s7) * PHASES(s3, s6)), pixels = dims.s6 * dims.s7;                      \
  const INDEX4 down = FN(phase)(phase_y * map.s0 + map.s1, map.s2, map.s3, taps.s5, taps.s0);                       \
  const INDEX4 across = FN(phase)(phase_x * map.s4 + map.s5, map.s6, map.s7, taps.s6, taps.s1);                     \
  const index_t high = (dims.s6 - phase_y + map.s3 - 1) / map.s3, wide = (dims.s7 - phase_x + map.s7 - 1) / map.s7; \
  const index_t places = dims.s0 * high * wide;                                                                     \
  USE(const STORAGE(T), x);                                                                                         \
  USE(const STORAGE(TB), w);                                                                                        \
  USE(RESULT, y);
/* Pixel of the result at a place. */
#define PIXEL(p) ((phase_y + (p).y * map.s3) * dims.s7 + phase_x + (p).z * map.s7)
#endif

#ifdef WANT_conv2d_gather_tiles
/* Rows: channels of a group of the result. Columns: positions in all images. Steps: taps of all inner channels. */
#define ENTRY KERNEL(conv2d_gather_tiles)
static inline INDEX4 FN(step)(const index_t k, const INDEX4 down, const INDEX4 across, const index8_t dims,
                            const index8_t taps) {
  const index_t count = down.y * across.y, channel = k / count;
  const INDEX4 tap = FN(tap)(k % count, down, across, taps);
  return tap + (INDEX4)(channel * taps.s4, channel * dims.s4 * dims.s5, 0, 0);
}
#define OPEN                                                                                                    \
  OPEN_PHASE                                                                                                    \
  const index_t rows = dims.s2, columns = places, steps = dims.s3 * down.y * across.y, depth = SPAN;            \
  const index_t plane = dims.s4 * dims.s5;                                                                      \
  x += group * dims.s3 * plane;                                                                                 \
  w += group * taps.s2;
#define STEP(k)    step_offset[k_at] = FN(step)(FIRST + (k), down, across, dims, taps);
#define COLUMN(n)                                                                                   \
  {                                                                                                 \
    const INDEX4 p = FN(place)(n, high, wide);                                                      \
    column_offset[n_at] = (INDEX4)(0, p.x * dims.s1 * dims.s3 * plane, p.y * map.s0, p.z * map.s4); \
  }
#define LEFT_BASE       w
#define LEFT_FROM(k, m) ((m) * taps.s3 + step_offset[k_at].x)
#define LEFT(k, m)      ELEMENT(TB, w, LEFT_FROM(k, m))
#define PUT(sum, m, n)                                                   \
  {                                                                      \
    const INDEX4 p = FN(place)(n, high, wide);                           \
    const index_t row = group * rows + (m), batch = p.x, column = PIXEL(p); \
    STORE_AT(sum, (batch * dims.s1 * rows + row) * pixels + column)      \
  }
#endif

#if defined WANT_conv2d_gather_last || defined WANT_conv2d_weights_last
/* Channels last: a pixel's channels are adjacent, and padded to whole pieces of 16 bytes, so each copy has channels of
 * one pixel. Elements beyond the last channel, and outside of the image, become zeros on the way. */
#define PITCH(channels) (((channels) + EACH - 1) / EACH * EACH)
#define WHOLE(p) ((size_t)(p) % 16 == 0)
#define OUTSIDE  (INDEX4)(0, 0, -(1 << 30), 0)
#endif

#ifdef WANT_conv2d_gather_last
/* Rows: positions in all images. Columns: channels of a group of the result. Steps: inner channels, padded, of all taps;
 * weights lie in the same order, taps.s4 from tap to tap. */
#define STAGED KERNEL(conv2d_gather_last)
#define TABLES __local INDEX4 line_offset[BM];
#define OPEN                                                                                                     \
  OPEN_PHASE                                                                                                     \
  const index_t rows = places, columns = dims.s2, steps = PITCH(dims.s3) * down.y * across.y, depth = SPAN;      \
  const index_t pitch = PITCH(dims.s1 * dims.s3);                                                                \
  x += group * dims.s3;                                                                                          \
  w += group * taps.s2;
#define STARTS                                                                                                   \
  const bool left_whole = WHOLE(x), right_whole = WHOLE(w);                                                      \
  for (int n = id; n < BM; n += ITEMS) {                                                                         \
    const INDEX4 p = FN(place)(row0 + n, high, wide);                                                            \
    line_offset[n] = row0 + n < rows ? (INDEX4)(0, p.x * dims.s4 * dims.s5, p.y * map.s0, p.z * map.s4) : OUTSIDE; \
  }                                                                                                              \
  barrier(CLK_LOCAL_MEM_FENCE);
/* All copies of a work-item in a slice are of the same step. */
#define STEP_OF(k)                                                                                               \
  const int own = id * EACH % DEEP;                                                                              \
  const index_t at = FIRST + (k) + own, number = at / PITCH(dims.s3), channel = at - number * PITCH(dims.s3);    \
  const int there = (k) + own < depth ? (int)min(dims.s3 - channel, (index_t)EACH) : 0;                          \
  const INDEX4 tap = FN(tap)(number, down, across, taps);
#define COPY_LEFT(to, k)                                                                                         \
  {                                                                                                              \
    STEP_OF(k)                                                                                                   \
    FN(collect)(to, (const __global RAW *)x + channel, line_offset, tap, there, dims.s4, dims.s5, pitch, left_whole, id); \
  }
#define COPY_RIGHT(to, k)                                                                                        \
  {                                                                                                              \
    STEP_OF(k)                                                                                                   \
    FN(bring)(to, (const __global RAW *)w + column0 * taps.s3 + tap.x * taps.s4 + channel - own, true, BN, columns - column0, own + there, \
              taps.s3, 1, right_whole, id);                                                                      \
  }
#define PUT(sum, m, n)                                                                          \
  {                                                                                             \
    const INDEX4 p = FN(place)(m, high, wide);                                                  \
    const index_t row = group * columns + (n), batch = p.x, column = PIXEL(p);                  \
    STORE_AT(sum, (batch * pixels + column) * PITCH(dims.s1 * columns) + row)                   \
  }
#endif

#if defined WANT_conv2d_weights_tiles || defined WANT_conv2d_weights_last
/* Rows: channels of a group of y. Columns: taps of all inner channels. Steps: `span` positions in all images, for each
 * part of the sum. Arguments as in conv2d_weights.cl. */
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps, \
      const index8_t map, const index_t span
#define MATRICES ((long)dims.s1 * taps.s2)
#define OPEN_PART                                                                                      \
  const index_t group = matrix % dims.s1, first = matrix / dims.s1 * span, pixels = dims.s6 * dims.s7; \
  const index_t rows = dims.s2, line = dims.s3 * taps.s0 * taps.s1;                                    \
  const index_t depth = min(span, dims.s0 * pixels - first);                                           \
  USE(const STORAGE(T), x);                                                                            \
  USE(const STORAGE(T), y);                                                                            \
  USE(float, out);                                                                                     \
  out += matrix * rows * line;
#endif

#ifdef WANT_conv2d_weights_tiles
#define ENTRY KERNEL(conv2d_weights_tiles)
#define OPEN                                                          \
  OPEN_PART                                                           \
  const index_t columns = line, plane = dims.s4 * dims.s5;            \
  x += group * dims.s3 * plane;                                       \
  y += group * rows * pixels;
#define STEP(k)                                                                                              \
  {                                                                                                          \
    const index_t image = (first + (k)) / pixels, pixel = (first + (k)) % pixels;                            \
    step_offset[k_at] = (INDEX4)(image * dims.s1 * rows * pixels + pixel, image * dims.s1 * dims.s3 * plane, \
                             pixel / dims.s7 * map.s0 + map.s1, pixel % dims.s7 * map.s4 + map.s5);          \
  }
#define COLUMN(n)                                                                                               \
  {                                                                                                             \
    const index_t line = (n) / taps.s1;                                                                         \
    column_offset[n_at] = (INDEX4)(0, line / taps.s0 * plane, line % taps.s0 * map.s2, (n) % taps.s1 * map.s6); \
  }
#define LEFT_BASE       y
#define LEFT_FROM(k, m) ((m) * pixels + step_offset[k_at].x)
#define LEFT(k, m)      ELEMENT(T, y, LEFT_FROM(k, m))
#define PUT(sum, m, n) out[(m) * columns + (n)] = sum;
#endif

#ifdef WANT_conv2d_weights_last
/* Columns: all inner channels, padded, of one tap after the other. Both operands are contiguous across the inner axis. */
#define STAGED KERNEL(conv2d_weights_last)
#define TABLES
#define OPEN                                                                                    \
  OPEN_PART                                                                                     \
  const index_t pitch = PITCH(dims.s1 * dims.s3), left_pitch = PITCH(dims.s1 * rows);           \
  const index_t columns = taps.s0 * taps.s1 * PITCH(dims.s3);                                   \
  x += group * dims.s3;                                                                         \
  y += group * rows;
/* All copies of a work-item are of the same channels of the same tap. */
#define STARTS                                                                                  \
  const bool left_whole = WHOLE(y), right_whole = WHOLE(x);                                     \
  const index_t own = column0 + id * EACH % BN, number = own / PITCH(dims.s3), channel = own - number * PITCH(dims.s3); \
  const int there = own < columns ? (int)min(dims.s3 - channel, (index_t)EACH) : 0;             \
  const INDEX4 tap = (INDEX4)(0, 0, number / taps.s1 * map.s2 + map.s1, number % taps.s1 * map.s6 + map.s5);
#define COPY_LEFT(to, k)                                                                        \
  FN(bring)(to, (const __global RAW *)y + (first + (k)) * left_pitch + row0, false, BM, rows - row0, depth - (k), 1, left_pitch, left_whole, id);
#define COPY_RIGHT(to, k) \
  FN(collect)(to, (const __global RAW *)x + channel, tap, there, first + (k), depth - (k), dims, map, pitch, right_whole, id);
#define PUT(sum, m, n)                                                                                            \
  {                                                                                                               \
    const index_t place = (n) / PITCH(dims.s3), channel = (n) - place * PITCH(dims.s3);                           \
    if (channel < dims.s3) out[(m) * line + channel * taps.s0 * taps.s1 + place] = sum;                           \
  }
#endif

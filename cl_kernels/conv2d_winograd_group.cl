/* 3 x 3 convolution without stride on GPUs by Winograd's F(2x2, 3x3): 2 x 2 results are computed from 4 x 4 places by
 * 16 matrix products, [rows, inner channels] by [inner channels, tiles]. A work-group computes BM rows of BN tiles, BK
 * inner channels at a time; tiles are numbered over all images. Each work-item accumulates one tap of TM x TN of them,
 * and the group exchanges the products in local memory before the inverse transform. */
#include "winograd_points.cl"
#define TILE   (OUT_SIDE + 2)
#define TAPS   (TILE * TILE)
#define DOWN   (BM / TM)
#define ACROSS (BN / TN)
#define ITEMS  (TAPS * DOWN * ACROSS)
#if ROLLED /* on CPUs, for tests: PoCL takes seconds to compile unrolled loops */
#define UNROLL _Pragma("nounroll")
#else
#define UNROLL _Pragma("unroll")
#endif

#ifdef WANT_conv2d_winograd_group_weights
/* Transforms weights to [inner channel, tap, row], padded with zeros to `all_inner` and `all_rows`, so that slices are
 * whole. by_row, by_inner: the weights' strides; `turned`: windows are flipped. */
KERNEL(conv2d_winograd_group_weights)
(ARG(const float, w), ARG(float, u), const index_t rows, const index_t inner, const index_t by_row,
 const index_t by_inner, const index_t all_rows, const index_t all_inner, const int turned) {
  const index_t row = get_global_id(0), k = get_global_id(1);
  if (row >= all_rows || k >= all_inner) return;
  USE(const float, w);
  USE(float, u);
  float some[TILE][3];
  for (int j = 0; j < 3; j++) {
    float one[3], lined[TILE];
    for (int i = 0; i < 3; i++)
      one[i] = row < rows && k < inner ? w[row * by_row + k * by_inner + (turned ? 8 - i * 3 - j : i * 3 + j)] : 0;
    FROM_WEIGHTS(lined, one)
    for (int i = 0; i < TILE; i++) some[i][j] = lined[i];
  }
  for (int i = 0; i < TILE; i++) {
    float lined[TILE];
    FROM_WEIGHTS(lined, some[i])
    for (int j = 0; j < TILE; j++) u[(k * TAPS + i * TILE + j) * all_rows + row] = lined[j];
  }
}
#endif

#ifdef WANT_conv2d_winograd_group
/* A work-item's rows and tiles are in groups of four adjacent ones, which are loaded as vectors. */
#define FOURS(i, side, at) ((i) / 4 * 4 * (side) + (at) * 4)
/* Per work-item and slice: vectors of weights, and tiles of a channel, that it loads. */
#define WEIGHTS (BK * TAPS * BM / 4 / ITEMS)
#define PLACES  (BK * BN / ITEMS)
#define CHANNEL(i) (id / BN + (i) * (ITEMS / BN))

/* Loads a tile's places; bits of `there` mark those that exist, the others are zero. */
static inline void FN(tile)(const __global float *x, const index_t width, const uint there, float d[TILE][TILE]) {
  UNROLL
  for (int i = 0; i < TILE; i++, x += width)
    UNROLL
    for (int j = 0; j < TILE; j++) d[i][j] = there >> (i * TILE + j) & 1 ? x[j] : 0.0f;
}
static inline uint FN(inside)(const int2 from, const int2 size) {
  uint bits = 0;
  for (int i = 0; i < TAPS; i++) {
    const int line = from.x + i / TILE, place = from.y + i % TILE;
    bits |= (uint)(line >= 0 && line < size.x && place >= 0 && place < size.y) << i;
  }
  return bits;
}
/* Transforms a tile, and stores it to positions `apart` in local memory. */
static inline void FN(bring)(const float d[TILE][TILE], __local float *to, const int apart) {
  float some[TILE][TILE];
  UNROLL
  for (int j = 0; j < TILE; j++) {
    float one[TILE], lined[TILE];
    UNROLL
    for (int i = 0; i < TILE; i++) one[i] = d[i][j];
    FROM_PLACES(lined, one)
    UNROLL
    for (int i = 0; i < TILE; i++) some[i][j] = lined[i];
  }
  UNROLL
  for (int i = 0; i < TILE; i++) {
    float lined[TILE];
    FROM_PLACES(lined, some[i])
    UNROLL
    for (int j = 0; j < TILE; j++) to[(i * TILE + j) * apart] = lined[j];
  }
}
/* Transforms a tile's products, which are `apart`, back to results. */
static inline void FN(results)(const __local float *from, const int apart, float y[OUT_SIDE][OUT_SIDE]) {
  float some[OUT_SIDE][TILE];
  UNROLL
  for (int j = 0; j < TILE; j++) {
    float one[TILE], back[OUT_SIDE];
    UNROLL
    for (int i = 0; i < TILE; i++) one[i] = from[(i * TILE + j) * apart];
    TO_RESULTS(back, one)
    UNROLL
    for (int i = 0; i < OUT_SIDE; i++) some[i][j] = back[i];
  }
  UNROLL
  for (int i = 0; i < OUT_SIDE; i++) TO_RESULTS(y[i], some[i])
}

/* dims: images, rows, inner channels, height and width of the source and of the result. first_line, first_place:
 * position of the first tap of the first result. u is padded to all_rows. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)
GROUP(ITEMS, 1, 1)
KERNEL(conv2d_winograd_group)
(ARG(const float, x), ARG(const float, u), ARG(STORAGE(OUT), y), const index8_t dims, const int first_line,
 const int first_place, const index_t all_rows EPILOGUE_ARGS) {
  __local float room[TAPS * BK * (BM + BN)] __attribute__((aligned(16)));
  const int id = (int)get_local_id(0), high = (int)(dims.s5 + 1) / OUT_SIDE, wide = (int)(dims.s6 + 1) / OUT_SIDE;
  const index_t tile0 = (index_t)get_group_id(0) * BN, row0 = (index_t)get_group_id(1) * BM, each = (index_t)high * wide;
  const index_t tiles = dims.s0 * each, inner = dims.s2, plane = dims.s3 * dims.s4;
  if (tile0 >= tiles || row0 >= dims.s1) return; /* the whole group */
  USE(const float, x);
  USE(const float, u);
  USE(STORAGE(OUT), y);
  __local float *left = room, *right = room + TAPS * BK * BM;
  const int tap = id / (DOWN * ACROSS), down_at = id / ACROSS % DOWN, across_at = id % ACROSS;
  /* position of the tile that this item loads */
  const index_t own = tile0 + id % BN;
  const int2 from = (int2)((int)(own % each / wide) * OUT_SIDE + first_line, (int)(own % wide) * OUT_SIDE + first_place);
  const uint there = own < tiles ? FN(inside)(from, (int2)((int)dims.s3, (int)dims.s4)) : 0;
  x += own / each * inner * plane + CHANNEL(0) * plane + (index_t)from.x * dims.s4 + from.y;
  u += (index_t)(id / (BM / 4)) * all_rows + row0 + id % (BM / 4) * 4;

  float sum[TM][TN];
  UNROLL
  for (int i = 0; i < TM; i++)
    UNROLL
    for (int j = 0; j < TN; j++) sum[i][j] = 0;
  const int slices = (int)((inner + BK - 1) / BK);
  for (int s = -1; s < slices; s++) { /* slice -1 is only loaded */
    float4 weights[WEIGHTS];
    float places[PLACES][TILE][TILE];
    const bool more = s + 1 < slices;
    if (more) {
      UNROLL
      for (int i = 0; i < WEIGHTS; i++)
        weights[i] = *(const __global float4 *)(u + (index_t)(i * (ITEMS / (BM / 4))) * all_rows);
      UNROLL
      for (int i = 0; i < PLACES; i++)
        FN(tile)(x + (index_t)(i * (ITEMS / BN)) * plane, dims.s4, (s + 1) * BK + CHANNEL(i) < inner ? there : 0, places[i]);
      u += (index_t)(BK * TAPS) * all_rows;
      x += BK * plane;
    }
    for (int k = 0; s >= 0 && k < BK; k++) {
      float row[TM], column[TN];
      const __local float *rows = left + (k * TAPS + tap) * BM, *columns = right + (k * TAPS + tap) * BN;
      UNROLL
      for (int i = 0; i < TM; i += 4) {
        const float4 four = *(const __local float4 *)(rows + FOURS(i, DOWN, down_at));
        row[i] = four.s0, row[i + 1] = four.s1, row[i + 2] = four.s2, row[i + 3] = four.s3;
      }
      UNROLL
      for (int j = 0; j < TN; j += 4) {
        const float4 four = *(const __local float4 *)(columns + FOURS(j, ACROSS, across_at));
        column[j] = four.s0, column[j + 1] = four.s1, column[j + 2] = four.s2, column[j + 3] = four.s3;
      }
      UNROLL
      for (int i = 0; i < TM; i++)
        UNROLL
        for (int j = 0; j < TN; j++) sum[i][j] += row[i] * column[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* all items have read the slice */
    if (more) {
      UNROLL
      for (int i = 0; i < WEIGHTS; i++) {
        __local float4 *to = (__local float4 *)left + id + ITEMS * i; /* a variable, or clang stores elements one by one */
        *to = weights[i];
      }
      UNROLL
      for (int i = 0; i < PLACES; i++) FN(bring)(places[i], right + CHANNEL(i) * TAPS * BN + id % BN, BN);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  /* two rows of each item at a time, which is what local memory holds */
  UNROLL
  for (int p = 0; p < TM; p += 2) {
    UNROLL
    for (int i = 0; i < 2; i++)
      UNROLL
      for (int j = 0; j < TN; j += 4) {
        __local float4 *to = (__local float4 *)(room + ((tap * DOWN + down_at) * 2 + i) * BN + FOURS(j, ACROSS, across_at));
        *to = (float4)(sum[p + i][j], sum[p + i][j + 1], sum[p + i][j + 2], sum[p + i][j + 3]);
      }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = id; e < 2 * DOWN * BN; e += ITEMS) {
      const index_t n = tile0 + e % BN, row = row0 + FOURS(p, DOWN, e / BN / 2) + p % 4 + e / BN % 2;
      if (n >= tiles || row >= dims.s1) continue;
      const index_t batch = n / each;
      const int line = (int)(n % each / wide) * OUT_SIDE, place = (int)(n % wide) * OUT_SIDE;
      EPILOGUE_USE
      float some[OUT_SIDE][OUT_SIDE];
      FN(results)(room + e, 2 * DOWN * BN, some);
      UNROLL
      for (int i = 0; i < OUT_SIDE; i++)
        UNROLL
        for (int j = 0; j < OUT_SIDE; j++)
          if (line + i < dims.s5 && place + j < dims.s6) {
            const index_t column = (line + i) * dims.s6 + place + j;
            const float i0 = some[i][j];
            EPILOGUE
            STORE(OUT, y, (batch * dims.s1 + row) * dims.s5 * dims.s6 + column, r);
          }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
#endif

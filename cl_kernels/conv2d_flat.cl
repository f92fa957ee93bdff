/* 1 x 1 convolution without stride: a matrix product of weights and an image's pixels, which are read in place.
 *
 * A work-item computes some panels of ROWS channels of the result for some tiles of PLACES places of all images.
 *
 * sizes: images, rows, inner channels, places of an image. plan: parts of the panels; tiles of a work-item. */
#include "conv2d_result.cl"

#define ARGS                                                                                                      \
  ARG(const STORAGE(f32), x), ARG(const STORAGE(f32), w), ARG(STORAGE(OUT), y), const index8_t sizes, const index8_t plan, \
      const index8_t y_s EPILOGUE_ARGS

/* The first panel and tile of a work-item, and those behind its last. */
static inline int4 FN(part)(const int item, const index8_t sizes, const index8_t plan) {
  const int down = plan.s0, at = item % down, panels = (sizes.s1 + ROWS - 1) / ROWS;
  const int tiles = (sizes.s3 + PLACES - 1) / PLACES * sizes.s0, tile0 = item / down * (int)plan.s1;
  return (int4)((long)panels * at / down, tile0, (long)panels * (at + 1) / down, min(tile0 + (int)plan.s1, tiles));
}

#ifdef WANT_conv2d_flat
/* For CPUs with vectors of WIDTH floats, which hold channels of the result; image and result are in blocks of 16
 * channels. The places of a tile are contiguous in a block, 16 floats apart, so that one register and constant offsets
 * address them all; `direct` needs a register per place. A step of the inner axis broadcasts one value per place and
 * loads one vector of weights per vector of the panel, both in place.
 *
 * A work-item's part of the image stays in L2; the first panel prefetches it one tile ahead. While a panel is
 * multiplied, its tiles prefetch the next one. */

/* Prefetches what a tile overwrites, and what its epilogue reads. */
APART static void FN(ask)(const index_t rows, const index_t columns, OUT_ARGS) {
  EPILOGUE_USE
  for (index_t row = row0; row < row0 + rows; row += 16)
    for (index_t column = column0; column < column0 + columns; column++) {
      SOON(y + EPILOGUE_ELEMENT(y_s));
      EPILOGUE_SOON
    }
}

/* Multiplies `runs` blocks of x, `apart` floats apart; per block it prefetches `lines` cache lines from `ahead` on,
 * and, if x is `fresh`, what the next tile reads. */
#define TILE(name, places)                                                                                       \
  APART static void FN(name)(const __global float *w, const __global float *x, const long apart, const int runs, \
                             const __global float *ahead, const int lines, const bool fresh, float *tile) {      \
    VECTOR sum[places][VECTORS];                                                                                 \
    EACH_SUM(places) sum[r][v] = 0;                                                                              \
    for (int run = 0; run < runs; run++, x += apart) {                                                           \
      for (int i = 0; i < lines; i++, ahead += 16) LATER(ahead);                                                 \
      if (fresh)                                                                                                 \
        for (int p = 0; p < places; p++) LATER(x + (places + p) * 16);                                           \
      _Pragma("clang loop unroll(disable)") for (long k = 0; k < 16; k++, w += ROWS)                             \
        MULTIPLY_TILE(places, x[r * 16 + k], VLOAD(v, w))                                                        \
    }                                                                                                            \
    EACH_SUM(places) VSTORE(sum[r][v], r * VECTORS + v, tile);                                                   \
  }
TILE(whole, PLACES)
TILE(half, (PLACES / 2))

BODY(conv2d_flat_item)(const int item, ARGS) {
  const int inner = sizes.s2, plane = sizes.s3, runs = inner / 16, tiles = (plane + PLACES - 1) / PLACES;
  if (plan.s0 == 0) return;
  const int panels = (sizes.s1 + ROWS - 1) / ROWS;
  const int4 part = FN(part)(item, sizes, plan);
  USE(const STORAGE(f32), x);
  USE(const STORAGE(f32), w);
  USE(STORAGE(OUT), y);
  float tile[PLACES * ROWS] ALIGNED;
  for (int p = part.s0; p < part.s2; p++) {
    const int row0 = p * ROWS, rows = min(ROWS, (int)sizes.s1 - row0);
    const bool first = p == part.s0;
    const __global float *from = w + p * inner * ROWS, *next = w + (p + 1) % panels * inner * ROWS;
    const int asking = max(part.s3 - part.s1 - (int)first, 1), lines = (ROWS + asking - 1) / asking;
    for (int t = part.s1; t < part.s3; t++) {
      const int batch = t / tiles, column0 = t % tiles * PLACES, columns = min(PLACES, plane - column0);
      const bool few = columns <= PLACES / 2, own = first && t == part.s1;
      const int behind = (few ? PLACES / 2 : PLACES) - columns; /* the last tile ends with the image */
      const __global float *image = x + batch * inner * plane + (column0 - behind) * 16;
      const __global float *ahead = own ? from + 2048 : next;
      __global float *to = y + batch * y_s.s5;
      FN(ask)(rows, columns, to, y_s, batch, row0, column0 EPILOGUE_PASS);
      if (few)
        FN(half)(from, image, plane * 16, runs, ahead, own ? ROWS : lines, first, tile);
      else
        FN(whole)(from, image, plane * 16, runs, ahead, own ? ROWS : lines, first, tile);
      if (!own) next += lines * runs * 16;
      FN(finish)(tile + behind * ROWS, 1, 0, ROWS, rows, (int2)(1, columns), (int2)(0, 1), true, to, y_s, batch, row0,
                 column0 EPILOGUE_PASS);
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_flat, PASS(x), PASS(w), PASS(y), sizes, plan, y_s EPILOGUE_PASS)
#endif

#ifdef WANT_conv2d_flat_dense
/* For CPUs with vectors of WIDTH floats, which hold places. A step of the inner axis broadcasts one weight per row and
 * loads one vector of pixels per vector of the tile. All panels read a tile in L1; each prefetches ASKED vectors of the
 * next one, until all are, and the next panel's lines of the result. */
/* The bound is a parameter: a loop up to it would not be unrolled, and would keep the sums in memory. */
#define EACH_VECTOR UNROLLED(v, VECTORS) if (v < vectors)

/* Computes a tile, of which the first `skip` columns belong to another one. Prefetches vectors from `soon` of each
 * channel, `along` apart, and lines of the result from `next`. */
__attribute__((always_inline)) static inline void FN(tile)(const int vectors, const __global float *w,
                                                           const __global float *x, const int apart, int depth,
                                                           const __global float *soon, const int along,
                                                           const __global STORAGE(OUT) *next, const int skip,
                                                           const int rows, const int columns, OUT_ARGS) {
  VECTOR sum[ROWS][VECTORS];
  UNROLLED(r, ROWS) EACH_VECTOR {
    if (!PAST) SOON(next + r * y_s.s6 + v * WIDTH);
    sum[r][v] = 0;
  }
#pragma unroll 4
  for (; depth; depth--, w += ROWS, x += apart, soon += along) {
    VECTOR right[VECTORS];
    EACH_VECTOR {
      right[v] = VLOAD(v, x);
      if (v < ASKED) SOON(soon + v * WIDTH);
    }
    UNROLLED(r, ROWS) {
      const VECTOR left = w[r];
      EACH_VECTOR sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
#if PLAIN
  __global STORAGE(OUT) *to = y + row0 * y_s.s6 + column0;
  if (rows == ROWS && columns == vectors * WIDTH) {
#if PAST && defined CLADE_STREAMS
    if (((size_t)to & (sizeof(VECTOR) - 1)) == 0) {
      UNROLLED(r, ROWS) EACH_VECTOR __builtin_nontemporal_store(sum[r][v], (__global VECTOR *)(to + r * y_s.s6) + v);
      return;
    }
#endif
    UNROLLED(r, ROWS) EACH_VECTOR VSTORE(sum[r][v], v, to + r * y_s.s6);
    return;
  }
#endif
  float tile[ROWS * PLACES] ALIGNED;
  UNROLLED(r, ROWS) EACH_VECTOR *(VECTOR *)(tile + (r * vectors + v) * WIDTH) = sum[r][v];
  FN(finish)(tile + skip, vectors * WIDTH, 0, 1, rows, (int2)(1, columns), (int2)(0, 1), false, OUT_PASS);
}

BODY(conv2d_flat_dense_item)(const int item, ARGS) {
  const int inner = sizes.s2, places = sizes.s3, tiles = (places + PLACES - 1) / PLACES;
  if (plan.s0 == 0) return;
  const int4 part = FN(part)(item, sizes, plan);
  USE(const STORAGE(f32), x);
  USE(const STORAGE(f32), w);
  USE(STORAGE(OUT), y);
#define START(t) (x + (t) / tiles * inner * places + (t) % tiles * PLACES)
  for (int k = 0; k < inner; k++) UNROLLED(v, VECTORS) SOON(START(part.s1) + k * places + v * WIDTH);
  for (int t = part.s1; t < part.s3; t++) {
    const int batch = t / tiles, column0 = t % tiles * PLACES, end = min(column0 + PLACES, places);
    __global STORAGE(OUT) *to = y + batch * y_s.s5;
    const __global STORAGE(OUT) *behind = y + (t + 1) / tiles * y_s.s5 + (t + 1) % tiles * PLACES;
    for (int p = part.s0; p < part.s2; p++) {
      const int row0 = p * ROWS, rows = min(ROWS, (int)sizes.s1 - row0), asked = (p - part.s0) * ASKED;
      const bool weights = asked >= VECTORS; /* of the next panel, after all pixels of the next tile */
      const __global float *panel = w + row0 * inner;
      const __global float *soon = weights ? panel + ROWS * inner : START(t + 1) + asked * WIDTH + WIDTH - 1;
      const __global STORAGE(OUT) *next =
          p + 1 < part.s2 ? to + (row0 + ROWS) * y_s.s6 + column0 : behind + part.s0 * ROWS * y_s.s6;
      const int along = weights ? ROWS : places;
      if (end - column0 == PLACES)
        FN(tile)(VECTORS, panel, START(t), places, inner, soon, along, next, 0, rows, PLACES, to, y_s, batch, row0,
                 column0 EPILOGUE_PASS);
      else
        for (int c = column0; c < end; c += WIDTH) { /* the last vector overlaps the one before */
          const int columns = min(WIDTH, end - c), skip = WIDTH - columns;
          FN(tile)(1, panel, START(t) + c - column0 - skip, places, inner, soon, along, next + c - column0, skip, rows,
                   columns, to, y_s, batch, row0, c EPILOGUE_PASS);
        }
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_flat_dense, PASS(x), PASS(w), PASS(y), sizes, plan, y_s EPILOGUE_PASS)
#endif

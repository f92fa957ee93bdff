/* 1 x 1 convolution without stride: per image, weights [rows, inner] times image [inner, places], dense. Vectors hold
 * places. */
#ifdef WANT_conv2d_pointwise
/* For CPUs with vectors of WIDTH floats. The register tile is ROWS channels of the result by VECTORS vectors of places;
 * a step of the inner axis broadcasts one weight per row and loads one vector of pixels per vector. Weights are in
 * panels of ROWS rows, interleaved per inner channel.
 *
 * A work-item computes some panels of rows for some places of an image, plan.s2 places at a time for each panel, so
 * that rows of the result are written contiguously rather than as short lines on many pages. The first panel copies the
 * image tile by tile, since its channels may be a power of two apart. If ASKED is not 0, nothing is copied: all panels
 * read a tile in place, and each prefetches ASKED vectors of the next tile, until all are, and the next panel's lines
 * of the result. PAST: a plain result that exceeds the caches is stored non-temporally.
 *
 * sizes: images, rows, inner, places. plan: parts of the rows and of the places; places at a time; floats of `space`
 * per work-item. */
#include "conv2d_result.cl"
#define COLUMNS (VECTORS * WIDTH)
#define ROW(row) (((row) >> 4) * y_s.s4 + ((row) & 15) * y_s.s6)
/* The bound is a parameter: a loop up to it would not be unrolled, and would keep the sums in memory. */
#define EACH_VECTOR UNROLLED(v, VECTORS) if (v < vectors)

/* Computes a tile. `fresh`: the pixels are read in place, with channels `apart`, and stored to `copy`. Prefetches
 * vectors from `soon` of each channel, and lines of the result from `next`. The first `skip` columns belong to another
 * tile. */
__attribute__((always_inline)) static inline void
FN(tile)(const int vectors, const bool fresh, const __global float *w, const __global float *x, const index_t apart,
         __global float *copy, index_t depth, const __global float *soon, const index_t along,
         const __global STORAGE(OUT) *next, const index_t skip, const index_t rows, const index_t columns, OUT_ARGS) {
  VECTOR sum[ROWS][VECTORS];
  __global STORAGE(OUT) *to = y + ROW(row0) + column0;
  UNROLLED(r, ROWS) EACH_VECTOR {
    if ((SHALLOW || ASKED) && !PAST) SOON(next + r * y_s.s6 + v * WIDTH); /* otherwise there is time after the tile */
    sum[r][v] = 0;
  }
#pragma unroll 4
  for (; depth; depth--, w += ROWS, copy += vectors * WIDTH) {
    VECTOR right[VECTORS];
    EACH_VECTOR {
      if (fresh) {
        right[v] = VLOAD(v, x);
        *(__global VECTOR *)(copy + v * WIDTH) = right[v];
        LATER(soon + v * WIDTH);
      } else {
        right[v] = ASKED ? VLOAD(v, x) : *(__global VECTOR *)(copy + v * WIDTH);
        if (v < ASKED) SOON(soon + v * WIDTH);
      }
    }
    if (!fresh && !ASKED) LATER(soon);
    x += apart;
    soon += along;
    UNROLLED(r, ROWS) {
      const VECTOR left = w[r];
      EACH_VECTOR sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
#if PLAIN
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
  float tile[ROWS * COLUMNS] ALIGNED;
  UNROLLED(r, ROWS) EACH_VECTOR *(VECTOR *)(tile + (r * vectors + v) * WIDTH) = sum[r][v];
  FN(finish)
  (tile + skip, vectors * WIDTH, 0, 1, (int)rows, (int2)(1, (int)columns), (int2)(0, 1), false, OUT_PASS);
}

/* Copies an image with fewer places than a vector, padded with zeros. */
APART static void FN(copy_rest)(const __global float *x, index_t apart, index_t columns, index_t inner,
                                __global float *to) {
  for (; inner; inner--, x += apart, to += WIDTH)
    ONE_BY_ONE for (index_t i = 0; i < WIDTH; i++) to[i] = i < columns ? x[i] : 0;
}

#if ASKED
#define SPACE_ARG
#define SPACE_PASS
#define SPACE_USE __global float *space = 0;
#else
#define SPACE_ARG  ARG(STORAGE(f32), space),
#define SPACE_PASS PASS(space),
#define SPACE_USE  USE(STORAGE(f32), space);
#endif
#define ARGS                                                                                                        \
  ARG(const STORAGE(f32), x), ARG(const STORAGE(f32), w), ARG(STORAGE(OUT), y), SPACE_ARG const index8_t sizes, \
      const index8_t plan, const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_pointwise_item)(const long item, ARGS) {
  enum { FORESEEN = 8 }; /* channels of the first tile, which was not prefetched */
  const index_t all_rows = sizes.s1, inner = sizes.s2, places = sizes.s3, down = plan.s0, across = plan.s1;
  if (down == 0 || item >= (long)down * across * sizes.s0) return;
  const index_t batch = (index_t)(item / (down * across)), down_at = (index_t)(item % down);
  const index_t across_at = (index_t)(item / down % across);
  const index_t panels = (all_rows + ROWS - 1) / ROWS, tiles = (places + COLUMNS - 1) / COLUMNS;
  const index_t panel0 = (index_t)((long)panels * down_at / down), panel1 = (index_t)((long)panels * (down_at + 1) / down);
  const index_t begin = (index_t)((long)tiles * across_at / across) * COLUMNS;
  const index_t end = min((index_t)((long)tiles * (across_at + 1) / across) * COLUMNS, places);
  USE(const STORAGE(f32), x);
  USE(const STORAGE(f32), w);
  USE(STORAGE(OUT), y);
  SPACE_USE
  x += batch * inner * places;
  y += batch * y_s.s5;
  space += item * plan.s3;
  for (index_t k = 0; ASKED && k < inner; k++) /* prefetches the first tile */
    UNROLLED(v, VECTORS) SOON(x + begin + k * places + v * WIDTH);
  for (index_t from = begin; from < end; from += plan.s2) {
    const index_t to = min(from + plan.s2, end);
    for (index_t p = panel0; p < panel1; p++) {
      const index_t row0 = p * ROWS, rows = min((index_t)ROWS, all_rows - row0), since = p - panel0;
      const __global float *panel = w + row0 * inner;
      const bool fresh = !ASKED && since == 0, several = plan.s2 > COLUMNS, alone = panel1 - panel0 <= VECTORS;
      /* A panel that copies prefetches the next tile's pixels, or leaves that to the panels after it, a vector each;
       * then weights. */
      const index_t asked = ASKED ? since * ASKED : since - 1;
      const bool weights = asked >= VECTORS || (several && !fresh);
      const index_t first = several || alone ? COLUMNS : 0, shared = plan.s2 + asked * WIDTH;
      const index_t ahead = !fresh ? shared : from == begin && !several ? FORESEEN * places : first;
      const index_t along = weights ? ROWS : places;
      const index_t soon = !ASKED ? ROW(row0) : p + 1 < panel1 ? ROW(row0 + ROWS) : ROW(panel0 * ROWS) + plan.s2;
      __global float *copy = space;
      index_t c = from;
#define TILE(vectors, fresh, skip, columns)                                                                        \
  FN(tile)(vectors, fresh, panel, x + c - (skip), places, copy, inner,                                             \
           weights ? panel + ROWS * inner : x + c + ahead + WIDTH - 1, along, y + soon + c, skip, rows, columns, y, \
           y_s, batch, row0, c EPILOGUE_PASS)
      for (; c + COLUMNS <= to; c += COLUMNS, copy += ASKED ? 0 : COLUMNS * inner)
        if (fresh)
          TILE(VECTORS, true, 0, COLUMNS);
        else
          TILE(VECTORS, false, 0, COLUMNS);
      for (; c < to; c += WIDTH, copy += ASKED ? 0 : WIDTH * inner) { /* the last vector overlaps, if there is room */
        index_t columns = min((index_t)WIDTH, to - c), skip = min((index_t)WIDTH - columns, c);
        if (PLAIN && c - skip >= begin) { /* and stores the same values again */
          c -= skip;
          columns += skip;
          skip = 0;
        }
        if (fresh && places < WIDTH) FN(copy_rest)(x, places, columns, inner, copy);
        if (fresh && places >= WIDTH)
          TILE(1, true, skip, columns);
        else
          TILE(1, false, skip, columns);
      }
    }
  }
}

GROUP(1, 1, 1)
ITEM_KERNEL(conv2d_pointwise, PASS(x), PASS(w), PASS(y), SPACE_PASS sizes, plan, y_s EPILOGUE_PASS)
#endif

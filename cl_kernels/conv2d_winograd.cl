/* 3 x 3 convolution without stride by Winograd's F(2x2, 3x3) and F(4x4, 3x3): OUT x OUT results are computed from TILE
 * x TILE places of the source, TILE = OUT + 2. Transformed places and weights are multiplied point by point, as TILE x
 * TILE matrix products [tiles, inner channels] by [inner channels, channels], and the products are transformed back.
 * docs/layouts.md gives the interpolation points, the reasons, and the error bound. */
#define ALIGNED __attribute__((aligned(64)))
#define TILE    (OUT_SIDE + 2)
#define TAPS    (TILE * TILE)

#include "winograd_points.cl"

#ifdef WANT_conv2d_winograd_weights
/* Transforms weights to panels of BLOCK output channels: (panel, tap, inner channel, channel). A work-item transforms
 * SOME inner channels of a panel into private memory, and then writes each tap contiguously. Taps are a power of two
 * apart, so writing single lines of all of them would map to one set of each cache. by_row, by_inner: the weights'
 * strides; `turned`: windows are flipped; `past`: non-temporal stores. */
#define APARTS (SOME * BLOCK + 16)
#define ARGS                                                                                                   \
  ARG(const float, x), ARG(float, y), const int rows, const int inner, const int by_row, const int by_inner, \
      const int turned, const int past

/* Loads the nine weights of an inner channel for sixteen output channels, one per lane. */
static inline void FN(windows)(const __global float *x, int lanes, int by_row, int turned, float16 *w) {
  float16 k[9];
  if (lanes >= 16) {
    float8 low[8], high[8];
    float last[16] ALIGNED;
#pragma unroll
    for (int l = 0; l < 8; l++) {
      low[l] = vload8(0, x + l * by_row);
      high[l] = vload8(0, x + (l + 8) * by_row);
    }
#pragma unroll
    for (int l = 0; l < 16; l++) last[l] = x[l * by_row + 8];
    clade_turn(low);
    clade_turn(high);
#pragma unroll
    for (int i = 0; i < 8; i++) k[i] = (float16)(low[i], high[i]);
    k[8] = *(const float16 *)last;
  } else {
    float some[9][16] ALIGNED;
    for (int i = 0; i < 9; i++)
      for (int l = 0; l < 16; l++) some[i][l] = l < lanes ? x[l * by_row + i] : 0.0f;
#pragma unroll
    for (int i = 0; i < 9; i++) k[i] = *(const float16 *)some[i];
  }
#pragma unroll
  for (int i = 0; i < 9; i++) w[i] = turned ? k[8 - i] : k[i];
}

BODY(conv2d_winograd_weights_item)(const long item, ARGS) {
  const int pieces = (inner + SOME - 1) / SOME, panel = (int)(item / max(pieces, 1)), row = panel * BLOCK;
  if (pieces == 0 || row >= rows) return;
  USE(const float, x);
  USE(float, y);
  const int first = (int)(item % pieces) * SOME, some = min(SOME, inner - first);
  float lines[TAPS * APARTS] ALIGNED;
  for (int c = 0; c < some; c++)
    for (int l = 0; l < BLOCK; l += 16) {
      float16 w[9], lined[TILE][3];
      FN(windows)(x + (long)(row + l) * by_row + (long)(first + c) * by_inner, rows - row - l, by_row, turned, w);
#pragma unroll
      for (int j = 0; j < 3; j++) {
        const float16 one[3] = {w[j], w[3 + j], w[6 + j]};
        float16 u[TILE];
        FROM_WEIGHTS(u, one)
#pragma unroll
        for (int i = 0; i < TILE; i++) lined[i][j] = u[i];
      }
#pragma unroll
      for (int i = 0; i < TILE; i++) {
        float16 u[TILE];
        FROM_WEIGHTS(u, lined[i])
#pragma unroll
        for (int j = 0; j < TILE; j++) *(float16 *)(lines + (i * TILE + j) * APARTS + c * BLOCK + l) = u[j];
      }
    }
  y += ((long)panel * TAPS * inner + first) * BLOCK;
  for (int t = 0; t < TAPS; t++, y += (long)inner * BLOCK)
    for (int i = 0; i < some * BLOCK; i += 16) clade_past_f32(y + i, *(const float16 *)(lines + t * APARTS + i), past);
}

KERNEL(conv2d_winograd_weights)(ARGS) {
  FN(conv2d_winograd_weights_item)((long)get_global_id(0), PASS(x), PASS(y), rows, inner, by_row, by_inner, turned, past);
}
#undef ARGS
#undef APARTS

#endif

#ifdef WANT_conv2d_winograd
/* A work-item processes strips of tiles, numbered over all images, for some panels of channels. A transformed strip
 * stays in `source` while the panels are processed, some at a time: in private memory (SOURCE floats), or, with too
 * many channels for that, in the work-item's workspace, which its strips share and a shared cache holds. Products are
 * kept in `block` until they are transformed back. The register tile is PLACES tiles by a panel of channels, as in
 * `direct`.
 *
 * dims: images, channels, inner channels, height and width of the source and of the result. part: tiles of a strip;
 * channels of a work-item; panels at a time; source position of the first tap of the first result; strips of a
 * work-item. */
#define PANEL  (VECTORS * WIDTH)
#define HERE
#if SOURCE
#define KEPT
#define KEPT_ARG
#define KEPT_PASS
#else
#define KEPT __global
#define KEPT_ARG  , ARG(float, kept)
#define KEPT_PASS , PASS(kept)
#endif

#if COMMON_FIRST
#define PLACES_OF(name, space)                                                                             \
  APART static void COMMON(name)(const space float *x, int line, KEPT float *to, int apart) {              \
    for (int v = 0; v < 16; v += WIDTH) {                                                                  \
      VECTOR some[TILE][TILE];                                                                             \
      for (int j = 0; j < TILE; j++) {                                                                     \
        VECTOR d[TILE], t[TILE];                                                                           \
        _Pragma("unroll") for (int i = 0; i < TILE; i++) d[i] = VLOAD(0, x + i * line + j * 16 + v);       \
        FROM_PLACES(t, d)                                                                                  \
        _Pragma("unroll") for (int i = 0; i < TILE; i++) some[i][j] = t[i];                                \
      }                                                                                                    \
      for (int i = 0; i < TILE; i++) {                                                                     \
        VECTOR t[TILE];                                                                                    \
        FROM_PLACES(t, some[i])                                                                            \
        _Pragma("unroll") for (int j = 0; j < TILE; j++) VSTORE(t[j], 0, to + (i * TILE + j) * apart + v); \
      }                                                                                                    \
    }                                                                                                      \
  }
PLACES_OF(places_inside, __global)
PLACES_OF(places_copied, HERE)

/* Transforms a tile, for all blocks of channels; zeros outside of the source. */
APART static void COMMON(tile_in)(const __global float *x, int2 from, int2 size, int blocks, KEPT float *to, int apart) {
  const bool inside = from.x >= 0 && from.y >= 0 && from.x + TILE <= size.x && from.y + TILE <= size.y;
  x += (from.x * size.y + from.y) * 16;
  for (int b = 0; b < blocks; b++, x += size.x * size.y * 16, to += 16) {
    if (inside) {
      COMMON(places_inside)(x, size.y * 16, to, apart);
      continue;
    }
    float copy[TAPS * 16] ALIGNED;
    for (int i = 0; i < TILE; i++)
      for (int j = 0; j < TILE; j++) {
        const bool there = from.x + i >= 0 && from.x + i < size.x && from.y + j >= 0 && from.y + j < size.y;
        for (int v = 0; v < 16; v += WIDTH)
          VSTORE(there ? VLOAD(0, x + (i * size.y + j) * 16 + v) : (VECTOR)(0), 0, copy + (i * TILE + j) * 16 + v);
      }
    COMMON(places_copied)(copy, TILE * 16, to, apart);
  }
}

/* Sums over n inner channels for PLACES tiles and a panel. A few tiles use weights faster than memory delivers them, so
 * these are prefetched two pages ahead. For long strips each call prefetches a part of what is multiplied next: the
 * tiles behind these, and weights from `later` on. */
APART static void COMMON(multiply)(const __global float *w, const KEPT float *x, int pitch, int last, long n,
                               const __global float *later, float *tile) {
  VECTOR sum[PLACES][VECTORS];
  const KEPT float *from[PLACES];
#if !SOURCE
  const KEPT float *soon = x + PLACES * pitch;
#endif
#pragma unroll
  for (int p = 0; p < PLACES; p++) {
    from[p] = x + min(p, last) * pitch;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[p][v] = 0;
  }
#pragma unroll 2
  for (long k = 0; k < n; k++, w += PANEL) {
    VECTOR one[VECTORS];
#if SOURCE
#pragma unroll
    for (int v = 0; v < PANEL; v += 16) LATER(w + 2048 + v);
#else
    if (k % 2) {
      SOON(soon + k * 8);
      LATER(later + k * 8);
    }
#endif
#pragma unroll
    for (int v = 0; v < VECTORS; v++) one[v] = VLOAD(0, w + v * WIDTH);
#pragma unroll
    for (int p = 0; p < PLACES; p++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[p][v] = fma((VECTOR)(from[p][k]), one[v], sum[p][v]);
  }
#pragma unroll
  for (int p = 0; p < PLACES; p++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) VSTORE(sum[p][v], 0, tile + (p * VECTORS + v) * WIDTH);
}

/* Transforms the products of a tile and a panel back: (line, column, channel). */
APART static void COMMON(results)(const float *tile, int apart, float *to) {
  for (int v = 0; v < PANEL; v += WIDTH) {
    VECTOR some[OUT_SIDE][TILE];
    for (int j = 0; j < TILE; j++) {
      VECTOR m[TILE], y[OUT_SIDE];
#pragma unroll
      for (int i = 0; i < TILE; i++) m[i] = VLOAD(0, tile + (i * TILE + j) * apart + v);
      TO_RESULTS(y, m)
#pragma unroll
      for (int i = 0; i < OUT_SIDE; i++) some[i][j] = y[i];
    }
    for (int i = 0; i < OUT_SIDE; i++) {
      VECTOR y[OUT_SIDE];
      TO_RESULTS(y, some[i])
#pragma unroll
      for (int j = 0; j < OUT_SIDE; j++) VSTORE(y[j], 0, to + (i * OUT_SIDE + j) * PANEL + v);
    }
  }
}
#endif

/* The element is at batch * s5 + row / 16 * s4 + row % 16 * s6 + column * s7, in y and in the epilogue's operands. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_CHANNEL_ELEMENT(s)
#define EPILOGUE_LOAD16(T, e, s) \
  ((s).s6 ? LOAD16(T, e, EPILOGUE_ELEMENT(s)) : (float16)(LOAD(T, e, EPILOGUE_ELEMENT(s))))
#define OUT_ARGS \
  __global STORAGE(OUT) * y, const index8_t y_s, const index_t batch, const index_t row0, const index_t column0 EPILOGUE_ARGS
#define OUT_PASS y, y_s, batch, row0, column0 EPILOGUE_PASS

/* Stores the rows of a panel from `from` on, one by one. */
APART static void FN(finish_some)(const float *tile, int from, int rows, int2 many, int width, OUT_ARGS) {
  EPILOGUE_USE
  for (int i = 0; i < many.x * many.y; i++)
    for (int r = from; r < rows; r++) {
      const int line = i / many.y, place = i % many.y;
      const index_t row = row0 + r, column = column0 + line * width + place;
      const float i0 = tile[(line * OUT_SIDE + place) * PANEL + r];
      EPILOGUE
      STORE(OUT, y, EPILOGUE_ELEMENT(y_s), r);
    }
}
APART static void FN(finish)(const float *tile, int rows, int2 many, int width, OUT_ARGS) {
  int done = 0;
#if WIDE
  EPILOGUE_USE
  for (; done + 16 <= rows; done += 16)
    for (int line = 0; line < many.x; line++)
      for (int place = 0; place < many.y; place++) {
        const index_t row = row0 + done, column = column0 + line * width + place;
        const float16 i0 = vload16(0, tile + (line * OUT_SIDE + place) * PANEL + done);
        EPILOGUE16
        STORE16(OUT, y, EPILOGUE_ELEMENT(y_s), r);
      }
#endif
  if (done < rows) FN(finish_some)(tile, done, rows, many, width, OUT_PASS);
}

#define ARGS                                                                                                        \
  ARG(const float, x), ARG(const float, w), ARG(STORAGE(OUT), y) KEPT_ARG, const index8_t dims, const index8_t part, \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_winograd_item)(const int item, ARGS) {
  if (dims.s0 == 0 || part.s0 == 0) return;
  const int2 size = (int2)(dims.s3, dims.s4), result = (int2)(dims.s5, dims.s6);
  const int2 grid = (result + OUT_SIDE - 1) / OUT_SIDE;
  const int inner = dims.s2, blocks = (inner + 15) / 16, pitch = blocks * 16, each = grid.x * grid.y;
  const int strips = (dims.s0 * each + part.s0 - 1) / part.s0, shares = (strips + part.s5 - 1) / part.s5;
  const int row0 = item / shares * part.s1, rows = min((int)part.s1, (int)dims.s1 - row0);
  if (rows <= 0) return;
  USE(const float, x);
  USE(const float, w);
  USE(STORAGE(OUT), y);
#if SOURCE
  float source[SOURCE] ALIGNED;
#else
  USE(float, kept);
  __global float *source = kept + (long)item * TAPS * (part.s0 * pitch + 16);
#endif
  float block[BLOCK] ALIGNED, turned[OUT_SIDE * OUT_SIDE * PANEL] ALIGNED;
  w += (long)(row0 / PANEL) * TAPS * inner * PANEL;
  for (int strip = item % shares * part.s5; strip < min(strips, (int)(item % shares + 1) * (int)part.s5); strip++) {
    const int tile0 = strip * part.s0, tiles = min(part.s0, (index_t)(dims.s0 * each - tile0));
    /* odd numbers of cache lines, so that the taps of a tile are not in the same set of L1 */
    const int apart = tiles * pitch + 16, groups = (tiles + PLACES - 1) / PLACES, held = groups * PLACES * PANEL;
    for (int i = 0; i < tiles; i++) {
      const int t = tile0 + i, image = t / each, at = t % each;
      const int2 from = (int2)(at / grid.y, at % grid.y) * OUT_SIDE + (int2)(part.s3, part.s4);
      COMMON(tile_in)(x + image * blocks * size.x * size.y * 16, from, size, blocks, source + i * pitch, apart);
    }
    for (int first = 0; first < rows; first += part.s2 * PANEL) {
      const int panels = min((int)part.s2, (rows - first + PANEL - 1) / PANEL), taken = panels * held + 16;
      for (int t = 0; t < TAPS; t++)
        for (int p = 0; p < panels; p++)
          for (int g = 0; g < groups; g++) {
            const __global float *weights = w + ((first / PANEL + p) * TAPS + t) * inner * PANEL;
            COMMON(multiply)
            (weights, source + t * apart + g * PLACES * pitch, pitch, tiles - 1 - g * PLACES, inner,
             weights + inner * (PANEL + g * 8), block + t * taken + p * held + g * PLACES * PANEL);
          }
      for (int i = 0; i < tiles; i++) {
        const int t = tile0 + i, image = t / each, at = t % each;
        const int2 to = (int2)(at / grid.y, at % grid.y) * OUT_SIDE, many = min(result - to, (int2)(OUT_SIDE));
        for (int p = 0; p < panels; p++) {
          COMMON(results)(block + p * held + i * PANEL, taken, turned);
          FN(finish)
          (turned, min(rows - first - p * PANEL, PANEL), many, result.y, y + image * y_s.s5, y_s, image,
           row0 + first + p * PANEL, to.x * result.y + to.y EPILOGUE_PASS);
        }
      }
    }
  }
}

GROUP(1, 1, 1) KERNEL(conv2d_winograd)(ARGS) {
  FN(conv2d_winograd_item)((int)get_global_id(0), PASS(x), PASS(w), PASS(y) KEPT_PASS, dims, part, y_s EPILOGUE_PASS);
}
#undef ARGS
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_EPILOGUE_ELEMENT(s)
#undef EPILOGUE_AT
#undef EPILOGUE_LOAD16
#undef OUT_ARGS
#undef OUT_PASS
#undef PANEL
#undef HERE
#undef KEPT
#undef KEPT_ARG
#undef KEPT_PASS
#undef PLACES_OF
#endif

/* ---- gradient with respect to the weights: both operands are transformed, multiplied tap by tap, and transformed back
 * ---- */
#ifdef WANT_conv2d_winograd_taken
/* Transforms tiles of TAKEN x TAKEN places, four apart, to (tap, block of 16 channels, tile, channel). A work-item does
 * `piece` tiles of a block. dims: images, blocks, height and width of an image, tiles along both axes, first tile and
 * number of tiles; first: position of the first tile. */
#if TAKEN == 6
#define TAKE_IN FROM_PLACES
#else
#define TAKE_IN FROM_DERIVATIVES
#endif
APART static void FN(take)(const __global float *x, int2 from, int2 size, __global float *to, long apart) {
  const bool inside = from.x >= 0 && from.y >= 0 && from.x + TAKEN <= size.x && from.y + TAKEN <= size.y;
  x += (from.x * size.y + from.y) * 16;
  for (int v = 0; v < 16; v += WIDTH) {
    VECTOR some[TILE][TAKEN];
    for (int j = 0; j < TAKEN; j++) {
      VECTOR d[TAKEN], t[TILE];
#pragma unroll
      for (int i = 0; i < TAKEN; i++) {
        const bool there = inside || (from.x + i >= 0 && from.x + i < size.x && from.y + j >= 0 && from.y + j < size.y);
        d[i] = there ? VLOAD(0, x + (i * size.y + j) * 16 + v) : (VECTOR)(0);
      }
      TAKE_IN(t, d)
#pragma unroll
      for (int i = 0; i < TILE; i++) some[i][j] = t[i];
    }
    for (int i = 0; i < TILE; i++) {
      VECTOR t[TILE];
      TAKE_IN(t, some[i])
#pragma unroll
      for (int j = 0; j < TILE; j++) VSTORE(t[j], 0, to + (i * TILE + j) * apart + v);
    }
  }
}

#define ARGS ARG(const float, x), ARG(float, y), const index8_t dims, const index8_t first
BODY(conv2d_winograd_taken_item)(const long item, ARGS) {
  const int blocks = dims.s1, tiles = dims.s7, piece = first.s2, across = max((int)dims.s5, 1);
  if (blocks == 0 || item / blocks * piece >= tiles) return;
  USE(const float, x);
  USE(float, y);
  const int block = (int)(item % blocks), begin = (int)(item / blocks) * piece, each = dims.s4 * across;
  const int2 size = (int2)(dims.s2, dims.s3);
  for (int i = begin; i < min(begin + piece, tiles); i++) {
    const int t = dims.s6 + i, image = t / each, at = t - image * each;
    const int2 from = (int2)(at / across, at % across) * OUT_SIDE + (int2)(first.s0, first.s1);
    FN(take)(x + ((long)image * blocks + block) * size.x * size.y * 16, from, size, y + ((long)block * tiles + i) * 16,
             (long)blocks * tiles * 16);
  }
}

KERNEL(conv2d_winograd_taken)(ARGS) {
  FN(conv2d_winograd_taken_item)((long)get_global_id(0), PASS(x), PASS(y), dims, first);
}
#undef ARGS
#undef TAKE_IN
#endif

#ifdef WANT_conv2d_winograd_products
/* For each tap, sum[row, lane] is the sum over all tiles of a[row] times b[lane], added to the existing sum if `add`.
 * The register tile is ROWS rows by BLOCKS blocks of lanes. A work-item computes a block of rows and lanes of a tap,
 * DEPTH tiles at a time, so that a panel of lanes stays in L1 while the rows are processed. dims: rows, lanes, tiles;
 * rows and lanes of a work-item; add. Rows are whole blocks of 16, lanes whole multiples of BLOCKS blocks. */
#define VECTORS (BLOCKS * 16 / WIDTH)
#define DEPTH   192
APART static void FN(sums)(const __global float *a, const __global float *b, long apart, int n, bool add, long pitch,
                           __global float *to) {
  VECTOR sum[ROWS][VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    SOON(to + r * pitch);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[r][v] = (VECTOR)(0);
  }
  for (int p = 0; p < n; p++) {
    VECTOR one[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) one[v] = VLOAD(0, b + v * WIDTH / 16 * apart + p * 16 + v * WIDTH % 16);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[r][v] = fma((VECTOR)(a[p * 16 + r]), one[v], sum[r][v]);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      __global float *own = to + r * pitch + v * WIDTH;
      VSTORE(add ? VLOAD(0, own) + sum[r][v] : sum[r][v], 0, own);
    }
}

#define ARGS ARG(const float, a), ARG(const float, b), ARG(float, sum), const index8_t dims
BODY(conv2d_winograd_products_item)(const long item, ARGS) {
  const long all_rows = dims.s0, all_lanes = dims.s1, tiles = dims.s2, high = dims.s3, wide = dims.s4;
  if (high == 0 || wide == 0) return;
  const long down = (all_rows + high - 1) / high, across = (all_lanes + wide - 1) / wide;
  const long tap = item / (down * across), row0 = item % down * high, lane0 = item / down % across * wide;
  if (tap >= TAPS) return;
  USE(const float, a);
  USE(const float, b);
  USE(float, sum);
  const long rows = min(row0 + high, all_rows), lanes = min(lane0 + wide, all_lanes);
  a += tap * all_rows * tiles;
  b += tap * all_lanes * tiles;
  sum += tap * all_rows * all_lanes;
  for (long first = 0; first < tiles; first += DEPTH)
    for (long lane = lane0; lane < lanes; lane += BLOCKS * 16)
      for (long row = row0; row < rows; row += ROWS)
        FN(sums)
  (a + (row / 16 * tiles + first) * 16 + row % 16, b + (lane / 16 * tiles + first) * 16, tiles * 16,
   (int)min((long)DEPTH, tiles - first), dims.s5 || first > 0, all_lanes, sum + row * all_lanes + lane);
}

KERNEL(conv2d_winograd_products)(ARGS) {
  FN(conv2d_winograd_products_item)((long)get_global_id(0), PASS(a), PASS(b), PASS(sum), dims);
}
#undef ARGS
#undef VECTORS
#undef DEPTH
#endif

#ifdef WANT_conv2d_winograd_back
/* Transforms the sums of all taps back to windows. A work-item does 16 channels of a row. rows and inner: sizes of w;
 * all_rows and lanes: sizes of `sum`. */
#define ARGS \
  ARG(const float, sum), ARG(float, w), const index_t rows, const index_t inner, const index_t all_rows, const index_t lanes
BODY(conv2d_winograd_back_item)(const long item, ARGS) {
  const int blocks = lanes / 16;
  if (blocks == 0 || item >= (long)rows * blocks) return;
  USE(const float, sum);
  USE(float, w);
  const int row = (int)(item / blocks), c = (int)(item % blocks) * 16;
  const long apart = (long)all_rows * lanes;
  float16 some[3][TILE];
  float lane[9][16];
  sum += (long)row * lanes + c;
  for (int j = 0; j < TILE; j++) {
    float16 m[TILE], y[3];
    for (int i = 0; i < TILE; i++) m[i] = LOAD16(f32, sum, (i * TILE + j) * apart);
    TO_WEIGHTS(y, m)
    for (int i = 0; i < 3; i++) some[i][j] = y[i];
  }
  for (int i = 0; i < 3; i++) {
    float16 y[3];
    TO_WEIGHTS(y, some[i])
    for (int j = 0; j < 3; j++) vstore16(y[j], 0, lane[i * 3 + j]);
  }
  w += ((long)row * inner + c) * 9;
  for (int l = 0; l < min(16, (int)inner - c); l++)
    for (int k = 0; k < 9; k++) w[l * 9 + k] = lane[k][l];
}

KERNEL(conv2d_winograd_back)(ARGS) {
  FN(conv2d_winograd_back_item)((long)get_global_id(0), PASS(sum), PASS(w), rows, inner, all_rows, lanes);
}
#undef ARGS
#endif
#undef ALIGNED
#undef TILE
#undef TAPS
#undef A
#undef B
#undef FROM_PLACES
#undef FROM_WEIGHTS
#undef TO_RESULTS
#undef FROM_DERIVATIVES
#undef TO_WEIGHTS
#undef AT_POINTS
#undef FIRST_TWO

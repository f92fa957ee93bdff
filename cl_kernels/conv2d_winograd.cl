/* 3 x 3 convolution without stride by Winograd's F(2x2, 3x3) and F(4x4, 3x3): OUT x OUT results are computed from TILE
 * x TILE places of the source, TILE = OUT + 2. Transformed places and weights are multiplied point by point, as TILE x
 * TILE matrix products [tiles, inner channels] by [inner channels, channels], and the products are transformed back.
 * docs/layouts.md gives the interpolation points, the reasons, and the error bound. */
#define TILE    (OUT_SIDE + 2)
#define TAPS    (TILE * TILE)

#include "winograd_points.cl"

#ifdef WANT_conv2d_winograd_weights
/* Transforms weights to panels of BLOCK output channels: (panel, tap, inner channel, channel). A work-item transforms
 * SOME inner channels of a panel into private memory, and then writes each tap contiguously. Taps are a power of two
 * apart, so writing single lines of all of them would map to one set of each cache. sizes: rows, inner channels, the
 * weights' strides for both, height and width (3), whether windows are flipped, and whether stores are non-temporal. */
#define APARTS (SOME * BLOCK + 16)
#define ARGS ARG(const float, x), ARG(float, y), const index8_t sizes

BODY(conv2d_winograd_weights_item)(const long item, ARGS) {
  const int rows = sizes.s0, inner = sizes.s1, pieces = (inner + SOME - 1) / SOME;
  const int panel = (int)(item / max(pieces, 1)), row = panel * BLOCK;
  if (pieces == 0 || row >= rows) return;
  USE(const float, x);
  USE(float, y);
  const int first = (int)(item % pieces) * SOME, some = min(SOME, inner - first);
  float lines[TAPS * APARTS] ALIGNED;
  int at[BLOCK];
  for (int l = 0; l < BLOCK; l++) at[l] = min(row + l, rows - 1) * (int)sizes.s2;
  for (int c = 0; c < some; c++)
    for (int b = 0; b < BLOCK; b += 16) { /* sixteen output channels, one per lane, with nine weights each */
      const __global float *from = x + (first + c) * sizes.s3;
      float w[9][16] ALIGNED;
      for (int h = 0; h < 16; h += 8) TURN_EIGHT(vload8(0, from + at[b + h + l]), vstore8(eight[l], 0, w[l] + h))
      UNROLLED(l, 16) w[8][l] = from[at[b + l] + 8];
      TRANSFORM(UNROLLED, float16, FROM_WEIGHTS, 3, TILE, *(float16 *)w[sizes.s6 ? 8 - i * 3 - j : i * 3 + j],
                *(float16 *)(lines + (i * TILE + j) * APARTS + c * BLOCK + b) = t[j])
    }
  y += ((long)panel * TAPS * inner + first) * BLOCK;
  for (int t = 0; t < TAPS; t++, y += (long)inner * BLOCK)
    for (int i = 0; i < some * BLOCK; i += 16) clade_past_f32(y + i, *(const float16 *)(lines + t * APARTS + i), sizes.s7);
}

ITEM_KERNEL(conv2d_winograd_weights, PASS(x), PASS(y), sizes)
#endif

/* ---- tiles of the source ---- TAKEN x TAKEN places are transformed to TILE x TILE values. */
#if TAKEN == TILE
#define TAKE_IN FROM_PLACES
#else
#define TAKE_IN FROM_DERIVATIVES
#endif
#if SOURCE
#define KEPT
#define KEPT_ARG
#define KEPT_PASS
#else
#define KEPT __global
#define KEPT_ARG  , ARG(float, kept)
#define KEPT_PASS , PASS(kept)
#endif
#if TAKEN && COMMON_FIRST
#define TAKE(at) \
  TRANSFORM(TIMES, VECTOR, TAKE_IN, TAKEN, TILE, at, VSTORE(t[j], 0, to + (i * TILE + j) * apart + v))
#define PLACE VLOAD(0, x + (i * size.y + j) * 16 + v)
/* Transforms a tile, for all blocks of channels; zeros outside of the source. */
APART static void COMMON(tile_in)(const __global float *x, int2 from, int2 size, int blocks, KEPT float *to, int apart) {
  const bool inside = from.x >= 0 && from.y >= 0 && from.x + TAKEN <= size.x && from.y + TAKEN <= size.y;
  x += (from.x * size.y + from.y) * 16;
  for (int b = 0; b < blocks; b++, x += size.x * size.y * 16, to += 16)
    for (int v = 0; v < 16; v += WIDTH)
      if (inside)
        TAKE(PLACE)
      else
        TAKE((uint)(from.x + i) < (uint)size.x && (uint)(from.y + j) < (uint)size.y ? PLACE : (VECTOR)(0))
}
#endif

#ifdef WANT_conv2d_winograd
/* A work-item processes strips of tiles, numbered over all images, for some panels of channels. A transformed strip
 * stays in `source` while the panels are processed, some at a time: in private memory (SOURCE floats), or, with too
 * many channels for that, in the work-item's workspace, which its strips share and a shared cache holds. Products are
 * kept in `block` until they are transformed back. The register tile is PLACES tiles by a panel of channels, as in
 * `direct`.
 *
 * dims: images, channels, inner channels, height and width of the source and of the result. part: tiles of a strip;
 * channels of a work-item; source position of the first tap of the first result; strips of a work-item. */
#define PANEL (VECTORS * WIDTH)
#include "conv2d_result.cl"

#if COMMON_FIRST
/* Sums over n inner channels for PLACES tiles and a panel. A few tiles use weights faster than memory delivers them, so
 * these are prefetched two pages ahead. For long strips each call prefetches a part of what is multiplied next: the
 * tiles behind these, and weights from `later` on. */
APART static void COMMON(multiply)(const __global float *w, const KEPT float *x, int pitch, int last, long n,
                               const __global float *later, float *tile) {
  VECTOR sum[PLACES][VECTORS];
  const KEPT float *from[PLACES], *soon = x + PLACES * pitch;
  UNROLLED(p, PLACES) from[p] = x + min(p, last) * pitch;
  EACH_SUM(PLACES) sum[r][v] = 0;
#pragma unroll 2
  for (long k = 0; k < n; k++, w += PANEL) {
    if (!later) {
      UNROLLED(v, PANEL / 16) LATER(w + 2048 + v * 16);
    } else if (k % 2) {
      SOON(soon + k * 8);
      LATER(later + k * 8);
    }
    MULTIPLY_TILE(PLACES, from[r][k], VLOAD(v, w))
  }
  EACH_SUM(PLACES) VSTORE(sum[r][v], r * VECTORS + v, tile);
}

/* Transforms the products of a tile and a panel back: (line, column, channel). */
APART static void COMMON(results)(const float *tile, int apart, float *to) {
  for (int v = 0; v < PANEL; v += WIDTH)
    TRANSFORM(TIMES, VECTOR, TO_RESULTS, TILE, OUT_SIDE, VLOAD(0, tile + (i * TILE + j) * apart + v),
              VSTORE(t[j], 0, to + (i * OUT_SIDE + j) * PANEL + v))
}
#endif

#define ARGS                                                                                                        \
  ARG(const float, x), ARG(const float, w), ARG(STORAGE(OUT), y) KEPT_ARG, const index8_t dims, const index8_t part, \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_winograd_item)(const int item, ARGS) {
  if (dims.s0 == 0 || part.s0 == 0) return;
  const int2 size = (int2)(dims.s3, dims.s4), result = (int2)(dims.s5, dims.s6);
  const int2 grid = (result + OUT_SIDE - 1) / OUT_SIDE;
  const int inner = dims.s2, blocks = (inner + 15) / 16, pitch = blocks * 16, each = grid.x * grid.y;
  const int strips = (dims.s0 * each + part.s0 - 1) / part.s0, shares = (strips + part.s4 - 1) / part.s4;
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
  for (int strip = item % shares * part.s4; strip < min(strips, (int)(item % shares + 1) * (int)part.s4); strip++) {
    const int tile0 = strip * part.s0, tiles = min(part.s0, (index_t)(dims.s0 * each - tile0));
    /* odd numbers of cache lines, so that the taps of a tile are not in the same set of L1 */
    const int apart = tiles * pitch + 16, groups = (tiles + PLACES - 1) / PLACES, held = groups * PLACES * PANEL;
    const int at_once = max((BLOCK / TAPS - 16) / held, 1); /* panels */
    for (int i = 0; i < tiles; i++) {
      const int t = tile0 + i, image = t / each, at = t % each;
      const int2 from = (int2)(at / grid.y, at % grid.y) * OUT_SIDE + (int2)(part.s2, part.s3);
      COMMON(tile_in)(x + image * blocks * size.x * size.y * 16, from, size, blocks, source + i * pitch, apart);
    }
    for (int first = 0; first < rows; first += at_once * PANEL) {
      const int panels = min(at_once, (rows - first + PANEL - 1) / PANEL), taken = panels * held + 16;
      for (int t = 0; t < TAPS; t++)
        for (int p = 0; p < panels; p++)
          for (int g = 0; g < groups; g++) {
            const __global float *weights = w + ((first / PANEL + p) * TAPS + t) * inner * PANEL;
            COMMON(multiply)
            (weights, source + t * apart + g * PLACES * pitch, pitch, tiles - 1 - g * PLACES, inner,
             groups > 3 ? weights + inner * (PANEL + g * 8) : 0, block + t * taken + p * held + g * PLACES * PANEL);
          }
      for (int i = 0; i < tiles; i++) {
        const int t = tile0 + i, image = t / each, at = t % each;
        const int2 to = (int2)(at / grid.y, at % grid.y) * OUT_SIDE, many = min(result - to, (int2)(OUT_SIDE));
        for (int p = 0; p < panels; p++) {
          COMMON(results)(block + p * held + i * PANEL, taken, turned);
          FN(finish)
          (turned, 1, OUT_SIDE * PANEL, PANEL, min(rows - first - p * PANEL, PANEL), many, (int2)(result.y, 1), true,
           y + image * y_s.s5, y_s, image, row0 + first + p * PANEL, to.x * result.y + to.y EPILOGUE_PASS);
        }
      }
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_winograd, PASS(x), PASS(w), PASS(y) KEPT_PASS, dims, part, y_s EPILOGUE_PASS)
#endif

/* ---- gradient by the weights: both operands are transformed, multiplied tap by tap, and transformed back ---- */
#ifdef WANT_conv2d_winograd_taken
/* Transforms tiles of TAKEN x TAKEN places, four apart, to (tap, block of 16 channels, tile, channel). A work-item does
 * `piece` tiles of a block. dims: images, blocks, height and width of an image, tiles along both axes, first tile and
 * number of tiles; first: position of the first tile. */
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
    COMMON(tile_in)(x + ((long)image * blocks + block) * size.x * size.y * 16, from, size, 1,
                    y + ((long)block * tiles + i) * 16, blocks * tiles * 16);
  }
}

ITEM_KERNEL(conv2d_winograd_taken, PASS(x), PASS(y), dims, first)
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
  UNROLLED(r, ROWS) SOON(to + r * pitch);
  EACH_SUM(ROWS) sum[r][v] = (VECTOR)(0);
  for (int p = 0; p < n; p++)
    MULTIPLY_TILE(ROWS, a[p * 16 + r], VLOAD(0, b + v * WIDTH / 16 * apart + p * 16 + v * WIDTH % 16))
  EACH_SUM(ROWS) {
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

ITEM_KERNEL(conv2d_winograd_products, PASS(a), PASS(b), PASS(sum), dims)
#endif

#ifdef WANT_conv2d_winograd_back
/* Transforms the sums of all taps back to windows. A work-item does 16 channels of a row. sizes: rows and inner channels
 * of w, then of `sum`. */
#define ARGS ARG(const float, sum), ARG(float, w), const index8_t sizes
BODY(conv2d_winograd_back_item)(const long item, ARGS) {
  const int blocks = sizes.s3 / 16;
  if (blocks == 0 || item >= (long)sizes.s0 * blocks) return;
  USE(const float, sum);
  USE(float, w);
  const int row = (int)(item / blocks), c = (int)(item % blocks) * 16;
  const long apart = (long)sizes.s2 * sizes.s3;
  float lane[9][16];
  sum += (long)row * sizes.s3 + c;
  TRANSFORM(TIMES, float16, TO_WEIGHTS, TILE, 3, LOAD16(f32, sum, (i * TILE + j) * apart),
            vstore16(t[j], 0, lane[i * 3 + j]))
  w += ((long)row * sizes.s1 + c) * 9;
  for (int l = 0; l < min(16, (int)sizes.s1 - c); l++)
    for (int k = 0; k < 9; k++) w[l * 9 + k] = lane[k][l];
}

ITEM_KERNEL(conv2d_winograd_back, PASS(sum), PASS(w), sizes)
#endif

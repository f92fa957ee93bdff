/* 1 x 1 convolution without stride, where image and result are in blocks of 16 channels: a matrix product of places by
 * inner channels, without copies. */
#ifdef WANT_conv2d_flat
/* For CPUs with vectors of WIDTH floats, which hold channels of the result. The register tile is PLACES places by a
 * panel of channels. The places of a tile are contiguous in a block, 16 floats apart, so that one register and constant
 * offsets address them all; `direct` needs a register per place. A step of the inner axis broadcasts one value per
 * place and loads one vector of weights per vector of the panel, both in place.
 *
 * A work-item computes some tiles of all images by some panels. Its part of the image stays in L2; the first panel
 * prefetches it one tile ahead. While a panel is multiplied, its tiles prefetch the next one.
 *
 * sizes: images, rows, inner channels, places of an image. plan: parts of the panels; tiles of a work-item. */
#define OUT   f32
#define PANEL (VECTORS * WIDTH)
#include "conv2d_result.cl"

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
      _Pragma("clang loop unroll(disable)") for (long k = 0; k < 16; k++, w += PANEL)                            \
        MULTIPLY_TILE(places, x[r * 16 + k], VLOAD(v, w))                                                        \
    }                                                                                                            \
    EACH_SUM(places) VSTORE(sum[r][v], r * VECTORS + v, tile);                                                   \
  }
TILE(whole, PLACES)
TILE(half, (PLACES / 2))

#define ARGS                                                                                                    \
  ARG(const STORAGE(f32), x), ARG(const STORAGE(f32), w), ARG(STORAGE(f32), y), const index8_t sizes, const index8_t plan, \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_flat_item)(const int item, ARGS) {
  const int all_rows = sizes.s1, inner = sizes.s2, plane = sizes.s3, runs = inner / 16, down = plan.s0;
  if (down == 0) return;
  const int panels = (all_rows + PANEL - 1) / PANEL, tiles = (plane + PLACES - 1) / PLACES;
  const int panel0 = (int)((long)panels * (item % down) / down), panel1 = (int)((long)panels * (item % down + 1) / down);
  const int tile0 = item / down * (int)plan.s1, tile1 = min(tile0 + (int)plan.s1, tiles * (int)sizes.s0);
  USE(const STORAGE(f32), x);
  USE(const STORAGE(f32), w);
  USE(STORAGE(f32), y);
  float tile[PLACES * PANEL] ALIGNED;
  for (int p = panel0; p < panel1; p++) {
    const int row0 = p * PANEL, rows = min(PANEL, all_rows - row0);
    const bool first = p == panel0;
    const __global float *from = w + p * inner * PANEL, *next = w + (p + 1) % panels * inner * PANEL;
    const int asking = max(tile1 - tile0 - (int)first, 1), lines = (PANEL + asking - 1) / asking;
    for (int t = tile0; t < tile1; t++) {
      const int batch = t / tiles, column0 = t % tiles * PLACES, columns = min(PLACES, plane - column0);
      const bool few = columns <= PLACES / 2, own = first && t == tile0;
      const int behind = (few ? PLACES / 2 : PLACES) - columns; /* the last tile ends with the image */
      const __global float *image = x + batch * inner * plane + (column0 - behind) * 16;
      const __global float *ahead = own ? from + 2048 : next;
      __global float *to = y + batch * y_s.s5;
      FN(ask)(rows, columns, to, y_s, batch, row0, column0 EPILOGUE_PASS);
      if (few)
        FN(half)(from, image, plane * 16, runs, ahead, own ? PANEL : lines, first, tile);
      else
        FN(whole)(from, image, plane * 16, runs, ahead, own ? PANEL : lines, first, tile);
      if (!own) next += lines * runs * 16;
      FN(finish)(tile + behind * PANEL, 1, 0, PANEL, rows, (int2)(1, columns), (int2)(0, 1), true, to, y_s, batch, row0,
                 column0 EPILOGUE_PASS);
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_flat, PASS(x), PASS(w), PASS(y), sizes, plan, y_s EPILOGUE_PASS)
#endif

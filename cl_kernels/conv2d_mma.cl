/* Convolution of bytes and bf16 by CPUs' units that multiply words (dot_units.cl): forward, and for bf16 the derivative
 * by the data. The result is in blocks of 16 channels, and so is the image, except that of a first layer (DENSE), whose
 * words are assembled from planes. WORDS: words per pixel and block, or per pixel of a dense image.
 *
 * A tile of sums (mma_tile.cl) has pieces of PIECE neighboring pixels. Without TILES,
 * pixels of a piece are WORDS words apart, so that one register plus constants addresses a whole piece. With TILES, a
 * piece is a tile of PIECE lines, there are two, and an instruction takes part.s7 words of the inner axis, which divide
 * it; words of a pixel are contiguous in the copy, which is made for all windows.
 *
 * A work-item processes strips: some pieces of an image, or of several whole images, by some panels, for one phase of the
 * result (conv2d_phase.cl). The input of a strip is copied to `space` with zero padding, block by block; pixels of a line
 * are grouped by their remainder modulo mul, so that neighbors stay neighbors for any stride. 1 x 1 windows read the
 * image in place (`bare`).
 *
 * dims and map are those of conv2d.cl. taps: height and width of the window. part: pieces of an image in a strip, parts
 * of the panels, work-items, words of `space` per work-item, whether the image is read in place, images of a strip; of
 * TILES, words from a pixel of the copy to the next, and words per instruction. */
#define PIXEL         (TILES ? pixel : WORDS)
#define BY_PLACE      (TILES ? line : WORDS)
#define BY_WORD       1
#define WHOLE_natural 0
#define WHOLE_whole   1
#define WHOLE_real    0
#define WHOLE         CLADE_PASTE(WHOLE_, CLADE_KIND(T))
#define SIGNED        (WHOLE && TILES)
#define FLIP          0u
#include "dot_units.cl"
#include "mma_tile.cl"
#include "conv2d_result.cl"
/* i8 images become u8 by flipping the sign bit (+128), padding included; sums start at minus 128 times the weights' sums.
 * Tiles take i8. */
#define TURNED        (WHOLE && !TILES ? 0x80808080u : 0u)

/* Initial sums: minus what the flipped sign bit of x adds to them. */
APART static void FN(begin)(const __global uint *w, const int words, SUM *start) {
  SUMS less[VECTORS] = {(SUMS)(0), (SUMS)(0)};
#if INTEGER && !TILES
  for (int k = 0; TURNED && k < words; k++, w += PANEL) UNROLLED(v, VECTORS) DOT(less[v], TURNED, vload16(v, w));
#endif
  UNROLLED(v, VECTORS) vstore16((SUMS)(0) - less[v], v, start);
}

#if DENSE
/* One word of up to QUAD planes at the same pixel. */
static inline uint FN(word)(const __global RAW *x, const int plane, const int channels) {
  uint word = 0;
  for (int j = 0; j < QUAD; j++) word |= j < channels ? (uint)x[j * plane] << SHIFT * j : 0u;
  return word;
}
#endif

/* Copies one source line from column `low` on, as `mul` parts of half_line pixels, one for each remainder of the column modulo
 * `mul`: of one block, or of all channels of a dense image. `in`: the image has that line. */
APART static void FN(copy_line)(const __global RAW *x, const int plane, const int channels, const int size, const bool in,
                                const int low, const int mul, const int half_line, const int pixel, __global uint *to) {
  for (int part = 0; part < mul; part++)
    for (int i = 0, at = low + part; i < half_line; i++, at += mul, to += PIXEL) {
      const bool there = in && (uint)at < (uint)size;
#if DENSE
      for (int k = 0; k < WORDS; k++)
        to[k] = (there ? FN(word)(x + k * QUAD * plane + at, plane, channels - k * QUAD) : 0u) ^ TURNED;
#else
      CLADE_PASTE(uint, WORDS) words = TURNED;
      if (there) words ^= CLADE_PASTE(vload, WORDS)(at, (const __global uint *)x);
      CLADE_PASTE(vstore, WORDS)(words, 0, to);
#endif
    }
}

#define ARGS                                                                                                      \
  ARG(const STORAGE(T), x), ARG(const STORAGE(TB), w), ARG(STORAGE(OUT), y), ARG(uint, space), const index8_t dims, \
      const index8_t taps, const index8_t map, const index8_t part, const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_mma_item)(const int item, ARGS) {
  if (part.s0 == 0 || dims.s0 == 0) return;
  const int2 div = (int2)(map.s3, map.s7), delta = (int2)(map.s2, map.s6), mul = (int2)(map.s0, map.s4);
  const int2 add = (int2)(map.s1, map.s5), size = (int2)(dims.s4, dims.s5), result = (int2)(dims.s6, dims.s7);
  const int phases = div.x * div.y, rows = dims.s2, panels = (rows + PANEL - 1) / PANEL;
  const int inner = (dims.s3 + QUAD - 1) / QUAD, blocks = (inner + WORDS - 1) / WORDS, plane = size.x * size.y;
  const int2 most = (result + div - 1) / div;
  const int across = (most.y + PIECE - 1) / PIECE, cuts = (most.x * across + (int)part.s0 - 1) / (int)part.s0;
  const int turns = (dims.s0 + part.s5 - 1) / part.s5;
  const long strips = (long)turns * phases * cuts * part.s1;
  const bool bare = part.s4;
  const int pixel = part.s6, step = part.s7;
  USE(const STORAGE(T), x);
  USE(const STORAGE(TB), w);
  USE(STORAGE(OUT), y);
  USE(uint, space);
  SUM tile[PLACES * PANEL] ALIGNED, start[PANEL] ALIGNED;
  int tap[MOST_TAPS], skip[MOST_TAPS];
  space += item * part.s3;
  BEGIN_TILES(PIECE, step);
  for (int s = (int)(strips * item / part.s2); s < (int)(strips * (item + 1) / part.s2); s++) {
    const int cut = s % cuts, phase = s / cuts % phases, batch0 = s / cuts / phases % turns * part.s5;
    const int down = s / cuts / phases / turns, images = min((int)part.s5, (int)dims.s0 - batch0);
    const int panel0 = (int)((long)panels * down / part.s1), panel1 = (int)((long)panels * (down + 1) / part.s1);
    const int2 first = (int2)(phase / div.y, phase % div.y), grid = (result - first + div - 1) / div;
    const int piece0 = cut * (int)part.s0, piece1 = min(piece0 + (int)part.s0, grid.x * across);
    if (piece0 >= piece1) continue;
    const int line0 = piece0 / across, lines = (piece1 - 1) / across + 1 - line0;
    int count = 0;
    int2 low = (int2)(INT_MAX), high = (int2)(INT_MIN);
    for (int t = 0; t < taps.s0 * taps.s1; t++) {
      const int2 to = first * mul + add + (int2)(t / (int)taps.s1, t % (int)taps.s1) * delta;
      if (to.x % div.x || to.y % div.y) continue;
      tap[count++] = t;
      low = min(low, to / div);
      high = max(high, to / div);
    }
    const int2 held = count == 0 ? (int2)(0)
                                : (int2)((lines - 1) * mul.x + high.x - low.x + 1,
                                         max(grid.y, PIECE) + (high.y - low.y) / mul.y);
    const int pitch = bare ? size.y : held.y * mul.y;
    for (int t = 0; t < count; t++) {
      const int2 to = (first * mul + add + (int2)(tap[t] / (int)taps.s1, tap[t] % (int)taps.s1) * delta) / div - low;
      skip[t] = bare ? 0 : (to.x * pitch + to.y % mul.y * held.y + to.y / mul.y) * PIXEL;
    }
    const __global uint *source = space;
    const int lanes = DENSE ? (int)dims.s3 : blocks * WORDS * QUAD;
    const long apart = TILES ? WORDS : (long)(bare ? plane : held.x * pitch) * WORDS;
    const long next = TILES ? (long)(held.x * pitch) * PIXEL : apart * blocks;
    if (bare) source = (const __global uint *)((const __global RAW *)x + (long)batch0 * lanes * plane);
    for (int i = 0; !bare && count && i < images * blocks; i++)
      for (int h = 0; h < held.x; h++) {
        const int from = line0 * mul.x + low.x + h, b = i % blocks, side = DENSE ? 1 : WORDS * QUAD;
        const bool in = from >= 0 && from < size.x;
        FN(copy_line)
        ((const __global RAW *)x + (long)(batch0 + i / blocks) * lanes * plane +
             (b * plane + (in ? from : 0) * size.y) * side,
         plane, dims.s3, size.y, in, low.y, mul.y, held.y, pixel,
         space + i / blocks * next + b * apart + h * pitch * PIXEL);
      }
    const int own = piece1 - piece0, all = own * images;
    for (int p = panel0; p < panel1; p++) {
      const int w_tap = inner * PANEL, row0 = p * PANEL, there = min(PANEL, rows - row0);
      const __global uint *weights = (const __global uint *)w + (long)p * taps.s0 * taps.s1 * w_tap;
      FN(begin)(weights, taps.s0 * taps.s1 * inner, start);
      for (int i = 0; i < all; i += PIECES) {
        int at[PIECES], goal[PIECES], behind[PIECES], many[PIECES], batch[PIECES];
        for (int k = 0; k < PIECES; k++) { /* past the end: repeats the last piece and stores nothing */
          const int n = min(i + k, all - 1), image = n / own, at_piece = piece0 + n - image * own;
          const int line = at_piece / across, left = (at_piece - line * across) * PIECE;
          const int begin = max(min(left, grid.y - PIECE), 0); /* the last piece ends with the line */
          at[k] = (int)(image * next) + ((line - (bare ? 0 : line0)) * mul.x * pitch + begin) * PIXEL;
          behind[k] = left - begin;
          many[k] = i + k < all ? min(grid.y - left, PIECE) : 0;
          goal[k] = (first.x + line * div.x) * result.y + first.y + left * div.y;
          batch[k] = batch0 + image;
        }
        FN(sum_tile)(weights, w_tap, source, at, apart, count, tap, skip, inner, start, pixel, step, tile);
        for (int k = 0; k < PIECES; k++)
          FN(finish)
        (tile + (k * PIECE + behind[k]) * PANEL, 1, 0, PANEL, there, (int2)(1, many[k]), (int2)(0, div.y), true,
         y + batch[k] * y_s.s5, y_s, batch[k], row0, goal[k] EPILOGUE_PASS);
      }
    }
  }
  END_TILES;
}

GROUP(1, 1, 1)
ITEM_KERNEL(conv2d_mma, PASS(x), PASS(w), PASS(y), PASS(space), dims, taps, map, part, y_s EPILOGUE_PASS)

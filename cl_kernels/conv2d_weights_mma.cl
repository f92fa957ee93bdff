/* The derivative of a convolution by its weights, in bf16, by CPUs' units that multiply words (dot_units.cl). Images are
 * in blocks of 16 channels; a word holds one channel of two horizontally neighboring pixels.
 *
 * A work-item processes a part of the images, some blocks of x's channels and some panels of y's. It copies some images,
 * or some lines of one image, at a time to `space` as words: y as pixel pairs by the channels of a panel; x as pixel
 * pairs by the channels of a block, separately for each remainder of the column modulo the stride, and a second time
 * shifted by one pixel for taps at odd offsets. A tile of sums (mma_tile.cl), some channels of x by a panel,
 * then walks along all lines. Lines of y with an odd number of pixels end with a zero.
 *
 * TILES: the tile of sums is two blocks of x by a panel. An instruction takes up to 16 pairs of a line, and lines of y
 * end with as many zeros as that needs; x is copied with the pairs of a channel one after another.
 *
 * dims and map are those of conv2d_weights.cl. taps: height and width of the window. plan: cuts of y's channels and of
 * x's; images and lines at a time; words of `space` per work-item, and how many of them are for x; the row pitch of a
 * part of the sums, whose rows are (channel of x, tap); parts. */
#define BLOCK   16
#define INTEGER 0
#define SIGNED  0
#define FLIP    0u
#define WORDS   inner /* one block */
#if TILES
#define PIECE    16
#define PIECES   2 /* blocks of x at a time */
#define BY_PLACE line
#define BY_WORD  1
#define COPY_X   FN(pairs_of_each)
#else
#define PIECE    8
#define PIECES   1
#define BY_PLACE 1
#define BY_WORD  BLOCK
#define COPY_X(x, size, first, mul, skip, count, to) FN(pairs)(x, size, first, mul, skip, count, BLOCK, to)
#endif
#include "dot_units.cl"
#include "mma_tile.cl"

/* Pixels a and b of a line as words; zeros outside of the line. */
static inline uint16 FN(pair)(const __global RAW *x, const int size, const int a, const int b) {
  uint16 word = (uint16)(0);
  if (a >= 0 && a < size) word = convert_uint16(vload16(a, x));
  if (b >= 0 && b < size) word |= convert_uint16(vload16(b, x)) << 16u;
  return word;
}

/* `count` pixel pairs of a line as words: pixels first + (2 j + skip) mul and the next one. */
APART static void FN(pairs)(const __global RAW *x, const int size, const int first, const int mul, const int skip,
                            const int count, const int step, __global uint *to) {
  for (int j = 0, at = first + skip * mul; j < count; j++, at += 2 * mul, to += step)
    vstore16(FN(pair)(x, size, at, at + mul), 0, to);
}

#if TILES
/* The same for each channel by itself: `count` words of the first one, then of the next. */
APART static void FN(pairs_of_each)(const __global RAW *x, const int size, const int first, const int mul, const int skip,
                                    const int count, __global uint *to) {
  for (int j = 0, at = first + skip * mul; j < count; j += 8) {
    float8 low[8], high[8];
    UNROLLED(i, 8) {
      const float16 word = as_float16(FN(pair)(x, size, at, at + mul));
      low[i] = word.lo;
      high[i] = word.hi;
      at += 2 * mul;
    }
    clade_turn(low);
    clade_turn(high);
    for (int c = 0; c < BLOCK; c++) {
      const uint8 own = as_uint8(c < 8 ? low[c] : high[c - 8]);
      __global uint *line = to + c * count + j;
      if (count - j >= 8)
        vstore8(own, 0, line);
      else
        for (int i = 0; i < count - j; i++) line[i] = ((const uint *)&own)[i];
    }
  }
}
#endif

/* Stores `rows` of a tile, or adds them to what is there; `whole`: all of a panel, not half. */
static inline void FN(put)(const float *tile, const int rows, const bool first, const bool whole, const long next,
                           __global float *out) {
  for (int r = 0; r < rows; r++, tile += PANEL, out += next)
    UNROLLED(v, VECTORS) if (!v || whole) vstore16(first ? vload16(v, tile) : vload16(v, tile) + vload16(v, out), v, out);
}

#define ARGS                                                                                                           \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), ARG(uint, space), const index8_t dims,          \
      const index8_t taps, const index8_t map, const index8_t plan
BODY(conv2d_weights_mma_item)(const int item, ARGS) {
  const int down = plan.s0, across = plan.s1, parts = plan.s7;
  if (down == 0 || item >= parts * down * across) return;
  const int2 mul = (int2)(map.s0, map.s4), add = (int2)(map.s1, map.s5), delta = (int2)(map.s2, map.s6);
  const int2 size = (int2)(dims.s4, dims.s5), result = (int2)(dims.s6, dims.s7), window = (int2)(taps.s0, taps.s1);
  const int2 reach = (window - 1) * delta;
  const int all_blocks = (int)dims.s3 / BLOCK, rows = dims.s2, all_panels = (rows + PANEL - 1) / PANEL, count = window.x * window.y;
  const int part = item / (down * across), own_down = item / across % down, own_across = item % across;
  const int panel0 = all_panels * own_down / down, panel1 = all_panels * (own_down + 1) / down;
  const int block0 = all_blocks * own_across / across, block1 = all_blocks * (own_across + 1) / across;
  const int image0 = (int)((long)dims.s0 * part / parts), image1 = (int)((long)dims.s0 * (part + 1) / parts);
  const int real = (result.y + 1) / 2, steps = TILES ? (real + 15) / 16 : real, step = (real + steps - 1) / max(steps, 1);
  const int pairs = steps * step, turns = window.y > 1 ? 2 : 1, held = pairs + reach.y / mul.y / 2;
  const int x_line = mul.y * turns * held * BLOCK, y_line = pairs * PANEL, x_plane = size.x * size.y * BLOCK;
  const int y_plane = result.x * result.y * BLOCK;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  USE(uint, space);
  space += (long)item * plan.s4;
  __global uint *y_space = space + plan.s5;
  out += (long)part * dims.s3 * count * plan.s6;
  bool first = true;
  const float start[PANEL] ALIGNED = {0};
  float tile[PLACES * PANEL] ALIGNED;
  int y_skip[MOST_LINES], x_skip[MOST_LINES]; /* of the lines that are summed at once */
  BEGIN_TILES(BLOCK, step);
  for (int image = image0; image < image1; image += plan.s2)
    for (int line0 = 0; line0 < result.x; line0 += plan.s3, first = false) {
      const int some = min((int)plan.s2, image1 - image), lines = min((int)plan.s3, result.x - line0);
      const int low = clamp(line0 * mul.x + add.x, 0, size.x);
      const int high = clamp((line0 + lines - 1) * mul.x + add.x + reach.x + 1, low, size.x);
      const int x_block = (high - low) * x_line, x_image = x_block * (block1 - block0);
      const int y_panel = lines * y_line, y_image = y_panel * (panel1 - panel0);
      for (int i = 0; i < some; i++) {
        for (int b = block0; b < block1; b++)
          for (int l = low; l < high; l++)
            for (int k = 0; k < mul.y * turns; k++)
              COPY_X((const __global RAW *)x + ((long)(image + i) * all_blocks + b) * x_plane + l * size.y * BLOCK, size.y,
                     add.y + k / turns, mul.y, k % turns, held,
                     space + (i * x_image + (b - block0) * x_block + (l - low) * x_line + k * held * BLOCK));
        for (int p = 2 * panel0; p < min(2 * panel1, rows / BLOCK); p++)
          for (int l = 0; l < lines; l++)
            FN(pairs)
        ((const __global RAW *)y + ((long)(image + i) * (rows / BLOCK) + p) * y_plane + (line0 + l) * result.y * BLOCK,
         result.y, 0, 1, 0, pairs, PANEL,
         y_space + (i * y_image + (p / 2 - panel0) * y_panel + l * y_line + p % 2 * BLOCK));
      }
      for (int b = block0; b < block1; b += TILES ? 2 : 1)
        for (int t = 0; t < count; t++) {
          const int shift = add.x + t / window.y * delta.x, move = t % window.y * delta.y, by = move / mul.y;
          const int2 inside = clade_inside(shift, mul.x, size.x, result.x);
          const int begin = max(inside.x, line0), there = max(min(inside.y, line0 + lines) - begin, 0);
          const int own = move % mul.y * turns + by % 2, blocks = TILES ? min(2, block1 - b) : 1;
          const int at[2] = {0, (blocks - 1) * x_block};
          const __global uint *from = space + (b - block0) * x_block + own * held * BLOCK + by / 2 * BY_WORD;
          for (int i = 0, n = 0; i < some; i++)
            for (int l = begin; l < begin + there; l++, n++) {
              y_skip[n] = i * y_image + (l - line0) * y_line;
              x_skip[n] = i * x_image + (l * mul.x + shift - low) * x_line;
            }
          for (int p = panel0; p < panel1; p++)
            for (int h = 0; h < BLOCK; h += PIECE) {
              FN(sum_tile)(y_space + (p - panel0) * y_panel, 1, from + h, at, 0, some * there,
                       y_skip, x_skip, pairs, start, held, step, tile);
              FN(put)(tile, PIECE * blocks, first, (p + 1) * PANEL <= rows, (long)count * plan.s6,
                      out + ((long)(b * BLOCK + h) * count + t) * plan.s6 + p * PANEL);
            }
        }
    }
  END_TILES;
}

GROUP(1, 1, 1)
ITEM_KERNEL(conv2d_weights_mma, PASS(x), PASS(y), PASS(out), PASS(space), dims, taps, map, plan)

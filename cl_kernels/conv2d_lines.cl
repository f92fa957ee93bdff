/* Convolution with few output channels, and its gradient with respect to the weights. Vectors hold columns of the
 * result, or the places that are summed, so that lanes are used even if there are fewer channels than lanes. */
#include "conv2d_line.cl"

/* Copies `many` lines from line `first` of an image on, `pitch` apart. Lines outside of the image become zero. */
static inline void FN(copy_lines)(const __global STORAGE(T) * x, int2 size, int first, int many, int pitch, float *to) {
  for (int l = first; l < first + many; l++, to += pitch)
    if (l >= 0 && l < size.x)
      FN(copy)(x + l * size.y, 1, size.y, to);
    else
      for (int i = 0; i < size.y; i++) to[i] = 0;
}

#ifdef WANT_conv2d_lines
/* Convolution and its gradient with respect to the input; dims and map as in conv2d.cl, with mul 1 and div at most 2. A
 * tile is ROWS channels by COLUMNS columns of one line, or of every second column; a step of the inner axis broadcasts
 * a weight per channel and loads a vector of pixels per vector of columns. A work-item computes some lines of some
 * images. It copies the weights, ROWS channels side by side, and for each image the lines that it needs, padded with
 * zeros; taps in lines outside of the source are skipped. taps: height and width of the kernel; the weights' strides
 * for group, row and inner channel. part: images and lines of a work-item; line pitch of the copy; zeros before each
 * line. */
#define COLUMNS (VECTORS * WIDTH)
#include "conv2d_phase.cl"
#include "conv2d_result.cl"

/* Computes a tile: sums over `inner` channels of the source, `plane` apart, and over lines and taps of the window
 * (`many`), `move` apart. In the weights, channels are `apart` and taps `step` apart. */
APART static void FN(multiply)(const float *w, int apart, int2 step, const float *x, int inner, int plane, int2 many,
                               int2 move, float *tile) {
  VECTOR sum[ROWS][VECTORS];
  EACH_SUM(ROWS) sum[r][v] = (VECTOR)(0);
  for (int c = 0; c < inner; c++, w += apart, x += plane)
    for (int l = 0; l < many.x; l++) {
      const float *own = w + l * step.x, *from = x + l * move.x;
#pragma clang loop unroll(disable)
      for (int k = 0; k < many.y; k++, own += step.y, from += move.y) {
#if VECTORS > ROWS /* whichever are fewer stay in registers */
        UNROLLED(v, VECTORS) {
          const VECTOR one = VLOAD(v, from);
          UNROLLED(r, ROWS) sum[r][v] = fma((VECTOR)(own[r]), one, sum[r][v]);
        }
#else
        MULTIPLY_TILE(ROWS, own[r], VLOAD(v, from))
#endif
      }
    }
  EACH_SUM(ROWS) VSTORE(sum[r][v], r * VECTORS + v, tile);
}

/* Copies the weights of a group: per tile, inner channel and tap, ROWS rows; the last row is repeated. */
APART static void FN(copy_weights)(const __global STORAGE(T) * w, int rows, int inner, int taps, int by_row,
                                   int by_inner, float *to) {
  for (int row0 = 0; row0 < rows; row0 += ROWS)
    for (int c = 0; c < inner; c++, to += taps * ROWS)
      for (int r = 0; r < ROWS; r++) {
        const __global STORAGE(T) *from = w + min(row0 + r, rows - 1) * by_row + c * by_inner;
        ONE_BY_ONE for (int k = 0; k < taps; k++) to[k * ROWS + r] = LOAD(T, from, k);
      }
}

#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part, const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_lines_item)(const int item, ARGS) {
  if (part.s0 == 0 || part.s1 == 0 || dims.s0 == 0) return;
  const int2 result = (int2)(dims.s6, dims.s7), size = (int2)(dims.s4, dims.s5), kernel_size = (int2)(taps.s0, taps.s1);
  const int2 add = (int2)(map.s1, map.s5), delta = (int2)(map.s2, map.s6), div = max((int2)(map.s3, map.s7), (int2)(1));
  const int blocks = (result.x + part.s1 - 1) / part.s1, line0 = item % blocks * part.s1;
  const int batches = (dims.s0 + part.s0 - 1) / part.s0, image0 = item / blocks % batches * part.s0;
  const int group = item / (blocks * batches);
  if (group >= dims.s1) return;
  const int end = min(line0 + (int)part.s1, result.x), images = min((int)part.s0, (int)dims.s0 - image0);
  const int rows = dims.s2, inner = dims.s3, pitch = part.s2, all = kernel_size.x * kernel_size.y;
  const int reach = (kernel_size.x - 1) * delta.x;
  const int from = min(max(line0 + add.x + min(reach, 0), 0) / div.x, size.x);
  const int held = max(min((max(end - 1 + add.x + max(reach, 0), -div.x) + div.x) / div.x, size.x) - from, 0);
  const int plane = held * pitch, grid = (result.y + div.y - 1) / div.y;
  FN(phase) down[2], along[2];
  for (int k = 0; k < div.x; k++) down[k] = FN(phase_of)(k + add.x, delta.x, div.x, kernel_size.x);
  for (int k = 0; k < div.y; k++) along[k] = FN(phase_of)(k + add.y, delta.y, div.y, kernel_size.y);
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  float source[SOURCE] ALIGNED, weights[WEIGHTS] ALIGNED, tile[2 * ROWS * COLUMNS] ALIGNED;
  float both[2 * ROWS * COLUMNS] ALIGNED;
  FN(copy_weights)(w + group * taps.s2, rows, inner, all, taps.s3, taps.s4, weights);
  for (int i = 0; i < (inner * plane + COLUMNS + 7) / 8; i++) vstore8((float8)(0), i, source);
  for (int image = image0; image < image0 + images; image++) {
    for (int c = 0; c < inner; c++)
      FN(copy_lines)(x + ((image * (int)dims.s1 + group) * inner + c) * size.x * size.y, size, from, held, pitch,
                     source + c * plane + part.s3);
    for (int line = line0; line < end; line++) {
      const FN(phase) d = down[line % div.x];
      const int at = d.shift + line / div.x, move = max(d.move, 1);
      const int2 lines = clade_inside(at, move, size.x, d.count); /* of taps */
      const int tap0 = d.first + lines.x * d.step;
      const int first = lines.x < lines.y ? (at + lines.x * move - from) * pitch + part.s3 : 0;
      for (int i = 0; i < grid; i += COLUMNS) { /* the last columns end with the line */
        const int column = max(min(i, grid - COLUMNS), 0);
        for (int row0 = 0; row0 < rows; row0 += ROWS) {
          for (int phase = 0; phase < div.y; phase++) {
            const FN(phase) a = along[phase];
            FN(multiply)
            (weights + (row0 * inner * all + (tap0 * kernel_size.y + a.first) * ROWS), all * ROWS,
             (int2)(d.step * kernel_size.y, a.step) * ROWS, source + first + column + a.shift, inner, plane,
             (int2)(lines.y - lines.x, a.count), (int2)(move * pitch, a.move), tile + phase * ROWS * COLUMNS);
          }
          for (int k = 0; div.y == 2 && k < ROWS * COLUMNS; k += 8) { /* columns alternate between two tiles */
            float16 v;
            v.even = vload8(0, tile + k);
            v.odd = vload8(0, tile + ROWS * COLUMNS + k);
            vstore16(v, 0, both + 2 * k);
          }
          FN(finish)
          (div.y == 2 ? both : tile, div.y * COLUMNS, 0, 1, min(rows - row0, ROWS),
           (int2)(1, min(result.y - column * div.y, COLUMNS * div.y)), (int2)(0, 1), false, y + image * y_s.s5, y_s,
           image, group * rows + row0, line * result.y + column * div.y EPILOGUE_PASS);
        }
      }
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_lines, PASS(x), PASS(w), PASS(y), dims, taps, map, part, y_s EPILOGUE_PASS)
#endif

#ifdef WANT_conv2d_weights_lines
/* Gradient with respect to the weights; arguments as in conv2d_weights.cl. The lines of all rows of y and of one
 * channel of x are copied with a common pitch of part.s2, padded with zeros, so that each tap is an offset into x. A
 * tile is ROWS rows by two taps. part: lines at a time; how many times per work-item; pitch; zeros before each line of
 * x. */
#define VECTORS 2
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part

APART static void FN(add_taps)(const float *y, int apart, const float *a, const float *b, int n, float *sums) {
  VECTOR sum[ROWS][VECTORS];
  EACH_SUM(ROWS) sum[r][v] = VLOAD(r * VECTORS + v, sums);
#pragma clang loop unroll(disable)
  for (long i = 0; i < n; i += WIDTH) MULTIPLY_TILE(ROWS, VLOAD(0, y + r * (long)apart + i), VLOAD(0, (v ? b : a) + i))
  EACH_SUM(ROWS) VSTORE(sum[r][v], r * VECTORS + v, sums);
}

BODY(conv2d_weights_lines_item)(const int item, ARGS) {
  if (part.s0 == 0 || dims.s1 == 0) return;
  const int group = item % dims.s1, own = item / dims.s1, rows = dims.s2, inner = dims.s3;
  if (own >= taps.s2) return;
  const int2 grid = (int2)(dims.s6, dims.s7), size = (int2)(dims.s4, dims.s5);
  const int n_taps = taps.s0 * taps.s1, pairs = (n_taps + 1) / 2, tiles = (rows + ROWS - 1) / ROWS;
  const int pitch = part.s2, reach = (taps.s0 - 1) * map.s2, apart = part.s0 * pitch + 16;
  const int blocks = (grid.x + part.s0 - 1) / part.s0, end = min((own + 1) * (int)part.s1, (int)dims.s0 * blocks);
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  float x_lines[X_LINES] ALIGNED, y_lines[Y_LINES] ALIGNED, sums[BLOCK] ALIGNED;
  for (int i = 0; i < X_LINES; i += 8) vstore8((float8)(0), 0, x_lines + i);
  for (int i = 0; i < tiles * ROWS * apart / 8; i++) vstore8((float8)(0), i, y_lines);
  for (int i = 0; i < inner * pairs * tiles * ROWS * 2 * WIDTH; i++) sums[i] = 0;
  for (int u = own * part.s1; u < end; u++) {
    const int image = u / blocks, line0 = u % blocks * part.s0, many = min((int)part.s0, grid.x - line0);
    for (int r = 0; r < rows; r++) {
      FN(copy_lines)(y + ((image * (int)dims.s1 + group) * rows + r) * grid.x * grid.y, grid, line0, many, pitch,
                     y_lines + r * apart);
      vstore16((float16)(0), 0, y_lines + r * apart + many * pitch);
    }
    for (int c = 0; c < inner; c++) {
      FN(copy_lines)(x + ((image * (int)dims.s1 + group) * inner + c) * size.x * size.y, size, line0 + map.s1, many + reach,
                     pitch, x_lines + part.s3);
      for (int k = 0; k < pairs; k++) {
        const int first = 2 * k, second = min(first + 1, n_taps - 1), from = part.s3 + map.s5;
        const float *a = x_lines + first / taps.s1 * map.s2 * pitch + first % taps.s1 * map.s6 + from;
        const float *b = x_lines + second / taps.s1 * map.s2 * pitch + second % taps.s1 * map.s6 + from;
        for (int t = 0; t < tiles; t++)
          FN(add_taps)(y_lines + t * ROWS * apart, apart, a, b, many * pitch,
                       sums + ((c * pairs + k) * tiles + t) * ROWS * 2 * WIDTH);
      }
    }
  }
  out += (own * (int)dims.s1 + group) * rows * inner * n_taps;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < inner; c++)
      for (int k = 0; k < n_taps; k++) {
        const float *lane = sums + ((((c * pairs + k / 2) * tiles + r / ROWS) * ROWS + r % ROWS) * 2 + k % 2) * WIDTH;
        float sum = 0;
        for (int l = 0; l < WIDTH; l++) sum += lane[l];
        out[(r * inner + c) * n_taps + k] = sum;
      }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_weights_lines, PASS(x), PASS(y), PASS(out), dims, taps, map, part)
#endif

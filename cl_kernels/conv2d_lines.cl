/* Convolution into few channels, and its derivative by the input, step 1: vectors lie along the columns of the result,
 * so that no lane is empty where there are fewer channels than lanes. dims and map are those of conv2d.cl.
 *
 * A tile is ROWS channels by COLUMNS columns of one line: a step of the inner axis is a broadcast for each channel and
 * a vector of places for each vector of columns. A work-item does some lines of some images. It copies the weights,
 * ROWS channels beside each other, and of each image the lines that it needs, with zeros at their ends; taps in lines
 * that there are not are left out. taps: height and width of the kernel; the weights' strides of group, row and inner
 * channel. part: images and lines of a work-item; from line to line of the copy, and the zeros before each. */
#define APART   __attribute__((noinline)) /* compiled once, however often the compiler copies the kernel */
#define ALIGNED __attribute__((aligned(64)))
#define VECTOR  CLADE_PASTE(float, WIDTH)
#define VLOAD   CLADE_PASTE(vload, WIDTH)
#define VSTORE  CLADE_PASTE(vstore, WIDTH)
#define COLUMNS 16
#define VECTORS (COLUMNS / WIDTH)

/* An element is at batch * s5 + row / 16 * s4 + row % 16 * s6 + column * s7 of y and of the epilogue's operands. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) ((row >> 4) * (s).s4 + (row & 15) * (s).s6 + column * (s).s7)
#define EPILOGUE_LOAD16(T, e, s) \
  ((s).s7 ? LOAD16(T, e, EPILOGUE_ELEMENT(s)) : (float16)(LOAD(T, e, EPILOGUE_ELEMENT(s))))

/* A tile: of each of `inner` channels of the source, `plane` apart, `lines` of taps, `down` apart; of these the taps of
 * one, `across` apart. In the weights a channel is `apart` from the next. */
APART static void FN(multiply)(const float *w, int apart, const float *x, int inner, int plane, int lines, int down,
                               int taps, int across, float *tile) {
  VECTOR sum[ROWS][VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[r][v] = (VECTOR)(0);
  for (int c = 0; c < inner; c++, w += apart, x += plane) {
    const float *own = w;
    for (int l = 0; l < lines; l++) {
      const float *from = x + l * down;
#pragma clang loop unroll(disable)
      for (int k = 0; k < taps; k++, own += ROWS, from += across) {
        VECTOR one[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) one[v] = VLOAD(v, from);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int v = 0; v < VECTORS; v++) sum[r][v] = fma((VECTOR)(own[r]), one[v], sum[r][v]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) VSTORE(sum[r][v], r * VECTORS + v, tile);
}

/* `rows` channels of a tile, of `n` columns. */
APART static void FN(finish)(const float *tile, int rows, int n, __global STORAGE(OUT) * y, const index8_t y_s,
                             const index_t batch, const index_t row0, const index_t column0 EPILOGUE_ARGS) {
  EPILOGUE_USE
#if WIDE
  if (n == COLUMNS) {
    for (int k = 0; k < rows; k++) {
      const index_t row = row0 + k, column = column0;
      const float16 i0 = vload16(k, tile);
      EPILOGUE16
      STORE16(OUT, y, EPILOGUE_ELEMENT(y_s), r);
    }
    return;
  }
#endif
  for (int k = 0; k < rows; k++)
#pragma clang loop vectorize(disable)
    for (int i = 0; i < n; i++) {
      const index_t row = row0 + k, column = column0 + i;
      const COMPUTE(T) i0 = tile[k * COLUMNS + i];
      EPILOGUE
      STORE(OUT, y, EPILOGUE_ELEMENT(y_s), r);
    }
}

/* A line of n places. */
APART static void FN(copy)(const __global STORAGE(T) * x, int n, float *to) {
  int i = 0;
  for (; n >= 8 && i < n; i += 8) { /* the last eight end with the line */
    const int at = min(i, n - 8);
    vstore8(LOADN(8, T, x, at), 0, to + at);
  }
#pragma clang loop vectorize(disable)
  for (; i < n; i++) to[i] = LOAD(T, x, i);
}

/* The weights of a group: tile by tile, for each inner channel and tap ROWS of its rows, the last one again. */
APART static void FN(copy_weights)(const __global STORAGE(T) * w, int rows, int inner, int taps, int by_row,
                                   int by_inner, float *to) {
  for (int row0 = 0; row0 < rows; row0 += ROWS)
    for (int c = 0; c < inner; c++)
      for (int k = 0; k < taps; k++, to += ROWS)
#pragma clang loop vectorize(disable)
        for (int r = 0; r < ROWS; r++) to[r] = LOAD(T, w, min(row0 + r, rows - 1) * by_row + c * by_inner + k);
}

#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part, const index8_t y_s EPILOGUE_ARGS
BODY(lines)(const int item, ARGS) {
  if (part.s0 == 0 || part.s1 == 0 || dims.s0 == 0) return;
  const int2 result = (int2)(dims.s6, dims.s7), size = (int2)(dims.s4, dims.s5), kernel_size = (int2)(taps.s0, taps.s1);
  const int2 add = (int2)(map.s1, map.s5), delta = (int2)(map.s2, map.s6);
  const int blocks = (result.x + part.s1 - 1) / part.s1, line0 = item % blocks * part.s1;
  const int batches = (dims.s0 + part.s0 - 1) / part.s0, image0 = item / blocks % batches * part.s0;
  const int group = item / (blocks * batches);
  if (group >= dims.s1) return;
  const int end = min(line0 + (int)part.s1, result.x), images = min((int)part.s0, (int)dims.s0 - image0);
  const int rows = dims.s2, inner = dims.s3, pitch = part.s2, all = kernel_size.x * kernel_size.y;
  const int reach = (kernel_size.x - 1) * delta.x;
  const int from = clamp(line0 + add.x + min(reach, 0), 0, size.x);
  const int held = max(min(end + add.x + max(reach, 0), size.x) - from, 0), plane = held * pitch;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  float source[SOURCE] ALIGNED, weights[WEIGHTS] ALIGNED, tile[ROWS * COLUMNS] ALIGNED;
  FN(copy_weights)(w + group * taps.s2, rows, inner, all, taps.s3, taps.s4, weights);
  for (int i = 0; i < (inner * plane + COLUMNS + 7) / 8; i++) vstore8((float8)(0), i, source);
  for (int image = image0; image < image0 + images; image++) {
    for (int c = 0; c < inner; c++)
      for (int l = 0; l < held; l++) FN(copy)
    (x + ((image * (int)dims.s1 + group) * inner + c) * size.x * size.y + (from + l) * size.y, size.y,
     source + c * plane + l * pitch + part.s3);
    for (int line = line0; line < end; line++) {
      int tap0 = 0, tap1 = kernel_size.x;
      for (; tap0 < tap1; tap0++) {
        const int at = line + add.x + tap0 * delta.x;
        if (at >= 0 && at < size.x) break;
      }
      for (; tap1 > tap0; tap1--) {
        const int at = line + add.x + (tap1 - 1) * delta.x;
        if (at >= 0 && at < size.x) break;
      }
      const int first = tap1 > tap0 ? (line + add.x + tap0 * delta.x - from) * pitch + part.s3 + add.y : 0;
      for (int i = 0; i < result.y; i += COLUMNS) { /* the last columns end with the line */
        const int column = max(min(i, result.y - COLUMNS), 0);
        for (int row0 = 0; row0 < rows; row0 += ROWS) {
          FN(multiply)
          (weights + (row0 * inner * all + tap0 * kernel_size.y * ROWS), all * ROWS, source + first + column, inner,
           plane, tap1 - tap0, delta.x * pitch, kernel_size.y, delta.y, tile);
          FN(finish)
          (tile, min(rows - row0, ROWS), min(result.y - column, COLUMNS), y + image * y_s.s5, y_s, image,
           group * rows + row0, line * result.y + column EPILOGUE_PASS);
        }
      }
    }
  }
}

GROUP(1, 1, 1) KERNEL(conv2d_lines)(ARGS) {
  FN(lines)((int)get_global_id(0), PASS(x), PASS(w), PASS(y), dims, taps, map, part, y_s EPILOGUE_PASS);
}
#undef ARGS
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_EPILOGUE_ELEMENT(s)
#undef EPILOGUE_AT
#undef EPILOGUE_LOAD16
#undef APART
#undef ALIGNED
#undef VECTOR
#undef VLOAD
#undef VSTORE
#undef COLUMNS
#undef VECTORS

/* Convolution and its derivatives. Each kernel gathers; nothing is scattered.
 *
 * map: (mul, add, delta, div) of height, then of width: to a place p and a tap k belongs the place
 * (p * mul + add + k * delta) / div of the source, where that is a whole number inside of it.
 *
 * In the kernels gather_…, dims: images, groups, rows (channels of the result per group), inner (of the source), height
 * and width of the source and of the result. taps: height and width of the kernel; the weights' strides of group, row
 * and inner channel. EPILOGUE computes r from i0 at (row, column): a channel and a pixel of the image `batch`. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)

#ifdef WANT_conv2d_gather_vec
/* For a core with vectors of WIDTH floats. */
#define APART     __attribute__((noinline)) /* compiled once, however often the compiler copies the kernel */
#define ALIGNED   __attribute__((aligned(64)))
#define VECTOR    CLADE_PASTE(float, WIDTH)
#define VLOAD     CLADE_PASTE(vload, WIDTH)
#define VSTORE    CLADE_PASTE(vstore, WIDTH)
#define PANEL     (VECTORS * WIDTH)
#define TILE      (ROWS * PANEL)
#define SPACED(n) (((n) + 31) / 32 * 32 + 16) /* no power of two, so that lines do not meet in a cache */

/* `room` is how many elements there are from x on. */
APART static void FN(copy)(const __global STORAGE(T) * x, int room, int step, int count, const int *to, const int *from,
                           const int *many, float *out) {
  for (int i = 0; i < count; i++) {
    const int n = many[i], at = from[i];
    float *line = out + to[i];
    int l = 0;
    if (step == 1 && n >= 8) { /* the last vector ends with the piece */
      for (; l + 8 < n; l += 8) vstore8(LOADN(8, T, x, at + l), 0, line + l);
      vstore8(LOADN(8, T, x, at + n - 8), 0, line + n - 8);
      continue;
    }
    if (step == 2)
      for (; l + 8 <= n && at + 2 * l + 16 <= room; l += 8) vstore8(LOAD16(T, x, at + 2 * l).even, 0, line + l);
#pragma clang loop vectorize(disable)
    for (; l < n; l++) line[l] = LOAD(T, x, at + l * step);
  }
}

/* A block of `rows` channels x `strip` places is one work-item's, for `batch` groups after each other: to (channel,
 * tap) k belongs what begins at at[k] of the lines.
 *
 * Where div is above 1 the places of the result fall into phases, p = phase + div * place: all places of a phase have
 * the same taps, and to neighbours belong neighbours of the source. */

/* How many taps are before the first that a phase has. */
APART static int FN(skipped)(int from, int delta, int div, int taps) {
  int k = 0;
  while (k < taps && (from + k * delta) % div) k++;
  return k;
}

/* The weights of ROWS rows, one beside the other. */
APART static void FN(copy_weights)(const __global STORAGE(T) * w, int pitch, int rows, const int *at, int depth,
                                   float *to) {
  const __global STORAGE(T) * row[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) row[r] = w + min(r, rows - 1) * pitch; /* beyond the last it is copied again */
#pragma clang loop vectorize(disable) unroll(disable)
  for (int k = 0; k < depth; k++) {
    const int i = at[k];
#pragma unroll
    for (int r = 0; r < ROWS; r++) to[k * ROWS + r] = LOAD(T, row[r], i);
  }
}

APART static void FN(multiply)(const float *w, const float *x, const int *at, int depth, float *c) {
  VECTOR sum[ROWS][VECTORS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[r][v] = VLOAD(r * VECTORS + v, c);
#pragma clang loop unroll(disable)
  for (int k = 0; k < depth; k++) {
    VECTOR one[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) one[v] = VLOAD(v, x + at[k]);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[r][v] = fma((VECTOR)(w[k * ROWS + r]), one[v], sum[r][v]);
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) VSTORE(sum[r][v], r * VECTORS + v, c);
}

/* part: places of a strip, rows of a block, how many strips and blocks there are, groups of a work-item;
 * whether the first phase alone has taps, and stores the zeros of the others. */
#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part EPILOGUE_ARGS
BODY(block)(const int item, ARGS) {
  const int strip = part.s0, rows = part.s1, across = part.s2, down = part.s3;
  if (strip == 0 || across == 0 || down == 0 || part.s4 == 0) return;
  const int batches = (dims.s1 + part.s4 - 1) / part.s4;
  const int phase = item / (across * down * batches), group0 = item / (across * down) % batches * part.s4;
  if (phase >= (part.s5 ? 1 : map.s3 * map.s7)) return;
  const int2 div = (int2)(map.s3, map.s7), delta = (int2)(map.s2, map.s6), mul = (int2)(map.s0, map.s4);
  const int2 first = (int2)(phase / div.y, phase % div.y), grid = ((int2)(dims.s6, dims.s7) - first + div - 1) / div;
  const int2 size = (int2)(dims.s4, dims.s5), origin = first * mul + (int2)(map.s1, map.s5);
  const int2 tap0 =
      (int2)(FN(skipped)(origin.x, delta.x, div.x, taps.s0), FN(skipped)(origin.y, delta.y, div.y, taps.s1));
  const int2 left = (int2)(taps.s0, taps.s1) - tap0;
  const int2 step = 1 + (int2)(FN(skipped)(origin.x + (tap0.x + 1) * delta.x, delta.x, div.x, left.x - 1),
                               FN(skipped)(origin.y + (tap0.y + 1) * delta.y, delta.y, div.y, left.y - 1));
  int2 count = (left + step - 1) / step;
  const int2 shift = (origin + tap0 * delta) / div, move = step * delta / div;
  const bool taps_left = count.x > 0 && count.y > 0 && dims.s3 > 0;
  if (!taps_left) count = 0;
  const int pitch = clade_line_pitch_of(grid.y, size.y, shift.y, move.y, mul.y, count.y);
  const int high = clade_line_pitch_of(grid.x, size.x, shift.x, move.x, mul.x, count.x);
  const int place0 = item % across * strip, row0 = item / across % down * rows;
  const int n_rows = min(rows, (int)dims.s2 - row0), n = min(strip, (int)dims.s0 * high * pitch - place0);
  if (n <= 0 || n_rows <= 0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  const int plane = size.x * size.y, image = dims.s1 * dims.s3 * plane;
  const int panels = (n + PANEL - 1) / PANEL, tiles = (n_rows + ROWS - 1) / ROWS;
  float lines[LINES] ALIGNED, weights[WEIGHTS] ALIGNED, block[BLOCK] ALIGNED;
  int at[DEPTH], weight_at[DEPTH], to[PIECES], from[PIECES], many[PIECES];
  int result_to[STRIP], result_from[STRIP], result_many[STRIP], result_batch[STRIP], results = 0;
  for (int c = 0; c < n;) { /* pieces of the result, each inside of a line and a panel */
    const int spot = (place0 + c) % pitch, line = (place0 + c) / pitch, up = line % high;
    const int run = min(n - c, pitch - spot), inside = up < grid.x ? min(run, grid.y - spot) : 0;
    for (int i = 0; i < inside; i += result_many[results++]) {
      const int p = c + i;
      result_to[results] = (first.x + up * div.x) * dims.s7 + first.y + (spot + i) * div.y;
      result_batch[results] = line / high;
      result_from[results] = p;
      result_many[results] = min(inside - i, PANEL - p % PANEL);
    }
    c += run;
  }
  /* Taps at once: all, those of a line, or one. Nothing here follows from how the work is cut up, as it orders sums. */
  int2 some = max(count, 1);
  for (int i = 0; i < 2; i++) {
    const clade_line_reach ry = clade_line_reach_of(shift.x, move.x, mul.x, 0, some.x),
                           rx = clade_line_reach_of(shift.y, move.y, mul.y, 0, some.y);
    const int length = SPACED(STRIP + ry.span * pitch + rx.span), kinds = ry.kinds * rx.kinds;
    if (some.x * some.y <= TAPS && kinds * length <= LINES && kinds * (length / pitch + 2) <= PIECES) break;
    some = i ? (int2)(1) : (int2)(1, some.y);
  }
  const bool whole = some.x >= count.x && some.y >= count.y; /* then lines are alike in all groups */
  int depth0 = 0, channels = 1, kinds = 0, length = 0, pieces = 0;
  for (int group = group0; group < min(group0 + (int)part.s4, (int)dims.s1); group++) {
    const int skip = group * dims.s3 * plane;
    const __global STORAGE(T) *w0 = w + group * taps.s2 + row0 * taps.s3;
    for (int ty = 0; ty < max(count.x, 1); ty += some.x)
      for (int tx = 0; tx < max(count.y, 1); tx += some.y) {
        if (!whole || group == group0) {
          const clade_line_reach ry = clade_line_reach_of(shift.x, move.x, mul.x, ty, some.x);
          const clade_line_reach rx = clade_line_reach_of(shift.y, move.y, mul.y, tx, some.y);
          const int2 e = shift + (int2)(ty, tx) * move;
          depth0 = some.x * some.y;
          kinds = ry.kinds * rx.kinds;
          length = SPACED(panels * PANEL + ry.span * pitch + rx.span);
          pieces = clade_line_pieces_of_kinds(place0, length, pitch, high, ry, rx, e, move, mul, size, dims.s0, image,
                                              to, from, many);
          if (taps_left)
            channels = min(min(LINES / (kinds * length), DEPTH / depth0),
                           min(WEIGHTS / (tiles * ROWS * depth0), (int)dims.s3));
          else
            depth0 = kinds = pieces = 0, channels = max((int)dims.s3, 1);
          for (int k = 0; k < channels * depth0; k++) {
            const int c = k / depth0, a = k % depth0 / some.y, b = k % some.y;
            at[k] = c * kinds * length + clade_line_distance(a, b, e, move, mul, ry, rx, length, pitch);
            weight_at[k] = c * taps.s4 + (tap0.x + (ty + a) * step.x) * taps.s1 + tap0.y + (tx + b) * step.y;
          }
          for (int i = 0; i < channels * kinds * length / 8; i++) vstore8((float8)(0), i, lines);
        }
        /* In one pass a single tile serves all: it stays in the nearest cache. */
        const bool single = whole && channels >= dims.s3;
        if (!single && ty == 0 && tx == 0)
          for (int i = 0; i < panels * tiles * TILE / 8; i++) vstore8((float8)(0), i, block);
        int c0 = 0;
        do { /* without taps or channels there is one pass of no depth */
          const int now = min(channels, (int)dims.s3 - c0), depth = now * depth0;
          for (int c = 0; c < now; c++) {
            const int skipped = skip + (c0 + c) * plane;
            FN(copy)(x + skipped, dims.s0 * image - skipped, mul.y, pieces, to, from, many, lines + c * kinds * length);
          }
          for (int t = 0; t < tiles; t++) FN(copy_weights)
          (w0 + t * ROWS * taps.s3 + c0 * taps.s4, taps.s3, n_rows - t * ROWS, weight_at, depth,
           weights + t * ROWS * depth);
          const bool last = ty + some.x >= count.x && tx + some.y >= count.y && c0 + channels >= dims.s3;
          for (int p = 0, result0 = 0; p < panels; p++) {
            int result1 = result0;
            while (result1 < results && result_from[result1] < (p + 1) * PANEL) result1++;
            for (int t = 0; t < tiles; t++) {
              float *tile = block + (single ? 0 : (p * tiles + t) * TILE);
              if (single)
                for (int i = 0; i < TILE / 8; i++) vstore8((float8)(0), i, tile);
              FN(multiply)(weights + t * ROWS * depth, lines + p * PANEL, at, depth, tile);
              for (int j = 0; last && j < min(ROWS, n_rows - t * ROWS); j++) /* while others are being multiplied */
                for (int q = result0; q < result1; q++) {
                  const int batch = result_batch[q], pixel = result_to[q], many = result_many[q];
                  const index_t row = group * dims.s2 + row0 + t * ROWS + j;
                  const float *from_tile = tile + j * PANEL + result_from[q] % PANEL;
                  __global STORAGE(OUT) *out = y + (batch * dims.s1 * dims.s2 + row) * dims.s6 * dims.s7;
                  EPILOGUE_USE
                  int i = 0;
                  if (div.y == 1)
                    for (; i + 8 <= many; i += 8)
                      for (int l = 0; l < 8; l++) {
                        const index_t column = pixel + i + l;
                        const COMPUTE(T) i0 = from_tile[i + l];
                        EPILOGUE
                        STORE(OUT, out, column, r);
                      }
                  if (part.s5 == 0)
#pragma clang loop vectorize(disable)
                    for (; i < many; i++) {
                      const index_t column = pixel + i * div.y;
                      const COMPUTE(T) i0 = from_tile[i];
                      EPILOGUE
                      STORE(OUT, out, column, r);
                    }
                  else /* what no tap reaches is zero: up to the next place and line */
                    for (int dy = 0; dy < min(div.x, (int)dims.s6 - pixel / (int)dims.s7); dy++)
                      for (i = 0; i < many; i++)
                        for (int dx = 0; dx < min(div.y, (int)dims.s7 - pixel % (int)dims.s7 - i * div.y); dx++) {
                          const index_t column = pixel + dy * dims.s7 + i * div.y + dx;
                          const COMPUTE(T) i0 = dy || dx ? 0.0f : from_tile[i];
                          EPILOGUE
                          STORE(OUT, out, column, r);
                        }
                }
            }
            result0 = result1;
          }
          c0 += channels;
        } while (c0 < dims.s3);
      }
  }
}

GROUP(1, 1, 1) KERNEL(conv2d_gather_vec)(ARGS) {
  FN(block)((int)get_global_id(0), PASS(x), PASS(w), PASS(y), dims, taps, map, part EPILOGUE_PASS);
}
#undef ARGS
#endif

#ifdef WANT_conv2d_gather_ref
KERNEL(conv2d_gather_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps,
 const index8_t map EPILOGUE_ARGS) {
  const index_t column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  const index_t pixels = dims.s6 * dims.s7, plane = dims.s4 * dims.s5;
  if (column >= pixels || row >= dims.s1 * dims.s2 || batch >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  const index_t group = row / dims.s2, y0 = column / dims.s7 * map.s0 + map.s1, x0 = column % dims.s7 * map.s4 + map.s5;
  x += (batch * dims.s1 + group) * dims.s3 * plane;
  w += group * taps.s2 + row % dims.s2 * taps.s3;
  float sum = 0;
  for (index_t ky = 0; ky < taps.s0; ky++) {
    const index_t py = y0 + ky * map.s2, sy = py / map.s3;
    const bool in_y = py >= 0 && sy < dims.s4 && sy * map.s3 == py;
    for (index_t kx = 0; kx < taps.s1; kx++) {
      const index_t px = x0 + kx * map.s6, sx = px / map.s7;
      const bool in = in_y && px >= 0 && sx < dims.s5 && sx * map.s7 == px;
      const index_t from = in ? sy * dims.s5 + sx : 0, by = ky * taps.s1 + kx;
      for (index_t c = 0; c < dims.s3; c++) {
        const float product = LOAD(T, x, from + c * plane) * LOAD(T, w, by + c * taps.s4);
        sum += in ? product : 0.0f;
      }
    }
  }
  const COMPUTE(T) i0 = sum;
  EPILOGUE
  STORE(OUT, y, (batch * dims.s1 * dims.s2 + row) * pixels + column, r);
}
#endif
#undef EPILOGUE_AT
#undef APART
#undef ALIGNED
#undef VECTOR
#undef VLOAD
#undef VSTORE
#undef PANEL
#undef TILE
#undef SPACED

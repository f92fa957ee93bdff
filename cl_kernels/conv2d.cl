/* Convolution and its derivatives. Each kernel gathers; nothing is scattered.
 *
 * map: (mul, add, delta, div) of height, then of width: to a place p and a tap k belongs the place
 * (p * mul + add + k * delta) / div of the source, where that is a whole number inside of it.
 *
 * In the kernels gather_…, dims: images, groups, rows (channels of the result per group), inner (of the source), height
 * and width of the source and of the result. taps: height and width of the kernel; the weights' strides of group, row and
 * inner channel. EPILOGUE computes r from i0 at (row, column): a channel and a pixel of the image `batch`. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)

#if defined(WANT_conv2d_gather_vec) || defined(WANT_conv2d_weights_vec)
/* For a core with vectors of WIDTH floats. What a work-item needs of the source is copied to private memory, a strip of
 * STRIP columns (places of the result) by a slice of lines (channels and taps of the source), with zeros for what lies
 * outside; then the inner loops know whole tiles only. Offsets are of 32 bits here. */
#define APART  __attribute__((noinline)) /* compiled once, however often the compiler copies the kernel */
#define VECTOR CLADE_PASTE(float, WIDTH)
#define VLOAD  CLADE_PASTE(vload, WIDTH)
#define VSTORE CLADE_PASTE(vstore, WIDTH)
#define LANES  16
#define IOTA   ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))

/* Where LANES columns of a line go: lines as long as the strip, or panels two vectors wide. */
#ifdef WANT_conv2d_weights_vec
#define PITCH      (STRIP + 16) /* no power of two, so that lines do not meet in a cache */
#define LINE(k, q) ((k) * PITCH + (q) * LANES)
#else
#define PANEL      (2 * WIDTH)
#define LINE(k, q) ((q) * LANES / PANEL * DEPTH * PANEL + (k) * PANEL + (q) * LANES % PANEL)
#endif

/* Where the columns of a strip lie in the source, for a tap that does not move them. LANES neighbours are mostly a few
 * runs of it: run r begins at lane `begin` and would be at `from` for lane 0. One of `runs` above RUNS: read one by one. */
#define RUNS  4
#define STRIP_PLACES                                                                     \
  int at[STRIP], py[STRIP], px[STRIP], runs[STRIP / LANES], begin[STRIP / LANES * RUNS], \
      from[STRIP / LANES * RUNS]
#define PLACES at, py, px, runs, begin, from
#define PLACES_ARGS(type) type *at, type *py, type *px, type *runs, type *begin, type *from

/* From column `first` on: the source's image, and there the column's own place times `mul`. */
APART static void FN(places)(int first, int2 grid, int image, int wide, int2 mul, PLACES_ARGS(int)) {
  int2 own = (int2)(first / grid.y % grid.x, first % grid.y);
  int start = first / grid.y / grid.x * image;
#pragma clang loop vectorize(disable) unroll(disable)
  for (int c = 0; c < STRIP; c++) {
    const int q = c / LANES, lane = c % LANES;
    py[c] = own.x * mul.x;
    px[c] = own.y * mul.y;
    at[c] = start + py[c] * wide + px[c];
    if (lane == 0) runs[q] = 0;
    if (lane == 0 || at[c] != at[c - 1] + 1) {
      const int r = q * RUNS + min(runs[q]++, RUNS - 1);
      begin[r] = lane;
      from[r] = at[c] - lane;
    }
    if (++own.y < grid.y) continue;
    own.y = 0;
    if (++own.x < grid.x) continue;
    own.x = 0;
    start += image;
  }
}

/* Line `k` of a slice that begins at `k0` is the source's channel k / taps, moved by the shift of tap k % taps:
 * shift + (tap / wide, tap % wide) * delta. `total` is how many elements the source has. */
APART static void FN(copy_lines)(const __global STORAGE(T) *x, int2 size, int total, PLACES_ARGS(const int),
                                 int columns, int2 shift, int2 delta, int taps, int wide, int k0, int count, float *to) {
  const int plane = size.x * size.y;
  int mask[STRIP];
  for (int tap = 0; tap < taps; tap++) {
    int channel = k0 / taps + (tap < k0 % taps), k = channel * taps + tap - k0;
    if (k >= count) continue;
    const int dy = shift.x + tap / wide * delta.x, dx = shift.y + tap % wide * delta.y;
    for (int q = 0; q < STRIP / LANES; q++) {
      const int16 y = vload16(q, py) + dy, z = vload16(q, px) + dx;
      vstore16((y >= 0) & (y < size.x) & (z >= 0) & (z < size.y) & (IOTA + q * LANES < columns), q, mask);
    }
    for (; k < count; k += taps, channel++) {
      const int move = dy * size.y + dx + channel * plane;
      for (int q = 0; q < STRIP / LANES; q++) {
        float *out = to + LINE(k, q);
        bool near = runs[q] <= RUNS;
        for (int r = q * RUNS; near && r < q * RUNS + runs[q]; r++)
          near = from[r] + move >= 0 && from[r] + move <= total - LANES;
        if (near) {
          float16 v = LOAD16(T, x, from[q * RUNS] + move);
          for (int r = q * RUNS + 1; r < q * RUNS + runs[q]; r++)
            v = select(v, LOAD16(T, x, from[r] + move), IOTA >= begin[r]);
          vstore16(as_float16(as_int16(v) & vload16(q, mask)), 0, out);
        } else {
#pragma clang loop vectorize(disable) unroll_count(4)
          for (int l = 0; l < LANES; l++) { /* what is masked reads the first element */
            const int in = mask[q * LANES + l];
            out[l] = as_float(as_int(LOAD(T, x, in & (at[q * LANES + l] + move))) & in);
          }
        }
      }
    }
  }
}
#endif

#ifdef WANT_conv2d_gather_vec
/* A block of `rows` channels x STRIP columns is one work-item's; for every DEPTH of channels and taps the source's lines
 * are copied in panels two vectors wide, and for every ROWS rows their weights.
 *
 * Where div is above 1 the places of the result fall into phases, p = phase + div * column: all places of a phase have
 * the same taps, and to neighbours belong neighbours of the source. */
#define W_PITCH (DEPTH + 16)

/* How many taps are before the first that a phase has. */
APART static int FN(skipped)(int from, int delta, int div, int taps) {
  int k = 0;
  while (k < taps && (from + k * delta) % div) k++;
  return k;
}

APART static void FN(multiply)(const float *w, const float *x, int depth, float *c) {
  VECTOR left[ROWS], right[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    left[r] = VLOAD(0, c + r * STRIP);
    right[r] = VLOAD(1, c + r * STRIP);
  }
#pragma clang loop unroll(disable)
  for (int k = 0; k < depth; k++) {
    const VECTOR x0 = VLOAD(0, x + k * PANEL), x1 = VLOAD(1, x + k * PANEL);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const VECTOR one = w[r * W_PITCH + k];
      left[r] = one * x0 + left[r];
      right[r] = one * x1 + right[r];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    VSTORE(left[r], 0, c + r * STRIP);
    VSTORE(right[r], 1, c + r * STRIP);
  }
}

#define ARGS                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, \
  const index8_t taps, const index8_t map, const index_t rows, const index_t across EPILOGUE_ARGS
BODY(block)(const int item, ARGS) {
  if (rows == 0 || across == 0) return;
  const int down = (dims.s2 + rows - 1) / rows;
  const int phase = item / (across * down * dims.s1), group = item / (across * down) % dims.s1;
  if (phase >= map.s3 * map.s7) return;
  const int2 div = (int2)(map.s3, map.s7), delta = (int2)(map.s2, map.s6), mul = (int2)(map.s0, map.s4);
  const int2 first = (int2)(phase / div.y, phase % div.y), grid = ((int2)(dims.s6, dims.s7) - first + div - 1) / div;
  const int columns = dims.s0 * grid.x * grid.y, column0 = item % across * STRIP, row0 = item / across % down * rows;
  if (column0 >= columns) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  const int n_rows = min((int)rows, (int)dims.s2 - row0), n_columns = min(STRIP, columns - column0);
  const int2 size = (int2)(dims.s4, dims.s5), origin = first * mul + (int2)(map.s1, map.s5);
  const int2 tap0 = (int2)(FN(skipped)(origin.x, delta.x, div.x, taps.s0), FN(skipped)(origin.y, delta.y, div.y, taps.s1));
  const int2 left = (int2)(taps.s0, taps.s1) - tap0;
  const int2 step = 1 + (int2)(FN(skipped)(origin.x + (tap0.x + 1) * delta.x, delta.x, div.x, left.x - 1),
                               FN(skipped)(origin.y + (tap0.y + 1) * delta.y, delta.y, div.y, left.y - 1));
  const int2 count = (left + step - 1) / step;
  const int n_taps = count.x * count.y, depth = dims.s3 * n_taps, plane = size.x * size.y;
  const int image = dims.s1 * dims.s3 * plane, skip = group * dims.s3 * plane;
  float w_part[ROWS * W_PITCH], x_part[DEPTH * STRIP], block[BLOCK_ROWS * STRIP];
  int weight_at[DEPTH];
  STRIP_PLACES;
  FN(places)(column0, grid, image, size.y, mul, PLACES);
  for (int i = 0; i < (n_rows + ROWS - 1) / ROWS * ROWS * STRIP; i++) block[i] = 0;
  w += group * taps.s2 + row0 * taps.s3;
  for (int k0 = 0; k0 < depth; k0 += DEPTH) {
    const int part = min(DEPTH, depth - k0);
    FN(copy_lines)(x + skip, size, dims.s0 * image - skip, PLACES, n_columns, (origin + tap0 * delta) / div,
                   step * delta / div, n_taps, count.y, k0, part, x_part);
#pragma clang loop vectorize(disable) unroll(disable)
    for (int k = 0; k < part; k++) {
      const int tap = (k0 + k) % n_taps;
      weight_at[k] = (k0 + k) / n_taps * taps.s4 + (tap0.x + tap / count.y * step.x) * taps.s1 + tap0.y + tap % count.y * step.y;
    }
    for (int r = 0; r < n_rows; r += ROWS) {
      for (int i = 0; i < ROWS; i++) { /* beyond the last row it is copied again, and not stored */
        const __global STORAGE(T) *row = w + min(r + i, n_rows - 1) * taps.s3;
        for (int k = 0; k < part; k++) w_part[i * W_PITCH + k] = LOAD(T, row, weight_at[k]);
      }
      for (int c = 0; c < n_columns; c += PANEL) FN(multiply)(w_part, x_part + c * DEPTH, part, block + r * STRIP + c);
    }
  }
  const bool flat = div.x == 1 && div.y == 1; /* then an image is one line of pixels */
  const int2 lines = flat ? (int2)(1, grid.x * grid.y) : grid;
  for (int c = 0; c < n_columns;) {
    const int line = (column0 + c) / lines.y, spot = (column0 + c) % lines.y, batch = line / lines.x;
    const int run = min(n_columns - c, lines.y - spot);
    const int pixel = (first.x + line % lines.x * div.x) * dims.s7 + first.y + spot * div.y;
    EPILOGUE_USE
    for (int j = 0; j < n_rows; j++)
      for (int i = 0; i < run; i++) {
        const index_t row = group * dims.s2 + row0 + j, column = pixel + i * div.y;
        const COMPUTE(T) i0 = block[j * STRIP + c + i];
        EPILOGUE
        STORE(OUT, y, (batch * dims.s1 * dims.s2 + row) * dims.s6 * dims.s7 + column, r);
      }
    c += run;
  }
}

GROUP(1, 1, 1) KERNEL(conv2d_gather_vec)(ARGS) {
  FN(block)((int)get_global_id(0), PASS(x), PASS(w), PASS(y), dims, taps, map, rows, across EPILOGUE_PASS);
}
#undef ARGS
#undef W_PITCH
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

/* In the kernels weights_…, x is the convolution's source and y its result; dims: images, groups, rows (channels of y per
 * group), inner (of x), height and width of x and of y. taps: height and width of the kernel, and how many parts the
 * sums are cut into; `out` holds them all, part by part. */
#ifdef WANT_conv2d_weights_ref
KERNEL(conv2d_weights_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps,
 const index8_t map, const index_t lines) {
  const index_t column = get_global_id(0), row = get_global_id(1), part = get_global_id(2);
  const index_t tap_count = taps.s0 * taps.s1, columns = dims.s3 * tap_count, rows = dims.s1 * dims.s2;
  if (column >= columns || row >= rows || part >= taps.s2) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  const index_t tap = column % tap_count, channel = row / dims.s2 * dims.s3 + column / tap_count;
  const index_t y0 = tap / taps.s1 * map.s2 + map.s1, x0 = tap % taps.s1 * map.s6 + map.s5;
  const index_t end = min((part + 1) * lines, dims.s0 * dims.s6);
  float sum = 0;
  for (index_t line = part * lines; line < end; line++) {
    const index_t batch = line / dims.s6, oy = line % dims.s6, sy = oy * map.s0 + y0;
    const bool in_y = sy >= 0 && sy < dims.s4;
    const index_t from = in_y ? ((batch * dims.s1 * dims.s3 + channel) * dims.s4 + sy) * dims.s5 : 0;
    const index_t by = ((batch * rows + row) * dims.s6 + oy) * dims.s7;
    for (index_t ox = 0; ox < dims.s7; ox++) {
      const index_t sx = ox * map.s4 + x0;
      const bool in = in_y && sx >= 0 && sx < dims.s5;
      const float product = LOAD(T, x, in ? from + sx : 0) * LOAD(T, y, by + ox);
      sum += in ? product : 0.0f;
    }
  }
  out[(part * rows + row) * columns + column] = sum;
}
#endif

#ifdef WANT_conv2d_weights_vec
/* A block of BLOCK x BLOCK weights is one work-item's, for the strips of one part. Both operands are copied in lines along
 * the strip; a vector of partial sums for each weight is added up at the end. */
APART static void FN(multiply)(const float *y, const float *x, float *sums) {
  VECTOR sum[ROWS][COLUMNS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) sum[r][c] = VLOAD(r * BLOCK + c, sums);
#pragma clang loop unroll(disable)
  for (int k = 0; k < STRIP / WIDTH; k++) {
    VECTOR left[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) left[r] = VLOAD(k, y + r * PITCH);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
      const VECTOR right = VLOAD(k, x + c * PITCH);
#pragma unroll
      for (int r = 0; r < ROWS; r++) sum[r][c] = left[r] * right + sum[r][c];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) VSTORE(sum[r][c], r * BLOCK + c, sums);
}

#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps, \
  const index8_t map, const index_t strips
BODY(block)(const int item, ARGS) {
  if (strips == 0) return;
  const int n_taps = taps.s0 * taps.s1, columns = dims.s3 * n_taps, all_rows = dims.s1 * dims.s2;
  const int across = (columns + BLOCK - 1) / BLOCK, down = (dims.s2 + BLOCK - 1) / BLOCK;
  const int group = item / (across * down) % dims.s1, part = item / (across * down * dims.s1);
  if (part >= taps.s2) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  const int column0 = item % across * BLOCK, row0 = item / across % down * BLOCK;
  const int n_columns = min(BLOCK, columns - column0), n_rows = min(BLOCK, (int)dims.s2 - row0);
  const int2 grid = (int2)(dims.s6, dims.s7), size = (int2)(dims.s4, dims.s5), mul = (int2)(map.s0, map.s4);
  const int x_image = dims.s1 * dims.s3 * size.x * size.y, x_skip = group * dims.s3 * size.x * size.y;
  const int y_image = all_rows * grid.x * grid.y, y_skip = (group * dims.s2 + row0) * grid.x * grid.y;
  const int pixels = dims.s0 * grid.x * grid.y, start = part * strips * STRIP, end = min(start + strips * STRIP, pixels);
  float x_lines[BLOCK * PITCH], y_lines[BLOCK * PITCH], sums[BLOCK * BLOCK * WIDTH];
  STRIP_PLACES;
  for (int i = 0; i < BLOCK * BLOCK * WIDTH; i++) sums[i] = 0;
  for (int i = 0; i < BLOCK * PITCH; i++) x_lines[i] = y_lines[i] = 0;
  for (int j = start; j < end; j += STRIP) {
    const int n = min(STRIP, end - j);
    FN(places)(j, grid, x_image, size.y, mul, PLACES);
    FN(copy_lines)(x + x_skip, size, dims.s0 * x_image - x_skip, PLACES, n, (int2)(map.s1, map.s5),
                   (int2)(map.s2, map.s6), n_taps, taps.s1, column0, n_columns, x_lines);
    FN(places)(j, grid, y_image, grid.y, (int2)(1), PLACES);
    FN(copy_lines)(y + y_skip, grid, dims.s0 * y_image - y_skip, PLACES, n, (int2)(0), (int2)(0), 1, 1, 0, n_rows,
                   y_lines);
    for (int c = 0; c < n_columns; c += COLUMNS)
      for (int r = 0; r < n_rows; r += ROWS)
        FN(multiply)(y_lines + r * PITCH, x_lines + c * PITCH, sums + (r * BLOCK + c) * WIDTH);
  }
  for (int r = 0; r < n_rows; r++)
    for (int c = 0; c < n_columns; c++) {
      float sum = 0;
      for (int l = 0; l < WIDTH; l++) sum += sums[(r * BLOCK + c) * WIDTH + l];
      out[(part * all_rows + group * dims.s2 + row0 + r) * columns + column0 + c] = sum;
    }
}

GROUP(1, 1, 1) KERNEL(conv2d_weights_vec)(ARGS) {
  FN(block)((int)get_global_id(0), PASS(x), PASS(y), PASS(out), dims, taps, map, strips);
}
#undef ARGS
#endif

#ifdef WANT_conv2d_weights_join
KERNEL(conv2d_weights_join)
(ARG(const float, parts), ARG(STORAGE(T), w), const index_t outputs, const index_t count) {
  const index_t i = get_global_id(0);
  if (i >= outputs) return;
  USE(const float, parts);
  USE(STORAGE(T), w);
  float sum = 0;
  for (index_t part = 0; part < count; part++) sum += parts[part * outputs + i];
  STORE(T, w, i, sum);
}
#endif
#undef EPILOGUE_AT
#undef APART
#undef VECTOR
#undef VLOAD
#undef VSTORE
#undef LANES
#undef IOTA
#undef RUNS
#undef STRIP_PLACES
#undef PLACES
#undef PLACES_ARGS
#undef LINE
#undef PANEL
#undef PITCH

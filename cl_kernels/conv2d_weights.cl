/* Gradient of convolutions with respect to the weights: sums over all places of all images.
 *
 * map: (mul, add, delta, div) of height, then of width. The place p of y and the tap k read the place p * mul + add + k
 * * delta of x, if it exists.
 *
 * x is the convolution's source, and y the gradient of its result. dims: images, groups, rows (channels of y per
 * group), inner (of x), height and width of x, then of y. taps: height and width of the kernel; number of parts of the
 * sums. `out` holds all parts, one after another. */
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
/* ---- lines of images ---- Places of the result are numbered along padded lines of `pitch` places and images of `high`
 * lines, such that a tap is a constant offset: padding between the lines of the source is zero, with one stretch of
 * zeros for the end of a line and the beginning of the next one, and places between the lines of the result do not
 * count. The lines that a strip of places needs are therefore copied to private memory once for all taps (with a
 * stride, one copy per remainder), and each tap reads them at an offset. Offsets have 32 bits. */
/* Floor division and its remainder, for a positive divisor. */
static inline int FN(line_down)(int a, int b) { return (a >= 0 ? a : a - b + 1) / b; }
static inline int FN(line_rest)(int a, int b) { return a - FN(line_down)(a, b) * b; }

/* n taps along one axis move by shift + tap * delta, in units of `mul`: number of different remainders, the least
 * position, and the span of positions. */
typedef struct {
  int kinds, least, span;
} FN(line_reach);
static inline FN(line_reach) FN(line_reach_of)(int shift, int delta, int mul, int n) {
  const int a = FN(line_down)(shift, mul), b = FN(line_down)(shift + (n - 1) * delta, mul);
  FN(line_reach) r = {1, min(a, b), max(a, b) - min(a, b)};
  while (r.kinds < n && r.kinds * delta % mul) r.kinds++;
  return r;
}

/* Divides `length` places from `first` on into contiguous pieces that exist in the source, and appends these to
 * `count` others. The first place belongs at `begins`. */
APART static int FN(line_pieces)(int first, int length, int pitch, int high, int2 least, int2 rest, int2 mul, int2 size,
                                 int images, int image, int begins, int count, int *to, int *from, int *many) {
  const int wide = size.y > rest.y ? (size.y - 1 - rest.y) / mul.y + 1 : 0;
  const int left = max(-least.y, 0), right = min(pitch, wide - least.y);
  int line = first / pitch, n = line / high, y = line % high;
  for (int p = first - first % pitch; p < first + length && n < images; p += pitch) {
    const int row = (y + least.x) * mul.x + rest.x;
    const int begin = max(left, first - p), end = min(right, first + length - p);
    if (row >= 0 && row < size.x && begin < end) {
      to[count] = begins + p + begin - first;
      from[count] = n * image + row * size.y + (begin + least.y) * mul.y + rest.y;
      many[count++] = end - begin;
    }
    if (++y < high) continue;
    y = 0;
    n++;
  }
  return count;
}
#endif

#if defined(WANT_conv2d_weights_vec) || defined(WANT_conv2d_weights_flat)
/* For CPUs with vectors of WIDTH floats. */
#include "conv2d_line.cl"
#define PANEL     (VECTORS * WIDTH)
#define TILE      (ROWS * PANEL)
#define SPACED(n) (((n) + 31) / 32 * 32 + 16) /* not a power of two, to avoid cache set conflicts */
/* Eight places from p on, reading nothing behind the last of them. */
#define READ8(p) (STRIDE == 2 ? SECONDS8(T, p, 0) : LOADN(8, T, p, 0))

/* Transposes rows of y. The last row is repeated up to a whole panel, and up to 8 places beyond the last are written.
 * `room` is the number of elements from y on. Reads eight rows at a time contiguously, since hardware prefetches no
 * more streams. */
APART static void FN(copy_rows)(const __global STORAGE(T) * y, int room, int pitch, int rows, int many, float *to) {
  int whole = 0;
  while (whole < many && (min(rows, PANEL) - 1) * pitch + STRIDE * (whole + 7) + 1 <= room) whole += 8;
  for (int b = 0; b < PANEL; b += 8)
    for (int l = 0; l < whole; l += 8) {
      float8 r[8];
      UNROLLED(k, 8) {
        const int from = min(b + k, rows - 1) * pitch + l * STRIDE;
        r[k] = READ8(y + from);
        LATER(y + from + PANEL * pitch); /* the next panel's */
      }
      clade_turn(r);
      UNROLLED(k, 8) vstore8(r[k], 0, to + (l + k) * PANEL + b);
    }
#pragma clang loop vectorize(disable)
  for (int l = whole; l < many; l++)
    for (int r = 0; r < PANEL; r++) to[l * PANEL + r] = LOAD(T, y, min(r, rows - 1) * pitch + l * STRIDE);
}
#endif

#ifdef WANT_conv2d_weights_vec
/* A work-item computes a block of rows x (channels and taps) from the strips of one part. y is transposed, PANEL rows
 * side by side. A column, which is a channel and a tap, reads x from its own offset in the lines. Places are processed
 * in runs, since an index for each of them would exceed the registers. */
APART static void FN(multiply)(const float *x, const int *at, const int *run, const int *many, int runs, const float *y,
                               bool first, float *c) {
  VECTOR sum[ROWS][VECTORS];
  const float *column[ROWS];
  UNROLLED(r, ROWS) column[r] = x + at[r];
  EACH_SUM(ROWS) sum[r][v] = first ? (VECTOR)(0) : VLOAD(r * VECTORS + v, c);
  for (int k = 0; k < runs; k++) {
    const long begin = run[k], end = begin + many[k];
#pragma clang loop unroll(disable)
    for (long i = begin; i < end; i++, y += PANEL) MULTIPLY_TILE(ROWS, column[r][i], VLOAD(v, y))
  }
  EACH_SUM(ROWS) VSTORE(sum[r][v], r * VECTORS + v, c);
}

/* part: places of a strip; strips of a part; rows, channels, lines of taps and taps per line of a block; lines of an
 * image; pitch of lines. */
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), y), ARG(float, out), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part
BODY(conv2d_weights_vec_item)(const int item, ARGS) {
  const int strip = part.s0, rows = part.s2, channels = part.s3, high = part.s6, pitch = part.s7;
  const int2 some = (int2)(part.s4, part.s5), kernel_size = (int2)(taps.s0, taps.s1);
  if (strip == 0 || rows == 0 || channels == 0 || some.x == 0 || some.y == 0) return;
  const int down = (dims.s2 + rows - 1) / rows, across = (dims.s3 + channels - 1) / channels;
  const int2 cuts = (kernel_size + some - 1) / some;
  const int row0 = item % down * rows, c0 = item / down % across * channels, cut = item / (down * across);
  const int group = cut / (cuts.x * cuts.y) % dims.s1, own = cut / (cuts.x * cuts.y) / dims.s1;
  if (own >= taps.s2) return;
  const int2 tap0 = (int2)(cut / cuts.y % cuts.x, cut % cuts.y) * some, n_tap = min(some, kernel_size - tap0);
  const int2 grid = (int2)(dims.s6, dims.s7), size = (int2)(dims.s4, dims.s5), mul = (int2)(map.s0, map.s4);
  const int2 move = (int2)(map.s2, map.s6), shift = (int2)(map.s1, map.s5), e = shift + tap0 * move;
  const FN(line_reach) ry = FN(line_reach_of)(e.x, move.x, mul.x, n_tap.x);
  const FN(line_reach) rx = FN(line_reach_of)(e.y, move.y, mul.y, n_tap.y);
  const int kinds = ry.kinds * rx.kinds, length = SPACED(strip + ry.span * pitch + rx.span);
  const int n_rows = min(rows, (int)dims.s2 - row0), n_channels = min(channels, (int)dims.s3 - c0);
  const int n_taps = n_tap.x * n_tap.y, columns = n_channels * n_taps, all_rows = dims.s1 * dims.s2;
  const int panels = (n_rows + PANEL - 1) / PANEL, tiles = (columns + ROWS - 1) / ROWS;
  const int plane = size.x * size.y, image = dims.s1 * dims.s3 * plane, y_plane = grid.x * grid.y;
  const int x_skip = (group * dims.s3 + c0) * plane, y_skip = (group * dims.s2 + row0) * y_plane;
  const int y_room = dims.s0 * all_rows * y_plane - y_skip;
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), y);
  USE(float, out);
  float lines[LINES] ALIGNED, turned[TURNED] ALIGNED, sums[BLOCK] ALIGNED;
  int at[COLUMNS], to[PIECES], from[PIECES], many[PIECES];
  for (int k = 0; k < tiles * ROWS; k++)
    if (k < n_taps && k < columns) { /* in the lines of the first channel */
      const int2 tap = (int2)(k / n_tap.y, k % n_tap.y);
      at[k] = (tap.x % ry.kinds * rx.kinds + tap.y % rx.kinds) * length +
              (FN(line_down)(e.x + tap.x * move.x, mul.x) - ry.least) * pitch +
              FN(line_down)(e.y + tap.y * move.y, mul.y) - rx.least;
    } else {
      at[k] = k < columns ? at[k - n_taps] + kinds * length : at[columns - 1];
    }
  const int places = dims.s0 * high * pitch, end = min((own + 1) * (int)part.s1 * strip, places);
  const bool gaps = any(kernel_size != 1) || any(mul != 1) || any(shift != 0) || any(grid != size);
  const int begin = own * part.s1 * strip;
  for (int i = 0; begin >= end && i < panels * tiles * TILE / WIDTH; i++) VSTORE((VECTOR)(0), 0, sums + i * WIDTH);
  for (int first = begin; first < end; first += strip) {
    const int n = min(strip, end - first);
    int pieces = 0, n_places = 0;
    for (int i = 0; i < kinds; i++) { /* which differ in the remainder of their first taps */
      const int2 tap = e + (int2)(i / rx.kinds, i % rx.kinds) * move;
      pieces = FN(line_pieces)(first, length, pitch, high, (int2)(ry.least, rx.least),
                               (int2)(FN(line_rest)(tap.x, mul.x), FN(line_rest)(tap.y, mul.y)), mul, size, dims.s0,
                               image, i * length, pieces, to, from, many);
    }
    if (gaps)
      for (int i = 0; i < n_channels * kinds * length / WIDTH; i++) VSTORE((VECTOR)(0), 0, lines + i * WIDTH);
    for (int c = 0; c < n_channels; c++)
      for (int p = 0; p < pieces; p++)
        FN(copy)(x + x_skip + c * plane + from[p], mul.y, many[p], lines + c * kinds * length + to[p]);
    pieces = FN(line_pieces)(first, n, pitch, high, (int2)(0), (int2)(0), (int2)(1), grid, dims.s0, all_rows * y_plane, 0,
                             0, to, from, many);
    for (int p = 0; p < pieces; p++) {
      for (int b = 0; b < panels; b++) FN(copy_rows)
      (y + y_skip + b * PANEL * y_plane + from[p], y_room - b * PANEL * y_plane - from[p], y_plane, n_rows - b * PANEL,
       many[p], turned + (b * (strip + 8) + n_places) * PANEL);
      n_places += many[p];
    }
    for (int b = 0; b < panels; b++)
      for (int t = 0; t < tiles; t++) FN(multiply)
    (lines, at + t * ROWS, to, many, pieces, turned + b * (strip + 8) * PANEL, first == begin,
     sums + (b * tiles + t) * TILE);
  }
  const int all_columns = dims.s3 * taps.s0 * taps.s1;
  const bool whole = n_taps == taps.s0 * taps.s1; /* then columns are contiguous */
  for (int r = 0; r < n_rows; r += 8) {
    const float *from_rows = sums + r / PANEL * tiles * TILE + r % PANEL;
    __global float *to = out + (own * all_rows + group * (int)dims.s2 + row0 + r) * all_columns;
    int k = 0;
    if (whole && r + 8 <= n_rows)
      for (; k + 8 <= columns; k += 8)
        TURN_EIGHT(vload8(0, from_rows + (k + l) * PANEL), vstore8(eight[l], 0, to + l * all_columns + c0 * n_taps + k))
    for (; k < columns; k++) {
      const int tap = k % n_taps, ky = tap0.x + tap / n_tap.y, kx = tap0.y + tap % n_tap.y;
      for (int i = 0; i < min(8, n_rows - r); i++)
        to[i * all_columns + ((c0 + k / n_taps) * taps.s0 + ky) * taps.s1 + kx] = from_rows[k * PANEL + i];
    }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_weights_vec, PASS(x), PASS(y), PASS(out), dims, taps, map, part)
#endif

#ifdef WANT_conv2d_weights_flat
#if BLOCKED
#define AT(c, apart) ((c) / 16 * (apart) + (c) % 16)
#define B            const __global STORAGE(T)
#define LANES(p, v)  LOADN(WIDTH, T, (v) * WIDTH < 16 ? b : next, (p) * b_by + (v) * WIDTH % 16)
#else
#define AT(c, apart) ((c) * (apart))
#define B            const float
#define LANES(p, v)  VLOAD(v, b + (p) * b_by)
#endif
/* Adds the products of n places in each of some lines to a tile of `out`, or sets it. */
APART static void FN(multiply)(const __global STORAGE(T) * a, int first, int apart, int rows, int by, int n, int lines,
                               int step, B *b, B *next, int b_by, int b_step, bool add, int lanes, int pitch,
                               __global float *out) {
  VECTOR sum[ROWS][VECTORS];
  const __global STORAGE(T) * row[ROWS];
  UNROLLED(r, ROWS) row[r] = a + AT(first + min(r, rows - 1), apart);
  EACH_SUM(ROWS) {
    SOON(out + min(r, rows - 1) * pitch + v * WIDTH);
    sum[r][v] = (VECTOR)(0);
  }
  for (int line = 0; line < lines; line++) {
#pragma clang loop unroll(disable)
    for (int p = 0; p < n; p++) MULTIPLY_TILE(ROWS, LOAD(T, row[r], p * by), LANES(p, v))
    b += b_step;
    next += b_step;
    UNROLLED(r, ROWS) row[r] += step;
  }
  UNROLLED(r, ROWS) {
    if (r >= rows) continue;
    __global float *to = out + r * pitch;
    if (lanes == PANEL) {
      UNROLLED(v, VECTORS) VSTORE(add ? VLOAD(v, to) + sum[r][v] : sum[r][v], v, to);
      continue;
    }
    float part[PANEL];
    UNROLLED(v, VECTORS) VSTORE(sum[r][v], v, part);
    for (int l = 0; l < lanes; l++) to[l] = add ? to[l] + part[l] : part[l];
  }
}

/* Image, line and place of a run. */
static inline int4 FN(place)(int run, int lines, int span, int cuts, int strips) {
  return (int4)(run / (strips * cuts), run / strips % cuts * lines, run % strips * span, 0);
}

/* Prefetches lines of a later tile or run during a multiplication; they are too far apart for hardware prefetching. */
static inline void FN(ask)(const __global STORAGE(T) * p, int n, int lines, int step) {
  for (int line = 0; line < lines; line++)
    for (int i = 0; i < n; i += 16) SOON(p + line * step + i);
}

/* For 1 x 1 windows without padding: a product of two matrices that are contiguous along the summed places. Channels of
 * `b` are lanes: a run of its places is transposed, PANEL channels side by side. Channels of `a` are rows, read in
 * place. BLOCKED: both are in blocks of 16 channels, one or two to a panel, and are read in place. Runs are pieces of a
 * line, or lines that are a step apart; without a stride an image is one line. A work-item computes a block of rows x
 * channels from the runs of one part.
 *
 * sizes: images, groups, rows, channels, lines of an image, places of a line. a_by and b_by: distances of images, of
 * channels or their blocks, of lines and of places. part: rows and channels of a block; places and lines of a run; runs
 * of a part; parts; row pitch of `out`. */
#define ARGS                                                                                                       \
  ARG(const STORAGE(T), a), ARG(const STORAGE(T), b), ARG(float, out), const index8_t sizes, const index8_t by, \
      const index8_t part
BODY(conv2d_weights_flat_item)(const int item, ARGS) {
  const int rows = part.s0, channels = part.s1, span = part.s2, lines = part.s3, runs = part.s4;
  if (rows == 0 || channels == 0 || span == 0 || lines == 0) return;
  const int down = (sizes.s2 + rows - 1) / rows, across = (sizes.s3 + channels - 1) / channels;
  const int row0 = item % down * rows, c0 = item / down % across * channels;
  const int group = item / (down * across) % sizes.s1, own = item / (down * across * sizes.s1);
  if (own >= part.s5) return;
  const bool whole = sizes.s4 == 1; /* then lines of different images are a step apart */
  const int step = whole ? by.s0 : by.s2, b_step = whole ? by.s4 : by.s6;
  const int n_rows = min(rows, (int)sizes.s2 - row0), n_channels = min(channels, (int)sizes.s3 - c0);
  const int all = whole ? sizes.s0 : sizes.s4, cuts = (all + lines - 1) / lines, strips = (sizes.s5 + span - 1) / span;
  const int pitch = part.s6, first_row = group * sizes.s2 + row0, first_lane = group * sizes.s3 + c0;
  USE(const STORAGE(T), a);
  USE(const STORAGE(T), b);
  USE(float, out);
  out += (own * sizes.s1 * sizes.s2 + first_row) * pitch + c0;
  const int last = min((own + 1) * runs, (whole ? 1 : (int)sizes.s0) * cuts * strips);
#if !BLOCKED
  const int room = sizes.s0 * by.s4, a0 = first_row * by.s1, b0 = first_lane * by.s5;
  const int tiles = (n_rows + ROWS - 1) / ROWS * ((n_channels + PANEL - 1) / PANEL);
  const int share = (n_rows + n_channels + tiles - 1) / tiles; /* rows and channels that each tile prefetches */
  float turned[TURNED] ALIGNED;
#endif
  for (int i = own * runs; i < last; i++) {
    const int4 now = FN(place)(i, lines, span, cuts, strips);
    const int n = min(span, (int)sizes.s5 - now.s2), n_lines = min(lines, all - now.s1);
    const int at = now.s0 * by.s0 + now.s1 * step + now.s2 * by.s3;
    const int b_at = now.s0 * by.s4 + now.s1 * b_step + now.s2 * by.s7;
#if !BLOCKED
    const int4 next = FN(place)(min(i + 1, last - 1), lines, span, cuts, strips);
    const int space = (n * n_lines + 8) * PANEL, next_n = min(span, (int)sizes.s5 - next.s2);
    const int next_at = a0 + next.s0 * by.s0 + next.s1 * step + next.s2 * by.s3;
    const int next_b = b0 + next.s0 * by.s4 + next.s1 * b_step + next.s2 * by.s7;
    for (int c = 0; c < n_channels; c += PANEL)
      for (int l = 0; l < n_lines; l++) FN(copy_rows)
    (b + b0 + b_at + c * by.s5 + l * b_step, room - b0 - b_at - c * by.s5 - l * b_step, by.s5, n_channels - c, n,
     turned + c / PANEL * space + l * n * PANEL);
    int asked = 0;
#endif
    for (int r = 0; r < n_rows; r += ROWS)
      for (int c = 0; c < n_channels; c += PANEL) {
#if BLOCKED
        B *panel = b + b_at + AT(first_lane + c, (int)by.s5), *beside = n_channels - c > 16 ? panel + by.s5 : panel;
#else
        B *panel = turned + c / PANEL * space, *beside = turned;
        for (int k = 0; k < share && i + 1 < last && asked < n_rows + n_channels; k++, asked++)
          if (asked < n_rows)
            FN(ask)(a + next_at + asked * by.s1, next_n * by.s3, min(lines, all - next.s1), step);
          else
            FN(ask)(b + next_b + (asked - n_rows) * by.s5, next_n * by.s7, min(lines, all - next.s1), b_step);
        if (i == own * runs && c == 0)
          for (int k = r + ROWS; k < min(r + 2 * ROWS, n_rows); k++)
            FN(ask)(a + a0 + at + k * by.s1, n * by.s3, n_lines, step);
#endif
        FN(multiply)
        (a + at, first_row + r, by.s1, min(ROWS, n_rows - r), by.s3, n, n_lines, step, panel, beside,
         BLOCKED ? by.s7 : PANEL, BLOCKED ? b_step : n * PANEL, i > own * runs, min(PANEL, n_channels - c), pitch,
         out + r * pitch + c);
      }
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_weights_flat, PASS(a), PASS(b), PASS(out), sizes, by, part)
#endif

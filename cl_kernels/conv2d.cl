/* Direct convolution and its gradient with respect to the input, which gather; nothing is scattered.
 *
 * A place is a position in a plane: `rows` counts the channels of the result in a group, `inner` those of the source.
 *
 * map: (mul, add, delta, div) of height, then of width. The place p of the result and the tap k read the place (p * mul
 * + add + k * delta) / div of the source, if the division is exact and the place exists.
 *
 * dims: images, groups, rows, inner, height and width of the source, then of the result. taps: height and width of the
 * kernel; the weights' strides for group, row and inner channel. EPILOGUE computes r from i0 at (row, column), a
 * channel and a pixel of the image `batch`. */
#ifdef WANT_conv2d_gather_ref
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#else
#include "conv2d_result.cl"
#endif

#ifdef WANT_conv2d_gather_direct
/* For CPUs with vectors of WIDTH floats, which hold channels of the result. The register tile is PLACES places by a
 * panel of channels; a step of the inner axis broadcasts one value per place and loads one vector of weights per vector
 * of the panel.
 *
 * A work-item computes a box of the result: images, lines, columns and channels. For some input channels at a time it
 * copies the source pixels of the box, with the channels of a pixel side by side and zeros in the padding. Then, panel
 * by panel, it copies the weights of these channels, which stay in L1 while all places are processed. The tiles
 * therefore depend neither on edges nor on the source's layout.
 *
 * taps: height and width of the kernel; the weights' strides for group, panel, row in a panel, inner channel and tap.
 * part: images, lines, columns and channels of a box; inner channels at a time; taps at a time (0 all, 1 a line, 2
 * one); flags: 1 the source is in blocks of 16 channels, 2 the result is, 4 the weights are in panels, 8 consecutive
 * work-items share images rather than channels. Of each axis every taps.s7-th and part.s7-th source pixel is copied. */
#include "conv2d_phase.cl"
#define PANEL   (VECTORS * WIDTH)
#define TILE    (PLACES * PANEL)
#define TILES   ((MOST_PLACES + PLACES - 1) / PLACES)
#define GET(p)  LOADN(WIDTH, T, p, 0)

#if COMMON_FIRST
APART static void COMMON(zero)(float *to, int n) {
  int i = 0;
  for (; i + 8 <= n; i += 8) vstore8((float8)(0), 0, to + i);
  ONE_BY_ONE for (; i < n; i++) to[i] = 0;
}

/* Copies n channels of `many` places, `step` apart, to place-major order: from blocks of 16 channels, `block` apart, or
 * from planes of one channel. */
APART static void COMMON(copy_blocked)(const __global STORAGE(T) * x, int block, int step, int many, int n, float *to) {
  for (int c = 0; c < n; c += 16, x += block, to += 16) {
    const int lanes = min(n - c, 16);
    for (int i = 0; i < many; i++)
      if (lanes == 16)
        UNROLLED(v, 16 / WIDTH) VSTORE(GET(x + i * step * 16 + v * WIDTH), v, to + i * n);
      else
        ONE_BY_ONE for (int l = 0; l < lanes; l++) to[i * n + l] = LOAD(T, x, i * step * 16 + l);
  }
}
APART static void COMMON(copy_dense)(const __global STORAGE(T) * x, int plane, int step, int many, int n, float *to) {
  int c = 0;
  for (; c + 8 <= n && step <= 2 && many >= 8; c += 8, x += 8 * plane)
    for (int i = 0; i < many; i += 8) { /* the last eight end with the line */
      const int at = min(i, many - 8);
      float *out = to + at * n + c;
      if (step == 1)
        TURN_EIGHT(LOADN(8, T, x, l * plane + at), vstore8(eight[l], 0, out + l * n))
      else
        TURN_EIGHT(SECONDS8(T, x, l * plane + 2 * at), vstore8(eight[l], 0, out + l * n))
    }
  for (; c + 8 <= n && step <= 2 && many >= 3 + step && many < 8; c += 8, x += 8 * plane)
    if (step == 1) /* four from the beginning, and the last four of the line */
      TURN_EIGHT((float8)(LOADN(4, T, x, l * plane), LOADN(4, T, x, l * plane + many - 4)),
                 vstore8(eight[l], 0, to + (l < 4 ? l : many - 8 + l) * n + c))
    else
      TURN_EIGHT((float8)(LOADN(8, T, x, l * plane).even, LOADN(8, T, x, l * plane + 2 * many - 9).odd),
                 vstore8(eight[l], 0, to + (l < 4 ? l : many - 8 + l) * n + c))
  for (; c < n; c++, x += plane)
    ONE_BY_ONE for (int i = 0; i < many; i++) to[i * n + c] = LOAD(T, x, i * step);
}

/* Copies the weights of a panel: n channels per tap. If the panel's rows are not contiguous there may be fewer; the
 * last one is repeated. */
APART static void COMMON(copy_weights)(const __global STORAGE(T) * w, int lane, int rows, int inner, int down, int across,
                                       int2 count, int n, float *to) {
  for (int y = 0; y < count.x; y++)
    for (int x = 0; x < count.y; x++) {
      const __global STORAGE(T) *from = w + y * down + x * across;
      for (int c = 0; c < n; c++, from += inner, to += PANEL)
        if (lane == 1 && rows >= PANEL)
          UNROLLED(v, VECTORS) VSTORE(GET(from + v * WIDTH), v, to);
        else
          ONE_BY_ONE for (int l = 0; l < PANEL; l++) to[l] = LOAD(T, from, min(l, rows - 1) * lane);
    }
}

/* Finds the runs of taps that lie in the padding for all places of a tile, whose first lines and columns in the source
 * are within [low, high]. A line of taps has `across` runs at a distance of `move`; a run ends `wide` columns after it
 * begins. */
APART static void COMMON(find_missed)(int2 low, int2 high, int2 move, int across, int wide, int2 size, int runs,
                                      uchar *missed) {
  int r = 0;
  for (int down = 0; r < runs; down += move.x)
    for (int k = 0, right = 0; k < across; k++, r++, right += move.y)
      missed[r] = high.x + down < 0 || low.x + down >= size.x || high.y + right + wide < 0 || low.y + right >= size.y;
}

/* Adds the products of `runs` runs of `length` values to a register tile (or starts a new one), skipping runs that are
 * `missed`. Meanwhile it prefetches what will be copied next: for each run from `ask` on, `by` elements further per
 * step. */
APART static void COMMON(multiply)(const float *w, const float *x, const int *place, const int *skip,
                                   const uchar *missed, int runs, int length, bool first, float *tile,
                                   const __global STORAGE(T) * next, const int *ask, long by) {
  VECTOR sum[PLACES][VECTORS];
  const float *from[PLACES];
  UNROLLED(p, PLACES) from[p] = x + place[p];
  EACH_SUM(PLACES) sum[r][v] = first ? (VECTOR)(0) : VLOAD(r * VECTORS + v, tile);
  for (int r = 0; r < runs; r++) {
    if (missed[r]) {
      w += length * PANEL;
      continue;
    }
    const long begin = skip[r], end = begin + length;
    const __global STORAGE(T) *soon = next + ask[r];
#pragma unroll 2
    for (long k = begin; k < end; k++, w += PANEL, soon += by) {
      SOON(soon);
      MULTIPLY_TILE(PLACES, from[r][k], VLOAD(v, w))
    }
  }
  EACH_SUM(PLACES) VSTORE(sum[r][v], r * VECTORS + v, tile);
}

/* Copies the source pixels of a box for n channels from c0 on, with zeros in the padding. */
APART static void COMMON(copy_box)(const __global STORAGE(T) * x, int c0, int n, bool blocked, int x_channel,
                                   int x_image, int images, int2 base, int2 unit, int2 held, int2 size, float *to) {
  const int2 high = clade_inside(base.x, unit.x, size.x, held.x), wide = clade_inside(base.y, unit.y, size.y, held.y);
  const int side = blocked ? 16 : 1;
  x += c0 / side * x_channel + (base.y + wide.x * unit.y) * side;
  for (int i = 0; i < images * held.x; i++, to += held.y * n) {
    const int line = i % held.x;
    const int2 own = line >= high.x && line < high.y ? wide : (int2)(0);
    const __global STORAGE(T) *from = x + i / held.x * x_image + (base.x + line * unit.x) * size.y * side;
    COMMON(zero)(to, own.x * n);
    if (own.x < own.y && blocked)
      COMMON(copy_blocked)(from, x_channel, unit.y, own.y - own.x, n, to + own.x * n);
    else if (own.x < own.y)
      COMMON(copy_dense)(from, x_channel, unit.y, own.y - own.x, n, to + own.x * n);
    COMMON(zero)(to + own.y * n, (held.y - own.y) * n);
  }
}
#endif

#define ARGS                                                                                                          \
  ARG(const STORAGE(T), x), ARG(const STORAGE(T), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps, \
      const index8_t map, const index8_t part, const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_gather_direct_item)(const int item, ARGS) {
  if (part.s0 == 0 || dims.s0 == 0) return;
  const int2 div = (int2)(map.s3, map.s7), delta = (int2)(map.s2, map.s6), mul = (int2)(map.s0, map.s4);
  const int2 result = (int2)(dims.s6, dims.s7), size = (int2)(dims.s4, dims.s5), lines = (int2)(part.s1, part.s2);
  const int2 boxes = ((result + div - 1) / div + lines - 1) / lines;
  const int channels = (dims.s2 + part.s3 - 1) / part.s3, all = boxes.x * boxes.y * ((dims.s0 + part.s0 - 1) / part.s0);
  const int phases = div.x * div.y, phase = item % phases; /* phases alternate, since they differ in work */
  const bool turns = part.s6 & 8;
  const int cut = turns ? item / phases % channels : item / phases / all % channels, row0 = cut * part.s3;
  const int box = turns ? item / phases / channels % all : item / phases % all, group = item / phases / channels / all;
  const int column0 = box % boxes.y * lines.y, line0 = box / boxes.y % boxes.x * lines.x;
  const int image0 = box / (boxes.x * boxes.y) * part.s0;
  if (group >= dims.s1) return;
  const int2 first = (int2)(phase / div.y, phase % div.y), grid = (result - first + div - 1) / div;
  const int2 place0 = (int2)(line0, column0), many = min(lines, grid - place0);
  const int images = min((int)part.s0, (int)dims.s0 - image0), rows = min((int)part.s3, (int)dims.s2 - row0);
  if (many.x <= 0 || many.y <= 0) return;
  const FN(phase) vertical = FN(phase_of)(first.x * mul.x + map.s1, delta.x, div.x, taps.s0);
  const FN(phase) horizontal = FN(phase_of)(first.y * mul.y + map.s5, delta.y, div.y, taps.s1);
  const int2 tap0 = (int2)(vertical.first, horizontal.first), step = (int2)(vertical.step, horizontal.step);
  const int2 shift = (int2)(vertical.shift, horizontal.shift);
  const int2 move = max((int2)(vertical.move, horizontal.move), (int2)(1)); /* 0 if there are no taps */
  int2 count = (int2)(vertical.count, horizontal.count);
  if (count.x == 0 || count.y == 0 || dims.s3 == 0) count = 0;
  const int2 some = part.s5 == 0 ? count : part.s5 == 1 ? (int2)(min(count.x, 1), count.y) : min(count, (int2)(1));
  const int2 unit = (int2)(taps.s7, part.s7), apart = mul / unit, next = move / unit, held = (many - 1) * apart + (some - 1) * next + 1;
  /* If the taps of an inner channel are contiguous, they are prefetched in one stream, otherwise channel by channel. */
  const bool lie = taps.s5 == some.x * some.y * PANEL, joined = next.y == 1 && (lie || dims.s3 < 16);
  const int runs = joined ? some.x : some.x * some.y, places = images * many.x * many.y;
  const int tiles = (places + PLACES - 1) / PLACES, panels = (rows + PANEL - 1) / PANEL;
  const int x_plane = size.x * size.y, blocked = part.s6 & 1, down = part.s6 & 2;
  const int x_channel = blocked ? 16 * x_plane : x_plane, x_channels = dims.s1 * dims.s3;
  const int x_image = blocked ? (x_channels + 15) / 16 * x_channel : x_channels * x_plane;
  const int by = (PANEL + tiles - 1) / tiles; /* a panel's tiles together prefetch the next panel */
  const bool single = part.s5 == 0 && part.s4 >= dims.s3; /* one pass: a panel's tiles are reused for the next one */
  USE(const STORAGE(T), x);
  USE(const STORAGE(T), w);
  USE(STORAGE(OUT), y);
  float source[SOURCE] ALIGNED, weights[WEIGHTS] ALIGNED, block[BLOCK] ALIGNED;
  int place[MOST_PLACES], goal[MOST_PLACES]; /* positions in the source and in the result */
  int skip[MOST_TAPS], ask[MOST_TAPS];       /* offsets of taps in the source, and in the weights copied next */
  uchar missed[TILES * MOST_TAPS];
  x += image0 * x_image + (blocked ? group * dims.s3 / 16 : group * dims.s3) * x_channel;
  w += group * taps.s2 + row0 / PANEL * taps.s3;
  if (some.x == 0) COMMON(zero)(block, (single ? 1 : panels) * tiles * TILE);
  int ty = 0, tx = 0, c0 = 0, known = 0;
  bool last = false;
  for (bool begin = true; !last; begin = false) {
    const int n = min((int)part.s4, (int)dims.s3 - c0), length = joined ? some.y * n : n;
    const int2 base = place0 * mul + shift + (int2)(ty, tx) * move;
    last = some.x == 0 || (c0 + n >= dims.s3 && tx + some.y >= count.y && ty + some.x >= count.x);
    if (some.x && n != known) {
      known = n;
      int i = 0;
      for (int line = 0; line < images * many.x; line++) {
        const int high = line / many.x, low = line - high * many.x;
        const int from = (high * held.x + low * apart.x) * held.y * n;
        const int pixel = (first.x + (line0 + low) * div.x) * result.y + first.y + column0 * div.y;
        const int to = high * y_s.s5 + pixel * y_s.s7;
        ONE_BY_ONE for (int l = 0; l < many.y; l++, i++) {
          place[i] = from + l * apart.y * n;
          goal[i] = to + l * div.y * (int)y_s.s7;
        }
      }
      ONE_BY_ONE for (; i < tiles * PLACES; i++) { /* the last place is repeated */
        place[i] = place[i - 1];
        goal[i] = goal[i - 1];
      }
      ONE_BY_ONE for (int r = 0; r < runs; r++) {
        skip[r] = (joined ? r * next.x * held.y : r / some.y * next.x * held.y + r % some.y * next.y) * n;
        ask[r] = lie ? r * length * by : (r / some.y * step.x * taps.s1 + r % some.y * step.y) * taps.s6;
      }
    }
    if (c0 == 0) /* the same for all channels */
      for (int t = 0; t < tiles; t++) {
        const int from = t * PLACES, to = min(from + PLACES, places) - 1; /* places; in one line, or whole lines */
        const int2 line = (int2)(from, to) / many.y, lines_of = line % many.x;
        const bool one = line.x == line.y, image = line.x / many.x == line.y / many.x;
        const int2 low = (int2)(image ? lines_of.x : 0, one ? from - line.x * many.y : 0);
        const int2 high = (int2)(image ? lines_of.y : many.x - 1, one ? to - line.y * many.y : many.y - 1);
        COMMON(find_missed)
        (base + low * mul, base + high * mul, move, joined ? 1 : max(some.y, 1), joined ? (some.y - 1) * move.y : 0, size,
         runs, missed + t * runs);
      }
    if (some.x) COMMON(copy_box)(x, c0, n, blocked, x_channel, x_image, images, base, unit, held, size, source);
    for (int p = 0; p < panels; p++) {
      float *tile = block + (single ? 0 : p * tiles * TILE);
      const int n_rows = min(rows - p * PANEL, PANEL);
      if (some.x) {
        const int tap = ((tap0.x + ty * step.x) * taps.s1 + tap0.y + tx * step.y) * taps.s6;
        COMMON(copy_weights)
        (w + p * taps.s3 + c0 * taps.s5 + tap, taps.s4, part.s6 & 4 ? PANEL : rows - p * PANEL, taps.s5,
         step.x * taps.s1 * taps.s6, step.y * taps.s6, some, n, weights);
        /* Prefetches what is copied next and what the result overwrites. */
        const bool more = p + 1 < panels;
        const __global STORAGE(T) *ahead =
            w + (more ? (p + 1) * taps.s3 + c0 * taps.s5 : last ? 0 : (c0 + n) * taps.s5);
        const int row = group * dims.s2 + row0 + p * PANEL;
        __global STORAGE(OUT) *out = y + image0 * y_s.s5 + (row >> 4) * y_s.s4 + (row & 15) * y_s.s6;
        for (int t = 0; t < tiles; t++) {
          if (last && down)
#pragma clang loop unroll(disable)
            for (int i = 0; i < PLACES; i++) SOON(out + goal[t * PLACES + i]);
          else if (last)
#pragma clang loop unroll(disable)
            for (int i = 0; i < n_rows; i++) SOON(out + i * y_s.s6 + goal[t * PLACES]);
          const int apart = lie ? by : t * 16 < PANEL ? taps.s5 : 0; /* otherwise a line of each channel */
          COMMON(multiply)
          (weights, source, place + t * PLACES, skip, missed + t * runs, runs, length, begin, tile + t * TILE,
           ahead + (lie ? t * runs * length * by : tap + t * 16), ask, apart);
        }
      }
      if (!last) continue;
      /* Contiguous lines are stored as one. */
      const bool whole = many.y == result.y && div.x == 1 && div.y == 1;
      const int pieces = whole ? 1 : many.x, piece = whole ? many.x * many.y : many.y;
      for (int i = 0; i < images * pieces; i++) {
        const int line = first.x + (line0 + i % pieces) * div.x;
        FN(finish)
        (tile + i * piece * PANEL, 1, 0, PANEL, n_rows, (int2)(1, piece), (int2)(0, div.y), down,
         y + (image0 + i / pieces) * y_s.s5, y_s, image0 + i / pieces, group * dims.s2 + row0 + p * PANEL,
         line * result.y + first.y + column0 * div.y EPILOGUE_PASS);
      }
    }
    if ((c0 += n) < dims.s3) continue;
    c0 = 0;
    if ((tx += max(some.y, 1)) < count.y) continue;
    tx = 0;
    ty += max(some.x, 1);
  }
}

GROUP(1, 1, 1)
ITEM_KERNEL(conv2d_gather_direct, PASS(x), PASS(w), PASS(y), dims, taps, map, part, y_s EPILOGUE_PASS)
#endif

#ifdef WANT_conv2d_gather_ref
KERNEL(conv2d_gather_ref)
(ARG(const STORAGE(T), x), ARG(const STORAGE(TB), w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t taps,
 const index8_t map EPILOGUE_ARGS) {
  const index_t column = get_global_id(0), row = get_global_id(1), batch = get_global_id(2);
  const index_t pixels = dims.s6 * dims.s7, plane = dims.s4 * dims.s5;
  if (column >= pixels || row >= dims.s1 * dims.s2 || batch >= dims.s0) return;
  USE(const STORAGE(T), x);
  USE(const STORAGE(TB), w);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  const index_t group = row / dims.s2, y0 = column / dims.s7 * map.s0 + map.s1, x0 = column % dims.s7 * map.s4 + map.s5;
  x += (batch * dims.s1 + group) * dims.s3 * plane;
  w += group * taps.s2 + row % dims.s2 * taps.s3;
  COMPUTE(T) sum = 0;
  for (index_t ky = 0; ky < taps.s0; ky++) {
    const index_t py = y0 + ky * map.s2, sy = py / map.s3;
    const bool in_y = py >= 0 && sy < dims.s4 && sy * map.s3 == py;
    for (index_t kx = 0; kx < taps.s1; kx++) {
      const index_t px = x0 + kx * map.s6, sx = px / map.s7;
      const bool in = in_y && px >= 0 && sx < dims.s5 && sx * map.s7 == px;
      const index_t from = in ? sy * dims.s5 + sx : 0, by = ky * taps.s1 + kx;
      for (index_t c = 0; c < dims.s3; c++) {
        const COMPUTE(T) product = LOAD(T, x, from + c * plane) * LOAD(TB, w, by + c * taps.s4);
        sum += in ? product : 0;
      }
    }
  }
  const COMPUTE(T) i0 = sum;
  EPILOGUE
  STORE(OUT, y, (batch * dims.s1 * dims.s2 + row) * pixels + column, r);
}
#endif

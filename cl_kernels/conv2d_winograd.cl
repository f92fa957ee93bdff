/* Convolution by windows of 3 x 3, step 1, as Winograd's F(2x2, 3x3) and F(4x4, 3x3): OUT x OUT results at a time come
 * from TILE x TILE places of the source, TILE = OUT + 2. Places and weights are brought into another base, in which a
 * convolution is TILE x TILE products of matrices, [tiles, inner channels] by [inner channels, channels]; the products
 * are brought back. docs/layouts.md says which base and why, and how far off results may be. */
#define APART   __attribute__((noinline)) /* compiled once, however often the compiler copies the kernel */
#define ALIGNED __attribute__((aligned(64)))
#define TILE    (OUT_SIDE + 2)
#define TAPS    (TILE * TILE)

/* Polynomials at 0, A, -A, B, -B and infinity, or at 0, 1, -1 and infinity. By each, along one axis: places d become t,
 * three weights w become u, products m become results y. */
#define A 0.625f
#define B 1.5f
#if OUT_SIDE == 4
#define FROM_PLACES(t, d)                                            \
  {                                                                  \
    const VECTOR a = fma((VECTOR)(-B * B), d[2], d[4]);              \
    const VECTOR b = A * fma((VECTOR)(-B * B), d[1], d[3]);          \
    const VECTOR e = fma((VECTOR)(-A * A), d[2], d[4]);              \
    const VECTOR f = B * fma((VECTOR)(-A * A), d[1], d[3]);          \
    t[0] = fma((VECTOR)(A * A * B * B), d[0], fma((VECTOR)(-A * A - B * B), d[2], d[4])); \
    t[1] = a + b;                                                    \
    t[2] = a - b;                                                    \
    t[3] = e + f;                                                    \
    t[4] = e - f;                                                    \
    t[5] = fma((VECTOR)(A * A * B * B), d[1], fma((VECTOR)(-A * A - B * B), d[3], d[5])); \
  }
#define FROM_WEIGHTS(u, w)                                                           \
  {                                                                                  \
    const float16 a = fma((float16)(A * A), w[2], w[0]), b = A * w[1];               \
    const float16 e = fma((float16)(B * B), w[2], w[0]), f = B * w[1];               \
    const float by_a = 1 / (2 * A * A * (A * A - B * B)), by_b = 1 / (2 * B * B * (B * B - A * A)); \
    u[0] = (1 / (A * A * B * B)) * w[0];                                             \
    u[1] = by_a * (a + b);                                                           \
    u[2] = by_a * (a - b);                                                           \
    u[3] = by_b * (e + f);                                                           \
    u[4] = by_b * (e - f);                                                           \
    u[5] = w[2];                                                                     \
  }
#define TO_RESULTS(y, m)                                                                   \
  {                                                                                        \
    const VECTOR a = m[1] + m[2], b = m[1] - m[2], e = m[3] + m[4], f = m[3] - m[4];       \
    y[0] = m[0] + (a + e);                                                                 \
    y[1] = fma((VECTOR)(B), f, A * b);                                                     \
    y[2] = fma((VECTOR)(B * B), e, A * A * a);                                             \
    y[3] = m[5] + fma((VECTOR)(B * B * B), f, A * A * A * b);                              \
  }
#else
#define FROM_PLACES(t, d) \
  {                       \
    t[0] = d[2] - d[0];   \
    t[1] = d[2] + d[1];   \
    t[2] = d[2] - d[1];   \
    t[3] = d[3] - d[1];   \
  }
#define FROM_WEIGHTS(u, w)               \
  {                                      \
    u[0] = -w[0];                        \
    u[1] = 0.5f * (w[0] + w[2] + w[1]);  \
    u[2] = 0.5f * (w[0] + w[2] - w[1]);  \
    u[3] = w[2];                         \
  }
#define TO_RESULTS(y, m)        \
  {                             \
    y[0] = m[0] + (m[1] + m[2]); \
    y[1] = m[3] + (m[1] - m[2]); \
  }
#endif

#ifdef WANT_conv2d_winograd_weights
/* Panels of `block` channels of the result, as the product wants them: (panel, tap, inner channel, channel). A work-item
 * does an inner channel of sixteen of them. The weights' strides of channel and inner channel; `turned`: the window's
 * last tap is its first. */
#define ARGS                                                                                                     \
  ARG(const float, x), ARG(float, y), const int rows, const int inner, const int block, const int by_row,       \
      const int by_inner, const int turned
BODY(conv2d_winograd_weights_item)(const long item, ARGS) {
  const long sixteens = (rows + block - 1) / max(block, 1) * (block / 16);
  if (item >= sixteens * inner) return;
  USE(const float, x);
  USE(float, y);
  const int c = (int)(item % inner), row = (int)(item / inner) * 16;
  float lane[9][16];
  for (int l = 0; l < 16; l++)
    for (int k = 0; k < 9; k++)
      lane[k][l] = row + l < rows ? x[(long)(row + l) * by_row + (long)c * by_inner + (turned ? 8 - k : k)] : 0.0f;
  float16 some[TILE][3];
  for (int j = 0; j < 3; j++) {
    float16 w[3], u[TILE];
    for (int i = 0; i < 3; i++) w[i] = vload16(0, lane[i * 3 + j]);
    FROM_WEIGHTS(u, w)
    for (int i = 0; i < TILE; i++) some[i][j] = u[i];
  }
  y += (long)(row / block) * TAPS * inner * block + c * block + row % block;
  for (int i = 0; i < TILE; i++) {
    float16 u[TILE];
    FROM_WEIGHTS(u, some[i])
    for (int j = 0; j < TILE; j++) vstore16(u[j], 0, y + (long)(i * TILE + j) * inner * block);
  }
}

KERNEL(conv2d_winograd_weights)(ARGS) {
  FN(conv2d_winograd_weights_item)((long)get_global_id(0), PASS(x), PASS(y), rows, inner, block, by_row, by_inner, turned);
}
#undef ARGS
#endif

#ifdef WANT_conv2d_winograd
/* A work-item does a strip of tiles, which are numbered through all images, and some panels of channels. What the
 * strip's places became stays in private memory, `source`, while panels go by, some at a time: their products are in
 * `block` until they are brought back, so that nothing of it is written to the device's memory. Registers hold PLACES
 * tiles by a panel of channels, as in `direct`.
 *
 * dims: images, channels, inner channels, height and width of the source and of the result. part: tiles of a strip,
 * channels of an item, panels at a time; the place of the first tap of the first result. */
#define VECTOR CLADE_PASTE(float, WIDTH)
#define PANEL  (VECTORS * WIDTH)
typedef VECTOR FN(vector) __attribute__((aligned(4)));
typedef float16 FN(sixteen) __attribute__((aligned(4)));
#define PUT(v, p)      (*(FN(vector) *)(p) = (v))
#define GET(space, p)  (*(const space FN(vector) *)(p))
#define HERE

#define PLACES_OF(name, space)                                                                  \
  APART static void FN(name)(const space float *x, int line, float *to, int apart) {            \
    for (int v = 0; v < 16; v += WIDTH) {                                                       \
      VECTOR some[TILE][TILE];                                                                  \
      for (int j = 0; j < TILE; j++) {                                                          \
        VECTOR d[TILE], t[TILE];                                                                \
        _Pragma("unroll") for (int i = 0; i < TILE; i++) d[i] = GET(space, x + i * line + j * 16 + v); \
        FROM_PLACES(t, d)                                                                       \
        _Pragma("unroll") for (int i = 0; i < TILE; i++) some[i][j] = t[i];                     \
      }                                                                                         \
      for (int i = 0; i < TILE; i++) {                                                          \
        VECTOR t[TILE];                                                                         \
        FROM_PLACES(t, some[i])                                                                 \
        _Pragma("unroll") for (int j = 0; j < TILE; j++) PUT(t[j], to + (i * TILE + j) * apart + v); \
      }                                                                                         \
    }                                                                                           \
  }
PLACES_OF(places_inside, __global)
PLACES_OF(places_copied, HERE)

/* Of a tile, all blocks of channels; zeros where the source ends. */
APART static void FN(tile_in)(const __global float *x, int2 from, int2 size, int blocks, float *to, int apart) {
  const bool inside = from.x >= 0 && from.y >= 0 && from.x + TILE <= size.x && from.y + TILE <= size.y;
  x += (from.x * size.y + from.y) * 16;
  for (int b = 0; b < blocks; b++, x += size.x * size.y * 16, to += 16) {
    if (inside) {
      FN(places_inside)(x, size.y * 16, to, apart);
      continue;
    }
    float copy[TAPS * 16] ALIGNED;
    for (int i = 0; i < TILE; i++)
      for (int j = 0; j < TILE; j++) {
        const bool there = from.x + i >= 0 && from.x + i < size.x && from.y + j >= 0 && from.y + j < size.y;
        for (int v = 0; v < 16; v += WIDTH)
          PUT(there ? GET(__global, x + (i * size.y + j) * 16 + v) : (VECTOR)(0), copy + (i * TILE + j) * 16 + v);
      }
    FN(places_copied)(copy, TILE * 16, to, apart);
  }
}

/* Of PLACES tiles and a panel the sums over n inner channels. */
APART static void FN(multiply)(const __global float *w, const float *x, int pitch, int last, long n, float *tile) {
  VECTOR sum[PLACES][VECTORS];
  const float *from[PLACES];
#pragma unroll
  for (int p = 0; p < PLACES; p++) {
    from[p] = x + min(p, last) * pitch;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) sum[p][v] = 0;
  }
#pragma unroll 2
  for (long k = 0; k < n; k++, w += PANEL) {
    VECTOR one[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) one[v] = GET(__global, w + v * WIDTH);
#pragma unroll
    for (int p = 0; p < PLACES; p++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sum[p][v] = fma((VECTOR)(from[p][k]), one[v], sum[p][v]);
  }
#pragma unroll
  for (int p = 0; p < PLACES; p++)
#pragma unroll
    for (int v = 0; v < VECTORS; v++) PUT(sum[p][v], tile + (p * VECTORS + v) * WIDTH);
}

/* The results of a tile and a panel: (line, column, channel). */
APART static void FN(results)(const float *tile, int apart, float *to) {
  for (int v = 0; v < PANEL; v += WIDTH) {
    VECTOR some[OUT_SIDE][TILE];
    for (int j = 0; j < TILE; j++) {
      VECTOR m[TILE], y[OUT_SIDE];
#pragma unroll
      for (int i = 0; i < TILE; i++) m[i] = GET(HERE, tile + (i * TILE + j) * apart + v);
      TO_RESULTS(y, m)
#pragma unroll
      for (int i = 0; i < OUT_SIDE; i++) some[i][j] = y[i];
    }
    for (int i = 0; i < OUT_SIDE; i++) {
      VECTOR y[OUT_SIDE];
      TO_RESULTS(y, some[i])
#pragma unroll
      for (int j = 0; j < OUT_SIDE; j++) PUT(y[j], to + (i * OUT_SIDE + j) * PANEL + v);
    }
  }
}

/* An element is at batch * s5 + row / 16 * s4 + row % 16 * s6 + column * s7 of y and of the epilogue's operands. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) ((row >> 4) * (s).s4 + (row & 15) * (s).s6 + column * (s).s7)
#define EPILOGUE_LOAD16(T, e, s) \
  ((s).s6 ? LOAD16(T, e, EPILOGUE_ELEMENT(s)) : (float16)(LOAD(T, e, EPILOGUE_ELEMENT(s))))
#define OUT_ARGS \
  __global STORAGE(OUT) * y, const index8_t y_s, const index_t batch, const index_t row0, const index_t column0 EPILOGUE_ARGS
#define OUT_PASS y, y_s, batch, row0, column0 EPILOGUE_PASS

/* The rows of a panel from `from` on, one by one. */
APART static void FN(finish_some)(const float *tile, int from, int rows, int2 many, int width, OUT_ARGS) {
  EPILOGUE_USE
  for (int i = 0; i < many.x * many.y; i++)
    for (int r = from; r < rows; r++) {
      const int line = i / many.y, place = i % many.y;
      const index_t row = row0 + r, column = column0 + line * width + place;
      const float i0 = tile[(line * OUT_SIDE + place) * PANEL + r];
      EPILOGUE
      STORE(OUT, y, EPILOGUE_ELEMENT(y_s), r);
    }
}
APART static void FN(finish)(const float *tile, int rows, int2 many, int width, OUT_ARGS) {
  int done = 0;
#if WIDE
  EPILOGUE_USE
  for (; done + 16 <= rows; done += 16)
    for (int line = 0; line < many.x; line++)
      for (int place = 0; place < many.y; place++) {
        const index_t row = row0 + done, column = column0 + line * width + place;
        const float16 i0 = *(const FN(sixteen) *)(tile + (line * OUT_SIDE + place) * PANEL + done);
        EPILOGUE16
        STORE16(OUT, y, EPILOGUE_ELEMENT(y_s), r);
      }
#endif
  if (done < rows) FN(finish_some)(tile, done, rows, many, width, OUT_PASS);
}

#define ARGS                                                                                                       \
  ARG(const float, x), ARG(const float, w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t part,        \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_winograd_item)(const int item, ARGS) {
  if (dims.s0 == 0 || part.s0 == 0) return;
  const int2 size = (int2)(dims.s3, dims.s4), result = (int2)(dims.s5, dims.s6);
  const int2 grid = (result + OUT_SIDE - 1) / OUT_SIDE;
  const int inner = dims.s2, blocks = (inner + 15) / 16, pitch = blocks * 16;
  const int all = dims.s0 * grid.x * grid.y, strips = (all + part.s0 - 1) / part.s0;
  const int tile0 = item % strips * part.s0, tiles = min((int)part.s0, all - tile0);
  const int row0 = item / strips * part.s1, rows = min((int)part.s1, (int)dims.s1 - row0);
  if (rows <= 0) return;
  USE(const float, x);
  USE(const float, w);
  USE(STORAGE(OUT), y);
  float source[SOURCE] ALIGNED, block[BLOCK] ALIGNED, turned[OUT_SIDE * OUT_SIDE * PANEL] ALIGNED;
  /* odd numbers of lines: what belongs to one place is not to meet in one set of the first cache */
  const int apart = tiles * pitch + 16, groups = (tiles + PLACES - 1) / PLACES, held = groups * PLACES * PANEL;
  for (int i = 0; i < tiles; i++) {
    const int t = tile0 + i, image = t / (grid.x * grid.y), at = t % (grid.x * grid.y);
    const int2 from = (int2)(at / grid.y, at % grid.y) * OUT_SIDE + (int2)(part.s3, part.s4);
    FN(tile_in)(x + image * blocks * size.x * size.y * 16, from, size, blocks, source + i * pitch, apart);
  }
  w += (long)(row0 / PANEL) * TAPS * inner * PANEL;
  for (int first = 0; first < rows; first += part.s2 * PANEL) {
    const int panels = min((int)part.s2, (rows - first + PANEL - 1) / PANEL), taken = panels * held + 16;
    for (int t = 0; t < TAPS; t++)
      for (int p = 0; p < panels; p++)
        for (int g = 0; g < groups; g++)
          FN(multiply)
    (w + ((first / PANEL + p) * TAPS + t) * inner * PANEL, source + t * apart + g * PLACES * pitch, pitch,
     tiles - 1 - g * PLACES, inner, block + t * taken + p * held + g * PLACES * PANEL);
    for (int i = 0; i < tiles; i++) {
      const int t = tile0 + i, image = t / (grid.x * grid.y), at = t % (grid.x * grid.y);
      const int2 to = (int2)(at / grid.y, at % grid.y) * OUT_SIDE, many = min(result - to, OUT_SIDE);
      for (int p = 0; p < panels; p++) {
        FN(results)(block + p * held + i * PANEL, taken, turned);
        FN(finish)
        (turned, min(rows - first - p * PANEL, PANEL), many, result.y, y + image * y_s.s5, y_s, image,
         row0 + first + p * PANEL, to.x * result.y + to.y EPILOGUE_PASS);
      }
    }
  }
}

GROUP(1, 1, 1) KERNEL(conv2d_winograd)(ARGS) {
  FN(conv2d_winograd_item)((int)get_global_id(0), PASS(x), PASS(w), PASS(y), dims, part, y_s EPILOGUE_PASS);
}
#undef ARGS
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_EPILOGUE_ELEMENT(s)
#undef EPILOGUE_AT
#undef EPILOGUE_LOAD16
#undef OUT_ARGS
#undef OUT_PASS
#undef VECTOR
#undef PANEL
#undef PUT
#undef GET
#undef HERE
#undef PLACES_OF
#endif
#undef APART
#undef ALIGNED
#undef TILE
#undef TAPS
#undef A
#undef B
#undef FROM_PLACES
#undef FROM_WEIGHTS
#undef TO_RESULTS

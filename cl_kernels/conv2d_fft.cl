/* Convolution by Fourier transforms of tiles of SIDE x SIDE source places. For each frequency it is a complex product,
 * or a complex matrix product [tiles, inner channels] by [inner channels, channels]. Vector lanes are channels.
 * docs/layouts.md describes the division of work and the error bound.
 *
 * The spectrum of a real tile is stored as its columns 0 to SIDE / 2, with SIDE frequencies each; frequency i of column
 * f has number f * SIDE + i. A value is a vector of real parts followed by one of imaginary parts. */
#define HALF    (SIDE / 2 + 1)
#define FIRST   (SIDE / 8)
#define VALUE  (2 * WIDTH)
/* Size of a spectrum's column in private memory: an odd number of cache lines, to avoid set conflicts between the
 * frequencies of a row. */
#define COLUMN (SIDE * VALUE + 16)
/* A loop over the parts of all frequencies of a spectrum, each at PART_AT. */
#define EACH_PART for (int f = 0; f < HALF; f++) for (int i = 0; i < SIDE; i++) for (int k = 0; k < 2; k++)
#define PART_AT   (spectrum + f * COLUMN + i * VALUE + k * WIDTH)

/* ---- transforms along a line ---- */
/* cos(2 pi k / 64) for a quarter turn. */
__constant float FN(quarter)[17] = {
    1,            0.995184727f, 0.98078528f,  0.956940336f, 0.923879533f, 0.881921264f, 0.831469612f, 0.773010453f, 0.707106781f,
    0.634393284f, 0.555570233f, 0.471396737f, 0.382683432f, 0.290284677f, 0.195090322f, 0.0980171403f, 0};
static inline float FN(cosine)(int k) {
  k &= 63;
  if (k > 32) k = 64 - k;
  return k > 16 ? -FN(quarter)[32 - k] : FN(quarter)[k];
}

/* Transforms n values, 2 to 8, in place; it takes value i from REVERSED(i, n). A pass replaces two values that are
 * `apart` apart by their sum and difference, after the second one is turned by some eighths. */
#define REVERSED(i, n) ((((i) & 1) * 4 + ((i) & 2) + (i) / 4) * (n) / 8)
static inline void FN(few)(VECTOR *re, VECTOR *im, const int n) {
  UNROLLED(pass, 3) UNROLLED(j, n / 2) {
    const int apart = 1 << pass, k = j % apart, a = j / apart * 2 * apart + k, b = a + apart, eighths = k * 4 / apart;
    if (apart >= n) continue;
    const VECTOR plus = eighths % 2 ? 0.707106781f * (re[b] + im[b]) : re[b];
    const VECTOR less = eighths % 2 ? 0.707106781f * (im[b] - re[b]) : im[b];
    const VECTOR b_re = eighths < 2 ? plus : less, b_im = eighths < 2 ? less : -plus;
    re[b] = re[a] - b_re;
    im[b] = im[a] - b_im;
    re[a] += b_re;
    im[a] += b_im;
  }
}

/* Transforms SIDE values, `step` floats apart, to values that are VALUE apart. Exchanging real and imaginary parts on
 * both sides gives the inverse. Input and output may be the same. */
APART static void FN(transform)(const float *re, const float *im, const int step, float *to_re, float *to_im) {
  float some[SIDE * VALUE] ALIGNED;
  for (int j = 0; j < 8; j++) {
    VECTOR r[FIRST], i[FIRST];
    UNROLLED(q, FIRST) {
      r[REVERSED(q, FIRST)] = VLOAD(0, re + (j + 8 * q) * step);
      i[REVERSED(q, FIRST)] = VLOAD(0, im + (j + 8 * q) * step);
    }
    FN(few)(r, i, FIRST);
    UNROLLED(k, FIRST) {
      const VECTOR c = (VECTOR)(FN(cosine)(j * k * (64 / SIDE))), s = (VECTOR)(FN(cosine)(j * k * (64 / SIDE) - 16));
      VSTORE(k ? fma(r[k], c, i[k] * s) : r[k], 0, some + (k * 8 + j) * VALUE);
      VSTORE(k ? fma(i[k], c, -r[k] * s) : i[k], 0, some + (k * 8 + j) * VALUE + WIDTH);
    }
  }
  for (int k = 0; k < FIRST; k++) {
    VECTOR r[8], i[8];
    UNROLLED(j, 8) {
      r[REVERSED(j, 8)] = VLOAD(0, some + (k * 8 + j) * VALUE);
      i[REVERSED(j, 8)] = VLOAD(0, some + (k * 8 + j) * VALUE + WIDTH);
    }
    FN(few)(r, i, 8);
    UNROLLED(j, 8) {
      VSTORE(r[j], 0, to_re + (k + FIRST * j) * VALUE);
      VSTORE(i[j], 0, to_im + (k + FIRST * j) * VALUE);
    }
  }
}

/* ---- tiles ---- */
/* Spectrum of a real tile, with two rows as the real and imaginary parts of one complex row. Rows outside of [low,
 * high) are zero and are not read. */
APART static void FN(forward)(const float *places, const int low, const int high, float *spectrum) {
  float line[SIDE * VALUE] ALIGNED;
  for (int i = 0; i < SIDE; i += 2) {
    float *to = spectrum + i * VALUE;
    if (i + 1 < low || i >= high) {
      for (int f = 0; f < HALF; f++)
        UNROLLED(v, 4) VSTORE((VECTOR)(0), 0, to + f * COLUMN + v * WIDTH);
      continue;
    }
    const float *row = places + i * SIDE * WIDTH;
    FN(transform)(row, row + SIDE * WIDTH, WIDTH, line, line + WIDTH);
    for (int f = 0; f < HALF; f++, to += COLUMN) {
      const float *own = line + f * VALUE, *mirror = line + (SIDE - f) % SIDE * VALUE;
      const VECTOR re = VLOAD(0, own), im = VLOAD(0, own + WIDTH);
      const VECTOR mirror_re = VLOAD(0, mirror), mirror_im = VLOAD(0, mirror + WIDTH);
      VSTORE(re + mirror_re, 0, to);
      VSTORE(im - mirror_im, 0, to + WIDTH);
      VSTORE(im + mirror_im, 0, to + VALUE);
      VSTORE(mirror_re - re, 0, to + VALUE + WIDTH);
    }
  }
  for (int f = 0; f < HALF; f++) {
    float *column = spectrum + f * COLUMN;
    FN(transform)(column, column + WIDTH, VALUE, column, column + WIDTH);
  }
}

/* Inverse transform without division: writes `many` rows and columns of a tile, beginning at `first`, to `to`, with
 * sixteen floats per place. */
APART static void FN(back)(float *spectrum, const int2 first, const int2 many, float *to) {
  float line[SIDE * VALUE] ALIGNED;
  for (int f = 0; f < HALF; f++) {
    float *column = spectrum + f * COLUMN;
    FN(transform)(column + WIDTH, column, VALUE, column + WIDTH, column);
  }
  for (int i = 0; i < many.x; i += 2) {
    const bool both = i + 1 < many.x;
    const float *a = spectrum + (first.x + i) * VALUE, *b = both ? a + VALUE : a;
    for (int f = 0; f < HALF; f++, a += COLUMN, b += COLUMN) {
      const bool real = f % (SIDE / 2) == 0;
      float *own = line + f * VALUE, *mirror = line + (SIDE - f) % SIDE * VALUE;
      const VECTOR a_re = VLOAD(0, a), a_im = real ? 0 : VLOAD(0, a + WIDTH);
      const VECTOR b_re = VLOAD(0, b), b_im = real ? 0 : VLOAD(0, b + WIDTH);
      VSTORE(a_re + b_im, 0, mirror);
      VSTORE(b_re - a_im, 0, mirror + WIDTH);
      VSTORE(a_re - b_im, 0, own);
      VSTORE(b_re + a_im, 0, own + WIDTH);
    }
    FN(transform)(line + WIDTH, line, VALUE, line + WIDTH, line);
    float *row = to + i * many.y * 16;
    for (int j = 0; j < many.y; j++) {
      VSTORE(VLOAD(0, line + (first.y + j) * VALUE), 0, row + j * 16);
      if (both) VSTORE(VLOAD(0, line + (first.y + j) * VALUE + WIDTH), 0, row + (many.y + j) * 16);
    }
  }
}

#ifdef WANT_conv2d_fft_weights
/* Transforms weights to (block of 16 output channels, frequency, inner channel, real or imaginary part, channel), and
 * divides by the factor that the transforms accumulate. A work-item transforms an inner channel of a block. sizes: rows,
 * inner channels, the weights' strides for both, height and width. */
#define ARGS ARG(const float, x), ARG(float, y), const index8_t sizes
BODY(conv2d_fft_weights_item)(const long item, ARGS) {
  const int rows = sizes.s0, inner = sizes.s1, high = sizes.s4, wide = sizes.s5;
  if (inner == 0 || item >= (long)(rows + 15) / 16 * inner) return;
  USE(const float, x);
  USE(float, y);
  float places[SIDE * SIDE * WIDTH] ALIGNED, spectrum[HALF * COLUMN] ALIGNED;
  const int c = (int)(item % inner), row = (int)(item / inner) * 16;
  for (int v = 0; v < 16; v += WIDTH) {
    for (int i = 0; i < (high + 1) / 2 * 2; i++)
      for (int j = 0; j < SIDE; j++)
        for (int l = 0; l < WIDTH; l++) {
          const bool there = i < high && j < wide && row + v + l < rows;
          places[(i * SIDE + j) * WIDTH + l] =
              there ? x[(long)(row + v + l) * sizes.s2 + (long)c * sizes.s3 + i * wide + j] : 0.0f;
        }
    FN(forward)(places, 0, high, spectrum);
    __global float *to = y + ((long)row / 16 * HALF * SIDE * inner + c) * 32 + v;
    EACH_PART VSTORE(VLOAD(0, PART_AT) * (0.25f / (SIDE * SIDE)), 0, to + (long)(f * SIDE + i) * inner * 32 + k * 16);
  }
}

ITEM_KERNEL(conv2d_fft_weights, PASS(x), PASS(y), sizes)
#endif

/* dims: images, channels, inner channels, height and width of the source and of the result. part: results of a tile
 * along both axes; source position of the first tile; the first tile and their number; sign of the weights' imaginary
 * parts. */
#define TILE_OF(t)                                                                                      \
  const int2 size = (int2)(dims.s3, dims.s4), result = (int2)(dims.s5, dims.s6);                        \
  const int2 some = (int2)(part.s0, part.s1), grid = (result + some - 1) / some;                        \
  const int image = (t) / (grid.x * grid.y), at = (t) % (grid.x * grid.y);                              \
  const int2 to = (int2)(at / grid.y, at % grid.y) * some, from = to + (int2)(part.s2, part.s3);

/* Loads a tile of a block of channels, with zeros outside of the source, and transforms it. */
static void FN(tile_in)(const __global float *x, const int2 from, const int2 size, float *places, float *spectrum) {
  const int low = max(-from.x, 0), high = min(size.x - from.x, SIDE);
  for (int i = low / 2 * 2; i < min((high + 1) / 2 * 2, SIDE); i++)
    for (int j = 0; j < SIDE; j++) {
      const bool there = i >= low && i < high && from.y + j >= 0 && from.y + j < size.y;
      VSTORE(there ? VLOAD(0, x + ((from.x + i) * size.y + from.y + j) * 16) : (VECTOR)(0), 0,
             places + (i * SIDE + j) * WIDTH);
    }
  FN(forward)(places, low, high, spectrum);
}

#ifdef WANT_conv2d_fft_places
/* Output order: (frequency, tile, block of inner channels, real or imaginary part, channel). A work-item transforms a
 * block of a tile. */
#define ARGS ARG(const float, x), ARG(float, y), const index8_t dims, const index8_t part
BODY(conv2d_fft_places_item)(const int item, ARGS) {
  const int blocks = (dims.s2 + 15) / 16, tiles = part.s5;
  if (blocks == 0 || item / blocks >= tiles) return;
  USE(const float, x);
  USE(float, y);
  float places[SIDE * SIDE * WIDTH] ALIGNED, spectrum[HALF * COLUMN] ALIGNED;
  TILE_OF(part.s4 + item / blocks)
  x += ((long)image * blocks + item % blocks) * size.x * size.y * 16;
  y += item * 32;
  for (int v = 0; v < 16; v += WIDTH) {
    FN(tile_in)(x + v, from, size, places, spectrum);
    EACH_PART VSTORE(VLOAD(0, PART_AT), 0, y + (long)(f * SIDE + i) * (tiles * blocks * 32 + 16) + k * 16 + v);
  }
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_fft_places, PASS(x), PASS(y), dims, part)
#endif

#ifdef WANT_conv2d_fft_products
/* Sums over n inner channels for PLACES tiles and a block of channels; tiles behind `last` do not exist. Weights are
 * read from memory and prefetched two pages ahead. */
APART static void FN(multiply)(const __global float *w, const __global float *x, const int pitch, const int last,
                               const int n, const float sign, __global float *y, const int y_pitch) {
  VECTOR re[PLACES], im[PLACES];
  const __global float *from[PLACES];
  UNROLLED(p, PLACES) from[p] = x + min(p, last) * pitch;
  UNROLLED(p, PLACES) re[p] = im[p] = (VECTOR)(0);
  for (int c = 0; c < n; c += 16)
    for (int k = c * 2; k < c * 2 + min(16, n - c); k++, w += 32) {
      LATER(w + 2048);
      LATER(w + 2064);
      const VECTOR w_re = VLOAD(0, w), w_im = VLOAD(0, w + 16) * sign;
      UNROLLED(p, PLACES) {
        const VECTOR x_re = (VECTOR)(from[p][k]), x_im = (VECTOR)(from[p][k + 16]);
        re[p] = fma(x_re, w_re, re[p]);
        im[p] = fma(x_re, w_im, im[p]);
        re[p] = fma(-x_im, w_im, re[p]);
        im[p] = fma(x_im, w_re, im[p]);
      }
    }
  UNROLLED(p, PLACES)
    if (p <= last) {
      VSTORE(re[p], 0, y + p * y_pitch);
      VSTORE(im[p], 0, y + p * y_pitch + 16);
    }
}

/* Operands and result in the orders above. A work-item computes FREQUENCIES of them. */
#define ARGS ARG(const float, x), ARG(const float, w), ARG(float, y), const index8_t dims, const index8_t part
BODY(conv2d_fft_products_item)(const int item, ARGS) {
  const int panels = (dims.s1 + 15) / 16, inner = dims.s2, tiles = part.s5;
  const int pitch = (inner + 15) / 16 * 32, apart = tiles * pitch + 16, y_pitch = panels * 32;
  USE(const float, x);
  USE(const float, w);
  USE(float, y);
  for (int p = 0; p < panels; p++)
    for (int f = item * FREQUENCIES; f < min((item + 1) * FREQUENCIES, HALF * SIDE); f++)
      for (int t = 0; t < tiles; t += PLACES)
        for (int v = 0; v < 16; v += WIDTH)
          FN(multiply)(w + ((long)p * HALF * SIDE + f) * inner * 32 + v, x + (long)f * apart + t * pitch, pitch, tiles - 1 - t,
                       inner, (float)part.s6, y + (long)f * (tiles * y_pitch + 16) + t * y_pitch + p * 32 + v, y_pitch);
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_fft_products, PASS(x), PASS(w), PASS(y), dims, part)
#endif

#ifdef WANT_conv2d_fft_results
/* Transforms products back; or, depthwise, transforms, multiplies and transforms back in one launch. A work-item computes
 * a block of a tile. */
#include "conv2d_result.cl"
#define ARGS                                                                                                    \
  ARG(const float, x), ARG(const float, w), ARG(STORAGE(OUT), y), const index8_t dims, const index8_t part, \
      const index8_t y_s EPILOGUE_ARGS
BODY(conv2d_fft_results_item)(const int item, ARGS) {
  const int blocks = (dims.s1 + 15) / 16, tiles = part.s5;
  if (blocks == 0 || tiles == 0 || item >= tiles * blocks) return;
  const int block = DEPTHWISE ? item / tiles : item % blocks;
  USE(const float, x);
  USE(const float, w);
  USE(STORAGE(OUT), y);
  float results[SIDE * SIDE * 16] ALIGNED, spectrum[HALF * COLUMN] ALIGNED;
  TILE_OF(DEPTHWISE ? item % tiles : part.s4 + item / blocks)
  const int2 many = min(result - to, some), first = part.s6 < 0 ? (int2)(0) : SIDE - some;
  for (int v = 0; v < 16; v += WIDTH) {
#if DEPTHWISE
    float places[SIDE * SIDE * WIDTH] ALIGNED;
    const __global float *by = w + (long)block * HALF * SIDE * 32 + v;
    FN(tile_in)(x + v + ((long)image * blocks + block) * size.x * size.y * 16, from, size, places, spectrum);
    for (int f = 0; f < HALF; f++)
      for (int i = 0; i < SIDE; i++, by += 32) {
        float *own = spectrum + f * COLUMN + i * VALUE;
        const VECTOR re = VLOAD(0, own), im = VLOAD(0, own + WIDTH);
        const VECTOR w_re = VLOAD(0, by), w_im = VLOAD(0, by + 16) * (float)part.s6;
        VSTORE(fma(re, w_re, -im * w_im), 0, own);
        VSTORE(fma(re, w_im, im * w_re), 0, own + WIDTH);
      }
#else
    EACH_PART VSTORE(VLOAD(0, x + (long)(f * SIDE + i) * (tiles * blocks * 32 + 16) + item * 32 + k * 16 + v), 0, PART_AT);
#endif
    FN(back)(spectrum, first, many, results + v);
  }
  FN(finish)(results, 1, many.y * 16, 16, min(16, (int)dims.s1 - block * 16), many, (int2)(result.y, 1), true,
             y + image * y_s.s5, y_s, image, block * 16, to.x * result.y + to.y EPILOGUE_PASS);
}

GROUP(1, 1, 1) ITEM_KERNEL(conv2d_fft_results, PASS(x), PASS(w), PASS(y), dims, part, y_s EPILOGUE_PASS)
#endif

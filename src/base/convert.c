/* Conversion between element types on the host. */
#include "base/base.h"

#include <math.h>

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* A type's properties as compile-time constants of the functions below, which are instantiated for each type. */
typedef struct format {
  unsigned bits;
  clade__kind kind;
  int exponent, fraction;
  bool infinite;
} format;
#define INLINE __attribute__((always_inline)) static inline

/* Branch-free conversion of 8- and 16-bit floats, so that loops vectorize. Formats with an 8-bit exponent are the
 * upper part of an f32; for others, a multiplication adjusts the exponent and normalizes subnormals. */
INLINE float from_small(format t, uint32_t code) {
  const int shift = 23 - t.fraction, size = t.exponent + t.fraction;
  if (t.exponent == 8) return float_of(code << shift);
  const uint32_t bias = (1u << (t.exponent - 1)) - 1, most = (1u << t.exponent) - 1;
  const uint32_t sign = code >> size << 31, a = code & ((1u << size) - 1);
  const uint32_t finite = bits_of(float_of(a << shift) * float_of((254 - bias) << 23));
  const uint32_t special = t.infinite ? 0x7f800000 | a << shift : 0x7fc00000;
  const bool is_special = t.infinite ? a >> t.fraction == most : a == (1u << size) - 1;
  return float_of(sign | (is_special ? special : finite));
}

INLINE uint32_t to_small(format t, float f) {
  const int shift = 23 - t.fraction, size = t.exponent + t.fraction;
  const uint32_t bias = (1u << (t.exponent - 1)) - 1, u = bits_of(f), sign = u >> 31 << size, a = u & 0x7fffffff;
  const uint32_t last = t.infinite ? ((1u << t.exponent) - 1) << t.fraction : (1u << size) - 1;
  const uint32_t quiet =
      1u << (t.fraction - 1) | (a >> shift & ((1u << t.fraction) - 1)); /* NaN keeps its upper payload bits */
  const uint32_t nan = last | (t.infinite ? quiet : 0);
  const uint32_t round = ((a + (1u << (shift - 1)) - 1 + (a >> shift & 1)) >> shift) - ((127 - bias) << t.fraction);
  uint32_t code = CLADE_MIN(round, last);
  if (t.exponent < 8) { /* subnormal result: adding a constant aligns and rounds the fraction */
    const uint32_t unit = (151 - bias - (uint32_t)t.fraction) << 23;
    const uint32_t small = bits_of(float_of(a) + float_of(unit)) - unit;
    code = a < (128 - bias) << 23 ? small : code;
  }
  return sign | (a > 0x7f800000 ? nan : code);
}

/* Converts an integer to float for a second rounding to a half format. Bits that do not fit set the last bit (round
 * to odd), so that the result equals direct rounding. */
static float sticky(int64_t v) {
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  int drop = u >> 24 ? 40 - __builtin_clzll(u) : 0;
  uint64_t kept = u >> drop;
  if (kept << drop != u) kept |= 1;
  float f = ldexpf((float)kept, drop);
  return v < 0 ? -f : f;
}

static int64_t to_integer(float f, double low, double high) {
  if (isnan(f)) return 0;
  double r = trunc((double)f); /* as a cast on devices */
  if (r <= low) return (int64_t)low;
  if (r >= high) return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
  return (int64_t)r;
}

/* Intermediate value of a conversion: an integer or a float. */
typedef struct element {
  bool is_float;
  int64_t i;
  float f;
} element;

INLINE uint64_t load_bits(unsigned bytes, const void *src, size_t at) {
  uint8_t one;
  uint16_t two;
  uint32_t four;
  uint64_t eight = 0;
  src = (const char *)src + at * bytes;
  switch (bytes) {
  case 1: return memcpy(&one, src, 1), one;
  case 2: return memcpy(&two, src, 2), two;
  case 4: return memcpy(&four, src, 4), four;
  default: return memcpy(&eight, src, 8), eight;
  }
}

INLINE void store_bits(unsigned bytes, void *dst, size_t at, uint64_t bits) {
  const uint8_t one = (uint8_t)bits;
  const uint16_t two = (uint16_t)bits;
  const uint32_t four = (uint32_t)bits;
  dst = (char *)dst + at * bytes;
  switch (bytes) {
  case 1: memcpy(dst, &one, 1); break;
  case 2: memcpy(dst, &two, 2); break;
  case 4: memcpy(dst, &four, 4); break;
  default: memcpy(dst, &bits, 8);
  }
}

INLINE element load(format t, const void *src, size_t at) {
  const uint64_t bits = load_bits(t.bits / 8, src, at);
  const int above = 64 - (int)t.bits;
  element e = {0};
  switch (t.kind) {
  case CLADE__REAL:
    e.is_float = true;
    e.f = t.bits == 32 ? float_of((uint32_t)bits) : from_small(t, (uint32_t)bits);
    break;
  case CLADE__SIGNED: e.i = (int64_t)(bits << above) >> above; break;
  case CLADE__UNSIGNED: e.i = (int64_t)bits; break;
  case CLADE__TRUTH: e.i = bits != 0; break;
  }
  return e;
}

INLINE void store(format t, void *dst, size_t at, element e) {
  const double high = ldexp(1, (int)t.bits - (t.kind == CLADE__SIGNED)), low = t.kind == CLADE__SIGNED ? -high : 0;
  uint64_t bits = 0;
  switch (t.kind) {
  case CLADE__REAL:
    bits = t.bits == 32 ? bits_of(e.is_float ? e.f : (float)e.i) : to_small(t, e.is_float ? e.f : sticky(e.i));
    break;
  case CLADE__SIGNED:
  case CLADE__UNSIGNED:
    bits = (uint64_t)(e.is_float ? to_integer(e.f, low, high < 0x1p63 ? high - 1 : high) : e.i);
    break;
  case CLADE__TRUTH: bits = e.is_float ? e.f != 0 : e.i != 0; break; /* NaN is true */
  }
  store_bits(t.bits / 8, dst, at, bits);
}

/* ---- instances for each type ---- */
enum { PIECE = 128 }; /* multiple of all block sizes */
#define KIND_real    CLADE__REAL
#define KIND_whole   CLADE__SIGNED
#define KIND_natural CLADE__UNSIGNED
#define KIND_truth   CLADE__TRUTH
#define ROW(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, ...) \
  static void load_##name(const void *src, size_t at, size_t n, element *e) {                               \
    const format t = {bits, KIND_##kind, exponent, fraction, infinite};                                     \
    for (size_t i = 0; i < n; i++) e[i] = load(t, src, at + i);                                             \
  }                                                                                                         \
  static void store_##name(void *dst, size_t at, size_t n, const element *e) {                              \
    const format t = {bits, KIND_##kind, exponent, fraction, infinite};                                     \
    for (size_t i = 0; i < n; i++) store(t, dst, at + i, e[i]);                                             \
  }
CLADE_DTYPE_MAP(ROW)
#undef ROW

/* f32 to and from narrower floats: fast paths, since tensors of these types are large. */
#define ROW(NAME, number, name, bits, elements, bytes, scale, kind, use, exponent, fraction, infinite, ...)            \
  static void narrow_##name(void *dst, const float *src, size_t n) {                                                   \
    const format t = {bits, KIND_##kind, exponent, fraction, infinite};                                                \
    for (size_t i = 0; i < n && SMALL(kind, bits); i++) store_bits(bits / 8, dst, i, to_small(t, src[i]));             \
  }                                                                                                                    \
  static void widen_##name(float *dst, const void *src, size_t n) {                                                    \
    const format t = {bits, KIND_##kind, exponent, fraction, infinite};                                                \
    for (size_t i = 0; i < n && SMALL(kind, bits); i++) dst[i] = from_small(t, (uint32_t)load_bits(bits / 8, src, i)); \
  }
#define SMALL(kind, bits) (KIND_##kind == CLADE__REAL && (bits) < 32)
CLADE_DTYPE_MAP(ROW)
#undef ROW

static const struct {
  void (*load)(const void *src, size_t at, size_t n, element *e);
  void (*store)(void *dst, size_t at, size_t n, const element *e);
  void (*narrow)(void *dst, const float *src, size_t n); /* NULL, like widen, if the type is no narrow float */
  void (*widen)(float *dst, const void *src, size_t n);
} by[] = {
#define ROW(NAME, number, name, bits, elements, bytes, scale, kind, ...)                 \
  [CLADE_##NAME] = {load_##name, store_##name, SMALL(kind, bits) ? narrow_##name : NULL, \
                    SMALL(kind, bits) ? widen_##name : NULL},
    CLADE_DTYPE_MAP(ROW)
#undef ROW
};

/* Converts from or to block-quantized elements by way of f32. */
static clade_status convert_blocks(clade_dtype to, void *dst, clade_dtype from, const void *src, size_t n) {
  float piece[PIECE];
  size_t bytes, from_bytes;
  for (size_t at = 0; at < n; at += PIECE) {
    const size_t some = CLADE_MIN(n - at, (size_t)PIECE);
    CLADE_TRY(clade_dtype_bytes(to, (int64_t)at, &bytes));
    CLADE_TRY(clade_dtype_bytes(from, (int64_t)at, &from_bytes));
    const void *old = (const char *)src + from_bytes;
    void *new = (char *)dst + bytes;
    if (clade__has_blocks(from))
      clade__blocks_load(from, old, some, piece);
    else
      CLADE_TRY(clade_convert(CLADE_F32, piece, from, old, some));
    if (clade__has_blocks(to))
      clade__blocks_store(to, new, some, piece);
    else
      CLADE_TRY(clade_convert(to, new, CLADE_F32, piece, some));
  }
  return CLADE_OK;
}

clade_status clade_convert(clade_dtype to, void *dst, clade_dtype from, const void *src, size_t n) {
  size_t bytes, from_bytes;
  if (n > INT64_MAX) return CLADE_FAIL(OVERFLOW, "clade_convert: %zu elements", n);
  CLADE_TRY(clade_dtype_bytes(to, (int64_t)n, &bytes));
  CLADE_TRY(clade_dtype_bytes(from, (int64_t)n, &from_bytes));
  if (n && (!dst || !src)) return CLADE_FAIL(INVALID, "clade_convert: %s is NULL", dst ? "src" : "dst");
  if (to == from) {
    if (n) memmove(dst, src, bytes);
    return CLADE_OK;
  }
  if (clade__has_blocks(to) || clade__has_blocks(from)) return convert_blocks(to, dst, from, src, n);
  if (from == CLADE_F32 && by[to].narrow) return by[to].narrow(dst, src, n), CLADE_OK;
  if (to == CLADE_F32 && by[from].widen) return by[from].widen(dst, src, n), CLADE_OK;
  element piece[PIECE];
  for (size_t at = 0; at < n; at += PIECE) {
    by[from].load(src, at, CLADE_MIN(n - at, (size_t)PIECE), piece);
    by[to].store(dst, at, CLADE_MIN(n - at, (size_t)PIECE), piece);
  }
  return CLADE_OK;
}

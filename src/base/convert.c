/* Element types into one another on the host. */
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

static float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  float f = (float)mantissa * 0x1p-24f;
  return sign ? -f : f;
}

static uint16_t to_f16(float f) {
  uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff)); /* NaN keeps its upper bits, quiet */
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);                    /* rounds above 65504 */
  if (a < 0x38800000) {                                                     /* below the smallest normal number */
    float small = float_of(a) * 0x1p24f;
    return (uint16_t)(sign | (uint32_t)rintf(small));
  }
  return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
}

static uint16_t to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 64);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* An integer as a float that rounds once more to the half formats as the integer itself would: what does not fit sets
 * the last bit. */
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
  double r = trunc((double)f); /* as the cast of devices does */
  if (r <= low) return (int64_t)low;
  if (r >= high) return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
  return (int64_t)r;
}

/* An element on its way: an integer or a float. */
typedef struct element {
  bool is_float;
  int64_t i;
  float f;
} element;

#define LOAD(T)                                              \
  do {                                                       \
    T v;                                                     \
    memcpy(&v, (const char *)src + at * sizeof v, sizeof v); \
    e.i = (int64_t)v;                                        \
  } while (0)
#define STORE(T, value)                                \
  do {                                                 \
    T v = (T)(value);                                  \
    memcpy((char *)dst + at * sizeof v, &v, sizeof v); \
  } while (0)

static element load(clade_dtype dtype, const void *src, size_t at) {
  element e = {0};
  uint16_t half;
  e.is_float = clade__is_float(dtype);
  switch (dtype) {
  case CLADE_F32: memcpy(&e.f, (const char *)src + at * 4, 4); break;
  case CLADE_F16: memcpy(&half, (const char *)src + at * 2, 2), e.f = from_f16(half); break;
  case CLADE_BF16: memcpy(&half, (const char *)src + at * 2, 2), e.f = float_of((uint32_t)half << 16); break;
  case CLADE_I8: LOAD(int8_t); break;
  case CLADE_U8: LOAD(uint8_t); break;
  case CLADE_I32: LOAD(int32_t); break;
  case CLADE_I64: LOAD(int64_t); break;
  case CLADE_BOOL:
    LOAD(uint8_t);
    e.i = e.i != 0;
    break;
  case CLADE_DTYPE_NONE: break;
  }
  return e;
}

static void store(clade_dtype dtype, void *dst, size_t at, element e) {
  float f = e.is_float ? e.f : sticky(e.i);
  switch (dtype) {
  case CLADE_F32: STORE(float, e.is_float ? e.f : (float)e.i); break;
  case CLADE_F16: STORE(uint16_t, to_f16(f)); break;
  case CLADE_BF16: STORE(uint16_t, to_bf16(f)); break;
  case CLADE_I8: STORE(int8_t, e.is_float ? to_integer(f, INT8_MIN, INT8_MAX) : e.i); break;
  case CLADE_U8: STORE(uint8_t, e.is_float ? to_integer(f, 0, UINT8_MAX) : e.i); break;
  case CLADE_I32: STORE(int32_t, e.is_float ? to_integer(f, INT32_MIN, INT32_MAX) : e.i); break;
  case CLADE_I64: STORE(int64_t, e.is_float ? to_integer(f, -0x1p63, 0x1p63) : e.i); break;
  case CLADE_BOOL: STORE(uint8_t, e.is_float ? f != 0 : e.i != 0); break; /* NaN is not zero */
  case CLADE_DTYPE_NONE: break;
  }
}

clade_status clade_convert(clade_dtype to, void *dst, clade_dtype from, const void *src, size_t n) {
  size_t bytes, from_bytes;
  if (n > INT64_MAX) return CLADE_FAIL(OVERFLOW, "clade_convert: %zu elements", n);
  CLADE_TRY(clade_dtype_bytes(to, (int64_t)n, &bytes));
  CLADE_TRY(clade_dtype_bytes(from, (int64_t)n, &from_bytes));
  if (n && (!dst || !src)) return CLADE_FAIL(INVALID, "clade_convert: %s is NULL", dst ? "src" : "dst");
  if (n && to == from)
    memmove(dst, src, bytes);
  else
    for (size_t i = 0; i < n; i++) store(to, dst, i, load(from, src, i));
  return CLADE_OK;
}

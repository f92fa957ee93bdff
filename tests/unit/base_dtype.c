/* Properties of element types, and conversions of floats of up to 16 bits against a reference in double derived from
 * their formats. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

/* ---- reference ---- */
/* Value of a code by its bits, ignoring special codes. */
static double number(const clade__dtype *r, unsigned a) {
  const int bias = (1 << (r->exponent - 1)) - 1, exponent = (int)(a >> r->fraction);
  const double fraction = ldexp(a & ((1u << r->fraction) - 1), -r->fraction);
  return exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
}

/* The first code that is not a finite number. */
static unsigned end_of(const clade__dtype *r) {
  return r->infinite ? ((1u << r->exponent) - 1) << r->fraction : (1u << (r->bits - 1)) - 1;
}

static double decoded(const clade__dtype *r, unsigned code) {
  const unsigned a = code & ((1u << (r->bits - 1)) - 1);
  if (a > end_of(r) || (a == end_of(r) && !r->infinite)) return NAN;
  return copysign(a == end_of(r) ? INFINITY : number(r, a), code >> (r->bits - 1) ? -1 : 1);
}

/* The nearest code, ties to even. The end code is nearest from half a unit beyond the largest number. */
static unsigned encoded(const clade__dtype *r, double v) {
  unsigned low = 0, high = end_of(r);
  while (high - low > 1) {
    unsigned middle = (low + high) / 2;
    *(number(r, middle) <= fabs(v) ? &low : &high) = middle;
  }
  const double below = fabs(v) - number(r, low), above = number(r, high) - fabs(v);
  const unsigned nearest = below < above || (!(below > above) && low % 2 == 0) ? low : high;
  return nearest | (signbit(v) ? 1u << (r->bits - 1) : 0);
}

static float from(clade_dtype t, unsigned code) {
  const uint8_t one = (uint8_t)code;
  const uint16_t two = (uint16_t)code;
  float f;
  const void *place = clade__dtype_row(t)->bytes == 1 ? (const void *)&one : &two;
  assert_int_equal(clade_convert(CLADE_F32, &f, t, place, 1), CLADE_OK);
  return f;
}

static unsigned to(clade_dtype t, double v) {
  const float f = (float)v;
  uint8_t one[2] = {0};
  assert_int_equal(clade_convert(t, one, CLADE_F32, &f, 1), CLADE_OK);
  return clade__dtype_row(t)->bytes == 1 ? one[0] : one[0] | (unsigned)one[1] << 8;
}

static bool is_small(clade_dtype t) {
  return clade__is_float(t) && clade__dtype_row(t)->bits <= 16 && !clade__has_blocks(t);
}

static void test_codes(void **state) {
  (void)state;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) {
    const clade__dtype *r = clade__dtype_row(t);
    for (unsigned code = 0; is_small(t) && code < 1u << r->bits; code++) {
      const double want = decoded(r, code), got = (double)from(t, code);
      if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want))
        fail_msg("%s 0x%x is %g, not %g", r->name, code, got, want);
      if (!isnan(want)) assert_int_equal(to(t, want), code);
    }
  }
}

/* Between all neighbors: at the midpoint and at the floats beside it. */
static void test_rounding(void **state) {
  (void)state;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) {
    const clade__dtype *r = clade__dtype_row(t);
    for (unsigned a = 0; is_small(t) && a < end_of(r); a++) {
      const float tie = (float)((number(r, a) + number(r, a + 1)) / 2);
      const float near[] = {nextafterf(tie, 0), tie, nextafterf(tie, INFINITY)};
      for (int i = 0; i < 3; i++)
        for (int sign = -1; sign < 2; sign += 2) {
          const double v = sign * (double)near[i];
          if (to(t, v) != encoded(r, v)) fail_msg("%s of %a is 0x%x, not 0x%x", r->name, v, to(t, v), encoded(r, v));
        }
    }
  }
}

static void test_specials(void **state) {
  (void)state;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) {
    const clade__dtype *r = clade__dtype_row(t);
    if (!is_small(t)) continue;
    assert_true(isnan(decoded(r, to(t, NAN))));
    assert_int_equal(to(t, INFINITY), end_of(r));
    assert_int_equal(to(t, -(double)FLT_MAX), end_of(r) | 1u << (r->bits - 1));
    assert_int_equal(to(t, -0.0), 1u << (r->bits - 1));
    assert_true(clade__dtype_most(t) == number(r, end_of(r) - 1));
    assert_true(clade__dtype_least(t) == number(r, 1));
    assert_true(clade__dtype_unit(t) == (number(r, 1u << r->fraction | 1) / number(r, 1u << r->fraction) - 1) / 2);
  }
}

/* OCP 8-bit floating point, revision 1.0, tables 1 and 2. */
static void test_f8e4m3(void **state) {
  (void)state;
  const clade_dtype t = CLADE_F8E4M3;
  assert_true(clade__dtype_most(t) == 448);
  assert_true(from(t, 0x7e) == 448 && from(t, 0x08) == 0x1p-6f && from(t, 0x01) == 0x1p-9f && from(t, 0x38) == 1);
  assert_true(isnan(from(t, 0x7f)) && isnan(from(t, 0xff)));
  assert_int_equal(to(t, 464), 0x7e); /* midpoint to what would be 480: to even */
  assert_int_equal(to(t, 465), 0x7f);
  const int64_t whole[] = {448, 17, 19, 1000, INT64_MIN};
  const uint8_t want[] = {0x7e, 0x58, 0x5a, 0x7f, 0xff};
  uint8_t got[5];
  assert_int_equal(clade_convert(t, got, CLADE_I64, whole, 5), CLADE_OK);
  assert_memory_equal(got, want, sizeof got);
}

static void test_rows(void **state) {
  (void)state;
  size_t bytes, each;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) {
    const clade__dtype *r = clade__dtype_row(t);
    assert_int_equal(clade__dtype_named(r->name), t);
    assert_string_equal(clade_dtype_name(t), r->name);
    assert_int_equal(clade_dtype_bytes(t, 7 * (int64_t)r->elements, &bytes), CLADE_OK);
    assert_int_equal(bytes, 7 * r->bytes);
    if (r->elements == 1) assert_int_equal(clade__dtype_element(t, &each), CLADE_OK);
    if (clade__is_float(t) && r->elements == 1) assert_int_equal(r->bits, 1 + r->exponent + r->fraction);
    if (!clade__is_float(t)) assert_true(clade__dtype_low(t) <= 0 && clade__dtype_high(t) > 0);
  }
  assert_int_equal(clade__dtype_named("f33"), CLADE_DTYPE_NONE);
  assert_true(clade__dtype_low(CLADE_I8) == -128 && clade__dtype_high(CLADE_U8) == 255);
  assert_true(clade__dtype_low(CLADE_I64) == INT64_MIN && clade__dtype_high(CLADE_I64) == INT64_MAX);
  char names[CLADE__DTYPE_NAMES];
  assert_string_equal(clade__dtype_names(clade__is_computed_float, names), "f32, f16 or bf16");
  assert_false(clade__is_computed(CLADE_F8E4M3));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes), cmocka_unit_test(test_rounding),
                                     cmocka_unit_test(test_specials), cmocka_unit_test(test_f8e4m3),
                                     cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

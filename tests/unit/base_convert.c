/* Conversion between element types: rounding, saturation, special values, and round trips of all numbers of the half
 * types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base.h"

static uint16_t half(clade_dtype dtype, float f) {
  uint16_t h;
  assert_int_equal(clade_convert(dtype, &h, CLADE_F32, &f, 1), CLADE_OK);
  return h;
}

static void test_round(void **state) {
  (void)state;
  assert_int_equal(half(CLADE_F16, 1.0f), 0x3c00);
  assert_int_equal(half(CLADE_F16, -2.5f), 0xc100);
  assert_int_equal(half(CLADE_F16, 1.0f + 0x1p-11f), 0x3c00); /* ties to even */
  assert_int_equal(half(CLADE_F16, 1.0f + 0x3p-11f), 0x3c02);
  assert_int_equal(half(CLADE_F16, 65519.0f), 0x7bff);
  assert_int_equal(half(CLADE_F16, 65520.0f), 0x7c00);
  assert_int_equal(half(CLADE_F16, 0x1p-24f), 1);
  assert_int_equal(half(CLADE_F16, 0x1p-25f), 0);
  assert_int_equal(half(CLADE_F16, 0x1.8p-25f), 1);
  assert_int_equal(half(CLADE_F16, 0x1.ffep-15f), 0x400); /* rounds to the smallest normal number */
  assert_int_equal(half(CLADE_F16, -0.0f), 0x8000);
  assert_int_equal(half(CLADE_F16, INFINITY), 0x7c00);
  assert_true((half(CLADE_F16, NAN) & 0x7fff) > 0x7c00);
  assert_int_equal(half(CLADE_BF16, 1.0f + 0x1p-8f), 0x3f80);
  assert_int_equal(half(CLADE_BF16, 1.0f + 0x3p-8f), 0x3f82);
  assert_true((half(CLADE_BF16, NAN) & 0x7fff) > 0x7f80);
}

static void test_back(void **state) {
  (void)state;
  for (int d = 0; d < 2; d++)
    for (unsigned u = 0; u < 65536; u++) {
      clade_dtype dtype = d ? CLADE_BF16 : CLADE_F16;
      uint16_t h = (uint16_t)u;
      float f;
      assert_int_equal(clade_convert(CLADE_F32, &f, dtype, &h, 1), CLADE_OK);
      if (isnan(f)) continue;
      assert_int_equal(half(dtype, f), u);
    }
}

static void test_integers(void **state) {
  (void)state;
  float f[] = {2.5f, 3.5f, -1e30f, 1e30f, NAN, -0.6f, 300.0f};
  int8_t i8[7];
  uint8_t u8[7];
  int64_t i64[7];
  clade_convert(CLADE_I8, i8, CLADE_F32, f, 7);
  clade_convert(CLADE_U8, u8, CLADE_F32, f, 7);
  clade_convert(CLADE_I64, i64, CLADE_F32, f, 7);
  const int want8[] = {2, 3, -128, 127, 0, 0, 127}, wantu[] = {2, 3, 0, 255, 0, 0, 255};
  const int64_t want64[] = {2, 3, INT64_MIN, INT64_MAX, 0, 0, 300};
  for (int i = 0; i < 7; i++) {
    assert_int_equal(i8[i], want8[i]);
    assert_int_equal(u8[i], wantu[i]);
    assert_true(i64[i] == want64[i]);
  }
  int32_t wide[] = {256 + 7, -1, 0, (1 << 24) + (1 << 16) + 1};
  uint8_t narrow[4], truth[4];
  uint16_t bf[4];
  clade_convert(CLADE_U8, narrow, CLADE_I32, wide, 4);
  clade_convert(CLADE_BOOL, truth, CLADE_I32, wide, 4);
  clade_convert(CLADE_BF16, bf, CLADE_I32, wide, 4);
  assert_int_equal(narrow[0], 7);
  assert_int_equal(narrow[1], 255);
  assert_int_equal(truth[0] + truth[1] * 2 + truth[2] * 4, 3);
  assert_int_equal(bf[3], 0x4b81); /* just above a tie, where rounding through f32 would be wrong */
}

static void test_refused(void **state) {
  (void)state;
  float f = 1;
  assert_int_equal(clade_convert((clade_dtype)99, &f, CLADE_F32, &f, 1), CLADE_DTYPE);
  assert_int_equal(clade_convert(CLADE_F32, NULL, CLADE_F16, &f, 1), CLADE_INVALID);
  assert_int_equal(clade_convert(CLADE_F32, NULL, CLADE_F16, NULL, 0), CLADE_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round), cmocka_unit_test(test_back),
                                     cmocka_unit_test(test_integers), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

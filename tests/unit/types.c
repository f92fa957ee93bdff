/* Element types, dimensions, shapes and layouts. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/base.h"

static void test_dtypes(void **state) {
  (void)state;
  static const struct {
    clade_dtype dtype;
    const char *name;
    size_t bytes;
  } rows[] = {{CLADE_F32, "f32", 4}, {CLADE_F16, "f16", 2},   {CLADE_BF16, "bf16", 2},
              {CLADE_I8, "i8", 1},   {CLADE_U8, "u8", 1},     {CLADE_I32, "i32", 4},
              {CLADE_I64, "i64", 8}, {CLADE_BOOL, "bool", 1}, {CLADE_F8E4M3, "f8e4m3", 1}};
  size_t bytes;
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    assert_string_equal(clade_dtype_name(rows[i].dtype), rows[i].name);
    assert_int_equal(clade_dtype_bytes(rows[i].dtype, 7, &bytes), CLADE_OK);
    assert_int_equal(bytes, 7 * rows[i].bytes);
    assert_int_equal(clade_dtype_bytes(rows[i].dtype, 0, &bytes), CLADE_OK);
    assert_int_equal(bytes, 0);
  }
  assert_string_equal(clade_dtype_name(CLADE_DTYPE_NONE), "?");
  assert_string_equal(clade_dtype_name((clade_dtype)200), "?");
  assert_int_equal(clade_dtype_bytes((clade_dtype)200, 1, &bytes), CLADE_DTYPE);
  assert_int_equal(clade_dtype_bytes(CLADE_F32, -1, &bytes), CLADE_BAD_SHAPE);
  assert_int_equal(clade_dtype_bytes(CLADE_I64, INT64_MAX / 8 + 1, &bytes), CLADE_OVERFLOW);
  assert_int_equal(clade_dtype_bytes(CLADE_I8, INT64_MAX, &bytes), CLADE_OK);
}

static void test_symbols(void **state) {
  (void)state;
  clade_dim n = CLADE_DIM("n"), m = CLADE_DIM("m");
  assert_true(clade_dim_is_symbol(n));
  assert_true(n == CLADE_DIM("n"));
  assert_true(n != m);
  assert_string_equal(clade_dim_name(n), "n");
  assert_null(clade_dim_name(5));
  const clade_dim sizes[] = {0, 1, INT64_MAX, -1, CLADE_DIM_REST, CLADE_DIM_ERROR};
  for (size_t i = 0; i < CLADE_COUNT(sizes); i++) assert_false(clade_dim_is_symbol(sizes[i]));
  char long_name[300];
  memset(long_name, 'a', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  const char *const bad[] = {NULL, "", "1a", "a b", "a-b", "\xc3\xa4", long_name};
  for (size_t i = 0; i < CLADE_COUNT(bad); i++) assert_true(clade_dim_symbol(bad[i]) == CLADE_DIM_ERROR);
}

static void test_arithmetic(void **state) {
  (void)state;
  clade_dim n = CLADE_DIM("n"), m = CLADE_DIM("m");
  assert_true(clade_dim_add(2, 3) == 5);
  assert_true(clade_dim_sub(5, 3) == 2);
  assert_true(clade_dim_mul(4, 6) == 24);
  assert_true(clade_dim_div(7, 2) == 3);
  assert_true(clade_dim_sub(3, 5) == CLADE_DIM_ERROR);
  assert_true(clade_dim_div(3, 0) == CLADE_DIM_ERROR);
  assert_true(clade_dim_add(INT64_MAX, 1) == CLADE_DIM_ERROR);
  assert_true(clade_dim_mul(INT64_MAX, 2) == CLADE_DIM_ERROR);
  assert_true(clade_dim_add(CLADE_DIM_ERROR, 1) == CLADE_DIM_ERROR);
  assert_true(clade_dim_mul(-1, 2) == CLADE_DIM_ERROR);
  assert_true(clade_dim_add(n, 0) == n && clade_dim_mul(1, n) == n && clade_dim_div(n, 1) == n);
  assert_true(clade_dim_sub(n, n) == 0 && clade_dim_mul(n, 0) == 0 && clade_dim_div(n, n) == 1);
  assert_true(clade_dim_add(n, m) == clade_dim_add(m, n));
  assert_true(clade_dim_mul(n, 3) == clade_dim_mul(3, n));
  assert_true(clade_dim_sub(n, m) != clade_dim_sub(m, n));
  assert_true(clade_dim_is_symbol(clade_dim_add(n, 1)));
  assert_true(clade_dim_add(n, 1) != clade_dim_add(n, 2));
}

static void test_derived_parts(void **state) {
  (void)state;
  clade_dim n = CLADE_DIM("n"), a, b;
  char op;
  assert_false(clade__dim_parts(n, &op, &a, &b));
  assert_false(clade__dim_parts(4, &op, &a, &b));
  assert_true(clade__dim_parts(clade_dim_sub(n, 2), &op, &a, &b));
  assert_true(op == '-' && a == n && b == 2);
  clade_dim deep = n; /* long names are replaced by hashes, and still distinct */
  for (int i = 0; i < 60; i++) deep = clade_dim_div(clade_dim_mul(deep, 3), 2);
  assert_true(clade_dim_is_symbol(deep));
  assert_true(clade__dim_parts(deep, &op, &a, &b));
  assert_true(op == '/' && b == 2);
  assert_true(clade_dim_mul(deep, 3) != clade_dim_mul(deep, 5));
}

static void *intern_many(void *arg) {
  clade_dim *out = arg;
  for (int i = 0; i < 200; i++) {
    char name[32];
    snprintf(name, sizeof name, "shared_%d", i);
    out[i] = clade_dim_symbol(name);
    if (strcmp(clade_dim_name(out[i]), name) != 0) out[i] = CLADE_DIM_ERROR;
  }
  return NULL;
}

static void test_symbols_of_many_threads(void **state) {
  (void)state;
  static clade_dim dims[4][200];
  pthread_t thread[4];
  for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&thread[t], NULL, intern_many, dims[t]), 0);
  for (int t = 0; t < 4; t++) assert_int_equal(pthread_join(thread[t], NULL), 0);
  for (int i = 0; i < 200; i++) {
    assert_true(clade_dim_is_symbol(dims[0][i]));
    for (int t = 1; t < 4; t++) assert_true(dims[t][i] == dims[0][i]);
  }
}

static void test_shapes(void **state) {
  (void)state;
  char text[64];
  int64_t n;
  clade_shape scalar = CLADE_SCALAR, a = CLADE_SHAPE(2, 3, 5), b = CLADE_SHAPE(2, 3, 6);
  assert_int_equal(clade_shape_elements(&scalar, &n), CLADE_OK);
  assert_int_equal(n, 1);
  assert_int_equal(clade_shape_elements(&a, &n), CLADE_OK);
  assert_int_equal(n, 30);
  assert_true(clade_shape_equal(&a, &a));
  assert_false(clade_shape_equal(&a, &b));
  assert_false(clade_shape_equal(&a, &scalar));
  clade_shape zero = CLADE_SHAPE(4, 0, 5);
  assert_int_equal(clade_shape_elements(&zero, &n), CLADE_OK);
  assert_int_equal(n, 0);
  clade_shape symbolic = CLADE_SHAPE(CLADE_DIM("batch"), 3);
  assert_false(clade_shape_is_constant(&symbolic));
  assert_true(clade_shape_is_constant(&a));
  assert_int_equal(clade_shape_elements(&symbolic, &n), CLADE_BAD_SHAPE);
  assert_non_null(strstr(clade_last_error(), "batch"));
  clade_shape negative = CLADE_SHAPE(3, -2);
  assert_int_equal(clade_shape_elements(&negative, &n), CLADE_BAD_SHAPE);
  clade_shape huge = CLADE_SHAPE(INT64_MAX, 2), huge_zero = CLADE_SHAPE(INT64_MAX, 2, 0);
  assert_int_equal(clade_shape_elements(&huge, &n), CLADE_OVERFLOW);
  assert_int_equal(clade_shape_elements(&huge_zero, &n), CLADE_OVERFLOW);
  clade_shape nine = CLADE_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1);
  assert_int_equal(clade_shape_elements(&nine, &n), CLADE_BAD_SHAPE);
  assert_string_equal(clade_shape_text(&scalar, text, sizeof text), "[]");
  assert_string_equal(clade_shape_text(&symbolic, text, sizeof text), "[batch, 3]");
  for (size_t size = 1; size < 12; size++) assert_true(strlen(clade_shape_text(&symbolic, text, size)) < size);
}

static void test_types(void **state) {
  (void)state;
  size_t bytes;
  clade_type a = {CLADE_F32, {0}, CLADE_SHAPE(3, 5)}, b = a;
  assert_true(clade_type_equal(&a, &b));
  assert_int_equal(clade_type_bytes(&a, &bytes), CLADE_OK);
  assert_int_equal(bytes, 60);
  b.layout = (clade_layout){.axis = 1, .block = 4};
  assert_false(clade_type_equal(&a, &b));
  assert_int_equal(clade_type_bytes(&b, &bytes), CLADE_OK);
  assert_int_equal(bytes, 3 * 8 * 4);
  b.layout.interleave = 2; /* the preceding axis is padded too */
  assert_int_equal(clade_type_bytes(&b, &bytes), CLADE_OK);
  assert_int_equal(bytes, 4 * 8 * 4);
  clade_type w = {CLADE_F32, {.axis = 0, .block = 16}, CLADE_SHAPE(5, 7, 3, 3)}, base = w;
  base.layout.tile = 6; /* windows of 3 x 3 become 6 x 6 */
  assert_false(clade_type_equal(&w, &base));
  assert_int_equal(clade_type_bytes(&base, &bytes), CLADE_OK);
  assert_int_equal(bytes, 16 * 7 * 6 * 6 * 4);
  base.layout.tile = CLADE_SPECTRUM; /* half of a 16 x 16 spectrum of complex values */
  assert_int_equal(clade_type_bytes(&base, &bytes), CLADE_OK);
  assert_int_equal(bytes, 16 * 7 * 16 * 9 * 2 * 4);
  clade_type matrix = {CLADE_I8, {.axis = 0, .block = 8, .interleave = 4, .tile = CLADE_PANELS}, CLADE_SHAPE(9, 5)};
  assert_int_equal(clade_type_bytes(&matrix, &bytes), CLADE_OK);
  assert_int_equal(bytes, 16 * 8);
  matrix.layout.axis = 1;
  assert_int_equal(clade_type_bytes(&matrix, &bytes), CLADE_OK);
  assert_int_equal(bytes, 8 * 12);
  matrix.shape = CLADE_SHAPE(3, 5, 2, 2); /* convolution weights */
  matrix.layout.interleave = 1;
  assert_int_equal(clade_type_bytes(&matrix, &bytes), CLADE_OK);
  assert_int_equal(bytes, 3 * 8 * 2 * 2);
  matrix.shape = CLADE_SHAPE(2, 9, 5);
  matrix.layout.axis = 0; /* not one of the last two */
  assert_int_equal(clade_type_bytes(&matrix, &bytes), CLADE_BAD_SHAPE);
  clade_type huge = {CLADE_F32, {0}, CLADE_SHAPE(INT64_MAX / 2)};
  assert_int_equal(clade_type_bytes(&huge, &bytes), CLADE_OVERFLOW);
  huge.layout = (clade_layout){.axis = 0, .block = 16};
  huge.shape = CLADE_SHAPE(INT64_MAX);
  assert_int_equal(clade_type_bytes(&huge, &bytes), CLADE_OVERFLOW);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dtypes),
      cmocka_unit_test(test_symbols),
      cmocka_unit_test(test_arithmetic),
      cmocka_unit_test(test_derived_parts),
      cmocka_unit_test(test_symbols_of_many_threads),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Allocation uses the user's hook; every failure is reported and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"

static struct counts {
  size_t made, live, bytes; /* allocations made, and live ones with their bytes */
  size_t fail_at;           /* fails the n-th allocation from now; 0: none */
} counts;
static bool refused(void) { return counts.fail_at && --counts.fail_at == 0; }

static void *allocate(void *user, size_t bytes, size_t align) {
  assert_ptr_equal(user, &counts);
  assert_true(align && (align & (align - 1)) == 0);
  if (refused()) return NULL;
  void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
  if (!memory) return NULL;
  memset(memory, 0xa5, bytes); /* Clade must zero memory itself */
  counts.made++;
  counts.live++;
  counts.bytes += bytes;
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  assert_ptr_equal(user, &counts);
  counts.live--;
  counts.bytes -= bytes;
  free(memory);
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
  release(user, old, old_bytes);
  return memory;
}

static int nothing_left(void **state) {
  (void)state;
  return counts.live || counts.bytes || counts.fail_at;
}

static void test_hook_comes_first(void **state) {
  (void)state;
  clade_allocator partial = {sizeof partial, &counts, allocate, NULL, release};
  assert_int_equal(clade__allocator_set(&partial), CLADE_INVALID);
  clade_allocator hook = {sizeof hook, &counts, allocate, resize, release};
  assert_false(clade__allocator_used());
  assert_int_equal(clade__allocator_set(&hook), CLADE_OK);
  clade__free(clade__new(1, 1));
  assert_int_equal(counts.made, 1);
  assert_true(clade__allocator_used());
  assert_int_equal(clade__allocator_set(&hook), CLADE_BUSY);
}

static void test_new(void **state) {
  (void)state;
  unsigned char *p = clade__new(10, 100);
  assert_non_null(p);
  assert_int_equal((uintptr_t)p % 16, 0);
  for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
  clade__free(p);
  clade__free(NULL);
  void *nothing = clade__new(0, 8);
  assert_non_null(nothing);
  clade__free(nothing);
  assert_null(clade__new(SIZE_MAX / 2, 3));
  assert_null(clade__new(SIZE_MAX, 1));
  counts.fail_at = 1;
  assert_null(clade__new(1, 12345));
  assert_non_null(strstr(clade_last_error(), "12345"));
  counts.fail_at = 1;
  assert_null(clade__copy_text("x"));
}

static void test_grow(void **state) {
  (void)state;
  int *array = NULL;
  size_t capacity = 0;
  for (size_t n = 1; n <= 1000; n++) {
    assert_int_equal(clade__grow(&array, &capacity, n, sizeof *array), CLADE_OK);
    assert_true(capacity >= n);
    assert_int_equal(array[n - 1], 0);
    array[n - 1] = (int)n;
  }
  for (int i = 0; i < 1000; i++) assert_int_equal(array[i], i + 1);
  size_t before = capacity;
  counts.fail_at = 1;
  assert_int_equal(clade__grow(&array, &capacity, before + 1, sizeof *array), CLADE_NO_MEMORY);
  assert_int_equal(capacity, before);
  assert_int_equal(array[999], 1000);
  assert_int_equal(clade__grow(&array, &capacity, SIZE_MAX / 4, sizeof *array), CLADE_OVERFLOW);
  assert_int_equal(array[999], 1000);
  clade__free(array);
}

static void test_arena(void **state) {
  (void)state;
  clade__arena arena = {0};
  unsigned char *pieces[400];
  for (size_t i = 0; i < 400; i++) {
    pieces[i] = clade__arena_new(&arena, i * 7);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    for (size_t b = 0; b < i * 7; b++) assert_int_equal(pieces[i][b], 0);
    memset(pieces[i], (int)i, i * 7);
  }
  for (size_t i = 0; i < 400; i++)
    for (size_t b = 0; b < i * 7; b++) assert_int_equal(pieces[i][b], i & 255);
  assert_string_equal(clade__arena_text(&arena, "copied"), "copied");
  assert_non_null(clade__arena_new(&arena, 1 << 20)); /* larger than a chunk */
  assert_true(counts.live < 100);
  counts.fail_at = 1;
  assert_null(clade__arena_new(&arena, 1 << 20));
  assert_null(clade__arena_new(&arena, SIZE_MAX));
  assert_non_null(clade__arena_new(&arena, 16)); /* still usable */
  clade__arena_free(&arena);
  clade__arena_free(&arena);
}

static void test_text_failure_sticks(void **state) {
  (void)state;
  char *taken = NULL;
  for (size_t at = 1; at <= 3; at++) {
    clade__text text = {0};
    counts.fail_at = at;
    for (int i = 0; i < 40; i++) clade__text_add(&text, "%050d", i);
    assert_true(text.failed);
    assert_int_equal(clade__text_take(&text, &taken), CLADE_NO_MEMORY);
    assert_null(taken);
  }
  clade__text text = {0};
  char large[2000];
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  counts.fail_at = 1; /* the buffer for printing a long string */
  clade__text_add(&text, "%s", large);
  assert_int_equal(clade__text_take(&text, &taken), CLADE_NO_MEMORY);
}

static void test_map_failure(void **state) {
  (void)state;
  clade__map map = {0};
  size_t value, n = 0;
  counts.fail_at = 1;
  assert_int_equal(clade__map_put(&map, (clade__hash){1, 1}, 1), CLADE_NO_MEMORY);
  for (; n < 8; n++) assert_int_equal(clade__map_put(&map, (clade__hash){n, n}, n), CLADE_OK);
  counts.fail_at = 1; /* must grow now */
  assert_int_equal(clade__map_put(&map, (clade__hash){n, n}, n), CLADE_NO_MEMORY);
  for (size_t i = 0; i < n; i++) assert_true(clade__map_get(&map, (clade__hash){i, i}, &value) && value == i);
  clade__map_free(&map);
}

/* Symbols live as long as the process, so this test's symbols remain. */
static void test_symbol_failure(void **state) {
  (void)state;
  const struct counts before = counts;
  size_t at = 1;
  for (; at < 10; at++) {
    counts.fail_at = at;
    clade_dim dim = clade_dim_symbol("unlucky");
    if (dim != CLADE_DIM_ERROR) break;
    assert_int_equal(counts.fail_at, 0);
  }
  assert_true(at > 1 && at < 10);
  counts.fail_at = 0;
  assert_true(clade_dim_symbol("unlucky") == clade_dim_symbol("unlucky"));
  counts.live = before.live;
  counts.bytes = before.bytes;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_hook_comes_first, nothing_left),
      cmocka_unit_test_teardown(test_new, nothing_left),
      cmocka_unit_test_teardown(test_grow, nothing_left),
      cmocka_unit_test_teardown(test_arena, nothing_left),
      cmocka_unit_test_teardown(test_text_failure_sticks, nothing_left),
      cmocka_unit_test_teardown(test_map_failure, nothing_left),
      cmocka_unit_test_teardown(test_symbol_failure, nothing_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* src/base: statuses and messages, options, logging, checked arithmetic, strings, hashes, maps, random numbers. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/base.h"

static void test_statuses(void **state) {
  (void)state;
  assert_int_equal(CLADE_OK, 0);
  assert_string_equal(clade_status_name(CLADE_BAD_SHAPE), "CLADE_BAD_SHAPE");
  assert_string_equal(clade_status_text(CLADE_OK), "success");
  assert_string_equal(clade_status_name((clade_status)999), "CLADE_?");
  assert_string_equal(clade_status_text((clade_status)999), "unknown status");
}

static void *message_of_another_thread(void *arg) {
  (void)arg;
  bool empty = clade_last_error()[0] == '\0';
  clade_fail(CLADE_IO, "theirs");
  return empty ? NULL : (void *)1;
}

static void test_messages(void **state) {
  (void)state;
  assert_int_equal(clade_fail(CLADE_INVALID, "%s is %d", "x", 7), CLADE_INVALID);
  assert_string_equal(clade_last_error(), "x is 7");
  assert_int_equal(clade__fail_in(CLADE_IO, "in %s", "y"), CLADE_IO);
  assert_string_equal(clade_last_error(), "in y: x is 7");
  clade__fail_again(CLADE_IO, clade_last_error()); /* aliases its own buffer */
  assert_string_equal(clade_last_error(), "in y: x is 7");
  clade__fail_again(CLADE_IO, "100%s"); /* a message is not a format string */
  assert_string_equal(clade_last_error(), "100%s");

  pthread_t thread;
  void *result;
  assert_int_equal(pthread_create(&thread, NULL, message_of_another_thread, NULL), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_null(result);
  assert_string_equal(clade_last_error(), "100%s");

  static char large[10000];
  memset(large, 'a', sizeof large - 1);
  clade_fail(CLADE_IO, "%s", large);
  assert_true(strlen(clade_last_error()) > 4000);
}

typedef struct options {
  size_t size;
  int a, b;
} options;

static void test_options(void **state) {
  (void)state;
  options got, given = {sizeof given, 1, 2};
  assert_int_equal(clade__opt_copy(&got, sizeof got, &given, "f"), CLADE_OK);
  assert_int_equal(got.a, 1);
  assert_int_equal(got.b, 2);
  given.size = offsetof(options, b); /* from a caller without b */
  assert_int_equal(clade__opt_copy(&got, sizeof got, &given, "f"), CLADE_OK);
  assert_int_equal(got.a, 1);
  assert_int_equal(got.b, 0);
  assert_int_equal(got.size, sizeof got);
  given.size = sizeof given + 64; /* from a newer caller: known fields are read */
  assert_int_equal(clade__opt_copy(&got, sizeof got, &given, "f"), CLADE_OK);
  assert_int_equal(got.b, 2);
  assert_int_equal(clade__opt_copy(&got, sizeof got, NULL, "f"), CLADE_OK);
  assert_int_equal(got.a, 0);
  given.size = 0;
  assert_int_equal(clade__opt_copy(&got, sizeof got, &given, "clade_f"), CLADE_INVALID);
  assert_non_null(strstr(clade_last_error(), "clade_f"));
}

typedef struct heard {
  int count;
  clade_log_level level;
  char text[64];
} heard;

static void listen(void *user, clade_log_level level, const char *message) {
  heard *h = user;
  h->count++;
  h->level = level;
  snprintf(h->text, sizeof h->text, "%s", message);
}

static void test_log(void **state) {
  (void)state;
  heard h = {0};
  clade__log(CLADE_LOG_ERROR, "nobody listens");
  clade_log_set(listen, &h, 0);
  clade__log(CLADE_LOG_INFO, "too low");
  assert_int_equal(h.count, 0);
  clade__log(CLADE_LOG_WARNING, "w %d", 1);
  assert_int_equal(h.count, 1);
  assert_int_equal(h.level, CLADE_LOG_WARNING);
  assert_string_equal(h.text, "w 1");
  clade_log_set(listen, &h, CLADE_LOG_DEBUG);
  clade__log(CLADE_LOG_DEBUG, "d");
  assert_int_equal(h.count, 2);
  clade_log_set(NULL, NULL, CLADE_LOG_DEBUG);
  clade__log(CLADE_LOG_ERROR, "e");
  assert_int_equal(h.count, 2);
}

static void test_sizes(void **state) {
  (void)state;
  size_t n;
  assert_true(clade__mul(3, 5, &n) && n == 15);
  assert_true(clade__mul(SIZE_MAX, 1, &n) && n == SIZE_MAX);
  assert_false(clade__mul(SIZE_MAX / 2 + 1, 2, &n));
  assert_true(clade__add(SIZE_MAX - 1, 1, &n) && n == SIZE_MAX);
  assert_false(clade__add(SIZE_MAX, 1, &n));
  assert_true(clade__round_up(0, 16, &n) && n == 0);
  assert_true(clade__round_up(17, 16, &n) && n == 32);
  assert_true(clade__round_up(10, 3, &n) && n == 12);
  assert_false(clade__round_up(SIZE_MAX - 3, 16, &n));
}

static void test_text(void **state) {
  (void)state;
  clade__text text = {0};
  char *taken, large[3000];
  assert_int_equal(clade__text_take(&text, &taken), CLADE_OK);
  assert_string_equal(taken, "");
  clade__free(taken);
  memset(large, 'x', sizeof large - 1);
  large[sizeof large - 1] = '\0';
  clade__text_add(&text, "%d,", 5);
  clade__text_add(&text, "%s", large);
  clade__text_add_bytes(&text, ",end and more", 4);
  assert_int_equal(text.length, 2 + 2999 + 4);
  assert_int_equal(clade__text_take(&text, &taken), CLADE_OK);
  assert_null(text.data);
  assert_memory_equal(taken, "5,x", 3);
  assert_string_equal(taken + 2 + 2999, ",end");
  clade__free(taken);
  clade__text_add(&text, "again");
  clade__text_free(&text);
  clade__text_free(&text);
}

static void test_hash(void **state) {
  (void)state;
  char text[33];
  clade__hash empty = clade__hash_bytes("", 0);
  /* The output of xxhsum -H2 for an empty file. */
  assert_string_equal(clade__hash_text(empty, text), "99aa06d3014798d86001c324468d497f");
  clade__hash ab_c = clade__hash_more_text(clade__hash_more_text(empty, "ab"), "c");
  clade__hash a_bc = clade__hash_more_text(clade__hash_more_text(empty, "a"), "bc");
  assert_false(clade__hash_equal(ab_c, a_bc));
  assert_true(clade__hash_equal(ab_c, clade__hash_more_text(clade__hash_more(empty, "ab", 3), "c")));
}

static void test_map(void **state) {
  (void)state;
  clade__map map = {0};
  size_t value = 5;
  assert_false(clade__map_get(&map, clade__hash_bytes("a", 1), &value));
  for (size_t i = 0; i < 1000; i++)
    assert_int_equal(clade__map_put(&map, clade__hash_bytes(&i, sizeof i), i * 3), CLADE_OK);
  for (size_t i = 0; i < 1000; i++) {
    assert_true(clade__map_get(&map, clade__hash_bytes(&i, sizeof i), &value));
    assert_int_equal(value, i * 3);
  }
  size_t absent = 1000, first = 0;
  assert_false(clade__map_get(&map, clade__hash_bytes(&absent, sizeof absent), &value));
  assert_int_equal(clade__map_put(&map, clade__hash_bytes(&first, sizeof first), 77), CLADE_OK);
  assert_int_equal(map.count, 1000);
  assert_true(clade__map_get(&map, clade__hash_bytes(&first, sizeof first), &value));
  assert_int_equal(value, 77);
  /* Keys with a common first slot. */
  for (uint64_t i = 0; i < 8; i++)
    assert_int_equal(clade__map_put(&map, (clade__hash){1 << 20, i}, (size_t)i), CLADE_OK);
  for (uint64_t i = 0; i < 8; i++) {
    assert_true(clade__map_get(&map, (clade__hash){1 << 20, i}, &value));
    assert_int_equal(value, i);
  }
  clade__map_free(&map);
  assert_false(clade__map_get(&map, clade__hash_bytes("a", 1), &value));
}

/* The rows "philox4x32 10" of Random123's known answers. Counter words are, in order, the low and high half of the
 * element, then of the counter. */
static void test_philox(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], answer[4];
  } rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    const uint32_t *c = rows[i].counter, *k = rows[i].key;
    uint32_t out[4];
    clade__philox(k[0] | (uint64_t)k[1] << 32, c[2] | (uint64_t)c[3] << 32, c[0] | (uint64_t)c[1] << 32, out);
    assert_memory_equal(out, rows[i].answer, sizeof out);
  }
}

static void test_uniform(void **state) {
  (void)state;
  uint32_t four[4];
  double sum = 0;
  clade__philox(7, 9, 1, four);
  for (uint64_t i = 0; i < 4; i++) assert_true(clade__uniform(7, 9, 4 + i) == (four[i] >> 8) / 16777216.0);
  for (uint64_t i = 0; i < 10000; i++) {
    double u = clade__uniform(1, 2, i);
    assert_true(u >= 0 && u < 1);
    sum += u;
  }
  assert_true(sum > 4900 && sum < 5100);
}

static void test_references(void **state) {
  (void)state;
  clade__ref ref;
  clade__ref_init(&ref);
  clade__ref_up(&ref);
  assert_false(clade__ref_down(&ref));
  assert_true(clade__ref_down(&ref));
}

static void test_settings(void **state) {
  (void)state;
  char dir[] = "/somewhere";
  assert_int_equal(clade__settings_set(&(clade__settings){.cache_dir = dir, .cpu_threads = 3}), CLADE_OK);
  dir[1] = 'S';
  assert_string_equal(clade__settings_get()->cache_dir, "/somewhere");
  assert_int_equal(clade__settings_get()->cpu_threads, 3);
  assert_int_equal(clade__settings_set(&(clade__settings){.no_cache = true}), CLADE_OK);
  assert_null(clade__settings_get()->cache_dir);
}

static void test_median(void **state) {
  (void)state;
  double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
  assert_true(clade__median(odd, 3) == 2 && odd[0] == 1 && odd[2] == 3);
  assert_true(clade__median(even, 4) == 2.5 && clade__median(one, 1) == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_median),   cmocka_unit_test(test_statuses), cmocka_unit_test(test_messages),
      cmocka_unit_test(test_options),  cmocka_unit_test(test_log),      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_text),     cmocka_unit_test(test_hash),     cmocka_unit_test(test_map),
      cmocka_unit_test(test_philox),   cmocka_unit_test(test_uniform),  cmocka_unit_test(test_references),
      cmocka_unit_test(test_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Old names are accepted beside the new ones, with one warning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"

static int told;

static void count(void *user, clade_log_level level, const char *text) {
  (void)user;
  told += level == CLADE_LOG_WARNING && strstr(text, "is called") != NULL;
}

static void are_told_once(void **state) {
  (void)state;
  clade_log_set(count, NULL, CLADE_LOG_WARNING);
  assert_true(clade__is_old_name("fallback", "companion", 9));
  assert_true(clade__is_old_name("fallback", "companion=x", 9));
  assert_int_equal(told, 1);
  assert_false(clade__is_old_name("fallback", "fallback", 8));
  assert_false(clade__is_old_name("fallback", "compani", 7));
  assert_false(clade__is_old_name("normalize", "companion", 9));
  assert_int_equal(told, 1);
}

/* An ambiguous name: the more specific one takes precedence. */
static void several(void **state) {
  (void)state;
  assert_string_equal(clade__old_name("TM", 0), "tall");
  assert_string_equal(clade__old_name("TM", 1), "rows");
  assert_null(clade__old_name("TM", 2));
  assert_null(clade__old_name("gemm", 0));
}

static void members(void **state) {
  (void)state;
  json_t *old = json_pack("{s:i}", "normalise", 1), *both = json_pack("{s:i, s:i}", "normalise", 1, "normalize", 2);
  told = 0;
  assert_int_equal(json_integer_value(clade__json_member(both, "normalize")), 2);
  assert_int_equal(told, 0);
  assert_int_equal(json_integer_value(clade__json_member(old, "normalize")), 1);
  assert_int_equal(told, 1);
  assert_null(clade__json_member(old, "format"));
  json_decref(old);
  json_decref(both);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(are_told_once), cmocka_unit_test(several),
                                     cmocka_unit_test(members)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Late instructions: which devices and sources need them, and the edited text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "cl/late.h"

static void found_where_both_have_them(void **state) {
  static const char with[] = "__asm__(\"//!90a wgmma.fence;\");", without[] = "__asm__(\"//!90 wgmma.fence;\");//!90a";
  (void)state;
  assert_non_null(clade__late_find(90, with, strlen(with)));
  for (uint32_t capability = 0; capability <= 130; capability++)
    if (capability != 90) assert_null(clade__late_find(capability, with, strlen(with)));
  assert_null(clade__late_find(90, without, strlen(without)));
  for (size_t n = 0; n < strlen(with); n++) /* must not read beyond the source */
    assert_int_equal(clade__late_find(90, with, n) != NULL, n >= strlen("__asm__(\"//!90a "));
  assert_null(clade__late_find(90, "", 0));
}

static void check(const char *before, const char *after, size_t marks) {
  const clade__late *late = clade__late_find(90, "//!90a ", 7);
  clade__text text = {0};
  char *whole;
  assert_non_null(late);
  assert_int_equal(clade__late_switch_on(late, before, strlen(before), &text), marks);
  assert_false(text.failed);
  assert_int_equal(text.length, strlen(after));
  assert_int_equal(clade__text_take(&text, &whole), CLADE_OK);
  assert_string_equal(whole ? whole : "", after);
  clade__free(whole);
}

static void switched_on(void **state) {
  (void)state;
  check(".version 8.0\n.target sm_90, texmode_independent\n\t//!90a wgmma.fence;\n\tret;\n//!90a a;//!90a b;",
        ".version 8.0\n.target sm_90a, texmode_independent\n\twgmma.fence;\n\tret;\na;b;", 3);
  check(".target sm_90\nret;", ".target sm_90a\nret;", 0);
  check(".target sm_90a\nret;", ".target sm_90a\nret;", 0);
  check(".target sm_100\n//!90a x", ".target sm_100\nx", 1);
  check("//!90a ", "", 1);
  check("//!90", "//!90", 0);
  check(".target sm_90", ".target sm_90", 0); /* truncated: nothing follows the name */
  check(".targets", ".targets", 0);
}

static void any_bytes(void **state) {
  const clade__late *late = clade__late_find(90, "//!90a ", 7);
  clade__text text = {0};
  static const char bytes[] = {0x7f, 'E', 'L', 'F', 0, '/', '/', '!', 0, '9'};
  (void)state;
  assert_int_equal(clade__late_switch_on(late, bytes, sizeof bytes, &text), 0);
  assert_int_equal(text.length, sizeof bytes);
  assert_memory_equal(text.data, bytes, sizeof bytes);
  clade__text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(found_where_both_have_them), cmocka_unit_test(switched_on),
                                     cmocka_unit_test(any_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

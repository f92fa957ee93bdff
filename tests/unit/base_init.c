/* clade_init: only once and first, and it changes only unset environment variables. Each case runs in a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

/* Runs the case in a child, whose result is 0 or the failing line. */
static void in_child(int (*body)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(body());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status)) fail_msg("line %d", WEXITSTATUS(status));
}
#define EXPECT(condition) \
  if (!(condition)) return __LINE__

static bool is(const char *name, const char *value) {
  const char *has = getenv(name);
  return value ? has && strcmp(has, value) == 0 : !has;
}

static int defaults(void) {
  unsetenv("POCL_AFFINITY");
  unsetenv("POCL_MAX_PTHREAD_COUNT");
  EXPECT(clade_init() == CLADE_OK);
  EXPECT(is("POCL_AFFINITY", "1"));
  EXPECT(is("POCL_WORK_GROUP_SPECIALIZATION", "0"));
  EXPECT(is("POCL_MAX_PTHREAD_COUNT", NULL));
  EXPECT(!clade__settings_get()->cache_dir);
  EXPECT(clade_init() == CLADE_BUSY);
  EXPECT(strstr(clade_last_error(), "clade_init"));
  return 0;
}

static int given(void) {
  char dir[] = "/some/where";
  setenv("POCL_AFFINITY", "0", 1);
  setenv("POCL_WORK_GROUP_SPECIALIZATION", "1", 1);
  unsetenv("POCL_MAX_PTHREAD_COUNT");
  EXPECT(clade_init(.cpu_threads = 3, .cache_dir = dir, .no_cache = true) == CLADE_OK);
  dir[1] = 'X';
  EXPECT(is("POCL_AFFINITY", "0"));
  EXPECT(is("POCL_WORK_GROUP_SPECIALIZATION", "1"));
  EXPECT(is("POCL_MAX_PTHREAD_COUNT", "3"));
  EXPECT(strcmp(clade__settings_get()->cache_dir, "/some/where") == 0);
  EXPECT(clade__settings_get()->no_cache);
  return 0;
}

static int no_affinity(void) {
  unsetenv("POCL_AFFINITY");
  EXPECT(clade_init(.no_affinity = true) == CLADE_OK);
  EXPECT(is("POCL_AFFINITY", NULL));
  return 0;
}

static int refused(void) {
  unsetenv("POCL_AFFINITY");
  const clade_allocator half = {.size = sizeof half};
  EXPECT(clade_init(.cpu_threads = -1) == CLADE_INVALID);
  EXPECT(clade_init(.cache_dir = "") == CLADE_INVALID);
  EXPECT(clade_init(.allocator = &half) == CLADE_INVALID);
  EXPECT(clade_init(.log_level = (clade_log_level)9) == CLADE_INVALID);
  EXPECT(clade_init(.bundle_policy = (clade_bundle_policy)2) == CLADE_INVALID);
  EXPECT(is("POCL_AFFINITY", NULL));
  EXPECT(clade_init() == CLADE_OK); /* a failed call does not count */
  return 0;
}

static int late(void) {
  clade__free(clade__new(1, 1));
  EXPECT(clade_init() == CLADE_BUSY);
  return 0;
}

static void sets_only_what_is_unset(void **state) {
  (void)state;
  in_child(defaults);
  in_child(given);
  in_child(no_affinity);
}
static void refuses_what_makes_no_sense(void **state) {
  (void)state;
  in_child(refused);
}
static void must_come_first(void **state) {
  (void)state;
  in_child(late);
}
static void tells_its_version(void **state) {
  (void)state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", CLADE_VERSION_MAJOR, CLADE_VERSION_MINOR, CLADE_VERSION_PATCH);
  assert_string_equal(clade_version(), text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sets_only_what_is_unset),
      cmocka_unit_test(refuses_what_makes_no_sense),
      cmocka_unit_test(must_come_first),
      cmocka_unit_test(tells_its_version),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

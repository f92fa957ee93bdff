/* Child processes that answer with one line: what is read, and that nothing is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"

static char line[64];

static clade_status ask(const char *script, double seconds) {
  return clade__child_ask("/bin/sh", (char *[]){"sh", "-c", (char *)(uintptr_t)script, NULL}, seconds, line,
                          sizeof line);
}

static void check_answer(const char *script, const char *answer) {
  assert_int_equal(ask(script, 60), CLADE_OK);
  assert_string_equal(line, answer);
}

static void check_silence(const char *script, double seconds, const char *reason) {
  assert_int_equal(ask(script, seconds), CLADE_IO);
  if (!strstr(clade_last_error(), reason)) fail_msg("\"%s\", not \"…%s…\"", clade_last_error(), reason);
}

static void nobody_is_left(void) {
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

static void hears_the_first_line(void **state) {
  (void)state;
  check_answer("echo yes >&3", "yes");
  check_answer("echo out; echo err >&2; cat; printf 'no a\\nb\\n' >&3; exit 3", "no a");
  check_answer("printf ye >&3; sleep 0.1; printf s >&3; kill -9 $$", "yes");
  check_answer("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf 0123456789 >&3; done",
               "012345678901234567890123456789012345678901234567890123456789012");
  nobody_is_left();
}

static void says_why_not(void **state) {
  (void)state;
  check_silence("kill -6 $$", 60, "/bin/sh ended without an answer");
  assert_int_equal(clade__child_ask("/none/here", (char *[]){"x", NULL}, 60, line, sizeof line), CLADE_IO);
  assert_non_null(strstr(clade_last_error(), "/none/here cannot be started: No such file"));
  nobody_is_left();
}

/* Also kills the child's own children. */
static void ends_what_hangs(void **state) {
  (void)state;
  struct timespec begun, ended;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  check_silence("trap '' TERM; echo started >&3; sleep 300 & wait", 0.5, "did not answer within 0.5 s");
  clock_gettime(CLOCK_MONOTONIC, &ended);
  assert_true(ended.tv_sec - begun.tv_sec < 60);
  nobody_is_left();
}

static void goes_by_no_signal(void **state) {
  (void)state;
  signal(SIGCHLD, SIG_IGN);
  check_answer("sleep 0.1; echo yes >&3", "yes");
  check_silence("exit 0", 60, "ended without an answer");
  signal(SIGCHLD, SIG_DFL);
  nobody_is_left();
}

/* The child inherits no blocked or ignored signals and no descriptors; closed standard streams do not confuse
 * descriptors. */
static void gives_nothing_but_the_pipe(void **state) {
  (void)state;
  sigset_t mask, old;
  sigfillset(&mask);
  pthread_sigmask(SIG_SETMASK, &mask, &old);
  signal(SIGPIPE, SIG_IGN);
  int open_one = open("/dev/null", O_RDONLY), stdin_copy = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);
  assert_true(open_one >= 0 && stdin_copy >= 0);
  close(STDIN_FILENO);
  check_answer("echo $(sed -n 's/^Sig\\(Blk\\|Ign\\):.*\\(.......\\)$/\\2/p' /proc/self/status) >&3",
               "0000000 0000000");
  check_answer(
      "cd /proc/$$/fd; for i in 0 1 2 3 4 5 6 7 8 9 100; do [ -e $i ] && n=\"$n $i\"; done; echo $n $(readlink 0) >&3",
      "0 1 2 3 /dev/null");
  dup2(stdin_copy, STDIN_FILENO);
  close(stdin_copy);
  close(open_one);
  signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void leaves_no_descriptor(void **state) {
  (void)state;
  int before = dup(STDIN_FILENO);
  close(before);
  check_answer("echo yes >&3", "yes");
  check_silence("exit 0", 60, "ended without an answer");
  check_silence("sleep 300", 0.1, "did not answer");
  (void)!clade__child_ask("/none/here", (char *[]){"x", NULL}, 60, line, sizeof line);
  int after = dup(STDIN_FILENO);
  close(after);
  assert_int_equal(before, after);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hears_the_first_line),
      cmocka_unit_test(says_why_not),
      cmocka_unit_test(ends_what_hangs),
      cmocka_unit_test(goes_by_no_signal),
      cmocka_unit_test(gives_nothing_but_the_pipe),
      cmocka_unit_test(leaves_no_descriptor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

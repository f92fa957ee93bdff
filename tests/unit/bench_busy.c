/* What clade bench reports as the load of other processes: not its own work, nor that of the processes of peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/bench/bench.h"

enum { TENTHS = 2 }; /* of a second of a processor */

static void work(void) {
  while (clock() < TENTHS * CLOCKS_PER_SEC / 10) {}
}

static void test_children(void **state) {
  (void)state;
  const double ticks = TENTHS * (double)sysconf(_SC_CLK_TCK) / 10;
  bench_watcher before, after;
  bench_watch(&before);
  assert_true(before.known);
  const pid_t child = fork();
  if (!child) {
    work();
    _exit(0);
  }
  assert_int_equal(waitpid(child, NULL, 0), child);
  bench_watch(&after);
  assert_true(after.own - before.own >= ticks - 2);
  const double others = after.all - before.all - (after.own - before.own);
  assert_true(bench_busy(&before) <= (others + 2) / (after.all - before.all)); /* it counts a little later */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_children)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

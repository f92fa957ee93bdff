/* Shared by the examples: a failed call prints its error and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <clade/clade.h>

static inline void check_at(clade_status status, const char *file, int line) {
  if (status == CLADE_OK) return;
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, clade_status_name(status), clade_last_error());
  exit(EXIT_FAILURE);
}
#define CHECK(call) check_at((call), __FILE__, __LINE__)

/* Checks conditions of the example itself. */
static inline void expect_at(int holds, const char *what, const char *file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: expected: %s\n", file, line, what);
  exit(EXIT_FAILURE);
}
#define EXPECT(condition) expect_at((condition) != 0, #condition, __FILE__, __LINE__)

#endif

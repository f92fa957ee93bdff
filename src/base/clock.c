/* Monotonic clock, and medians of times. */
#include <stdlib.h>
#include <time.h>

#include "base/base.h"

double clade__now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double clade__median(double *seconds, int n) {
  qsort(seconds, (size_t)n, sizeof *seconds, ascending);
  return n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
}

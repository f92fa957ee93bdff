/* Long Fourier transforms and their inverses against a reference in double; refusals of builders. */
#include <math.h>

#include <clade/ops.h>

#include "plan_kit.h"

/* Recursive by the smallest factor; n values with stride `step`. */
static void exact(int64_t n, int64_t step, const double *x, double *y) {
  int64_t p = 2;
  if (n == 1) {
    y[0] = x[0];
    y[1] = x[1];
    return;
  }
  while (n % p) p++;
  int64_t m = n / p;
  double *part = calloc((size_t)n * 2, sizeof *part);
  assert_non_null(part);
  for (int64_t q = 0; q < p; q++) exact(m, step * p, x + 2 * q * step, part + 2 * q * m);
  for (int64_t k = 0; k < n; k++) {
    y[2 * k] = y[2 * k + 1] = 0;
    for (int64_t q = 0; q < p; q++) {
      double angle = -2 * acos(-1.0) * (double)(q * k % n) / (double)n, c = cos(angle), s = sin(angle);
      const double *v = part + 2 * (q * m + k % m);
      y[2 * k] += v[0] * c - v[1] * s;
      y[2 * k + 1] += v[0] * s + v[1] * c;
    }
  }
  free(part);
}

static double distance(int64_t count, const float *have, const double *want) {
  double off = 0, size = 0;
  for (int64_t i = 0; i < count; i++) {
    off += ((double)have[i] - want[i]) * ((double)have[i] - want[i]);
    size += want[i] * want[i];
  }
  return sqrt(off / size);
}

/* Root-mean-square errors of the spectrum and of the inverse. */
static void measure(int64_t n, double limit, clade_device *device) {
  float *x = calloc((size_t)n * 2, sizeof *x), *y = calloc((size_t)n * 2, sizeof *y);
  double *v = calloc((size_t)n * 2, sizeof *v), *want = calloc((size_t)n * 2, sizeof *want);
  uint64_t state = 1;
  assert_true(x && y && v && want);
  for (int64_t i = 0; i < 2 * n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v[i] = (double)(x[i] = (float)(state >> 40) * 0x1p-23f - 1);
  }
  exact(n, 1, v, want);
  clade_graph *g = graph_new();
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(n, 2)), spectrum = clade_fft(g, in);
  clade_output(g, "y", spectrum);
  clade_output(g, "back", clade_ifft(g, spectrum));
  clade_func *func = compiled(g, device);
  clade_run *run;
  clade_ticket ticket;
  size_t bytes = (size_t)n * 2 * sizeof *x;
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, bytes));
  double there = distance(2 * n, y, want);
  OK(clade_read(run, ticket, "back", y, bytes));
  double back = distance(2 * n, y, v);
  print_message("%d values: off by %.2g of their size, and by %.2g there and back\n", (int)n, there, back);
  assert_true(there <= limit && back <= 2 * limit);
  clade_run_free(run);
  clade_func_release(func);
  free(x);
  free(y);
  free(v);
  free(want);
}

static void lengths(void **state) {
  measure(1 << 18, 3e-7, *state);
  measure(177147, 3e-7, *state); /* 3^11 */
  measure(30030, 3e-7, *state);  /* 2 3 5 7 11 13 */
  measure(5 * 1009, 1.2e-6, *state);
}

typedef clade_val attempt_fn(clade_graph *g);
#define ATTEMPT(name, expression) \
  static clade_val name(clade_graph *g) { return expression; }
#define IN(...) clade_input(g, "x", CLADE_F32, CLADE_SHAPE(__VA_ARGS__))
ATTEMPT(parts, clade_fft(g, IN(8, 3)))
ATTEMPT(scalar, clade_rfft(g, clade_input(g, "x", CLADE_F32, CLADE_SCALAR)))
ATTEMPT(half, clade_fft(g, clade_cast(g, IN(8, 2), CLADE_F16)))
ATTEMPT(symbol, clade_fft(g, IN(4, CLADE_DIM("n"), 2)))
ATTEMPT(empty, clade_fft(g, IN(4, 0, 2)))
ATTEMPT(axis, clade_fft(g, IN(4, 8, 2), .n_axes = 1, .axes = {2}))
ATTEMPT(twice, clade_rfft(g, IN(4, 8), .n_axes = 2, .axes = {-1, 1}))
ATTEMPT(many, clade_rfft(g, IN(4, 8), .n_axes = 3))
ATTEMPT(length, clade_irfft(g, IN(4, 5, 2), .n = 10))
ATTEMPT(no_length, clade_irfft(g, IN(4, 1, 2)))
ATTEMPT(unasked, clade_ifft(g, IN(4, 5, 2), .n = 5))
ATTEMPT(large, clade_fft(g, IN((int64_t)1 << 29, 2)))

static void refuses(void **state) {
  static const struct {
    attempt_fn *attempt;
    clade_status status;
    const char *words;
  } refusals[] = {
      {parts, CLADE_BAD_SHAPE, "fft: x is [8, 3]; expected [..., 2], complex values"},
      {scalar, CLADE_BAD_SHAPE, "rfft: x is []; expected at least one dimension"},
      {half, CLADE_DTYPE, "fft: x is f16; expected f32"},
      {symbol, CLADE_BAD_SHAPE, "fft: axis 1 of x is the symbol \"n\"; a transform needs a size"},
      {empty, CLADE_BAD_SHAPE, "fft: axis 1 of x is 0; expected 1 to 268435456"},
      {axis, CLADE_INVALID, "fft: .axes: axis 2 is out of range"},
      {twice, CLADE_INVALID, "rfft: .axes has axis 1 twice"},
      {many, CLADE_INVALID, "rfft: .n_axes is 3; expected 0 to 2"},
      {length, CLADE_INVALID, "irfft: .n is 10; expected a length whose half spectrum has the 5 values of x"},
      {no_length, CLADE_INVALID, "irfft: .n is 0; expected a length"},
      {unasked, CLADE_INVALID, "ifft: .n is 5; only irfft takes it"},
      {large, CLADE_BAD_SHAPE, "fft: axis 0 of x is 536870912"},
  };
  (void)state;
  for (size_t k = 0; k < CLADE_COUNT(refusals); k++) {
    clade_graph *g = graph_new();
    assert_false(clade_val_ok(refusals[k].attempt(g)));
    if (clade_graph_status(g) != refusals[k].status || !strstr(clade_graph_message(g), refusals[k].words))
      fail_msg("\"%s\" does not say \"%s\"", clade_graph_message(g), refusals[k].words);
    clade_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lengths), cmocka_unit_test(refuses)};
  return cmocka_run_group_tests_name("run_fft", tests, open_device, close_device);
}

/* Gradient compression by low-rank matrices: orthonormalization of columns, and training steps of several ranks
 * against PowerSGD as published, in double. */
#include <math.h>
#include <stdio.h>

#include <clade/ops.h>
#include <clade/optim.h>

#include "comm_kit.h"
#include "train/low_rank.h"

/* ---- columns ---- */
enum { COLUMNS = 4 };

static void check_orthonormal(const float *x, int rows) {
  for (int i = 0; i < COLUMNS; i++)
    for (int k = 0; k <= i; k++) {
      double sum = 0;
      for (int row = 0; row < rows; row++) sum += (double)x[row * COLUMNS + i] * (double)x[row * COLUMNS + k];
      assert_true(fabs(sum - (i == k)) < 1e-6);
    }
}

/* Distance of column k from the span of the result's columns. */
static double outside(const float *basis, const float *x, int k, int rows) {
  double rest[64], square = 0;
  for (int row = 0; row < rows; row++) rest[row] = (double)x[row * COLUMNS + k];
  for (int i = 0; i < COLUMNS; i++) {
    double part = 0;
    for (int row = 0; row < rows; row++) part += (double)basis[row * COLUMNS + i] * (double)x[row * COLUMNS + k];
    for (int row = 0; row < rows; row++) rest[row] -= part * (double)basis[row * COLUMNS + i];
  }
  for (int row = 0; row < rows; row++) square += rest[row] * rest[row];
  return sqrt(square);
}

enum { PLAIN, TINY, HUGE_ONES, DEPENDENT, NEARLY, UNITS, ZERO, KINDS };
static float column_value(int kind, int row, int k) {
  const float plain = sinf(1.3f * (float)(row * COLUMNS + k) + (float)(k * k));
  switch (kind) {
  case TINY: return 1e-37f * plain;
  case HUGE_ONES: return 1e37f * plain;
  case DEPENDENT: return (float)(k + 1) * sinf((float)row + 1);
  case NEARLY: return sinf((float)row + 1) + 1e-3f * plain;
  case UNITS: return row == 0; /* a replacement column must differ from all previous ones */
  case ZERO: return 0;
  default: return plain;
  }
}

static void columns(void **state) {
  (void)state;
  for (int rows = COLUMNS; rows <= 64; rows += rows < 8 ? 1 : 28)
    for (int kind = 0; kind < KINDS; kind++) {
      float x[64 * COLUMNS], given[64 * COLUMNS];
      for (int i = 0; i < rows * COLUMNS; i++) x[i] = given[i] = column_value(kind, i / COLUMNS, i % COLUMNS);
      clade__orthonormalize(x, (size_t)rows, COLUMNS);
      check_orthonormal(x, rows);
      double largest = 0;
      for (int i = 0; i < rows * COLUMNS; i++) largest = fmax(largest, fabs((double)given[i]));
      for (int k = 0; k < COLUMNS; k++) assert_true(outside(x, given, k, rows) <= 1e-4 * largest);
    }
}

/* A non-finite loss must stay visible. */
static void no_number(void **state) {
  float x[8 * COLUMNS];
  (void)state;
  for (int i = 0; i < 8 * COLUMNS; i++) x[i] = i == 9 ? NAN : column_value(PLAIN, i / COLUMNS, i % COLUMNS);
  clade__orthonormalize(x, 8, COLUMNS);
  assert_true(isnan(x[1]));
}

/* ---- steps ---- */
enum { N = 64, M = 66, RANK = 2, STEPS = 4, SMALL = 6 };

static float gradient(int rank, int step, int i) {
  return sinf(0.7f * (float)i + (float)rank) + 0.3f * cosf(0.11f * (float)(i * (step + 2)) + (float)(rank * rank));
}

typedef struct reference {
  double w[N * M], error[MOST][N * M], basis[M * RANK];
} reference;

static void gram_schmidt(double *p) {
  for (int k = 0; k < RANK; k++) {
    for (int i = 0; i <= k; i++) {
      double part = 0;
      for (int row = 0; row < N; row++) part += p[row * RANK + i] * p[row * RANK + k];
      for (int row = 0; row < N && i < k; row++) p[row * RANK + k] -= part * p[row * RANK + i];
      for (int row = 0; row < N && i == k; row++) p[row * RANK + k] /= sqrt(part);
    }
  }
}

static double approximation(const double *p, const double *q, int at) {
  double sum = 0;
  for (int k = 0; k < RANK; k++) sum += p[at / M * RANK + k] * q[at % M * RANK + k];
  return sum;
}

static void reference_step(reference *r, int ranks, int step) {
  double p[N * RANK] = {0}, q[MOST][M * RANK] = {{0}};
  for (int rank = 0; rank < ranks; rank++)
    for (int at = 0; at < N * M; at++) {
      r->error[rank][at] += (double)gradient(rank, step, at);
      for (int k = 0; k < RANK; k++) p[at / M * RANK + k] += r->error[rank][at] * r->basis[at % M * RANK + k];
    }
  gram_schmidt(p);
  memset(r->basis, 0, sizeof r->basis);
  for (int rank = 0; rank < ranks; rank++) {
    for (int at = 0; at < N * M; at++)
      for (int k = 0; k < RANK; k++) q[rank][at % M * RANK + k] += r->error[rank][at] * p[at / M * RANK + k];
    for (int i = 0; i < M * RANK; i++) r->basis[i] += q[rank][i];
    for (int at = 0; at < N * M; at++) r->error[rank][at] -= approximation(p, q[rank], at);
  }
  for (int at = 0; at < N * M; at++) r->w[at] -= approximation(p, r->basis, at);
}

static bool near(const float *found, const double *want, int n) {
  for (int i = 0; i < n; i++)
    if (!(fabs((double)found[i] - want[i]) <= 2e-4 * (1 + fabs(want[i])))) return false;
  return true;
}

static bool train(const rank *r, clade_run *run, clade_vars *vars) {
  static const char basis_name[] = "optimizer.low_rank.basis:w";
  float x[N * M], w[N * M], basis[M * RANK], small[SMALL];
  char error_name[64];
  reference *want = calloc(1, sizeof *want);
  bool right = want && clade_vars_get(vars, basis_name, basis, sizeof basis) == CLADE_OK;
  for (int i = 0; right && i < M * RANK; i++) want->basis[i] = (double)basis[i];
  for (int step = 0; step < STEPS && right; step++) {
    clade_ticket ticket;
    for (int i = 0; i < N * M; i++) x[i] = gradient(r->number, step, i);
    right &= clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) == CLADE_OK &&
             clade_wait(run, ticket) == CLADE_OK;
    reference_step(want, r->size, step);
  }
  snprintf(error_name, sizeof error_name, "optimizer.low_rank.error.%d:w", r->number);
  right = right && clade_vars_get(vars, "w", w, sizeof w) == CLADE_OK && near(w, want->w, N * M);
  right = right && clade_vars_get(vars, error_name, w, sizeof w) == CLADE_OK && near(w, want->error[r->number], N * M);
  right =
      right && clade_vars_get(vars, basis_name, basis, sizeof basis) == CLADE_OK && near(basis, want->basis, M * RANK);
  right = right && clade_vars_get(vars, "small", small, sizeof small) == CLADE_OK &&
          fabsf(small[0] + (float)(STEPS * r->size)) < 1e-5f;
  free(want);
  return right;
}

/* A parameter with three dimensions, and one too small for compression. */
static void *steps(void *user) {
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  const clade_shape shape = CLADE_SHAPE(N, M / 6, 6);
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val x = clade_input(g, "x", CLADE_F32, shape),
            w = clade_parameter(g, "w", CLADE_F32, shape, (clade_initial){0}),
            small = clade_parameter(g, "small", CLADE_F32, CLADE_SHAPE(2, 3), (clade_initial){0});
  clade_val loss = clade_add(g, clade_sum(g, clade_mul(g, w, x)), clade_sum(g, small));
  right &= clade_minimize(g, loss, .optimizer = clade_sgd(.lr = 1), .comm = r->comm, .low_rank = RANK) == CLADE_OK;
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_vars_new(func, 1, &vars) == CLADE_OK &&
          clade_run_new(func, vars, &run) == CLADE_OK && train(r, run, vars);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void beside_the_paper(void **state) {
  for (int ranks = 2; ranks <= 3; ranks++) run_ranks(ranks, *state, steps, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(columns), cmocka_unit_test(no_number),
                                     cmocka_unit_test(beside_the_paper)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}

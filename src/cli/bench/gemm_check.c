/* Checks a matrix product by C x = A (B x) with a vector x of random signs, in double: any wrong element changes the
 * result, at the cost of matrix-vector products. */
#include <math.h>

#include "cli/bench/gemm.h"

/* y = op(M) x; op(M) has `rows` rows and `columns` columns. */
static void apply(const float *matrix, bool trans, int64_t rows, int64_t columns, const double *x, double *y) {
  for (int64_t i = 0; i < rows; i++) y[i] = 0;
  if (trans) {
    for (int64_t j = 0; j < columns; j++)
      for (int64_t i = 0; i < rows; i++) y[i] += (double)matrix[j * rows + i] * x[j];
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) sum += (double)matrix[i * columns + j] * x[j];
    y[i] = sum;
  }
}

typedef struct room {
  double *x, *y, *z;
  float *c;
} room;

/* Allowed error: operands are uniform with variance 1/3 in the product's elements. Rounding grows like a random walk
 * along K, for each link of a chain, and along a row. Eight deviations. */
static double allowed(const bench_job *job, const bench_gemm_work *w) {
  double links = w->linked ? (double)w->chain : 1, sums = sqrt((double)w->k / 6) + 2;
  /* products of 8-bit integers are exact; results are compared as floats */
  if (w->type[BENCH_B] == CLADE_I8) return 8 * 0x1p-24 * 0x1p14 * sqrt((double)w->k) * sqrt((double)w->n);
  double stored = w->type[BENCH_A] == CLADE_F32 ? 0 : bench_unit(job->dtype);
  return 8 * links * (0x1p-24 * sums + stored) * sqrt((double)w->n);
}

static clade_status check_one(const bench_job *job, const bench_gemm_work *w, const char *who, int64_t call,
                              int64_t batch, const float *c, room *r) {
  double tolerance = allowed(job, w);
  for (int64_t j = 0; j < w->n; j++) r->x[j] = bench_sign(7, (uint64_t)j);
  apply(c, false, w->m, w->n, r->x, r->z);
  for (int64_t i = w->linked ? w->chain - 1 : call; i >= (w->linked ? 0 : call); i--) {
    apply(w->data[BENCH_B] + bench_gemm_place_of(w, i, batch).b, w->trans[BENCH_B], w->k, w->n, r->x, r->y);
    memcpy(r->x, r->y, (size_t)w->k * sizeof *r->x);
  }
  apply(w->data[BENCH_A] + bench_gemm_place_of(w, call, batch).a, w->trans[BENCH_A], w->m, w->k, r->x, r->y);
  for (int64_t i = 0; i < w->m; i++)
    if (!(fabs(r->z[i] - r->y[i]) <= tolerance))
      return CLADE_FAIL(
          INTERNAL,
          "%s: the product is wrong: row %lld of matrix %lld, its elements added with random signs, is %g "
          "where %g is right (allowed: %g)",
          who, (long long)i, (long long)batch, r->z[i], r->y[i], tolerance);
  return CLADE_OK;
}

clade_status bench_gemm_check(const bench_job *job, const void *work, bench_side *side) {
  const bench_gemm_work *w = work;
  const size_t bytes = (size_t)CLADE_MAX(CLADE_MAX(w->m, w->n), w->k) * sizeof(double);
  clade__arena arena = {0};
  room r = {clade__arena_new(&arena, bytes), clade__arena_new(&arena, bytes), clade__arena_new(&arena, bytes),
            clade__arena_new(&arena, w->elements[BENCH_C] * sizeof *r.c)};
  clade_status status = r.x && r.y && r.z && r.c ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = side->refresh(side->state);
  if (status == CLADE_OK) status = side->call(side->state);
  for (int64_t i = 0; i < (w->linked ? 1 : w->chain) && status == CLADE_OK; i++) {
    status = side->read(side->state, (int)i, r.c);
    for (int64_t j = 0; j < w->batch && status == CLADE_OK; j++)
      status = check_one(job, w, side->name, i, j, r.c + j * w->m * w->n, &r);
  }
  clade__arena_free(&arena);
  return status;
}

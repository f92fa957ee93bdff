/* OpenBLAS as a contestant, with copies of the same operands. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/gemm.h"

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
static struct {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                const float *b, int ldb, float beta, float *c, int ldc);
  void (*sgemv)(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                float beta, float *y, int incy);
  void (*set_threads)(int n);
  int (*threads)(void);
  char *(*core)(void);
  char *(*config)(void);
} blas;

static const char *load(void) {
  const clade__symbol symbols[] = {{"cblas_sgemm", &blas.sgemm},
                                   {"cblas_sgemv", &blas.sgemv},
                                   {"openblas_set_num_threads", &blas.set_threads},
                                   {"openblas_get_num_threads", &blas.threads},
                                   {"openblas_get_corename", &blas.core},
                                   {"openblas_get_config", &blas.config}};
  return bench_library("libopenblas.so.0", "libopenblas0-pthread", (int)CLADE_COUNT(symbols), symbols);
}

typedef struct contestant {
  const bench_gemm_work *work;
  float *at[BENCH_OPERANDS]; /* of C, a result for each call */
} contestant;

static size_t elements(const bench_gemm_work *w, int role) { return (size_t)w->count[role] * w->elements[role]; }

static float *copy_of(const float *from, size_t elements) {
  void *to = NULL;
  size_t bytes = CLADE_MAX(elements, (size_t)1) * sizeof *from;
  if (posix_memalign(&to, 64, bytes)) return NULL;
  if (from)
    memcpy(to, from, bytes);
  else
    memset(to, 0, bytes);
  return to;
}

static clade_status refresh(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  for (int i = BENCH_A; i <= BENCH_B; i++)
    if (!w->frozen[i]) memcpy(s->at[i], w->data[i], elements(w, i) * sizeof(float));
  return CLADE_OK;
}

/* A product with a vector uses sgemv, the faster routine. */
static void multiply(const bench_gemm_work *w, const float *a, const float *b, float *c) {
  const int m = (int)w->m, n = (int)w->n, k = (int)w->k;
  const bool trans_a = w->trans[BENCH_A], trans_b = w->trans[BENCH_B];
  const int lda = trans_a ? m : k, ldb = trans_b ? k : n;
  if (m == 1)
    blas.sgemv(ROW_MAJOR, trans_b ? NO_TRANS : TRANS, trans_b ? n : k, ldb, 1, b, ldb, a, 1, 0, c, 1);
  else if (n == 1)
    blas.sgemv(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_a ? k : m, lda, 1, a, lda, b, 1, 0, c, 1);
  else
    blas.sgemm(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_b ? TRANS : NO_TRANS, m, n, k, 1, a, lda, b, ldb, 0, c, n);
}

static clade_status call(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  for (int64_t i = 0; i < w->chain; i++)
    for (int64_t j = 0; j < w->batch; j++) {
      const bench_gemm_place at = bench_gemm_place_of(w, i, j);
      multiply(w, s->at[at.linked ? BENCH_C : BENCH_A] + at.a, s->at[BENCH_B] + at.b, s->at[BENCH_C] + at.c);
    }
  return CLADE_OK;
}

static clade_status read_result(void *state, int index, float *result) {
  const contestant *s = state;
  const size_t n = s->work->elements[BENCH_C];
  memcpy(result, s->at[BENCH_C] + (size_t)bench_gemm_call(s->work, index) * n, n * sizeof *result);
  return CLADE_OK;
}

static void release(void *state) {
  contestant *s = state;
  for (int i = 0; i < BENCH_OPERANDS; i++) free(s->at[i]);
  clade__free(s);
}

const char *bench_openblas(const bench_job *job, const bench_gemm_work *work, bench_side *side) {
  const char *reason = load();
  if (reason) return reason;
  if (job->dtype != CLADE_F32) return "it multiplies f32";
  if (work->m > INT32_MAX || work->n > INT32_MAX || work->k > INT32_MAX) return "its sizes have 32 bits";
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return "there is no memory for it";
  *side = (bench_side){
      .name = "openblas", .state = s, .refresh = refresh, .call = call, .read = read_result, .free = release};
  s->work = work;
  for (int i = 0; i < BENCH_OPERANDS; i++)
    if (!(s->at[i] = copy_of(work->data[i], elements(work, i)))) {
      release(s);
      return "there is no memory for it";
    }
  blas.set_threads(bench_threads(job));
  side->threads = blas.threads();
  snprintf(side->kernel, sizeof side->kernel, "%s", work->m == 1 || work->n == 1 ? "sgemv" : "sgemm");
  snprintf(side->isa, sizeof side->isa, "%s%s", blas.core(),
           getenv("OPENBLAS_CORETYPE") ? " by OPENBLAS_CORETYPE" : ""); /* may be less than the processor supports */
  return NULL;
}

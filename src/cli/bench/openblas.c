/* OpenBLAS as a contestant, with copies of the same operands. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/bench.h"

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
  float *a, *b, *c; /* c: a result for each call */
} contestant;

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
  if (!w->frozen_a) memcpy(s->a, w->a, (size_t)w->n_a * w->a_elements * sizeof *s->a);
  if (!w->frozen_b) memcpy(s->b, w->b, (size_t)w->n_b * w->b_elements * sizeof *s->b);
  return CLADE_OK;
}

/* A product with a vector uses sgemv, the faster routine. */
static void multiply(const bench_gemm_work *w, const float *a, const float *b, float *c) {
  int m = (int)w->m, n = (int)w->n, k = (int)w->k;
  if (w->m == 1)
    blas.sgemv(ROW_MAJOR, w->trans_b ? NO_TRANS : TRANS, w->trans_b ? n : k, w->trans_b ? k : n, 1, b,
               w->trans_b ? k : n, a, 1, 0, c, 1);
  else if (w->n == 1)
    blas.sgemv(ROW_MAJOR, w->trans_a ? TRANS : NO_TRANS, w->trans_a ? k : m, w->trans_a ? m : k, 1, a,
               w->trans_a ? m : k, b, 1, 0, c, 1);
  else
    blas.sgemm(ROW_MAJOR, w->trans_a ? TRANS : NO_TRANS, w->trans_b ? TRANS : NO_TRANS, m, n, k, 1, a,
               w->trans_a ? m : k, b, w->trans_b ? k : n, 0, c, n);
}

static clade_status call(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  for (int64_t i = 0; i < w->chain; i++) {
    const float *a =
        w->linked && i ? s->c + (size_t)(i - 1) * w->c_elements : s->a + (w->n_a > 1 ? (size_t)i * w->a_elements : 0);
    const float *b = s->b + (w->n_b > 1 ? (size_t)i * w->b_elements : 0);
    float *c = s->c + (size_t)i * w->c_elements;
    for (int64_t j = 0; j < w->batch; j++) multiply(w, a + j * w->m * w->k, b + j * w->k * w->n, c + j * w->m * w->n);
  }
  return CLADE_OK;
}

static clade_status read_result(void *state, int index, float *result) {
  const contestant *s = state;
  size_t at = s->work->linked ? (size_t)s->work->chain - 1 : (size_t)index;
  memcpy(result, s->c + at * s->work->c_elements, s->work->c_elements * sizeof *result);
  return CLADE_OK;
}

static void release(void *state) {
  contestant *s = state;
  free(s->a);
  free(s->b);
  free(s->c);
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
  s->a = copy_of(work->a, (size_t)work->n_a * work->a_elements);
  s->b = copy_of(work->b, (size_t)work->n_b * work->b_elements);
  s->c = copy_of(NULL, (size_t)work->chain * work->c_elements);
  if (!s->a || !s->b || !s->c) {
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

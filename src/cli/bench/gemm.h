/* Types and functions shared by the parts of `clade bench gemm`. */
#ifndef CLADE_CLI_BENCH_GEMM_H
#define CLADE_CLI_BENCH_GEMM_H

#include "cli/bench/bench.h"

extern const bench_key bench_gemm_keys[];
extern const bench_set bench_gemm_sets[];
enum { GEMM_M, GEMM_N, GEMM_K, GEMM_BATCH, GEMM_TRANS_A, GEMM_TRANS_B, GEMM_FROZEN_A, GEMM_FROZEN_B };

void bench_gemm_work_of(const bench_job *job, const bench_shape *shape, bench_gemm_work *w);
/* Shape of an operand; a batch of one gives matrices, the usual case of layers. */
static inline clade_shape bench_gemm_shape(const bench_gemm_work *w, int64_t rows, int64_t columns) {
  return w->batch > 1 ? CLADE_SHAPE(w->batch, rows, columns) : CLADE_SHAPE(rows, columns);
}
static inline clade_shape bench_gemm_a(const bench_gemm_work *w) {
  return w->trans_a ? bench_gemm_shape(w, w->k, w->m) : bench_gemm_shape(w, w->m, w->k);
}
static inline clade_shape bench_gemm_b(const bench_gemm_work *w) {
  return w->trans_b ? bench_gemm_shape(w, w->n, w->k) : bench_gemm_shape(w, w->k, w->n);
}

const char *bench_onednn_gemm(const bench_job *job, const bench_gemm_work *work, bench_side *side);

/* ---- gemm_check.c ---- */
/* Compares all results of a contestant with a reference. */
clade_status bench_gemm_check(const bench_job *job, const bench_gemm_work *work, bench_side *side);

#endif

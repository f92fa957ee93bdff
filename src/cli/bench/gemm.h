/* Types and functions shared by the parts of `clade bench gemm`. */
#ifndef CLADE_CLI_BENCH_GEMM_H
#define CLADE_CLI_BENCH_GEMM_H

#include "cli/bench/bench.h"

extern const bench_key bench_gemm_keys[];
extern const bench_set bench_gemm_sets[];
enum { GEMM_M, GEMM_N, GEMM_K, GEMM_BATCH, GEMM_TRANS_A, GEMM_TRANS_B, GEMM_FROZEN_A, GEMM_FROZEN_B };

void bench_gemm_work_of(const bench_job *job, const bench_shape *shape, bench_gemm_work *w);
/* Shape of an operand; a batch of one gives matrices, the usual case of layers. */
static inline clade_shape bench_gemm_shape(const bench_gemm_work *w, int role) {
  const int64_t rows = role == BENCH_A ? w->m : w->k, columns = role == BENCH_A ? w->k : w->n;
  const int64_t first = w->trans[role] ? columns : rows, second = w->trans[role] ? rows : columns;
  return w->batch > 1 ? CLADE_SHAPE(w->batch, first, second) : CLADE_SHAPE(first, second);
}

/* Where the operands and the result of one matrix of a call begin, in elements. A of a linked call is an earlier C. */
typedef struct bench_gemm_place {
  bool linked;
  size_t a, b, c;
} bench_gemm_place;
static inline bench_gemm_place bench_gemm_place_of(const bench_gemm_work *w, int64_t call, int64_t matrix) {
  const bool linked = w->linked && call;
  const int64_t a = linked ? call - 1 : w->count[BENCH_A] > 1 ? call : 0, b = w->count[BENCH_B] > 1 ? call : 0;
  return (bench_gemm_place){.linked = linked,
                            .a = (size_t)a * w->elements[BENCH_A] + (size_t)(matrix * w->m * w->k),
                            .b = (size_t)b * w->elements[BENCH_B] + (size_t)(matrix * w->k * w->n),
                            .c = (size_t)call * w->elements[BENCH_C] + (size_t)(matrix * w->m * w->n)};
}
/* The call that gives result `index`. */
static inline int64_t bench_gemm_call(const bench_gemm_work *w, int index) { return w->linked ? w->chain - 1 : index; }

const char *bench_onednn_gemm(const bench_job *job, const bench_gemm_work *work, bench_side *side);

/* ---- gemm_check.c ---- */
/* Compares all results of a contestant with a reference; work: bench_gemm_work. */
clade_status bench_gemm_check(const bench_job *job, const void *work, bench_side *side);

#endif

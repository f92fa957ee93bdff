/* Between the parts of clade bench gemm. */
#ifndef CLADE_CLI_BENCH_GEMM_H
#define CLADE_CLI_BENCH_GEMM_H

#include "cli/bench.h"

extern const bench_key bench_gemm_keys[];
extern const bench_set bench_gemm_sets[];
enum { GEMM_M, GEMM_N, GEMM_K, GEMM_BATCH, GEMM_TRANS_A, GEMM_TRANS_B, GEMM_FROZEN_A, GEMM_FROZEN_B };

const char *bench_onednn_gemm(const bench_job *job, const bench_gemm_work *work, bench_side *side);

/* ---- bench_gemm_check.c ---- */
/* Compares all results of a side with what the operands say. */
clade_status bench_gemm_check(const bench_job *job, const bench_gemm_work *work, bench_side *side);

#endif

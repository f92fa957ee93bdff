/* gemm on CPUs with block-quantized weights: dequantized in registers for few rows, or one panel of columns at a time
 * for many. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

/* Up to this many rows, weights are dequantized once per four rows, which is no slower than panels. */
enum { FEW_ROWS = 12, PANEL = 16, TM = 6, INNER = 7 };

static bool is_low(const clade__gemm_problem *p) { return p->m <= FEW_ROWS; }

const char *clade__gemm_blocks_accept(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  if (!clade__has_blocks(q->node->in[1].dtype)) return "requires weights of a block type";
  if (p.k > 1 && p.stride[0][INNER] != 1) return "requires rows that are contiguous along the inner axis";
  return NULL;
}

/* Dequantizing a weight costs about as much as three multiply-adds. */
double clade__gemm_blocks_cost(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const double passes = is_low(&p) ? (double)((p.m + 3) / 4) : 2;
  const double flops = 2.0 * (double)p.batches * (double)p.n * (double)p.k * ((double)p.m + 3 * passes);
  return clade__cost(q->device, flops, clade__gemm_bytes(q), q->device->vector_f32 < 4 ? 0.004 : 0.4) + 1e-6;
}

/* A matrix is divided into parts of columns, and of rows if there are too few columns. There are several parts per
 * core, so that one that begins late takes fewer. */
typedef struct division {
  int64_t across, down;
} division;

static division division_of(const clade_query *q, const clade__gemm_problem *p) {
  const int64_t units = CLADE_MAX(q->device->compute_units, 1u), wanted = CLADE_MAX(8 * units / p->batches, 1);
  const int64_t most = is_low(p) ? p->n / 32 : clade__ceil_div(p->n, PANEL);
  division d = {.across = CLADE_MAX(CLADE_MIN(wanted, most), 1), .down = 1};
  if (!is_low(p) && d.across * p->batches < units) d.down = CLADE_MIN(units, clade__ceil_div(p->m, TM));
  return d;
}

size_t clade__gemm_blocks_workspace(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  if (is_low(&p) || p.batches == 0) return 0;
  const division d = division_of(q, &p);
  return (size_t)(p.batches * d.across * d.down * CLADE_MAX(p.k, 1) * PANEL) * sizeof(float);
}

clade_status clade__gemm_blocks_emit(clade_emit *e, const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const bool low = is_low(&p);
  clade_kernel_step *s;
  if (p.batches * p.m * p.n == 0) return CLADE_OK;
  const division d = division_of(q, &p);
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, low ? "gemm_forward_blocks" : "gemm_forward_blocks_panels",
                              &clade__gemm_own, &s));
  if (low)
    clade_emit_define(s, "ROWS", p.m <= 2 ? p.m : 4);
  else
    clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index8(s, 2, (int64_t[]){d.across, d.down});
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade__emit_items(s, p.batches * d.across * d.down);
  return CLADE_OK;
}

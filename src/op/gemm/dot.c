/* gemm on CPUs for few rows or few columns: vectorized dot products along the inner axis, along which the larger
 * operand is contiguous, as weights are. That operand is not copied. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"

enum { MOST_ROWS = 32, ROW = 6, COLUMN = 7 };

const char *clade__gemm_dot_accept(const clade_query *q) {
  bool swapped;
  clade__gemm_problem p = clade__gemm_lying(q->node, &swapped);
  const char *reason = clade__gemm_floats(q);
  if (reason) return reason;
  if (p.m > MOST_ROWS) return "requires at most 32 rows or columns";
  if (p.k > 1 && p.stride[1][ROW] != 1) return "requires that the larger operand is contiguous along the inner axis";
  return NULL;
}

double clade__gemm_dot_cost(const clade_query *q) {
  bool swapped;
  clade__gemm_problem p = clade__gemm_lying(q->node, &swapped);
  double flops = 2.0 * (double)p.batches * (double)(p.m + 1) * (double)clade__up(p.n, 4) * ((double)p.k + 40);
  return clade__cost(q->device, flops, clade__gemm_bytes(q), q->device->vector_f32 < 4 ? 0.004 : 0.4) + 1e-6;
}

/* Number of parts of each matrix. *copied: elements of the small operand that each part copies. */
static int64_t parts_of(const clade_query *q, const clade__gemm_problem *p, int64_t *copied) {
  int64_t units = CLADE_MAX(q->device->compute_units, 1u), parts = 1;
  while (parts * p->batches % units && parts < units) parts++;
  /* several parts per core, so that one that begins late takes fewer */
  while (parts < 8 * units && p->batches * parts < 8 * units && p->n / parts >= 64) parts *= 2;
  *copied = p->k > 1 && p->stride[0][COLUMN] != 1 ? clade__up(p->m * p->k, 64) : 0;
  return parts;
}

size_t clade__gemm_dot_workspace(const clade_query *q) {
  bool swapped;
  int64_t copied;
  clade__gemm_problem p = clade__gemm_lying(q->node, &swapped);
  int64_t parts = parts_of(q, &p, &copied);
  return (size_t)(CLADE_MAX(p.batches * parts * copied, 64)) * clade__element_bytes(q->node->in[0].dtype);
}

clade_status clade__gemm_dot_emit(clade_emit *e, const clade_query *q) {
  bool swapped;
  int64_t copied;
  clade__gemm_problem p = clade__gemm_lying(q->node, &swapped);
  int64_t parts = parts_of(q, &p, &copied);
  clade_kernel_step *s;
  if (p.batches * p.m * p.n == 0) return CLADE_OK;
  CLADE_TRY(
      clade__gemm_begin(e, q->node, &p, "gemm_forward_dot", swapped ? &clade__gemm_swapped : &clade__gemm_own, &s));
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "MOST_ROWS", p.m == 1 ? 1 : MOST_ROWS);
  clade_emit_workspace(s, 0, clade__element_bytes(q->node->in[0].dtype));
  clade_emit_index8(s, 4, (int64_t[]){parts, swapped ? 1 : p.n, swapped ? p.m : 1, copied});
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade__emit_items(s, p.batches * parts);
  return CLADE_OK;
}

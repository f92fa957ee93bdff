/* gemm by the CLBlast library, if CLADE_LIBRARIES allows it: plain products of floats. Without a cost estimate it is
 * used only if a tuning record or the user names it. */
#include "op/gemm/gemm.h"
#include "program/libraries.h"

/* BATCH: the last batch axis, into which the others are merged; if they cannot be merged, CLBlast is not used. */
enum { BATCH = 5, ROW, COLUMN };

const char *clade__gemm_clblast_accept(const clade_query *q) {
  const clade__gemm_attrs *at = q->node->attrs;
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  if (q->node->in[0].dtype != CLADE_F32 || q->node->in[1].dtype != CLADE_F32) return "requires f32";
  if (at->epilogue.n_insn || q->node->n_in > 2) return "does not support an epilogue";
  if (!p.m || !p.n || !p.k || !p.batches) return "the product is empty";
  for (int i = 0; i < BATCH; i++)
    if (p.dim[i] != 1) return "supports one batch axis only";
  return clade__clblast_missing();
}

clade_status clade__gemm_clblast_emit(clade_emit *e, const clade_query *q) {
  const clade__gemm_attrs *at = q->node->attrs;
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  clade__clblast_product work = {.m = (size_t)p.m,
                                 .n = (size_t)p.n,
                                 .k = (size_t)p.k,
                                 .batches = (size_t)p.batches,
                                 .trans = {at->trans_a, at->trans_b},
                                 .alpha = at->alpha};
  for (int i = 0; i < 2; i++) {
    work.ld[i] = (size_t)p.stride[i][work.trans[i] ? COLUMN : ROW];
    work.stride[i] = (size_t)p.stride[i][BATCH];
  }
  clade_kernel_step *s = clade_emit_library(e, "CLBlastSgemm", &clade__clblast_gemm, &work, sizeof work);
  for (int i = 0; i < 2; i++) clade__emit_in_at(s, i, at->offset[i]);
  clade_emit_out(s, 0);
  return CLADE_OK;
}

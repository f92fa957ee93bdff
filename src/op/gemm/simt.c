/* gemm by tiles in local memory, on GPUs. */
#include "op/epilogue.h"
#include "op/gemm/gemm.h"
#include "op/simt.h"

static clade__simt product_of(const clade__gemm_problem *p) {
  return (clade__simt){.m = p->m, .n = p->n, .k = p->k, .matrices = p->batches};
}

static void defaults(const clade_query *q, int32_t *config) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  clade__simt t = product_of(&p);
  clade__simt_defaults(q, &t, config);
}
const clade_space clade__gemm_simt_space = {sizeof clade__gemm_simt_space, clade__simt_params, defaults,
                                            clade__simt_configs};

const char *clade__gemm_simt_accept(const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  clade__simt t = product_of(&p);
  const char *reason = clade__gemm_floats(q);
  return reason ? reason : clade__simt_refuses(q, &t);
}

double clade__gemm_simt_cost(const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  clade__simt t = product_of(&p);
  return clade__simt_cost(q, &t);
}

clade_status clade__gemm_simt_emit(clade_emit *e, const clade_query *q) {
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  clade__simt t = product_of(&p);
  clade_kernel_step *s;
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, "gemm_forward_simt", &clade__gemm_own, &s));
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade__simt_launch(s, q, &t);
  return CLADE_OK;
}

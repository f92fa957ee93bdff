/* gemm on GPUs, tiled in local memory: by multiply-adds or by NVIDIA's matrix units. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"
#include "op/product.h"

static clade__parts parts_of(const clade__gemm_problem *p) {
  return clade__parts_of(&(clade__matmul){.m = p->m, .n = p->n, .k = p->k, .matrices = p->batches});
}

static int64_t results_of(const clade__gemm_problem *p) { return p->batches * p->m * p->n; }

static void defaults(const clade_query *q, const clade__tiles *t, int32_t *config) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade__parts parts = parts_of(&p);
  clade__tiles_defaults(q, t, &parts.each, config);
}

static const char *accept(const clade_query *q, const clade__tiles *t, bool loose) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade__parts parts = parts_of(&p);
  if (clade__has_blocks(q->node->in[1].dtype)) return "does not support block types";
  return clade__tiles_refuse(q, t, &parts.each, loose);
}

static double cost(const clade_query *q, const clade__tiles *t) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade__parts parts = parts_of(&p);
  const double moved = 2 * (double)clade__parts_bytes(&parts, results_of(&p)); /* written and read again */
  return clade__tiles_cost(q, t, &parts.each, clade__gemm_bytes(q) + moved);
}

size_t clade__gemm_tiles_workspace(const clade_query *q) {
  const clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade__parts parts = parts_of(&p);
  return clade__parts_bytes(&parts, results_of(&p));
}

/* Memory order of an operand; run: consecutive elements per load, 0 if the kernel loads single ones. */
static clade__lies lies(const clade__gemm_problem *p, int operand, int64_t run) {
  const int64_t along = p->stride[operand][operand ? 6 : 7], across = p->stride[operand][operand ? 7 : 6];
  const int64_t lines = operand ? p->n : p->m;
  const bool deep = operand ? across != 1 : along == 1;
  const bool near = (deep ? along : across) == 1;
  return (clade__lies){deep, near && run && (deep ? across : along) % run == 0 && (deep ? p->k : lines) % run == 0};
}

static clade_status emit(clade_emit *e, const clade_query *q, const clade__tiles *t) {
  static const size_t scratch;
  static const clade__gemm_places apart = {{0, NULL}, {1, NULL}, {0, &scratch}};
  const clade__gemm_attrs *attrs = q->node->attrs;
  clade__gemm_problem p = clade__gemm_problem_of(q->node);
  const clade__parts parts = parts_of(&p);
  const int64_t run = t->tables && !clade__is_integer(q->node->in[0].dtype) ? clade__tiles_run(q, t) : 0;
  clade_kernel_step *s;
  /* matrix units load matrices by asynchronous copies */
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, t->tables ? "gemm_forward_tiles" : "gemm_forward_stages",
                              parts.n > 1 ? &apart : &clade__gemm_own, &s));
  clade_emit_define(s, "IN_PARTS", parts.n > 1);
  if (parts.n > 1) {
    clade_emit_index(s, parts.span);
    clade_emit_index(s, parts.n);
  } else {
    clade__epilogue_args(s, q->node, &p.stride[2]);
  }
  clade__tiles_launch(s, q, t, &parts.each, lies(&p, 0, run), lies(&p, 1, run));
  if (parts.n == 1) return CLADE_OK;
  CLADE_TRY(clade__parts_join(e, q, &parts, p.dim, attrs->alpha, &s));
  clade__epilogue_args(s, q->node, &p.stride[2]);
  return CLADE_OK;
}

#define WAY(OF, NAME)                                                                                                \
  static void NAME##_defaults(const clade_query *q, int32_t *config) { defaults(q, &clade__tiles_##NAME, config); }  \
  static bool NAME##_configs(const clade_query *q, int i, int32_t *config) {                                         \
    (void)q;                                                                                                         \
    return clade__tiles_configs(&clade__tiles_##NAME, i, config);                                                    \
  }                                                                                                                  \
  const char *clade__##OF##_##NAME##_accept(const clade_query *q) { return accept(q, &clade__tiles_##NAME, false); } \
  double clade__##OF##_##NAME##_cost(const clade_query *q) { return cost(q, &clade__tiles_##NAME); }                 \
  clade_status clade__##OF##_##NAME##_emit(clade_emit *e, const clade_query *q) {                                    \
    return emit(e, q, &clade__tiles_##NAME);                                                                         \
  }
CLADE__PRODUCT_WAYS(WAY, gemm)
const clade_space clade__gemm_simt_space = {sizeof(clade_space), clade__tile_params, simt_defaults, simt_configs};
const clade_space clade__gemm_warp_space = {sizeof(clade_space), clade__staged_params, warp_defaults, warp_configs};
const clade_space clade__gemm_warpgroup_space = {sizeof(clade_space), clade__staged_params, warpgroup_defaults,
                                                 warpgroup_configs};

const char *clade__gemm_warp_loose_accept(const clade_query *q) { return accept(q, &clade__tiles_warp, true); }
const char *clade__gemm_warpgroup_loose_accept(const clade_query *q) {
  return accept(q, &clade__tiles_warpgroup, true);
}
/* tf32 has ten bits of precision, and sums of f8 have fourteen, so they are used only if a tuning record or the user
 * names them. */
double clade__gemm_loose_cost(const clade_query *q) {
  (void)q;
  return 1e8;
}

/* The implementations of conv2d and conv2d_data, which share one form (clade__conv in src/op/conv/conv.h); here is the
 * reference, which has one work-item per result. */
#include "op/conv/conv.h"
#include "op/product.h"
#include "op/systolic.h"

static const char *accept(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  return clade__cut_short(q->device, (double)c.kernel[0] * ((double)c.kernel[1] * ((double)c.inner + 2) + 2));
}

static double cost(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const double flops = 2 * (double)clade__product(&q->node->out[0].shape, 0, 4) * (double)c.inner * (double)c.taps;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), q->device->device_class == CLADE_CPU ? 0.02 : 0.05);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  const size_t global[] = {(size_t)(c.result[0] * c.result[1]), (size_t)(c.groups * c.rows), (size_t)c.n};
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_gather_ref", CLADE__SINGLE, NULL, &s));
  clade__conv_operands(s);
  clade__conv_problem(s, &c, 3, (int64_t[]){c.w_group, c.w_row, c.w_inner});
  clade__gather_epilogue(s, q->node);
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  return CLADE_OK;
}

/* Rows of both tables, with their end. */
#define OF_BOTH                                                                                                        \
  &clade__gather_direct, &clade__gather_depthwise, &clade__gather_lines, &clade__gather_flat, &clade__gather_winograd, \
      &clade__gather_fft, &clade__gather_mma, &clade__gather_winograd_group, &clade__gather_depthwise_group,           \
      CLADE__LAST_WARPGROUP(conv), CLADE__LAST_WARP(conv), CLADE__PRODUCT_WARPGROUP(conv), CLADE__PRODUCT_WARP(conv),  \
      CLADE__PRODUCT_SIMT(conv),                                                                                       \
      CLADE__SYSTOLIC(gather) /* with its comma */                                                                     \
      CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .emit = emit),             \
      NULL
const clade_impl *const clade__conv_impls[] = {
    &clade__gather_bytes,
    &clade__gather_clblast,
    OF_BOTH,
};
const clade_impl *const clade__conv_data_impls[] = {
    &clade__gather_gemm,
    OF_BOTH,
};

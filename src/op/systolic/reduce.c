/* Reductions by the kernel of fpga/reduce.cl, and broadcasts as reductions of one element each. */
#include "op/reduce/reduce.h"

#include "op/systolic/kernels.h"

static void emit_kernel(clade_emit *e, int64_t outputs, const int64_t size[8], const int64_t stride[8], int kind,
                        float divisor) {
  clade_kernel_step *s = clade_emit_kernel(e, "reduce");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, outputs);
  clade_emit_index8(s, 8, size);
  clade_emit_index8(s, 8, stride);
  clade_emit_i32(s, kind);
  clade_emit_f32(s, divisor);
  clade__systolic_launch(s);
}

/* ---- reduce ---- */
static clade_status reduce_emit(clade_emit *e, const clade_query *q) {
  clade__nest n = clade__reduce_nest(q);
  const int kind = clade__reduce_kind(q);
  const bool mean = kind == CLADE__REDUCE_MEAN; /* a sum that is divided */
  emit_kernel(e, n.outputs, n.dim, n.stride, mean ? CLADE__REDUCE_SUM : kind, mean ? (float)n.count : 1.0f);
  return CLADE_OK;
}

const clade_impl clade__systolic_reduce =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = clade__systolic_floats, .cost = clade__systolic_elements,
                         .emit = reduce_emit, .bundled = "reduce");

/* ---- broadcast ---- */
enum { KEPT = 4 };

static const char *broadcast_accept(const clade_query *q) {
  const char *reason = clade__systolic_floats(q);
  return reason ? reason : clade__broadcast_repeats(q->node).rank > KEPT ? "its kernel supports four axes only" : NULL;
}

static double broadcast_cost(const clade_query *q) { /* cycles to clear and combine a sum */
  return clade__systolic_cost(q, 32.0 * (double)clade__broadcast_repeats(q->node).total);
}

static clade_status broadcast_emit(clade_emit *e, const clade_query *q) {
  clade__repeats r = clade__broadcast_repeats(q->node);
  int64_t size[2 * KEPT] = {1, 1, 1, 1, 1, 1, 1, 1}, stride[2 * KEPT] = {0};
  for (int i = 0; i < r.rank; i++) {
    size[KEPT - r.rank + i] = r.dim[i];
    stride[KEPT - r.rank + i] = r.stride[i];
  }
  emit_kernel(e, r.total, size, stride, CLADE__REDUCE_SUM, (float)r.divisor);
  return CLADE_OK;
}

const clade_impl clade__systolic_broadcast =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = broadcast_accept, .cost = broadcast_cost, .emit = broadcast_emit,
                         .bundled = "reduce");

/* Pooling and its derivatives by the kernels of fpga/pool.cl. */
#include "op/pool/pool.h"
#include "op/systolic/kernels.h"

static const char *accept(const clade_query *q) {
  return clade__pool_task_of(q).back ? "does not compute gradients" : clade__systolic_floats(q);
}

static const char *grad_accept(const clade_query *q) {
  clade__pool_task t = clade__pool_task_of(q);
  if (!t.back) return "computes gradients only";
  bool fits = t.x.dim[2] * t.x.dim[3] <= CLADE__SYSTOLIC_PLANE;
  return fits ? clade__systolic_floats(q) : "an image exceeds its kernel's buffer";
}

static double cost(const clade_query *q) {
  clade__pool_task t = clade__pool_task_of(q);
  double windows = (double)(t.planes * t.y.dim[2] * t.y.dim[3]), pixels = (double)(t.planes * t.x.dim[2] * t.x.dim[3]);
  return clade__systolic_cost(q, windows * t.w->kernel[0] * t.w->kernel[1] * (t.back ? 4 : 1) + pixels);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade__pool_task t = clade__pool_task_of(q);
  clade__map_1d y = clade__window_covers(t.w, 0), x = clade__window_covers(t.w, 1);
  clade_kernel_step *s = clade_emit_kernel(e, t.back ? "pool2d_grad" : "pool2d");
  if (t.back) clade_emit_in(s, 0); /* placeholder for x: the gradient of averages does not read it */
  clade_emit_in(s, q->node->n_in - 1);
  clade_emit_out(s, 0);
  clade_emit_index8(
      s, 8,
      (int64_t[]){t.planes, t.x.dim[2], t.x.dim[3], t.y.dim[2], t.y.dim[3], t.w->kernel[0], t.w->kernel[1], t.divisor});
  clade_emit_index8(s, 8, (int64_t[]){y.mul, y.delta, y.add, y.div, x.mul, x.delta, x.add, x.div});
  clade_emit_i32(s, t.max);
  clade__systolic_launch(s);
  return CLADE_OK;
}

const clade_impl clade__systolic_pool =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = accept, .cost = cost, .emit = emit, .bundled = "pool2d");
const clade_impl clade__systolic_pool_grad = CLADE__SYSTOLIC_IMPL(.name = "systolic_grad", .accept = grad_accept,
                                                                  .cost = cost, .emit = emit, .bundled = "pool2d_grad");

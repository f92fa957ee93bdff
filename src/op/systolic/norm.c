/* Batch normalization and its derivative by the kernels of fpga/norm.cl. */
#include "op/norm/batch_norm.h"
#include "op/systolic/kernels.h"

enum { OPERANDS = 5, RESULTS = 5, GRADIENTS = 3 };

/* For so many passes over x, operand 0. */
static double cost_of(const clade_query *q, double times) {
  clade__channels c = clade__channels_of(&q->node->in[0]);
  return clade__systolic_cost(q, times * (double)c.channels * (double)c.count);
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel, int results) {
  clade__channels c = clade__channels_of(&q->node->in[0]);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  for (int i = 0; i < OPERANDS; i++) clade_emit_in(s, i);
  for (int i = 0; i < results; i++) clade_emit_out(s, i);
  clade_emit_index(s, c.samples);
  clade_emit_index(s, c.channels);
  clade_emit_index(s, c.inner);
  return s;
}

/* ---- batch_norm ---- */
static const char *accept(const clade_query *q) {
  const clade__batch_norm_attrs *a = q->node->attrs;
  return a->epilogue.n_insn ? "its kernel does not support an epilogue" : clade__systolic_floats(q);
}

static double cost(const clade_query *q) { return cost_of(q, 3); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__batch_norm_attrs *a = q->node->attrs;
  clade_kernel_step *s = begin(e, q, "batch_norm", RESULTS);
  clade_emit_f32(s, a->eps);
  clade_emit_f32(s, a->momentum);
  clade__systolic_launch(s);
  return CLADE_OK;
}

const clade_impl clade__systolic_batch_norm =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = accept, .cost = cost, .emit = emit, .bundled = "batch_norm");

/* ---- batch_norm_grad ---- */
static double grad_cost(const clade_query *q) { return cost_of(q, 2); }

static clade_status grad_emit(clade_emit *e, const clade_query *q) {
  clade__systolic_launch(begin(e, q, "batch_norm_grad", GRADIENTS));
  return CLADE_OK;
}

const clade_impl clade__systolic_batch_norm_grad =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = clade__systolic_floats, .cost = grad_cost, .emit = grad_emit,
                         .bundled = "batch_norm_grad");

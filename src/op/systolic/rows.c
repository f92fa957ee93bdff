/* arg_max, softmax and the cross-entropy by the kernels of fpga/rows.cl. */
#include "op/loss/cross_entropy.h"
#include "op/norm/softmax.h"
#include "op/systolic/kernels.h"

/* ---- arg_max ---- */
static const char *arg_max_accept(const clade_query *q) {
  return q->node->in[0].dtype == CLADE_F32 ? NULL : "its kernel requires f32";
}

static clade_status arg_max_emit(clade_emit *e, const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  const int axis = ((const clade__axis_attrs *)q->node->attrs)->axis;
  clade_kernel_step *s = clade_emit_kernel(e, "arg_max");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, clade__product(x, 0, axis));
  clade_emit_index(s, x->dim[axis]);
  clade_emit_index(s, clade__product(x, axis + 1, x->rank));
  clade__systolic_launch(s);
  return CLADE_OK;
}

const clade_impl clade__systolic_arg_max =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = arg_max_accept, .cost = clade__systolic_elements,
                         .emit = arg_max_emit, .bundled = "arg_max");

/* ---- softmax and its derivative ---- */
static double softmax_times(const clade_query *q, double times) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  return clade__systolic_cost(q, times * (double)x.outer * (double)x.n * (double)x.inner);
}
static double softmax_cost(const clade_query *q) { return softmax_times(q, 3); }
static double softmax_grad_cost(const clade_query *q) { return softmax_times(q, 2); }

static clade_status softmax_by(clade_emit *e, const clade_query *q, const char *kernel) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  for (int i = 0; i < q->node->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, x.outer);
  clade_emit_index(s, x.n);
  clade_emit_index(s, x.inner);
  clade_emit_i32(s, ((const clade__softmax_attrs *)q->node->attrs)->log);
  clade__systolic_launch(s);
  return CLADE_OK;
}
static clade_status softmax_emit(clade_emit *e, const clade_query *q) { return softmax_by(e, q, "softmax"); }
static clade_status softmax_grad_emit(clade_emit *e, const clade_query *q) { return softmax_by(e, q, "softmax_grad"); }

const clade_impl clade__systolic_softmax =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = clade__systolic_floats, .cost = softmax_cost,
                         .emit = softmax_emit, .bundled = "softmax");
const clade_impl clade__systolic_softmax_grad =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = clade__systolic_floats, .cost = softmax_grad_cost,
                         .emit = softmax_grad_emit, .bundled = "softmax_grad");

/* ---- the cross-entropy and its derivative ---- */
static int64_t classes(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  return x->dim[x->rank - 1];
}
static int64_t rows_of(const clade_query *q) {
  const clade_shape *labels = &q->node->in[1].shape;
  return clade__product(labels, 0, labels->rank);
}

static const char *logits_accept(const clade_query *q) {
  return q->node->in[0].dtype == CLADE_F32 ? NULL : "its kernel requires logits of f32";
}

static double cross_entropy_cost(const clade_query *q) {
  return clade__systolic_cost(q, 3.0 * (double)rows_of(q) * (double)classes(q));
}

static clade_status cross_entropy_emit(clade_emit *e, const clade_query *q) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy");
  for (int i = 0; i < 2; i++) clade_emit_in(s, i);
  for (int i = 0; i < 3; i++) clade_emit_out(s, i);
  clade_emit_i32(s, 1);
  clade_emit_index(s, rows_of(q));
  clade_emit_index(s, classes(q));
  clade_emit_f32(s, a->smoothing);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade_emit_i32(s, !a->per_sample);
  clade__systolic_launch(s);
  return CLADE_OK;
}

static clade_status cross_entropy_grad_emit(clade_emit *e, const clade_query *q) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy_grad");
  for (int i = 0; i < 5; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, rows_of(q));
  clade_emit_index(s, classes(q));
  clade_emit_i32(s, a->per_sample);
  clade_emit_f32(s, a->smoothing);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__systolic_launch(s);
  return CLADE_OK;
}

const clade_impl clade__systolic_cross_entropy =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = logits_accept, .cost = cross_entropy_cost,
                         .emit = cross_entropy_emit, .bundled = "cross_entropy");
const clade_impl clade__systolic_cross_entropy_grad =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = logits_accept, .cost = clade__systolic_elements,
                         .emit = cross_entropy_grad_emit, .bundled = "cross_entropy_grad");

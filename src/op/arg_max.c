/* The i32 index of the first largest element along an axis; a NaN is larger than all. */
#include <clade/ops.h>

#include <inttypes.h>

#include "op/systolic.h"

static clade_status infer(clade_node *n) {
  const clade__axis_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape;
  clade_shape y = {0};
  int axis;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__axis("arg_max", a->axis, x->rank, &axis));
  if (x->dim[axis] == 0) return CLADE_FAIL(SHAPE, "arg_max: axis %d of x has no elements", axis);
  if (!clade_dim_is_symbol(x->dim[axis]) && x->dim[axis] > INT32_MAX)
    return CLADE_FAIL(SHAPE, "arg_max: axis %d of x has %" PRId64 " elements, which an i32 does not count", axis,
                      x->dim[axis]);
  for (int i = 0; i < x->rank; i++)
    if (i != axis) y.dim[y.rank++] = x->dim[i];
  n->out[0] = (clade_type){.dtype = CLADE_I32, .shape = y};
  return CLADE_OK;
}

static const char *accept(const clade_query *q) {
  return clade__cut_short(q->device,
                          (double)q->node->in[0].shape.dim[((const clade__axis_attrs *)q->node->attrs)->axis]);
}

static double cost(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  return clade__cost(q->device, 2.0 * (double)clade__product(x, 0, x->rank), clade__node_bytes(q->node), 0.03);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__axis_attrs *a = q->node->attrs;
  const clade_type *x = &q->node->in[0];
  int64_t outer = clade__product(&x->shape, 0, a->axis);
  int64_t inner = clade__product(&x->shape, a->axis + 1, x->shape.rank);
  clade_kernel_step *s = clade_emit_kernel(e, "arg_max_forward_ref");
  clade_emit_define_text(s, "T", clade_dtype_name(x->dtype));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, outer);
  clade_emit_i32(s, (int32_t)x->shape.dim[a->axis]);
  clade_emit_index(s, inner);
  clade__emit_flat(s, q->device, outer * inner);
  return CLADE_OK;
}

/* ---- systolic, of a bundle ---- */
static const char *systolic_accept(const clade_query *q) {
  return q->node->in[0].dtype == CLADE_F32 ? NULL : "its kernel takes elements of f32";
}

static clade_status systolic_emit(clade_emit *e, const clade_query *q) {
  const clade__axis_attrs *a = q->node->attrs;
  const clade_shape *x = &q->node->in[0].shape;
  clade_kernel_step *s = clade_emit_kernel(e, "arg_max");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, clade__product(x, 0, a->axis));
  clade_emit_index(s, x->dim[a->axis]);
  clade_emit_index(s, clade__product(x, a->axis + 1, x->rank));
  clade__systolic_launch(s);
  return CLADE_OK;
}

static const clade_impl impls[] = {
    {.name = "systolic",
     .accept = systolic_accept,
     .cost = clade__systolic_elements,
     .emit = systolic_emit,
     .bundled = "arg_max"},
    {.name = "ref", .accept = accept, .cost = cost, .emit = emit},
    {0},
};

const clade_op clade__op_arg_max = {
    .size = sizeof(clade_op),
    .name = "arg_max",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__axis_attrs),
    .attrs = clade__axis_table,
    .infer = infer,
    .impls = impls,
};

clade_val clade_arg_max(clade_graph *g, clade_val x, int axis) {
  return clade__axis_node(g, &clade__op_arg_max, x, axis);
}

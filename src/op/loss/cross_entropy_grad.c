/* Gradient of the softmax cross-entropy with respect to the logits: (softmax - target) times the loss's gradient; for a
 * mean, divided by the number of labels that are not ignored. The error of an element is at most (20 + range of the
 * row's logits) 2^-23 of its softmax plus 2^-22 of its target, times the loss's gradient. A row whose label is no class
 * becomes NaN. */
#include "op/loss/cross_entropy.h"
#include "op/group.h"
#include "op/systolic.h"

static clade_status infer(clade_node *n) {
  const clade__cross_entropy_attrs *a = n->attrs;
  static const char *const names[] = {"stats", "count", "dy"};
  clade_shape rows, stats;
  char text[200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_labels(n, &rows));
  stats = rows;
  stats.dim[stats.rank++] = 2;
  const clade_shape want[] = {stats, CLADE_SCALAR, a->per_sample ? rows : CLADE_SCALAR};
  for (int i = 0; i < 3; i++) {
    const clade_type *t = &n->in[2 + i];
    if (t->dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "cross_entropy_grad: %s is %s; expected f32", names[i], clade_dtype_name(t->dtype));
    if (!clade_shape_equal(&t->shape, &want[i]))
      return CLADE_FAIL(BAD_SHAPE, "cross_entropy_grad: %s is %s, which does not fit the labels", names[i],
                        clade_shape_text(&t->shape, text, sizeof text));
  }
  n->out[0] = n->in[0];
  return CLADE_OK;
}

static int64_t classes(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  return x->dim[x->rank - 1];
}
static int64_t rows_of(const clade_query *q) {
  const clade_shape *labels = &q->node->in[1].shape;
  return clade__product(labels, 0, labels->rank);
}

static const char *accept(const clade_query *q) { return clade__cut_short(q->device, (double)(classes(q) / 16) + 64); }

static double cost(const clade_query *q) {
  return clade__cost(q->device, 20.0 * (double)rows_of(q) * (double)classes(q), clade__node_bytes(q->node), 0.1);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy_grad_ref");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  for (int i = 0; i < 5; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, rows_of(q));
  clade_emit_i32(s, (int32_t)classes(q));
  clade_emit_i32(s, a->per_sample);
  clade_emit_f32(s, a->smoothing);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__emit_flat(s, q->device, rows_of(q));
  return CLADE_OK;
}

/* ---- group: four elements per work-item ---- */
static const char *group_accept(const clade_query *q) { return clade__group_refuses(q, 4); }

static double group_cost(const clade_query *q) {
  return clade__group_cost(q, 30.0 * (double)rows_of(q) * (double)classes(q));
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy_grad_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  for (int i = 0; i < 5; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, rows_of(q) * classes(q));
  clade_emit_index(s, classes(q));
  clade_emit_i32(s, a->per_sample);
  clade_emit_f32(s, a->smoothing);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__emit_fours(s, rows_of(q) * classes(q));
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = group_cost, .emit = group_emit,
               .file = "cross_entropy_group"),
    CLADE__SYSTOLIC(cross_entropy_grad) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .emit = emit),
    NULL,
};

/* In-place execution is allowed: each element is read before it is overwritten. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)n, (void)out;
  return 1;
}

const clade_op clade__op_cross_entropy_grad = {
    .size = sizeof(clade_op),
    .name = "cross_entropy_grad",
    .min_in = 5,
    .max_in = 5,
    .n_out = 1,
    .attr_bytes = sizeof(clade__cross_entropy_attrs),
    .attrs = clade__cross_entropy_table,
    .infer = infer,
    .in_place = in_place,
    .impls = impls,
};

/* Gradient of unfold: sums the windows that cover each position, in the order of the kernel. The error of a sum of k
 * terms is at most k 2^-24 times the sum of absolute values, plus the rounding to the stored type. */
#include "op/group.h"
#include "op/move/unfold.h"

static clade_status infer(clade_node *n) {
  const clade__unfold_attrs *a = n->attrs;
  const clade_shape *y = &n->in[0].shape;
  char text[200];
  clade_shape x = {.rank = y->rank - 1};
  int64_t count = 0;
  if (y->rank < 4)
    return CLADE_FAIL(BAD_SHAPE, "fold: y is %s; expected [n, windows, c, kernel, ...]",
                      clade_shape_text(y, text, sizeof text));
  x.dim[0] = y->dim[0];
  x.dim[1] = y->dim[2];
  x.dim[2] = a->size;
  for (int i = 3; i < x.rank; i++) x.dim[i] = y->dim[i + 1];
  CLADE_TRY(clade__unfold_check(n, &x, &count));
  if (y->dim[1] != count || y->dim[3] != a->kernel)
    return CLADE_FAIL(BAD_SHAPE, "fold: y is %s; expected %lld windows of %d", clade_shape_text(y, text, sizeof text),
                      (long long)count, a->kernel);
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = x};
  return CLADE_OK;
}

static void dims(clade_dims *d, const clade_node *n) { clade__unfold_dims(d, n, true); }

static clade_status grad(clade_grad *g) {
  g->din[0] = clade__unfold(g->graph, g->dout[0], g->node->attrs);
  return CLADE_OK;
}

static const char *accept(const clade_query *q) {
  const clade__unfold_attrs *a = q->node->attrs;
  return clade__cut_short(q->device, (double)a->kernel * 64 + 256);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade_shape *x = &n->out[0].shape;
  clade__unfold_emit(e, q, "fold_forward_ref", clade_dtype_name(n->out[0].dtype), clade__product(x, 0, 3),
                     clade__product(x, 3, x->rank), x, n->in[0].shape.dim[1]);
  return CLADE_OK;
}

static const char *group_accept(const clade_query *q) {
  return clade__cut_short(q->device, ((const clade__unfold_attrs *)q->node->attrs)->kernel);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade_shape *x = &n->out[0].shape;
  clade__unfold_emit_group(e, q, "fold_forward_group", clade_dtype_name(n->out[0].dtype), clade__product(x, 0, 3),
                           clade__product(x, 3, x->rank), x, n->in[0].shape.dim[1]);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = clade__unfold_cost, .emit = group_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = clade__unfold_cost, .emit = emit),
    NULL};

const clade_op clade__op_fold = {
    .size = sizeof(clade_op),
    .name = "fold",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__unfold_attrs),
    .attrs = clade__unfold_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .file = "unfold",
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade__fold(clade_graph *g, clade_val y, const clade__unfold_attrs *window) {
  return clade_node_add(g, &clade__op_fold, NULL, window, 1, &y, NULL);
}

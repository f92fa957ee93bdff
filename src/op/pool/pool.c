/* Options, shapes and builders that the pooling ops share. */
#include "op/pool/pool.h"

#include "ir/dimensions.h"
#include "ir/ties.h"

const clade_attr clade__pool_table[] = {CLADE__WINDOW_ROWS(clade__pool_attrs),
                                        {"count_pad", CLADE_ATTR_BOOL, offsetof(clade__pool_attrs, count_pad), 1},
                                        {"shape", CLADE_ATTR_SHAPE, offsetof(clade__pool_attrs, shape), 1},
                                        {0}};

clade_status clade__pool_check(const clade_node *n, const clade_shape *x, clade_shape *y) {
  const clade__pool_attrs *a = n->attrs;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, 0, "x"));
  for (int i = 1; i < n->n_in; i++)
    if (n->in[i].dtype != n->in[0].dtype)
      return CLADE_FAIL(DTYPE, "%s: the operands are %s and %s; expected the same type", n->op->name,
                        clade_dtype_name(n->in[0].dtype), clade_dtype_name(n->in[i].dtype));
  return clade__window_slide(n->op->name, &a->window, x, x->dim[1], y);
}

clade_status clade__pool_infer(clade_node *n) {
  clade_type y = {.dtype = n->in[0].dtype};
  CLADE_TRY(clade__pool_check(n, &n->in[0].shape, &y.shape));
  n->out[0] = y;
  return CLADE_OK;
}

void clade__pool_ties(clade_ties *t, const clade_node *n) {
  for (int i = 0; i < 2; i++) clade_tie_axes(t, 0, i, 1, i);
  for (int a = 0; a < 2; a++) clade__keep_axes(t, n, a, 2);
}

void clade__pool_dims(clade_dims *d, const clade_node *n) {
  for (int i = 0; i < 2; i++) clade__dims_axis(d, n, i, i);
}

clade_val clade__pool_node(clade_graph *g, const clade_op *op, const clade__pool_attrs *like, int n_in,
                           const clade_val *in, const clade_shape *shape) {
  clade__pool_attrs at;
  memset(&at, 0, sizeof at); /* attributes are compared and hashed bytewise, padding included */
  at.window = like->window;
  at.count_pad = like->count_pad;
  if (shape) {
    at.shape.rank = shape->rank;
    for (int i = 0; i < shape->rank; i++) at.shape.dim[i] = shape->dim[i];
  }
  return clade_node_add(g, op, NULL, &at, n_in, in, NULL);
}

clade_val clade__pool_build(clade_graph *g, const clade_op *op, const clade_pool2d_opt *given) {
  clade_pool2d_opt opt;
  clade__pool_attrs at = {.count_pad = false};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, op->name);
  const clade__window_opt window = {opt.kernel, opt.stride, opt.pad, opt.pads, opt.dilation};
  if (status == CLADE_OK) status = clade__window_make(op->name, &window, &at.window);
  if (status == CLADE_OK && opt.count_pad && op == &clade__op_max_pool2d)
    status = CLADE_FAIL(INVALID, "max_pool2d: .count_pad has no effect; only avg_pool2d takes it");
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  at.count_pad = opt.count_pad;
  return clade__pool_node(g, op, &at, 1, &opt.x, NULL);
}

clade_val clade_global_avg_pool2d(clade_graph *g, clade_val x) {
  clade_type type;
  char text[200];
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK && type.shape.rank != 4)
    status = CLADE_FAIL(BAD_SHAPE, "x is %s; expected [n, channels, height, width]",
                        clade_shape_text(&type.shape, text, sizeof text));
  if (status != CLADE_OK) return clade__graph_fail(g, status, "global_avg_pool2d");
  return clade_mean(g, x, .n_axes = 2, .axes = {2, 3});
}

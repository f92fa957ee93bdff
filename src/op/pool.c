/* Pooling: options, shapes and launches that its ops share. */
#include "op/pool.h"

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

clade_val clade__pool_node(clade_graph *g, const clade_op *op, const clade__pool_attrs *like, int n_in,
                           const clade_val *in, const clade_shape *shape) {
  clade__pool_attrs at;
  memset(&at, 0, sizeof at); /* attributes are compared and hashed by their bytes */
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
  if (status == CLADE_OK) status = clade__window_make(op->name, &window, true, &at.window);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  at.count_pad = opt.count_pad;
  return clade__pool_node(g, op, &at, 1, &opt.x, NULL);
}

clade_val clade_global_avg_pool2d(clade_graph *g, clade_val x) {
  clade_type type;
  char text[200];
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK && type.shape.rank != 4)
    status = CLADE_FAIL(SHAPE, "x is %s; expected [n, channels, height, width]",
                        clade_shape_text(&type.shape, text, sizeof text));
  if (status != CLADE_OK) return clade__graph_fail(g, status, "global_avg_pool2d");
  return clade_mean(g, x, .n_axes = 2, .axes = {2, 3});
}

clade_status clade__pool_emit(clade_emit *e, const clade_query *q, const char *kernel, bool back, int64_t divisor) {
  const clade_node *n = q->node;
  const clade__pool_attrs *a = n->attrs;
  const clade_shape *to = &n->out[0].shape, *x = back ? to : &n->in[0].shape;
  const clade_shape *y = back ? &n->in[n->n_in - 1].shape : to;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  for (int i = 0; i < n->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index8(s, 8,
                    (int64_t[]){to->dim[0] * to->dim[1], x->dim[2], x->dim[3], y->dim[2], y->dim[3],
                                a->window.kernel[0], a->window.kernel[1], divisor});
  clade__emit_maps(s, &a->window, clade__window_covers);
  size_t global[2] = {(size_t)(to->dim[2] * to->dim[3]), (size_t)(to->dim[0] * to->dim[1])};
  clade_emit_range(s, 2, global, (size_t[]){16, 1});
  return CLADE_OK;
}

static double taps(const clade_node *n) {
  const clade__pool_attrs *a = n->attrs;
  return (double)a->window.kernel[0] * (a->window.kernel[1] + 2.0) + 2;
}

const char *clade__pool_accept(const clade_query *q, double passes) {
  return clade__cut_short(q->device, passes * taps(q->node));
}

double clade__pool_cost(const clade_query *q) {
  double elements = (double)clade__product(&q->node->out[0].shape, 0, 4);
  return clade__cost(q->device, 8 * elements * taps(q->node), clade__node_bytes(q->node), 0.05);
}

/* Copies of all windows along axis 2 of [n, c, size, ...], as [n, windows, c, kernel, ...] (im2col along one axis).
 * Padding is zero. */
#include "ir/dimensions.h"
#include "op/move/unfold.h"

#include <inttypes.h>

#include "op/group.h"

const clade_attr clade__unfold_table[] = {
    {"size", CLADE_ATTR_I64, offsetof(clade__unfold_attrs, size), 1},
    {"kernel", CLADE_ATTR_I32, offsetof(clade__unfold_attrs, kernel), 1},
    {"stride", CLADE_ATTR_I32, offsetof(clade__unfold_attrs, stride), 1},
    {"dilation", CLADE_ATTR_I32, offsetof(clade__unfold_attrs, dilation), 1},
    {"pad", CLADE_ATTR_I32, offsetof(clade__unfold_attrs, pad), 2},
    {0},
};

clade_status clade__unfold_check(const clade_node *n, const clade_shape *x, int64_t *count) {
  const clade__unfold_attrs *a = n->attrs;
  char text[200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, 0, "x"));
  if (x->rank < 3 || x->rank >= CLADE_MAX_RANK || x->dim[2] != a->size)
    return CLADE_FAIL(BAD_SHAPE, "%s: x is %s; expected [n, c, %" PRId64 ", ...] of 7 dimensions at most", n->op->name,
                      clade_shape_text(x, text, sizeof text), a->size);
  int64_t extent = ((int64_t)a->kernel - 1) * a->dilation + 1, room = a->size + a->pad[0] + a->pad[1];
  if (a->size < 1 || a->kernel < 1 || a->stride < 1 || a->dilation < 1 || a->pad[0] < 0 || a->pad[1] < 0 ||
      extent > room)
    return CLADE_FAIL(INVALID,
                      "%s: a kernel of %d with stride %d and dilation %d does not fit into %" PRId64
                      " with a padding of %d and %d",
                      n->op->name, a->kernel, a->stride, a->dilation, a->size, a->pad[0], a->pad[1]);
  *count = (room - extent) / a->stride + 1;
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  const clade__unfold_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape;
  clade_shape y = {.rank = x->rank + 1};
  int64_t count = 0;
  CLADE_TRY(clade__unfold_check(n, x, &count));
  y.dim[0] = x->dim[0];
  y.dim[1] = count;
  y.dim[2] = x->dim[1];
  y.dim[3] = a->kernel;
  for (int i = 3; i < x->rank; i++) y.dim[i + 1] = x->dim[i];
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = y};
  return CLADE_OK;
}

void clade__unfold_dims(clade_dims *d, const clade_node *n, bool back) {
  const int rank = back ? n->out[0].shape.rank : n->in[0].shape.rank;
  for (int i = 0; i < rank; i++) {
    const int other = i == 0 ? 0 : i + 1;
    if (i != 2) clade__dims_axis(d, n, back ? other : i, back ? i : other);
  }
}

static void dims(clade_dims *d, const clade_node *n) { clade__unfold_dims(d, n, false); }

static clade_status grad(clade_grad *g) {
  g->din[0] = clade__fold(g->graph, g->dout[0], g->node->attrs);
  return CLADE_OK;
}

double clade__unfold_cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

void clade__unfold_emit(clade_emit *e, const clade_query *q, const char *kernel, const char *T, int64_t rows,
                        int64_t width, const clade_shape *x, int64_t count) {
  const clade__unfold_attrs *a = q->node->attrs;
  if (rows == 0 || width == 0) return;
  int64_t most = CLADE_MAX((1 << 12) / a->kernel, 64); /* fold loops over the kernel for each element */
  int64_t chunk = clade__piece(q->device, width, 64, most), chunks = clade__ceil_div(width, chunk);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", T);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, rows * chunks);
  clade_emit_index(s, chunk);
  clade_emit_index(s, chunks);
  clade_emit_index(s, width);
  clade_emit_index8(s, 7, (int64_t[]){x->dim[1], a->size, count, a->kernel, a->stride, a->dilation, a->pad[0]});
  clade__emit_flat(s, q->device, rows * chunks);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade_shape *y = &n->out[0].shape;
  clade__unfold_emit(e, q, "unfold_forward_ref", clade__raw_name(n->out[0].dtype), clade__product(y, 0, 4),
                     clade__product(y, 4, y->rank), &n->in[0].shape, y->dim[1]);
  return CLADE_OK;
}

/* ---- group: neighboring work-items have neighboring elements of the result ---- */
void clade__unfold_emit_group(clade_emit *e, const clade_query *q, const char *kernel, const char *T, int64_t rows,
                              int64_t width, const clade_shape *x, int64_t count) {
  const clade__unfold_attrs *a = q->node->attrs;
  const int64_t run = width % 4 ? 1 : 4;
  const size_t items = (size_t)(rows * width / run), group = CLADE__GROUP_ITEMS;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", T);
  clade_emit_define(s, "RUN", run);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, rows * width);
  clade_emit_index(s, width);
  clade_emit_index8(s, 7, (int64_t[]){x->dim[1], a->size, count, a->kernel, a->stride, a->dilation, a->pad[0]});
  clade_emit_range(s, 1, &items, &group);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade_shape *y = &n->out[0].shape;
  clade__unfold_emit_group(e, q, "unfold_forward_group", clade__raw_name(n->out[0].dtype), clade__product(y, 0, 4),
                           clade__product(y, 4, y->rank), &n->in[0].shape, y->dim[1]);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .cost = clade__unfold_cost, .emit = group_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = clade__unfold_cost, .emit = emit), NULL};

const clade_op clade__op_unfold = {
    .size = sizeof(clade_op),
    .name = "unfold",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__unfold_attrs),
    .attrs = clade__unfold_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade__unfold(clade_graph *g, clade_val x, const clade__unfold_attrs *window) {
  return clade_node_add(g, &clade__op_unfold, NULL, window, 1, &x, NULL);
}

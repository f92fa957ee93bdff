/* Explicit broadcasting to a shape by NumPy's rules, as `expand` with a copy. With `mean`, each element is also divided
 * by its number of repetitions: the gradient of a mean, whose divisor may still be symbolic when the graph is
 * differentiated. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"
#include "op/reduce/reduce.h"
#include "op/systolic.h"
#include "op/move/view.h"

typedef struct attrs {
  clade_shape shape;
  bool mean;
} attrs;
static const clade_attr table[] = {
    {"shape", CLADE_ATTR_SHAPE, offsetof(attrs, shape), 1}, {"mean", CLADE_ATTR_BOOL, offsetof(attrs, mean), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *at = n->attrs;
  const clade_shape *from = &n->in[0].shape, *to = &at->shape;
  char a[200], b[200];
  CLADE_TRY(clade__want_dense(n));
  if (at->mean) CLADE_TRY(clade__want_float(n, 0, "x"));
  if (to->rank < 0 || to->rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "broadcast: the new shape has more than %d dimensions", CLADE_MAX_RANK);
  for (int i = 0; i < to->rank; i++)
    if (to->dim[i] < 0 && !clade_dim_is_symbol(to->dim[i]))
      return CLADE_FAIL(BAD_SHAPE, "broadcast: dimension %d of the new shape is negative or no size", i);
  if (from->rank > to->rank)
    return CLADE_FAIL(BAD_SHAPE, "broadcast: x is %s and has more dimensions than %s",
                      clade_shape_text(from, a, sizeof a), clade_shape_text(to, b, sizeof b));
  for (int i = 0; i < from->rank; i++) {
    int j = i + to->rank - from->rank;
    if (from->dim[i] != 1 && from->dim[i] != to->dim[j])
      return CLADE_FAIL(BAD_SHAPE,
                        "broadcast: x is %s and cannot become %s: its dimension %d is neither 1 nor that of %s",
                        clade_shape_text(from, a, sizeof a), clade_shape_text(to, b, sizeof b), i, b);
  }
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = *to};
  clade_status status = clade__type_check(&n->out[0], false);
  return status == CLADE_OK ? status : clade__fail_in(status, "broadcast: the new shape");
}

/* The size of a broadcast axis is an attribute, so the axis cannot be pruned. */
static void ties(clade_ties *t, const clade_node *n) {
  const clade_shape *x = &n->in[0].shape, *y = &n->out[0].shape;
  clade__tie_same(t, n);
  for (int i = 0; i < y->rank; i++) {
    const int axis = i - y->rank + x->rank;
    if (axis < 0 || x->dim[axis] != y->dim[i]) clade_keep_axis(t, 1, i);
  }
}

/* Axes along which x is broadcast can be split too. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade_shape *x = &n->in[0].shape, *y = &n->out[0].shape;
  if (((const attrs *)n->attrs)->mean) return;
  for (int i = 0; i < y->rank; i++) {
    const int dim = clade_dims_add(d, CLADE_DIM_EACH), axis = i - y->rank + x->rank;
    if (axis >= 0 && x->dim[axis] == y->dim[i]) clade_dims_along(d, dim, 0, axis, 1);
    clade_dims_along(d, dim, 1, i, 1);
    clade__dims_length(d, dim, offsetof(attrs, shape.dim) + (size_t)i * sizeof(clade_dim), 1);
  }
}

static clade_val add(clade_graph *g, clade_val x, const clade_shape *shape, bool mean) {
  attrs a;
  memset(&a, 0, sizeof a);
  a.mean = mean;
  a.shape.rank = shape->rank;
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++) a.shape.dim[i] = shape->dim[i];
  return clade_node_add(g, &clade__op_broadcast, NULL, &a, 1, &x, NULL);
}

clade_val clade__broadcast_mean(clade_graph *g, clade_val x, const clade_shape *shape) {
  return add(g, x, shape, true);
}

static clade_status grad(clade_grad *g) {
  const attrs *at = g->node->attrs;
  const clade_shape *from = &g->node->in[0].shape, *to = &at->shape;
  if (!at->mean) {
    g->din[0] = clade__sum_to(g->graph, g->dout[0], from);
    return CLADE_OK;
  }
  clade_reduce_opt opt = {.size = sizeof opt, .x = g->dout[0], .keep = true};
  for (int i = 0, shift = to->rank - from->rank; i < to->rank; i++)
    if (i < shift || (from->dim[i - shift] == 1 && to->dim[i] != 1)) opt.axes[opt.n_axes++] = i;
  clade_val dy = opt.n_axes ? clade_mean_(g->graph, &opt) : g->dout[0];
  g->din[0] = clade_reshape(g->graph, dy, *from);
  return CLADE_OK;
}

bool clade__broadcast_view(const clade_node *n, clade__view *v) {
  const clade__view from = *v;
  const int shift = n->out[0].shape.rank - from.shape.rank;
  v->shape = n->out[0].shape;
  for (int i = 0; i < v->shape.rank; i++)
    v->stride[i] = i < shift || from.shape.dim[i - shift] != v->shape.dim[i] ? 0 : from.stride[i - shift];
  return !((const attrs *)n->attrs)->mean;
}

static double cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

typedef clade__repeats walk;
walk clade__broadcast_repeats(const clade_node *n) {
  const clade_shape *from = &n->in[0].shape, *to = &n->out[0].shape;
  walk w = {.total = clade__product(to, 0, to->rank), .divisor = 1};
  if (((const attrs *)n->attrs)->mean && w.total) w.divisor = w.total / clade__product(from, 0, from->rank);
  memcpy(w.dim, to->dim, sizeof w.dim);
  clade__broadcast_strides(from, to, w.stride);
  w.rank = clade__collapse(to->rank, w.dim, 1, (int64_t(*const[])[CLADE_MAX_RANK]){&w.stride});
  return w;
}

static const char *kernel_type(const clade_query *q, const walk *w) {
  const clade_dtype dtype = q->node->out[0].dtype;
  return w->divisor != 1 ? clade_dtype_name(dtype) : clade__raw_name(dtype);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  walk w = clade__broadcast_repeats(q->node);
  clade__emit_strided(e, q, kernel_type(q, &w), w.divisor, w.rank, w.dim, w.stride);
  return CLADE_OK;
}

/* ---- group: four consecutive elements per work-item ---- */
static const char *group_accept(const clade_query *q) { return clade__group_refuses(q, 4); }

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  walk w = clade__broadcast_repeats(q->node);
  clade__emit_strided_fours(e, kernel_type(q, &w), w.divisor, w.rank, w.dim, w.stride);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = cost, .emit = group_emit, .file = "broadcast_group"),
    CLADE__SYSTOLIC(broadcast) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = cost, .emit = emit),
    NULL,
};

const clade_op clade__op_broadcast = {
    .size = sizeof(clade_op),
    .name = "broadcast",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .ties = ties,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade_broadcast(clade_graph *g, clade_val x, clade_shape shape) { return add(g, x, &shape, false); }

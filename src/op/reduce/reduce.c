/* Sum, mean, maximum or minimum over any axes. The error of float sums is at most 2^-22 of the sum of absolute values,
 * for any number of elements, plus the rounding to the stored type. Over no elements: sum 0, mean NaN, maximum the
 * lowest value of the type, minimum the highest. The gradient of a maximum or minimum is divided equally among all
 * elements that attain it. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"
#include "op/reduce/reduce.h"
#include "op/systolic.h"

static const char *const names[] = {"sum", "mean", "reduce_max", "reduce_min"};

static const clade_attr table[] = {{"kind", CLADE_ATTR_I32, offsetof(clade__reduce_attrs, kind), 1},
                                   {"axes", CLADE_ATTR_I32, offsetof(clade__reduce_attrs, axes), 1},
                                   {"keep", CLADE_ATTR_BOOL, offsetof(clade__reduce_attrs, keep), 1},
                                   {"wide", CLADE_ATTR_BOOL, offsetof(clade__reduce_attrs, wide), 1},
                                   {0}};

static clade_shape shape_of(const clade_shape *x, const clade__reduce_attrs *a, bool keep) {
  clade_shape y = {0};
  for (int i = 0; i < x->rank; i++)
    if (!clade__reduces(a, i))
      y.dim[y.rank++] = x->dim[i];
    else if (keep)
      y.dim[y.rank++] = 1;
  return y;
}

static clade_status infer(clade_node *n) {
  const clade__reduce_attrs *a = n->attrs;
  clade_dtype t = n->in[0].dtype;
  int rank = n->in[0].shape.rank;
  CLADE_TRY(clade__want_dense(n));
  if (a->kind < CLADE__REDUCE_SUM || a->kind > CLADE__REDUCE_MIN)
    return CLADE_FAIL(INVALID, "reduce: kind is %d; expected 0 to 3", a->kind);
  if (a->axes < 0 || a->axes >> rank)
    return CLADE_FAIL(INVALID, "%s: axes 0x%x name one out of range for x of rank %d", names[a->kind],
                      (unsigned)a->axes, rank);
  CLADE_TRY(a->kind == CLADE__REDUCE_MEAN ? clade__want_float_type("mean", "x", t)
                                          : clade__want_computed(names[a->kind], "x", t));
  if (a->kind == CLADE__REDUCE_SUM && t == CLADE_BOOL)
    return CLADE_FAIL(DTYPE, "sum: x is bool; cast it to a number first");
  if (a->wide) CLADE_TRY(clade__want_float_type(names[a->kind], "x", t));
  n->out[0] = (clade_type){.dtype = a->wide ? CLADE_F32 : t, .shape = shape_of(&n->in[0].shape, a, a->keep)};
  return CLADE_OK;
}

static void ties(clade_ties *t, const clade_node *n) {
  const clade__reduce_attrs *a = n->attrs;
  for (int i = 0, k = 0; i < n->in[0].shape.rank; i++) {
    if (clade__reduces(a, i))
      clade_keep_axis(t, 0, i);
    else
      clade_tie_axes(t, 0, i, 1, k);
    k += !clade__reduces(a, i) || a->keep;
  }
}

static void dims(clade_dims *d, const clade_node *n) {
  const clade__reduce_attrs *a = n->attrs;
  for (int i = 0, k = 0; i < n->in[0].shape.rank; i++) {
    if (!clade__reduces(a, i))
      clade__dims_axis(d, n, i, k);
    else if (a->kind == CLADE__REDUCE_SUM || a->kind == CLADE__REDUCE_MEAN)
      clade_dims_along(d, clade_dims_add(d, a->kind == CLADE__REDUCE_SUM ? CLADE_DIM_SUM : CLADE_DIM_MEAN), 0, i, 1);
    k += !clade__reduces(a, i) || a->keep;
  }
}

static clade_status grad(clade_grad *g) {
  const clade__reduce_attrs *a = g->node->attrs;
  const clade_type *x = &g->node->in[0];
  clade_shape kept = shape_of(&x->shape, a, true);
  clade_val dy = clade_cast(g->graph, clade_reshape(g->graph, g->dout[0], kept), x->dtype);
  if (a->kind == CLADE__REDUCE_MEAN) {
    g->din[0] = clade__broadcast_mean(g->graph, dy, &x->shape);
  } else if (a->kind == CLADE__REDUCE_SUM) {
    g->din[0] = clade_broadcast(g->graph, dy, x->shape);
  } else {
    clade_val y = clade_cast(g->graph, clade_reshape(g->graph, g->out[0], kept), x->dtype);
    clade_val hit = clade_cast(g->graph, clade_eq(g->graph, g->in[0], y), x->dtype);
    clade_reduce_opt opt = {.size = sizeof opt, .x = hit, .keep = true};
    for (int i = 0; i < x->shape.rank; i++)
      if (clade__reduces(a, i)) opt.axes[opt.n_axes++] = i;
    clade_val share = opt.n_axes ? clade_div(g->graph, dy, clade_sum_(g->graph, &opt)) : dy;
    g->din[0] = clade_mul(g->graph, hit, share);
  }
  return CLADE_OK;
}

clade__runs clade__reduce_runs(const clade_node *n) {
  const clade__reduce_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape;
  clade__runs g = {.outputs = 1, .count = 1};
  int64_t stride[CLADE_MAX_RANK] = {0};
  clade__strides(x, stride);
  for (int k = 0; k < x->rank; k++) { /* with channels last, axis 1 comes behind the others */
    const int i = !n->in[0].layout.block || k == 0 ? k : k + 1 < x->rank ? k + 1 : 1;
    bool r = clade__reduces(a, i);
    *(r ? &g.count : &g.outputs) *= x->dim[i];
    if (x->dim[i] == 1) continue;
    if (g.n == 0 || g.reduced[g.n - 1] != r) {
      g.reduced[g.n] = r;
      g.size[g.n++] = 1;
    }
    g.size[g.n - 1] *= x->dim[i];
    g.stride[g.n - 1] = stride[i];
  }
  return g;
}

/* The result over no elements, which is also the kernel's initial value. */
static void define_empty(clade_kernel_step *s, int kind, clade_dtype t) {
  const bool max = kind == CLADE__REDUCE_MAX;
  const int64_t bound = max ? clade__dtype_low(t) : clade__dtype_high(t);
  if (kind <= CLADE__REDUCE_MEAN)
    clade_emit_define(s, "EMPTY", 0);
  else if (clade__is_float(t))
    clade_emit_define_text(s, "EMPTY", max ? "-INFINITY" : "INFINITY");
  else if (bound == INT64_MIN || bound == INT64_MAX)
    clade_emit_define_text(s, "EMPTY", max ? "LONG_MIN" : "LONG_MAX");
  else if (bound == INT32_MIN || bound == INT32_MAX)
    clade_emit_define_text(s, "EMPTY", max ? "INT_MIN" : "INT_MAX");
  else
    clade_emit_define(s, "EMPTY", bound);
}

int clade__reduce_kind(const clade_query *q) { return ((const clade__reduce_attrs *)q->node->attrs)->kind; }

float clade__reduce_divisor(const clade_query *q, int64_t count) {
  return clade__reduce_kind(q) == CLADE__REDUCE_MEAN ? (float)count : 1.0f;
}

clade_kernel_step *clade__reduce_kernel(clade_emit *e, const clade_query *q, const char *name) {
  const clade__reduce_attrs *a = q->node->attrs;
  clade_dtype t = q->node->in[0].dtype;
  bool f = clade__is_float(t), sum = a->kind <= CLADE__REDUCE_MEAN;
  clade_kernel_step *s = clade_emit_kernel(e, name);
  clade_emit_define_text(s, "T", clade_dtype_name(t));
  clade_emit_define_text(s, "Y", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_define(s, "KIND", sum ? CLADE__REDUCE_SUM : a->kind); /* means use the sum kernel with a divisor */
  clade_emit_define(s, "FLOAT", f);
  clade_emit_define_text(s, "ACC", f ? "float" : t == CLADE_I64 ? (sum ? "ulong" : "long") : sum ? "uint" : "int");
  define_empty(s, a->kind, t);
  return s;
}

/* ---- ref: one work-item per result, any axes ---- */
static double ref_cost(const clade_query *q) {
  clade__runs g = clade__reduce_runs(q->node);
  double parallel = q->device->device_class == CLADE_CPU ? 0.02 : 0.1;
  return clade__cost(q->device, 6.0 * (double)g.outputs * (double)g.count, clade__node_bytes(q->node), parallel);
}

typedef clade__nest nest;
nest clade__reduce_nest(const clade_query *q) {
  clade__runs g = clade__reduce_runs(q->node);
  nest n = {.dim = {1, 1, 1, 1, 1, 1, 1, 1}, .outputs = g.outputs, .count = g.count};
  int kept = 3, reduced = 7;
  for (int i = g.n - 1; i >= 0; i--) {
    int at = g.reduced[i] ? reduced-- : kept--;
    n.dim[at] = g.size[i];
    n.stride[at] = g.stride[i];
  }
  return n;
}

static const char *ref_accept(const clade_query *q) {
  nest n = clade__reduce_nest(q);
  double passes = 0;
  for (int i = 7; i >= 4; i--) passes = (double)n.dim[i] * (passes + 1) + 1;
  return clade__cut_short(q->device, passes);
}

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  nest n = clade__reduce_nest(q);
  clade_kernel_step *s = clade__reduce_kernel(e, q, "reduce_forward_ref");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, n.outputs);
  clade_emit_index8(s, 8, n.dim);
  clade_emit_index8(s, 8, n.stride);
  clade_emit_f32(s, clade__reduce_divisor(q, n.count));
  clade__emit_flat(s, q->device, n.outputs);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "blocked", CLADE__LONG_VEC, .accept = clade__reduce_blocked_accept,
               .layouts = clade__reduce_blocked_layouts, .cost = clade__reduce_split_cost,
               .workspace = clade__reduce_split_workspace, .emit = clade__reduce_split_emit),
    CLADE_IMPL(.name = "split", .family = CLADE_FAMILY_VEC, .accept = clade__reduce_split_accept,
               .cost = clade__reduce_split_cost, .workspace = clade__reduce_split_workspace,
               .emit = clade__reduce_split_emit),
    CLADE_IMPL(CLADE__GROUP, .accept = clade__reduce_group_accept, .cost = clade__reduce_group_cost,
               .workspace = clade__reduce_group_workspace, .emit = clade__reduce_group_emit, .file = "reduce_group"),
    CLADE_IMPL(.name = "group_last", CLADE__TEAMS, .accept = clade__reduce_last_accept,
               .layouts = clade__reduce_last_layouts, .cost = clade__reduce_group_cost,
               .workspace = clade__reduce_group_workspace, .emit = clade__reduce_group_emit, .file = "reduce_group"),
    CLADE__SYSTOLIC(reduce) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};

const clade_op clade__op_reduce = {
    .size = sizeof(clade_op),
    .name = "reduce",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__reduce_attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .ties = ties,
    .dims = dims,
};

static clade_status axes_of(const clade_graph *g, const clade_reduce_opt *opt, int32_t *axes) {
  clade_type type;
  CLADE_TRY(clade_val_type(g, opt->x, &type));
  int rank = type.shape.rank;
  if (opt->n_axes < 0 || opt->n_axes > CLADE_MAX_RANK)
    return CLADE_FAIL(INVALID, ".n_axes is %d; expected 0 to %d", opt->n_axes, CLADE_MAX_RANK);
  *axes = opt->n_axes ? 0 : (1 << rank) - 1;
  for (int i = 0; i < opt->n_axes; i++) {
    int axis = opt->axes[i];
    if (axis < -rank || axis >= rank)
      return CLADE_FAIL(INVALID, ".axes[%d] is %d: out of range for x of rank %d", i, axis, rank);
    if (axis < 0) axis += rank;
    if (*axes >> axis & 1) return CLADE_FAIL(INVALID, ".axes[%d] is %d: axis %d is named twice", i, opt->axes[i], axis);
    *axes |= 1 << axis;
  }
  return CLADE_OK;
}

clade_status clade__reduce_widened(clade_graph *g, const clade__node *n, clade__id x, clade__id *node) {
  clade__reduce_attrs a = *(const clade__reduce_attrs *)n->attrs;
  a.wide = true;
  return clade__node_new(g, n->op, n->name, &a, 1, &x, node);
}

static clade_val build(clade_graph *g, int kind, const clade_reduce_opt *given) {
  clade_reduce_opt opt;
  clade__reduce_attrs a;
  memset(&a, 0, sizeof a);
  a.kind = kind;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, names[kind]);
  if (status == CLADE_OK) status = axes_of(g, &opt, &a.axes);
  if (status != CLADE_OK) return clade__graph_fail(g, status, names[kind]);
  a.keep = opt.keep;
  return clade_node_add(g, &clade__op_reduce, NULL, &a, 1, &opt.x, NULL);
}

clade_val clade_sum_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, CLADE__REDUCE_SUM, opt); }
clade_val clade_mean_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, CLADE__REDUCE_MEAN, opt); }
clade_val clade_reduce_max_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, CLADE__REDUCE_MAX, opt); }
clade_val clade_reduce_min_(clade_graph *g, const clade_reduce_opt *opt) { return build(g, CLADE__REDUCE_MIN, opt); }

/* Gradient of softmax, (dy - sum(dy y)) y, or of log-softmax, dy - sum(dy) exp(y), where y is the result. The error of
 * a sum is at most 2^-20 of the sum of absolute terms, that of exp(y) (4 + |y|) 2^-23 of itself. */
#include "op/norm/softmax.h"

#include <clade/ops.h>

#include "op/group.h"
#include "op/systolic.h"

enum { Y, DY };

static clade_status infer(clade_node *n) {
  const clade__softmax_attrs *a = n->attrs;
  int axis;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__axis("softmax_grad", a->axis, n->in[Y].shape.rank, &axis));
  CLADE_TRY(clade__want_float(n, Y, "y"));
  if (!clade_type_equal(&n->in[Y], &n->in[DY]))
    return CLADE_FAIL(BAD_SHAPE, "softmax_grad: dy does not fit y: expected its type");
  n->out[0] = n->in[Y];
  return CLADE_OK;
}

/* The Jacobian of softmax is symmetric, so the derivative by dy is the same op. */
static clade_status grad(clade_grad *g) {
  const clade__softmax_attrs *a = g->node->attrs;
  clade_graph *to = g->graph;
  clade_val v = g->dout[0], y = g->in[Y], dy = g->in[DY], p = a->log ? clade_exp(to, y) : y, vp = clade_mul(to, v, p);
  clade_val total = clade_sum(to, a->log ? dy : clade_mul(to, dy, p), .n_axes = 1, .axes = {a->axis}, .keep = true);
  clade_val each = clade_sum(to, vp, .n_axes = 1, .axes = {a->axis}, .keep = true);
  if (a->log) {
    g->din[Y] = clade_neg(to, clade_mul(to, vp, total));
    g->din[DY] = clade_sub(to, v, each);
  } else {
    const clade_val in[] = {y, v};
    g->din[Y] = clade_sub(to, clade_mul(to, v, clade_sub(to, dy, total)), clade_mul(to, dy, each));
    g->din[DY] = clade_node_add(to, &clade__op_softmax_grad, NULL, a, 2, in, NULL);
  }
  return CLADE_OK;
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[Y].dtype));
  clade_emit_define(s, "LOG", ((const clade__softmax_attrs *)q->node->attrs)->log);
  clade_emit_in(s, Y);
  clade_emit_in(s, DY);
  clade_emit_out(s, 0);
  clade_emit_index(s, x.outer);
  clade_emit_index(s, x.n);
  return s;
}

static double cost(const clade_query *q, double efficiency) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  double each = ((const clade__softmax_attrs *)q->node->attrs)->log ? 24 : 6;
  double flops = each * (double)x.outer * (double)x.n * (double)x.inner;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), efficiency);
}

/* ---- vec: vectors along rows, or along strips of adjacent lines ---- */
/* Lines per work-item; few where compilers are slow with large arrays. */
static int64_t strip_of(const clade_query *q) { return q->device->max_passes ? CLADE__LANES : 128; }

static const char *vec_accept(const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  if (x.inner > 1 && x.inner < CLADE__LANES) return "fewer adjacent lines than a vector has lanes";
  double each = x.inner % CLADE__LANES ? 20 : 4; /* partial vectors are stored lane by lane */
  return clade__cut_short(q->device, x.inner > 1 ? each * (double)x.n + 20 : (double)x.n / 6 + 128);
}
static double vec_cost(const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  return cost(q, x.inner == 1 && x.n < 16 ? 0.01 : 0.3);
}
static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  if (x.n == 0) return CLADE_OK;
  bool rows = x.inner == 1;
  int64_t piece = rows ? clade__rows(q->device, x.outer, x.n) : strip_of(q);
  clade_kernel_step *s = begin(e, q, rows ? "softmax_grad_rows" : "softmax_grad_lines");
  if (!rows) clade_emit_define(s, "STRIP", piece);
  clade_emit_index(s, rows ? piece : x.inner);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, rows ? clade__ceil_div(x.outer, piece) : x.outer * clade__ceil_div(x.inner, piece));
  return CLADE_OK;
}

/* ---- group: one team of work-items per line ---- */
static const char *group_accept(const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  const clade__group g = clade__group_of(x.n, x.inner);
  return clade__group_refuses(q, 2 * clade__group_turns(&g, x.n));
}
static double group_cost(const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  return clade__group_cost(q, 24.0 * (double)x.outer * (double)x.n * (double)x.inner);
}
static clade_status group_emit(clade_emit *e, const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  if (x.n == 0 || x.inner == 0) return CLADE_OK;
  const clade__group g = clade__group_of(x.n, x.inner);
  clade_kernel_step *s = clade_emit_kernel(e, "softmax_grad_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[Y].dtype));
  clade_emit_define(s, "LOG", ((const clade__softmax_attrs *)q->node->attrs)->log);
  clade_emit_in(s, Y);
  clade_emit_in(s, DY);
  clade_emit_out(s, 0);
  clade_emit_index(s, x.outer * x.inner);
  clade_emit_index(s, x.n);
  clade_emit_index(s, x.inner);
  clade__emit_groups(s, q, &g, x.outer * x.inner);
  return CLADE_OK;
}

/* ---- ref: one work-item per line ---- */
static const char *ref_accept(const clade_query *q) {
  return clade__cut_short(q->device, 2.0 * (double)clade__softmax_extent_of(q).n + 2);
}
static double ref_cost(const clade_query *q) { return cost(q, 0.02); }
static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  clade__softmax_extent x = clade__softmax_extent_of(q);
  if (x.n == 0) return CLADE_OK;
  clade_kernel_step *s = begin(e, q, "softmax_grad_ref");
  clade_emit_index(s, x.inner);
  clade__emit_flat(s, q->device, x.outer * x.inner);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", CLADE__VEC, .accept = vec_accept, .cost = vec_cost, .emit = vec_emit),
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .emit = group_emit, .file = "softmax_group"),
    CLADE__SYSTOLIC(softmax_grad) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};

const clade_op clade__op_softmax_grad = {
    .size = sizeof(clade_op),
    .name = "softmax_grad",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(clade__softmax_attrs),
    .attrs = clade__softmax_table,
    .infer = infer,
    .grad = grad,
    .in_place = clade__dx_in_place,
    .impls = impls,
};

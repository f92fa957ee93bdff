/* Softmax or log-softmax along one axis. The error of a result is at most (16 + max - x) 2^-23 of itself plus 2^-126,
 * that of a logarithm (16 + max - x) 2^-23, plus the rounding to the stored type. A row with NaN or +infinity, or
 * without any finite element, becomes NaN. */
#include "op/norm/softmax.h"

#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"
#include "op/systolic.h"

typedef clade__softmax_attrs attrs;
const clade_attr clade__softmax_table[] = {
    {"axis", CLADE_ATTR_I32, offsetof(attrs, axis), 1}, {"log", CLADE_ATTR_BOOL, offsetof(attrs, log), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  int axis;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__axis("softmax", a->axis, n->in[0].shape.rank, &axis));
  CLADE_TRY(clade__want_float(n, 0, "x"));
  n->out[0] = n->in[0];
  return CLADE_OK;
}

static void dims(clade_dims *d, const clade_node *n) {
  for (int i = 0; i < n->in[0].shape.rank; i++)
    if (i != ((const attrs *)n->attrs)->axis) clade__dims_axis(d, n, i, i);
}

static void ties(clade_ties *t, const clade_node *n) {
  clade__tie_same(t, n);
  clade_keep_axis(t, 0, ((const attrs *)n->attrs)->axis);
}

static clade_status grad(clade_grad *g) {
  const clade_val in[] = {g->out[0], g->dout[0]};
  g->din[0] = clade_node_add(g->graph, &clade__op_softmax_grad, NULL, g->node->attrs, 2, in, NULL);
  return CLADE_OK;
}

typedef clade__softmax_extent extent;
extent clade__softmax_extent_of(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  int axis = ((const attrs *)q->node->attrs)->axis;
  return (extent){clade__product(x, 0, axis), x->dim[axis], clade__product(x, axis + 1, x->rank)};
}

static double work(const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  return 40.0 * (double)x.outer * (double)x.n * (double)x.inner;
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel) {
  extent x = clade__softmax_extent_of(q);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_define(s, "LOG", ((const attrs *)q->node->attrs)->log);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, x.outer);
  clade_emit_index(s, x.n);
  return s;
}

static double cost(const clade_query *q, double efficiency) {
  return clade__cost(q->device, work(q), clade__node_bytes(q->node), efficiency);
}

enum { SHORT = 32 }; /* longest rows that are transposed in registers */

/* ---- vec: vectors along one row ---- */
static const char *vec_accept(const clade_query *q) {
  if (clade__softmax_extent_of(q).inner != 1) return "the axis is not the last one";
  return clade__cut_short(q->device, (double)clade__softmax_extent_of(q).n / 4 + 128);
}
static double vec_cost(const clade_query *q) {
  int64_t n = clade__softmax_extent_of(q).n;
  return cost(q, n < CLADE__LANES ? 0.02 : n <= SHORT ? 0.2 : 0.4);
}
static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  if (x.n == 0) return CLADE_OK;
  int64_t piece = clade__rows(q->device, x.outer, x.n);
  clade_kernel_step *s = begin(e, q, "softmax_forward_vec");
  /* elements kept between passes; compilers for devices with a loop limit are slow with large arrays */
  clade_emit_define(s, "KEPT", q->device->max_passes ? 0 : 4096);
  clade_emit_index(s, piece);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(x.outer, piece));
  return CLADE_OK;
}

/* ---- rows: sixteen short rows at once ---- */
static const char *rows_accept(const clade_query *q) {
  if (clade__softmax_extent_of(q).inner != 1) return "the axis is not the last one";
  return clade__softmax_extent_of(q).n > SHORT ? "the rows are longer than 32 elements" : NULL;
}
static double rows_cost(const clade_query *q) { return cost(q, 0.3); }
static clade_status rows_emit(clade_emit *e, const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  if (x.n == 0) return CLADE_OK;
  int64_t piece = clade__up(clade__rows(q->device, x.outer, x.n), CLADE__LANES);
  clade_kernel_step *s = begin(e, q, "softmax_forward_rows");
  clade_emit_define(s, "MOST", SHORT);
  clade_emit_index(s, piece);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(x.outer, piece));
  return CLADE_OK;
}

/* ---- lines: sixteen adjacent lines at once, in strips ---- */
enum { NEAR = 1 << 14, KEPT = 1 << 16, STRIP = 1024, LONG_STRIP = 128, LEAST = 64 };

/* Width of a strip. If possible two strips, or at least one, fit into the L2 cache and are wide enough for whole cache
 * lines; otherwise each pass reads the strip from memory. */
static int64_t strip_of(const clade_query *q, bool *kept) {
  extent x = clade__softmax_extent_of(q);
  int64_t most = q->device->max_passes || x.inner < CLADE__LANES ? CLADE__LANES : STRIP;
  int64_t strip = CLADE_MAX(NEAR / x.n, CLADE_MIN(KEPT / x.n, LEAST)) / CLADE__LANES * CLADE__LANES;
  *kept = strip && !q->device->max_passes;
  return CLADE_MIN(strip ? strip : LONG_STRIP, CLADE_MIN(most, clade__up(x.inner, CLADE__LANES)));
}

static const char *lines_accept(const clade_query *q) {
  double each = clade__softmax_extent_of(q).inner % CLADE__LANES ? 24 : 8; /* partial vectors are stored lane by lane */
  return clade__cut_short(q->device, each * (double)clade__softmax_extent_of(q).n + 128);
}
static double lines_cost(const clade_query *q) {
  return cost(q, clade__softmax_extent_of(q).inner < CLADE__LANES ? 0.1 : 0.3);
}
static clade_status lines_emit(clade_emit *e, const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  if (x.n == 0 || x.inner == 0) return CLADE_OK;
  bool apart = x.inner < CLADE__LANES, kept;
  int64_t strip = strip_of(q, &kept);
  int64_t strips = apart ? clade__ceil_div(x.outer * x.inner, strip) : x.outer * clade__ceil_div(x.inner, strip);
  int64_t shares = 16 * (int64_t)CLADE_MAX(q->device->compute_units, 1u);
  const bool near = x.n * strip <= NEAR && !q->device->max_passes; /* otherwise the cache would not hold two strips */
  int64_t piece = near ? CLADE_MAX(strips / shares, 1) : 1;
  clade_kernel_step *s = begin(e, q, "softmax_forward_lines");
  clade_emit_define(s, "KEPT", kept ? KEPT : 0);
  clade_emit_define(s, "STRIP", apart || q->device->max_passes ? CLADE__LANES : STRIP);
  clade_emit_define(s, "FEW_BESIDE", apart);
  clade_emit_index(s, x.inner);
  clade_emit_index(s, strip);
  clade_emit_index(s, piece);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(strips, piece));
  return CLADE_OK;
}

/* ---- group: one team of work-items per line ---- */
static const char *group_accept(const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  const clade__group g = clade__group_of(x.n, x.inner);
  return clade__group_refuses(q, 3 * clade__group_turns(&g, x.n));
}
static double group_cost(const clade_query *q) { return clade__group_cost(q, work(q)); }
static clade_status group_emit(clade_emit *e, const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  if (x.n == 0 || x.inner == 0) return CLADE_OK;
  const clade__group g = clade__group_of(x.n, x.inner);
  clade_kernel_step *s = clade_emit_kernel(e, "softmax_forward_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_define(s, "LOG", ((const attrs *)q->node->attrs)->log);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, x.outer * x.inner);
  clade_emit_index(s, x.n);
  clade_emit_index(s, x.inner);
  clade__emit_groups(s, q, &g, x.outer * x.inner);
  return CLADE_OK;
}

/* ---- ref: one work-item per line ---- */
static const char *ref_accept(const clade_query *q) {
  return clade__cut_short(q->device, 3.0 * (double)clade__softmax_extent_of(q).n + 3);
}
static double ref_cost(const clade_query *q) { return cost(q, 0.03); }
static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  extent x = clade__softmax_extent_of(q);
  if (x.n == 0) return CLADE_OK;
  clade_kernel_step *s = begin(e, q, "softmax_forward_ref");
  clade_emit_index(s, x.inner);
  clade__emit_flat(s, q->device, x.outer * x.inner);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", CLADE__VEC, .accept = vec_accept, .cost = vec_cost, .emit = vec_emit),
    CLADE_IMPL(.name = "rows", CLADE__LONG_VEC, .accept = rows_accept, .cost = rows_cost, .emit = rows_emit),
    CLADE_IMPL(.name = "lines", CLADE__VEC, .accept = lines_accept, .cost = lines_cost, .emit = lines_emit),
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .emit = group_emit, .file = "softmax_group"),
    CLADE__SYSTOLIC(softmax) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};

/* In-place execution is allowed: the kernels read a whole row before they write it. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)n, (void)out;
  return 1;
}

const clade_op clade__op_softmax = {
    .size = sizeof(clade_op),
    .name = "softmax",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = clade__softmax_table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .ties = ties,
    .dims = dims,
};

static clade_val build(clade_graph *g, clade_val x, int axis, bool log) {
  clade_type type;
  attrs a;
  memset(&a, 0, sizeof a); /* attributes are compared and hashed bytewise, padding included */
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK) status = clade__axis("x", axis, type.shape.rank, &axis);
  if (status != CLADE_OK) return clade__graph_fail(g, status, log ? "log_softmax" : "softmax");
  a.axis = axis;
  a.log = log;
  return clade_node_add(g, &clade__op_softmax, NULL, &a, 1, &x, NULL);
}

clade_val clade_softmax(clade_graph *g, clade_val x, int axis) { return build(g, x, axis, false); }
clade_val clade_log_softmax(clade_graph *g, clade_val x, int axis) { return build(g, x, axis, true); }

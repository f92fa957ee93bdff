/* Layer, group, instance and RMS normalization: normalizes each row (the last axes, or a group of channels) by its mean
 * and variance, or by its mean square alone. Two passes over a row avoid cancellation. Error bounds: mean, 2^-17 of the
 * standard deviation plus 2^-22 of the mean of absolute values; variance, 2^-17 of itself. */
#include "ir/dimensions.h"
#include "op/norm/layer_norm.h"

#include <clade/nn.h>

#include <inttypes.h>

#include "op/group.h"

const clade_attr clade__norm_table[] = {{"n_axes", CLADE_ATTR_I32, offsetof(clade__norm_attrs, n_axes), 1},
                                        {"groups", CLADE_ATTR_I32, offsetof(clade__norm_attrs, groups), 1},
                                        {"rms", CLADE_ATTR_BOOL, offsetof(clade__norm_attrs, rms), 1},
                                        {"eps", CLADE_ATTR_F32, offsetof(clade__norm_attrs, eps), 1},
                                        {0}};

enum { X, WEIGHT, BIAS }; /* operands */
enum { Y, MEAN, RSTD };   /* results; RSTD is 1 / sqrt(variance + eps) */

const char *clade__norm_name(const clade__norm_attrs *a) {
  return a->groups ? "group_norm" : a->rms ? "rms_norm" : "layer_norm";
}

static clade_status check_groups(const clade__norm_attrs *a, const clade_shape *x) {
  char text[200];
  if (x->rank < 2)
    return CLADE_FAIL(BAD_SHAPE, "group_norm: x is %s; expected [samples, channels, ...]",
                      clade_shape_text(x, text, sizeof text));
  clade_dim channels = x->dim[1];
  if (a->groups >= 1 && (clade_dim_is_symbol(channels) || channels % a->groups == 0)) return CLADE_OK;
  return CLADE_FAIL(INVALID, "group_norm: groups is %d; expected a divisor of the channels (axis 1) of x, %s",
                    a->groups, clade_shape_text(x, text, sizeof text));
}

clade_status clade__norm_shapes(const clade__norm_attrs *a, const clade_shape *x, clade_shape *weight,
                                clade_shape *rows) {
  if (!(a->eps >= 0))
    return CLADE_FAIL(INVALID, "%s: eps is %g; expected 0 or more", clade__norm_name(a), (double)a->eps);
  if (a->groups) {
    CLADE_TRY(check_groups(a, x));
    *weight = CLADE_SHAPE(x->dim[1]);
    *rows = CLADE_SHAPE(x->dim[0], a->groups);
    return CLADE_OK;
  }
  if (a->n_axes < 1 || a->n_axes > x->rank)
    return CLADE_FAIL(INVALID, "%s: n_axes is %d; expected 1 to %d, the rank of x", clade__norm_name(a), a->n_axes,
                      x->rank);
  *weight = (clade_shape){.rank = a->n_axes};
  *rows = (clade_shape){.rank = x->rank - a->n_axes};
  for (int i = 0; i < x->rank; i++) *(i < rows->rank ? &rows->dim[i] : &weight->dim[i - rows->rank]) = x->dim[i];
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  const clade__norm_attrs *a = n->attrs;
  static const char *const names[] = {"x", "weight", "bias"};
  clade_shape row, rows;
  char text[2][200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, X, "x"));
  CLADE_TRY(clade__norm_shapes(a, &n->in[X].shape, &row, &rows));
  for (int i = WEIGHT; i <= BIAS; i++) {
    const clade_type *t = &n->in[i];
    if (t->dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "%s: %s is %s; expected f32", clade__norm_name(a), names[i], clade_dtype_name(t->dtype));
    if (!clade_shape_equal(&t->shape, &row))
      return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s; expected the %s of x, %s", clade__norm_name(a), names[i],
                        clade_shape_text(&t->shape, text[0], sizeof text[0]),
                        a->groups ? "channels (axis 1)" : "last dimensions",
                        clade_shape_text(&row, text[1], sizeof text[1]));
  }
  n->out[Y] = n->in[X];
  n->out[MEAN] = n->out[RSTD] = (clade_type){.dtype = CLADE_F32, .shape = rows};
  return CLADE_OK;
}

/* All axes outside of a row can be split; with groups, the samples and the groups. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade__norm_attrs *a = n->attrs;
  const clade_shape *x = &n->in[X].shape;
  for (int i = 0; i < (a->groups ? 1 : x->rank - a->n_axes); i++) {
    const int dim = clade__dims_axis(d, n, i, i);
    for (int k = MEAN; k <= RSTD; k++) clade_dims_along(d, dim, n->n_in + k, i, 1);
  }
  if (!a->groups || x->dim[1] == 0) return;
  const int dim = clade_dims_add(d, CLADE_DIM_EACH);
  const int64_t channels = x->dim[1] / a->groups;
  for (int k = X; k <= BIAS; k++) clade_dims_along(d, dim, k, k == X, channels);
  clade_dims_along(d, dim, n->n_in + Y, 1, channels);
  for (int k = MEAN; k <= RSTD; k++) clade_dims_along(d, dim, n->n_in + k, 1, 1);
  clade__dims_length(d, dim, offsetof(clade__norm_attrs, groups), 1);
}

static clade_status grad(clade_grad *g) {
  clade_val in[] = {g->in[X], g->dout[Y], g->in[WEIGHT], g->out[MEAN], g->out[RSTD]}, out[3];
  clade_node_add(g->graph, &clade__op_layer_norm_grad, NULL, g->node->attrs, 5, in, out);
  for (int i = X; i <= BIAS; i++) g->din[i] = out[i];
  return CLADE_OK;
}

clade__norm_rows clade__norm_rows_of(const clade_query *q) {
  const clade__norm_attrs *a = q->node->attrs;
  const clade_shape *x = &q->node->in[X].shape;
  int first = x->rank - a->n_axes;
  if (!a->groups) return (clade__norm_rows){clade__product(x, 0, first), clade__product(x, first, x->rank), 1, 1};
  int64_t inner = clade__product(x, 2, x->rank), channels = x->dim[1] / a->groups;
  return (clade__norm_rows){x->dim[0] * a->groups, channels * inner, CLADE_MAX(inner, 1), a->groups};
}

double clade__norm_passes(const clade__norm_rows *r) {
  double runs = r->inner > 1 ? (double)r->n / (double)r->inner : 1;
  return (double)r->n / 16 + (double)r->n / 1024 + 18 * runs;
}

static const char *accept(const clade_query *q) {
  clade__norm_rows r = clade__norm_rows_of(q);
  return clade__cut_short(q->device, 3 * clade__norm_passes(&r) + 64);
}

static double cost(const clade_query *q) {
  clade__norm_rows r = clade__norm_rows_of(q);
  return clade__cost(q->device, 10.0 * (double)r.rows * (double)r.n, 2 * clade__node_bytes(q->node), 0.3);
}

/* True if reading the next row would evict a row from the L2 cache before its second pass, but L2 can hold one row in a
 * window buffer (layer_norm.cl). */
static bool by_window(const clade_query *q, const clade__norm_rows *r) {
  enum { FEWEST = 8 };
  const clade_type *x = &q->node->in[X];
  const int64_t row = r->n * (int64_t)sizeof(float), cache = clade__second_cache(q->device);
  const int64_t units = CLADE_MAX(q->device->compute_units, 1u);
  return clade__streams(q->device, x) && x->dtype == CLADE_F32 && r->inner > 1 && r->inner % CLADE__LANES == 0 &&
         3 * row > cache && 4 * row <= 3 * cache && r->rows >= FEWEST * units;
}

/* Rows per work-item. On CPUs more than one if all cores stay busy, so that reading one row overlaps with writing
 * another. */
static int64_t rows_of(const clade_query *q, const clade__norm_rows *r) {
  enum { FEW = 16, ELEMENTS = 1 << 16 };
  const int64_t units = CLADE_MAX(q->device->compute_units, 1u), share = r->rows / (4 * units);
  if (by_window(q, r)) return clade__ceil_div(r->rows, units);
  bool cpu = q->device->device_class == CLADE_CPU && !q->device->max_passes;
  return cpu ? CLADE_MAX(CLADE_MIN(share, CLADE_MAX(FEW, ELEMENTS / CLADE_MAX(r->n, 1))), 1) : 1;
}

static size_t workspace(const clade_query *q) {
  const clade__norm_rows r = clade__norm_rows_of(q);
  if (!by_window(q, &r)) return 0;
  const int64_t piece = rows_of(q, &r);
  return (size_t)(clade__ceil_div(r.rows, piece) * r.n) * sizeof(float);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__norm_attrs *a = q->node->attrs;
  clade__norm_rows r = clade__norm_rows_of(q);
  const bool window = by_window(q, &r);
  int64_t piece = rows_of(q, &r);
  clade_kernel_step *s = clade_emit_kernel(e, window ? "layer_norm_forward_window" : "layer_norm_forward_ref");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= BIAS; i++) clade_emit_in(s, i);
  for (int i = Y; i <= RSTD; i++) clade_emit_out(s, i);
  clade_emit_index(s, r.rows);
  clade_emit_index(s, r.n);
  clade_emit_index(s, r.inner);
  clade_emit_index(s, r.period);
  clade_emit_index(s, piece);
  clade_emit_i32(s, a->rms);
  clade_emit_f32(s, a->eps);
  if (window)
    clade_emit_workspace(s, 0, sizeof(float));
  else
    clade_emit_i32(s, clade__streams(q->device, &q->node->out[Y]));
  clade__emit_flat(s, q->device, clade__ceil_div(r.rows, piece));
  return CLADE_OK;
}

/* ---- group: one team of work-items per row ---- */
static const char *group_accept(const clade_query *q) {
  const clade__norm_rows r = clade__norm_rows_of(q);
  const clade__group g = clade__group_of(r.n, 1);
  return clade__group_refuses(q, 3 * clade__group_turns(&g, r.n));
}

static double group_cost(const clade_query *q) {
  clade__norm_rows r = clade__norm_rows_of(q);
  return clade__group_cost(q, 10.0 * (double)r.rows * (double)r.n);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade__norm_attrs *a = q->node->attrs;
  const clade__norm_rows r = clade__norm_rows_of(q);
  const clade__group g = clade__group_of(r.n, 1);
  clade_kernel_step *s = clade_emit_kernel(e, "layer_norm_forward_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_define(s, "RUNS", a->groups > 0);
  for (int i = X; i <= BIAS; i++) clade_emit_in(s, i);
  for (int i = Y; i <= RSTD; i++) clade_emit_out(s, i);
  clade_emit_index(s, r.rows);
  clade_emit_index(s, r.n);
  clade_emit_index(s, r.inner);
  clade_emit_index(s, r.period);
  clade_emit_i32(s, a->rms);
  clade_emit_f32(s, a->eps);
  clade__emit_groups(s, q, &g, r.rows);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost,
                                                     .emit = group_emit, .file = "layer_norm_group"),
                                          CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept,
                                                     .cost = cost, .workspace = workspace, .emit = emit),
                                          NULL};

/* In-place execution is allowed: each element is read before it is overwritten. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)n;
  return out == Y ? 1u << X : 0;
}

const clade_op clade__op_layer_norm = {
    .size = sizeof(clade_op),
    .name = "layer_norm",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .attr_bytes = sizeof(clade__norm_attrs),
    .attrs = clade__norm_table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .carries = 1, /* x */
    .dims = dims,
};

/* ---- builders ---- */
static bool is_none(clade_val v) { return !v.graph && !v.id; }

/* A missing weight is replaced by ones, a missing bias by zeros. */
static clade_val build(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int n_axes, int groups, bool rms,
                       double eps) {
  clade__norm_attrs a;
  clade_type type;
  clade_shape row, rows;
  clade_val out[3];
  memset(&a, 0, sizeof a); /* attributes are compared and hashed bytewise, padding included */
  a.n_axes = n_axes;
  a.groups = groups;
  a.rms = rms;
  a.eps = (float)eps;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, x, &type);
  if (status != CLADE_OK) clade__fail_in(status, "%s: x", clade__norm_name(&a));
  if (status == CLADE_OK) status = clade__norm_shapes(&a, &type.shape, &row, &rows);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  if (is_none(weight)) weight = clade_fill(g, CLADE_F32, row, 1);
  if (is_none(bias)) bias = clade_fill(g, CLADE_F32, row, 0);
  return clade_node_add(g, &clade__op_layer_norm, NULL, &a, 3, (clade_val[]){x, weight, bias}, out);
}

clade_val clade_layer_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int n_axes, double eps) {
  return build(g, x, weight, bias, n_axes, 0, false, eps);
}

clade_val clade_rms_norm(clade_graph *g, clade_val x, clade_val weight, int n_axes, double eps) {
  return build(g, x, weight, (clade_val){0}, n_axes, 0, true, eps);
}

clade_val clade_group_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, int groups, double eps) {
  if (clade__graph_ok(g) && groups < 1)
    return clade__graph_fail(
        g, CLADE_FAIL(INVALID, "group_norm: groups is %d; expected a divisor of the channels (axis 1) of x", groups),
        NULL);
  return build(g, x, weight, bias, 0, groups, false, eps);
}

clade_val clade_instance_norm(clade_graph *g, clade_val x, clade_val weight, clade_val bias, double eps) {
  clade_type type;
  char text[200];
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, x, &type);
  if (status != CLADE_OK) clade__fail_in(status, "instance_norm: x");
  if (status == CLADE_OK && (type.shape.rank < 2 || type.shape.dim[1] < 1 || type.shape.dim[1] > INT32_MAX))
    status = CLADE_FAIL(BAD_SHAPE,
                        "instance_norm: x is %s; expected [samples, channels, ...] with 1 to %" PRId32 " channels",
                        clade_shape_text(&type.shape, text, sizeof text), INT32_MAX);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  return build(g, x, weight, bias, 0, (int)type.shape.dim[1], false, eps);
}

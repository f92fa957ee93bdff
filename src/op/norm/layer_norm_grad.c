/* Gradients of layer, group, instance and RMS normalization with respect to input, weight and bias. The error of a sum
 * is at most 2^-17 of the sum of absolute terms. */
#include "op/norm/layer_norm.h"

#include "op/group.h"

enum { X, DY, WEIGHT, MEAN, RSTD };
/* Rows (or samples of a channel) whose contributions to the weight's gradient are added by one work-item. */
enum { ROWS = 64, MOST_CHUNKS = 256, FEWEST_CHUNKS = 16 };

static clade_status infer(clade_node *n) {
  static const char *const names[] = {"x", "dy", "weight", "mean", "rstd"};
  clade_shape want[RSTD + 1];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, X, "x"));
  CLADE_TRY(clade__norm_shapes(n->attrs, &n->in[X].shape, &want[WEIGHT], &want[RSTD]));
  want[MEAN] = want[RSTD];
  bool fits = clade_type_equal(&n->in[X], &n->in[DY]);
  for (int i = WEIGHT; i <= RSTD; i++) {
    if (n->in[i].dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "layer_norm_grad: %s is %s; expected f32", names[i], clade_dtype_name(n->in[i].dtype));
    fits = fits && clade_shape_equal(&n->in[i].shape, &want[i]);
  }
  if (!fits)
    return CLADE_FAIL(BAD_SHAPE,
                      "layer_norm_grad: dy, weight, mean and rstd do not fit x: expected its type, one weight "
                      "for each element of a row or each channel, and one number for each row");
  n->out[0] = n->in[X];
  n->out[1] = n->out[2] = n->in[WEIGHT];
  return CLADE_OK;
}

/* Sums for the gradients of weight and bias: `slices` contributions of `width` parameters each, in `chunks` partial
 * sums. If `whole`, the kernel of the input's gradient computes them as well, per row of groups or chunk of rows;
 * otherwise a separate launch does, in strips of columns. */
typedef struct plan {
  clade__norm_rows row;
  int64_t slices, width, strip, chunk, chunks; /* strip: columns per work-item */
  bool groups, whole;
} plan;
/* Depends only on shapes and device class, so that sums are the same for any number of compute units. */
static plan plan_for(const clade_query *q, bool cpu) {
  const clade_shape *x = &q->node->in[X].shape, *weight = &q->node->in[WEIGHT].shape;
  plan p = {.row = clade__norm_rows_of(q), .groups = ((const clade__norm_attrs *)q->node->attrs)->groups};
  p.width = clade__product(weight, 0, weight->rank);
  p.slices = p.groups ? x->dim[0] : p.row.rows;
  /* the workspace, two floats per column and chunk, is then at most about half the size of x */
  p.whole = cpu && p.slices > 0 && p.row.n > 0 && (p.groups ? p.row.inner >= 16 : p.slices >= 4 * FEWEST_CHUNKS);
  p.strip = q->device->max_passes ? CLADE__LANES : 1024; /* limited, since some compilers are slow with large arrays */
  p.chunk = p.groups ? 1 : p.whole ? CLADE_MIN(p.slices / FEWEST_CHUNKS, ROWS) : ROWS;
  while (p.chunk < p.slices / MOST_CHUNKS && !(p.whole && p.groups)) p.chunk *= 2;
  p.chunks = CLADE_MAX(clade__ceil_div(p.slices, p.chunk), 1);
  return p;
}

static plan plan_of(const clade_query *q) {
  return plan_for(q, q->device->device_class == CLADE_CPU && !q->device->max_passes);
}

static const char *accept(const clade_query *q) {
  plan p = plan_of(q);
  double run = (double)p.row.inner / 16 + (double)p.row.inner / 1024 + 18;
  double sums = p.groups ? (double)p.chunk * run : (double)p.chunk * ((double)p.strip / 16 + 18) + 4 * (double)p.strip;
  double most = CLADE_MAX(sums, 34.0 * (double)p.chunks) + 16;
  return clade__cut_short(q->device, CLADE_MAX(2 * clade__norm_passes(&p.row) + 64, most));
}

static double cost(const clade_query *q) {
  plan p = plan_of(q);
  return clade__cost(q->device, 16.0 * (double)p.row.rows * (double)p.row.n, 2 * clade__node_bytes(q->node), 0.3);
}

static size_t workspace(const clade_query *q) {
  plan p = plan_of(q);
  return (size_t)(p.chunks * p.width) * 2 * sizeof(float);
}

static void emit_sums(clade_emit *e, const clade_query *q, const plan *p) {
  int64_t items = p->groups ? p->width : clade__ceil_div(p->width, p->strip);
  clade_kernel_step *s = clade_emit_kernel(e, p->groups ? "layer_norm_grad_runs" : "layer_norm_grad_sums");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  if (!p->groups) clade_emit_define(s, "WIDE", p->strip);
  clade_emit_in(s, X);
  clade_emit_in(s, DY);
  clade_emit_in(s, MEAN);
  clade_emit_in(s, RSTD);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, p->slices);
  clade_emit_index(s, p->width);
  clade_emit_index(s, p->chunk);
  clade_emit_index(s, p->chunks);
  if (p->groups) {
    clade_emit_index(s, p->row.n ? p->row.inner : 0);
    clade_emit_index(s, p->row.period);
  }
  clade__emit_flat(s, q->device, items * p->chunks);
}

/* Rows of groups per work-item, where summing one overlaps with writing the one before. 0 unless the data exceeds the
 * caches, and the L2 cache holds one row of x and dy. */
static int64_t together(const clade_query *q, const plan *p) {
  const clade_type *x = &q->node->in[X];
  const clade__norm_attrs *a = q->node->attrs;
  int64_t row = p->row.n * (int64_t)clade__element_bytes(x->dtype);
  bool lines = p->whole && p->groups && !a->rms && p->row.inner % 32 == 0 && clade__streams(q->device, x);
  const int64_t units = CLADE_MAX(q->device->compute_units, 1u), share = p->row.rows / (4 * units);
  return lines && share > 1 && 2 * row <= clade__second_cache(q->device) ? CLADE_MIN(share, 16) : 0;
}

static void emit_rows(clade_emit *e, const clade_query *q, const plan *p) {
  int64_t some = together(q, p), chunk = some ? some : p->whole ? p->chunk : 1, rows = p->row.n ? p->row.rows : 0;
  clade_kernel_step *s = clade_emit_kernel(e, some ? "layer_norm_grad_groups" : "layer_norm_grad_rows");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= RSTD; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, rows);
  clade_emit_index(s, p->row.n);
  clade_emit_index(s, p->row.inner);
  clade_emit_index(s, p->row.period);
  clade_emit_index(s, chunk);
  clade_emit_index(s, p->chunks);
  if (!some) {
    clade_emit_i32(s, ((const clade__norm_attrs *)q->node->attrs)->rms);
    clade_emit_i32(s, p->whole);
    clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  }
  clade__emit_flat(s, q->device, clade__ceil_div(rows, chunk));
}

static void emit_join(clade_emit *e, const clade_query *q, const plan *p) {
  clade_kernel_step *s = clade_emit_kernel(e, "layer_norm_grad_join");
  if (s) s->file = "layer_norm_grad";
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 1);
  clade_emit_out(s, 2);
  clade_emit_index(s, p->width);
  clade_emit_index(s, p->chunks);
  clade__emit_flat(s, q->device, clade__ceil_div(p->width, CLADE__LANES));
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  plan p = plan_of(q);
  if (p.width == 0) return CLADE_OK;
  if (!p.whole) emit_sums(e, q, &p);
  emit_rows(e, q, &p);
  emit_join(e, q, &p);
  return CLADE_OK;
}

/* ---- group: one team of work-items per row, and per chunk of a column or channel ---- */
static const char *group_accept(const clade_query *q) {
  const plan p = plan_for(q, false);
  const clade__group rows = clade__group_of(p.row.n, 1), runs = clade__group_of(p.row.inner, 1);
  const double each = p.groups ? clade__group_turns(&runs, p.row.inner) : 1, join = 34.0 * (double)p.chunks;
  const double most = CLADE_MAX(2 * clade__group_turns(&rows, p.row.n), (double)p.chunk * each);
  return clade__group_refuses(q, CLADE_MAX(most, join));
}

static double group_cost(const clade_query *q) {
  const clade__norm_rows r = clade__norm_rows_of(q);
  return clade__group_cost(q, 16.0 * (double)r.rows * (double)r.n);
}

static size_t group_workspace(const clade_query *q) {
  const plan p = plan_for(q, false);
  return (size_t)(p.chunks * p.width) * 2 * sizeof(float);
}

static clade_kernel_step *group_step(clade_emit *e, const clade_query *q, const char *kernel) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_define(s, "RUNS", ((const clade__norm_attrs *)q->node->attrs)->groups > 0);
  clade_emit_in(s, X);
  clade_emit_in(s, DY);
  return s;
}

/* Runs before the input's gradient, which may overwrite x or dy. */
static void group_sums(clade_emit *e, const clade_query *q, const plan *p) {
  const int64_t inner = p->row.n ? p->row.inner : 0;
  /* adjacent columns, so teams are spread even if there are few */
  const clade__group g = p->groups ? clade__group_of(inner, 1) : clade__group_of(p->chunk, CLADE_MAX(p->width, 2));
  clade_kernel_step *s = group_step(e, q, p->groups ? "layer_norm_grad_group_runs" : "layer_norm_grad_group_sums");
  clade_emit_in(s, MEAN);
  clade_emit_in(s, RSTD);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, p->slices);
  clade_emit_index(s, p->width);
  clade_emit_index(s, p->chunk);
  clade_emit_index(s, p->chunks);
  if (p->groups) clade_emit_index(s, inner);
  if (p->groups) clade_emit_index(s, p->row.period);
  clade__emit_groups(s, q, &g, p->width * p->chunks);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const plan p = plan_for(q, false);
  const clade__group g = clade__group_of(p.row.n, 1);
  if (p.width == 0) return CLADE_OK;
  group_sums(e, q, &p);
  clade_kernel_step *s = group_step(e, q, "layer_norm_grad_group");
  for (int i = WEIGHT; i <= RSTD; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, p.row.rows);
  clade_emit_index(s, p.row.n);
  clade_emit_index(s, p.row.inner);
  clade_emit_index(s, p.row.period);
  clade_emit_i32(s, ((const clade__norm_attrs *)q->node->attrs)->rms);
  clade__emit_groups(s, q, &g, p.row.n ? p.row.rows : 0);
  emit_join(e, q, &p);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost,
                                                     .workspace = group_workspace, .emit = group_emit,
                                                     .file = "layer_norm_group"),
                                          CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept,
                                                     .cost = cost, .workspace = workspace, .emit = emit),
                                          NULL};

const clade_op clade__op_layer_norm_grad = {
    .size = sizeof(clade_op),
    .name = "layer_norm_grad",
    .min_in = 5,
    .max_in = 5,
    .n_out = 3,
    .attr_bytes = sizeof(clade__norm_attrs),
    .attrs = clade__norm_table,
    .infer = infer,
    .in_place = clade__dx_in_place,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .carries = 3, /* x and dy */
};

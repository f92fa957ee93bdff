/* Softmax cross-entropy of logits and class labels, with label smoothing and an ignored label
 * (`torch.nn.CrossEntropyLoss`). A row whose label is no class has a loss of NaN. The error of a row's loss is at most
 * (20 + range of its logits) 2^-23 of itself plus 2^-21 of the difference between its largest logit and the target's;
 * the mean adds 2^-22. The op also returns what its gradient needs: per row, the largest logit and the sum of exp(x -
 * largest) over the others, and the number of labels that are not ignored. */
#include "ir/dimensions.h"
#include "op/loss/cross_entropy.h"
#include "op/group.h"
#include "op/systolic.h"

#include <inttypes.h>

const clade_attr clade__cross_entropy_table[] = {
    {"smoothing", CLADE_ATTR_F32, offsetof(clade__cross_entropy_attrs, smoothing), 1},
    {"ignore", CLADE_ATTR_BOOL, offsetof(clade__cross_entropy_attrs, ignore), 1},
    {"ignore_index", CLADE_ATTR_I32, offsetof(clade__cross_entropy_attrs, ignore_index), 1},
    {"per_sample", CLADE_ATTR_BOOL, offsetof(clade__cross_entropy_attrs, per_sample), 1},
    {0}};

static clade_status infer(clade_node *n) {
  const clade__cross_entropy_attrs *a = n->attrs;
  clade_shape rows;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_labels(n, &rows));
  if (!(a->smoothing >= 0 && a->smoothing <= 1))
    return CLADE_FAIL(INVALID, "cross_entropy: .smoothing is %g; expected 0 to 1", (double)a->smoothing);
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = a->per_sample ? rows : CLADE_SCALAR};
  n->out[1] = n->out[2] = (clade_type){.dtype = CLADE_F32};
  n->out[1].shape = rows;
  n->out[1].shape.dim[n->out[1].shape.rank++] = 2;
  return CLADE_OK;
}

/* Dimensions that can be split: classes, and rows. A mean over rows can be split only if no label is ignored, so that
 * all parts count the same number of rows. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade__cross_entropy_attrs *a = n->attrs;
  clade_dims_along(d, clade_dims_add(d, (clade_dim_kind)CLADE__DIM_CLASSES), 0, n->in[0].shape.rank - 1, 1);
  for (int i = 0; i < n->in[1].shape.rank && (a->per_sample || !a->ignore); i++) {
    const int rows = clade_dims_add(d, a->per_sample ? CLADE_DIM_EACH : CLADE_DIM_MEAN);
    for (int k = 0; k < 2; k++) clade_dims_along(d, rows, k, i, 1);
    if (a->per_sample) clade_dims_along(d, rows, n->n_in, i, 1);
    clade_dims_along(d, rows, n->n_in + 1, i, 1);
  }
}

static clade_status grad(clade_grad *g) {
  clade_val in[] = {g->in[0], g->in[1], g->out[1], g->out[2], g->dout[0]};
  g->din[0] = clade_node_add(g->graph, &clade__op_cross_entropy_grad, NULL, g->node->attrs, 5, in, NULL);
  return CLADE_OK;
}

static int64_t classes(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  return x->dim[x->rank - 1];
}
static int64_t rows_of(const clade_query *q) {
  const clade_shape *labels = &q->node->in[1].shape;
  return clade__product(labels, 0, labels->rank);
}

static const char *accept(const clade_query *q) {
  return clade__cut_short(q->device, CLADE_MAX(3.0 * (double)(classes(q) / 16) + 64, (double)rows_of(q) / 16 + 64));
}

static double cost(const clade_query *q) {
  return clade__cost(q->device, 40.0 * (double)rows_of(q) * (double)classes(q), clade__node_bytes(q->node), 0.1);
}

/* Losses of the rows, if their mean is the result. */
static size_t workspace(const clade_query *q) {
  return ((const clade__cross_entropy_attrs *)q->node->attrs)->per_sample ? 0 : (size_t)rows_of(q) * sizeof(float);
}

static void emit_losses(clade_kernel_step *s, const clade__cross_entropy_attrs *a, int64_t rows) {
  if (a->per_sample || !rows)
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, 0, sizeof(float));
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  int64_t rows = rows_of(q);
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy_forward_rows");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  emit_losses(s, a, rows);
  clade_emit_out(s, 1);
  clade_emit_index(s, rows);
  clade_emit_i32(s, (int32_t)classes(q));
  clade_emit_f32(s, a->smoothing);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__emit_flat(s, q->device, rows);
  s = clade_emit_kernel(e, "cross_entropy_forward_join");
  emit_losses(s, a, rows);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_out(s, 2);
  clade_emit_index(s, 1);
  clade_emit_index(s, rows);
  clade_emit_i32(s, !a->per_sample);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__emit_flat(s, q->device, 1);
  return CLADE_OK;
}

/* ---- group: one team of work-items per row; a second launch adds the losses, in parts if there are many ---- */
typedef struct adding {
  int64_t part, parts;
} adding;
static adding adding_of(int64_t rows) {
  const int64_t part = clade__group_part(1, rows);
  return (adding){part, CLADE_MAX(clade__ceil_div(rows, part), 1)};
}
static const clade__group adder = {CLADE__GROUP_ITEMS, 1, true};

static const char *group_accept(const clade_query *q) {
  const clade__group g = clade__group_of(classes(q), 1);
  const double row = 2 * clade__group_turns(&g, classes(q));
  return clade__group_refuses(q, CLADE_MAX(row, clade__group_turns(&adder, adding_of(rows_of(q)).part)));
}

static double group_cost(const clade_query *q) {
  return clade__group_cost(q, 50.0 * (double)rows_of(q) * (double)classes(q));
}

/* Losses of the rows, then the sum and count of each part. */
static size_t group_workspace(const clade_query *q) {
  const int64_t parts = adding_of(rows_of(q)).parts;
  return workspace(q) + (parts > 1 ? (size_t)parts * 2 * sizeof(float) : 0);
}

static void group_rows(clade_emit *e, const clade_query *q) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  const clade__group g = clade__group_of(classes(q), 1);
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy_forward_group_rows");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  emit_losses(s, a, rows_of(q));
  clade_emit_out(s, 1);
  clade_emit_index(s, rows_of(q));
  clade_emit_index(s, classes(q));
  clade_emit_f32(s, a->smoothing);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__emit_groups(s, q, &g, rows_of(q));
}

static void group_add(clade_emit *e, const clade_query *q, bool first, bool direct) {
  const clade__cross_entropy_attrs *a = q->node->attrs;
  const adding by = adding_of(rows_of(q));
  const int64_t n = first ? rows_of(q) : by.parts;
  const size_t sums = workspace(q), numbers = sums + (size_t)by.parts * sizeof(float);
  clade_kernel_step *s = clade_emit_kernel(e, "cross_entropy_forward_group_join");
  clade_emit_define(s, "FIRST", first);
  clade_emit_define(s, "DIRECT", direct);
  if (first) {
    emit_losses(s, a, n);
    clade_emit_in(s, 1);
  } else {
    clade_emit_workspace(s, sums, sizeof(float));
    clade_emit_workspace(s, numbers, sizeof(float));
  }
  if (direct) {
    clade_emit_out(s, 0);
    clade_emit_out(s, 2);
  } else {
    clade_emit_workspace(s, sums, sizeof(float));
    clade_emit_workspace(s, numbers, sizeof(float));
  }
  clade_emit_index(s, direct ? 1 : by.parts);
  clade_emit_index(s, n);
  clade_emit_index(s, direct ? n : by.part);
  clade_emit_i32(s, !a->per_sample);
  clade_emit_i32(s, a->ignore);
  clade_emit_i32(s, a->ignore_index);
  clade__emit_groups(s, q, &adder, direct ? 1 : by.parts);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  group_rows(e, q);
  const bool once = adding_of(rows_of(q)).parts == 1;
  group_add(e, q, true, once);
  if (!once) group_add(e, q, false, true);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .workspace = group_workspace,
               .emit = group_emit, .file = "cross_entropy_group"),
    CLADE__SYSTOLIC(cross_entropy) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .workspace = workspace,
               .emit = emit),
    NULL,
};

const clade_op clade__op_cross_entropy = {
    .size = sizeof(clade_op),
    .name = "cross_entropy",
    .min_in = 2,
    .max_in = 2,
    .n_out = 3,
    .attr_bytes = sizeof(clade__cross_entropy_attrs),
    .attrs = clade__cross_entropy_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .dims = dims,
};

clade_val clade_cross_entropy_(clade_graph *g, clade_val logits, const clade_cross_entropy_opt *given) {
  clade_cross_entropy_opt opt;
  clade__cross_entropy_attrs a;
  clade_val out[3];
  memset(&a, 0, sizeof a);
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "cross_entropy");
  if (status == CLADE_OK && opt.ignore_index && !opt.ignore)
    status = CLADE_FAIL(INVALID, "cross_entropy: .ignore_index is %d without .ignore = true", (int)opt.ignore_index);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  a.smoothing = opt.smoothing;
  a.ignore = opt.ignore;
  a.ignore_index = opt.ignore_index;
  a.per_sample = opt.per_sample;
  return clade_node_add(g, &clade__op_cross_entropy, NULL, &a, 2, (clade_val[]){logits, opt.labels}, out);
}

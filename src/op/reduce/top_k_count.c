/* Number of samples whose label is among the k largest logits, for top-k accuracy. Among equal logits the one with the
 * smaller index ranks first, and NaN ranks above all. A sample counts as wrong if its label is no class, or if the
 * label's logit is NaN. */
#include "ir/dimensions.h"
#include "op/loss/cross_entropy.h"
#include "op/group.h"

typedef struct attrs {
  int32_t k;
} attrs;
static const clade_attr table[] = {{"k", CLADE_ATTR_I32, offsetof(attrs, k), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  clade_shape rows;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_labels(n, &rows));
  if (a->k < 1) return CLADE_FAIL(INVALID, "top_k_count: k is %d; expected at least 1", a->k);
  n->out[0] = (clade_type){.dtype = CLADE_I32, .shape = CLADE_SCALAR};
  return CLADE_OK;
}

static void dims(clade_dims *d, const clade_node *n) {
  for (int i = 0; i < n->in[1].shape.rank; i++) {
    const int rows = clade_dims_add(d, CLADE_DIM_SUM);
    for (int k = 0; k < 2; k++) clade_dims_along(d, rows, k, i, 1);
  }
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
  return clade__cut_short(q->device, (double)CLADE_MAX(classes(q), rows_of(q)) + 1);
}

static double cost(const clade_query *q) {
  return clade__cost(q->device, 4.0 * (double)rows_of(q) * (double)classes(q), clade__node_bytes(q->node), 0.05);
}

static size_t workspace(const clade_query *q) { return (size_t)rows_of(q) * sizeof(int32_t); }

/* A launch that marks the rows whose label is among the k largest logits. */
static clade_kernel_step *rows_step(clade_emit *e, const clade_query *q, const char *kernel) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_index(s, rows_of(q));
  clade_emit_i32(s, (int32_t)classes(q));
  clade_emit_i32(s, ((const attrs *)q->node->attrs)->k);
  return s;
}

/* A launch that adds the marks. */
static clade_kernel_step *join_step(clade_emit *e, const clade_query *q, const char *kernel) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  if (rows_of(q))
    clade_emit_workspace(s, 0, sizeof(int32_t));
  else
    clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index(s, 1);
  clade_emit_index(s, rows_of(q));
  return s;
}

/* ---- ref: a work-item does a row ---- */
static clade_status emit(clade_emit *e, const clade_query *q) {
  if (rows_of(q)) clade__emit_flat(rows_step(e, q, "top_k_count_forward_rows"), q->device, rows_of(q));
  clade__emit_flat(join_step(e, q, "top_k_count_forward_join"), q->device, 1);
  return CLADE_OK;
}

/* ---- group: a team of work-items per row; another one adds the marks ---- */
static const clade__group joining = {CLADE__GROUP_ITEMS, 1, true};

static const char *group_accept(const clade_query *q) {
  const clade__group rows = clade__group_of(classes(q), 1);
  const double join = clade__group_turns(&joining, rows_of(q));
  return clade__group_refuses(q, CLADE_MAX(clade__group_turns(&rows, classes(q)), join));
}

static double group_cost(const clade_query *q) {
  return clade__group_cost(q, 4.0 * (double)rows_of(q) * (double)classes(q));
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade__group rows = clade__group_of(classes(q), 1);
  if (rows_of(q)) clade__emit_groups(rows_step(e, q, "top_k_count_forward_group_rows"), q, &rows, rows_of(q));
  clade__emit_groups(join_step(e, q, "top_k_count_forward_group_join"), q, &joining, 1);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .workspace = workspace, .emit = group_emit,
               .file = "top_k_count_group"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .workspace = workspace,
               .emit = emit),
    NULL,
};

const clade_op clade__op_top_k_count = {
    .size = sizeof(clade_op),
    .name = "top_k_count",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade_top_k_count(clade_graph *g, clade_val logits, clade_val labels, int k) {
  return clade_node_add(g, &clade__op_top_k_count, NULL, &(attrs){k}, 2, (clade_val[]){logits, labels}, NULL);
}

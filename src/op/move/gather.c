/* Selects slices of a table along an axis by index, as `torch.index_select` and embedding lookup; an index out of range
 * gives zeros. */
#include <inttypes.h>

#include "ir/dimensions.h"
#include "op/move/gather.h"
#include "op/group.h"
#include "op/nn/nn.h"

enum { TABLE, IDS };

clade_status clade__gather_shape(const char *op, const clade_shape *table, const clade_type *ids, int axis,
                                 clade_shape *out) {
  clade_shape y = {.rank = table->rank - 1 + ids->shape.rank};
  char a[200], b[200];
  if (table->rank < 1) return CLADE_FAIL(BAD_SHAPE, "%s: x is a scalar; expected at least one dimension", op);
  if (axis < 0 || axis >= table->rank)
    return CLADE_FAIL(INVALID, "%s: axis %d is out of range for a value of rank %d", op, axis, table->rank);
  if (!clade_dim_is_symbol(table->dim[axis]) && table->dim[axis] > INT32_MAX)
    return CLADE_FAIL(BAD_SHAPE, "%s: x has %" PRId64 " rows, which an i32 does not count", op, table->dim[axis]);
  if (ids->dtype != CLADE_I32)
    return CLADE_FAIL(DTYPE, "%s: ids are %s; expected i32", op, clade_dtype_name(ids->dtype));
  if (y.rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "%s: rows of %s by ids of %s have more than %d dimensions", op,
                      clade_shape_text(table, a, sizeof a), clade_shape_text(&ids->shape, b, sizeof b), CLADE_MAX_RANK);
  for (int i = 0; i < axis; i++) y.dim[i] = table->dim[i];
  for (int i = 0; i < ids->shape.rank; i++) y.dim[axis + i] = ids->shape.dim[i];
  for (int i = axis + 1; i < table->rank; i++) y.dim[ids->shape.rank + i - 1] = table->dim[i];
  *out = y;
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  const clade__axis_attrs *a = n->attrs;
  clade_shape y;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__gather_shape("gather", &n->in[TABLE].shape, &n->in[IDS], a->axis, &y));
  n->out[0] = (clade_type){.dtype = n->in[TABLE].dtype, .shape = y};
  return CLADE_OK;
}

/* The table can be split along the indexed axis: each part gives zeros for the indices of other parts, and the results
 * are summed. */
static void dims(clade_dims *d, const clade_node *n) {
  const int axis = ((const clade__axis_attrs *)n->attrs)->axis, more = n->in[IDS].shape.rank - 1;
  const int rows = clade_dims_add(d, CLADE_DIM_SUM);
  clade_dims_along(d, rows, TABLE, axis, 1);
  clade_dims_numbers(d, rows, IDS);
  for (int i = 0; i < n->in[TABLE].shape.rank; i++)
    if (i != axis) clade__dims_axis(d, n, i, i < axis ? i : i + more);
  for (int i = 0; i < n->in[IDS].shape.rank; i++) {
    const int ids = clade_dims_add(d, CLADE_DIM_EACH);
    clade_dims_along(d, ids, IDS, i, 1);
    clade_dims_along(d, ids, 2, axis + i, 1);
  }
}

static clade_status grad(clade_grad *g) {
  clade__scatter_attrs a;
  memset(&a, 0, sizeof a);
  a.shape = g->node->in[TABLE].shape;
  a.axis = ((const clade__axis_attrs *)g->node->attrs)->axis;
  g->din[TABLE] =
      clade_node_add(g->graph, &clade__op_scatter_add, NULL, &a, 2, (clade_val[]){g->dout[0], g->in[IDS]}, NULL);
  return CLADE_OK;
}

static double bytes_of(const clade_query *q) {
  const clade_shape *y = &q->node->out[0].shape;
  return 2 * clade__bytes_of(q->node->out[0].dtype, clade__product(y, 0, y->rank));
}

/* Single elements cost about four times their bytes. */
static double cost(const clade_query *q) {
  const clade_shape *x = &q->node->in[TABLE].shape;
  bool single = clade__product(x, ((const clade__axis_attrs *)q->node->attrs)->axis + 1, x->rank) == 1;
  return clade__cost(q->device, 0, (single ? 4 : 1) * bytes_of(q), 1);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_shape *x = &q->node->in[TABLE].shape, *y = &q->node->out[0].shape, *ids = &q->node->in[IDS].shape;
  int axis = ((const clade__axis_attrs *)q->node->attrs)->axis;
  int64_t width = clade__product(x, axis + 1, x->rank), total = clade__product(y, 0, y->rank);
  int64_t piece = clade__piece(q->device, total, 1, 1 << 14);
  clade_kernel_step *s = clade_emit_kernel(e, "gather_forward_ref");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  double table = clade__bytes_of(q->node->in[TABLE].dtype, x->dim[axis]);
  clade_emit_define(s, "NARROW", width == 1 && table <= (double)clade__second_cache(q->device));
  clade_emit_in(s, TABLE);
  clade_emit_in(s, IDS);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_index(s, piece);
  clade_emit_index(s, width);
  clade_emit_index(s, clade__product(ids, 0, ids->rank));
  clade_emit_i32(s, (int32_t)x->dim[axis]);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(total, piece));
  return CLADE_OK;
}

/* ---- columns: single 32-bit elements from many short rows ---- */
enum { MOST = 4096 }; /* indices per pass */

static const char *columns_accept(const clade_query *q) {
  const clade_shape *x = &q->node->in[TABLE].shape, *ids = &q->node->in[IDS].shape;
  int axis = ((const clade__axis_attrs *)q->node->attrs)->axis;
  if (clade__element_bytes(q->node->out[0].dtype) != 4) return "requires elements of 32 bits";
  if (clade__product(x, axis + 1, x->rank) != 1 || clade__product(x, 0, axis) < CLADE__LANES)
    return "the axis is not the last of several";
  if (x->dim[axis] == 0) return "a table is empty";
  if (x->dim[axis] > UINT16_MAX) return "a table has more words than 16 bits count";
  return clade__product(ids, 0, ids->rank) < CLADE__LANES ? "fewer elements are gathered than a vector has lanes"
                                                          : NULL;
}

static double columns_cost(const clade_query *q) { return clade__cost(q->device, 0, bytes_of(q), 1); }

static clade_status columns_emit(clade_emit *e, const clade_query *q) {
  const clade_shape *x = &q->node->in[TABLE].shape, *ids = &q->node->in[IDS].shape;
  int axis = ((const clade__axis_attrs *)q->node->attrs)->axis;
  int64_t tables = clade__product(x, 0, axis), count = clade__product(ids, 0, ids->rank);
  int64_t piece = clade__up(clade__rows(q->device, tables, count), CLADE__LANES);
  clade_kernel_step *s = clade_emit_kernel(e, "gather_forward_columns");
  clade_emit_define(s, "MOST", MOST);
  clade_emit_in(s, TABLE);
  clade_emit_in(s, IDS);
  clade_emit_out(s, 0);
  clade_emit_index(s, tables);
  clade_emit_index(s, piece);
  clade_emit_index(s, count);
  clade_emit_i32(s, (int32_t)x->dim[axis]);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(tables, piece));
  return CLADE_OK;
}

/* ---- group: four consecutive elements per work-item ---- */
static const char *group_accept(const clade_query *q) { return clade__group_refuses(q, 4); }

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_shape *x = &q->node->in[TABLE].shape, *y = &q->node->out[0].shape, *ids = &q->node->in[IDS].shape;
  const int axis = ((const clade__axis_attrs *)q->node->attrs)->axis;
  const int64_t total = clade__product(y, 0, y->rank);
  clade_kernel_step *s = clade_emit_kernel(e, "gather_forward_group");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  clade_emit_in(s, TABLE);
  clade_emit_in(s, IDS);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_index(s, clade__product(x, axis + 1, x->rank));
  clade_emit_index(s, clade__product(ids, 0, ids->rank));
  clade_emit_i32(s, (int32_t)x->dim[axis]);
  clade__emit_fours(s, total);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "columns", CLADE__LONG_VEC, .accept = columns_accept, .cost = columns_cost,
               .emit = columns_emit),
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = cost, .emit = group_emit, .file = "gather_group"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = cost, .emit = emit),
    NULL,
};

const clade_op clade__op_gather = {
    .size = sizeof(clade_op),
    .name = "gather",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(clade__axis_attrs),
    .attrs = clade__axis_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade_gather_(clade_graph *g, clade_val x, const clade_gather_opt *given) {
  clade_gather_opt opt;
  clade_type type;
  clade__axis_attrs a;
  int axis = 0;
  memset(&a, 0, sizeof a);
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "gather");
  if (status == CLADE_OK && (status = clade_val_type(g, x, &type)) != CLADE_OK) clade__fail_in(status, "gather: x");
  if (status == CLADE_OK && opt.axis) status = clade__axis("gather: x", opt.axis, type.shape.rank, &axis);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  a.axis = axis;
  return clade_node_add(g, &clade__op_gather, NULL, &a, 2, (clade_val[]){x, opt.ids}, NULL);
}

clade_val clade_nn_embedding_(clade_graph *g, const char *name, const clade_embedding_opt *given) {
  clade_embedding_opt opt;
  clade_type ids;
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_embedding");
  if (status == CLADE_OK) status = clade__name_check("nn_embedding", name);
  if (status == CLADE_OK && (opt.count < 1 || opt.width < 1))
    status = CLADE_FAIL(INVALID, "nn_embedding \"%s\": .count is %" PRId64 ", .width %" PRId64 "; expected at least 1",
                        name, opt.count, opt.width);
  if (status == CLADE_OK) {
    status = clade_val_type(g, opt.ids, &ids);
    if (status != CLADE_OK) clade__fail_in(status, "nn_embedding \"%s\": ids", name);
  }
  const clade_shape shape = CLADE_SHAPE(opt.count, opt.width);
  if (status == CLADE_OK) {
    status = clade__type_check(&(clade_type){.dtype = CLADE_F32, .shape = shape}, true);
    if (status != CLADE_OK)
      clade__fail_in(status, "nn_embedding \"%s\": .count is %" PRId64 ", .width %" PRId64, name, opt.count, opt.width);
  }
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  const clade_dtype stored = opt.dtype ? opt.dtype : CLADE_F32;
  clade_val table = clade__nn_weight(g, name, stored, stored, shape, 0, (clade_initial){CLADE_INIT_NORMAL, 0, 1});
  return clade_gather(g, table, opt.ids);
}

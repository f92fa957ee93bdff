/* Adds slices to a table along an axis by index, as `torch.index_add` and the gradient of an embedding. Indices are
 * sorted together with their positions (radix sort), so that slices with the same index are added in their original
 * order and the result is reproducible. The error of a sum is at most 2^-22 of the sum of absolute values, plus the
 * rounding to the stored type. */
#include <clade/ops.h>

#include "op/move/gather.h"
#include "op/group.h"

static const clade_attr table[] = {{"shape", CLADE_ATTR_SHAPE, offsetof(clade__scatter_attrs, shape), 1},
                                   {"axis", CLADE_ATTR_I32, offsetof(clade__scatter_attrs, axis), 1},
                                   {0}};

enum { UPDATES, IDS, START };           /* START: initial table, optional */
enum { BITS = 10, DIGITS = 1 << BITS }; /* bits per radix sort pass, as in the kernels */
enum { PART = 256 };                    /* fewest indices per work-item when sorting */

static clade_status infer(clade_node *n) {
  const clade__scatter_attrs *a = n->attrs;
  const clade_shape *given = &n->in[UPDATES].shape;
  const clade_type *x = &n->in[START];
  clade_shape want;
  char text[3][200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, UPDATES, "what is added"));
  if (a->shape.rank < 0 || a->shape.rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "scatter_add: the table has %d dimensions", a->shape.rank);
  CLADE_TRY(clade__gather_shape("scatter_add", &a->shape, &n->in[IDS], a->axis, &want));
  if (!clade_shape_equal(given, &want))
    return CLADE_FAIL(
        BAD_SHAPE, "scatter_add: what is added is %s; ids of %s along axis %d of %s expect %s",
        clade_shape_text(given, text[0], sizeof text[0]), clade_shape_text(&n->in[IDS].shape, text[1], sizeof text[1]),
        a->axis, clade_shape_text(&a->shape, text[2], sizeof text[2]), clade_shape_text(&want, (char[200]){0}, 200));
  n->out[0] = (clade_type){.dtype = n->in[UPDATES].dtype, .shape = a->shape};
  if (n->n_in > START && (x->dtype != n->out[0].dtype || !clade_shape_equal(&x->shape, &a->shape)))
    return CLADE_FAIL(BAD_SHAPE, "scatter_add: x is %s%s; expected %s%s, by what is added", clade_dtype_name(x->dtype),
                      clade_shape_text(&x->shape, text[0], sizeof text[0]), clade_dtype_name(n->out[0].dtype),
                      clade_shape_text(&a->shape, text[1], sizeof text[1]));
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  clade_gather_opt opt = {.size = sizeof opt, .ids = g->in[IDS]};
  opt.axis = ((const clade__scatter_attrs *)g->node->attrs)->axis;
  g->din[UPDATES] = clade_gather_(g->graph, g->dout[0], &opt);
  if (g->node->n_in > START) g->din[START] = g->dout[0];
  return CLADE_OK;
}

static int64_t count_of(const clade_query *q) {
  const clade_shape *ids = &q->node->in[IDS].shape;
  return clade__product(ids, 0, ids->rank);
}

/* Indices per part of the sort. */
static int64_t part_of(const clade_query *q) {
  int64_t most = q->device->device_class == CLADE_CPU ? 4 * (int64_t)CLADE_MAX(q->device->compute_units, 1u) : 64;
  return CLADE_MAX(clade__ceil_div(count_of(q), most), PART);
}

static int64_t parts_of(const clade_query *q) { return clade__ceil_div(count_of(q), part_of(q)); }

static int64_t columns_of(const clade_query *q) { return q->device->device_class == CLADE_CPU ? 256 : 16; }

/* Rows of the table per work-item, in `width` columns. */
static int64_t rows_of(const clade_query *q, int64_t rows, int64_t width) {
  int64_t row = CLADE_MIN(width, columns_of(q));
  if (q->device->device_class != CLADE_CPU || q->device->max_passes || row < 1) return 1;
  int64_t most = CLADE_MAX(1 << 16, row); /* many, because each work-item searches for its first key */
  return CLADE_MIN(CLADE_MAX(clade__piece(q->device, rows * row, row, most) / row, 1), INT32_MAX);
}

/* Worst case for the loops: all indices are the same. */
static const char *accept(const clade_query *q) {
  double n = (double)count_of(q), place = DIGITS * (2.0 + (double)parts_of(q)) + (double)part_of(q);
  double sum = ((double)columns_of(q) / 8 + 18) * (n + 4);
  return clade__cut_short(q->device, CLADE_MAX(place, sum));
}

static double cost(const clade_query *q) { return clade__cost(q->device, 0, 2 * clade__node_bytes(q->node), 1); }

/* Two buffers of keys, as source and target of each pass, and a histogram of digits per part. */
static size_t workspace(const clade_query *q) {
  return 2 * (size_t)count_of(q) * sizeof(int64_t) + (size_t)(parts_of(q) + 1) * DIGITS * sizeof(uint32_t);
}

/* Emits the sort; returns the offset of the sorted keys in the workspace, in bytes. */
static size_t emit_sort(clade_emit *e, const clade_query *q, int64_t n, int64_t rows) {
  size_t keys = (size_t)n * sizeof(int64_t), from = 0, to = keys;
  for (int digit = 0; n > 0 && rows >> (BITS * digit); digit++) {
    for (int place = 0; place < 2; place++) {
      clade_kernel_step *s = clade_emit_kernel(e, place ? "scatter_add_place" : "scatter_add_count");
      clade_emit_in(s, IDS);
      clade_emit_workspace(s, from, sizeof(int64_t));
      clade_emit_workspace(s, 2 * keys, sizeof(uint32_t));
      clade_emit_workspace(s, to, sizeof(int64_t));
      clade_emit_index(s, n);
      clade_emit_i32(s, (int32_t)part_of(q));
      clade_emit_i32(s, (int32_t)parts_of(q));
      clade_emit_i32(s, (int32_t)rows);
      clade_emit_i32(s, digit);
      clade_emit_i32(s, digit > 0);
      clade__emit_flat(s, q->device, parts_of(q));
    }
    size_t other = from;
    from = to;
    to = other;
  }
  return from;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_shape *shape = &q->node->out[0].shape;
  int axis = ((const clade__scatter_attrs *)q->node->attrs)->axis;
  bool given = q->node->n_in > START;
  int64_t n = count_of(q), width = clade__product(shape, axis + 1, shape->rank), outer = clade__product(shape, 0, axis);
  int64_t rows = shape->dim[axis], columns = columns_of(q), piece = rows_of(q, rows, width);
  if (rows == 0 || width == 0 || outer == 0) return CLADE_OK;
  size_t sorted = emit_sort(e, q, n, rows);
  clade_kernel_step *s = clade_emit_kernel(e, "scatter_add_sum");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_workspace(s, sorted, sizeof(int64_t));
  clade_emit_in(s, UPDATES);
  if (given)
    clade_emit_in(s, START);
  else
    clade_emit_out(s, 0); /* placeholder, not read */
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_index(s, width);
  clade_emit_index(s, outer);
  clade_emit_i32(s, (int32_t)rows);
  clade_emit_i32(s, (int32_t)piece);
  clade_emit_index(s, columns);
  clade_emit_i32(s, given);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, outer * clade__ceil_div(rows, piece) * clade__ceil_div(width, columns));
  return CLADE_OK;
}

/* ---- group: parts are sorted by work-groups, and rows are summed four columns at a time ---- */
enum { GROUP_BITS = 8, RUN = 64, MOST_PARTS = 128 }; /* one work-item per digit value; RUN as in the kernels */

/* Depends only on the number of indices, since it determines the summation order. Workspace: two buffers of sorted
 * keys, histograms per part, sums of runs, and the first key of each row. */
typedef struct grouped {
  int64_t n, rows, width, outer, part, parts, runs, fours;
  size_t counts, sums, begins, bytes;
} grouped;
static grouped grouped_of(const clade_query *q) {
  const clade_shape *shape = &q->node->out[0].shape;
  const int axis = ((const clade__scatter_attrs *)q->node->attrs)->axis;
  grouped g = {.n = count_of(q), .rows = shape->dim[axis]};
  g.width = clade__product(shape, axis + 1, shape->rank);
  g.outer = clade__product(shape, 0, axis);
  g.part = CLADE_MAX(clade__up(clade__ceil_div(g.n, MOST_PARTS), CLADE__GROUP_ITEMS), CLADE__GROUP_ITEMS);
  g.parts = clade__ceil_div(g.n, g.part);
  g.runs = g.n / RUN;
  g.fours = (g.width + 3) / 4;
  g.counts = 2 * (size_t)g.n * sizeof(int64_t);
  g.sums = g.counts + (size_t)g.parts * CLADE__GROUP_ITEMS * sizeof(uint32_t);
  g.begins = g.sums + (size_t)(g.outer * g.runs * g.fours) * 8 * sizeof(float);
  g.bytes = g.begins + ((size_t)g.rows + 1) * sizeof(int32_t);
  return g;
}

static const char *group_accept(const clade_query *q) {
  const grouped g = grouped_of(q);
  if (g.n > INT32_MAX) return "the elements to be added exceed the range of i32";
  return clade__group_refuses(q, CLADE_MAX((double)(g.part + g.parts), (double)g.n / RUN) + 2 * CLADE__GROUP_ITEMS);
}

static size_t group_workspace(const clade_query *q) { return grouped_of(q).bytes; }

/* As emit_sort. */
static size_t group_sort(clade_emit *e, const grouped *g) {
  const size_t keys = (size_t)g->n * sizeof(int64_t), items = (size_t)g->parts * CLADE__GROUP_ITEMS;
  size_t from = 0, to = keys;
  for (int digit = 0; g->n > 0 && g->rows >> (GROUP_BITS * digit); digit++) {
    for (int place = 0; place < 2; place++) {
      clade_kernel_step *s = clade_emit_kernel(e, place ? "scatter_add_group_place" : "scatter_add_group_count");
      clade_emit_in(s, IDS);
      clade_emit_workspace(s, from, sizeof(int64_t));
      clade_emit_workspace(s, g->counts, sizeof(uint32_t));
      clade_emit_workspace(s, to, sizeof(int64_t));
      clade_emit_index(s, g->n);
      clade_emit_i32(s, (int32_t)g->part);
      clade_emit_i32(s, (int32_t)g->parts);
      clade_emit_i32(s, (int32_t)g->rows);
      clade_emit_i32(s, digit);
      clade_emit_i32(s, digit > 0);
      clade_emit_range(s, 1, &items, &(size_t){CLADE__GROUP_ITEMS});
    }
    const size_t other = from;
    from = to;
    to = other;
  }
  return from;
}

static void group_find(clade_emit *e, const grouped *g, size_t sorted) {
  clade_kernel_step *s = clade_emit_kernel(e, "scatter_add_group_find");
  clade_emit_workspace(s, sorted, sizeof(int64_t));
  clade_emit_workspace(s, g->begins, sizeof(int32_t));
  clade_emit_index(s, g->n);
  clade_emit_index(s, g->rows + 1);
  clade_emit_range(s, 1, &(size_t){(size_t)g->rows + 1}, &(size_t){CLADE__GROUP_ITEMS});
}

static void group_runs(clade_emit *e, const clade_query *q, const grouped *g, size_t sorted) {
  const int64_t total = g->outer * g->runs * g->fours;
  clade_kernel_step *s = clade_emit_kernel(e, "scatter_add_group_runs");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_workspace(s, sorted, sizeof(int64_t));
  clade_emit_in(s, UPDATES);
  clade_emit_workspace(s, g->sums, sizeof(float));
  clade_emit_index(s, g->n);
  clade_emit_index(s, g->width);
  clade_emit_index(s, g->runs);
  clade_emit_index(s, g->fours);
  clade_emit_index(s, total);
  clade__emit_fours(s, 4 * total);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const bool given = q->node->n_in > START;
  const grouped g = grouped_of(q);
  const int64_t total = g.outer * g.rows * g.fours;
  if (total == 0) return CLADE_OK;
  const size_t sorted = group_sort(e, &g);
  group_find(e, &g, sorted);
  if (g.runs) group_runs(e, q, &g, sorted);
  clade_kernel_step *s = clade_emit_kernel(e, "scatter_add_group_sum");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_workspace(s, sorted, sizeof(int64_t));
  clade_emit_workspace(s, g.begins, sizeof(int32_t));
  clade_emit_workspace(s, g.sums, sizeof(float));
  clade_emit_in(s, UPDATES);
  if (given)
    clade_emit_in(s, START);
  else
    clade_emit_out(s, 0); /* placeholder, not read */
  clade_emit_out(s, 0);
  clade_emit_index(s, g.n);
  clade_emit_index(s, g.width);
  clade_emit_index(s, g.rows);
  clade_emit_index(s, g.runs);
  clade_emit_index(s, g.fours);
  clade_emit_index(s, total);
  clade_emit_i32(s, given);
  clade__emit_fours(s, 4 * total);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .needs_local = 2 * CLADE__GROUP_ITEMS * sizeof(int32_t), .accept = group_accept,
               .cost = cost, .workspace = group_workspace, .emit = group_emit, .file = "scatter_add_group"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .workspace = workspace,
               .emit = emit),
    NULL};

/* In-place execution is allowed: each element is read before it is overwritten. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)out;
  return n->n_in > START ? 1u << START : 0;
}

const clade_op clade__op_scatter_add = {
    .size = sizeof(clade_op),
    .name = "scatter_add",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .attr_bytes = sizeof(clade__scatter_attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
};

clade_val clade_scatter_add_(clade_graph *g, clade_val x, clade_val ids, const clade_scatter_add_opt *given) {
  clade_scatter_add_opt opt;
  clade_type type;
  clade__scatter_attrs a;
  int axis = 0;
  memset(&a, 0, sizeof a);
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "scatter_add");
  if (status == CLADE_OK && (status = clade_val_type(g, x, &type)) != CLADE_OK)
    clade__fail_in(status, "scatter_add: x");
  if (status == CLADE_OK && opt.axis) status = clade__axis("scatter_add: x", opt.axis, type.shape.rank, &axis);
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  a.shape.rank = type.shape.rank;
  for (int i = 0; i < type.shape.rank; i++) a.shape.dim[i] = type.shape.dim[i];
  a.axis = axis;
  return clade_node_add(g, &clade__op_scatter_add, NULL, &a, 3, (clade_val[]){opt.updates, ids, x}, NULL);
}

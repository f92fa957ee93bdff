/* The derivative of gather by its table: for each row the sum of the gradients of what was made of it, in their order,
 * found by sorting the numbers with their positions. Sums are within 2^-22 of the sum of absolute values, besides the
 * rounding to the stored type. */
#include "op/gather.h"

static const clade_attr table[] = {{"shape", CLADE_ATTR_SHAPE, offsetof(clade__gather_grad_attrs, shape), 1}, {0}};

enum { DY, IDS };
enum { RUN = 32, COLUMNS = 64 }; /* what a work-item sorts alone; columns that one sums up */

static clade_status infer(clade_node *n) {
  const clade__gather_grad_attrs *a = n->attrs;
  const clade_shape *ids = &n->in[IDS].shape, *dy = &n->in[DY].shape;
  char text[3][200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, DY, "dy"));
  if (n->in[IDS].dtype != CLADE_I32)
    return CLADE_FAIL(DTYPE, "gather_grad: ids are %s; expected i32", clade_dtype_name(n->in[IDS].dtype));
  bool fits = a->shape.rank >= 1 && a->shape.rank <= CLADE_MAX_RANK && dy->rank == ids->rank + a->shape.rank - 1;
  for (int i = 0; fits && i < dy->rank; i++)
    fits = dy->dim[i] == (i < ids->rank ? ids->dim[i] : a->shape.dim[i - ids->rank + 1]);
  if (!fits)
    return CLADE_FAIL(SHAPE, "gather_grad: dy is %s, which does not fit ids of %s and a table of %s",
                      clade_shape_text(dy, text[0], sizeof text[0]), clade_shape_text(ids, text[1], sizeof text[1]),
                      clade_shape_text(&a->shape, text[2], sizeof text[2]));
  n->out[0] = (clade_type){.dtype = n->in[DY].dtype, .shape = a->shape};
  return CLADE_OK;
}

static int64_t count_of(const clade_query *q) {
  const clade_shape *ids = &q->node->in[IDS].shape;
  return clade__product(ids, 0, ids->rank);
}

/* All numbers may be the same. */
static const char *accept(const clade_query *q) {
  return clade__cut_short(q->device, (COLUMNS / 16 + 16) * ((double)count_of(q) + 2) + RUN * RUN);
}

static double cost(const clade_query *q) { return clade__cost(q->device, 0, 2 * clade__node_bytes(q->node), 1); }

/* The sorted numbers, twice: merging reads one and writes the other. */
static size_t workspace(const clade_query *q) { return 2 * (size_t)count_of(q) * sizeof(int64_t); }

static void emit_zero(clade_emit *e, const clade_query *q) {
  const clade_shape *y = &q->node->out[0].shape;
  int64_t total = clade__product(y, 0, y->rank), piece = clade__piece(q->device, total, 1, 1 << 14);
  clade_kernel_step *s = clade_emit_kernel(e, "gather_grad_zero");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_index(s, piece);
  clade__emit_flat(s, q->device, (total + piece - 1) / piece);
}

/* Where the sorted numbers are in the end: bytes into the workspace. */
static size_t emit_sort(clade_emit *e, const clade_query *q, int64_t n) {
  size_t from = 0, to = (size_t)n * sizeof(int64_t);
  clade_kernel_step *s = clade_emit_kernel(e, "gather_grad_runs");
  clade_emit_define(s, "RUN", RUN);
  clade_emit_in(s, IDS);
  clade_emit_workspace(s, from, sizeof(int64_t));
  clade_emit_index(s, n);
  clade__emit_flat(s, q->device, (n + RUN - 1) / RUN);
  for (int64_t width = RUN; width < n; width *= 2) {
    s = clade_emit_kernel(e, "gather_grad_merge");
    clade_emit_workspace(s, from, sizeof(int64_t));
    clade_emit_workspace(s, to, sizeof(int64_t));
    clade_emit_index(s, n);
    clade_emit_index(s, width);
    clade__emit_flat(s, q->device, n);
    size_t other = from;
    from = to;
    to = other;
  }
  return from;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_shape *shape = &q->node->out[0].shape;
  int64_t n = count_of(q), width = clade__product(shape, 1, shape->rank);
  emit_zero(e, q);
  if (n == 0 || width == 0) return CLADE_OK;
  size_t sorted = emit_sort(e, q, n);
  int64_t blocks = (width + COLUMNS - 1) / COLUMNS;
  clade_kernel_step *s = clade_emit_kernel(e, "gather_grad_sum");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->out[0].dtype));
  clade_emit_define(s, "COLUMNS", COLUMNS);
  clade_emit_workspace(s, sorted, sizeof(int64_t));
  clade_emit_in(s, DY);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_index(s, width);
  clade_emit_index(s, blocks);
  clade_emit_i32(s, (int32_t)shape->dim[0]);
  clade__emit_flat(s, q->device, n * blocks);
  return CLADE_OK;
}

static const clade_impl impls[] = {
    {.name = "ref", .accept = accept, .cost = cost, .workspace = workspace, .emit = emit}, {0}};

const clade_op clade__op_gather_grad = {
    .size = sizeof(clade_op),
    .name = "gather_grad",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(clade__gather_grad_attrs),
    .attrs = table,
    .infer = infer,
    .impls = impls,
};

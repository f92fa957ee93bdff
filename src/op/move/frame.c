/* Slice, pad and concatenate: copies a part of each operand into a result that is filled with a constant elsewhere. The
 * element `begin` of operand 0 goes to position `at`; several operands lie side by side along `axis`. The gradient is
 * the same op with `begin` and `at` exchanged. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/move/frame.h"
#include "op/group.h"
#include "op/move/view.h"

static const clade_attr table[] = {{"shape", CLADE_ATTR_SHAPE, offsetof(clade__frame_attrs, shape), 1},
                                   {"begin", CLADE_ATTR_SHAPE, offsetof(clade__frame_attrs, begin), 1},
                                   {"at", CLADE_ATTR_SHAPE, offsetof(clade__frame_attrs, at), 1},
                                   {"axis", CLADE_ATTR_I32, offsetof(clade__frame_attrs, axis), 1},
                                   {"inside", CLADE_ATTR_BOOL, offsetof(clade__frame_attrs, inside), 1},
                                   {"fill", CLADE_ATTR_I64, offsetof(clade__frame_attrs, fill), 1},
                                   {0}};

static clade_status check_attrs(const clade__frame_attrs *a, int rank) {
  const clade_shape *shapes[] = {&a->shape, &a->begin, &a->at};
  for (int i = 0; i < 3; i++)
    if (shapes[i]->rank != rank)
      return CLADE_FAIL(BAD_SHAPE, "frame: x has %d dimensions, its result or a corner of it %d", rank,
                        shapes[i]->rank);
  for (int i = 0; i < rank; i++)
    for (int k = 0; k < 3; k++)
      if (!clade__is_size(shapes[k]->dim[i]) && !clade_dim_is_symbol(shapes[k]->dim[i]))
        return CLADE_FAIL(BAD_SHAPE, "frame: dimension %d of the result or a corner of it is negative or no size", i);
  return CLADE_OK;
}

/* Checks that a slice does not exceed its operand. */
static clade_status check_inside(const clade__frame_attrs *a, const clade_shape *x) {
  char text[2][200];
  for (int i = 0; i < x->rank; i++) {
    clade_dim begin = a->begin.dim[i], end = clade_dim_add(begin, a->shape.dim[i]);
    bool known = clade__is_size(end) && clade__is_size(x->dim[i]), beyond = known && end > x->dim[i];
    if (beyond || (clade__is_size(begin) && clade__is_size(x->dim[i]) && begin > x->dim[i]))
      return CLADE_FAIL(BAD_SHAPE, "slice: x is %s, which has no %s from %lld on in dimension %d",
                        clade_shape_text(x, text[0], sizeof text[0]),
                        clade_shape_text(&a->shape, text[1], sizeof text[1]), (long long)begin, i);
  }
  return CLADE_OK;
}

static clade_status check_sides(const clade_node *n) {
  const clade__frame_attrs *a = n->attrs;
  clade_dim sum = 0;
  char text[2][200];
  for (int k = 0; k < n->n_in; k++) {
    const clade_type *t = &n->in[k];
    bool fits = t->shape.rank == a->shape.rank;
    for (int i = 0; fits && i < a->shape.rank; i++) fits = i == a->axis || t->shape.dim[i] == a->shape.dim[i];
    if (!fits)
      return CLADE_FAIL(BAD_SHAPE, "concat: operand %d is %s, operand 0 %s; they may differ in dimension %d alone", k,
                        clade_shape_text(&t->shape, text[0], sizeof text[0]),
                        clade_shape_text(&n->in[0].shape, text[1], sizeof text[1]), a->axis);
    if (t->dtype != n->in[0].dtype)
      return CLADE_FAIL(DTYPE, "concat: operand %d is %s, operand 0 %s", k, clade_dtype_name(t->dtype),
                        clade_dtype_name(n->in[0].dtype));
    sum = clade_dim_add(sum, t->shape.dim[a->axis]);
  }
  if (sum == a->shape.dim[a->axis]) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "concat: the operands' sizes in dimension %d are not those of the result, %s", a->axis,
                    clade_shape_text(&a->shape, text[0], sizeof text[0]));
}

static clade_status infer(clade_node *n) {
  const clade__frame_attrs *a = n->attrs;
  int rank = n->in[0].shape.rank;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(check_attrs(a, rank));
  if (a->axis < 0 || (n->n_in > 1 && a->axis >= rank))
    return CLADE_FAIL(INVALID, "concat: axis %d is out of range for operands of rank %d", a->axis, rank);
  if (n->n_in > 1) CLADE_TRY(check_sides(n));
  if (a->inside) CLADE_TRY(check_inside(a, &n->in[0].shape));
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = a->shape};
  return CLADE_OK;
}

/* Concatenated operands keep their channels. An axis that is sliced or padded cannot be pruned, since its sizes are
 * attributes. */
static void ties(clade_ties *t, const clade_node *n) {
  const clade__frame_attrs *a = n->attrs;
  for (int i = 0; i < a->shape.rank; i++) {
    int64_t side = 0, length = 0;
    bool whole = !a->begin.dim[i] && !a->at.dim[i];
    for (int k = 0; k < n->n_in; k++) length += n->n_in > 1 && i != a->axis && k ? 0 : n->in[k].shape.dim[i];
    whole = whole && length == a->shape.dim[i];
    for (int k = 0; k < n->n_in; k++) {
      const int64_t size = n->in[k].shape.dim[i];
      if (whole) clade_tie(t, k, i, 0, n->n_in, i, side, size);
      if (!whole) clade_keep_axis(t, k, i);
      if (i == a->axis) side += size;
    }
    if (!whole) clade_keep_axis(t, n->n_in, i);
  }
}

/* Axes along which all operands have the result's size can be split. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade__frame_attrs *a = n->attrs;
  for (int i = 0; i < a->shape.rank; i++) {
    bool whole = !a->begin.dim[i] && !a->at.dim[i] && (n->n_in == 1 || i != a->axis);
    for (int k = 0; k < n->n_in; k++) whole &= n->in[k].shape.dim[i] == a->shape.dim[i];
    if (!whole) continue;
    const int dim = clade__dims_axis(d, n, i, i);
    for (int k = 1; k < n->n_in; k++) clade_dims_along(d, dim, k, i, 1);
    clade__dims_length(d, dim, offsetof(clade__frame_attrs, shape.dim) + (size_t)i * sizeof(clade_dim), 1);
  }
}

/* A view is possible if nothing is filled: one operand, without padding. */
bool clade__frame_view(const clade_node *n, clade__view *v) {
  const clade__frame_attrs *a = n->attrs;
  for (int i = 0; i < v->shape.rank; i++) {
    if (n->n_in > 1 || a->at.dim[i] || a->begin.dim[i] + a->shape.dim[i] > v->shape.dim[i]) return false;
    v->offset += a->begin.dim[i] * v->stride[i];
  }
  v->shape = a->shape;
  return true;
}

/* The part of dy that came from the operand; the rest of the operand's gradient is zero. */
static clade_status grad(clade_grad *g) {
  const clade__frame_attrs *own = g->node->attrs;
  clade__frame_attrs a;
  memset(&a, 0, sizeof a);
  a.begin = own->at;
  a.at = own->begin;
  for (int k = 0; k < g->node->n_in; k++) {
    a.shape = g->node->in[k].shape;
    if (g->wanted[k]) g->din[k] = clade__frame_add(g->graph, &a, 1, g->dout);
    if (k + 1 < g->node->n_in) a.begin.dim[own->axis] = clade_dim_add(a.begin.dim[own->axis], a.shape.dim[own->axis]);
  }
  return CLADE_OK;
}

static double cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

/* The part of one of several operands: sizes and strides, outermost axis first, with leading axes of size 1. */
typedef struct part {
  int64_t dim[CLADE_MAX_RANK], from[CLADE_MAX_RANK], to[CLADE_MAX_RANK];
  int64_t first_from, first_to, total;
} part;

static part part_of(const clade_node *n, int operand, int64_t side) {
  const clade__frame_attrs *a = n->attrs;
  const clade_shape *x = &n->in[operand].shape, *y = &n->out[0].shape;
  part raw = {.total = 1}, p;
  clade__strides(x, raw.from);
  clade__strides(y, raw.to);
  for (int i = 0; i < x->rank; i++) {
    int64_t at = a->at.dim[i] + (i == a->axis ? side : 0);
    raw.dim[i] = CLADE_MAX(CLADE_MIN(x->dim[i] - a->begin.dim[i], y->dim[i] - at), 0);
    raw.total *= raw.dim[i];
    raw.first_from += a->begin.dim[i] * raw.from[i];
    raw.first_to += at * raw.to[i];
  }
  int rank = clade__collapse(x->rank, raw.dim, 2, (int64_t(*const[])[CLADE_MAX_RANK]){&raw.from, &raw.to});
  p = (part){.first_from = raw.first_from, .first_to = raw.first_to, .total = raw.total};
  for (int i = 0; i < CLADE_MAX_RANK; i++) {
    int k = i - (CLADE_MAX_RANK - rank);
    p.dim[i] = k < 0 ? 1 : raw.dim[k];
    p.from[i] = k < 0 ? 0 : raw.from[k];
    p.to[i] = k < 0 ? 0 : raw.to[k];
  }
  return p;
}

/* The result around the part of a single operand. Axes are outermost first, and merged where the part spans the whole
 * inner axis. */
enum { LINE = 512 };
typedef struct whole {
  int rank;
  int64_t dim[CLADE_MAX_RANK], low[CLADE_MAX_RANK], high[CLADE_MAX_RANK], stride[CLADE_MAX_RANK], first;
} whole;

static whole whole_of(const clade_node *n) {
  const clade__frame_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape, *y = &n->out[0].shape;
  int64_t own[CLADE_MAX_RANK] = {0};
  whole w = {.dim = {1}, .high = {1}};
  clade__strides(x, own);
  for (int i = 0; i < x->rank; i++) {
    int64_t d = y->dim[i], low = a->at.dim[i];
    int64_t high = low + CLADE_MAX(CLADE_MIN(x->dim[i] - a->begin.dim[i], d - low), 0);
    bool all = low == 0 && high == d;
    w.first += (a->begin.dim[i] - low) * own[i];
    if (all && d == 1) continue;
    bool join = w.rank && all && w.stride[w.rank - 1] == own[i] * d;
    int at = join ? w.rank - 1 : w.rank++;
    int64_t scale = join ? d : 1;
    w.dim[at] = join ? w.dim[at] * d : d;
    w.low[at] = join ? w.low[at] * scale : low;
    w.high[at] = join ? w.high[at] * scale : high;
    w.stride[at] = own[i];
  }
  w.rank = CLADE_MAX(w.rank, 1);
  return w;
}

/* The axes, the bounds of the part, and the fill value. */
static void emit_axes(clade_kernel_step *s, const clade_node *n) {
  const uint64_t fill = (uint64_t)((const clade__frame_attrs *)n->attrs)->fill;
  const whole w = whole_of(n);
  clade_emit_i32(s, w.rank);
  clade__emit_last(s, w.rank, w.dim, 1);
  clade__emit_last(s, w.rank, w.low, 0);
  clade__emit_last(s, w.rank, w.high, 1);
  clade__emit_last(s, w.rank, w.stride, 0);
  clade_emit_index(s, w.first);
  clade_emit_u32(s, (uint32_t)(fill & 0xffffffffu));
  clade_emit_u32(s, (uint32_t)(fill >> 32));
}

static void emit_whole(clade_emit *e, const clade_query *q, int64_t total) {
  const clade_node *n = q->node;
  int64_t piece = clade__piece(q->device, total, 1, 1 << 14);
  bool cpu = q->device->device_class == CLADE_CPU;
  if (cpu) piece = clade__up(piece, 16);
  clade_kernel_step *s = clade_emit_kernel(e, "frame_whole_ref");
  clade_emit_define_text(s, "T", clade__raw_name(n->out[0].dtype));
  clade_emit_define(s, "LINE", cpu ? LINE : 1);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_index(s, piece);
  emit_axes(s, n);
  clade_emit_i32(s, clade__streams(q->device, &n->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(total, piece));
}

static void emit_places(clade_kernel_step *s, const part *p) {
  clade_emit_index8(s, CLADE_MAX_RANK, p->dim);
  clade_emit_index8(s, CLADE_MAX_RANK, p->from);
  clade_emit_index8(s, CLADE_MAX_RANK, p->to);
  clade_emit_index(s, p->first_from);
  clade_emit_index(s, p->first_to);
}

static void emit_part(clade_emit *e, const clade_query *q, int operand, const part *p) {
  int64_t row = p->dim[CLADE_MAX_RANK - 1], chunk = clade__piece(q->device, row, 1, 1 << 14);
  int64_t chunks = clade__ceil_div(row, chunk), items = p->total / row * chunks;
  clade_kernel_step *s = clade_emit_kernel(e, "frame_part_ref");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  clade_emit_in(s, operand);
  clade_emit_out(s, 0);
  clade_emit_index(s, items);
  clade_emit_index(s, chunk);
  clade_emit_index(s, chunks);
  emit_places(s, p);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, items);
}

/* Calls `part_of_it` for each operand's part that is not empty. */
static void emit_parts(clade_emit *e, const clade_query *q,
                       void (*part_of_it)(clade_emit *, const clade_query *, int, const part *)) {
  const clade_node *n = q->node;
  const int axis = ((const clade__frame_attrs *)n->attrs)->axis;
  int64_t side = 0;
  for (int k = 0; k < n->n_in; k++) {
    part p = part_of(n, k, side);
    if (p.total) part_of_it(e, q, k, &p);
    side += n->in[k].shape.dim[axis];
  }
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_shape *y = &q->node->out[0].shape;
  if (q->node->n_in == 1)
    emit_whole(e, q, clade__product(y, 0, y->rank));
  else
    emit_parts(e, q, emit_part);
  return CLADE_OK;
}

/* ---- group: four consecutive elements per work-item ---- */
static const char *group_accept(const clade_query *q) { return clade__group_refuses(q, 4); }

static void group_part(clade_emit *e, const clade_query *q, int operand, const part *p) {
  const int64_t row = p->dim[CLADE_MAX_RANK - 1], fours = (row + 3) / 4, items = p->total / row * fours;
  clade_kernel_step *s = clade_emit_kernel(e, "frame_part_group");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  clade_emit_in(s, operand);
  clade_emit_out(s, 0);
  clade_emit_index(s, items);
  clade_emit_index(s, fours);
  emit_places(s, p);
  clade__emit_fours(s, 4 * items);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const int64_t total = clade__product(&n->out[0].shape, 0, n->out[0].shape.rank);
  if (n->n_in > 1) {
    emit_parts(e, q, group_part);
    return CLADE_OK;
  }
  clade_kernel_step *s = clade_emit_kernel(e, "frame_whole_group");
  clade_emit_define_text(s, "T", clade__raw_name(n->out[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  emit_axes(s, n);
  clade__emit_fours(s, total);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = cost, .emit = group_emit, .file = "frame_group"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = cost, .emit = emit), NULL};

const clade_op clade__op_frame = {
    .size = sizeof(clade_op),
    .name = "frame",
    .min_in = 1,
    .max_in = CLADE_MAX_OPERANDS,
    .n_out = 1,
    .attr_bytes = sizeof(clade__frame_attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .ties = ties,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

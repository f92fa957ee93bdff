/* Permutation of the axes, with a copy (`torch.permute`). */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"
#include "op/move/view.h"

typedef struct attrs {
  int32_t rank, axis[CLADE_MAX_RANK]; /* axis i of the result is axis[i] of the operand */
} attrs;
static const clade_attr table[] = {{"rank", CLADE_ATTR_I32, offsetof(attrs, rank), 1},
                                   {"axes", CLADE_ATTR_I32, offsetof(attrs, axis), CLADE_MAX_RANK},
                                   {0}};

static clade_status infer(clade_node *n) {
  const attrs *at = n->attrs;
  const clade_shape *from = &n->in[0].shape;
  clade_shape to = {.rank = from->rank};
  bool seen[CLADE_MAX_RANK] = {false};
  CLADE_TRY(clade__want_dense(n));
  if (at->rank != from->rank)
    return CLADE_FAIL(BAD_SHAPE, "transpose: the permutation has %d axes, but x has rank %d", at->rank, from->rank);
  for (int i = 0; i < from->rank; i++) {
    int axis = at->axis[i];
    if (axis < 0 || axis >= from->rank)
      return CLADE_FAIL(INVALID, "transpose: permutation[%d] is %d; expected 0 to %d", i, axis, from->rank - 1);
    if (seen[axis])
      return CLADE_FAIL(INVALID, "transpose: axis %d is twice in the permutation, at last as permutation[%d]", axis, i);
    seen[axis] = true;
    to.dim[i] = from->dim[axis];
  }
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = to};
  return CLADE_OK;
}

static void ties(clade_ties *t, const clade_node *n) {
  const attrs *at = n->attrs;
  for (int i = 0; i < at->rank; i++) clade_tie_axes(t, 0, at->axis[i], 1, i);
}

static void dims(clade_dims *d, const clade_node *n) {
  const attrs *at = n->attrs;
  for (int i = 0; i < at->rank; i++) clade__dims_axis(d, n, at->axis[i], i);
}

static clade_status grad(clade_grad *g) {
  const attrs *at = g->node->attrs;
  int back[CLADE_MAX_RANK] = {0};
  for (int i = 0; i < at->rank; i++) back[at->axis[i]] = i;
  g->din[0] = clade_transpose(g->graph, g->dout[0], at->rank, back);
  return CLADE_OK;
}

bool clade__transpose_view(const clade_node *n, clade__view *v) {
  const attrs *at = n->attrs;
  const clade__view from = *v;
  for (int i = 0; i < at->rank; i++) {
    v->shape.dim[i] = from.shape.dim[at->axis[i]];
    v->stride[i] = from.stride[at->axis[i]];
  }
  return true;
}

/* The result's axes and their strides in the operand; axes that are contiguous in both are merged. */
typedef struct walk {
  int rank;
  clade_shape to;
  int64_t stride[CLADE_MAX_RANK];
} walk;
static walk walk_of(const clade_query *q) {
  const clade_node *n = q->node;
  const attrs *at = n->attrs;
  walk w = {.to = n->out[0].shape};
  int64_t own[CLADE_MAX_RANK] = {0};
  clade__strides(&n->in[0].shape, own);
  for (int i = 0; i < w.to.rank; i++) w.stride[i] = own[at->axis[i]];
  w.rank = clade__collapse(w.to.rank, w.to.dim, 1, (int64_t(*const[])[CLADE_MAX_RANK]){&w.stride});
  return w;
}

/* ---- tiles: the last axis of the operand moves; this axis and the result's last axis are tiled ---- */
enum { TILE = 16, ROWS = 64, SPAN = 256, LONG_SPAN = 4096, NEAR = 512 };

/* The result's axis that is the operand's last one. */
static int last_of(const walk *w) {
  for (int i = 0; i + 1 < w->rank; i++)
    if (w->stride[i] == 1) return i;
  return -1;
}

static const char *tiles_accept(const clade_query *q) {
  walk w = walk_of(q);
  int last = last_of(&w);
  if (clade__element_bytes(q->node->out[0].dtype) > 4) return "requires elements of up to 32 bits";
  if (last < 0) return "the last axis stays the last one";
  return w.to.dim[last] < TILE || w.to.dim[w.rank - 1] < TILE ? "an axis is shorter than a tile" : NULL;
}

static double tiles_cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

/* The axes beside the two tiled ones, outermost first: at most six. */
typedef struct other_axes {
  int64_t count, dim[6], from[6], to[6];
  int64_t step[CLADE_MAX_RANK]; /* of all axes of the result */
} other_axes;
static other_axes others_of(const walk *w, int one, int other) {
  other_axes o = {.count = 1, .dim = {1, 1, 1, 1, 1, 1}};
  clade_shape to = w->to;
  to.rank = w->rank;
  clade__strides(&to, o.step);
  for (int i = other, n = 5; i >= 0; i--) {
    if (i == one || i == other) continue;
    o.dim[n] = w->to.dim[i];
    o.from[n] = w->stride[i];
    o.to[n--] = o.step[i];
    o.count *= w->to.dim[i];
  }
  return o;
}

static void emit_others(clade_kernel_step *s, const other_axes *o) {
  clade_emit_index8(s, 6, o->dim);
  clade_emit_index8(s, 6, o->from);
  clade_emit_index8(s, 6, o->to);
}

static clade_status tiles_emit(clade_emit *e, const clade_query *q) {
  walk w = walk_of(q);
  int last = last_of(&w);
  other_axes o = others_of(&w, last, w.rank - 1);
  int64_t wide = w.to.dim[last], high = w.to.dim[w.rank - 1], step = o.step[last];
  /* strips store whole cache lines one by one; the lines in between follow before their pages leave the TLB */
  bool large = clade__streams(q->device, &q->node->out[0]), lines = step % TILE == 0 && high % TILE == 0;
  size_t bytes = clade__element_bytes(q->node->out[0].dtype);
  bool strip = lines && step <= NEAR && bytes == 4;
  int64_t rows = strip ? TILE : ROWS, span = strip ? LONG_SPAN : large ? SPAN : ROWS;
  int64_t blocks = o.count * clade__ceil_div(high, rows);
  while (span > ROWS && blocks * clade__ceil_div(wide, span) < 4 * (int64_t)q->device->compute_units) span /= 2;
  int64_t items = blocks * clade__ceil_div(wide, span);
  clade_kernel_step *s = clade_emit_kernel(e, "broadcast_forward_tiles");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  clade_emit_define(s, "BYTES", (int64_t)bytes);
  clade_emit_define(s, "STRIP", strip);
  clade_emit_define(s, "ROWS", rows);
  clade_emit_define(s, "SPAN", SPAN);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, items);
  clade_emit_index(s, wide);
  clade_emit_index(s, high);
  clade_emit_index(s, span);
  clade_emit_index(s, w.stride[w.rank - 1]);
  clade_emit_index(s, step);
  emit_others(s, &o);
  clade_emit_i32(s, large && lines);
  clade__emit_flat(s, q->device, items);
  return CLADE_OK;
}

/* ---- runs: the last axis stays the last one; contiguous runs are permuted ---- */
enum { LEAST_RUN = 8, LEAST_BLOCK = 128, LONG_LINE = 1 << 12 };

/* The result's axis that is the operand's last but one. */
static int next_of(const walk *w) {
  for (int i = 0; i + 2 < w->rank; i++)
    if (w->stride[w->rank - 1] == 1 && w->stride[i] == w->to.dim[w->rank - 1]) return i;
  return -1;
}

static const char *runs_accept(const clade_query *q) {
  walk w = walk_of(q);
  if (next_of(&w) < 0) return "the last axis moves, or the last but one stays";
  int64_t run = w.to.dim[w.rank - 1], line = run * w.to.dim[next_of(&w)];
  if (run < LEAST_RUN || line > LONG_LINE) return "contiguous runs are too short, or the lines of runs too long";
  return line * w.to.dim[w.rank - 2] < LEAST_BLOCK ? "too few elements move at once" : NULL;
}

static clade_status runs_emit(clade_emit *e, const clade_query *q) {
  walk w = walk_of(q);
  int next = next_of(&w);
  other_axes o = others_of(&w, next, w.rank - 2);
  int64_t run = w.to.dim[w.rank - 1], wide = w.to.dim[next], high = w.to.dim[w.rank - 2];
  int64_t rows = clade__rows(q->device, o.count * high, wide * run);
  clade_kernel_step *s = clade_emit_kernel(e, "broadcast_forward_runs");
  rows = CLADE_MIN(rows, high);
  int64_t items = o.count * clade__ceil_div(high, rows);
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, items);
  clade_emit_index(s, wide);
  clade_emit_index(s, high);
  clade_emit_index(s, run);
  clade_emit_index(s, rows);
  clade_emit_index(s, w.stride[w.rank - 2]);
  clade_emit_index(s, o.step[next]);
  emit_others(s, &o);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, items);
  return CLADE_OK;
}

/* ---- group: tiles are transposed in local memory; if the last axis stays, four consecutive elements per work-item
 * ---- */
enum { GROUP_TILE = CLADE__TURNED_TILE, LEAST_AXIS = 8 };

static const char *group_accept(const clade_query *q) {
  const walk w = walk_of(q);
  const int last = last_of(&w);
  if (w.rank == 1) return "only axes of size 1 move";
  if (w.stride[w.rank - 1] == 1) return clade__group_refuses(q, 4);
  if (clade__element_bytes(q->node->out[0].dtype) > 4) return "requires elements of up to 32 bits";
  if (last < 0) return "the source's last axis does not move";
  if (CLADE_MIN(w.to.dim[last], w.to.dim[w.rank - 1]) < LEAST_AXIS) return "an axis is shorter than eight elements";
  return clade__group_refuses(q, 2 * GROUP_TILE);
}

static void emit_turned(clade_emit *e, const char *T, const other_axes *o, int64_t wide, int64_t high, int64_t from,
                        int64_t to) {
  const int64_t tiles = o->count * clade__ceil_div(wide, GROUP_TILE) * clade__ceil_div(high, GROUP_TILE);
  const size_t group = CLADE__GROUP_ITEMS;
  clade_kernel_step *s = clade_emit_kernel(e, "transpose_forward_group");
  if (s) s->file = "transpose_group";
  clade_emit_define_text(s, "T", T);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, tiles);
  clade_emit_index(s, wide);
  clade_emit_index(s, high);
  clade_emit_index(s, from);
  clade_emit_index(s, to);
  emit_others(s, o);
  clade_emit_range(s, 1, &(size_t){(size_t)tiles * group}, &group);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const walk w = walk_of(q);
  const int last = last_of(&w);
  if (w.stride[w.rank - 1] == 1) {
    clade__emit_strided_fours(e, clade__raw_name(q->node->out[0].dtype), 1, w.rank, w.to.dim, w.stride);
    return CLADE_OK;
  }
  const other_axes o = others_of(&w, last, w.rank - 1);
  emit_turned(e, clade__raw_name(q->node->out[0].dtype), &o, w.to.dim[last], w.to.dim[w.rank - 1], w.stride[w.rank - 1],
              o.step[last]);
  return CLADE_OK;
}

void clade__emit_turned(clade_emit *e, const char *T, int64_t matrices, int64_t rows, int64_t columns) {
  const other_axes o = {matrices, {1, 1, 1, 1, 1, matrices}, {[5] = rows * columns}, {[5] = rows * columns}, {0}};
  emit_turned(e, T, &o, columns, rows, columns, rows);
}

/* ---- ref ---- */
static double ref_cost(const clade_query *q) { return 2 * tiles_cost(q); }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  walk w = walk_of(q);
  if (w.rank == 1 && w.stride[0] <= 1) /* only axes of size 1 moved, so this is a copy */
    clade_emit_copy(e, 0, 0);
  else
    clade__emit_strided(e, q, clade__raw_name(q->node->out[0].dtype), 1, w.rank, w.to.dim, w.stride);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "tiles", CLADE__LONG_VEC, .accept = tiles_accept, .cost = tiles_cost, .emit = tiles_emit),
    CLADE_IMPL(.name = "runs", CLADE__LONG_VEC, .accept = runs_accept, .cost = tiles_cost, .emit = runs_emit),
    CLADE_IMPL(CLADE__GROUP_PLAIN, .needs_local = CLADE__TURNED_LOCAL, .accept = group_accept, .cost = tiles_cost,
               .emit = group_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = ref_cost, .emit = ref_emit),
    NULL,
};

const clade_op clade__op_transpose = {
    .size = sizeof(clade_op),
    .name = "transpose",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .file = "broadcast",
    .ties = ties,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade_transpose(clade_graph *g, clade_val x, int rank, const int *permutation) {
  attrs a;
  memset(&a, 0, sizeof a);
  if (rank < 0 || rank > CLADE_MAX_RANK)
    return clade__graph_fail(g, CLADE_FAIL(INVALID, "rank is %d; expected 0 to %d", rank, CLADE_MAX_RANK), "transpose");
  if (rank > 0 && !permutation) return clade__graph_fail(g, CLADE_FAIL(INVALID, "permutation is NULL"), "transpose");
  a.rank = rank;
  for (int i = 0; i < rank; i++) a.axis[i] = permutation[i] < 0 ? permutation[i] + rank : permutation[i];
  return clade_node_add(g, &clade__op_transpose, NULL, &a, 1, &x, NULL);
}

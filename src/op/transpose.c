/* Any permutation of the axes. */
#include <clade/ops.h>

#include "op/dims.h"
#include "op/view.h"

typedef struct attrs {
  int32_t rank, axis[CLADE_MAX_RANK]; /* axis i of the result is the operand's axis[i] */
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
    return CLADE_FAIL(SHAPE, "transpose: the permutation has %d axes, but x has rank %d", at->rank, from->rank);
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

/* The result's axes with what they step over in the operand; neighbours that both have on end are one. */
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

/* ---- tiles: where the operand's last axis is another one's place, both are walked through in tiles ---- */
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
  const char *reason = clade__cpu_only(q->device);
  if (reason) return reason;
  if (clade__element_bytes(q->node->out[0].dtype) != 4) return "it moves elements of 32 bits";
  if (last < 0) return "the last axis stays the last one";
  return w.to.dim[last] < TILE || w.to.dim[w.rank - 1] < TILE ? "an axis is shorter than a tile" : NULL;
}

static double tiles_cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

static clade_status tiles_emit(clade_emit *e, const clade_query *q) {
  walk w = walk_of(q);
  int last = last_of(&w), n = 0;
  int64_t step[CLADE_MAX_RANK] = {0}, dim[6], from[6], to[6];
  w.to.rank = w.rank;
  clade__strides(&w.to, step);
  int64_t wide = w.to.dim[last], high = w.to.dim[w.rank - 1];
  int64_t others = 1;
  for (; n < 6 - (w.rank - 2); n++) dim[n] = 1, from[n] = to[n] = 0;
  for (int i = 0; i + 1 < w.rank; i++) {
    if (i == last) continue;
    dim[n] = w.to.dim[i];
    from[n] = w.stride[i];
    to[n++] = step[i];
    others *= w.to.dim[i];
  }
  /* strips store lines one by one: whole ones, and those between them follow before their pages are left */
  bool large = clade__streams(q->device, &q->node->out[0]), lines = step[last] % TILE == 0 && high % TILE == 0;
  bool strip = lines && step[last] <= NEAR;
  int64_t rows = strip ? TILE : ROWS, span = strip ? LONG_SPAN : large ? SPAN : ROWS;
  others *= (high + rows - 1) / rows;
  while (span > ROWS && others * ((wide + span - 1) / span) < 4 * (int64_t)q->device->compute_units) span /= 2;
  int64_t items = others * ((wide + span - 1) / span);
  clade_kernel_step *s = clade_emit_kernel(e, "broadcast_forward_tiles");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->out[0].dtype));
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
  clade_emit_index(s, step[last]);
  clade_emit_index8(s, 6, dim);
  clade_emit_index8(s, 6, from);
  clade_emit_index8(s, 6, to);
  clade_emit_i32(s, large && lines);
  clade__emit_flat(s, q->device, items);
  return CLADE_OK;
}

/* ---- ref ---- */
static double ref_cost(const clade_query *q) { return 2 * tiles_cost(q); }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  walk w = walk_of(q);
  if (w.rank == 1 && w.stride[0] <= 1) /* only axes of size 1 have moved */
    clade_emit_copy(e, 0, 0);
  else
    clade__emit_strided(e, q, clade__raw_name(q->node->out[0].dtype), 1, w.rank, w.to.dim, w.stride);
  return CLADE_OK;
}

static const clade_impl impls[] = {
    {.name = "tiles", .accept = tiles_accept, .cost = tiles_cost, .emit = tiles_emit},
    {.name = "ref", .cost = ref_cost, .emit = ref_emit},
    {0},
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

/* Index (i32) of the first largest element along an axis; NaN counts as the largest value. */
#include <clade/ops.h>

#include <inttypes.h>

#include "ir/dimensions.h"
#include "op/group.h"
#include "op/systolic.h"

static clade_status infer(clade_node *n) {
  const clade__axis_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape;
  clade_shape y = {0};
  int axis;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_computed("arg_max", "x", n->in[0].dtype));
  CLADE_TRY(clade__axis("arg_max", a->axis, x->rank, &axis));
  if (x->dim[axis] == 0) return CLADE_FAIL(BAD_SHAPE, "arg_max: axis %d of x has no elements", axis);
  if (!clade_dim_is_symbol(x->dim[axis]) && x->dim[axis] > INT32_MAX)
    return CLADE_FAIL(BAD_SHAPE, "arg_max: axis %d of x has %" PRId64 " elements, which an i32 does not count", axis,
                      x->dim[axis]);
  for (int i = 0; i < x->rank; i++)
    if (i != axis) y.dim[y.rank++] = x->dim[i];
  n->out[0] = (clade_type){.dtype = CLADE_I32, .shape = y};
  return CLADE_OK;
}

static void dims(clade_dims *d, const clade_node *n) {
  const int axis = ((const clade__axis_attrs *)n->attrs)->axis;
  for (int i = 0; i < n->in[0].shape.rank; i++)
    if (i != axis) clade__dims_axis(d, n, i, i - (i > axis));
}

typedef struct extent {
  int64_t outer, n, inner;
} extent;
static extent extent_of(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  int axis = ((const clade__axis_attrs *)q->node->attrs)->axis;
  return (extent){clade__product(x, 0, axis), x->dim[axis], clade__product(x, axis + 1, x->rank)};
}

static double cost(const clade_query *q, double efficiency) {
  const clade_shape *x = &q->node->in[0].shape;
  return clade__cost(q->device, 2.0 * (double)clade__product(x, 0, x->rank), clade__node_bytes(q->node), efficiency);
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel) {
  extent x = extent_of(q);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, x.outer);
  clade_emit_i32(s, (int32_t)x.n);
  return s;
}

/* ---- vec: vectors along a row, or sixteen lines at a time ---- */
enum { STRIP = 1024 };

static const char *vec_accept(const clade_query *q) {
  if (extent_of(q).n > INT32_MAX - CLADE__LANES) return "positions exceed the range of i32";
  return clade__is_float(q->node->in[0].dtype) ? NULL : "requires floats";
}

static double vec_cost(const clade_query *q) { return cost(q, 0.3); }

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  extent x = extent_of(q);
  if (x.inner == 1 && x.n >= CLADE__LANES) {
    int64_t piece = clade__rows(q->device, x.outer, x.n);
    clade_kernel_step *s = begin(e, q, "arg_max_forward_rows");
    clade_emit_index(s, piece);
    clade__emit_flat(s, q->device, clade__ceil_div(x.outer, piece));
    return CLADE_OK;
  }
  bool apart = x.inner < CLADE__LANES;
  int64_t lines = x.outer * x.inner, share = lines / (4 * (int64_t)CLADE_MAX(q->device->compute_units, 1u));
  int64_t strip = apart ? CLADE__LANES : CLADE_MIN(clade__up(CLADE_MIN(x.inner, share + 1), CLADE__LANES), STRIP);
  clade_kernel_step *s = begin(e, q, "arg_max_forward_lines");
  clade_emit_define(s, "FEW_BESIDE", apart);
  clade_emit_define(s, "STRIP", apart ? CLADE__LANES : STRIP);
  clade_emit_index(s, x.inner);
  clade_emit_index(s, strip);
  clade__emit_flat(s, q->device, apart ? clade__ceil_div(lines, strip) : x.outer * clade__ceil_div(x.inner, strip));
  return CLADE_OK;
}

/* ---- group: a team of work-items reduces a line, or a part of one that a second launch combines ---- */
typedef struct teams {
  clade__group group, join;
  int64_t lines, part, parts;
} teams;
static teams teams_of(const clade_query *q) {
  const extent x = extent_of(q);
  teams t = {.lines = x.outer * x.inner};
  t.part = clade__group_part(t.lines, x.n);
  t.parts = clade__ceil_div(x.n, t.part);
  t.part = CLADE_MIN(t.part, x.n);
  t.group = clade__group_of(t.part, x.inner);
  t.join = clade__group_of(t.parts, x.inner);
  return t;
}

static const char *group_accept(const clade_query *q) {
  const teams t = teams_of(q);
  return clade__group_refuses(q, (double)t.part / (double)t.group.team + 2);
}

static double group_cost(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  return clade__group_cost(q, 8.0 * (double)clade__product(x, 0, x->rank));
}

/* Workspace: the maximum of each part, then its index. */
static size_t element_of(const clade_query *q) {
  return CLADE_MAX(clade__element_bytes(q->node->in[0].dtype), sizeof(int32_t));
}
static size_t tops_bytes(const clade_query *q) {
  const teams t = teams_of(q);
  return (size_t)(t.lines * t.parts) * element_of(q);
}
static size_t group_workspace(const clade_query *q) {
  const teams t = teams_of(q);
  return t.parts > 1 ? tops_bytes(q) + (size_t)(t.lines * t.parts) * sizeof(int32_t) : 0;
}

/* Partial maxima are stored in the compute type, so one combining kernel serves several element types. */
static const char *computed_name(const clade_query *q) {
  const clade_dtype t = q->node->in[0].dtype;
  return clade__is_float(t) ? "f32" : t == CLADE_I64 ? "i64" : "i32";
}

static void team_step(clade_emit *e, const clade_query *q, const teams *t, bool first, bool direct) {
  const int64_t parts = direct ? 1 : t->parts, n = first ? extent_of(q).n : t->parts;
  clade_kernel_step *s = clade_emit_kernel(e, "arg_max_forward_group");
  clade_emit_define_text(s, "T", first ? clade_dtype_name(q->node->in[0].dtype) : computed_name(q));
  clade_emit_define(s, "FIRST", first);
  clade_emit_define(s, "DIRECT", direct);
  if (first) {
    clade_emit_in(s, 0);
  } else {
    clade_emit_workspace(s, 0, element_of(q));
    clade_emit_workspace(s, tops_bytes(q), sizeof(int32_t));
  }
  if (direct) {
    clade_emit_out(s, 0);
  } else {
    clade_emit_workspace(s, 0, element_of(q));
    clade_emit_workspace(s, tops_bytes(q), sizeof(int32_t));
  }
  clade_emit_index(s, t->lines);
  clade_emit_index(s, n);
  clade_emit_index(s, extent_of(q).inner);
  clade_emit_index(s, parts);
  clade_emit_index(s, direct ? n : t->part);
  clade__emit_groups(s, q, first ? &t->group : &t->join, t->lines * parts);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const teams t = teams_of(q);
  team_step(e, q, &t, true, t.parts == 1);
  if (t.parts > 1) team_step(e, q, &t, false, true);
  return CLADE_OK;
}

/* ---- ref: one work-item per line ---- */
static const char *ref_accept(const clade_query *q) { return clade__cut_short(q->device, (double)extent_of(q).n); }
static double ref_cost(const clade_query *q) { return cost(q, 0.03); }
static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  extent x = extent_of(q);
  clade_kernel_step *s = begin(e, q, "arg_max_forward_ref");
  clade_emit_index(s, x.inner);
  clade__emit_flat(s, q->device, x.outer * x.inner);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", CLADE__LONG_VEC, .accept = vec_accept, .cost = vec_cost, .emit = vec_emit),
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .workspace = group_workspace,
               .emit = group_emit, .file = "arg_max_group"),
    CLADE__SYSTOLIC(arg_max) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};

const clade_op clade__op_arg_max = {
    .size = sizeof(clade_op),
    .name = "arg_max",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(clade__axis_attrs),
    .attrs = clade__axis_table,
    .infer = infer,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = dims,
};

clade_val clade_arg_max(clade_graph *g, clade_val x, int axis) {
  return clade__axis_node(g, &clade__op_arg_max, x, axis);
}

/* Tied positions: union-find over the positions along the axes of all values, joined by the ops' rules. */
#include "ir/ties.h"

#include <inttypes.h>

struct clade_ties {
  const clade_graph *g;
  size_t n, *first; /* number of positions; first position of each value, its axes one after another */
  size_t *parent;
  bool *kept; /* by root: the set must be kept */
  const clade__node *node;
  clade_status status; /* error of a rule that names something that does not exist */
};

/* ---- union-find ---- */
static size_t root(const clade_ties *t, size_t place) {
  while (t->parent[place] != place) place = t->parent[place] = t->parent[t->parent[place]];
  return place;
}

static void join(clade_ties *t, size_t a, size_t b) {
  a = root(t, a);
  b = root(t, b);
  t->kept[a] = t->kept[b] = t->kept[a] || t->kept[b];
  t->parent[CLADE_MAX(a, b)] = CLADE_MIN(a, b);
}

static size_t place_of(const clade_ties *t, clade__id value, int axis, int64_t at) {
  const clade_shape *shape = &t->g->values[value].type.shape;
  size_t place = t->first[value] + (size_t)at;
  for (int i = 0; i < axis; i++) place += (size_t)shape->dim[i];
  return place;
}

size_t clade__ties_of(const clade_ties *t, clade__id value, int axis, int64_t at) {
  return root(t, place_of(t, value, axis, at));
}
size_t clade__ties_count(const clade_ties *t) { return t->n; }
bool clade__ties_kept(const clade_ties *t, size_t number) { return t->kept[root(t, number)]; }

/* ---- declarations of rules ---- */
/* The value with operand or result number `a`, if `n` positions from `at` on exist along its axis. */
static clade__id value_of(clade_ties *t, int a, int axis, int64_t at, int64_t n) {
  const clade__node *node = t->node;
  if (t->status != CLADE_OK) return 0;
  if (a >= 0 && a < node->n_in + node->n_out) {
    const clade__id value = a < node->n_in ? node->in[a] : node->first_out + (clade__id)(a - node->n_in);
    const clade_shape *shape = &t->g->values[value].type.shape;
    if (axis >= 0 && axis < shape->rank && at >= 0 && n >= 0 && at <= shape->dim[axis] && n <= shape->dim[axis] - at)
      return value;
  }
  t->status = CLADE_FAIL(INVALID,
                         "%s: its rule for pruning ties %" PRId64 " places from %" PRId64
                         " on of axis %d of operand or result %d, which are not there",
                         node->op->name, n, at, axis, a);
  return 0;
}

void clade_tie(clade_ties *t, int a, int axis_a, int64_t at_a, int b, int axis_b, int64_t at_b, int64_t n) {
  if (!t) return;
  const clade__id x = value_of(t, a, axis_a, at_a, n), y = value_of(t, b, axis_b, at_b, n);
  for (int64_t i = 0; x && y && i < n; i++) join(t, place_of(t, x, axis_a, at_a + i), place_of(t, y, axis_b, at_b + i));
}

static int64_t length(clade_ties *t, int a, int axis) {
  const clade__id value = value_of(t, a, axis, 0, 0);
  return value ? t->g->values[value].type.shape.dim[axis] : 0;
}

void clade_tie_axes(clade_ties *t, int a, int axis_a, int b, int axis_b) {
  if (t) clade_tie(t, a, axis_a, 0, b, axis_b, 0, CLADE_MAX(length(t, a, axis_a), length(t, b, axis_b)));
}

void clade_keep_axis(clade_ties *t, int a, int axis) {
  const int64_t n = t ? length(t, a, axis) : 0;
  const clade__id value = n ? value_of(t, a, axis, 0, n) : 0;
  for (int64_t i = 0; i < n; i++) t->kept[clade__ties_of(t, value, axis, i)] = true;
}

bool clade_axis_kept(const clade_ties *t, int a, int axis) {
  clade_ties *all = (clade_ties *)(uintptr_t)t; /* errors are stored in it */
  const int64_t n = t ? length(all, a, axis) : 0;
  const clade__id value = n ? value_of(all, a, axis, 0, n) : 0;
  for (int64_t i = 0; i < n; i++)
    if (!t->kept[clade__ties_of(t, value, axis, i)]) return false;
  return true;
}

void clade__keep_axes(clade_ties *t, const clade_node *n, int a, int first) {
  for (int i = first; i < clade__tied_shape(n, a)->rank; i++) clade_keep_axis(t, a, i);
}

void clade__tie_broadcast(clade_ties *t, const clade_node *n, int first) {
  const clade_shape *y = &n->out[0].shape;
  for (int k = first; k < n->n_in; k++)
    for (int i = 0; i < n->in[k].shape.rank; i++) {
      const int axis = i + y->rank - n->in[k].shape.rank;
      if (n->in[k].shape.dim[i] == y->dim[axis])
        clade_tie_axes(t, k, i, n->n_in, axis);
      else
        clade_keep_axis(t, k, i); /* a size of 1 that is broadcast */
    }
}

void clade__tie_same(clade_ties *t, const clade_node *n) { clade__tie_broadcast(t, n, 0); }

/* ---- whole graph ---- */
static void keep_value(clade_ties *t, clade__id value) {
  const clade_shape *shape = &t->g->values[value].type.shape;
  for (int axis = 0; axis < shape->rank; axis++)
    for (int64_t i = 0; i < shape->dim[axis]; i++) t->kept[clade__ties_of(t, value, axis, i)] = true;
}

static clade_status tie_node(clade_ties *t, clade__id id) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade__node *node = t->node = &t->g->nodes[id];
  void (*rule)(clade_ties *, const clade_node *) = CLADE__FIELD(node->op, ties, NULL);
  if (node->op == &clade__op_variable) return CLADE_OK;
  clade__node_view(t->g, id, in, out, &view);
  if (rule) rule(t, &view);
  for (int i = 0; !rule && i < node->n_in; i++) keep_value(t, node->in[i]);
  for (int i = 0; !rule && i < node->n_out; i++) keep_value(t, node->first_out + (clade__id)i);
  return t->status;
}

static clade_status count_places(clade_ties *t) {
  const clade_graph *g = t->g;
  t->first = clade__new(g->n_values, sizeof *t->first);
  if (!t->first) return CLADE_NO_MEMORY;
  for (clade__id value = 1; value < g->n_values; value++) {
    const clade_type *type = &g->values[value].type;
    const clade__node *node = &g->nodes[g->values[value].node];
    char text[640];
    t->first[value] = t->n;
    if (!clade_shape_is_constant(&type->shape))
      return CLADE_FAIL(BAD_SHAPE, "%s \"%s\" is %s: a graph that is pruned has sizes for all dimensions",
                        node->op->name, node->name, clade__type_text(type, text, sizeof text));
    for (int axis = 0; axis < type->shape.rank; axis++)
      if (!clade__add(t->n, (size_t)type->shape.dim[axis], &t->n))
        return CLADE_FAIL(OVERFLOW, "pruning: too many places");
  }
  t->parent = clade__new(t->n, sizeof *t->parent);
  t->kept = clade__new(t->n, sizeof *t->kept);
  if (!t->parent || !t->kept) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < t->n; i++) t->parent[i] = i;
  return CLADE_OK;
}

static clade_status keep_ends(clade_ties *t) {
  const clade_graph *g = t->g;
  uint32_t *uses;
  CLADE_TRY(clade__graph_uses(g, &uses));
  for (size_t i = 0; i < g->outputs.count; i++) keep_value(t, g->outputs.at[i].value);
  for (size_t i = 0; i < g->variables.count; i++)
    if (!uses[g->variables.at[i].value]) keep_value(t, g->variables.at[i].value);
  clade__free(uses);
  return CLADE_OK;
}

clade_status clade__ties_new(const clade_graph *g, clade_ties **out) {
  clade_status status;
  *out = NULL;
  clade_ties *t = clade__new(1, sizeof *t);
  if (!t) return CLADE_NO_MEMORY;
  t->g = g;
  CLADE_GOTO(count_places(t));
  for (clade__id id = 1; id < g->n_nodes; id++) CLADE_GOTO(tie_node(t, id));
  CLADE_GOTO(keep_ends(t));
  *out = t;
  return CLADE_OK;
fail:
  clade__ties_free(t);
  return status;
}

void clade__ties_free(clade_ties *t) {
  if (!t) return;
  clade__free(t->first);
  clade__free(t->parent);
  clade__free(t->kept);
  clade__free(t);
}

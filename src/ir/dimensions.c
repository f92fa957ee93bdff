/* Collects and validates the dimensions that an op's rule declares for a node. */
#include "ir/dimensions.h"

#include <inttypes.h>

enum { MOST = 2 * CLADE_MAX_RANK, MOST_ALONG = 2 * CLADE_MAX_OPERANDS, MOST_ATTRS = 4 };

typedef struct dimension {
  clade__dimension d;
  clade__along along[MOST_ALONG];
  clade__dim_attr attrs[MOST_ATTRS];
} dimension;

struct clade_dims {
  const clade_node *node;
  int n;
  dimension dim[MOST];
  clade_status status;
};

/* ---- declarations of rules ---- */
static void refuse(clade_dims *d, const char *what, int64_t number) {
  if (d->status == CLADE_OK)
    d->status = CLADE_FAIL(INVALID, "%s: its rule for dimensions names %s %" PRId64 ", which is not there or too much",
                           d->node->op->name, what, number);
}

static dimension *dim_of(clade_dims *d, int dim) {
  if (!d || d->status != CLADE_OK) return NULL;
  if (dim >= 0 && dim < d->n) return &d->dim[dim];
  refuse(d, "dimension", dim);
  return NULL;
}

int clade_dims_add(clade_dims *d, clade_dim_kind kind) {
  if (!d) return -1;
  const bool known = (kind >= CLADE_DIM_EACH && kind <= CLADE_DIM_MEAN) || (int)kind == CLADE__DIM_CLASSES;
  if (d->n == MOST || !known) {
    refuse(d, known ? "dimension" : "a kind of dimension", known ? d->n : (int)kind);
    return -1;
  }
  d->dim[d->n].d = (clade__dimension){.kind = kind, .size = -1};
  return d->n++;
}

static const clade_shape *shape_of(const clade_node *n, int a) {
  return a < n->n_in ? &n->in[a].shape : &n->out[a - n->n_in].shape;
}

void clade_dims_along(clade_dims *d, int dim, int a, int axis, int64_t block) {
  dimension *to = dim_of(d, dim);
  if (!to) return;
  const clade_node *n = d->node;
  if (a < 0 || a >= n->n_in + n->n_out || to->d.n_along == MOST_ALONG) {
    refuse(d, "operand or result", a);
    return;
  }
  const clade_shape *shape = shape_of(n, a);
  if (axis < 0 || axis >= shape->rank) {
    refuse(d, "axis", axis);
    return;
  }
  for (int i = 0; i < to->d.n_along; i++)
    if (to->along[i].a == a) refuse(d, "a second axis of operand or result", a);
  const int64_t length = shape->dim[axis];
  if (block < 1 || length % block || (to->d.size >= 0 && length / block != to->d.size))
    refuse(d, "blocks that do not fit, of", block);
  to->d.size = block > 0 ? length / block : 0;
  to->along[to->d.n_along++] = (clade__along){(uint8_t)a, (uint8_t)axis, block};
}

static void mark(clade_dims *d, uint64_t *mask, int operand) {
  if (operand < 0 || operand >= d->node->n_in)
    refuse(d, "operand", operand);
  else
    *mask |= UINT64_C(1) << operand;
}

void clade_dims_numbers(clade_dims *d, int dim, int operand) {
  dimension *to = dim_of(d, dim);
  if (!to) return;
  mark(d, &to->d.numbers, operand);
  if (d->status == CLADE_OK && d->node->in[operand].dtype != CLADE_I32)
    refuse(d, "numbers that are no i32, in", operand);
}

void clade_dims_once(clade_dims *d, int dim, int operand) {
  dimension *to = dim_of(d, dim);
  if (!to) return;
  mark(d, &to->d.once, operand);
  if (to->d.kind != CLADE_DIM_SUM || d->node->n_out != 1) refuse(d, "what is added once to no single sum, in", operand);
}

/* Bytes of the numeric attribute at the offset; 0: none begins there. */
static size_t number_at(const clade_op *op, size_t offset) {
  for (const clade_attr *t = op->attrs; t && t->name; t++) {
    const bool shape = t->kind == CLADE_ATTR_SHAPE, wide = t->kind == CLADE_ATTR_I64;
    if (!shape && !wide && t->kind != CLADE_ATTR_I32) continue;
    const size_t each = clade__attr_size(t->kind), at = offset - t->offset;
    if (offset < t->offset || at >= each * t->count) continue;
    if (!shape) return at % each == 0 ? each : 0;
    const size_t dim = at % each - offsetof(clade_shape, dim);
    return at % each >= offsetof(clade_shape, dim) && dim % sizeof(clade_dim) == 0 ? sizeof(clade_dim) : 0;
  }
  return 0;
}

void clade_dims_attr(clade_dims *d, int dim, size_t offset, int64_t base, int64_t by_begin, int64_t by_length) {
  dimension *to = dim_of(d, dim);
  if (!to) return;
  if (!number_at(d->node->op, offset) || to->d.n_attrs == MOST_ATTRS)
    refuse(d, "attribute at", (int64_t)offset);
  else
    to->attrs[to->d.n_attrs++] = (clade__dim_attr){offset, base, by_begin, by_length};
}

/* ---- shared rules ---- */
void clade__dims_broadcast(clade_dims *d, const clade_node *n, int first) {
  const clade_shape *y = &n->out[0].shape;
  for (int i = 0; i < y->rank; i++) {
    const int dim = clade_dims_add(d, CLADE_DIM_EACH);
    for (int k = 0; k < n->n_out; k++) clade_dims_along(d, dim, n->n_in + k, i, 1);
    for (int k = first; k < n->n_in; k++) {
      const int axis = i - y->rank + n->in[k].shape.rank;
      if (axis >= 0 && n->in[k].shape.dim[axis] == y->dim[i]) clade_dims_along(d, dim, k, axis, 1);
    }
  }
}

void clade__dims_same(clade_dims *d, const clade_node *n) { clade__dims_broadcast(d, n, 0); }

int clade__dims_axis(clade_dims *d, const clade_node *n, int from, int to) {
  const int dim = clade_dims_add(d, CLADE_DIM_EACH);
  clade_dims_along(d, dim, 0, from, 1);
  clade_dims_along(d, dim, n->n_in, to, 1);
  return dim;
}

void clade__dims_length(clade_dims *d, int dim, size_t offset, int64_t block) {
  clade_dims_attr(d, dim, offset, 0, 0, block);
}

/* ---- dimensions of a node ---- */
int clade__dim_axis(const clade__dimension *d, int a) {
  for (int i = 0; i < d->n_along; i++)
    if (d->along[i].a == a) return d->along[i].axis;
  return -1;
}

static const void *keep(clade__arena *arena, const void *from, size_t bytes, bool *failed) {
  if (!bytes) return NULL;
  void *to = clade__arena_new(arena, bytes);
  *failed |= !to;
  return to ? memcpy(to, from, bytes) : NULL;
}

static clade_status keep_all(const clade_dims *d, clade__arena *arena, clade__dimension **dims) {
  bool failed = false;
  if (!d->n) return CLADE_OK;
  clade__dimension *to = clade__arena_new(arena, (size_t)d->n * sizeof *to);
  if (!to) return CLADE_NO_MEMORY;
  for (int i = 0; i < d->n; i++) {
    const dimension *from = &d->dim[i];
    to[i] = from->d;
    to[i].along = keep(arena, from->along, (size_t)from->d.n_along * sizeof *from->along, &failed);
    to[i].attrs = keep(arena, from->attrs, (size_t)from->d.n_attrs * sizeof *from->attrs, &failed);
  }
  *dims = to;
  return failed ? CLADE_NO_MEMORY : CLADE_OK;
}

clade_status clade__dims_of(const clade_graph *g, clade__id node, clade__arena *arena, int *n,
                            clade__dimension **dims) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  void (*rule)(clade_dims *, const clade_node *) = CLADE__FIELD(g->nodes[node].op, dims, NULL);
  *n = 0;
  *dims = NULL;
  if (!rule) return CLADE_OK;
  clade_dims *d = clade__new(1, sizeof *d);
  if (!d) return CLADE_NO_MEMORY;
  clade__node_view(g, node, in, out, &view);
  d->node = &view;
  rule(d, &view);
  clade_status status = d->status;
  if (status == CLADE_OK) status = keep_all(d, arena, dims);
  if (status == CLADE_OK) *n = d->n;
  clade__free(d);
  return status;
}

/* Specialization: copies a graph with sizes for its symbols and infers every shape again. */
#include "ir/ir.h"

#include <inttypes.h>

typedef struct binding {
  int n;
  const clade_dim_value *dims;
  clade__map values; /* sizes by symbol, derived ones included */
  clade__map leaves; /* the user's symbols in the graph: index into `symbols` */
  clade_dim *symbols;
  size_t count, capacity;
} binding;

static clade__hash key_of(clade_dim dim) { return clade__hash_bytes(&dim, sizeof dim); }

/* Records the user's symbols in the expression `dim`. */
static clade_status note(binding *b, clade_dim dim) {
  clade_dim left, right;
  size_t index;
  char op;
  if (!clade_dim_is_symbol(dim) || clade__map_get(&b->leaves, key_of(dim), &index)) return CLADE_OK;
  CLADE_TRY(clade__map_put(&b->leaves, key_of(dim), b->count));
  if (clade__dim_parts(dim, &op, &left, &right)) {
    CLADE_TRY(note(b, left));
    return note(b, right);
  }
  CLADE_TRY(clade__grow(&b->symbols, &b->capacity, b->count + 1, sizeof *b->symbols));
  b->symbols[b->count++] = dim;
  return CLADE_OK;
}

static clade_status note_shape(binding *b, const clade_shape *shape) {
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++) CLADE_TRY(note(b, shape->dim[i]));
  return CLADE_OK;
}

static clade_status note_node(binding *b, const clade_graph *g, const clade__node *n) {
  if (!n->n_in && n->n_out) CLADE_TRY(note_shape(b, &clade__type(g, n->first_out)->shape));
  for (const clade_attr *a = n->op->attrs; a && a->name; a++) {
    if (a->kind != CLADE_ATTR_SHAPE) continue;
    for (uint32_t i = 0; i < CLADE_MAX(a->count, 1u); i++) {
      clade_shape shape;
      memcpy(&shape, (const char *)n->attrs + a->offset + i * sizeof shape, sizeof shape);
      CLADE_TRY(note_shape(b, &shape));
    }
  }
  return CLADE_OK;
}

static int given(const binding *b, const char *name) {
  for (int i = 0; i < b->n; i++)
    if (strcmp(b->dims[i].name, name) == 0) return i;
  return -1;
}

static clade_status unknown(const binding *b, const char *name) {
  clade__text text = {0};
  for (size_t i = 0; i < b->count; i++) clade__text_add(&text, "%s%s", i ? ", " : "", clade_dim_name(b->symbols[i]));
  clade_status status =
      CLADE_FAIL(NOT_FOUND, "the graph has no dimension \"%.64s\"; it has: %s", name, text.length ? text.data : "none");
  clade__text_free(&text);
  return status;
}

static clade_status check_given(const binding *b) {
  if (b->n < 0 || (b->n && !b->dims)) return CLADE_FAIL(INVALID, "dims is NULL, %d values are expected", b->n);
  for (int i = 0; i < b->n; i++) {
    const clade_dim_value *d = &b->dims[i];
    bool found = false;
    if (!d->name) return CLADE_FAIL(INVALID, "the name of dimension value %d is NULL", i);
    if (d->value < 0)
      return CLADE_FAIL(INVALID, "dimension \"%.64s\" is %" PRId64 ": a size is expected", d->name, d->value);
    if (given(b, d->name) != i) return CLADE_FAIL(DUPLICATE, "dimension \"%.64s\" has two values", d->name);
    for (size_t k = 0; k < b->count && !found; k++) found = strcmp(clade_dim_name(b->symbols[k]), d->name) == 0;
    if (!found) return unknown(b, d->name);
  }
  return CLADE_OK;
}

static clade_status collect(binding *b, const clade_graph *g) {
  for (size_t i = 1; i < g->n_nodes; i++) CLADE_TRY(note_node(b, g, &g->nodes[i]));
  CLADE_TRY(check_given(b));
  for (size_t i = 0; i < b->count; i++) {
    int at = given(b, clade_dim_name(b->symbols[i]));
    if (at < 0) return CLADE_FAIL(NOT_FOUND, "dimension \"%s\" has no value", clade_dim_name(b->symbols[i]));
    CLADE_TRY(clade__map_put(&b->values, key_of(b->symbols[i]), (size_t)b->dims[at].value));
  }
  return CLADE_OK;
}

static clade_status evaluate(binding *b, clade_dim *dim) {
  clade_dim left, right, r;
  size_t value;
  char op;
  if (!clade_dim_is_symbol(*dim)) return CLADE_OK;
  if (clade__map_get(&b->values, key_of(*dim), &value)) {
    *dim = (clade_dim)value;
    return CLADE_OK;
  }
  if (!clade__dim_parts(*dim, &op, &left, &right))
    return CLADE_FAIL(INTERNAL, "dimension \"%s\" was not collected", clade_dim_name(*dim));
  CLADE_TRY(evaluate(b, &left));
  CLADE_TRY(evaluate(b, &right));
  r = op == '+'   ? clade_dim_add(left, right)
      : op == '-' ? clade_dim_sub(left, right)
      : op == '*' ? clade_dim_mul(left, right)
                  : clade_dim_div(left, right);
  if (r < 0)
    return CLADE_FAIL(BAD_SHAPE, "dimension \"%s\" is %" PRId64 "%c%" PRId64 ": no size", clade_dim_name(*dim), left,
                      op, right);
  CLADE_TRY(clade__map_put(&b->values, key_of(*dim), (size_t)r));
  *dim = r;
  return CLADE_OK;
}

static clade_status evaluate_shape(binding *b, clade_shape *shape) {
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++) CLADE_TRY(evaluate(b, &shape->dim[i]));
  return CLADE_OK;
}

static clade_status evaluate_attrs(binding *b, const clade_op *op, char *attrs) {
  for (const clade_attr *a = op->attrs; a && a->name; a++) {
    if (a->kind != CLADE_ATTR_SHAPE) continue;
    for (uint32_t i = 0; i < CLADE_MAX(a->count, 1u); i++) {
      char *at = attrs + a->offset + i * sizeof(clade_shape);
      clade_shape shape;
      memcpy(&shape, at, sizeof shape);
      CLADE_TRY(evaluate_shape(b, &shape));
      memcpy(at, &shape, sizeof shape);
    }
  }
  return CLADE_OK;
}

static clade_status bind_node(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  binding *b = user;
  const clade__node *n = &old->nodes[node];
  clade_type type = {0};
  if (n->n_out && !n->n_in) {
    type = *clade__type(old, n->first_out);
    CLADE_TRY(evaluate_shape(b, &type.shape));
    clade_status status = clade__type_check(&type, true); /* sizes are known now, so bytes can be checked */
    if (status != CLADE_OK) return clade__fail_in(status, "%s \"%s\"", n->op->name, n->name);
  }
  if (!n->op->attrs) return clade__node_copy_as(old, node, n->attrs, &type, g, map);
  char *attrs = clade__new(n->op->attr_bytes, 1);
  if (!attrs) return CLADE_NO_MEMORY;
  memcpy(attrs, n->attrs, n->op->attr_bytes);
  clade_status status = evaluate_attrs(b, n->op, attrs);
  if (status == CLADE_OK) status = clade__node_copy_as(old, node, attrs, &type, g, map);
  clade__free(attrs);
  return status;
}

static clade_status check_bound(const clade_graph *g) {
  for (size_t i = 1; i < g->n_values; i++) {
    const clade__node *n = &g->nodes[g->values[i].node];
    clade_status status = clade__type_check(&g->values[i].type, true);
    if (status) return clade__fail_in(status, "%s \"%s\" after its symbols were given sizes", n->op->name, n->name);
  }
  return CLADE_OK;
}

clade_status clade__graph_bind(const clade_graph *old, int n, const clade_dim_value *dims, clade_graph **out) {
  binding b = {.n = n, .dims = dims};
  *out = NULL;
  clade_status status = collect(&b, old);
  if (status == CLADE_OK) status = clade__graph_rewrite(old, bind_node, &b, out);
  if (status == CLADE_OK) status = check_bound(*out);
  if (status) {
    clade_graph_release(*out);
    *out = NULL;
  }
  clade__map_free(&b.values);
  clade__map_free(&b.leaves);
  clade__free(b.symbols);
  return status;
}

/* Hash of what a graph computes, equal in all processes: symbols by name, pointers by contents. */
#include "ir/ir.h"

static clade__hash more_dim(clade__hash h, clade_dim dim) {
  const char *symbol = clade_dim_name(dim);
  return symbol ? clade__hash_more_text(h, symbol) : clade__hash_more(h, &dim, sizeof dim);
}

static clade__hash more_shape(clade__hash h, const clade_shape *shape) {
  h = clade__hash_more(h, &shape->rank, sizeof shape->rank);
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++) h = more_dim(h, shape->dim[i]);
  return h;
}

clade__hash clade__type_hash(clade__hash h, const clade_type *type) {
  const clade_layout *l = &type->layout;
  const int32_t head[5] = {(int32_t)type->dtype, l->axis, l->block, l->interleave, l->tile};
  return more_shape(clade__hash_more(h, head, sizeof head), &type->shape);
}

size_t clade__attr_size(clade_attr_kind kind) {
  switch (kind) {
  case CLADE_ATTR_BOOL: return sizeof(bool);
  case CLADE_ATTR_I32: return sizeof(int32_t);
  case CLADE_ATTR_I64: return sizeof(int64_t);
  case CLADE_ATTR_F32: return sizeof(float);
  case CLADE_ATTR_DTYPE: return sizeof(clade_dtype);
  case CLADE_ATTR_SHAPE: return sizeof(clade_shape);
  case CLADE_ATTR_BYTES: return 1;
  }
  return 0;
}

clade__hash clade__attrs_hash(clade__hash h, const clade_op *op, const void *attrs) {
  if (op == &clade__op_constant) {
    const clade__constant_attrs *a = attrs;
    return clade__hash_more(clade__hash_more(h, &a->pattern, sizeof a->pattern), a->data, a->bytes);
  }
  if (!op->attrs) return op->attr_bytes ? clade__hash_more(h, attrs, op->attr_bytes) : h;
  for (const clade_attr *a = op->attrs; a->name; a++) {
    const char *at = (const char *)attrs + a->offset;
    uint32_t count = CLADE_MAX(a->count, 1u);
    if (a->kind != CLADE_ATTR_SHAPE) {
      h = clade__hash_more(h, at, count * clade__attr_size(a->kind));
      continue;
    }
    for (uint32_t i = 0; i < count; i++) {
      clade_shape shape;
      memcpy(&shape, at + i * sizeof shape, sizeof shape);
      h = more_shape(h, &shape);
    }
  }
  return h;
}

static clade__hash more_ports(clade__hash h, const clade__ports *ports) {
  h = clade__hash_more(h, &ports->count, sizeof ports->count);
  for (size_t i = 0; i < ports->count; i++) {
    const clade__port *p = &ports->at[i];
    const double initial[4] = {(double)p->initial.kind, p->initial.a, p->initial.b, p->parameter};
    h = clade__hash_more_text(h, p->name);
    h = clade__hash_more(h, &p->value, sizeof p->value);
    h = clade__hash_more(h, &p->assigned, sizeof p->assigned);
    h = clade__hash_more(h, initial, sizeof initial);
  }
  return h;
}

clade__hash clade__graph_hash(const clade_graph *g) {
  clade__hash h = {0};
  for (size_t i = 1; i < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[i];
    const int32_t head[3] = {n->n_in, n->n_out, n->device};
    h = clade__hash_more_text(h, n->op->name);
    const char *source = CLADE__FIELD(n->op, source, NULL);
    if (source) h = clade__hash_more_text(h, source);
    h = clade__hash_more_text(h, n->name);
    h = clade__hash_more(h, head, sizeof head);
    if (n->n_in) h = clade__hash_more(h, n->in, (size_t)n->n_in * sizeof *n->in);
    h = clade__attrs_hash(h, n->op, n->attrs);
    for (int k = 0; k < n->n_out; k++) h = clade__type_hash(h, &g->values[n->first_out + (clade__id)k].type);
  }
  return more_ports(more_ports(more_ports(h, &g->inputs), &g->outputs), &g->variables);
}

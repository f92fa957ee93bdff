/* Builds one rank's part of a forward graph: nodes computed along their chosen dimension, and ports. Operands come from
 * moves.c. */
#include <clade/ops.h>

#include "comm/parts.h"
#include "comm/wire.h"
#include "op/op.h"
#include "parallel/rewriter.h"

/* ---- sources ---- */
static clade_status copy_source(clade__rewriter *r, clade__id id) {
  const clade_graph *old = r->t->g;
  const clade__node *n = &old->nodes[id];
  clade__version *p = &r->at[n->first_out];
  clade_type type = *clade__type(old, n->first_out);
  if (p->state.held == CLADE__HELD_PART) {
    int64_t cuts[CLADE__MOST_PARTS + 1];
    if (clade__axis_family(r->t, n->first_out, p->state.axis) == CLADE__IN_NO_FAMILY)
      return CLADE_FAIL(UNSUPPORTED, "tensor parallelism: variable \"%s\" is split along axis %d, and cannot be here",
                        n->name, p->state.axis);
    clade__cuts_of(r, n->first_out, p->state.axis, cuts);
    type.shape.dim[p->state.axis] = cuts[r->t->rank + 1] - cuts[r->t->rank];
  }
  CLADE_TRY(clade__node_copy_as(old, id, n->attrs, &type, r->g, r->map));
  p->made = r->map[n->first_out];
  return CLADE_OK;
}

/* ---- nodes ---- */
static clade_status operand(const clade__rewriter *r, clade__id id, int i, clade__id *to) {
  const clade__node *n = &r->t->g->nodes[id];
  int axis = 0;
  switch (clade__need_of(r->t, id, i, &axis)) {
  case CLADE__NEED_PART: return clade__part_of(r, n->in[i], axis, to);
  case CLADE__NEED_SHARED: return clade__shared_of(r, n->in[i], to);
  case CLADE__NEED_NOTHING: *to = r->at[n->in[i]].made; return CLADE_OK;
  case CLADE__NEED_WHOLE: break;
  }
  return clade__whole_of(r, n->in[i], to);
}

typedef struct extent {
  int64_t begin, length; /* in blocks */
} extent;
static extent extent_of(const clade__tensor *t, const clade__dimension *d, int family) {
  const int64_t begin = clade__family_cut(t, family, d->size, t->rank);
  return (extent){begin, clade__family_cut(t, family, d->size, t->rank + 1) - begin};
}

static void write_attrs(const clade__node *n, const clade__dimension *d, extent e, void *attrs) {
  for (int i = 0; i < d->n_attrs; i++) {
    const clade__dim_attr *a = &d->attrs[i];
    const int64_t value = a->base + a->by_begin * e.begin + a->by_length * e.length;
    const int32_t narrow = (int32_t)value;
    bool is_narrow = false;
    for (const clade_attr *row = n->op->attrs; row->name; row++)
      is_narrow |= row->kind == CLADE_ATTR_I32 && a->offset >= row->offset &&
                   a->offset < row->offset + sizeof narrow * CLADE_MAX(row->count, 1u);
    memcpy((char *)attrs + a->offset, is_narrow ? (const void *)&narrow : &value,
           is_narrow ? sizeof narrow : sizeof value);
  }
}

static clade_val filled(const clade__rewriter *r, const clade_type *type, double value) {
  return clade_fill(r->g, type->dtype, type->shape, value);
}

/* Index operands become relative to the slice's beginning; operands that are added once are replaced by zeros. */
static clade_status adjust(const clade__rewriter *r, const clade__node *n, const clade__dimension *d, extent e,
                           clade__id *in) {
  for (int i = 0; i < n->n_in; i++) {
    clade_val v = clade__rewritten(r, in[i]);
    if (d->numbers >> i & 1) v = clade_sub(r->g, v, clade_fill(r->g, CLADE_I32, CLADE_SCALAR, (double)e.begin));
    if (d->once >> i & 1) v = filled(r, clade__type(r->t->g, n->in[i]), 0);
    CLADE_TRY(clade__take(r, v, &in[i]));
  }
  return CLADE_OK;
}

/* Completes partial results: scales means by the slice's length, and adds operands that must be added once. */
static clade_status finish(clade__rewriter *r, clade__id id, const clade__dimension *d, extent e, clade__id first) {
  const clade__node *n = &r->t->g->nodes[id];
  for (int i = 0; i < n->n_out; i++) {
    const clade__id value = n->first_out + (clade__id)i;
    clade__version *p = &r->at[value];
    clade_val v = clade__rewritten(r, first + (clade__id)i);
    const clade_dtype dtype = clade__type(r->t->g, value)->dtype;
    if (d->kind == CLADE_DIM_MEAN && p->state.held == CLADE__HELD_SUM && clade__is_float(dtype))
      v = clade_mul(r->g, v, clade_fill(r->g, dtype, CLADE_SCALAR, (double)e.length / (double)d->size));
    if (d->once) {
      clade__tell_move(r, "all-reduce", value, -1, "nothing");
      v = clade__comm_sum(r->g, clade__tensor_comm(r), clade__wire_of(r, value), v);
    }
    for (int k = 0; k < n->n_in; k++) {
      clade__id once = 0;
      if (!(d->once >> k & 1)) continue;
      CLADE_TRY(clade__whole_of(r, n->in[k], &once));
      v = clade_add(r->g, v, clade__rewritten(r, once));
    }
    CLADE_TRY(clade__take(r, v, &p->made));
  }
  return CLADE_OK;
}

static clade_status check_parts(const clade__rewriter *r, clade__id id, clade__id made) {
  const clade__node *n = &r->t->g->nodes[id], *new = &r->g->nodes[made];
  char have[640], want[640];
  for (int i = 0; i < n->n_out; i++) {
    const clade__id value = n->first_out + (clade__id)i;
    const clade__state s = r->at[value].state;
    clade_type type = *clade__type(r->t->g, value), *given = clade__type(r->g, new->first_out + (clade__id)i);
    if (s.held == CLADE__HELD_PART) {
      int64_t cuts[CLADE__MOST_PARTS + 1];
      clade__cuts_of(r, value, s.axis, cuts);
      type.shape.dim[s.axis] = cuts[r->t->rank + 1] - cuts[r->t->rank];
    }
    if (!clade_type_equal(&type, given))
      return CLADE_FAIL(INVALID, "%s \"%s\": a part of it gives %s as result %d; by its rule for dimensions it is %s",
                        n->op->name, n->name, clade__type_text(given, have, sizeof have), i,
                        clade__type_text(&type, want, sizeof want));
  }
  return CLADE_OK;
}

static clade_status add_part(clade__rewriter *r, clade__id id, clade__id *in) {
  const clade__tensor *t = r->t;
  const clade__node *n = &t->g->nodes[id];
  const clade__dimension *d = clade__node_along(t, id);
  const extent e = extent_of(t, d, t->work[id].family[t->along[id]]);
  clade__id made = 0;
  void *attrs = NULL;
  clade_status status;
  if (n->op->attr_bytes && !(attrs = clade__new(1, n->op->attr_bytes))) return CLADE_NO_MEMORY;
  if (attrs) memcpy(attrs, n->attrs, n->op->attr_bytes);
  write_attrs(n, d, e, attrs);
  CLADE_GOTO(adjust(r, n, d, e, in));
  CLADE_GOTO(clade__node_new(r->g, n->op, n->name, attrs, n->n_in, in, &made));
  CLADE_GOTO(check_parts(r, id, made));
  CLADE_GOTO(finish(r, id, d, e, r->g->nodes[made].first_out));
fail:
  clade__free(attrs);
  return status;
}

static clade_status add_classes(clade__rewriter *r, clade__id id, const clade__id *in) {
  const clade__tensor *t = r->t;
  const clade__node *n = &t->g->nodes[id];
  const clade__dimension *d = clade__node_along(t, id);
  const clade__some_classes c = {clade__rewritten(r, in[0]), clade__rewritten(r, in[1]),
                                 extent_of(t, d, t->work[id].family[t->along[id]]).begin, d->size, n->attrs};
  clade_val loss;
  clade__tell_move(r, "all-gather and all-reduce of rows", n->first_out, -1, "own part");
  CLADE_TRY(clade__classes_loss(r->g, t->how, &c, &loss));
  r->at[n->first_out].made = loss.id;
  return CLADE_OK;
}

static clade_status add_whole(clade__rewriter *r, clade__id id, const clade__id *in) {
  const clade__node *n = &r->t->g->nodes[id];
  clade__id made = 0;
  CLADE_TRY(clade__node_new(r->g, n->op, n->name, n->attrs, n->n_in, in, &made));
  for (int i = 0; i < n->n_out; i++)
    r->at[n->first_out + (clade__id)i].made = r->g->nodes[made].first_out + (clade__id)i;
  if (n->op == &clade__op_assign) r->assigned = in[1];
  return CLADE_OK;
}

/* Keeps the marks for mixed precision, and records the result under its representation. */
static void settle(clade__rewriter *r, clade__id id) {
  const clade__node *n = &r->t->g->nodes[id];
  for (int i = 0; i < n->n_out; i++) {
    const clade__id value = n->first_out + (clade__id)i, like = r->t->g->values[value].like;
    clade__version *p = &r->at[value];
    if (p->made && like) r->g->values[p->made].like = r->at[like].made;
    if (p->state.held == CLADE__HELD_WHOLE) p->whole = p->made;
    if (p->state.held == CLADE__HELD_PART) p->part[p->state.axis] = p->made;
  }
}

static clade_status rewrite_node(clade__rewriter *r, clade__id id) {
  const clade__node *n = &r->t->g->nodes[id];
  const clade__dimension *d = clade__node_along(r->t, id);
  clade__id in[CLADE_MAX_OPERANDS];
  r->share = n->share;
  if (n->n_in == 0 && !n->op->infer) {
    clade__stand(r, n->first_out);
    CLADE_TRY(copy_source(r, id));
    settle(r, id);
    return CLADE_OK;
  }
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(operand(r, id, i, &in[i]));
  r->g->device = n->device;
  r->g->share = n->share;
  CLADE_TRY(!d                                   ? add_whole(r, id, in)
            : (int)d->kind == CLADE__DIM_CLASSES ? add_classes(r, id, in)
                                                 : add_part(r, id, in));
  settle(r, id);
  return CLADE_OK;
}

/* ---- ports ---- */
static clade__port *last(clade__ports *ports) { return &ports->at[ports->count - 1]; }

static clade_status add_variable(clade__rewriter *r, const clade__port *from) {
  const clade__version *p = &r->at[from->value];
  CLADE_TRY(clade__port_add(r->g, &r->g->variables, from->name, p->made, from->initial));
  clade__port *to = last(&r->g->variables);
  to->parameter = from->parameter;
  to->part = from->part;
  if (p->state.held != CLADE__HELD_PART) return CLADE_OK;
  int64_t cuts[CLADE__MOST_PARTS + 1];
  clade__cuts_of(r, from->value, p->state.axis, cuts);
  to->part = (clade__part){true, p->state.axis, cuts[r->t->rank], clade__type(r->t->g, from->value)->shape};
  return CLADE_OK;
}

static clade_status add_ports(clade__rewriter *r) {
  const clade_graph *old = r->t->g;
  for (size_t i = 0; i < old->inputs.count; i++) {
    const clade__port *p = &old->inputs.at[i];
    CLADE_TRY(clade__port_add(r->g, &r->g->inputs, p->name, r->at[p->value].made, p->initial));
  }
  for (size_t i = 0; i < old->variables.count; i++) CLADE_TRY(add_variable(r, &old->variables.at[i]));
  for (size_t i = 0; i < old->outputs.count; i++) {
    const clade__port *p = &old->outputs.at[i];
    clade__id whole;
    CLADE_TRY(clade__whole_of(r, p->value, &whole));
    CLADE_TRY(clade__port_add(r->g, &r->g->outputs, p->name, whole, p->initial));
  }
  return CLADE_OK;
}

static clade_status note_assigned(clade__rewriter *r, clade__id node, clade__id value) {
  const char *name = r->t->g->nodes[r->t->g->values[r->t->g->nodes[node].in[0]].node].name;
  size_t index;
  if (!clade__map_get(&r->g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index))
    return CLADE_FAIL(INTERNAL, "tensor parallelism: variable \"%s\" is assigned and gone", name);
  r->g->variables.at[index].assigned = value;
  return CLADE_OK;
}

static clade_status rewrite(clade__rewriter *r) {
  const clade_graph *old = r->t->g;
  clade__id *assigned = clade__new(old->n_nodes, sizeof *assigned);
  clade_status status = assigned ? CLADE_OK : CLADE_NO_MEMORY;
  for (clade__id v = 1; v < old->n_values; v++) {
    r->at[v].state = clade__state_of(r->t, v);
    r->at[v].needs = clade__needs_of(r->t, v);
  }
  for (clade__id id = 1; status == CLADE_OK && id < old->n_nodes; id++) {
    r->assigned = 0;
    status = rewrite_node(r, id);
    if (assigned) assigned[id] = r->assigned;
  }
  if (status == CLADE_OK) status = add_ports(r);
  for (clade__id id = 1; status == CLADE_OK && id < old->n_nodes; id++)
    if (assigned[id]) status = note_assigned(r, id, assigned[id]);
  clade__free(assigned);
  return status;
}

static clade_status append_parts(const clade_graph *whole, const clade__tensor_how *how, clade_graph *g,
                                 clade__text *explain) {
  clade__tensor t;
  clade__rewriter r = {.t = &t, .g = g, .explain = explain, .wire = clade__comm_wire(how->wire)};
  const int device = g->device, share = g->share;
  clade_status status = clade__families_find(whole, how, &t);
  if (status == CLADE_OK) status = clade__tensor_choose(&t);
  r.at = clade__new(whole->n_values, sizeof *r.at);
  r.map = clade__new(whole->n_values, sizeof *r.map);
  if (status == CLADE_OK && !(r.at && r.map)) status = CLADE_NO_MEMORY;
  if (status == CLADE_OK && explain) clade__tensor_tell(&t, explain);
  if (status == CLADE_OK) status = rewrite(&r);
  g->device = device;
  g->share = share;
  if (status == CLADE_OK) g->tensor = how->comm;
  clade__free(r.at);
  clade__free(r.map);
  clade__families_free(&t);
  return status;
}

clade_status clade__tensor_append(const clade_graph *whole, const clade__tensor_how *how, clade_graph *g,
                                  clade__text *explain) {
  CLADE_TRY(clade_graph_status(whole));
  CLADE_TRY(clade_graph_status(g));
  if (clade_comm_size(how->comm) > CLADE__MOST_PARTS)
    return CLADE_FAIL(UNSUPPORTED, "tensor parallelism over %d ranks; expected at most %d", clade_comm_size(how->comm),
                      CLADE__MOST_PARTS);
  if (clade_comm_size(how->comm) > 1) return append_parts(whole, how, g, explain);
  clade__id *map = clade__new(whole->n_values, sizeof *map);
  if (!map) return CLADE_NO_MEMORY;
  const clade_status status = clade__graph_append(whole, NULL, NULL, g, map);
  clade__free(map);
  return status;
}

/* Values of a rank's part of a graph in the representations that their users need, and the communication that makes
 * them. */
#include <clade/ops.h>

#include "comm/parts.h"
#include "comm/wire.h"
#include "parallel/rewriter.h"

void clade__cuts_of(const clade__rewriter *r, clade__id value, int axis, int64_t *cuts) {
  const clade__tensor *t = r->t;
  const int64_t length = clade__type(t->g, value)->shape.dim[axis];
  for (int i = 0; i <= t->ranks; i++) cuts[i] = clade__family_cut(t, clade__axis_family(t, value, axis), length, i);
}

static bool is_input(const clade__rewriter *r, clade__id value) {
  return r->t->g->nodes[r->t->g->values[value].node].op == &clade__op_input;
}

/* Communication nodes inherit device and share of the value's producer; those of an input belong to the micro-batch
 * that reads it, so that all micro-batches have the same nodes. */
void clade__stand(const clade__rewriter *r, clade__id value) {
  const clade__node *n = &r->t->g->nodes[r->t->g->values[value].node];
  r->g->device = n->device;
  r->g->share = is_input(r, value) ? r->share : n->share;
}

/* Integers are transferred unchanged. */
clade_dtype clade__wire_of(const clade__rewriter *r, clade__id value) {
  return clade__is_float(clade__type(r->t->g, value)->dtype) ? r->wire : CLADE_F32;
}

void clade__tell_move(const clade__rewriter *r, const char *what, clade__id value, int axis, const char *backward) {
  if (r->explain) clade__tensor_tell_move(r->t, r->explain, what, value, axis, backward);
}

static clade_val joined(const clade__rewriter *r, clade__id value, bool in_parts) {
  const clade__version *p = &r->at[value];
  int64_t cuts[CLADE__MOST_PARTS + 1];
  clade__cuts_of(r, value, p->state.axis, cuts);
  clade__tell_move(r, "all-gather", value, p->state.axis, in_parts ? "reduce-scatter" : "nothing");
  return clade__comm_join(r->g, clade__tensor_comm(r), clade__wire_of(r, value), clade__rewritten(r, p->made),
                          p->state.axis, cuts, in_parts);
}

clade_status clade__whole_of(const clade__rewriter *r, clade__id value, clade__id *id) {
  clade__version *p = &r->at[value];
  *id = p->whole;
  if (p->whole) return CLADE_OK;
  if (!p->made) return CLADE_FAIL(INTERNAL, "tensor parallelism: a value is used that nothing made");
  clade__stand(r, value);
  clade_val whole = clade__rewritten(r, p->made);
  if (p->state.held == CLADE__HELD_SUM) {
    clade__tell_move(r, "all-reduce", value, -1, "nothing");
    whole = clade__comm_sum(r->g, clade__tensor_comm(r), clade__wire_of(r, value), whole);
  } else if (p->state.held == CLADE__HELD_PART) {
    whole = joined(r, value, false);
  }
  CLADE_TRY(clade__take(r, whole, &p->whole));
  *id = p->whole;
  return CLADE_OK;
}

static bool is_constant(const clade__rewriter *r, clade__id value) {
  return r->t->g->nodes[r->t->g->values[value].node].op == &clade__op_constant;
}

/* The value as a replicated operand of a sliced computation. Slices are gathered for this only if no other user
 * needs the whole value. */
clade_status clade__shared_of(const clade__rewriter *r, clade__id value, clade__id *id) {
  clade__version *p = &r->at[value];
  if (is_constant(r, value)) return clade__whole_of(r, value, id);
  if (!p->shared && p->state.held == CLADE__HELD_PART && !p->needs.whole &&
      !(p->needs.parts & ~(1u << p->state.axis))) {
    clade__stand(r, value);
    CLADE_TRY(clade__take(r, joined(r, value, true), &p->shared));
  } else if (!p->shared) {
    clade__id whole;
    CLADE_TRY(clade__whole_of(r, value, &whole));
    clade__stand(r, value);
    clade__tell_move(r, "nothing", value, -1, "all-reduce");
    CLADE_TRY(clade__take(r, clade__comm_share(r->g, clade__tensor_comm(r), r->wire, clade__rewritten(r, whole)),
                          &p->shared));
  }
  *id = p->shared;
  return CLADE_OK;
}

/* A fill can be shortened instead of sliced. */
static clade_status constant_part(const clade__rewriter *r, clade__id value, int axis, const int64_t *cuts,
                                  clade__id *id) {
  const clade__tensor *t = r->t;
  const clade__node *n = &t->g->nodes[t->g->values[value].node];
  clade_type type = *clade__type(t->g, value);
  type.shape.dim[axis] = cuts[t->rank + 1] - cuts[t->rank];
  CLADE_TRY(clade__node_copy_as(t->g, t->g->values[value].node, n->attrs, &type, r->g, r->map));
  *id = r->map[value];
  return CLADE_OK;
}

/* Values without a derivative are sliced without communication. */
static clade_val sliced(const clade__rewriter *r, clade__id value, clade__id whole, int axis, const int64_t *cuts) {
  clade_shape begin = {.rank = clade__type(r->t->g, value)->shape.rank}, size = clade__type(r->t->g, value)->shape;
  begin.dim[axis] = cuts[r->t->rank];
  size.dim[axis] = cuts[r->t->rank + 1] - cuts[r->t->rank];
  return clade_slice(r->g, clade__rewritten(r, whole), begin, size);
}

static clade_val turned(const clade__rewriter *r, clade__id value, int axis, const int64_t *cuts) {
  const clade__version *p = &r->at[value];
  int64_t from[CLADE__MOST_PARTS + 1];
  clade__cuts_of(r, value, p->state.axis, from);
  clade__tell_move(r, "all-to-all", value, axis, "all-to-all");
  return clade__comm_turn(r->g, clade__tensor_comm(r), clade__rewritten(r, p->made), p->state.axis, from, axis, cuts);
}

clade_status clade__part_of(const clade__rewriter *r, clade__id value, int axis, clade__id *id) {
  clade__version *p = &r->at[value];
  int64_t cuts[CLADE__MOST_PARTS + 1];
  if (is_input(r, value) && p->share != r->share) {
    memset(p->part, 0, sizeof p->part);
    p->share = r->share;
  }
  *id = p->part[axis];
  if (*id) return CLADE_OK;
  const clade_type *type = clade__type(r->t->g, value);
  const bool constant = is_constant(r, value);
  clade__cuts_of(r, value, axis, cuts);
  const clade__node *maker = &r->t->g->nodes[r->t->g->values[value].node];
  clade__stand(r, value);
  if (p->state.held == CLADE__HELD_SUM && !p->needs.whole && !p->needs.shared && p->needs.parts == 1u << axis) {
    clade__tell_move(r, "reduce-scatter", value, axis, "all-gather");
    CLADE_TRY(clade__take(r,
                          clade__comm_sum_part(r->g, clade__tensor_comm(r), clade__wire_of(r, value),
                                               clade__rewritten(r, p->made), axis, cuts),
                          id));
  } else if (clade__turns(p->state, p->needs)) {
    CLADE_TRY(clade__take(r, turned(r, value, axis, cuts), id));
  } else if (constant && ((const clade__constant_attrs *)maker->attrs)->pattern) {
    CLADE_TRY(constant_part(r, value, axis, cuts, id));
  } else {
    clade__id whole;
    CLADE_TRY(clade__whole_of(r, value, &whole));
    clade__stand(r, value);
    const bool derived = clade__is_computed_float(type->dtype) && !constant;
    if (derived) clade__tell_move(r, "own part", value, axis, "all-gather");
    CLADE_TRY(clade__take(
        r,
        derived ? clade__comm_part(r->g, clade__tensor_comm(r), r->wire, clade__rewritten(r, whole), axis, cuts)
                : sliced(r, value, whole, axis, cuts),
        id));
  }
  p->part[axis] = *id;
  return CLADE_OK;
}

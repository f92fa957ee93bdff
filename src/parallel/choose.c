/* Chooses the axis families to split: minimizes the estimated time of a step, subject to the memory limit. */
#include <math.h>

#include "op/dims.h"
#include "parallel/tensor.h"

enum { STATES = 4 /* a parameter, its gradient and two moments */, PASSES = 8, PER_ELEMENT = 10, TRAINING = 3 };

typedef struct cost {
  double bytes, seconds, moved; /* live bytes; time of a step; bytes communicated */
} cost;

typedef struct chooser {
  clade__tensor *t;
  double link, per_byte, flops;
  int stamp, *seen; /* by value */
  size_t n_touched;
  clade__id *touched;
  int *before; /* by member of the largest family: its previous choice */
  cost now;
} chooser;

/* ---- cost of nodes ---- */
static double elements(const clade_shape *shape) { return (double)clade__product(shape, 0, shape->rank); }

static double node_work(const clade__tensor *t, clade__id id) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  double n = 0;
  clade__node_view(t->g, id, in, out, &view);
  if (!view.n_in || view.op == &clade__op_assign || view.op->flags & CLADE_OP_VIEW) return 0;
  for (int i = 0; i < view.n_in; i++) n += elements(&in[i].shape);
  for (int i = 0; i < view.n_out; i++) n += elements(&out[i].shape);
  return clade__node_flops(&view) + PER_ELEMENT * n;
}

static double node_seconds(const chooser *c, clade__id id) {
  const double all = node_work(c->t, id) * (c->t->g->trains ? TRAINING : 1) / c->flops;
  return clade__node_along(c->t, id) ? all / c->t->ranks : all;
}

/* ---- cost of values ---- */
static double value_bytes(const clade__tensor *t, clade__id value) {
  const clade_type *type = clade__type(t->g, value);
  return clade__bytes_of(type->dtype, clade__product(&type->shape, 0, type->shape.rank));
}

static double on_wire(const clade__tensor *t, clade__id value) {
  const double bytes = value_bytes(t, value);
  return t->how->wire && t->how->wire != CLADE_F32 && clade__type(t->g, value)->dtype == CLADE_F32 ? bytes / 2 : bytes;
}

/* In units of half an all-reduce: an all-gather or a reduce-scatter. */
static void move(const chooser *c, cost *sum, double bytes, int halves) {
  const double moved = halves * bytes * (c->t->ranks - 1) / c->t->ranks;
  sum->moved += moved;
  sum->seconds += halves * c->link + moved * c->per_byte;
}

static int several(unsigned axes) { return (axes & (axes - 1)) != 0; }

static int forward_halves(clade__state s, clade__needs n) {
  const unsigned others = s.held == CLADE__HELD_PART ? n.parts & ~(1u << s.axis) : n.parts;
  const bool whole = n.whole || n.shared;
  if (s.held == CLADE__HELD_SUM) return whole || several(n.parts) ? 2 : n.parts ? 1 : 0;
  return s.held == CLADE__HELD_PART && (whole || others) ? 1 : 0;
}

static int backward_halves(clade__state s, clade__needs n) {
  const unsigned others = s.held == CLADE__HELD_PART ? n.parts & ~(1u << s.axis) : n.parts;
  int halves = 0;
  for (unsigned rest = others; rest; rest &= rest - 1) halves++;
  if (n.shared) halves += s.held == CLADE__HELD_PART && !n.whole && !others ? 1 : 2;
  return halves;
}

static void add_value(const chooser *c, clade__id value, cost *sum) {
  const clade__tensor *t = c->t;
  const clade__state s = clade__state_of(t, value);
  const clade__needs n = clade__needs_of(t, value);
  const clade__node *maker = &t->g->nodes[t->g->values[value].node];
  const double bytes = on_wire(t, value);
  const bool turns = clade__turns(s, n), derived = t->flows[value] && t->g->trains;
  if (turns) move(c, sum, value_bytes(t, value) / t->ranks, derived ? 2 : 1);
  if (!turns && maker->op != &clade__op_constant) move(c, sum, bytes, forward_halves(s, n));
  if (!turns && derived) move(c, sum, bytes, backward_halves(s, n));
  const bool variable = maker->op == &clade__op_variable;
  if (maker->op == &clade__op_constant || maker->op->flags & CLADE_OP_VIEW) return;
  const double times = !t->g->trains || !t->flows[value] ? 1 : variable ? STATES : 1;
  sum->bytes += value_bytes(t, value) * times / (s.held == CLADE__HELD_PART ? t->ranks : 1);
}

/* Cross-entropy gathers the rows' maxima and sums, and all-reduces the labels' logits. */
static void add_node(const chooser *c, clade__id id, cost *sum) {
  const clade__dimension *d = clade__node_along(c->t, id);
  sum->seconds += node_seconds(c, id);
  if (!d || (int)d->kind != CLADE__DIM_CLASSES) return;
  const clade__id labels = c->t->g->nodes[id].in[1];
  move(c, sum, 8 * elements(&clade__type(c->t->g, labels)->shape) * c->t->ranks, 1);
  move(c, sum, 4 * elements(&clade__type(c->t->g, labels)->shape), 2);
}

/* ---- cost of a change ---- */
static void touch(chooser *c, clade__id value) {
  if (c->seen[value] == c->stamp) return;
  c->seen[value] = c->stamp;
  c->touched[c->n_touched++] = value;
}

/* The node's values and, for an assigned variable, the new value, which is sliced alike. */
static void touch_node(chooser *c, clade__id id) {
  const clade__tensor *t = c->t;
  const clade__node *n = &t->g->nodes[id];
  for (int i = 0; i < n->n_out; i++) touch(c, n->first_out + (clade__id)i);
  for (int i = 0; i < n->n_in; i++) {
    const clade__id v = n->in[i];
    touch(c, v);
    if (t->g->nodes[t->g->values[v].node].op != &clade__op_variable) continue;
    for (size_t k = t->first_use[v]; k < t->first_use[v + 1]; k++) {
      const clade__node *user = &t->g->nodes[t->uses[k].node];
      if (user->op == &clade__op_assign && t->uses[k].operand == 0) touch(c, user->in[1]);
    }
  }
}

static cost cost_of(chooser *c, const clade__id *nodes, size_t n) {
  cost sum = {0};
  c->stamp++;
  c->n_touched = 0;
  for (size_t i = 0; i < n; i++) {
    add_node(c, nodes[i], &sum);
    touch_node(c, nodes[i]);
  }
  for (size_t i = 0; i < c->n_touched; i++) add_value(c, c->touched[i], &sum);
  return sum;
}

static double excess(const chooser *c, const cost *x) {
  return c->t->how->memory ? fmax(x->bytes - (double)c->t->how->memory, 0) : 0;
}

static cost changed(const chooser *c, const cost *before, const cost *after) {
  return (cost){c->now.bytes + after->bytes - before->bytes, c->now.seconds + after->seconds - before->seconds,
                c->now.moved + after->moved - before->moved};
}

static bool better(const chooser *c, const cost *x) {
  const double more = excess(c, x), now = excess(c, &c->now);
  if (more < now || more > now) return more < now;
  return x->seconds < c->now.seconds * (1 - 1e-9);
}

/* ---- search ---- */
static int along_family(const clade__tensor *t, clade__id node, int family) {
  int found = CLADE__ALONG_NONE;
  for (int i = 0; i < t->work[node].n; i++) {
    if (t->work[node].family[i] != family) continue;
    if (found == CLADE__ALONG_NONE || t->work[node].dims[i].kind == CLADE_DIM_EACH) found = i;
    if (t->work[node].dims[i].kind == CLADE_DIM_EACH) break;
  }
  return found;
}

/* A dimension of another split family, for a node that must not use this family. */
static int along_other(const clade__tensor *t, clade__id node, int family) {
  for (int i = 0; i < t->work[node].n; i++) {
    const int other = t->work[node].family[i];
    if (other != CLADE__IN_NO_FAMILY && other != family && t->families[other].split) return i;
  }
  return CLADE__ALONG_NONE;
}

/* Nodes, by their numbers; none where `first` is more than `last`. */
typedef struct range {
  clade__id first, last;
} range;
static const range all_nodes = {0, (clade__id)-1}, no_nodes = {1, 0};

static bool reads_variable(const clade__tensor *t, clade__id node, int family) {
  const clade__node *n = &t->g->nodes[node];
  for (int i = 0; i < n->n_in; i++) {
    const clade__id v = n->in[i];
    if (t->g->nodes[t->g->values[v].node].op != &clade__op_variable) continue;
    for (int axis = 0; axis < clade__type(t->g, v)->shape.rank; axis++)
      if (clade__axis_family(t, v, axis) == family) return true;
  }
  return false;
}

/* From the first to the last member that reads a variable of the family. */
static range around_variables(const clade__tensor *t, int family) {
  const clade__family *f = &t->families[family];
  range found = no_nodes;
  bool any = false;
  for (size_t i = 0; i < f->n_members; i++) {
    const clade__id node = t->members[f->first_member + i];
    if (!reads_variable(t, node, family)) continue;
    found.first = any ? CLADE_MIN(found.first, node) : node;
    found.last = any ? CLADE_MAX(found.last, node) : node;
    any = true;
  }
  return found;
}

/* Along the family: its members in the range, and no others. */
static void set_family(clade__tensor *t, int family, range in) {
  clade__family *f = &t->families[family];
  f->split = in.first <= in.last;
  for (size_t i = 0; i < f->n_members; i++) {
    const clade__id node = t->members[f->first_member + i];
    const int along = t->along[node];
    if (node >= in.first && node <= in.last)
      t->along[node] = along_family(t, node, family);
    else if (along != CLADE__ALONG_NONE && t->work[node].family[along] == family)
      t->along[node] = along_other(t, node, family);
  }
}

/* Splits the members of a family that are in the range; undone if that is not better. */
static bool try_range(chooser *c, int family, range in) {
  clade__tensor *t = c->t;
  const clade__family *f = &t->families[family];
  const clade__id *nodes = t->members + f->first_member;
  const bool split = f->split;
  const cost before = cost_of(c, nodes, f->n_members);
  for (size_t i = 0; i < f->n_members; i++) c->before[i] = t->along[nodes[i]];
  set_family(t, family, in);
  const cost after = cost_of(c, nodes, f->n_members), all = changed(c, &before, &after);
  if (better(c, &all)) {
    c->now = all;
    return true;
  }
  t->families[family].split = split;
  for (size_t i = 0; i < f->n_members; i++) t->along[nodes[i]] = c->before[i];
  return false;
}

/* With all of its members, with those around its variables (experts, among tokens that are parts of a batch), or with
 * none. */
static bool try_family(chooser *c, int family) {
  bool any = try_range(c, family, all_nodes);
  any |= try_range(c, family, around_variables(c->t, family));
  any |= try_range(c, family, no_nodes);
  return any;
}

static bool may_be(const clade__tensor *t, clade__id node, int along) {
  if (along != CLADE__ALONG_NONE) {
    const int family = t->work[node].family[along];
    return family != CLADE__IN_NO_FAMILY && t->families[family].split;
  }
  for (int i = 0; i < t->work[node].n; i++) {
    const int family = t->work[node].family[i];
    if (family != CLADE__IN_NO_FAMILY && t->families[family].marked) return false;
  }
  return true;
}

static bool try_node(chooser *c, clade__id node) {
  clade__tensor *t = c->t;
  bool any = false;
  for (int i = CLADE__ALONG_NONE; i < t->work[node].n; i++) {
    const int along = t->along[node];
    if (i == along || !may_be(t, node, i)) continue;
    const cost before = cost_of(c, &node, 1);
    t->along[node] = i;
    const cost after = cost_of(c, &node, 1), all = changed(c, &before, &after);
    if (better(c, &all)) {
      c->now = all;
      any = true;
    } else {
      t->along[node] = along;
    }
  }
  return any;
}

static cost whole_cost(chooser *c) {
  cost sum = {0};
  for (clade__id id = 1; id < c->t->g->n_nodes; id++) add_node(c, id, &sum);
  for (clade__id v = 1; v < c->t->g->n_values; v++) add_value(c, v, &sum);
  return sum;
}

/* Most work first; ties in order. */
static int next_family(const clade__tensor *t, const bool *done) {
  int best = CLADE__IN_NO_FAMILY;
  for (int i = 0; i < t->n_families; i++) {
    const clade__family *f = &t->families[i];
    if (done[i] || !f->n_members || !(f->of_variable || f->marked)) continue;
    if (best == CLADE__IN_NO_FAMILY || f->work > t->families[best].work) best = i;
  }
  return best;
}

static void order_families(const clade__tensor *t, bool *done, int *order, int *n) {
  for (int i; (i = next_family(t, done)) != CLADE__IN_NO_FAMILY;) {
    done[i] = true;
    order[(*n)++] = i;
  }
}

/* Savings and cost of a family alone, relative to no splitting. */
static void weigh(chooser *c, clade__family *f, int number) {
  clade__tensor *t = c->t;
  const clade__id *nodes = t->members + f->first_member;
  cost before = cost_of(c, nodes, f->n_members), after;
  double computes = 0;
  for (size_t i = 0; i < f->n_members; i++) {
    f->work += node_work(t, nodes[i]);
    computes += node_seconds(c, nodes[i]);
  }
  set_family(t, number, all_nodes);
  after = cost_of(c, nodes, f->n_members);
  for (size_t i = 0; i < f->n_members; i++) computes -= node_seconds(c, nodes[i]);
  set_family(t, number, no_nodes);
  f->spares = computes;
  f->costs = after.seconds - before.seconds + computes;
  f->bytes = after.moved - before.moved;
}

static void choose(chooser *c, const int *order, int n) {
  clade__tensor *t = c->t;
  for (int i = 0; i < n; i++)
    if (t->families[order[i]].marked) set_family(t, order[i], all_nodes);
  c->now = whole_cost(c);
  for (int pass = 0, any = 1; any && pass < PASSES; pass++) {
    any = 0;
    for (int i = 0; i < n; i++)
      if (!t->families[order[i]].marked) any |= try_family(c, order[i]);
    for (clade__id id = 1; id < t->g->n_nodes; id++) any |= try_node(c, id);
  }
  for (int i = 0; i < t->n_families; i++) t->families[i].split = false;
  for (clade__id id = 1; id < t->g->n_nodes; id++)
    if (t->along[id] != CLADE__ALONG_NONE) t->families[t->work[id].family[t->along[id]]].split = true;
}

clade_status clade__tensor_choose(clade__tensor *t) {
  const clade__speeds s = clade__speeds_assumed(t->how->speeds);
  size_t most = 1;
  chooser c = {.t = t, .link = clade__speeds_message(&s), .per_byte = clade__speeds_byte(&s), .flops = s.tflops * 1e12};
  for (int i = 0; i < t->n_families; i++) most = CLADE_MAX(most, t->families[i].n_members);
  const size_t families = (size_t)CLADE_MAX(t->n_families, 1);
  c.seen = clade__new(t->g->n_values, sizeof *c.seen);
  c.touched = clade__new(t->g->n_values, sizeof *c.touched);
  c.before = clade__new(most, sizeof *c.before);
  int *order = clade__new(families, sizeof *order), n = 0;
  bool *done = clade__new(families, sizeof *done);
  const bool right = c.seen && c.touched && c.before && order && done;
  for (int i = 0; right && i < t->n_families; i++) weigh(&c, &t->families[i], i);
  if (right) order_families(t, done, order, &n);
  if (right) choose(&c, order, n);
  clade__free(c.seen);
  clade__free(c.touched);
  clade__free(c.before);
  clade__free(order);
  clade__free(done);
  return right ? CLADE_OK : CLADE_NO_MEMORY;
}

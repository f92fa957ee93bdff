/* Scheduling of nodes as soon as their operands are available, instead of in graph order:
 * - new values of variables that no later node reads the old value of: gradients are still in a cache, and their
 * memory becomes free. On devices with joined launches it is the other way round: these nodes come as late as possible,
 * so that they follow each other;
 * - on such devices, casts of variables, so that they follow each other too;
 * - effects, in graph order, because what they start proceeds beside kernels; readers of their results stay;
 * - inputs, variables and constants, which cost nothing. */
#include "plan/plan.h"

typedef struct early {
  const clade_graph *g;
  const bool *joins;       /* by device, or NULL */
  bool *assigned;          /* by value */
  clade__id *root;         /* by value: the value whose memory a view shares */
  clade__id *last;         /* by root: its last reader */
  clade__id *read;         /* by root: position after which its readers so far are done */
  clade__id *after;        /* by node: the node that it is moved behind; 0: stays */
  clade__id *first, *next; /* by node: list of the nodes moved behind it */
  clade__id effect;        /* node behind which the last effect was placed */
  clade__id *order;        /* result */
  size_t n;
  clade__id *late; /* [n_late]: nodes that wait for the first reader of one of them, or the end */
  size_t n_late;
  bool *waits; /* by node: it is in `late` */
} early;

static void note_reads(const early *e, clade__id node, clade__id done, clade__id *read) {
  const clade__node *n = &e->g->nodes[node];
  if (n->op == &clade__op_assign) return;
  for (int i = 0; i < n->n_in; i++) read[e->root[n->in[i]]] = CLADE_MAX(read[e->root[n->in[i]]], done);
}

static clade_status prepare(clade__arena *arena, const clade_graph *g, early *e) {
  *e = (early){.g = g};
  e->assigned = clade__arena_new(arena, g->n_values * sizeof *e->assigned);
  e->root = clade__arena_new(arena, g->n_values * sizeof *e->root);
  e->read = clade__arena_new(arena, g->n_values * sizeof *e->read);
  e->last = clade__arena_new(arena, g->n_values * sizeof *e->last);
  e->after = clade__arena_new(arena, 4 * g->n_nodes * sizeof *e->after);
  e->waits = clade__arena_new(arena, g->n_nodes * sizeof *e->waits);
  if (!e->waits || !e->assigned || !e->root || !e->read || !e->last || !e->after) return CLADE_NO_MEMORY;
  e->first = e->after + g->n_nodes;
  e->next = e->first + g->n_nodes;
  e->late = e->next + g->n_nodes;
  for (size_t i = 0; i < g->variables.count; i++) e->assigned[g->variables.at[i].assigned] = true;
  for (clade__id value = 0; value < g->n_values; value++) e->root[value] = value;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    if (n->op->flags & CLADE_OP_VIEW && n->n_in) e->root[n->first_out] = e->root[n->in[0]];
    note_reads(e, id, id, e->last);
  }
  return CLADE_OK;
}

static bool is_effect(const clade__node *n) { return n->op->flags & CLADE_OP_EFFECT && n->op != &clade__op_assign; }

static bool replaces_variables(const early *e, const clade__node *n) {
  bool all = n->n_out > 0 && n->op->in_place;
  for (int i = 0; all && i < n->n_out; i++) all = e->assigned[n->first_out + (clade__id)i];
  return all;
}

static bool is_late(const early *e, const clade__node *n) {
  return e->joins && e->joins[n->device] && !is_effect(n) && replaces_variables(e, n);
}

static bool is_cast_of_variable(const early *e, const clade__node *n) {
  return e->joins && e->joins[n->device] && clade__is_cast(n) &&
         e->g->nodes[e->g->values[n->in[0]].node].op == &clade__op_variable;
}

static bool moves(const early *e, const clade__node *n) {
  return is_effect(n) || is_cast_of_variable(e, n) || (!is_late(e, n) && replaces_variables(e, n));
}

/* Bit mask of operands whose memory a result overwrites. */
static uint64_t overwritten(const early *e, clade__id node) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  uint64_t mask = 0;
  clade__node_view(e->g, node, in, out, &view);
  for (int i = 0; i < view.n_out && view.op->in_place; i++) mask |= view.op->in_place(&view, i);
  return mask;
}

static clade__id position(const early *e, clade__id node) {
  if (clade__is_source(e->g->nodes[node].op)) return 1;
  return e->after[node] ? e->after[node] : node;
}

/* Returns 0 if the node must stay: a later node reads what it overwrites, or it must follow an effect. */
static clade__id place_of(const early *e, clade__id node) {
  const clade__node *n = &e->g->nodes[node];
  const uint64_t mask = overwritten(e, node);
  clade__id after = is_effect(n) ? CLADE_MAX(e->effect, 1u) : 1;
  for (int i = 0; i < n->n_in; i++) {
    const clade__id root = e->root[n->in[i]], from = e->g->values[n->in[i]].node;
    if (!is_effect(n) && is_effect(&e->g->nodes[from])) return 0;
    after = CLADE_MAX(after, position(e, from));
    if (!(mask >> i & 1)) continue;
    if (e->last[root] != node) return 0;
    after = CLADE_MAX(after, e->read[root]);
  }
  return after;
}

static void put_late(early *e) {
  for (size_t i = 0; i < e->n_late; i++) {
    e->waits[e->late[i]] = false;
    e->order[e->n++] = e->late[i];
  }
  e->n_late = 0;
}

/* Appends the node to the order, or lets it wait. */
static void put(early *e, clade__id id) {
  const clade__node *n = &e->g->nodes[id];
  bool reads = false;
  for (int i = 0; i < n->n_in; i++) reads |= e->waits[e->g->values[n->in[i]].node];
  if (is_late(e, n) || (reads && n->op == &clade__op_assign)) {
    e->waits[id] = true;
    e->late[e->n_late++] = id;
    return;
  }
  if (reads) put_late(e);
  e->order[e->n++] = id;
}

clade_status clade__early(const clade_graph *g, const bool *joins, clade__id *order) {
  clade__arena arena = {0};
  early e;
  clade_status status = prepare(&arena, g, &e);
  e.joins = joins;
  e.order = order;
  for (clade__id id = 1; id < g->n_nodes && status == CLADE_OK; id++) {
    if (moves(&e, &g->nodes[id])) e.after[id] = place_of(&e, id);
    if (is_effect(&g->nodes[id])) e.effect = position(&e, id);
    note_reads(&e, id, position(&e, id), e.read);
  }
  for (size_t id = g->n_nodes; id-- > 1 && status == CLADE_OK;) {
    if (!e.after[id]) continue;
    e.next[id] = e.first[e.after[id]];
    e.first[e.after[id]] = (clade__id)id;
  }
  for (clade__id id = 1; id < g->n_nodes && status == CLADE_OK; id++)
    if (clade__is_source(g->nodes[id].op)) order[e.n++] = id;
  for (clade__id id = 1; id < g->n_nodes && status == CLADE_OK; id++) {
    if (!e.after[id] && !clade__is_source(g->nodes[id].op)) put(&e, id);
    for (clade__id k = e.first[id]; k; k = e.next[k]) put(&e, k);
  }
  if (status == CLADE_OK) put_late(&e);
  clade__arena_free(&arena);
  return status;
}

/* Extracts a pipeline stage's part of a training step: the nodes of its pieces in the order of 1F1B (cut_order.c),
 * and sends and receives for values that cross stages. A value is sent once from its producer to each stage that
 * uses it. Nodes that depend only on constants and non-parameter scalars, such as the learning rate, are computed by
 * every stage that uses them, as are assignments to these scalars. */
#include "parallel/cut.h"

#include <stdio.h>
#include <stdlib.h>

#include "comm/parts.h"

/* ---- nodes that every stage can compute ---- */
/* Inputs are fed to each stage that reads them; an assignment is on the stage of its variable. */
static void find_anywhere(clade__cut *c) {
  clade__find_free(c->g, c->anywhere);
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    if (n->op == &clade__op_input) c->anywhere[id] = true;
    if (n->op == &clade__op_assign) c->anywhere[id] = c->anywhere[clade__cut_maker(c, n->in[0])];
  }
}

/* ---- nodes needed by each stage ---- */
static bool *cell(const clade__cut *c, bool *of, clade__id id, int stage) {
  return &of[(size_t)id * (size_t)c->grid->pipeline + (size_t)stage];
}

static bool want(clade__cut *c, clade__id value, int stage) {
  const clade__id maker = clade__cut_maker(c, value);
  bool *wanted = cell(c, c->wanted, c->origin[value], stage);
  if (*wanted) return false;
  *wanted = *cell(c, c->computed, maker, c->anywhere[maker] ? stage : clade__cut_stage(c, maker)) = true;
  return true;
}

/* Whether the stage computes the node even if no other node of the stage needs it. */
static bool is_root(const clade__cut *c, clade__id id, int stage) {
  const clade__node *n = &c->g->nodes[id];
  if (n->op == &clade__op_assign && c->anywhere[id] && *cell(c, c->computed, clade__cut_maker(c, n->in[0]), stage))
    return true;
  return clade__cut_stage(c, id) == stage && (n->op == &clade__op_variable || n->op->flags & CLADE_OP_EFFECT);
}

static void find_wanted(clade__cut *c) {
  const int stages = c->grid->pipeline;
  for (size_t i = 0; i < c->g->outputs.count; i++)
    for (int s = 0; s < stages; s++) want(c, c->g->outputs.at[i].value, s);
  for (bool moved = true; moved;) {
    moved = false;
    for (clade__id id = (clade__id)c->g->n_nodes; id-- > 1;) {
      const clade__node *n = &c->g->nodes[id];
      for (int s = 0; s < stages; s++) {
        if (is_root(c, id, s)) *cell(c, c->computed, id, s) = true;
        for (int i = 0; *cell(c, c->computed, id, s) && i < n->n_in; i++) moved |= want(c, n->in[i], s);
      }
    }
  }
}

/* ---- messages ---- */
/* An element of a stage's order: a node, or a message. */
typedef struct item {
  clade__when when;
  enum { RECEIVE, NODE, SEND } kind;
  clade__id value; /* of messages */
  int other, number;
} item;

typedef struct list {
  item *at;
  size_t n, capacity;
} list;

static clade_status add(list *l, item one) {
  CLADE_TRY(clade__grow(&l->at, &l->capacity, l->n + 1, sizeof *l->at));
  l->at[l->n++] = one;
  return CLADE_OK;
}

static bool crosses(const clade__cut *c, clade__id value, int stage) {
  const clade__id maker = c->g->values[value].node;
  return *cell(c, c->wanted, value, stage) && !c->anywhere[maker] && clade__cut_stage(c, maker) != stage;
}

/* By value: its first use on the stage. */
static clade_status find_used(clade__cut *c, int stage, double **out) {
  double *used = *out = clade__arena_new(&c->arena, c->g->n_values * sizeof *used);
  if (!used) return CLADE_NO_MEMORY;
  for (clade__id value = 0; value < c->g->n_values; value++) used[value] = c->passes.end;
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    if (c->anywhere[id] || clade__cut_stage(c, id) != stage || !*cell(c, c->computed, id, stage)) continue;
    for (int i = 0; i < n->n_in; i++) {
      double *first = &used[c->origin[n->in[i]]];
      *first = CLADE_MIN(*first, c->when[id].time);
    }
  }
  return CLADE_OK;
}

/* Message numbers between two stages agree, since all stages count alike. *n: numbers used. */
static clade_status list_messages(clade__cut *c, int stage, const double *used, int *n, list *l) {
  const size_t stages = (size_t)c->grid->pipeline;
  int *count = clade__arena_new(&c->arena, stages * stages * sizeof *count);
  if (!count) return CLADE_NO_MEMORY;
  *n = 0;
  for (clade__id value = 1; value < c->g->n_values; value++) {
    const clade__id maker = c->g->values[value].node;
    const int from = clade__cut_stage(c, maker);
    for (int to = 0; to < c->grid->pipeline; to++) {
      if (!crosses(c, value, to)) continue;
      const int number = count[(size_t)from * stages + (size_t)to]++;
      *n = CLADE_MAX(*n, number + 1);
      item one = {.when = c->when[maker], .kind = SEND, .value = value, .other = to, .number = number};
      if (to == stage) {
        one.when = (clade__when){.time = clade__cut_posted(c, stage, used[value])};
        one.kind = RECEIVE;
        one.other = from;
      }
      if (from == stage || to == stage) CLADE_TRY(add(l, one));
    }
  }
  return CLADE_OK;
}

static clade_status list_nodes(clade__cut *c, int stage, list *l) {
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    if (n->op == &clade__op_transfer || !*cell(c, c->computed, id, stage)) continue;
    if (!clade__is_source(n->op) && c->anywhere[id] && n->op != &clade__op_assign) continue; /* computed where used */
    if (n->op == &clade__op_constant) continue;
    item one = {.when = c->when[id], .kind = NODE};
    if (n->op == &clade__op_assign) one.when = (clade__when){c->passes.end, id, id};
    CLADE_TRY(add(l, one));
  }
  return CLADE_OK;
}

static int compare(const void *a, const void *b) {
  const item *x = a, *y = b;
  const int order = clade__cut_compare(&x->when, &y->when);
  if (order) return order;
  if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
  return x->number - y->number;
}

/* ---- graph of the stage ---- */
/* Adds the node, after the replicated nodes that it needs. */
static clade_status build(const clade__cut *c, clade__id id, clade_graph *g, clade__id *map) {
  const clade__node *n = &c->g->nodes[id];
  for (int i = 0; i < n->n_in; i++) {
    const clade__id from = c->origin[n->in[i]], maker = c->g->values[from].node;
    if (!map[from] && !c->anywhere[maker])
      return CLADE_FAIL(INTERNAL, "pipeline: %s comes before its operand %d", n->op->name, i);
    if (!map[from]) CLADE_TRY(build(c, maker, g, map));
    map[n->in[i]] = map[from];
  }
  CLADE_TRY(clade__node_copy_marked(c->g, id, g, map));
  g->nodes[g->n_nodes - 1].device = 0;
  return CLADE_OK;
}

static clade_status message(const clade__cut *c, const item *one, clade_comm *comm, int first, clade_graph *g,
                            clade__id *map) {
  const int number = first + one->number;
  if (one->kind == SEND)
    return clade__comm_send_value(g, comm, one->other, number, clade__graph_val(g, map[one->value]));
  const clade_val v = clade__comm_receive_value(g, comm, one->other, number, clade__type(c->g, one->value));
  map[one->value] = v.id;
  return clade_graph_status(g);
}

/* Ports whose nodes are on this stage; a variable's new value may come from another stage. */
static clade_status add_sources(const clade__ports *from, const clade_op *op, const clade__id *map, clade_graph *g,
                                clade__ports *to) {
  for (size_t i = 0; i < from->count; i++) {
    const clade__port *p = &from->at[i];
    if (!map[p->value] || g->nodes[g->values[map[p->value]].node].op != op) continue;
    CLADE_TRY(clade__port_add(g, to, p->name, map[p->value], p->initial));
    clade__port *port = &to->at[to->count - 1];
    port->parameter = p->parameter;
    port->part = p->part;
    for (clade__id id = 1; p->assigned && id < g->n_nodes; id++)
      if (g->nodes[id].op == &clade__op_assign && g->nodes[id].in[0] == port->value)
        port->assigned = g->nodes[id].in[1];
  }
  return CLADE_OK;
}

static clade_status add_ports(const clade__cut *c, clade_graph *g, clade__id *map) {
  const clade__ports *outputs = &c->g->outputs;
  CLADE_TRY(add_sources(&c->g->inputs, &clade__op_input, map, g, &g->inputs));
  CLADE_TRY(add_sources(&c->g->variables, &clade__op_variable, map, g, &g->variables));
  for (size_t i = 0; i < outputs->count; i++) {
    const clade__id value = c->origin[outputs->at[i].value];
    if (!map[value]) CLADE_TRY(build(c, c->g->values[value].node, g, map));
    CLADE_TRY(clade__port_add(g, &g->outputs, outputs->at[i].name, map[value], (clade_initial){0}));
  }
  return CLADE_OK;
}

static clade_status fill(clade__cut *c, clade_comm *comm, clade_graph *g, list *l) {
  const int stage = clade_comm_rank(comm);
  int n = 0, first = 0;
  double *used;
  clade__id *map = clade__arena_new(&c->arena, c->g->n_values * sizeof *map);
  if (!map) return CLADE_NO_MEMORY;
  CLADE_TRY(find_used(c, stage, &used));
  CLADE_TRY(list_messages(c, stage, used, &n, l));
  CLADE_TRY(list_nodes(c, stage, l));
  if (n) CLADE_TRY(clade__comm_reserve(comm, n, &first));
  qsort(l->at, l->n, sizeof *l->at, compare);
  for (size_t i = 0; i < l->n; i++) {
    const item *one = &l->at[i];
    if (one->kind != NODE)
      CLADE_TRY(message(c, one, comm, first, g, map));
    else if (!map[c->g->nodes[one->when.node].first_out] || !c->g->nodes[one->when.node].n_out)
      CLADE_TRY(build(c, one->when.node, g, map));
  }
  CLADE_TRY(add_ports(c, g, map));
  return clade_graph_status(g);
}

static clade_status check(const clade__cut *c, const clade_comm *comm) {
  const int pieces = c->grid->pipeline * c->grid->interleave;
  if (clade_comm_size(comm) != c->grid->pipeline)
    return CLADE_FAIL(INVALID, "pipeline: %d stages and a communicator of %d ranks", c->grid->pipeline,
                      clade_comm_size(comm));
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    if (n->device >= pieces)
      return CLADE_FAIL(INVALID, "pipeline: %s \"%s\" is in piece %d; there are %d", n->op->name, n->name, n->device,
                        pieces);
    const int micro_batch = clade__micro_batch(c->g, n);
    if (micro_batch < 0 || micro_batch >= c->grid->micro_batches)
      return CLADE_FAIL(INVALID, "pipeline: %s \"%s\" is of micro-batch %d; there are %d", n->op->name, n->name,
                        micro_batch, c->grid->micro_batches);
  }
  return CLADE_OK;
}

static clade_status prepare(clade__cut *c) {
  const size_t values = c->g->n_values, nodes = c->g->n_nodes, stages = (size_t)c->grid->pipeline;
  c->origin = clade__arena_new(&c->arena, values * sizeof *c->origin);
  c->when = clade__arena_new(&c->arena, nodes * sizeof *c->when);
  c->anywhere = clade__arena_new(&c->arena, nodes * sizeof *c->anywhere);
  c->wanted = clade__arena_new(&c->arena, values * stages * sizeof *c->wanted);
  c->computed = clade__arena_new(&c->arena, nodes * stages * sizeof *c->computed);
  if (!c->origin || !c->when || !c->anywhere || !c->wanted || !c->computed) return CLADE_NO_MEMORY;
  for (clade__id value = 1; value < values; value++) {
    const clade__node *n = &c->g->nodes[c->g->values[value].node];
    c->origin[value] = n->op == &clade__op_transfer ? c->origin[n->in[0]] : value;
  }
  CLADE_TRY(clade__passes_new(c->grid, &c->passes));
  find_anywhere(c);
  find_wanted(c);
  return clade__cut_order(c);
}

clade_status clade__stages_cut(const clade_graph *step, const clade__grid *grid, clade_comm *pipeline,
                               clade_graph **out) {
  clade__cut c = {.g = step, .grid = grid};
  clade_status status = CLADE_OK;
  clade_graph *g = NULL;
  list l = {0};
  *out = NULL;
  CLADE_TRY(clade_graph_status(step));
  CLADE_GOTO(check(&c, pipeline));
  CLADE_GOTO(prepare(&c));
  CLADE_GOTO(clade_graph_new(&g));
  CLADE_GOTO(fill(&c, pipeline, g, &l));
  g->trains = step->trains;
  g->share = step->share;
  g->first_share = step->first_share;
  *out = g;
  g = NULL;
fail:
  clade_graph_release(g);
  clade__free(l.at);
  clade__passes_free(&c.passes);
  clade__arena_free(&c.arena);
  return status;
}

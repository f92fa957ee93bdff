/* Chooses candidates by minimizing the total cost. Unknowns: the candidate of each node with
 * several, and the set of layouts in which each value is available. */
#include "pass/least.h"
#include "pass/candidates.h"

#define NEVER 1e30 /* infinite cost; exceeds any sum of finite ones */

enum { MASKS = 1 << CLADE__MOST_LAYOUTS, SWEEPS = 8 };

typedef struct reorders { /* costs for a value, by layout: from dense and back */
  double pack[CLADE__MOST_LAYOUTS], unpack[CLADE__MOST_LAYOUTS];
} reorders;

typedef struct problem {
  clade__choice *c;
  clade__least least;
  uint32_t *node, *value;                /* numbers of the unknowns from 1; 0: none. Values by root */
  unsigned *must;                        /* by root: bit set of layouts that are needed in any case */
  bool *open;                            /* by root: a neighbor has several candidates */
  reorders **reorders;                   /* by root */
  uint32_t (*uses)[CLADE__MOST_LAYOUTS]; /* by root and layout: number of users with the current choice */
} problem;

/* Cost of converting one layout to a set of them. Blocked layouts convert through dense. */
static double conversion(const clade__layouts *f, const reorders *t, int from, unsigned to) {
  double sum = 0;
  to &= ~(1u << from);
  if (!to || f->frozen) return 0;
  if (f->at[from].block) sum += t->unpack[from];
  for (int k = 0; k < f->count; k++)
    if ((to >> k & 1) && f->at[k].block) sum += t->pack[k];
  return sum;
}

/* Enumerates the layout sets that contain the required ones. */
static int masks_of(unsigned must, int layouts, unsigned mask[MASKS]) {
  int n = 0;
  for (unsigned m = 1; m < 1u << layouts; m++)
    if ((m & must) == must) mask[n++] = m;
  return n;
}

static clade__id operand(const clade__node *n, int i) {
  return i < n->n_in ? n->in[i] : n->first_out + (clade__id)(i - n->n_in);
}

/* ---- unknowns ---- */
static void survey(problem *p) {
  const clade__choice *c = p->c;
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    const clade__candidates *w = &c->candidates[id];
    for (int i = 0; w->count && i < n->n_in + n->n_out; i++) {
      clade__id v = c->root[operand(n, i)];
      if (w->count > 1)
        p->open[v] = true;
      else
        p->must[v] |= 1u << w->at[0].indices[i];
    }
  }
  for (size_t i = 0; i < c->g->outputs.count; i++) {
    clade__id v = c->g->outputs.at[i].value;
    p->must[c->root[v]] |= 1u << clade__layout_built(c, v);
  }
}

static clade_status add_node(problem *p, clade__id id) {
  const clade__candidates *w = &p->c->candidates[id];
  double cost[CLADE__MOST_CANDIDATES], least = w->at[0].cost;
  for (int i = 1; i < w->count; i++) least = CLADE_MIN(least, w->at[i].cost);
  /* Subtract the common part, which would only cost precision. */
  for (int i = 0; i < w->count; i++) cost[i] = w->at[i].cost - least;
  CLADE_TRY(clade__least_add(&p->least, w->count, cost, -1, &p->node[id]));
  p->node[id]++;
  return CLADE_OK;
}

static clade_status find_reorders(problem *p, clade__id v) {
  const clade_graph *g = p->c->g;
  const clade__layouts *f = &p->c->layouts[v];
  const clade_device_info *device = &p->c->ctx->devices[g->nodes[g->values[v].node].device];
  reorders *t = clade__arena_new(&p->c->arena, sizeof *t);
  if (!t) return CLADE_NO_MEMORY;
  for (int k = 0; k < f->count; k++) {
    if (!f->at[k].block) continue;
    t->pack[k] = clade__pack_cost(device, clade__type(g, v), f->at[k]);
    t->unpack[k] = clade__unpack_cost(device, clade__type(g, v), f->at[k]);
  }
  p->reorders[v] = t;
  return CLADE_OK;
}

/* Adds the unknown of a value and its cost with its producer's candidates. */
static clade_status add_value(problem *p, clade__id v) {
  const clade__choice *c = p->c;
  const clade__layouts *f = &c->layouts[v];
  const clade__node *n = &c->g->nodes[c->g->values[v].node];
  const clade__candidates *w = &c->candidates[c->g->values[v].node];
  int at = n->n_in + c->g->values[v].out;
  unsigned mask[MASKS];
  double cost[MASKS] = {0}, pair[CLADE__MOST_CANDIDATES * MASKS];
  int masks = masks_of(p->must[v], f->count, mask);
  CLADE_TRY(find_reorders(p, v));
  if (w->count == 1)
    for (int m = 0; m < masks; m++) cost[m] = conversion(f, p->reorders[v], w->at[0].indices[at], mask[m]);
  CLADE_TRY(clade__least_add(&p->least, masks, cost, masks - 1, &p->value[v]));
  p->value[v]++;
  if (w->count == 1) return CLADE_OK;
  for (int i = 0; i < w->count; i++)
    for (int m = 0; m < masks; m++) {
      int from = w->at[i].indices[at];
      pair[i * masks + m] = mask[m] >> from & 1 ? conversion(f, p->reorders[v], from, mask[m]) : NEVER;
    }
  return clade__least_pair(&p->least, p->node[c->g->values[v].node] - 1, p->value[v] - 1, pair);
}

/* A node requires that its operand is available in the candidate's layout. */
static clade_status add_use(problem *p, clade__id id, int operand) {
  const clade__choice *c = p->c;
  const clade__candidates *w = &c->candidates[id];
  clade__id v = c->root[c->g->nodes[id].in[operand]];
  unsigned mask[MASKS];
  double pair[CLADE__MOST_CANDIDATES * MASKS];
  if (!p->value[v]) return CLADE_OK;
  int masks = masks_of(p->must[v], c->layouts[v].count, mask);
  for (int i = 0; i < w->count; i++)
    for (int m = 0; m < masks; m++) pair[i * masks + m] = mask[m] >> w->at[i].indices[operand] & 1 ? 0 : NEVER;
  return clade__least_pair(&p->least, p->node[id] - 1, p->value[v] - 1, pair);
}

static clade_status state(problem *p) {
  const clade__choice *c = p->c;
  survey(p);
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    if (c->candidates[id].count > 1) {
      CLADE_TRY(add_node(p, id));
      for (int i = 0; i < n->n_in; i++) CLADE_TRY(add_use(p, id, i));
    }
    for (int i = 0; i < n->n_out; i++) {
      clade__id v = n->first_out + (clade__id)i;
      const clade__layouts *f = &c->layouts[v];
      if (c->root[v] == v && p->open[v] && f->count > 1 && !f->frozen) CLADE_TRY(add_value(p, v));
    }
  }
  return CLADE_OK;
}

/* ---- local improvement, after an inexact solution ---- */
static double around(const problem *p, clade__id id) {
  const clade__choice *c = p->c;
  const clade__node *n = &c->g->nodes[id];
  double sum = 0;
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    clade__id v = c->root[operand(n, i)], made = c->g->values[v].node;
    bool again = !p->reorders[v];
    for (int k = 0; k < i && !again; k++) again = c->root[operand(n, k)] == v;
    if (again) continue;
    const clade__candidates *w = &c->candidates[made];
    unsigned to = p->must[v];
    for (int k = 0; k < c->layouts[v].count; k++) to |= (unsigned)(p->uses[v][k] > 0) << k;
    int at = c->g->nodes[made].n_in + c->g->values[v].out;
    sum += conversion(&c->layouts[v], p->reorders[v], w->at[w->chosen].indices[at], to);
  }
  return sum;
}

static void use(problem *p, clade__id id, uint32_t by) {
  const clade__choice *c = p->c;
  const clade__node *n = &c->g->nodes[id];
  const clade__candidate *candidate = &c->candidates[id].at[c->candidates[id].chosen];
  for (int i = 0; i < n->n_in; i++) p->uses[c->root[n->in[i]]][candidate->indices[i]] += by;
}

static void go(problem *p, clade__id id, int candidate) {
  use(p, id, UINT32_MAX); /* remove this node's contribution */
  p->c->candidates[id].chosen = candidate;
  use(p, id, 1);
}

static bool better_node(problem *p, clade__id id) {
  const clade__candidates *w = &p->c->candidates[id];
  int best = w->chosen, first = best;
  double least = w->at[best].cost + around(p, id);
  for (int i = 0; i < w->count; i++) {
    if (i == first) continue;
    go(p, id, i);
    double cost = w->at[i].cost + around(p, id);
    if (cost < least) least = cost, best = i;
  }
  go(p, id, best);
  return best != first;
}

static clade_status improve(problem *p) {
  const clade_graph *g = p->c->g;
  bool moved = true;
  if (!(p->uses = clade__new(g->n_values, sizeof *p->uses))) return CLADE_NO_MEMORY;
  for (clade__id id = 1; id < g->n_nodes; id++)
    if (p->c->candidates[id].count > 1) use(p, id, 1);
  for (int sweep = 0; sweep < SWEEPS && moved; sweep++) {
    moved = false;
    for (clade__id id = 1; id < g->n_nodes; id++)
      if (p->c->candidates[id].count > 1) moved |= better_node(p, id);
  }
  return CLADE_OK;
}

static clade_status solve(problem *p) {
  bool exact = true;
  uint8_t *value = clade__new(p->least.n_unknowns, 1);
  if (!value) return CLADE_NO_MEMORY;
  clade_status status = p->least.n_unknowns ? clade__least_solve(&p->least, value, &exact) : CLADE_OK;
  for (clade__id id = 1; id < p->c->g->n_nodes && status == CLADE_OK; id++)
    if (p->node[id]) p->c->candidates[id].chosen = value[p->node[id] - 1];
  clade__free(value);
  return status == CLADE_OK && !exact ? improve(p) : status;
}

clade_status clade__candidates_choose(clade__choice *c) {
  const clade_graph *g = c->g;
  clade_status status = CLADE_NO_MEMORY;
  problem p = {.c = c};
  bool open = false;
  for (clade__id id = 1; id < g->n_nodes; id++) open |= c->candidates[id].count > 1;
  if (!open) return CLADE_OK;
  p.node = clade__new(g->n_nodes, sizeof *p.node);
  p.value = clade__new(g->n_values, sizeof *p.value);
  p.must = clade__new(g->n_values, sizeof *p.must);
  p.open = clade__new(g->n_values, sizeof *p.open);
  p.reorders = clade__new(g->n_values, sizeof *p.reorders);
  if (!p.node || !p.value || !p.must || !p.open || !p.reorders) goto fail;
  CLADE_GOTO(state(&p));
  CLADE_GOTO(solve(&p));
fail:
  clade__least_free(&p.least);
  clade__free(p.node);
  clade__free(p.value);
  clade__free(p.must);
  clade__free(p.open);
  clade__free(p.reorders);
  clade__free(p.uses);
  return status;
}

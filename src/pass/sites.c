/* Placement between a device and its fallback device with the least total cost of nodes and transfers. Unknowns of
 * the problem: the device of each movable node, and the devices on which each value is available. Program changes
 * depend on the order of all nodes and are handled by local search: on devices with several programs, runs of nodes
 * that keep a program loaded are moved away while that helps. */
#include "pass/sites.h"

#include "pass/least.h"

#define NEVER 1e30 /* infinite cost; exceeds any sum of finite ones */

typedef struct need { /* of a value */
  unsigned must;      /* set of places that need it in any case */
  bool open;          /* its producer or a user is undecided */
  uint32_t unknown;   /* unknown number, from 1; its values: HOME, AWAY, both */
} need;

typedef struct problem {
  const clade__sites *s;
  const clade_graph *g;
  const unsigned *may; /* by node: allowed places, a subset of its site's */
  uint32_t *unknown;   /* by node: unknown number from 1; 0: decided */
  need *needs;         /* by value */
  clade__least least;
} problem;

static int device_of(const clade_graph *g, clade__id value) { return g->nodes[g->values[value].node].device; }

/* Time to transfer a value to or from the fallback device: a read by the host, a notification and a write. Values
 * constant across executions are transferred once and count 0. */
static double crossing(const clade__sites *s, clade__id value) {
  size_t bytes = 0;
  if (clade__graph_frozen(s->g, value)) return 0;
  if (clade_type_bytes(clade__type(s->g, value), &bytes) != CLADE_OK || !bytes) return 0;
  const clade__link *link = &s->links[device_of(s->g, value)];
  return link->seconds + link->per_byte * (double)bytes;
}

/* Constants exist on every device. */
static bool everywhere(const clade_graph *g, clade__id value) {
  return g->nodes[g->values[value].node].op == &clade__op_constant;
}

/* Where a decided user needs a value that was built on `home`. Copies to a third device cost the same from either. */
static unsigned wanted(const problem *p, clade__id user, int home) {
  int fallback = p->s->ctx->fallback, device = p->may[user] == CLADE__AWAY ? fallback : p->g->nodes[user].device;
  return device == home ? CLADE__HOME : device == fallback ? CLADE__AWAY : 0;
}

static bool is_open(const problem *p, clade__id node) { return p->may[node] == (CLADE__HOME | CLADE__AWAY); }

static void survey(problem *p) {
  for (clade__id id = 1; id < p->g->n_nodes; id++) {
    const clade__node *n = &p->g->nodes[id];
    bool open = is_open(p, id);
    for (int i = 0; i < n->n_in; i++) {
      need *v = &p->needs[n->in[i]];
      v->open |= open;
      if (!open) v->must |= wanted(p, id, device_of(p->g, n->in[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
      need *v = &p->needs[n->first_out + (clade__id)i];
      v->open |= open;
      if (!open) v->must |= p->may[id];
    }
  }
}

/* A node needs its operand at its own place, and produces its result there. */
static clade_status tie(problem *p, clade__id node, clade__id value) {
  static const double pair[] = {0, NEVER, 0, NEVER, 0, 0};
  const need *v = &p->needs[value];
  if (!p->unknown[node] || !v->unknown) return CLADE_OK;
  return clade__least_pair(&p->least, p->unknown[node] - 1, v->unknown - 1, pair);
}

static clade_status add_value(problem *p, clade__id value) {
  need *v = &p->needs[value];
  double cost[3];
  if (!v->open || everywhere(p->g, value) || device_of(p->g, value) == p->s->ctx->fallback) return CLADE_OK;
  for (unsigned set = CLADE__HOME; set <= (CLADE__HOME | CLADE__AWAY); set++)
    cost[set - 1] = v->must & ~set ? NEVER : set == (CLADE__HOME | CLADE__AWAY) ? crossing(p->s, value) : 0;
  CLADE_TRY(clade__least_add(&p->least, 3, cost, 2, &v->unknown));
  v->unknown++;
  return CLADE_OK;
}

static clade_status add_node(problem *p, clade__id id) {
  const clade__node *n = &p->g->nodes[id];
  const double *cost = p->s->at[id].cost;
  if (is_open(p, id)) {
    double less = CLADE_MIN(cost[0], cost[1]); /* subtract the common part, which would only cost precision */
    CLADE_TRY(clade__least_add(&p->least, 2, (double[]){cost[0] - less, cost[1] - less}, -1, &p->unknown[id]));
    p->unknown[id]++;
  }
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(tie(p, id, n->in[i]));
  for (int i = 0; i < n->n_out; i++) {
    CLADE_TRY(add_value(p, n->first_out + (clade__id)i));
    CLADE_TRY(tie(p, id, n->first_out + (clade__id)i));
  }
  return CLADE_OK;
}

static clade_status solve(problem *p, int *device) {
  const clade_graph *g = p->g;
  bool exact = true;
  uint8_t *value = clade__new(p->least.n_unknowns + 1, 1);
  if (!value) return CLADE_NO_MEMORY;
  clade_status status = p->least.n_unknowns ? clade__least_solve(&p->least, value, &exact) : CLADE_OK;
  for (clade__id id = 1; id < g->n_nodes && status == CLADE_OK; id++) {
    bool away = p->unknown[id] ? value[p->unknown[id] - 1] : p->may[id] == CLADE__AWAY;
    device[id] = away ? p->s->ctx->fallback : g->nodes[id].device;
  }
  clade__free(value);
  return status;
}

/* Ignores program changes. */
static clade_status place(const clade__sites *s, const unsigned *may, int *device) {
  problem p = {.s = s, .g = s->g, .may = may};
  clade_status status = CLADE_NO_MEMORY;
  p.unknown = clade__new(s->g->n_nodes, sizeof *p.unknown);
  p.needs = clade__new(s->g->n_values, sizeof *p.needs);
  if (!p.unknown || !p.needs) goto fail;
  survey(&p);
  for (clade__id id = 1; id < s->g->n_nodes; id++) CLADE_GOTO(add_node(&p, id));
  status = solve(&p, device);
fail:
  clade__least_free(&p.least);
  clade__free(p.unknown);
  clade__free(p.needs);
  return status;
}

/* ---- program changes ---- */
typedef struct placed {  /* a complete placement with its cost */
  int *device, *program; /* by node */
  clade__id *order;
  bool *crosses; /* by value */
  double seconds;
} placed;

/* Groups consecutive nodes on a device with the same program into turns: turns[node] from 1; 0: needs no particular
 * program. The first and last turn of a device can be the same across executions. */
static double take_turns(const clade__sites *s, const placed *p, uint32_t *turns, uint32_t *n_turns) {
  double seconds = 0;
  *n_turns = 0;
  for (int d = 0; d < s->ctx->n_devices; d++) {
    int first = CLADE__ANY_PROGRAM, held = CLADE__ANY_PROGRAM, changes = 0;
    uint32_t first_turn = *n_turns + 1;
    for (size_t i = 0; i + 1 < s->g->n_nodes; i++) {
      clade__id id = p->order[i];
      if (p->program[id] == CLADE__ANY_PROGRAM || p->device[id] != d) continue;
      if (p->program[id] != held) ++*n_turns, changes += held != CLADE__ANY_PROGRAM;
      held = p->program[id];
      if (first == CLADE__ANY_PROGRAM) first = held;
      turns[id] = *n_turns;
    }
    if (changes) seconds += (changes + (first != held)) * clade__change_seconds(s->ctx, d);
    for (clade__id id = 1; changes && first == held && id < s->g->n_nodes; id++)
      if (p->program[id] != CLADE__ANY_PROGRAM && p->device[id] == d && turns[id] == *n_turns) turns[id] = first_turn;
  }
  return seconds;
}

/* Excludes program changes. */
static double seconds_of(const clade__sites *s, const placed *p) {
  const int fallback = s->ctx->fallback;
  double seconds = 0;
  memset(p->crosses, 0, s->g->n_values * sizeof *p->crosses);
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    const clade__node *n = &s->g->nodes[id];
    if (s->at[id].kept) seconds += s->at[id].cost[p->device[id] == fallback];
    for (int i = 0; i < n->n_in; i++)
      p->crosses[n->in[i]] |= (p->device[id] == fallback) != (p->device[s->g->values[n->in[i]].node] == fallback);
  }
  for (clade__id value = 1; value < s->g->n_values; value++)
    if (p->crosses[value] && !everywhere(s->g, value)) seconds += crossing(s, value);
  return seconds;
}

static clade_status try(const clade__sites *s, const unsigned *may, placed *out, uint32_t *turns, uint32_t *n_turns) {
  int changes;
  CLADE_TRY(place(s, may, out->device));
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    turns[id] = 0;
    out->program[id] = out->device[id] == s->ctx->fallback ? CLADE__ANY_PROGRAM : s->at[id].program;
  }
  CLADE_TRY(clade__order(s->g, s->ctx->n_devices, out->program, out->order, &changes));
  out->seconds = seconds_of(s, out) + take_turns(s, out, turns, n_turns);
  return CLADE_OK;
}

typedef struct search {
  const clade__sites *s;
  unsigned *may, *least; /* by node; least: best trial so far */
  uint32_t *turns, *scratch;
  placed best, trial;
} search;

/* Moves all nodes of a turn; false: one cannot move. */
static bool send(const search *x, uint32_t turn, unsigned *may) {
  for (clade__id id = 1; id < x->s->g->n_nodes; id++) {
    if (x->turns[id] != turn) continue;
    if (!(may[id] & CLADE__AWAY)) return false;
    may[id] = CLADE__AWAY;
  }
  return true;
}

/* Finds the turn whose removal gives the least cost; *better: it is an improvement. */
static clade_status send_one(search *x, uint32_t n_turns, uint32_t *n_left, bool *better) {
  const size_t bytes = x->s->g->n_nodes * sizeof *x->may;
  unsigned *now = x->least + x->s->g->n_nodes;
  double least = x->best.seconds;
  *better = false;
  for (uint32_t turn = 1; turn <= n_turns; turn++) {
    uint32_t n;
    memcpy(now, x->may, bytes);
    if (!send(x, turn, now)) continue;
    CLADE_TRY(try(x->s, now, &x->trial, x->scratch, &n));
    if (x->trial.seconds >= least) continue;
    least = x->trial.seconds;
    memcpy(x->least, now, bytes);
    *better = true;
  }
  if (!*better) return CLADE_OK;
  memcpy(x->may, x->least, bytes);
  return try(x->s, x->may, &x->best, x->turns, n_left);
}

static clade_status make(clade__arena *arena, const clade_graph *g, placed *out) {
  const size_t n = g->n_nodes;
  out->device = clade__arena_new(arena, n * sizeof *out->device);
  out->program = clade__arena_new(arena, n * sizeof *out->program);
  out->order = clade__arena_new(arena, n * sizeof *out->order);
  out->crosses = clade__arena_new(arena, g->n_values * sizeof *out->crosses);
  return out->device && out->program && out->order && out->crosses ? CLADE_OK : CLADE_NO_MEMORY;
}

static clade_status run(search *x, clade__arena *arena) {
  size_t n = x->s->g->n_nodes;
  uint32_t n_turns = 0;
  x->may = clade__arena_new(arena, n * sizeof *x->may);
  x->least = clade__arena_new(arena, 2 * n * sizeof *x->least);
  x->turns = clade__arena_new(arena, n * sizeof *x->turns);
  x->scratch = clade__arena_new(arena, n * sizeof *x->scratch);
  if (!x->may || !x->least || !x->turns || !x->scratch) return CLADE_NO_MEMORY;
  CLADE_TRY(make(arena, x->s->g, &x->best));
  CLADE_TRY(make(arena, x->s->g, &x->trial));
  for (clade__id id = 1; id < n; id++) x->may[id] = x->s->at[id].may;
  CLADE_TRY(try(x->s, x->may, &x->best, x->turns, &n_turns));
  for (bool better = n_turns > 1; better;) CLADE_TRY(send_one(x, n_turns, &n_turns, &better));
  return CLADE_OK;
}

clade_status clade__sites_place(const clade__sites *sites, int *device) {
  clade__arena arena = {0};
  search x = {.s = sites};
  clade_status status = run(&x, &arena);
  if (status == CLADE_OK) memcpy(device, x.best.device, sites->g->n_nodes * sizeof *device);
  clade__arena_free(&arena);
  return status;
}

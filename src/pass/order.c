/* Orders nodes to minimize program changes on devices with several programs. Optimal for two programs on one device;
 * with more, two greedy heuristics choose the next program. */
#include "pass/pass.h"

int clade__program_of(const clade_device_info *device, const char *kernel) {
  int program = CLADE__ANY_PROGRAM;
  bool several = false;
  for (int i = 0; device->kernels && device->programs && device->kernels[i]; i++) {
    several |= device->programs[i] != 0;
    if (strcmp(device->kernels[i], kernel) == 0) program = (int)device->programs[i];
  }
  return several ? program : CLADE__ANY_PROGRAM;
}

typedef struct state {
  const clade_graph *g;
  const int *program;      /* by node; CLADE__ANY_PROGRAM: needs none */
  const clade__id *before; /* by node: the preceding effect; 0: none */
  int n_devices, most;     /* upper bound of program numbers */
  bool *done;              /* by node */
  clade__id *order;
  size_t n;             /* number of scheduled nodes */
  int *first, *current; /* by device */
  int changes;
} state;

static bool is_ready(const state *s, clade__id id) {
  const clade__node *n = &s->g->nodes[id];
  if (s->before[id] && !s->done[s->before[id]]) return false;
  for (int i = 0; i < n->n_in; i++)
    if (!s->done[s->g->values[n->in[i]].node]) return false;
  return true;
}

/* Schedules all nodes that need no change, in graph order. */
static void sweep(state *s) {
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    int program = s->program[id];
    if (s->done[id] || !is_ready(s, id)) continue;
    if (program != CLADE__ANY_PROGRAM && program != s->current[s->g->nodes[id].device]) continue;
    s->done[id] = true;
    s->order[s->n++] = id;
  }
}

static void change(state *s, int device, int program) {
  s->changes += s->current[device] != CLADE__ANY_PROGRAM;
  if (s->first[device] == CLADE__ANY_PROGRAM) s->first[device] = program;
  s->current[device] = program;
  sweep(s);
}

static void copy(const state *from, state *to) {
  size_t devices = (size_t)from->n_devices * sizeof(int);
  memcpy(to->done, from->done, from->g->n_nodes * sizeof *to->done);
  memcpy(to->order, from->order, from->n * sizeof *to->order);
  memcpy(to->first, from->first, devices);
  memcpy(to->current, from->current, devices);
  to->n = from->n;
  to->changes = from->changes;
}

/* Number of nodes that a change would allow to schedule. */
static size_t served(const state *s, state *scratch, int device, int program) {
  copy(s, scratch);
  change(scratch, device, program);
  return scratch->n - s->n;
}

static bool is_whole(const state *s) { return s->n + 1 == s->g->n_nodes; }

/* Number of unscheduled nodes that need the program. */
static size_t waiting(const state *s, int device, int program) {
  size_t n = 0;
  for (clade__id id = 1; id < s->g->n_nodes; id++)
    n += !s->done[id] && s->program[id] == program && s->g->nodes[id].device == device;
  return n;
}

/* Greedy choice: the program that serves the most nodes or, with `whole`, leaves the fewest nodes waiting for it. */
static bool finish(state *s, state *scratch, bool whole) {
  while (!is_whole(s)) {
    size_t most = 0, least = SIZE_MAX;
    int device = 0, program = 0;
    for (int i = 0; i < s->n_devices * s->most; i++) {
      size_t n = served(s, scratch, i / s->most, i % s->most), left = waiting(scratch, i / s->most, i % s->most);
      if (!n || (whole ? left > least || (left == least && n <= most) : n <= most)) continue;
      most = n;
      least = left;
      device = i / s->most;
      program = i % s->most;
    }
    if (!most) return false;
    change(s, device, program);
  }
  return true;
}

/* Includes the change back to the first program for the next execution. */
static int changes_of(const state *s) {
  int sum = s->changes;
  for (int d = 0; d < s->n_devices; d++) sum += s->first[d] != s->current[d];
  return sum;
}

static clade_status make(clade__arena *arena, const state *like, state *out) {
  size_t devices = (size_t)like->n_devices;
  *out = *like;
  out->done = clade__arena_new(arena, like->g->n_nodes * sizeof *out->done);
  out->order = clade__arena_new(arena, like->g->n_nodes * sizeof *out->order);
  out->first = clade__arena_new(arena, devices * sizeof *out->first);
  out->current = clade__arena_new(arena, devices * sizeof *out->current);
  if (!out->done || !out->order || !out->first || !out->current) return CLADE_NO_MEMORY;
  for (size_t d = 0; d < devices; d++) out->first[d] = out->current[d] = CLADE__ANY_PROGRAM;
  return CLADE_OK;
}

/* Effects keep the order in which they were built. */
static void find_effects(const clade_graph *g, clade__id *before) {
  clade__id last = 0;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade_op *op = g->nodes[id].op;
    if (op != &clade__op_assign && !(op->flags & CLADE_OP_EFFECT)) continue;
    before[id] = last;
    last = id;
  }
}

static clade_status search(clade__arena *arena, state *like, clade__id *order, int *changes) {
  state begun, trial, scratch;
  CLADE_TRY(make(arena, like, &begun));
  CLADE_TRY(make(arena, like, &trial));
  CLADE_TRY(make(arena, like, &scratch));
  sweep(&begun);
  *changes = -1;
  if (is_whole(&begun)) {
    memcpy(order, begun.order, begun.n * sizeof *order);
    *changes = 0;
  }
  int firsts = begun.n_devices * begun.most;
  for (int k = 0; !is_whole(&begun) && k < 2 * firsts; k++) { /* each initial program, with both heuristics */
    int i = k % firsts;
    if (!served(&begun, &scratch, i / begun.most, i % begun.most)) continue;
    copy(&begun, &trial);
    change(&trial, i / begun.most, i % begun.most);
    if (!finish(&trial, &scratch, k >= firsts) || (*changes >= 0 && changes_of(&trial) >= *changes)) continue;
    memcpy(order, trial.order, trial.n * sizeof *order);
    *changes = changes_of(&trial);
  }
  return *changes < 0 ? CLADE_FAIL(INTERNAL, "nodes wait for one another") : CLADE_OK;
}

clade_status clade__order(const clade_graph *g, int n_devices, const int *program, clade__id *order, int *changes) {
  clade__arena arena = {0};
  state like = {.g = g, .program = program, .n_devices = n_devices};
  clade__id *before = clade__arena_new(&arena, g->n_nodes * sizeof *before);
  clade_status status = before ? CLADE_OK : CLADE_NO_MEMORY;
  for (clade__id id = 1; id < g->n_nodes; id++) like.most = CLADE_MAX(like.most, program[id] + 1);
  if (before) find_effects(g, before);
  like.before = before;
  if (status == CLADE_OK) status = search(&arena, &like, order, changes);
  clade__arena_free(&arena);
  return status;
}

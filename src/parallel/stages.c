/* Assigns the nodes of a forward graph to pipeline pieces. A micro-batch is divided in graph order into pieces of
 * about equal cost, or as the user placed it; the other micro-batches are divided alike. Nodes that join
 * micro-batches, such as the mean loss, are in the last piece. Variables are in the piece of their first use; if
 * other pieces use a parameter, a transfer shared by all micro-batches brings it there, so that its gradient returns
 * once. */
#include <stdio.h>

#include "op/op.h"
#include "parallel/balance.h"
#include "parallel/parallel.h"

typedef struct lent { /* a parameter used outside of its piece */
  clade__id value, there;
  int piece;
} lent;

typedef struct stages {
  const clade_graph *g;
  const clade__grid *grid;
  int pieces;
  double flops, bytes;  /* per second */
  int *piece;           /* by node; -1: undetermined */
  int *place;           /* by node: position within its micro-batch; -1: source, assignment or free node */
  bool *free;           /* by node: any piece can compute it; the first micro-batch's may serve all, as for dropout */
  clade__id *first;     /* by position: the first micro-batch's node */
  int n;                /* number of positions common to all micro-batches */
  double *cost, *cross; /* by position; cross: communication of a cut before it */
  lent *lent;
  size_t n_lent, lent_capacity;
} stages;

static bool computes(const clade__node *n) { return !clade__is_source(n->op) && n->op != &clade__op_assign; }
static clade__id maker_of(const stages *s, clade__id value) { return s->g->values[value].node; }

static const char *name_of(const clade__node *n, char text[160]) {
  snprintf(text, 160, *n->name ? "%.64s \"%.80s\"" : "%.64s%.80s", n->op->name, n->name);
  return text;
}

/* ---- micro-batches ---- */
static bool alike(const clade_graph *g, const clade__node *a, const clade__node *b) {
  if (a->op != b->op || a->n_out != b->n_out) return false;
  for (int i = 0; i < a->n_out; i++)
    if (!clade_type_equal(clade__type(g, a->first_out + (clade__id)i), clade__type(g, b->first_out + (clade__id)i)))
      return false;
  return true;
}

static clade_status count_places(stages *s, int *count) {
  char name[160];
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    const clade__node *n = &s->g->nodes[id];
    s->place[id] = -1;
    const int share = clade__micro_batch(s->g, n);
    if (share < 0 || share >= s->grid->micro_batches)
      return CLADE_FAIL(INVALID, "pipeline: %s is of micro-batch %d of %d", name_of(n, name), share,
                        s->grid->micro_batches);
    if (!computes(n) || s->free[id]) continue;
    if (share == 0) s->first[count[0]] = id;
    s->place[id] = count[share]++;
  }
  s->n = count[0];
  for (int i = 1; i < s->grid->micro_batches; i++) s->n = CLADE_MIN(s->n, count[i]);
  for (int i = 0; i < s->grid->micro_batches; i++)
    if (!count[i])
      return CLADE_FAIL(INVALID, "pipeline: the graph has nothing of micro-batch %d of %d", i, s->grid->micro_batches);
  return CLADE_OK;
}

static clade_status find_places(stages *s) {
  char name[160], other[160];
  int *count = clade__new((size_t)s->grid->micro_batches, sizeof *count);
  if (!count) return CLADE_NO_MEMORY;
  const clade_status status = count_places(s, count);
  clade__free(count);
  CLADE_TRY(status);
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    const clade__node *n = &s->g->nodes[id];
    if (s->place[id] < 0 || s->place[id] >= s->n) continue;
    const clade__node *first = &s->g->nodes[s->first[s->place[id]]];
    if (!alike(s->g, n, first))
      return CLADE_FAIL(INVALID,
                        "pipeline: micro-batch %d has %s where the first one has %s: all are to be built alike",
                        clade__micro_batch(s->g, n), name_of(n, name), name_of(first, other));
  }
  return CLADE_OK;
}

/* ---- costs ---- */
/* Forward cost plus that of the derivatives, one per operand that needs one. */
static double seconds_of(const stages *s, clade__id id, const bool *learns) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade__node *n = &s->g->nodes[id];
  double bytes = 0;
  int passes = 1;
  if (n->op->flags & CLADE_OP_VIEW) return 0;
  clade__node_view(s->g, id, in, out, &view);
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    size_t one = 0;
    if (clade_type_bytes(i < n->n_in ? &in[i] : &out[i - n->n_in], &one) == CLADE_OK) bytes += (double)one;
  }
  for (int i = 0; i < n->n_in && i < 2; i++) passes += learns[n->in[i]];
  return CLADE_MAX(passes * clade__node_flops(&view) / s->flops, passes * bytes / s->bytes);
}

/* learns: by value, depends on a parameter. */
static void find_costs(stages *s, bool *learns, int *last) {
  for (size_t i = 0; i < s->g->variables.count; i++)
    learns[s->g->variables.at[i].value] = s->g->variables.at[i].parameter;
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    const clade__node *n = &s->g->nodes[id];
    bool learn = false;
    for (int i = 0; i < n->n_in; i++) {
      learn |= learns[n->in[i]];
      if (s->place[id] >= 0) /* nodes that join micro-batches come last */
        last[n->in[i]] = CLADE_MAX(last[n->in[i]], CLADE_MIN(s->place[id], s->n - 1));
    }
    for (int i = 0; i < n->n_out && n->n_in; i++) learns[n->first_out + (clade__id)i] = learn;
  }
  for (int k = 0; k < s->n; k++) {
    const clade__node *n = &s->g->nodes[s->first[k]];
    s->cost[k] = seconds_of(s, s->first[k], learns);
    for (int i = 0; i < n->n_out; i++) {
      const clade__id value = n->first_out + (clade__id)i;
      size_t bytes = 0;
      if (clade_type_bytes(clade__type(s->g, value), &bytes) != CLADE_OK) continue;
      for (int at = k + 1; at <= last[value]; at++) s->cross[at] += (double)bytes;
    }
  }
}

static clade_status weigh(stages *s) {
  bool *learns = clade__new(s->g->n_values, sizeof *learns);
  int *last = clade__new(s->g->n_values, sizeof *last);
  const clade_status status = learns && last ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) find_costs(s, learns, last);
  clade__free(learns);
  clade__free(last);
  return status;
}

/* ---- pieces ---- */
static bool is_placed(const stages *s) {
  for (clade__id id = 1; id < s->g->n_nodes; id++)
    if (s->g->nodes[id].device) return true;
  return false;
}

static clade_status take_placed(stages *s) {
  char name[160];
  bool *has = clade__new((size_t)s->pieces, sizeof *has);
  if (!has) return CLADE_NO_MEMORY;
  clade_status status = CLADE_OK;
  for (clade__id id = 1; id < s->g->n_nodes && status == CLADE_OK; id++) {
    const clade__node *n = &s->g->nodes[id];
    if (n->device >= s->pieces) {
      status = CLADE_FAIL(INVALID, "pipeline: clade_graph_place puts %s into piece %d; there are %d", name_of(n, name),
                          n->device, s->pieces);
    } else if (computes(n)) {
      s->piece[id] = n->device;
      has[n->device] |= s->place[id] >= 0;
    }
  }
  for (int k = 0; k < s->pieces && status == CLADE_OK; k++)
    if (!has[k])
      status = CLADE_FAIL(INVALID, "pipeline: clade_graph_place puts nothing into piece %d of %d: place all, or none",
                          k, s->pieces);
  clade__free(has);
  return status;
}

static clade_status cut(stages *s) {
  char name[160];
  if (s->n < s->pieces)
    return CLADE_FAIL(INVALID, "pipeline: %d stages of %d pieces each: the model has %d nodes to cut between, up to %s",
                      s->grid->pipeline, s->grid->interleave, s->n,
                      s->n ? name_of(&s->g->nodes[s->first[s->n - 1]], name) : "none");
  int *piece = clade__new((size_t)s->n, sizeof *piece);
  if (!piece) return CLADE_NO_MEMORY;
  const clade_status status = clade__balance(s->n, s->cost, s->cross, s->pieces, piece);
  for (clade__id id = 1; id < s->g->n_nodes && status == CLADE_OK; id++)
    if (s->place[id] >= 0) s->piece[id] = s->place[id] < s->n ? piece[s->place[id]] : s->pieces - 1;
  clade__free(piece);
  return status;
}

/* Sources and free nodes belong to their first user, assignments to their variable. Runs backward, since users come
 * later. */
static void settle(stages *s, bool placed) {
  for (clade__id id = (clade__id)s->g->n_nodes; id-- > 1;) {
    const clade__node *n = &s->g->nodes[id];
    for (int i = 0; computes(n) && s->piece[id] >= 0 && i < n->n_in; i++) {
      const clade__id from = maker_of(s, n->in[i]);
      if (clade__is_source(s->g->nodes[from].op) || (s->free[from] && !placed)) s->piece[from] = s->piece[id];
    }
  }
  for (clade__id id = 1; id < s->g->n_nodes; id++) {
    const clade__node *n = &s->g->nodes[id];
    s->piece[id] = n->op == &clade__op_assign ? s->piece[maker_of(s, n->in[0])] : CLADE_MAX(s->piece[id], 0);
  }
}

/* ---- copying the graph ---- */
static lent *find_lent(const stages *s, clade__id value, int piece) {
  for (size_t i = 0; i < s->n_lent; i++)
    if (s->lent[i].value == value && s->lent[i].piece == piece) return &s->lent[i];
  return NULL;
}

static clade_status find_users(stages *s) {
  bool *learnt = clade__new(s->g->n_values, sizeof *learnt);
  clade_status status = learnt ? CLADE_OK : CLADE_NO_MEMORY;
  for (size_t i = 0; learnt && i < s->g->variables.count; i++)
    learnt[s->g->variables.at[i].value] = s->g->variables.at[i].parameter;
  for (clade__id id = 1; id < s->g->n_nodes && status == CLADE_OK; id++) {
    const clade__node *n = &s->g->nodes[id];
    for (int i = 0; computes(n) && i < n->n_in && status == CLADE_OK; i++) {
      if (!learnt[n->in[i]] || s->piece[maker_of(s, n->in[i])] == s->piece[id] || find_lent(s, n->in[i], s->piece[id]))
        continue;
      status = clade__grow(&s->lent, &s->lent_capacity, s->n_lent + 1, sizeof *s->lent);
      if (status == CLADE_OK) s->lent[s->n_lent++] = (lent){.value = n->in[i], .piece = s->piece[id]};
    }
  }
  clade__free(learnt);
  return status;
}

static clade_status lend(const stages *s, clade__id value, clade_graph *g, clade__id mine) {
  for (size_t i = 0; i < s->n_lent; i++) {
    clade__id node;
    if (s->lent[i].value != value) continue;
    g->device = s->lent[i].piece;
    CLADE_TRY(
        clade__node_new(g, &clade__op_transfer, NULL, &(clade__transfer_attrs){s->lent[i].piece}, 1, &mine, &node));
    s->lent[i].there = g->nodes[node].first_out;
  }
  return CLADE_OK;
}

static clade_status copy(void *user, const clade_graph *old, clade__id id, clade_graph *g, clade__id *map) {
  const stages *s = user;
  const clade__node *n = &old->nodes[id];
  clade__id own[CLADE_MAX_OPERANDS];
  for (int i = 0; i < n->n_in; i++) {
    const lent *there = s->n_lent && computes(n) ? find_lent(s, n->in[i], s->piece[id]) : NULL;
    own[i] = map[n->in[i]];
    if (there) map[n->in[i]] = there->there;
  }
  const clade_status status = clade__node_copy_marked(old, id, g, map);
  for (int i = n->n_in; i-- > 0;) map[n->in[i]] = own[i];
  CLADE_TRY(status);
  clade__node *made = &g->nodes[g->n_nodes - 1];
  made->device = s->piece[id];
  if (s->place[id] >= s->n) made->share = old->first_share;
  return n->op == &clade__op_variable ? lend(s, n->first_out, g, made->first_out) : CLADE_OK;
}

/* ---- explanation ---- */
/* The layer name, "conv1" for "conv1.weight", of a node with parameters; else the op. */
static void tell_layer(const stages *s, clade__id id, clade__text *text) {
  const clade__node *n = &s->g->nodes[id];
  const char *name = n->op->name;
  size_t length = strlen(name);
  for (int i = 0; i < n->n_in; i++) {
    const clade__node *from = &s->g->nodes[maker_of(s, n->in[i])];
    if (from->op != &clade__op_variable) continue;
    const char *dot = strrchr(from->name, '.');
    name = from->name;
    length = dot ? (size_t)(dot - name) : strlen(name);
    break;
  }
  clade__text_add_bytes(text, name, length);
}

static bool has_variable(const stages *s, clade__id id) {
  const clade__node *n = &s->g->nodes[id];
  for (int i = 0; i < n->n_in; i++)
    if (s->g->nodes[maker_of(s, n->in[i])].op == &clade__op_variable) return true;
  return false;
}

/* Describes a piece by its first and last layers with variables. */
static void tell_piece(const stages *s, int piece, double all, clade__text *text) {
  clade__id first = 0, last = 0;
  double cost = 0, cross = 0;
  for (int k = 0; k < s->n; k++) {
    const clade__id id = s->first[k];
    if (s->piece[id] != piece) continue;
    cost += s->cost[k];
    if (k + 1 < s->n) cross = s->piece[s->first[k + 1]] != piece ? s->cross[k + 1] : 0;
    const bool has = has_variable(s, id);
    if (!first || (has && !has_variable(s, first))) first = id;
    if (!last || has || !has_variable(s, last)) last = id;
  }
  clade__text_add(text, "  piece %d of stage %d: ", piece, piece % s->grid->pipeline);
  if (first) tell_layer(s, first, text);
  if (first != last) {
    clade__text_add(text, " to ");
    tell_layer(s, last, text);
  }
  clade__text_add(text, ", %.1f%% of the estimated time", all > 0 ? 100 * cost / all : 0);
  if (cross > 0) clade__text_add(text, "; %.3g MB to later pieces of each micro-batch", cross / 1e6);
  clade__text_add(text, "\n");
}

static void tell(const stages *s, bool placed, clade__text *text) {
  double all = 0;
  for (int k = 0; k < s->n; k++) all += s->cost[k];
  clade__text_add(text, "pipeline: %d pieces on %d stages, %d micro-batches, cut %s\n", s->pieces, s->grid->pipeline,
                  s->grid->micro_batches, placed ? "as clade_graph_place says" : "by estimated time");
  for (int k = 0; k < s->pieces; k++) tell_piece(s, k, all, text);
  for (size_t i = 0; i < s->n_lent; i++)
    clade__text_add(text, "  parameter %s of piece %d is sent to piece %d, and its gradient back\n",
                    s->g->nodes[maker_of(s, s->lent[i].value)].name, s->piece[maker_of(s, s->lent[i].value)],
                    s->lent[i].piece);
}

static clade_status allocate(stages *s) {
  const size_t n = s->g->n_nodes;
  s->piece = clade__new(2 * n, sizeof *s->piece);
  s->first = clade__new(n, sizeof *s->first);
  s->cost = clade__new(2 * n, sizeof *s->cost);
  s->free = clade__new(n, sizeof *s->free);
  if (!s->piece || !s->first || !s->cost || !s->free) return CLADE_NO_MEMORY;
  s->place = s->piece + n;
  s->cross = s->cost + n;
  for (size_t i = 0; i < n; i++) s->piece[i] = -1;
  return CLADE_OK;
}

static clade_status assign(stages *s, clade_graph **out, clade__text *explain) {
  CLADE_TRY(allocate(s));
  clade__find_free(s->g, s->free);
  CLADE_TRY(find_places(s));
  CLADE_TRY(weigh(s));
  const bool placed = is_placed(s);
  CLADE_TRY(placed ? take_placed(s) : cut(s));
  settle(s, placed);
  CLADE_TRY(find_users(s));
  if (explain) tell(s, placed, explain);
  return clade__graph_rewrite(s->g, copy, s, out);
}

clade_status clade__stages_assign(const clade_graph *forward, const clade__grid *grid, double flops, clade_graph **out,
                                  clade__text *explain) {
  enum { FLOPS_A_BYTE = 10 }; /* typical of devices */
  stages s = {.g = forward, .grid = grid, .pieces = grid->pipeline * grid->interleave};
  *out = NULL;
  s.flops = flops > 0 ? flops : 1e12;
  s.bytes = s.flops / FLOPS_A_BYTE;
  CLADE_TRY(clade_graph_status(forward));
  const clade_status status = assign(&s, out, explain);
  clade__free(s.piece);
  clade__free(s.first);
  clade__free(s.cost);
  clade__free(s.free);
  clade__free(s.lent);
  return status;
}

/* ---- placement like another graph ---- */
static int piece_of(const clade_graph *laid, const char *name) {
  size_t index;
  if (!clade__map_get(&laid->variables.by_name, clade__hash_bytes(name, strlen(name)), &index)) return 0;
  return laid->nodes[laid->values[laid->variables.at[index].value].node].device;
}

void clade__stages_follow(const clade_graph *laid, clade_graph *g) {
  int piece = 0;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    clade__node *n = &g->nodes[id];
    if (n->op == &clade__op_variable) n->device = piece_of(laid, n->name);
    if (clade__is_source(n->op)) continue;
    for (int i = 0; i < n->n_in; i++) {
      const clade__node *from = &g->nodes[g->values[n->in[i]].node];
      if (from->op == &clade__op_variable) piece = CLADE_MAX(piece, from->device);
    }
    n->device = piece;
  }
  for (clade__id id = (clade__id)g->n_nodes; id-- > 1;) /* other sources belong to their first user */
    for (int i = 0; i < g->nodes[id].n_in; i++) {
      clade__node *from = &g->nodes[g->values[g->nodes[id].in[i]].node];
      if (clade__is_source(from->op) && from->op != &clade__op_variable) from->device = g->nodes[id].device;
    }
}

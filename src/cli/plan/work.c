/* Estimates a micro-batch on each pipeline stage: cuts the forward graph into pieces, adds derivatives, and sums
 * times, messages and live bytes for each piece. */
#include <math.h>

#include "cli/plan/cost.h"

/* A value in a piece's memory: in the piece that computes it, or a copy in another one. */
typedef struct place {
  clade__id birth, death; /* first and last node that use the memory */
  int piece, next;        /* next: index of the next place of the value; -1: none */
} place;

typedef struct walk {
  const clade_graph *g;
  const clade__grid *grid;
  const plan_device *device;
  const plan_links *links;
  clade__id forward_end; /* nodes before this one belong to the forward pass */
  uint32_t *uses;
  clade__id *root; /* for each value: the value that owns its memory */
  int *first;      /* for each root: its first place; -1: none */
  place *places;
  size_t n_places, place_capacity;
  plan_work *out;
} walk;

/* ---- the graph ---- */
static clade_status refuse(void *user, int peer, int tag, const void *data, size_t bytes, void **request) {
  (void)user, (void)peer, (void)tag, (void)data, (void)bytes, (void)request;
  return CLADE_FAIL(UNSUPPORTED, "a plan's ranks carry nothing");
}
static clade_status refuse_to_receive(void *user, int peer, int tag, void *data, size_t bytes, void **request) {
  return refuse(user, peer, tag, data, bytes, request);
}
static clade_status never(void *user, void *request, bool *done) {
  (void)user, (void)request;
  *done = false;
  return CLADE_OK;
}
static void forget(void *user, void *request) { (void)user, (void)request; }
static const clade_comm_impl nobody = {.size = sizeof nobody,
                                       .name = "plan",
                                       .send = refuse,
                                       .receive = refuse_to_receive,
                                       .test = never,
                                       .cancel = forget};

clade_status plan_nobody(int ranks, clade_comm **out) { return clade_comm_new(&nobody, NULL, 0, ranks, out); }

clade_status plan_part(const clade_graph *whole, const plan_device *device, const plan_links *links, clade_comm *comm,
                       clade_graph **out) {
  const scale_link *link = &links->link;
  const bool near = clade_comm_size(comm) <= link->near_ranks;
  const clade__tensor_how how = {.comm = comm,
                                 .wire = CLADE_F32,
                                 .speeds = {(near ? link->near_latency : link->latency) * 1e6,
                                            (near ? link->near_bandwidth : link->bandwidth) * 8e-9,
                                            device->flops * 1e-12}};
  CLADE_TRY(clade_graph_new(out));
  clade_graph_train(*out, true);
  clade_status status = clade__tensor_append(whole, &how, *out, NULL);
  if (status == CLADE_OK) status = clade_graph_status(*out);
  if (status == CLADE_OK) return CLADE_OK;
  clade_graph_release(*out);
  *out = NULL;
  return status;
}

static clade_status differentiate(clade_graph *g) {
  clade_val *xs = clade__new(2 * g->variables.count + 1, sizeof *xs);
  clade_status status = xs ? CLADE_OK : CLADE_NO_MEMORY;
  int n = 0;
  for (size_t i = 0; xs && i < g->variables.count; i++)
    if (g->variables.at[i].parameter) xs[n++] = clade__graph_val(g, g->variables.at[i].value);
  if (status == CLADE_OK) status = clade__gradients(g, plan_loss(g), (clade_val){0}, n, xs, xs ? xs + n : NULL);
  clade__free(xs);
  return status;
}

static clade_status build(const clade_graph *forward, const clade__grid *grid, double flops, clade_graph **out) {
  const clade__grid one = {grid->data, grid->tensor, grid->pipeline, 1, grid->interleave};
  if (grid->pipeline * grid->interleave == 1) return clade__graph_rewrite(forward, NULL, NULL, out);
  return clade__stages_assign(forward, &one, flops, out, NULL);
}

/* ---- lifetime of values ---- */
static bool is_source(const clade_graph *g, clade__id value) {
  const clade_op *op = g->nodes[g->values[value].node].op;
  return op == &clade__op_constant || op == &clade__op_input;
}

static bool is_variable(const clade_graph *g, clade__id value) {
  return g->nodes[g->values[value].node].op == &clade__op_variable;
}

/* Whether the value is a parameter that another piece owns. */
static bool is_lent(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  return n->op == &clade__op_transfer && is_variable(g, n->in[0]);
}

static place *place_at(const walk *w, clade__id root, int piece) {
  int at = w->first[root];
  while (at >= 0 && w->places[at].piece != piece) at = w->places[at].next;
  return at < 0 ? NULL : &w->places[at];
}

static clade_status place_new(walk *w, clade__id root, int piece, clade__id birth) {
  CLADE_TRY(clade__grow(&w->places, &w->place_capacity, w->n_places + 1, sizeof *w->places));
  w->places[w->n_places] = (place){birth, birth, piece, w->first[root]};
  w->first[root] = (int)w->n_places++;
  return CLADE_OK;
}

static clade_status message(walk *w, int from, int to, schedule_when when, double bytes) {
  plan_work *out = w->out;
  for (int i = 0; i < out->n_messages; i++) {
    schedule_message *m = &out->messages[i];
    if (m->from != from || m->to != to || m->when != when) continue;
    m->bytes += bytes;
    return CLADE_OK;
  }
  CLADE_TRY(clade__grow(&out->messages, &out->message_capacity, (size_t)out->n_messages + 1, sizeof *out->messages));
  out->messages[out->n_messages++] = (schedule_message){from, to, when, bytes};
  return CLADE_OK;
}

/* Records that a value is sent to a piece that uses it. If an earlier piece's backward pass needs a value of a later
 * piece, the value is sent with the later piece's gradients. A value that a backward pass computes on an earlier
 * piece is not sent to a later one, whose backward pass is already done. */
static clade_status cross(walk *w, clade__id root, int piece, clade__id user) {
  const clade__id maker = w->g->values[root].node;
  const int from = w->g->nodes[maker].device;
  const bool backward = maker >= w->forward_end || from > piece;
  schedule_when when = backward ? SCHEDULE_BACKWARD : SCHEDULE_FORWARD;
  if (backward && from < piece) return CLADE_OK;
  if (is_variable(w->g, root)) when = SCHEDULE_BEGIN;
  const clade__id derives = w->g->nodes[user].derives;
  if (derives && is_lent(w->g, w->g->nodes[derives].first_out)) when = SCHEDULE_END;
  return message(w, from, piece, when, plan_bytes(w->g, root));
}

/* Records the use of a value on a piece. A value that is fused into its user is not stored; its operands live longer
 * instead. */
static clade_status use(walk *w, clade__id value, clade__id user, int piece) {
  const clade__node *maker = &w->g->nodes[w->g->values[value].node];
  const clade__id root = w->root[value];
  if (is_source(w->g, root) || is_lent(w->g, root)) return CLADE_OK;
  if (plan_is_fused(w->g, w->uses, value, user)) {
    for (int i = 0; i < maker->n_in; i++) CLADE_TRY(use(w, maker->in[i], user, piece));
    return CLADE_OK;
  }
  if (!place_at(w, root, piece)) {
    CLADE_TRY(cross(w, root, piece, user));
    CLADE_TRY(place_new(w, root, piece, user));
  }
  place_at(w, root, piece)->death = user;
  return CLADE_OK;
}

/* ---- nodes ---- */
static bool is_backward(const walk *w, clade__id node) { return node >= w->forward_end; }

static clade_status add_move(walk *w, const plan_move *move) {
  plan_work *out = w->out;
  for (int i = 0; i < out->n_moves; i++) {
    plan_move *m = &out->moves[i];
    if (m->piece != move->piece || m->backward != move->backward || m->kind != move->kind || m->bytes != move->bytes)
      continue;
    m->n++;
    return CLADE_OK;
  }
  CLADE_TRY(clade__grow(&out->moves, &out->move_capacity, (size_t)out->n_moves + 1, sizeof *out->moves));
  out->moves[out->n_moves++] = *move;
  return CLADE_OK;
}

/* Marks nodes without a kernel of their own: elementwise nodes are fused into the next node of their chain, or into
 * the kernel whose result the chain starts with. */
static void mark_fused(const walk *w, bool *fused, bool *hosted) {
  for (clade__id id = 1; id < w->g->n_nodes; id++) {
    const clade__node *n = &w->g->nodes[id];
    for (int i = 0; i < n->n_in; i++) {
      const clade__id maker = w->g->values[n->in[i]].node;
      if (!plan_is_fused(w->g, w->uses, n->in[i], id)) continue;
      const bool chain = w->g->nodes[maker].op == &clade__op_eltwise;
      fused[maker] |= chain;
      hosted[id] |= !chain || hosted[maker];
    }
    fused[id] |= hosted[id];
  }
}

static clade_status take_costs(walk *w) {
  bool *fused = clade__new(2 * w->g->n_nodes, sizeof *fused);
  clade_status status = fused ? CLADE_OK : CLADE_NO_MEMORY;
  if (fused) mark_fused(w, fused, fused + w->g->n_nodes);
  for (clade__id id = 1; id < w->g->n_nodes && status == CLADE_OK; id++) {
    const int piece = w->g->nodes[id].device;
    plan_piece *p = &w->out->pieces[piece];
    plan_pass *pass = is_backward(w, id) ? &p->backward : &p->forward;
    plan_move move;
    if (plan_is_move(w->g, id, &move)) {
      move.piece = piece;
      move.backward = is_backward(w, id);
      pass->moves += plan_move_seconds(w->links, w->grid->tensor, &move);
      status = add_move(w, &move);
    } else if (!fused[id]) {
      pass->compute += plan_node_seconds(w->device, w->g, id);
    }
  }
  clade__free(fused);
  return status;
}

static clade_status take_values(walk *w) {
  for (clade__id id = 1; id < w->g->n_nodes; id++) {
    const clade__node *n = &w->g->nodes[id];
    for (int i = 0; i < n->n_in; i++) CLADE_TRY(use(w, n->in[i], id, n->device));
    for (int i = 0; i < n->n_out; i++) {
      const clade__id value = n->first_out + (clade__id)i;
      if (w->root[value] == value && !is_source(w->g, value)) CLADE_TRY(place_new(w, value, n->device, id));
    }
  }
  return CLADE_OK;
}

static clade_status take_variables(walk *w) {
  for (size_t i = 0; i < w->g->variables.count; i++) {
    const clade__port *port = &w->g->variables.at[i];
    plan_piece *p = &w->out->pieces[w->g->nodes[w->g->values[port->value].node].device];
    *(port->parameter ? &p->parameters : &p->others) += plan_bytes(w->g, port->value);
    if (!port->parameter) continue;
    CLADE_TRY(clade__grow(&p->sizes, &p->size_capacity, (size_t)p->n_sizes + 1, sizeof *p->sizes));
    p->sizes[p->n_sizes++] = (size_t)plan_bytes(w->g, port->value);
  }
  for (clade__id value = 1; value < w->g->n_values; value++)
    if (is_lent(w->g, value))
      w->out->pieces[w->g->nodes[w->g->values[value].node].device].lent += plan_bytes(w->g, value);
  return CLADE_OK;
}

/* Gradients of micro-batches are added in pairs: two are read, one is written. */
static void take_adds(const walk *w) {
  for (int i = 0; i < w->out->n_pieces; i++) {
    plan_piece *p = &w->out->pieces[i];
    p->backward.compute += 3 * p->parameters * (1 - 1.0 / w->grid->micro_batches) / w->device->bandwidth;
  }
}

/* ---- memory ---- */
/* Whether the forward pass computes a value that the backward pass needs: each micro-batch in flight keeps its own. */
static bool is_kept(const walk *w, const place *p) { return !is_backward(w, p->birth) && is_backward(w, p->death); }

/* For values that are not kept: the change of live bytes at each node. */
static clade_status take_memory(walk *w) {
  const size_t n = w->g->n_nodes, pieces = (size_t)w->out->n_pieces;
  double *change = clade__new(n + 1, sizeof *change);
  if (!change) return CLADE_NO_MEMORY;
  for (size_t piece = 0; piece < pieces; piece++) {
    plan_piece *out = &w->out->pieces[piece];
    memset(change, 0, (n + 1) * sizeof *change);
    for (clade__id value = 1; value < w->g->n_values; value++) {
      const place *p = is_variable(w->g, value) || is_lent(w->g, value) ? NULL : place_at(w, value, (int)piece);
      if (!p || p->birth == p->death) continue;
      const double bytes = plan_bytes(w->g, value);
      if (is_kept(w, p)) {
        out->kept += bytes;
      } else {
        change[p->birth] += bytes;
        change[p->death + 1] -= bytes;
      }
    }
    double live = 0;
    for (size_t id = 0; id < n; id++) out->passing = fmax(out->passing, live += change[id]);
  }
  clade__free(change);
  return CLADE_OK;
}

static clade_status find_roots(walk *w) {
  for (clade__id value = 1; value < w->g->n_values; value++) {
    const clade__node *n = &w->g->nodes[w->g->values[value].node];
    w->root[value] = n->op->flags & CLADE_OP_VIEW ? w->root[n->in[0]] : value;
    w->first[value] = -1;
  }
  return CLADE_OK;
}

static clade_status sum(walk *w) {
  w->root = clade__new(w->g->n_values, sizeof *w->root);
  w->first = clade__new(w->g->n_values, sizeof *w->first);
  w->out->pieces = clade__new((size_t)w->out->n_pieces, sizeof *w->out->pieces);
  if (!w->root || !w->first || !w->out->pieces) return CLADE_NO_MEMORY;
  CLADE_TRY(clade__graph_uses(w->g, &w->uses));
  CLADE_TRY(find_roots(w));
  CLADE_TRY(take_costs(w));
  CLADE_TRY(take_values(w));
  CLADE_TRY(take_variables(w));
  take_adds(w);
  return take_memory(w);
}

clade_status plan_work_of(const clade_graph *forward, const clade__grid *grid, const plan_device *device,
                          const plan_links *links, plan_work *out) {
  clade_graph *g = NULL;
  walk w = {.grid = grid, .device = device, .links = links, .out = out};
  *out = (plan_work){.n_pieces = grid->pipeline * grid->interleave};
  clade_status status = build(forward, grid, device->flops, &g);
  if (status == CLADE_OK) w.forward_end = (clade__id)g->n_nodes;
  if (status == CLADE_OK) status = differentiate(g);
  w.g = g;
  if (status == CLADE_OK) status = sum(&w);
  clade__free(w.uses);
  clade__free(w.root);
  clade__free(w.first);
  clade__free(w.places);
  clade_graph_release(g);
  if (status != CLADE_OK) plan_work_free(out);
  return status;
}

void plan_work_free(plan_work *work) {
  for (int i = 0; i < work->n_pieces && work->pieces; i++) clade__free(work->pieces[i].sizes);
  clade__free(work->pieces);
  clade__free(work->messages);
  clade__free(work->moves);
  *work = (plan_work){0};
}

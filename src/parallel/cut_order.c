/* The order of nodes in a pipeline. Each node has a time: that of its pass (the forward or backward pass of a
 * micro-batch through a piece) in an ideal pipeline (passes.h), or of its latest operand if that is later. So sums
 * over micro-batches come with their last operand, and updates after all passes. Nodes are ordered by time, then in
 * graph order; sums and effects directly follow their last operand, which keeps few gradients alive and sends values
 * early.
 *
 * Deadlock freedom: this is one total order for all stages, and each stage follows it. Consider the first unfinished
 * node. Its operands precede it, so they are finished, and operands from other stages have been sent, because a send
 * is an effect directly behind the node that it sends. Effects of a stage also begin in this order, so before that
 * send come only sends and sums over data ranks of finished values, and receives. None of these blocks another,
 * since receives are posted and sends are buffered. Hence the first node can run. Sums over data ranks involve only
 * the same stage of other pipelines, which has the same order. */
#include "parallel/cut.h"

/* The last node made by autodiff; sums of parameter gradients are marked and come last. */
static clade__id last_derivative(const clade_graph *g) {
  clade__id last = 0;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    bool derives = n->derives != 0;
    for (int i = 0; i < n->n_out; i++) {
      const clade__id like = g->values[n->first_out + (clade__id)i].like;
      derives |= like && g->nodes[g->values[like].node].op == &clade__op_variable;
    }
    if (derives) last = id;
  }
  return last;
}

int clade__cut_compare(const clade__when *a, const clade__when *b) {
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->pos != b->pos) return a->pos < b->pos ? -1 : 1;
  return a->node < b->node ? -1 : a->node > b->node;
}

/* End of the pass active on the stage at this time: results of a pass are sent by then. */
static double sent_by(const clade__cut *c, int stage, double time) {
  const int at = clade__passes_begun(&c->passes, stage, time);
  return at < 0 ? time : CLADE_MAX(time, c->passes.at[stage * c->passes.each + at].end);
}

double clade__cut_posted(const clade__cut *c, int stage, double used) {
  const int at = clade__passes_begun(&c->passes, stage, used);
  return at <= 0 ? 0 : c->passes.at[stage * c->passes.each + at - 1].start;
}

static bool is_effect(const clade__node *n) { return n->op->flags & CLADE_OP_EFFECT && n->op != &clade__op_assign; }

/* Sums of gradients have no originating node, but operands that do. */
static void find_sums(const clade__cut *c, clade__id last, bool *derived, bool *sums) {
  for (clade__id id = 1; id <= last; id++) {
    const clade__node *n = &c->g->nodes[id];
    bool any = false;
    for (int i = 0; i < n->n_in; i++) any |= derived[clade__cut_maker(c, n->in[i])];
    sums[id] = any && !n->derives;
    derived[id] = any || n->derives;
  }
}

/* When a value is available on the stage. */
static double arrives(const clade__cut *c, clade__id maker, int stage) {
  const int from = clade__cut_stage(c, maker);
  if (c->anywhere[maker] || c->g->nodes[maker].op == &clade__op_variable) return 0;
  return from == stage ? c->when[maker].time : sent_by(c, from, c->when[maker].time);
}

/* `own`: start of its pass. `behind`: placed directly after its last operand. */
static void place(clade__cut *c, clade__id id, double own, bool behind) {
  const clade__node *n = &c->g->nodes[id];
  clade__when when = {.time = own, .pos = behind ? 0 : id, .node = id};
  for (int i = 0; i < n->n_in; i++)
    when.time = CLADE_MAX(when.time, arrives(c, clade__cut_maker(c, n->in[i]), clade__cut_stage(c, id)));
  for (int i = 0; i < n->n_in && behind; i++) {
    const clade__id maker = clade__cut_maker(c, n->in[i]);
    if (!c->anywhere[maker] && c->when[maker].time == when.time) when.pos = CLADE_MAX(when.pos, c->when[maker].pos);
  }
  c->when[id] = when;
}

clade_status clade__cut_order(clade__cut *c) {
  const clade__id last = last_derivative(c->g);
  bool *derived = clade__arena_new(&c->arena, 2 * c->g->n_nodes * sizeof *derived);
  if (!derived) return CLADE_NO_MEMORY;
  bool *sums = derived + c->g->n_nodes;
  find_sums(c, last, derived, sums);
  for (clade__id id = 1; id < c->g->n_nodes; id++) {
    const clade__node *n = &c->g->nodes[id];
    double own = 0;
    c->when[id].node = id;
    if (c->anywhere[id] || !n->n_in) continue;
    if (n->op == &clade__op_assign || (last && id > last && !is_effect(n)))
      own = c->passes.end;
    else if (!sums[id] && id <= (last ? last : id))
      own = clade__passes_find(&c->passes, c->grid->pipeline, clade__micro_batch(c->g, n), n->device, n->derives != 0)
                ->start;
    place(c, id, own, sums[id] || is_effect(n));
  }
  return CLADE_OK;
}

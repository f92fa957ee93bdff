/* The order of a pipeline's nodes. Each has a time: that of its pass, the forward or backward pass of a micro-batch
 * through a piece of the model, in an ideal pipeline (passes.h); or later, where an operand is later: sums over
 * micro-batches come with the last of what they sum, updates behind all passes. Nodes are ordered by time, and within
 * it as they were built, but for sums and effects, which come directly behind their last operand: few gradients live
 * then, and what travels is on its way soon.
 *
 * No stages wait for one another in a circle: this is one order of the nodes of all stages together, and each stage
 * computes its own in it. Of all nodes that are not done yet take the first. Its operands come before it, so they are
 * done, and those of other stages were sent: a send is an effect directly behind the node whose value it takes. Effects
 * of a stage begin in this order too, so those before the send are sends of what is done, sums over data ranks of what
 * is done, and receives; and none of them waits for another to end, as receives are posted and sends are buffered. So
 * the first node can be computed. Sums over data ranks wait for the same stage of other pipelines alone, which have the
 * same order. */
#include "parallel/cut.h"

/* The last node that autodiff made: sums of parameters' gradients, which have marks, come last. */
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

/* The end of what runs on the stage at this time: what is computed in a pass is sent at its end at the latest. */
static double sent_by(const clade__cut *c, int stage, double time) {
  const int at = clade__passes_begun(&c->passes, stage, time);
  return at < 0 ? time : CLADE_MAX(time, c->passes.at[stage * c->passes.each + at].end);
}

double clade__cut_posted(const clade__cut *c, int stage, double used) {
  const int at = clade__passes_begun(&c->passes, stage, used);
  return at <= 0 ? 0 : c->passes.at[stage * c->passes.each + at - 1].start;
}

static bool is_effect(const clade__node *n) { return n->op->flags & CLADE_OP_EFFECT && n->op != &clade__op_assign; }

/* Sums of gradients, of which no node is the reason, have operands that derive something. */
static void find_sums(const clade__cut *c, clade__id last, bool *derived, bool *sums) {
  for (clade__id id = 1; id <= last; id++) {
    const clade__node *n = &c->g->nodes[id];
    bool any = false;
    for (int i = 0; i < n->n_in; i++) any |= derived[clade__cut_maker(c, n->in[i])];
    sums[id] = any && !n->derives;
    derived[id] = any || n->derives;
  }
}

/* When a value is on the stage. */
static double arrives(const clade__cut *c, clade__id maker, int stage) {
  const int from = clade__cut_stage(c, maker);
  if (c->anywhere[maker] || c->g->nodes[maker].op == &clade__op_variable) return 0;
  return from == stage ? c->when[maker].time : sent_by(c, from, c->when[maker].time);
}

/* `own`: when its pass begins. `behind`: it follows its last operand. */
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

/* Dead code elimination. Inputs and variables stay, since callers see them. */
#include "pass/pass.h"

static bool is_root(const clade__node *n) {
  return (n->op->flags & CLADE_OP_EFFECT) || n->op == &clade__op_input || n->op == &clade__op_variable;
}

static clade_status keep_live(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const bool *live = user;
  return live[node] ? clade__node_copy(old, node, g, map) : CLADE_OK;
}

clade_status clade__pass_dead(clade__pass_ctx *ctx) {
  const clade_graph *old = ctx->graph;
  bool *live = clade__new(old->n_nodes, sizeof *live);
  if (!live) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < old->outputs.count; i++) live[old->values[old->outputs.at[i].value].node] = true;
  for (size_t i = old->n_nodes; i-- > 1;) { /* reverse topological order */
    const clade__node *n = &old->nodes[i];
    live[i] = live[i] || is_root(n);
    for (int k = 0; live[i] && k < n->n_in; k++) live[old->values[n->in[k]].node] = true;
  }
  clade_status status = clade__pass_rewrite(ctx, keep_live, live);
  clade__free(live);
  return status;
}

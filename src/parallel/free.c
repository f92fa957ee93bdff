/* Finds the nodes that each stage of a pipeline can compute by itself. */
#include "parallel/parallel.h"

static clade__id maker_of(const clade_graph *g, clade__id value) { return g->values[value].node; }

static bool is_free(const clade_graph *g, clade__id id, const bool *free) {
  const clade__node *n = &g->nodes[id];
  if (n->op == &clade__op_variable) return free[id];
  if (n->op->flags & CLADE_OP_EFFECT || n->op == &clade__op_input) return false;
  for (int i = 0; i < n->n_in; i++)
    if (!free[maker_of(g, n->in[i])]) return false;
  return true;
}

/* A variable whose new value is not free is not free either, and so its dependents. */
void clade__find_free(const clade_graph *g, bool *free) {
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    free[maker_of(g, port->value)] = !port->parameter && clade__type(g, port->value)->shape.rank == 0;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (clade__id id = 1; id < g->n_nodes; id++) free[id] = is_free(g, id, free);
    for (size_t i = 0; i < g->variables.count; i++) {
      const clade__port *port = &g->variables.at[i];
      bool *own = &free[maker_of(g, port->value)];
      if (!*own || !port->assigned || free[maker_of(g, port->assigned)]) continue;
      *own = false;
      moved = true;
    }
  }
}

/* Floating-point operations of a graph's convolutions and matrix products. */
#include "op/op.h"
#include "prune/prune.h"

double clade__graph_flops(const clade_graph *g) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  double sum = 0;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    clade__node_view(g, id, in, out, &view);
    sum += clade__node_flops(&view);
  }
  return sum;
}

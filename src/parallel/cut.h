/* State for extracting pipeline stages (cut.c) and the position of nodes in the order (cut_order.c). */
#ifndef CLADE_PARALLEL_CUT_H
#define CLADE_PARALLEL_CUT_H

#include "parallel/passes.h"

/* Position of a node. All stages use one topological order of the whole graph. */
typedef struct clade__when {
  double time;   /* in the pipeline's ideal schedule */
  clade__id pos; /* ties: behind the node of this number */
  clade__id node;
} clade__when;

typedef struct clade__cut {
  const clade_graph *g;
  const clade__grid *grid;
  clade__arena arena;
  clade__passes passes;
  clade__id *origin; /* by value: source of its transfers */
  bool *anywhere;    /* by node: every stage that needs it has or computes it */
  bool *wanted;      /* [value * stages + stage] */
  bool *computed;    /* [node * stages + stage] */
  clade__when *when; /* by node */
} clade__cut;

static inline int clade__cut_stage(const clade__cut *c, clade__id node) {
  return c->g->nodes[node].device % c->grid->pipeline;
}
static inline clade__id clade__cut_maker(const clade__cut *c, clade__id value) {
  return c->g->values[c->origin[value]].node;
}

clade_status clade__cut_order(clade__cut *c);
/* When the stage posts the receive for a value that it uses at time `used`. */
double clade__cut_posted(const clade__cut *c, int stage, double used);
int clade__cut_compare(const clade__when *a, const clade__when *b);

#endif

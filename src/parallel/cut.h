/* What cutting a step of training into stages goes by (cut.c), and when its nodes come (cut_order.c). */
#ifndef CLADE_PARALLEL_CUT_H
#define CLADE_PARALLEL_CUT_H

#include "parallel/passes.h"

/* When a node comes. All stages go by one order of the whole graph's nodes, in which each comes behind its operands. */
typedef struct clade__when {
  double time;   /* of the passes */
  clade__id pos; /* within it: behind the node of this number */
  clade__id node;
} clade__when;

typedef struct clade__cut {
  const clade_graph *g;
  const clade__grid *grid;
  clade__arena arena;
  clade__passes passes;
  clade__id *origin; /* by value: what transfers brought it from */
  bool *anywhere;    /* by node: each stage that needs it has or computes it */
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
/* When the stage posts the receive of what a node there uses at this time. */
double clade__cut_posted(const clade__cut *c, int stage, double used);
int clade__cut_compare(const clade__when *a, const clade__when *b);

#endif

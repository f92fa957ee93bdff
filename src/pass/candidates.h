/* What select weighs: the candidates to compute each node, and the layouts in which each value may lie. */
#ifndef CLADE_CANDIDATES_H
#define CLADE_CANDIDATES_H

#include "pass/pass.h"

/* A window's weights in training: as they are, and three ways each forward and to the data. */
enum { CLADE__MOST_LAYOUTS = 7, CLADE__MOST_CANDIDATES = 32 };

/* The layouts in which a value may lie. [0] is what its node was built with. */
typedef struct clade__layouts {
  uint8_t count;
  bool frozen; /* a packed copy of it is made once and kept: it costs nothing */
  clade_layout at[CLADE__MOST_LAYOUTS];
} clade__layouts;

typedef struct clade__candidate {
  int impl; /* -1: the node needs none */
  double cost;
  const int32_t *config;
  uint8_t *indices; /* of the operands, then of the outputs: which one of the value's */
} clade__candidate;

typedef struct clade__candidates {
  int count, chosen;
  clade__candidate *at;
  const char **refusals; /* by implementation */
  clade__pick pick;      /* what tuning records say; then the others are none */
} clade__candidates;

/* A value that pack or unpack made is its operand in another layout: all are told by the one that they go back to. */
typedef struct clade__choice {
  const clade__pass_ctx *ctx;
  const clade_graph *g;
  clade__arena arena;
  clade__candidates *candidates; /* by node; of what only changes a layout there are none */
  clade__id *root;               /* by value */
  clade__layouts *layouts;       /* by root */
} clade__choice;

/* A layout of the value; -1: it has too many already. */
int clade__layout_index(clade__choice *c, clade__id value, clade_layout layout);
/* The layout that the value was built with. */
int clade__layout_built(const clade__choice *c, clade__id value);
/* The node as the implementation would see it of this candidate. in and out have room for its operands. */
void clade__candidate_view(const clade__choice *c, clade__id node, const clade__candidate *candidate, clade_type *in,
                           clade_type *out, clade_node *view);
/* All of them, for every node; and roots and layouts. */
clade_status clade__candidates_find(clade__choice *c);
/* The candidates of nodes that work in any layout, in those that their neighbors have. */
clade_status clade__candidates_spread(clade__choice *c);
clade_status clade__candidate_add(clade__choice *c, clade__id node, const clade__candidate *candidate);
/* Sets `chosen` of every node: the least that implementations and conversions take together. */
clade_status clade__candidates_choose(clade__choice *c);

/* Seconds that it takes to bring a value of the type into `layout`, or from there into dense. */
double clade__pack_cost(const clade_device_info *device, const clade_type *type, clade_layout layout);
double clade__unpack_cost(const clade_device_info *device, const clade_type *type, clade_layout layout);
bool clade__same_layout(clade_layout a, clade_layout b);

/* The graph with the chosen implementations, and a conversion wherever a value is wanted in another layout than it has:
 * one for each value and layout. */
clade_status clade__candidates_apply(clade__choice *c, clade__pass_ctx *ctx);

#endif

/* Search space of the select pass: candidates for each node and possible layouts for each value. */
#ifndef CLADE_CANDIDATES_H
#define CLADE_CANDIDATES_H

#include "pass/pass.h"

/* A convolution's weights in training: dense, and three layouts each for the forward and the data gradient kernels. */
enum { CLADE__MOST_LAYOUTS = 7, CLADE__MOST_CANDIDATES = 32 };

/* Possible layouts of a value; [0] is the one that its node was built with. */
typedef struct clade__layouts {
  uint8_t count;
  bool frozen; /* constant across executions: reordered once, at no cost */
  clade_layout at[CLADE__MOST_LAYOUTS];
} clade__layouts;

typedef struct clade__candidate {
  int impl; /* -1: needs none */
  double cost;
  const int32_t *config;
  uint8_t *indices; /* layout indices of operands, then outputs */
} clade__candidate;

typedef struct clade__candidates {
  int count, chosen;
  clade__candidate *at;
  const char **refusals; /* by implementation */
  clade__pick pick;      /* from tuning records; if set, other candidates are dropped */
} clade__candidates;

/* Values made by pack or unpack represent their operand in another layout; `root` maps them to that value. */
typedef struct clade__choice {
  const clade__pass_ctx *ctx;
  const clade_graph *g;
  clade__arena arena;
  clade__candidates *candidates; /* by node; none for layout changes */
  clade__id *root;               /* by value */
  clade__layouts *layouts;       /* by root */
} clade__choice;

/* Index of a layout of the value, added if new; -1: too many. */
int clade__layout_index(clade__choice *c, clade__id value, clade_layout layout);
/* Index of the layout that the value was built with. */
int clade__layout_built(const clade__choice *c, clade__id value);
/* The node as the implementation sees it with this candidate. in and out need room for its operands. */
void clade__candidate_view(const clade__choice *c, clade__id node, const clade__candidate *candidate, clade_type *in,
                           clade_type *out, clade_node *view);
/* Finds roots, layouts and all candidates. */
clade_status clade__candidates_find(clade__choice *c);
/* Adds candidates for nodes that accept any layout, in the layouts of their neighbors. */
clade_status clade__candidates_spread(clade__choice *c);
clade_status clade__candidate_add(clade__choice *c, clade__id node, const clade__candidate *candidate);
/* Sets `chosen` of every node so that the total cost of implementations and reorders is minimal. */
clade_status clade__candidates_choose(clade__choice *c);

/* Seconds to reorder a value from dense to `layout`, or back. */
double clade__pack_cost(const clade_device_info *device, const clade_type *type, clade_layout layout);
double clade__unpack_cost(const clade_device_info *device, const clade_type *type, clade_layout layout);
bool clade__same_layout(clade_layout a, clade_layout b);

/* Builds the graph with the chosen implementations and the necessary reorders, one per value and layout. */
clade_status clade__candidates_apply(clade__choice *c, clade__pass_ctx *ctx);

#endif

/* Shared by the files of pruning. */
#ifndef CLADE_PRUNE_INTERNAL_H
#define CLADE_PRUNE_INTERNAL_H

#include <clade/prune.h>

#include "ir/ties.h"

/* ---- removable channels (units.c) ---- */
/* Index of a variable along an axis. A unit, that is a channel, consists of all indices that must be kept or removed
 * together. */
typedef struct clade__member {
  int variable, axis; /* variable: its number in the graph */
  int64_t at;
} clade__member;
typedef struct clade__unit {
  size_t n, capacity;
  clade__member *members; /* ordered by variable, axis, index */
  int layer;
  double score; /* relative to its layer, whose mean is 1 */
  bool removed;
} clade__unit;
/* All units with members along the same axes of the same variables. */
typedef struct clade__layer {
  const char *name;
  int64_t n, removed, multiple;
} clade__layer;
typedef struct clade__units {
  clade__unit *at;
  size_t n, capacity;
  clade__layer *layers;
  size_t n_layers, layer_capacity;
} clade__units;
/* Finds the graph's units; free also after a failure. */
clade_status clade__units_find(const clade_graph *g, clade__units *out);
void clade__units_free(clade__units *units);

/* ---- selection (rank.c, choose.c) ---- */
clade_status clade__units_rank(const clade_graph *g, const clade_vars *vars, clade_prune_rank rank, clade__units *u);
/* Marks units with the smallest scores as removed; their number is as close as possible to the fraction of all. */
clade_status clade__units_choose(clade__units *units, double sparsity);
/* Multiple of channels that kernels compute without a remainder. */
int64_t clade__width_multiple(int64_t channels);

/* ---- values ---- */
/* Elements of a variable as floats, to be freed. */
clade_status clade__vars_floats(const clade_vars *vars, const char *name, const clade_type *type, float **out,
                                size_t *n);
/* Whether a parameter's weights are pruned, and whether its shape fits the structure. */
bool clade__is_weight(const clade_port_info *info);
bool clade__structure_fits(clade_prune_structure structure, const clade_type *type);

/* Floating-point operations of the graph's convolutions and products. */
double clade__graph_flops(const clade_graph *g);

#endif

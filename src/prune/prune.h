/* What the files of pruning share. */
#ifndef CLADE_PRUNE_INTERNAL_H
#define CLADE_PRUNE_INTERNAL_H

#include <clade/prune.h>

#include "ir/ties.h"

/* ---- what may be removed (units.c) ---- */
/* Places of variables that stay or go together: a channel. */
typedef struct clade__member {
  int variable, axis; /* variable: its number in the graph */
  int64_t at;
} clade__member;
typedef struct clade__unit {
  size_t n, capacity;
  clade__member *members; /* by variable, axis, place */
  int layer;
  double score; /* the mean of its layer is 1 */
  bool removed;
} clade__unit;
/* Units with members along the same axes of the same variables. */
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
/* Those of the graph, to be freed also where it failed. */
clade_status clade__units_find(const clade_graph *g, clade__units *out);
void clade__units_free(clade__units *units);

/* ---- which are (rank.c, choose.c) ---- */
clade_status clade__units_rank(const clade_graph *g, const clade_vars *vars, clade_prune_rank rank, clade__units *u);
/* Marks the least of them, as many as are nearest to the fraction of all. */
clade_status clade__units_choose(clade__units *units, double sparsity);
/* Widths are multiples of this, which kernels compute without a rest. */
int64_t clade__width_multiple(int64_t channels);

/* ---- values ---- */
/* A variable's elements as floats, to be freed. */
clade_status clade__vars_floats(const clade_vars *vars, const char *name, const clade_type *type, float **out,
                                size_t *n);
/* Whether weights of such a parameter are pruned: what the structure cannot fit is left out. */
bool clade__is_weight(const clade_port_info *info);
bool clade__structure_fits(clade_prune_structure structure, const clade_type *type);

/* Multiplications and additions of the graph's convolutions and products. */
double clade__graph_flops(const clade_graph *g);

#endif

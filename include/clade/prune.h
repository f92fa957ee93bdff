/* Pruning: smaller models out of trained ones. docs/pruning.md tells what is removed, and why nothing else is.
 *
 *     clade_prune_channels(graph, vars, &pruning, .sparsity = 0.5);
 *     clade_pruning_shapes(pruning, small);        // a new graph
 *     model(small, …);                             // built by the same function
 *     clade_pruning_check(pruning, small);
 *     … clade_compile, clade_vars_new …
 *     clade_pruning_apply(pruning, vars, small_vars);
 */
#ifndef CLADE_PRUNE_H
#define CLADE_PRUNE_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

typedef enum clade_prune_structure {
  CLADE_PRUNE_NONE = 0,
  CLADE_PRUNE_CHANNELS, /* whole channels: smaller tensors */
  CLADE_PRUNE_WEIGHTS,  /* single weights become 0: the smallest of each tensor */
  CLADE_PRUNE_2_4       /* of four weights in a row, along the inputs, two become 0 */
} clade_prune_structure;
CLADE_API const char *clade_prune_structure_name(clade_prune_structure structure); /* "2:4"; "?": there is none */

/* By what channels are compared. */
typedef enum clade_prune_rank {
  CLADE_PRUNE_BY_L2 = 0,    /* the norm of all weights that would go with the channel */
  CLADE_PRUNE_BY_L1,        /* the sum of their magnitudes */
  CLADE_PRUNE_BY_BATCH_NORM /* the scales of its batch normalizations; refused where a channel has none */
} clade_prune_rank;

/* ---- channels ---- */
typedef struct clade_pruning clade_pruning; /* what is removed from a model */

typedef struct clade_prune_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_prune_opt));
  clade_pruning **out CLADE_UNSET;
  double sparsity CLADE_UNSET; /* the fraction of the channels that can go: from 0 to below 1 */
  clade_prune_rank rank CLADE_UNSET;
} clade_prune_opt;

/* clade_prune_channels(graph, vars, &pruning, .sparsity = 0.5): decides by the values of the graph's variables. The
 * graph is one for inference, with sizes for all dimensions; it and the variables stay as they are. */
#define clade_prune_channels(graph, vars, ...) \
  clade_prune_channels_(graph, vars, CLADE_OPT(clade_prune_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_prune_channels_(const clade_graph *graph, const clade_vars *vars,
                                             const clade_prune_opt *opt);
CLADE_API void clade_pruning_free(clade_pruning *pruning); /* NULL is fine */

/* clade_graph_shape of all variables: what is then built in `g` is the smaller model. */
CLADE_API clade_status clade_pruning_shapes(const clade_pruning *pruning, clade_graph *g);
/* That `g` is the graph that was pruned but for the channels: names the first node that is not, as where a builder
 * writes a width that it could have taken from a value. */
CLADE_API clade_status clade_pruning_check(const clade_pruning *pruning, const clade_graph *g);
/* What is left of each variable of `from` into that of `to`. Variables of `to` that the graph did not have stay. */
CLADE_API clade_status clade_pruning_apply(const clade_pruning *pruning, const clade_vars *from, clade_vars *to);

typedef struct clade_pruning_info {
  size_t size;
  int layers;                /* sets of channels that are alike, each of the widths of one or more layers */
  int64_t channels, removed; /* that can go, and that do */
} clade_pruning_info;
CLADE_API clade_status clade_pruning_get_info(const clade_pruning *pruning, clade_pruning_info *info);
typedef struct clade_pruning_layer {
  size_t size;
  const char *name; /* of the first variable that has the channels; as long as the pruning */
  int64_t channels, removed;
} clade_pruning_layer;
CLADE_API clade_status clade_pruning_get_layer(const clade_pruning *pruning, int index, clade_pruning_layer *layer);

/* ---- weights ---- */
typedef struct clade_pruned_weights {
  size_t size;
  int64_t weights, zeros;   /* of parameters of two dimensions and more that the structure fits; zeros among them */
  int parameters, left_out; /* how many it fits, and how many not */
} clade_pruned_weights;
/* Sets weights to 0, and what an optimizer keeps of them; clade_minimize(.keep_zeros = true) trains the others. Of
 * CLADE_PRUNE_WEIGHTS the fraction `sparsity` of each parameter, of CLADE_PRUNE_2_4 the half. `result` may be NULL. */
CLADE_API clade_status clade_prune_weights(clade_vars *vars, clade_prune_structure structure, double sparsity,
                                           clade_pruned_weights *result);

CLADE_END_DECLS
#endif

/* Pruning: smaller models from trained ones. docs/pruning.md explains which channels can be removed.
 *
 *     clade_prune_channels(graph, vars, &pruning, .sparsity = 0.5);
 *     clade_pruning_shapes(pruning, small);        // a new graph
 *     model(small, …);                             // built by the same function
 *     clade_pruning_check(pruning, small);
 *     … clade_compile, clade_vars_new …
 *     clade_pruning_apply(pruning, vars, small_vars); */
#ifndef CLADE_PRUNE_H
#define CLADE_PRUNE_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

/* The structure of what is pruned. */
typedef enum clade_prune_structure {
  CLADE_PRUNE_NONE = 0, /* nothing */
  CLADE_PRUNE_CHANNELS, /* channels are removed: tensors become smaller */
  CLADE_PRUNE_WEIGHTS,  /* the smallest weights of each tensor become 0 */
  CLADE_PRUNE_2_4       /* two of four consecutive weights along the inputs become 0 */
} clade_prune_structure;
CLADE_API const char *clade_prune_structure_name(clade_prune_structure structure); /* "2:4"; "?" if unknown */

/* The importance of a channel. */
typedef enum clade_prune_rank {
  CLADE_PRUNE_BY_L2 = 0,    /* L2 norm of all weights that are removed with the channel */
  CLADE_PRUNE_BY_L1,        /* sum of their magnitudes */
  CLADE_PRUNE_BY_BATCH_NORM /* scales of its batch normalizations; refused if a channel has none */
} clade_prune_rank;

/* ---- channels ---- */
/* The channels to remove from a model. */
typedef struct clade_pruning clade_pruning;

/* Options of clade_prune_channels. */
typedef struct clade_prune_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_prune_opt));
  clade_pruning **out CLADE_UNSET;   /* the result */
  double sparsity CLADE_UNSET;       /* fraction of the removable channels, from 0 to below 1 */
  clade_prune_rank rank CLADE_UNSET; /* importance of a channel */
} clade_prune_opt;

/* Chooses channels by the values of the graph's variables: clade_prune_channels(graph, vars, &pruning, .sparsity =
 * 0.5). The graph is one for inference without symbols. Graph and variables stay as they are. */
#define clade_prune_channels(graph, vars, ...) \
  clade_prune_channels_(graph, vars, CLADE_OPT(clade_prune_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_prune_channels_(const clade_graph *graph, const clade_vars *vars,
                                             const clade_prune_opt *opt);
CLADE_API void clade_pruning_free(clade_pruning *pruning); /* NULL may be freed */

/* Calls clade_graph_shape for all variables, so that the model that is built in `g` next is the smaller one. */
CLADE_API clade_status clade_pruning_shapes(const clade_pruning *pruning, clade_graph *g);
/* Checks that `g` is the pruned graph, apart from the channels. The error names the first node that differs, as when a
 * builder has a constant width instead of the width of a value. */
CLADE_API clade_status clade_pruning_check(const clade_pruning *pruning, const clade_graph *g);
/* Copies the remaining channels of each variable. Variables of `to` that the graph did not have stay as they are. */
CLADE_API clade_status clade_pruning_apply(const clade_pruning *pruning, const clade_vars *from, clade_vars *to);

/* The size of a pruning. */
typedef struct clade_pruning_info {
  size_t size;
  int layers;                /* sets of channels that are removed together, each of the width of one or more layers */
  int64_t channels, removed; /* channels that can be removed, and that are */
} clade_pruning_info;
/* Describes the pruning. The caller sets info->size. */
CLADE_API clade_status clade_pruning_get_info(const clade_pruning *pruning, clade_pruning_info *info);
/* One set of channels. */
typedef struct clade_pruning_layer {
  size_t size;
  const char *name;          /* the first variable with these channels; lives as long as the pruning */
  int64_t channels, removed; /* channels that can be removed, and that are */
} clade_pruning_layer;
/* Describes a set by its index. The caller sets layer->size. */
CLADE_API clade_status clade_pruning_get_layer(const clade_pruning *pruning, int index, clade_pruning_layer *layer);

/* ---- weights ---- */
/* The result of clade_prune_weights. */
typedef struct clade_pruned_weights {
  size_t size;
  int64_t weights, zeros;   /* weights in the parameters that were pruned; zeros among them */
  int parameters, left_out; /* parameters that were pruned; parameters that the structure does not fit */
} clade_pruned_weights;
/* Sets weights of parameters of two dimensions or more, and their optimizer state, to 0: the fraction `sparsity` of
 * each parameter (CLADE_PRUNE_WEIGHTS), or one half (CLADE_PRUNE_2_4). Train the others with clade_minimize(.keep_zeros
 * = true). `result` may be NULL. */
CLADE_API clade_status clade_prune_weights(clade_vars *vars, clade_prune_structure structure, double sparsity,
                                           clade_pruned_weights *result);

CLADE_END_DECLS
#endif

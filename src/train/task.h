/* The state of clade_minimize while it adds nodes, shared by its files. */
#ifndef CLADE_TRAIN_TASK_H
#define CLADE_TRAIN_TASK_H

#include "op/update/update.h"
#include "train/optim.h"

/* Learned parameters with gradients, moments and state. Parameters of the same device and type are contiguous. */
typedef struct clade__task {
  clade_graph *g;
  const clade_minimize_opt *opt;
  const char *what; /* name of the public function, for messages */
  int n, n_moments;
  const clade_rule *rule;
  clade_val *parameters, *gradients, *moments, *new_parameters, *new_moments, *state, *new_state;
  const char **names;
  bool *decays;
  int *owners; /* if sharded: owning rank of each */
  int n_all;   /* if sharded: parameters of all ranks, in the same order on every rank */
  clade_val *all;
  int *all_owners;
  clade_val step, next, lr, scale, clip_scale; /* step: number of steps before this one; next: with this one */
  clade_val loss_scale, squares, clean;        /* clean: whether the step is not skipped; invalid: no step ever is */
  clade_val part_squares; /* used by clade__task_squares: sum over partial parameters; limit of elements */
  float clip;
} clade__task;

/* Allocates for n parameters; free also after a failure. */
clade_status clade__task_alloc(clade__task *t, size_t n);
void clade__task_free(clade__task *t);
static inline clade_type clade__task_type(const clade__task *t, clade_val v) { return *clade__type(t->g, v.id); }
static inline int clade__task_device(const clade__task *t, clade_val v) {
  return t->g->nodes[t->g->values[v.id].node].device;
}
/* Size in bytes; 0 if symbols are left. */
size_t clade__task_bytes(const clade__task *t, clade_val v);
/* Lists the graph's parameters that may have gradients. */
void clade__task_list(clade__task *t);
/* Calls fn for each group of parameters of the same device and type, on its device. Afterwards the graph is on the
 * device of the first. */
clade_status clade__task_groups(clade__task *t, clade_status (*fn)(clade__task *t, int first, int n));

/* Adds the squares of all gradients, times t->scale and limited by `clip`, to `squares`; parameters that are partial
 * are summed over their ranks. */
clade_status clade__task_squares(clade__task *t, float clip, clade_val *squares);
clade_val clade__find_variable(const clade_graph *g, const char *name); /* invalid: not found */
clade_val clade__scalar_variable(clade_graph *g, const char *name, clade_dtype dtype, double value);
clade_val clade__one_more(clade_graph *g, clade_val count); /* i64 count + 1 */
bool clade__task_is_part(const clade__task *t, int i);      /* whether a rank has only a part of parameter i */
/* The variable optimizer.KIND:PARAMETER, on the parameter's device and partial like it; moves the graph there. */
clade_val clade__task_state(clade__task *t, const char *kind, int i);
/* Updates a state variable for each value of a group by averages or sums of `from`; count is 1 at the first step. */
clade_status clade__task_fold(clade__task *t, const char *kind, clade__update_attrs attrs, clade_val count,
                              const clade_val *from, int first, int n);

/* ---- loss_scale.c ---- */
clade_status clade__loss_scale_check(const clade_minimize_opt *opt);
/* Sets t->loss_scale, by which the loss is multiplied before differentiation, and t->scale, by which gradients are
 * multiplied afterwards. */
clade_status clade__task_scale_loss(clade__task *t, clade_val loss);
/* Decides from the final gradients whether the step is clean (t->clean), and the next scale. Assignments made so far
 * depend on it. */
clade_status clade__task_judge(clade__task *t);
clade_val clade__task_unless_skipped(clade__task *t, clade_val next, clade_val old);

/* ---- shard.c ---- */
/* Sizes of collectives in bytes. The first of a device is small so that it starts early. */
enum { CLADE__FIRST_BUCKET = 1 << 20, CLADE__BUCKET = 8 << 20 };
clade_status clade__shard_check(clade_shard shard);
/* Assigns n parameters to ranks with balanced sizes. */
clade_status clade__shard_owners(int n, const size_t *bytes, int ranks, int *owners);
/* Whether the sharding is `from` or more. */
bool clade__task_shards(const clade__task *t, clade_shard from);
clade_status clade__task_find_owners(clade__task *t);
/* Removes the parameters of other ranks, which this rank does not update. */
void clade__task_keep_own(clade__task *t);
/* Gathers the updated parameters of other ranks and assigns them. */
clade_status clade__task_gather(clade__task *t);

clade_status clade__task_sum(clade__task *t);
/* Takes parameters and gradients from the sums of the graph t->opt->model. */
clade_status clade__task_take_sums(clade__task *t);

#endif

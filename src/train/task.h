/* What clade_minimize works on while it adds nodes, and what its files share. */
#ifndef CLADE_TRAIN_TASK_H
#define CLADE_TRAIN_TASK_H

#include "op/update.h"
#include "train/optim.h"

/* Parameters that are learnt, with what belongs to each; those of one device and type stand together. */
typedef struct clade__task {
  clade_graph *g;
  const clade_minimize_opt *opt;
  const char *what; /* the function, for messages */
  int n, n_moments;
  const clade_rule *rule;
  clade_val *parameters, *gradients, *moments, *new_parameters, *new_moments, *state, *new_state;
  const char **names;
  bool *decays;
  int *owners; /* sharded: the rank of each */
  int n_all;   /* sharded: of all ranks' parameters, in an order that is the same everywhere */
  clade_val *all;
  int *all_owners;
  clade_val step, next, lr, scale, clip_scale; /* step: done before this one; next: with it */
  clade_val loss_scale, squares, clean;        /* clean: whether this step is not skipped; invalid: none ever is */
  clade_val part_squares; /* while squares are added, those of parts; `clip`: where gradients are cut */
  float clip;
} clade__task;

/* Room for n parameters; to be freed also where it failed. */
clade_status clade__task_alloc(clade__task *t, size_t n);
void clade__task_free(clade__task *t);
static inline clade_type clade__task_type(const clade__task *t, clade_val v) { return *clade__type(t->g, v.id); }
static inline int clade__task_device(const clade__task *t, clade_val v) {
  return t->g->nodes[t->g->values[v.id].node].device;
}
/* 0 where symbols are left. */
size_t clade__task_bytes(const clade__task *t, clade_val v);
/* The parameters of the graph that may have gradients. */
void clade__task_list(clade__task *t);
/* Calls fn for each group of parameters of one device and type, on its device; the graph is on the first one's after.
 */
clade_status clade__task_groups(clade__task *t, clade_status (*fn)(clade__task *t, int first, int n));

/* Adds to `squares` those of all gradients, times t->scale and cut at `clip`; over the ranks that have parts. */
clade_status clade__task_squares(clade__task *t, float clip, clade_val *squares);
clade_val clade__find_variable(const clade_graph *g, const char *name); /* invalid: there is none */
clade_val clade__scalar_variable(clade_graph *g, const char *name, clade_dtype dtype, double value);
clade_val clade__one_more(clade_graph *g, clade_val count); /* of i64 */
bool clade__task_is_part(const clade__task *t, int i);      /* the i-th parameter, of a whole that ranks share out */
/* optimizer.KIND:PARAMETER, where the parameter is, and a part where that is one; moves the graph there. */
clade_val clade__task_state(clade__task *t, const char *kind, int i);
/* Averages and sums of `from` in one such state each, of a group: count is 1 the first time. */
clade_status clade__task_fold(clade__task *t, const char *kind, clade__update_attrs attrs, clade_val count,
                              const clade_val *from, int first, int n);

/* ---- loss_scale.c ---- */
clade_status clade__loss_scale_check(const clade_minimize_opt *opt);
/* What the loss is derived by, in t->loss_scale, and what gradients are then to be multiplied by, in t->scale. */
clade_status clade__task_scale_loss(clade__task *t, clade_val loss);
/* From the gradients as they are used: t->clean, and the next scale. What is assigned so far waits for it. */
clade_status clade__task_judge(clade__task *t);
clade_val clade__task_unless_skipped(clade__task *t, clade_val next, clade_val old);

/* ---- shard.c ---- */
enum { CLADE__FIRST_BUCKET = 1 << 20, CLADE__BUCKET = 8 << 20 }; /* bytes of collectives; the first is there soon */
clade_status clade__shard_check(clade_shard shard);
/* A rank for each of n parameters, so that ranks have about as many bytes. */
clade_status clade__shard_owners(int n, const size_t *bytes, int ranks, int *owners);
/* Whether ranks share out what `from` says, or more. */
bool clade__task_shards(const clade__task *t, clade_shard from);
clade_status clade__task_find_owners(clade__task *t);
/* Leaves this rank's own parameters to be updated. */
void clade__task_keep_own(clade__task *t);
/* Assigns those of others, once the own ones are updated. */
clade_status clade__task_gather(clade__task *t);

/* Adds the gradients to sums. */
clade_status clade__task_sum(clade__task *t);
/* Parameters and gradients from the sums of the graph t->opt->model. */
clade_status clade__task_take_sums(clade__task *t);

#endif

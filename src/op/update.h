/* The rules of the op update, and its builder: what the built-in optimizers, averages and sums are made of. */
#ifndef CLADE_UPDATE_H
#define CLADE_UPDATE_H

#include "op/op.h"

/* Numbers of cl_kernels/update.cl. */
typedef enum clade__update_rule {
  CLADE__UPDATE_SGD,
  CLADE__UPDATE_MOMENTUM,         /* p: momentum, r: not 0: Nesterov's */
  CLADE__UPDATE_ADAM,             /* p, q: 1 - beta1, 1 - beta2; r: epsilon; log1, log2: of the betas */
  CLADE__UPDATE_RMSPROP,          /* q: 1 - alpha; r: epsilon */
  CLADE__UPDATE_RMSPROP_MOMENTUM, /* as RMSPROP; p: momentum */
  CLADE__UPDATE_AVERAGE,          /* p: 1 - decay; the first time: what is averaged */
  CLADE__UPDATE_SUM               /* the first time: what is added */
} clade__update_rule;

/* Beside a rule: where the step's number is 0, nothing changes. */
enum { CLADE__UPDATE_SKIPS = 16 };
enum { CLADE__UPDATE_TENSORS = 7, CLADE__UPDATE_SCALARS = 4 }; /* of a node */

/* Inputs 0 to 3 are scalars: the rate (f32), the number of this step from 1 on (i64), and what gradients are multiplied
 * by before and after they are clipped (f32). Then, for each tensor: the gradient, and the states that change, of which
 * the first has any float type and the others are f32. Outputs: the new states. */
typedef struct clade__update_attrs {
  int32_t rule, decays;      /* decays: a bit per tensor, whether l2 and decay are for it */
  float clip;                /* gradients are cut at this and its negative; INFINITY: nowhere */
  float l2, decay;           /* weight decay by the gradient, and beside it */
  float p, q, r, log1, log2; /* the rule's */
} clade__update_attrs;

int clade__update_states(int rule); /* of a tensor: 1 to 3; 0: there is no such rule */
/* Any number of tensors in as few nodes as they fit. Those of one node have the same types and the same device: that of
 * the first. decays[i] may be NULL: all. states and out have [n * states]; scalars that are invalid are 1. */
typedef struct clade__update_call {
  clade__update_attrs attrs; /* without decays */
  int n;
  clade_val scalar[CLADE__UPDATE_SCALARS];
  const clade_val *gradients, *states;
  const bool *decays;
  clade_val *out;
} clade__update_call;
clade_status clade__update_add(clade_graph *g, const clade__update_call *call);

/* carry + the sum of the squares of all tensors' elements, each multiplied by `before` and cut at `clip`. One type. */
clade_val clade__square_sum(clade_graph *g, int n, const clade_val *x, clade_val before, float clip, clade_val carry);

#endif

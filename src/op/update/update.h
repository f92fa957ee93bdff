/* Rules and builder of the op update, the basis of the built-in optimizers, moving averages and gradient accumulation.
 */
#ifndef CLADE_UPDATE_H
#define CLADE_UPDATE_H

#include "op/op.h"

/* Numbers as in cl_kernels/update.cl. */
typedef enum clade__update_rule {
  CLADE__UPDATE_SGD,
  CLADE__UPDATE_MOMENTUM,         /* p: momentum; r: nonzero for Nesterov */
  CLADE__UPDATE_ADAM,             /* p, q: 1 - beta1, 1 - beta2; r: epsilon; log1, log2: logarithms of the betas */
  CLADE__UPDATE_RMSPROP,          /* q: 1 - alpha; r: epsilon */
  CLADE__UPDATE_RMSPROP_MOMENTUM, /* as RMSPROP; p: momentum */
  CLADE__UPDATE_AVERAGE,          /* p: 1 - decay; the first step copies */
  CLADE__UPDATE_SUM               /* the first step copies */
} clade__update_rule;

/* Flag: a step with number 0 changes nothing. */
enum { CLADE__UPDATE_SKIPS = 16 };
enum { CLADE__UPDATE_TENSORS = 7, CLADE__UPDATE_SCALARS = 4 }; /* per node */

/* Inputs 0 to 3 are scalars: learning rate (f32), step number from 1 on (i64), and the factors for gradients before and
 * after clipping (f32). Then, per tensor: the gradient, and the states to update, of which the first has any float type
 * and the others are f32. Outputs: the new states. */
typedef struct clade__update_attrs {
  int32_t rule, decays;      /* decays: one bit per tensor, whether l2 and decay apply */
  float clip;                /* elements are clipped to [-clip, clip]; INFINITY: not at all */
  float l2, decay;           /* weight decay added to the gradient, and decoupled (AdamW) */
  float p, q, r, log1, log2; /* parameters of the rule */
} clade__update_attrs;

int clade__update_states(int rule); /* states per tensor, 1 to 3; 0: no such rule */
/* Updates any number of tensors in as few nodes as possible. The tensors of a node have the same types and the device
 * of the first one. decays[i] may be NULL for all; states and out have n * states elements; invalid scalars count as 1.
 */
typedef struct clade__update_call {
  clade__update_attrs attrs; /* without decays */
  int n;
  clade_val scalar[CLADE__UPDATE_SCALARS];
  const clade_val *gradients, *states;
  const bool *decays;
  clade_val *out;
} clade__update_call;
clade_status clade__update_add(clade_graph *g, const clade__update_call *call);

/* carry + the sum of squares of all tensors' elements, each multiplied by `before` and clipped to [-clip, clip]. All
 * tensors have the same type. */
clade_val clade__square_sum(clade_graph *g, int n, const clade_val *x, clade_val before, float clip, clade_val carry);

#endif

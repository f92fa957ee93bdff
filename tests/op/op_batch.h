/* Kernels of cases that are compiled together, which takes PoCL down to half as long as one by one. What fails here
 * fails again in its case, which tells of it. */
#ifndef CLADE_OP_BATCH_H
#define CLADE_OP_BATCH_H

#include "op_run.h"
#include "plan/plan.h"

typedef struct op_batch {
  clade_func **funcs;
  clade__request *requests;
  size_t n_funcs, func_capacity, n_requests, request_capacity;
} op_batch;

/* A planned func, which is the batch's from then on. */
void op_batch_take(op_batch *b, clade_func *func);
/* Leaves it empty. */
void op_batch_compile(op_batch *b, const op_target *target);

#endif

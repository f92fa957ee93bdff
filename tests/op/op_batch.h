/* Compiles kernels of several cases together, which is faster than one by one. A failure here is repeated and
 * reported by its case. */
#ifndef CLADE_OP_BATCH_H
#define CLADE_OP_BATCH_H

#include "op_run.h"
#include "plan/plan.h"

typedef struct op_batch {
  clade_func **funcs;
  clade__request *requests;
  size_t n_funcs, func_capacity, n_requests, request_capacity;
} op_batch;

/* Adds a planned func; the batch takes ownership. */
void op_batch_take(op_batch *b, clade_func *func);
/* Compiles and empties the batch. */
void op_batch_compile(op_batch *b, const op_target *target);

#endif

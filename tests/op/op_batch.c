/* Compiles the kernels of many cases as one program. */
#include "op_batch.h"

#include <stdlib.h>

void op_batch_take(op_batch *b, clade_func *func) {
  if (clade__list_requests(func) != CLADE_OK ||
      clade__grow(&b->funcs, &b->func_capacity, b->n_funcs + 1, sizeof *b->funcs) != CLADE_OK ||
      clade__grow(&b->requests, &b->request_capacity, b->n_requests + func->n_requests, sizeof *b->requests) !=
          CLADE_OK) {
    clade_func_release(func);
    return;
  }
  if (func->n_requests) memcpy(b->requests + b->n_requests, func->requests, func->n_requests * sizeof *b->requests);
  b->n_requests += func->n_requests;
  b->funcs[b->n_funcs++] = func;
}

void op_batch_compile(op_batch *b, const op_target *target) {
  clade__program_kernel *got = op_alloc(b->n_requests, sizeof *got);
  if (b->n_requests) clade__store_prepare(target->device, b->n_requests, b->requests, got);
  free(got);
  clade__free(b->requests);
  while (b->n_funcs) clade_func_release(b->funcs[--b->n_funcs]);
  clade__free(b->funcs);
  *b = (op_batch){0};
}

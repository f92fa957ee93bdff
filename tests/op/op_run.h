/* For the harness alone: one case on a device. */
#ifndef CLADE_OP_RUN_H
#define CLADE_OP_RUN_H

#include "op_array.h"

enum { OP_IMPLS = 8 };

typedef struct op_tally {
  int64_t elements, slopes, kinks; /* compared; derivatives compared; left out for being at a kink */
  double worst;                    /* the largest part of a stated bound that was used */
  int impl[OP_IMPLS];              /* nodes of the op computed by its implementations */
  char refusal[OP_IMPLS][160];     /* why an implementation was never taken */
} op_tally;

typedef struct op_target {
  clade_device *device;
  const op_test *test;
  const clade_op *op;
  bool verbose; /* tell of each case before it runs */
} op_target;

/* Draws by `seed`, runs, compares. false: said why on standard error. `impl`: the one to prefer. */
bool op_case_run(const op_target *target, op_case *c, uint64_t seed, int impl, op_tally *tally);

#endif

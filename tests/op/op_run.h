/* For the harness alone: one case on a device. */
#ifndef CLADE_OP_RUN_H
#define CLADE_OP_RUN_H

#include <stdio.h>

#include "op_array.h"

enum { OP_IMPLS = CLADE_MAX_IMPLS };

typedef struct op_tally {
  int64_t elements, slopes, kinks; /* compared; derivatives compared; left out for being at a kink */
  double worst;                    /* the largest part of a stated bound that was used */
  int passed;
  int cases[OP_FORMS][OP_IMPLS]; /* of each form: cases of which each implementation computed a node of the op */
  char refusal[OP_IMPLS][160];   /* why an implementation was not taken the last time */
} op_tally;

typedef struct op_target {
  clade_device *device;
  const op_test *test;
  const clade_op *op;
  op_told has;           /* told of in cases that say nothing else */
  bool verbose;          /* tell of each case before it runs */
  bool bundle;           /* it has kernels of a bundle alone */
  bool chosen;           /* by the implementation that selection takes, whose turn it ever is */
  unsigned family;       /* implementations of these families alone take turns, a bit for each; 0: all */
  unsigned anywhere;     /* those of these run although they are made for other classes of devices */
  const int32_t *config; /* with which the case's implementation must compute; NULL: any */
  FILE *kernels;         /* NULL, or where the names of those go that cases ran */
} op_target;

/* Of a case, for a run's own. */
uint64_t op_case_seed(uint64_t seed, const op_case *c);

/* Draws by `seed`, runs, compares. `impl`: the one to prefer; with c->more, the one without which, or without a kernel
 * that is there already, nothing is run. */
typedef enum op_verdict { OP_FAILED, OP_PASSED, OP_NOT_RUN } op_verdict; /* FAILED: said why on standard error */
op_verdict op_case_run(const op_target *target, op_case *c, uint64_t seed, int impl, op_tally *tally);

/* What that would run, planned and without kernels; NULL: it would refuse. */
clade_func *op_case_plan(const op_target *target, op_case *c, uint64_t seed, int impl);

#endif

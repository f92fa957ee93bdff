/* Internal to the harness: runs one case on a device. */
#ifndef CLADE_OP_RUN_H
#define CLADE_OP_RUN_H

#include <stdio.h>

#include "op_array.h"

enum { OP_IMPLS = CLADE_MAX_IMPLS };

typedef struct op_tally {
  /* Number of compared elements, of compared derivatives, and of those skipped at kinks. */
  int64_t elements, slopes, kinks;
  double worst; /* largest used fraction of a stated bound */
  int passed;
  int cases[OP_FORMS][OP_IMPLS];   /* by form and implementation: cases in which it computed a node of the op */
  uint32_t alternatives[OP_IMPLS]; /* those of its layouts that were used, a mask */
  char refusal[OP_IMPLS][160];     /* reason of each implementation's last refusal */
} op_tally;

typedef struct op_target {
  clade_device *device;
  const op_test *test;
  const clade_op *op;
  op_told has;           /* default assumed device properties of a case */
  bool verbose;          /* print each case before it runs */
  bool bundle;           /* only bundle kernels */
  bool chosen;           /* use the selected implementation, whichever turn it is */
  unsigned family;       /* bit set of families that take turns; 0: all */
  unsigned anywhere;     /* bit set of families that run although they are for other device classes */
  const int32_t *config; /* required configuration of the implementation; NULL: any */
  FILE *kernels;         /* file for the names of executed kernels, or NULL */
} op_target;

/* Seed of a case within a run. */
uint64_t op_case_seed(uint64_t seed, const op_case *c);

/* Draws by `seed`, runs and compares. `impl`: the preferred implementation; with c->more, the case is skipped unless
 * this implementation takes it with an existing kernel. */
typedef enum op_verdict { OP_FAILED, OP_PASSED, OP_NOT_RUN } op_verdict; /* FAILED: the reason is on standard error */
op_verdict op_case_run(const op_target *target, op_case *c, uint64_t seed, int impl, op_tally *tally);

/* Plans the case without kernels; NULL: it would be refused. */
clade_func *op_case_plan(const op_target *target, op_case *c, uint64_t seed, int impl);

#endif

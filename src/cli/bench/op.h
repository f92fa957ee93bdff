/* Types and functions shared by the parts of `clade bench op`. */
#ifndef CLADE_CLI_BENCH_OP_H
#define CLADE_CLI_BENCH_OP_H

#include "cli/bench/bench.h"

struct bench_op;
typedef struct bench_op_work {
  const struct bench_op *op;
  const bench_shape *shape;
  const char *sizes;  /* as works.py takes them */
  size_t results;     /* known once Clade's graph is built */
  int64_t n, c, h, w; /* shape of x; ops on matrices have n·c·h rows and w columns */
  int64_t elements;
  clade_dtype dtype;
  float *a, *b; /* two arrays as large as x; each op decides how to use them */
  void *raw_a, *raw_b;
  int32_t *ids;            /* a row number for each row */
  double *mean, *scale;    /* of each channel; computed when first needed */
  double *slope, *slope_x; /* means of dy, and of dy times the normalized x, of each channel */
} bench_op_work;

typedef enum bench_operand_x {
  BENCH_NONE,
  BENCH_IMAGE,
  BENCH_MATRIX
} bench_operand_x; /* NONE: `build` makes its own */
/* RESULT: y = f(x). GRAD: dx from x and dy. STEP: the same, and y is needed too, as in a training step. */
typedef enum bench_of { BENCH_RESULT, BENCH_GRAD, BENCH_STEP } bench_of;
typedef struct bench_op {
  const char *name; /* NULL: end of the table */
  const char *node; /* op whose implementation is shown */
  double moved;     /* elements read and written at least, in multiples of the elements of x */
  bench_operand_x x;
  bench_of of;
  clade_val (*build)(const bench_op_work *w, bench_clade *c, clade_val x); /* y */
  double (*want)(const bench_op_work *w, int64_t i);                       /* expected result i */
  double error;      /* allowed absolute error, beside rounding to dtype */
  bench_bound bound; /* second lower bound, beside a copy */
} bench_op;
clade_val bench_op_build(const bench_op_work *w, bench_clade *c);
extern const bench_op bench_op_table[];
extern const bench_set bench_op_sets[];
extern const bench_key bench_op_keys[];

#endif

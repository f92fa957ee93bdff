/* Between the parts of clade bench op. */
#ifndef CLADE_CLI_BENCH_OP_H
#define CLADE_CLI_BENCH_OP_H

#include "cli/bench/bench.h"

struct bench_op;
typedef struct bench_op_work {
  const struct bench_op *op;
  int64_t n, c, h, w; /* of x; ops on matrices have n c h rows and w columns */
  int64_t elements;   /* of x */
  clade_dtype dtype;
  float *a, *b;            /* two arrays like x, whatever an op makes of them */
  void *raw_a, *raw_b;     /* the same in dtype */
  int32_t *ids;            /* a row's number for each row */
  double *mean, *scale;    /* of channels, once an expectation has asked for them */
  double *slope, *slope_x; /* and means of the gradient there */
} bench_op_work;

typedef struct bench_op {
  const char *name; /* NULL ends the table */
  const char *node; /* the op whose implementation is told */
  double moved;     /* elements that have to be read and written, in those of x */
  clade_val (*build)(const bench_op_work *w, bench_clade *c);
  double (*want)(bench_op_work *w, int64_t i); /* result i */
  double error;                                /* allowed, beside the rounding to dtype */
  bench_bound bound;                           /* beside a copy, what it can not be faster than */
} bench_op;
extern const bench_op bench_op_table[];
extern const char bench_op_lines[]; /* the set */
extern const bench_key bench_op_keys[];

#endif

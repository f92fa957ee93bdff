/* Types and functions shared by the parts of `clade bench op`. */
#ifndef CLADE_CLI_BENCH_OP_H
#define CLADE_CLI_BENCH_OP_H

#include "cli/bench/bench.h"

struct bench_op;
typedef struct bench_op_work {
  const struct bench_op *op;
  int64_t n, c, h, w; /* shape of x; ops on matrices have n·c·h rows and w columns */
  int64_t elements;
  clade_dtype dtype;
  float *a, *b; /* two arrays as large as x; each op decides how to use them */
  void *raw_a, *raw_b;
  int32_t *ids;            /* a row number for each row */
  double *mean, *scale;    /* of each channel; computed when first needed */
  double *slope, *slope_x; /* means of dy, and of dy times the normalized x, of each channel */
} bench_op_work;

typedef struct bench_op {
  const char *name; /* NULL: end of the table */
  const char *node; /* op whose implementation is shown */
  double moved;     /* elements read and written at least, in multiples of the elements of x */
  clade_val (*build)(const bench_op_work *w, bench_clade *c);
  double (*want)(bench_op_work *w, int64_t i); /* expected result i */
  double error;                                /* allowed absolute error, beside rounding to dtype */
  bench_bound bound;                           /* second lower bound, beside a copy */
} bench_op;
extern const bench_op bench_op_table[];
extern const char bench_op_lines[]; /* the built-in set */
extern const bench_key bench_op_keys[];

#endif

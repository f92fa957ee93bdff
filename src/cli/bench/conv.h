/* Between the parts of clade bench conv. */
#ifndef CLADE_CLI_BENCH_CONV_H
#define CLADE_CLI_BENCH_CONV_H

#include "cli/bench/bench.h"

extern const bench_key bench_conv_keys[];
extern const bench_set bench_conv_sets[];
enum { CONV_C, CONV_D, CONV_H, CONV_W, CONV_OUT, CONV_KERNEL, CONV_STRIDE, CONV_PAD, CONV_DILATION, CONV_GROUPS };

typedef enum bench_pass { BENCH_FORWARD, BENCH_BACKWARD_DATA, BENCH_BACKWARD_WEIGHTS, BENCH_PASSES } bench_pass;
extern const char *const bench_pass_names[BENCH_PASSES];

/* The three tensors of a convolution; two are operands, one is the result. */
typedef enum bench_role { BENCH_X, BENCH_W, BENCH_Y, BENCH_ROLES } bench_role;

enum { BENCH_AXES = 3 }; /* depth, height, width */
typedef struct bench_axis {
  int64_t in, out, kernel, stride, pad, dilation; /* of x and of y; as much padding before as behind */
} bench_axis;
#define BENCH_NO_AXIS \
  { 1, 1, 1, 1, 0, 1 }

/* y [n, out, ...] = a convolution of x [n, c, ...] by w [out, c / groups, ...] over the last `axes` of the three, or a
 * derivative of it, `chain` times. The others are 1 long. */
typedef struct bench_conv_work {
  bench_pass pass;
  int axes;
  bench_axis along[BENCH_AXES];
  int64_t n, c, out, groups, chain;
  int64_t source, target, taps; /* places of x, of y, and of a window */
  clade_shape shape[BENCH_ROLES];
  size_t elements[BENCH_ROLES]; /* of one */
  float *data[BENCH_ROLES];     /* of operands: one for each call one after another, but a weight is one; else NULL */
} bench_conv_work;
/* Fills each axis' out, places, shapes and elements from the fields above; up to 2^40 elements each. */
clade_status bench_conv_fill(bench_conv_work *w);
/* Without data. A refusal names the shape, and where it stands. */
clade_status bench_conv_work_of(const bench_job *job, const bench_shape *shape, bench_pass pass, bench_conv_work *w);
static inline bench_role bench_conv_result(const bench_conv_work *w) {
  return w->pass == BENCH_FORWARD ? BENCH_Y : w->pass == BENCH_BACKWARD_DATA ? BENCH_X : BENCH_W;
}
static inline int64_t bench_conv_count(const bench_conv_work *w, int role) { /* how many of them a chain has */
  return role == BENCH_W && bench_conv_result(w) != BENCH_W ? 1 : w->chain;
}
/* The same with its operands' values in the job's type, and, for Clade's graphs, in some layout. */
typedef struct bench_conv_data {
  const bench_conv_work *work;
  clade_layout layout[BENCH_ROLES]; /* of all but a weight that is read, which stays dense and is packed once */
  void *raw[BENCH_ROLES];
} bench_conv_data;

/* ---- conv_clade.c ---- */
/* The forward pass. */
clade_val bench_convolve(clade_graph *g, const bench_conv_work *w, clade_val x, clade_val weight);
/* Clade from and to NCHW. */
clade_status bench_conv_clade(const bench_job *job, const bench_conv_data *data, bench_side *side);
clade_status bench_conv_row(const bench_side *side, bench_pass pass, bench_row *row); /* implementation, and why */
/* Clade in the layouts in which it is fastest, of all that an implementation asks for, where it is faster so than from
 * and to NCHW; else row->own.impl stays empty and the side unmade. `own` holds the operands, for bench_conv_own_free.
 */
clade_status bench_conv_own(const bench_job *job, const bench_conv_data *dense, const bench_side *nchw,
                            bench_conv_data *own, bench_side *side, bench_row *row);
void bench_conv_own_free(bench_conv_data *own);

/* ---- conv_check.c ---- */
clade_status bench_conv_check(const bench_job *job, const bench_conv_work *work, bench_side *side);

/* ---- onednn_conv.c ---- */
/* NULL, or why oneDNN cannot take part: in its own layouts, or from and to plain ones. */
const char *bench_onednn_conv(const bench_job *job, const bench_conv_work *work, bool plain, bench_side *side);
bool bench_dnn_conv_desc(const bench_conv_work *work, void *desc); /* a dnn_object, of its best primitive's */

#endif

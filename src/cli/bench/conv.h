/* Types and functions shared by the parts of `clade bench conv`. */
#ifndef CLADE_CLI_BENCH_CONV_H
#define CLADE_CLI_BENCH_CONV_H

#include "cli/bench/bench.h"

extern const bench_key bench_conv_keys[];
extern const bench_set bench_conv_sets[];
enum { CONV_C, CONV_D, CONV_H, CONV_W, CONV_OUT, CONV_KERNEL, CONV_STRIDE, CONV_PAD, CONV_DILATION, CONV_GROUPS };

typedef enum bench_pass { BENCH_FORWARD, BENCH_BACKWARD_DATA, BENCH_BACKWARD_WEIGHTS, BENCH_PASSES } bench_pass;

/* The three tensors of a convolution. Each pass has two of them as operands and one as its result. */
typedef enum bench_role { BENCH_X, BENCH_W, BENCH_Y, BENCH_ROLES } bench_role;

enum { BENCH_AXES = 3 }; /* depth, height, width */
typedef struct bench_axis {
  int64_t in, out, kernel, stride, pad, dilation; /* in: of x; out: of y; pad: on each side */
} bench_axis;
#define BENCH_NO_AXIS \
  { 1, 1, 1, 1, 0, 1 }

/* y [n, out, ...] = conv(x [n, c, ...], w [out, c / groups, ...]) or one of its derivatives, `chain` calls in a row.
 * A convolution with fewer than three axes uses the last ones of `along`; the others have length 1. */
typedef struct bench_conv_work {
  bench_pass pass;
  clade_dtype dtype; /* of the operands; of bytes that of x, and w is i8; unset: f32 */
  int axes;
  bench_axis along[BENCH_AXES];
  int64_t n, c, out, groups, chain;
  int64_t source, target, taps; /* elements of an image of x and of y along all axes, and of a window */
  clade_shape shape[BENCH_ROLES];
  size_t elements[BENCH_ROLES];
  /* Operands: one tensor for each call, contiguous, or a single weight. The result has NULL. */
  float *data[BENCH_ROLES];
} bench_conv_work;
/* Computes each axis' `out`, and `source`, `target`, `taps`, `shape` and `elements`. Fails above 2^40 elements. */
clade_status bench_conv_fill(bench_conv_work *w);
/* Fills in a work without its data. Error messages name the shape, its source and line. */
clade_status bench_conv_work_of(const bench_job *job, const bench_shape *shape, bench_pass pass, bench_conv_work *w);
static inline bench_role bench_conv_result(const bench_conv_work *w) {
  return w->pass == BENCH_FORWARD ? BENCH_Y : w->pass == BENCH_BACKWARD_DATA ? BENCH_X : BENCH_W;
}
static inline bool bench_conv_bytes(const bench_conv_work *w) { return w->dtype == CLADE_I8 || w->dtype == CLADE_U8; }
static inline clade_dtype bench_conv_type(const bench_conv_work *w, int role) {
  if (!bench_conv_bytes(w)) return w->dtype ? w->dtype : CLADE_F32;
  return role == BENCH_X ? w->dtype : role == BENCH_W ? CLADE_I8 : CLADE_I32;
}
static inline int64_t bench_conv_count(const bench_conv_work *w, int role) { /* tensors of this role in a chain */
  return role == BENCH_W && bench_conv_result(w) != BENCH_W ? 1 : w->chain;
}
static inline size_t bench_conv_numbers(const bench_conv_work *w, int role) { /* of all tensors of a role */
  return w->elements[role] * (size_t)bench_conv_count(w, role);
}
typedef struct bench_conv_data {
  bench_conv_work *work;
  const char *sizes;                /* as works.py takes them */
  const char *prefer;               /* as clade_compile(.prefer); NULL: none */
  int partner;                      /* index of Clade's contestant for peers with own layouts */
  clade_layout layout[BENCH_ROLES]; /* a weight that is read stays dense: the library packs it once */
  void *raw[BENCH_ROLES];
} bench_conv_data;

/* ---- conv_clade.c ---- */
/* Adds the forward pass to a graph. */
clade_val bench_convolve(clade_graph *g, const bench_conv_work *w, clade_val x, clade_val weight);
extern const char *const bench_conv_ops[]; /* of each pass */
/* Builds a graph with operands and results in the layouts of the data; work: bench_conv_data. */
clade_status bench_conv_build(const void *work, bench_clade *c);
/* Clade with the fastest of the layouts that implementations prefer. If none is faster than NCHW, row->own.impl
 * stays empty and `side` is unset. `own` keeps the operands; free with bench_conv_own_free. */
clade_status bench_conv_own(const bench_job *job, const bench_conv_data *dense, const bench_side *nchw,
                            bench_conv_data *own, bench_side *side, bench_row *row);
void bench_conv_own_free(bench_conv_data *own);

/* ---- conv_check.c ---- */
clade_status bench_conv_check(const bench_job *job, const void *work, bench_side *side); /* work: bench_conv_work */

/* ---- onednn_conv.c ---- */
/* Returns NULL, or the reason why oneDNN cannot take part. plain: dense operands and results, with reorders timed;
 * otherwise in oneDNN's preferred layouts. */
const char *bench_onednn_conv(const bench_job *job, const bench_conv_work *work, bool plain, bench_side *side);
/* Creates the descriptor of the preferred primitive; `desc` is a dnn_object *. */
bool bench_dnn_conv_desc(const bench_conv_work *work, void *desc);

#endif

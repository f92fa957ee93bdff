/* Extents and strides of reductions and broadcasts, shared by their implementations. */
#ifndef CLADE_REDUCE_H
#define CLADE_REDUCE_H

#include "op/dims.h"

enum { CLADE__REDUCE_SUM, CLADE__REDUCE_MEAN, CLADE__REDUCE_MAX, CLADE__REDUCE_MIN };

typedef struct clade__reduce_attrs {
  int32_t kind, axes; /* one bit per axis */
  bool keep, wide;    /* wide: the result of narrow floats is f32 */
} clade__reduce_attrs;
static inline bool clade__reduces(const clade__reduce_attrs *a, int axis) { return a->axes >> axis & 1; }

/* The shape of x as alternating runs of kept and reduced axes. */
typedef struct clade__runs {
  int n;
  bool reduced[CLADE_MAX_RANK];
  int64_t size[CLADE_MAX_RANK], stride[CLADE_MAX_RANK];
  int64_t outputs, count; /* number of kept and of reduced elements */
} clade__runs;
clade__runs clade__reduce_runs(const clade_node *n);

float clade__reduce_divisor(const clade_query *q, int64_t count); /* count for a mean, else 1 */
clade_kernel_step *clade__reduce_kernel(clade_emit *e, const clade_query *q, const char *name);

/* ---- reduce_split.c ---- */
const char *clade__reduce_split_accept(const clade_query *q);
double clade__reduce_split_cost(const clade_query *q);
size_t clade__reduce_split_workspace(const clade_query *q);
clade_status clade__reduce_split_emit(clade_emit *e, const clade_query *q);
const char *clade__reduce_blocked_accept(const clade_query *q);
void clade__reduce_blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out);

/* ---- reduce_group.c ---- */
const char *clade__reduce_group_accept(const clade_query *q);
double clade__reduce_group_cost(const clade_query *q);
size_t clade__reduce_group_workspace(const clade_query *q);
const char *clade__reduce_last_accept(const clade_query *q);
void clade__reduce_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
clade_status clade__reduce_group_emit(clade_emit *e, const clade_query *q);

/* A reduction as four kept extents and four reduced ones, from slow to fast, with the strides of x. */
typedef struct clade__nest {
  int64_t dim[8], stride[8], outputs, count; /* count: elements reduced to one output */
} clade__nest;
clade__nest clade__reduce_nest(const clade_query *q);
int clade__reduce_kind(const clade_query *q);
/* Builds the reduction `n` of another graph over `x`, floats of any type, with a result in f32. */
clade_status clade__reduce_widened(clade_graph *g, const clade__node *n, clade__id x, clade__id *node);

/* A broadcast as few axes of the result as possible, with the strides of x. divisor: 1, or repetitions if it spreads a
 * mean. */
typedef struct clade__repeats {
  int rank;
  int64_t dim[CLADE_MAX_RANK], stride[CLADE_MAX_RANK], total, divisor;
} clade__repeats;
clade__repeats clade__broadcast_repeats(const clade_node *n);

#endif

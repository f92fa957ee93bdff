/* Extents and strides of reductions and broadcasts, shared by their implementations. */
#ifndef CLADE_REDUCE_H
#define CLADE_REDUCE_H

#include "op/dims.h"

enum { CLADE__REDUCE_SUM, CLADE__REDUCE_MEAN, CLADE__REDUCE_MAX, CLADE__REDUCE_MIN };

/* A reduction as four kept extents and four reduced ones, from slow to fast, with the strides of x. */
typedef struct clade__nest {
  int64_t dim[8], stride[8], outputs, count; /* count: elements reduced to one output */
} clade__nest;
clade__nest clade__reduce_nest(const clade_query *q);
int clade__reduce_kind(const clade_query *q);

/* A broadcast as few axes of the result as possible, with the strides of x. divisor: 1, or repetitions if it spreads a
 * mean. */
typedef struct clade__repeats {
  int rank;
  int64_t dim[CLADE_MAX_RANK], stride[CLADE_MAX_RANK], total, divisor;
} clade__repeats;
clade__repeats clade__broadcast_repeats(const clade_node *n);

#endif

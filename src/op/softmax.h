/* Between softmax, or its logarithm, and its derivative. */
#ifndef CLADE_SOFTMAX_H
#define CLADE_SOFTMAX_H

#include "op/dims.h"

typedef struct clade__softmax_attrs {
  int32_t axis; /* from 0 on */
  bool log;
} clade__softmax_attrs;
extern const clade_attr clade__softmax_table[];

/* Of input 0: `outer` times `n` times `inner` elements, and n is the axis. */
typedef struct clade__softmax_extent {
  int64_t outer, n, inner;
} clade__softmax_extent;
clade__softmax_extent clade__softmax_extent_of(const clade_query *q);

#endif

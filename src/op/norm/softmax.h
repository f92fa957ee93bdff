/* Attributes and shape that softmax, log-softmax and their gradients share. */
#ifndef CLADE_SOFTMAX_H
#define CLADE_SOFTMAX_H

#include "op/dims.h"

typedef struct clade__softmax_attrs {
  int32_t axis; /* never negative */
  bool log;
} clade__softmax_attrs;
extern const clade_attr clade__softmax_table[];

/* Input 0 has `outer` x `n` x `inner` elements, where `n` is the softmax axis. */
typedef struct clade__softmax_extent {
  int64_t outer, n, inner;
} clade__softmax_extent;
clade__softmax_extent clade__softmax_extent_of(const clade_query *q);

#endif

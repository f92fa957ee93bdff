/* What pooling ops share: a window, its check, and launches over planes of pixels. */
#ifndef CLADE_POOL_H
#define CLADE_POOL_H

#include <clade/nn.h>

#include "op/window.h"

typedef struct clade__pool_attrs {
  clade__window window;
  bool count_pad;    /* averages */
  clade_shape shape; /* avg_pool2d_grad: of x, which y does not tell */
} clade__pool_attrs;
extern const clade_attr clade__pool_table[];

/* One dense float type for all operands, and a window that slides over x. */
clade_status clade__pool_check(const clade_node *n, const clade_shape *x, clade_shape *y);
/* A node of `op` from a builder's options. */
clade_val clade__pool_build(clade_graph *g, const clade_op *op, const clade_pool2d_opt *given);
clade_val clade__pool_node(clade_graph *g, const clade_op *op, const clade__pool_attrs *like, int n_in,
                           const clade_val *in, const clade_shape *shape);

/* ---- ref: a work-item per element of output 0 ---- */
/* A launch of `kernel` with all inputs, the output, planes, both sizes of the pixels of x and of y, the kernel, the map
 * and `divisor` (0: what a window covers). */
clade_status clade__pool_emit(clade_emit *e, const clade_query *q, const char *kernel, bool back, int64_t divisor);
/* `passes` times through a window. */
const char *clade__pool_accept(const clade_query *q, double passes);
double clade__pool_cost(const clade_query *q);

#endif

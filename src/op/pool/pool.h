/* Pooling ops: their common attributes, checks and implementations. */
#ifndef CLADE_POOL_H
#define CLADE_POOL_H

#include <clade/nn.h>

#include "op/window.h"

typedef struct clade__pool_attrs {
  clade__window window;
  bool count_pad;    /* averages count padding */
  clade_shape shape; /* avg_pool2d_grad: shape of x, which dy does not determine */
} clade__pool_attrs;
extern const clade_attr clade__pool_table[];

/* Checks that all operands have one dense float type, and that the window fits x. */
clade_status clade__pool_check(const clade_node *n, const clade_shape *x, clade_shape *y);
/* Adds a node of `op` from a builder's options. */
clade_val clade__pool_build(clade_graph *g, const clade_op *op, const clade_pool2d_opt *given);
clade_val clade__pool_node(clade_graph *g, const clade_op *op, const clade__pool_attrs *like, int n_in,
                           const clade_val *in, const clade_shape *shape);

/* Operands of a node of any of the four ops. */
typedef struct clade__pool_task {
  clade_shape x, y; /* images; results of their windows */
  const clade__window *w;
  bool max, back;          /* back: a derivative */
  int64_t planes, divisor; /* divisor 0: a mean divides by the window's pixels inside the image */
} clade__pool_task;
clade__pool_task clade__pool_task_of(const clade_query *q);

/* infer of the forward ops, and the implementations of all four ops. The first implementation belongs to
 * max_pool2d_grad alone; the tables of the other ops begin after it. */
clade_status clade__pool_infer(clade_node *n);
void clade__pool_ties(clade_ties *t, const clade_node *n);
void clade__pool_dims(clade_dims *d, const clade_node *n);
extern const clade_impl *const clade__pool_impls[];

#endif

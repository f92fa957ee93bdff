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

/* The infer of pooling itself, and the implementations of all four ops; the first is of max_pool2d_grad alone, and the
 * tables of the others begin after it. */
clade_status clade__pool_infer(clade_node *n);
void clade__pool_ties(clade_ties *t, const clade_node *n);
void clade__pool_dims(clade_dims *d, const clade_node *n);
extern const clade_impl *const clade__pool_impls[];

#endif

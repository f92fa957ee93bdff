/* The dimensions that a node's work runs over, as its op's rule tells them (clade_op.dims). Knows nothing of what is
 * split. */
#ifndef CLADE_IR_DIMENSIONS_H
#define CLADE_IR_DIMENSIONS_H

#include "ir/ir.h"

/* For rules of Clade's own: a part is computed by other nodes, which parallel/classes.c knows. */
enum { CLADE__DIM_CLASSES = 100 };

typedef struct clade__along {
  uint8_t a, axis; /* operand, or n_in plus the result */
  int64_t block;
} clade__along;

typedef struct clade__dim_attr {
  size_t offset;
  int64_t base, by_begin, by_length;
} clade__dim_attr;

typedef struct clade__dimension {
  clade_dim_kind kind;
  int64_t size;           /* in blocks */
  uint64_t numbers, once; /* operands, as masks */
  int n_along, n_attrs;
  const clade__along *along;
  const clade__dim_attr *attrs;
} clade__dimension;

/* Those of a node of a graph whose shapes are sizes. *dims is in the arena; 0 and NULL where the op has no rule. */
clade_status clade__dims_of(const clade_graph *g, clade__id node, clade__arena *arena, int *n, clade__dimension **dims);
/* The axis of operand or result `a` that lies along the dimension; -1: none does. */
int clade__dim_axis(const clade__dimension *d, int a);

/* The largest number that divides both, which are above 0. */
static inline int64_t clade__divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* ---- rules that ops share ---- */
/* A dimension for each axis of the result, along which operands from `first` on lie as NumPy broadcasts them. */
void clade__dims_broadcast(clade_dims *d, const clade_node *n, int first);
void clade__dims_same(clade_dims *d, const clade_node *n); /* all operands and results are of one shape */
/* Of an axis of operand 0 that is an axis of result 0. */
int clade__dims_axis(clade_dims *d, const clade_node *n, int from, int to);
/* The attribute at `offset`, of a shape, is the length of an axis that has blocks of so many places. */
void clade__dims_length(clade_dims *d, int dim, size_t offset, int64_t block);

#endif

/* The dimensions that a node iterates over, as declared by its op's rule (clade_op.dims). Independent of how they
 * are split. */
#ifndef CLADE_IR_DIMENSIONS_H
#define CLADE_IR_DIMENSIONS_H

#include "ir/ir.h"

/* Classes for rules of Clade's own ops, whose parts are computed by different nodes; interpreted by
 * parallel/classes.c. */
enum { CLADE__DIM_CLASSES = 100 };

typedef struct clade__along {
  uint8_t a, axis; /* operand index, or n_in + result index */
  int64_t block;
} clade__along;

typedef struct clade__dim_attr {
  size_t offset;
  int64_t base, by_begin, by_length;
} clade__dim_attr;

typedef struct clade__dimension {
  clade_dim_kind kind;
  int64_t size;           /* in blocks */
  uint64_t numbers, once; /* bit masks of operands */
  int n_along, n_attrs;
  const clade__along *along;
  const clade__dim_attr *attrs;
} clade__dimension;

/* Dimensions of a node in a graph without symbols. *dims is in the arena; 0 and NULL if the op has no rule. */
clade_status clade__dims_of(const clade_graph *g, clade__id node, clade__arena *arena, int *n, clade__dimension **dims);
/* The axis of operand or result `a` along the dimension, or -1. */
int clade__dim_axis(const clade__dimension *d, int a);

/* Greatest common divisor of positive numbers. */
static inline int64_t clade__divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* ---- shared rules ---- */
/* A dimension for each axis of the result; operands from `first` on are broadcast as in NumPy. */
void clade__dims_broadcast(clade_dims *d, const clade_node *n, int first);
void clade__dims_same(clade_dims *d, const clade_node *n); /* all operands and results have the same shape */
/* A dimension for an axis of operand 0 that is also an axis of result 0. */
int clade__dims_axis(clade_dims *d, const clade_node *n, int from, int to);
/* Declares that the shape attribute at `offset` is the length of the dimension's axis, in blocks of `block`
 * elements. */
void clade__dims_length(clade_dims *d, int dim, size_t offset, int64_t block);

#endif

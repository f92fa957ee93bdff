/* Tied positions: which positions along the axes of a graph's values belong to the same channel, by the ops' rules.
 * Independent of how pruning uses them. */
#ifndef CLADE_IR_TIES_H
#define CLADE_IR_TIES_H

#include "ir/ir.h"

/* For a graph without symbols; to be freed. Kept sets are those tied to inputs, outputs, constants, unused
 * variables, and operands or results of ops without a rule. */
clade_status clade__ties_new(const clade_graph *g, clade_ties **out);
void clade__ties_free(clade_ties *t); /* accepts NULL */

/* Number of the set that contains a position, below clade__ties_count. */
size_t clade__ties_of(const clade_ties *t, clade__id value, int axis, int64_t at);
size_t clade__ties_count(const clade_ties *t);
bool clade__ties_kept(const clade_ties *t, size_t number);

/* ---- shared rules ---- */
/* Ties operands from `first` on to the results, axis by axis with NumPy's broadcasting. */
void clade__tie_broadcast(clade_ties *t, const clade_node *n, int first);
void clade__tie_same(clade_ties *t, const clade_node *n);                    /* all operands and results */
void clade__keep_axes(clade_ties *t, const clade_node *n, int a, int first); /* keeps all axes from `first` on */
static inline const clade_shape *clade__tied_shape(const clade_node *n, int a) {
  return a < n->n_in ? &n->in[a].shape : &n->out[a - n->n_in].shape;
}

#endif

/* Which places along the axes of a graph's values stand for the same channel, as the ops' rules tell it. Knows nothing
 * of what pruning makes of it. */
#ifndef CLADE_IR_TIES_H
#define CLADE_IR_TIES_H

#include "ir/ir.h"

/* Of a graph whose shapes are sizes; to be freed. What inputs, outputs and constants are tied to is kept, and so are
 * operands and results of ops without a rule and variables that nobody uses. */
clade_status clade__ties_new(const clade_graph *g, clade_ties **out);
void clade__ties_free(clade_ties *t); /* NULL is fine */

/* The number of all that is tied to a place of a value: the same for all of it, below clade__ties_count. */
size_t clade__ties_of(const clade_ties *t, clade__id value, int axis, int64_t at);
size_t clade__ties_count(const clade_ties *t);
bool clade__ties_kept(const clade_ties *t, size_t number);

/* ---- rules that ops share ---- */
/* Operands from `first` on and the results, axis by axis from the last one: as NumPy broadcasts. */
void clade__tie_broadcast(clade_ties *t, const clade_node *n, int first);
void clade__tie_same(clade_ties *t, const clade_node *n);                    /* all operands and results */
void clade__keep_axes(clade_ties *t, const clade_node *n, int a, int first); /* from axis `first` on */
static inline const clade_shape *clade__tied_shape(const clade_node *n, int a) {
  return a < n->n_in ? &n->in[a].shape : &n->out[a - n->n_in].shape;
}

#endif

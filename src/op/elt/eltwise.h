/* The text of elementwise kernels: how a program of functions walks over its operands, and what is defined for it. */
#ifndef CLADE_ELTWISE_H
#define CLADE_ELTWISE_H

#include "op/op.h"

/* Axes for the loops over all operands, innermost first; adjacent axes are merged if all strides allow it. */
typedef struct clade__walk {
  int rank;
  int64_t dim[CLADE_MAX_RANK], stride[CLADE__ELT_INPUTS][CLADE_MAX_RANK];
} clade__walk;

/* How sixteen consecutive results are vectorized:
 *
 *   RUNS      along the last axis
 *   APART     across axes; broadcast operands are gathered for each vector
 *   REPEATED  across axes; broadcast operands have a short period and are gathered once */
typedef enum clade__way { CLADE__RUNS, CLADE__APART, CLADE__REPEATED } clade__way;

/* What the text computes at once: one element, a vector of sixteen, or four that are loaded together and computed one
 * by one. */
typedef enum clade__form { CLADE__ONE, CLADE__WIDE, CLADE__FOUR } clade__form;

void clade__walk_of(const clade_node *n, clade__walk *w);
/* True if all operands have the result's shape, so that one index serves all of them. */
bool clade__walk_flat(const clade_node *n);
/* Number of elements after which the broadcast operands repeat. */
int64_t clade__walk_period(const clade__walk *w, int n_in);
/* The rank is rounded up to one of three classes, which keeps the number of compiled variants small. */
int clade__walk_rank(int rank);
clade__way clade__walk_way(const clade__walk *w, int n_in, bool flat);
clade_status clade__eltwise_describe(clade_kernel_step *s, const clade__elt *p, const clade__walk *w, bool flat,
                                     clade__form as);

#endif

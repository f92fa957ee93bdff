/* The least sum of small tables over unknowns that have a few values each. Unknowns are eliminated one after the other,
 * those with the fewest neighbors first: exact for chains, trees and whatever is not much more entangled, in a time
 * that grows with the number of unknowns. */
#ifndef CLADE_LEAST_H
#define CLADE_LEAST_H

#include "base/base.h"

enum { CLADE__LEAST_VALUES = 128 }; /* of an unknown, at most */

typedef struct clade__least {
  clade__arena arena;
  struct clade__least_unknown *unknown;
  size_t n_unknowns, unknown_capacity;
  struct clade__least_table *table;
  size_t n_tables, table_capacity;
  uint32_t *todo, *order; /* order: of elimination */
  size_t first, last, n_order;
  double *sums; /* scratch of one elimination */
} clade__least;

/* One more, with what each of its values costs by itself. `safe`: the value that goes with all that the others may be;
 * -1: any of them does. */
clade_status clade__least_add(clade__least *p, int values, const double *cost, int safe, uint32_t *id);
/* A sum over two of them: sum[value of a * values of b + value of b]. */
clade_status clade__least_pair(clade__least *p, uint32_t a, uint32_t b, const double *sum);
/* value[unknown]: of equal sums, that of the smaller values of what is decided first. *exact: nothing was guessed.
 * Once.
 */
clade_status clade__least_solve(clade__least *p, uint8_t *value, bool *exact);
void clade__least_free(clade__least *p);

#endif

/* Minimizes a sum of small tables over unknowns with few values each, by eliminating unknowns with the fewest
 * neighbors first. Exact for chains, trees and graphs of small treewidth; linear in the number of unknowns. */
#ifndef CLADE_LEAST_H
#define CLADE_LEAST_H

#include "base/base.h"

enum { CLADE__LEAST_VALUES = 128 }; /* maximum per unknown */

typedef struct clade__least {
  clade__arena arena;
  struct clade__least_unknown *unknown;
  size_t n_unknowns, unknown_capacity;
  struct clade__least_table *table;
  size_t n_tables, table_capacity;
  uint32_t *todo, *order; /* order: of elimination */
  size_t first, last, n_order;
  double *sums; /* buffer for one elimination */
} clade__least;

/* Adds an unknown with the cost of each value. `safe`: a value that is compatible with all values of others; -1: all
 * are. */
clade_status clade__least_add(clade__least *p, int values, const double *cost, int safe, uint32_t *id);
/* Adds a table over two unknowns: sum[value of a * values of b + value of b]. */
clade_status clade__least_pair(clade__least *p, uint32_t a, uint32_t b, const double *sum);
/* Sets value[unknown]; ties prefer smaller values. *exact: no heuristic was needed. May be called once. */
clade_status clade__least_solve(clade__least *p, uint8_t *value, bool *exact);
void clade__least_free(clade__least *p);

#endif

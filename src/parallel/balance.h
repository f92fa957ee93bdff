/* A row of costs, cut into pieces that follow each other. */
#ifndef CLADE_PARALLEL_BALANCE_H
#define CLADE_PARALLEL_BALANCE_H

#include "base/base.h"

/* Puts into piece[i] which of `pieces` item i belongs to, each of which has some. The largest is as small as it can be;
 * among cuts that are as good, as far as estimates tell, that where the fewest bytes cross. bytes[i]: what crosses a
 * cut before item i. n is `pieces` at least. */
clade_status clade__balance(int n, const double *cost, const double *bytes, int pieces, int *piece);

#endif

/* Partitions a sequence of costs into contiguous pieces. */
#ifndef CLADE_PARALLEL_BALANCE_H
#define CLADE_PARALLEL_BALANCE_H

#include "base/base.h"

/* Sets piece[i] to the piece of item i; no piece is empty. Minimizes the largest piece and, among solutions that are
 * equal within the precision of estimates, the communication. bytes[i]: communication of a cut before item i.
 * Requires n >= `pieces`. */
clade_status clade__balance(int n, const double *cost, const double *bytes, int pieces, int *piece);

#endif

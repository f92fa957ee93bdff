/* What implementations start from where a test says so, by records of its own. */
#ifndef CLADE_OP_START_H
#define CLADE_OP_START_H

#include "op_run.h"

typedef int32_t op_row[CLADE_MAX_PARAMS];

/* Makes each of the implementations start from its row. */
bool op_start_from(const op_target *t, int n, const int *impl, op_row *const rows);
/* The node that an implementation was taken for, as it was built, which is dense. */
void op_start_view(const op_target *t, const clade_func *func, int impl, clade_type *in, clade_type *out,
                   clade_node *view);
/* Implementations that are made for other classes of devices than this one start from one row each, which suits a
 * device of many units: so few kernels serve all cases, and small problems have several tiles. */
bool op_start_elsewhere(const op_target *t, uint64_t seed, bool small);

#endif

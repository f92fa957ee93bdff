/* Overrides default configurations of implementations by tuning records. */
#ifndef CLADE_OP_START_H
#define CLADE_OP_START_H

#include "op_run.h"

typedef int32_t op_row[CLADE_MAX_PARAMS];

/* Sets the default configuration of each implementation. */
bool op_start_from(const op_target *t, int n, const int *impl, op_row *const rows);
/* The node that an implementation was chosen for, as built, with dense layouts. */
void op_start_view(const op_target *t, const clade_func *func, int impl, clade_type *in, clade_type *out,
                   clade_node *view);
/* Gives implementations for other device classes one configuration each, that of a device with many compute units:
 * few kernels then serve all cases, and small problems have several tiles. */
bool op_start_elsewhere(const op_target *t, uint64_t seed, bool small);

#endif

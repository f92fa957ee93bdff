/* Between gather and scatter_add, which derive each other. */
#ifndef CLADE_GATHER_H
#define CLADE_GATHER_H

#include "op/dims.h"

typedef struct clade__scatter_attrs {
  clade_shape shape; /* of the table that is added to */
  int32_t axis;      /* of its rows, from 0 on */
} clade__scatter_attrs;

/* The shape of what ids choose along an axis of a table. Ids and table are checked; `op` is for refusals. */
clade_status clade__gather_shape(const char *op, const clade_shape *table, const clade_type *ids, int axis,
                                 clade_shape *out);

#endif

/* Attributes and shapes that gather and scatter_add share; each is the other's gradient. */
#ifndef CLADE_GATHER_H
#define CLADE_GATHER_H

#include "op/dims.h"

typedef struct clade__scatter_attrs {
  clade_shape shape; /* of the table */
  int32_t axis;      /* the indexed axis, never negative */
} clade__scatter_attrs;

/* Result shape of indexing a table along an axis by `ids`, both checked; `op` names the op in error messages. */
clade_status clade__gather_shape(const char *op, const clade_shape *table, const clade_type *ids, int axis,
                                 clade_shape *out);

#endif

/* Between gather and its derivative. */
#ifndef CLADE_GATHER_H
#define CLADE_GATHER_H

#include "op/dims.h"

typedef struct clade__gather_grad_attrs {
  clade_shape shape; /* of the table */
} clade__gather_grad_attrs;

#endif

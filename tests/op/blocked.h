/* For the tests of pack and unpack: views a blocked value as the dense array in memory, so that the layout itself is
 * compared and not only the round trip. */
#ifndef CLADE_TEST_BLOCKED_H
#define CLADE_TEST_BLOCKED_H

#include "op_test.h"

extern const clade_op blocked_to_dense, blocked_from_dense;

typedef struct blocked_attrs { /* of blocked_from_dense: the layout of the view */
  clade_shape shape;
  int32_t axis, block, interleave;
} blocked_attrs;

/* A random shape with a layout for it, sometimes image channels in blocks of 16. */
clade_layout blocked_draw(const op_case *c, op_random *r, clade_shape *shape);
/* The array in memory: outer axes, block index, inner axes, block, interleave. */
clade_shape blocked_shape(const clade_shape *shape, clade_layout layout);
/* The array in memory for panels of matrices: matrices, panels, steps, block, interleave. */
clade_shape blocked_panels(const clade_shape *shape, clade_layout layout);
/* Position in the dense value of the array's element `index`; -1: padding. */
int64_t blocked_at(const clade_shape *shape, clade_layout layout, const int64_t *index);

#endif

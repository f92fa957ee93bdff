/* For the tests of pack and unpack: a view of a blocked value as the dense array that it is in memory, and back, so
 * that the layout itself is compared and not only that both ops agree. */
#ifndef CLADE_TEST_BLOCKED_H
#define CLADE_TEST_BLOCKED_H

#include "op_test.h"

extern const clade_op blocked_to_dense, blocked_from_dense;

typedef struct blocked_attrs { /* of blocked_from_dense: what the value is to be seen as */
  clade_shape shape;
  int32_t axis, block, interleave;
} blocked_attrs;

/* A random shape and a layout for it; channels of images in blocks of 16 among them. */
clade_layout blocked_draw(const op_case *c, op_random *r, clade_shape *shape);
/* The array in memory: the axes before, block numbers, the axes behind, block, interleave. */
clade_shape blocked_shape(const clade_shape *shape, clade_layout layout);
/* The array in memory of panels of matrices: matrices, panels, steps, block, interleave. */
clade_shape blocked_panels(const clade_shape *shape, clade_layout layout);
/* Where in the dense value the element at `index` of that array lies; -1: in the padding. */
int64_t blocked_at(const clade_shape *shape, clade_layout layout, const int64_t *index);

#endif

/* Shared by the tests of unfold and fold: random windows along axis 2 of [n, c, size, ...]. */
#ifndef UNFOLD_KIT_H
#define UNFOLD_KIT_H

#include "op/move/unfold.h"

#include "op_test.h"

void unfold_draw(op_case *c, op_random *r, clade_shape *x, clade_shape *y);
void unfold_shapes(const op_case *c, clade_shape *x, clade_shape *y);
clade__unfold_attrs unfold_window(const op_case *c);
/* Element of x for element i of y; -1: padding. */
int64_t unfold_source(const op_case *c, int64_t i);

#endif

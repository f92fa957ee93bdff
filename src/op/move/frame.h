/* Attributes of the op frame, for the op and its builders. */
#ifndef CLADE_FRAME_H
#define CLADE_FRAME_H

#include "op/op.h"

typedef struct clade__frame_attrs {
  clade_shape shape, begin, at; /* shape of the result; start of the copied part in the operand and in the result */
  int32_t axis;                 /* along which several operands are concatenated */
  bool inside;                  /* slices: the operand must fill the result from `at` on */
  int64_t fill;                 /* bit pattern of an element, in the lowest bytes */
} clade__frame_attrs;

static inline bool clade__is_size(clade_dim d) { return d >= 0; }

clade_val clade__frame_add(clade_graph *g, const clade__frame_attrs *a, int n, const clade_val *in);

#endif

/* Attributes and checks that softmax cross-entropy and its gradient share. */
#ifndef CLADE_CROSS_ENTROPY_H
#define CLADE_CROSS_ENTROPY_H

#include <clade/nn.h>

#include "op/dims.h"

typedef struct clade__cross_entropy_attrs {
  float smoothing;
  bool ignore; /* labels equal to ignore_index */
  int32_t ignore_index;
  bool per_sample; /* one loss per row instead of their mean */
} clade__cross_entropy_attrs;
extern const clade_attr clade__cross_entropy_table[];

/* Checks that operand 0 are logits [..., classes] and operand 1 i32 labels [...]; `rows` is the labels' shape. */
clade_status clade__want_labels(const clade_node *n, clade_shape *rows);

#endif

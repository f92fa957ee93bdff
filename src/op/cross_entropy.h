/* What the softmax cross-entropy and its derivative share. */
#ifndef CLADE_CROSS_ENTROPY_H
#define CLADE_CROSS_ENTROPY_H

#include <clade/nn.h>

#include "op/dims.h"

typedef struct clade__cross_entropy_attrs {
  float smoothing;
  bool ignore; /* the labels that are ignore_index */
  int32_t ignore_index;
  bool per_sample; /* no mean */
} clade__cross_entropy_attrs;
extern const clade_attr clade__cross_entropy_table[];

/* That operand 0 are logits [..., classes] and operand 1 their i32 labels [...], whose shape it gives. */
clade_status clade__want_labels(const clade_node *n, clade_shape *rows);

#endif

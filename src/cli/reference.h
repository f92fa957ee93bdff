/* The perceptron once more, in plain C and double, with a bound on what a device's floats may differ by. */
#ifndef CLADE_CLI_REFERENCE_H
#define CLADE_CLI_REFERENCE_H

#include "models/mlp.h"

typedef struct reference_result {
  double max_error; /* the largest |device - reference| */
  double bound;     /* the bound of the element that came nearest to it */
  bool within;      /* every element is within its bound */
} reference_result;

/* Compares p, the [batch, 10] that a device computed from x, with what the variables say. */
clade_status reference_check(const clade_vars *vars, int64_t batch, const float *x, const float *p,
                             reference_result *result);

#endif

/* A reference for the perceptron in double, with bounds on the error of a float computation. */
#ifndef CLADE_CLI_REFERENCE_H
#define CLADE_CLI_REFERENCE_H

#include "models/mlp.h"

typedef struct reference_result {
  double max_error; /* largest |device - reference| */
  double bound;     /* bound of the element with max_error */
  bool within;      /* all elements are within their bounds */
} reference_result;

/* Compares the device's result p [batch, 10] for x with the reference, by the weights in vars. */
clade_status reference_check(const clade_vars *vars, int64_t batch, const float *x, const float *p,
                             reference_result *result);

#endif

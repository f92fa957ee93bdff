/* Between the normalization of rows and its derivative. */
#ifndef CLADE_LAYER_NORM_H
#define CLADE_LAYER_NORM_H

#include "op/dims.h"

typedef struct clade__norm_attrs {
  int32_t n_axes; /* a row is the last ones; or, where there are groups, so many of a sample's channels each */
  int32_t groups; /* 0: none. [samples, channels, …], with one weight and bias for each channel */
  bool rms;       /* the mean is not taken off: it counts as 0 */
  float eps;
} clade__norm_attrs;
extern const clade_attr clade__norm_table[];

/* That the attributes fit x; the shapes of weight and bias, and of mean and deviation. */
clade_status clade__norm_shapes(const clade__norm_attrs *a, const clade_shape *x, clade_shape *weight,
                                clade_shape *rows);
const char *clade__norm_name(const clade__norm_attrs *a);

/* Rows of n elements; element i of row r has number ((r % period) * n + i) / inner of weight and bias. */
typedef struct clade__norm_rows {
  int64_t rows, n, inner, period;
} clade__norm_rows;
clade__norm_rows clade__norm_rows_of(const clade_query *q);
/* Passes through the loops of a work-item that goes through a row once. */
double clade__norm_passes(const clade__norm_rows *r);

#endif

/* Attributes and row structure that normalization of rows and its gradient share. */
#ifndef CLADE_LAYER_NORM_H
#define CLADE_LAYER_NORM_H

#include "op/dims.h"

typedef struct clade__norm_attrs {
  int32_t n_axes; /* number of trailing axes in a row (without groups) */
  int32_t groups; /* 0, or channel groups of [samples, channels, …]; weight and bias are per channel */
  bool rms;       /* RMS normalization: the mean is taken as 0 */
  float eps;
} clade__norm_attrs;
extern const clade_attr clade__norm_table[];

/* Checks the attributes against x; gives the shape of weight and bias, and that of mean and RSTD. */
clade_status clade__norm_shapes(const clade__norm_attrs *a, const clade_shape *x, clade_shape *weight,
                                clade_shape *rows);
const char *clade__norm_name(const clade__norm_attrs *a);

/* Rows of n elements. Element i of row r uses weight and bias number ((r % period) * n + i) / inner. */
typedef struct clade__norm_rows {
  int64_t rows, n, inner, period;
} clade__norm_rows;
clade__norm_rows clade__norm_rows_of(const clade_query *q);
/* Loop iterations of one pass over a row. */
double clade__norm_passes(const clade__norm_rows *r);

#endif

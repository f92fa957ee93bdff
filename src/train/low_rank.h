/* Gradients that travel between ranks as two thin matrices each. */
#ifndef CLADE_TRAIN_LOW_RANK_H
#define CLADE_TRAIN_LOW_RANK_H

#include "io/io.h"
#include "train/task.h"

/* Whether the i-th gradient travels so: it is a matrix, or made one, that is large enough. */
bool clade__task_is_low_rank(const clade__task *t, int i);
/* Replaces these gradients by their sums over the ranks. */
clade_status clade__task_reduce_low_rank(clade__task *t);

/* Replaces matrices of as many columns by such of the same shape, whose columns are orthonormal and span the same. */
clade_status clade__orthonormal(clade_graph *g, int n, clade_val *values);
/* Row-major, with no fewer rows than columns; columns that depend on those before become others. */
void clade__orthonormalize(float *x, size_t rows, int columns);

#endif

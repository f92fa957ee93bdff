/* PowerSGD: gradients are sent between ranks as two thin matrices each. */
#ifndef CLADE_TRAIN_LOW_RANK_H
#define CLADE_TRAIN_LOW_RANK_H

#include "io/io.h"
#include "train/task.h"

/* Whether gradient i is compressed: it has at least two dimensions and is large enough. */
bool clade__task_is_low_rank(const clade__task *t, int i);
/* Replaces these gradients by their approximate sums over the ranks. */
clade_status clade__task_reduce_low_rank(clade__task *t);

/* Replaces matrices with the same number of columns by orthonormal bases of their column spaces. */
clade_status clade__orthonormal(clade_graph *g, int n, clade_val *values);
/* x is row-major with rows >= columns. A column that depends on earlier ones is replaced by another direction. */
void clade__orthonormalize(float *x, size_t rows, int columns);

#endif

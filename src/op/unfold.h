/* Between unfold, its derivative fold, and the convolutions that are made of them. */
#ifndef CLADE_UNFOLD_H
#define CLADE_UNFOLD_H

#include "op/op.h"

/* A window along axis 2 of [n, c, size, ...]: unfolded it is [n, count, c, kernel, ...]. */
typedef struct clade__unfold_attrs {
  int64_t size;
  int32_t kernel, stride, dilation, pad[2];
} clade__unfold_attrs;
extern const clade_attr clade__unfold_table[];

/* x for unfold, *count as many windows as fit; refuses what they cannot be. */
clade_status clade__unfold_check(const clade_node *n, const clade_shape *x, int64_t *count);
/* All but the window's axes; `back`: of fold. */
void clade__unfold_dims(clade_dims *d, const clade_node *n, bool back);
clade_val clade__unfold(clade_graph *g, clade_val x, const clade__unfold_attrs *window);
clade_val clade__fold(clade_graph *g, clade_val y, const clade__unfold_attrs *window);
/* A launch for every row of the result: from and to what they are, and how they are read. */
void clade__unfold_emit(clade_emit *e, const clade_query *q, const char *kernel, const char *T, int64_t rows,
                        int64_t width, const clade_shape *x, int64_t count);
double clade__unfold_cost(const clade_query *q);

#endif

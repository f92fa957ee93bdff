/* Unfold and its gradient fold, for convolutions that are composed of them. */
#ifndef CLADE_UNFOLD_H
#define CLADE_UNFOLD_H

#include "op/op.h"

/* A window along axis 2 of [n, c, size, ...]; unfolding gives [n, count, c, kernel, ...]. */
typedef struct clade__unfold_attrs {
  int64_t size;
  int32_t kernel, stride, dilation, pad[2];
} clade__unfold_attrs;
extern const clade_attr clade__unfold_table[];

/* Checks the attributes for x, the operand of unfold; *count is the number of windows. */
clade_status clade__unfold_check(const clade_node *n, const clade_shape *x, int64_t *count);
/* All axes but the window's can be split over ranks; `back`: for fold. */
void clade__unfold_dims(clade_dims *d, const clade_node *n, bool back);
clade_val clade__unfold(clade_graph *g, clade_val x, const clade__unfold_attrs *window);
clade_val clade__fold(clade_graph *g, clade_val y, const clade__unfold_attrs *window);
/* Emits a kernel over `rows` rows of `width` elements of the result; x and count give the shapes. */
void clade__unfold_emit(clade_emit *e, const clade_query *q, const char *kernel, const char *T, int64_t rows,
                        int64_t width, const clade_shape *x, int64_t count);
/* The same for GPUs, where a work-item has up to four consecutive elements. */
void clade__unfold_emit_group(clade_emit *e, const clade_query *q, const char *kernel, const char *T, int64_t rows,
                              int64_t width, const clade_shape *x, int64_t count);
double clade__unfold_cost(const clade_query *q);

#endif

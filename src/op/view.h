/* How a value's elements lie in another one's memory, for passes that let an op read them there: a slice, permuted
 * axes, repeated ones. */
#ifndef CLADE_VIEW_H
#define CLADE_VIEW_H

#include "op/op.h"

typedef struct clade__view {
  clade_shape shape;
  int64_t stride[CLADE_MAX_RANK], offset; /* in elements of that memory */
} clade__view;

/* Of a dense value in its own memory. */
clade__view clade__view_whole(const clade_shape *shape);
/* Whether the op only moves elements, so that clade__view_through may be asked. */
bool clade__view_moves(const clade_op *op);
/* Makes the view of the node's operand one of its output; false, with nothing said of *v: no strides tell where that
 * lies. Of sizes, not symbols. */
bool clade__view_through(const clade_node *n, clade__view *v);

/* Attributes of an op as if it read copies instead of views, whose types are put into `in`. They are in *room then, or
 * are the ones given, of an op that reads no views. */
const void *clade__view_forgotten(const clade_op *op, const void *attrs, clade_type *in, clade__gemm_attrs *room);

/* The same of each op. */
bool clade__reshape_view(const clade_node *n, clade__view *v);
bool clade__transpose_view(const clade_node *n, clade__view *v);
bool clade__frame_view(const clade_node *n, clade__view *v);
bool clade__broadcast_view(const clade_node *n, clade__view *v);

#endif

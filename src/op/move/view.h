/* Strided views of another value's memory, for passes that let an op read a slice, a permutation or a broadcast in
 * place. */
#ifndef CLADE_VIEW_H
#define CLADE_VIEW_H

#include "op/op.h"

typedef struct clade__view {
  clade_shape shape;
  int64_t stride[CLADE_MAX_RANK], offset; /* in elements */
} clade__view;

/* The view of a dense value of its own memory. */
clade__view clade__view_whole(const clade_shape *shape);
/* True if the op only moves elements, so that clade__view_through applies. */
bool clade__view_moves(const clade_op *op);
/* Turns the view of the node's operand into one of its output. Returns false, with *v undefined, if no strides describe
 * it. The dimensions must not be symbolic. */
bool clade__view_through(const clade_node *n, clade__view *v);

/* Attributes of an op as if it read contiguous copies instead of views, with the copies' types stored in `in`. The
 * result is in *room, or is `attrs` if the op reads no views. */
const void *clade__view_forgotten(const clade_op *op, const void *attrs, clade_type *in, clade__gemm_attrs *room);

/* clade__view_through for each op. */
bool clade__reshape_view(const clade_node *n, clade__view *v);
bool clade__transpose_view(const clade_node *n, clade__view *v);
bool clade__frame_view(const clade_node *n, clade__view *v);
bool clade__broadcast_view(const clade_node *n, clade__view *v);

#endif

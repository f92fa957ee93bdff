/* Table of the ops that only move elements. Their effect on strides is implemented next to each op. */
#include "op/move/view.h"

#include "op/dims.h"

static const struct {
  const clade_op *op;
  bool (*through)(const clade_node *n, clade__view *v);
} movers[] = {{&clade__op_reshape, clade__reshape_view},
              {&clade__op_transpose, clade__transpose_view},
              {&clade__op_frame, clade__frame_view},
              {&clade__op_broadcast, clade__broadcast_view}};

clade__view clade__view_whole(const clade_shape *shape) {
  clade__view v = {.shape = *shape};
  clade__strides(shape, v.stride);
  return v;
}

bool clade__view_moves(const clade_op *op) {
  for (size_t i = 0; i < CLADE_COUNT(movers); i++)
    if (movers[i].op == op) return true;
  return false;
}

bool clade__view_through(const clade_node *n, clade__view *v) {
  for (size_t i = 0; i < CLADE_COUNT(movers); i++)
    if (movers[i].op == n->op) return movers[i].through(n, v);
  return false;
}

const void *clade__view_forgotten(const clade_op *op, const void *attrs, clade_type *in, clade__gemm_attrs *room) {
  if (op != &clade__op_gemm) return attrs;
  memcpy(room, attrs, sizeof *room);
  for (int i = 0; i < 2; i++)
    if (room->shape[i].rank) in[i].shape = room->shape[i];
  memset(room->shape, 0, sizeof room->shape);
  memset(room->stride, 0, sizeof room->stride);
  memset(room->offset, 0, sizeof room->offset);
  return room;
}

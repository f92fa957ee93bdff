/* Reference for blocked layouts, element by element, by their definition. */
#include "blocked.h"

clade_layout blocked_draw(const op_case *c, op_random *r, clade_shape *shape) {
  if (!c->small && !c->gradient && op_chance(r, c->more ? 0.8 : 0.2)) { /* channels of images */
    *shape = CLADE_SHAPE(op_integer(r, 1, 2), op_integer(r, 0, 40), op_integer(r, 0, 60));
    return (clade_layout){.axis = 1, .block = 16};
  }
  if (op_chance(r, 0.2)) { /* channels last */
    const int64_t channels = 8 * op_integer(r, 1, c->small || c->gradient ? 2 : 9);
    *shape = CLADE_SHAPE(op_integer(r, 1, 2), channels, op_integer(r, 0, c->small || c->gradient ? 3 : 90));
    return (clade_layout){.axis = 1, .block = (uint16_t)channels};
  }
  *shape = op_draw_shape(r, c, 1, 5, c->gradient ? 60 : 5000);
  static const int blocks[] = {1, 2, 3, 8, 16};
  int axis = (int)op_integer(r, 0, shape->rank - 1);
  uint16_t interleave = (uint16_t)(axis > 0 ? (int)op_integer(r, 0, 4) : 0);
  return (clade_layout){
      .axis = (int16_t)axis, .block = (uint16_t)blocks[op_integer(r, 0, 4)], .interleave = interleave};
}

clade_shape blocked_shape(const clade_shape *shape, clade_layout layout) {
  clade_shape s = *shape;
  s.dim[layout.axis] = (s.dim[layout.axis] + layout.block - 1) / layout.block;
  s.dim[s.rank++] = layout.block;
  if (layout.interleave > 1) {
    clade_dim *before = &s.dim[layout.axis - 1];
    *before = (*before + layout.interleave - 1) / layout.interleave;
    s.dim[s.rank++] = layout.interleave;
  }
  return s;
}

clade_shape blocked_panels(const clade_shape *shape, clade_layout layout) {
  clade_shape s = {.rank = 1, .dim = {1}};
  bool windows = layout.axis < shape->rank - 2; /* a matrix of weights for each position of the window */
  int64_t interleave = CLADE_MAX(layout.interleave, 1);
  int64_t other =
      windows ? shape->dim[0] * shape->dim[2] * shape->dim[3] : shape->dim[2 * shape->rank - 3 - layout.axis];
  if (windows && interleave > 1) /* whose other axis is filled up for each place of a window */
    other = (shape->dim[!layout.axis] + interleave - 1) / interleave * interleave * shape->dim[2] * shape->dim[3];
  for (int i = 0; i < shape->rank - 2 && !windows; i++) s.dim[0] *= shape->dim[i];
  s.dim[s.rank++] = (shape->dim[layout.axis] + layout.block - 1) / layout.block;
  s.dim[s.rank++] = (other + interleave - 1) / interleave;
  s.dim[s.rank++] = layout.block;
  s.dim[s.rank++] = interleave;
  return s;
}

int64_t blocked_at(const clade_shape *shape, clade_layout layout, const int64_t *index) {
  int64_t at = 0, own[CLADE_MAX_RANK];
  for (int i = 0; i < shape->rank; i++) own[i] = index[i];
  own[layout.axis] = index[layout.axis] * layout.block + index[shape->rank];
  if (layout.interleave > 1) own[layout.axis - 1] = index[layout.axis - 1] * layout.interleave + index[shape->rank + 1];
  for (int i = 0; i < shape->rank; i++) {
    if (own[i] >= shape->dim[i]) return -1;
    at = at * shape->dim[i] + own[i];
  }
  return at;
}

static clade_status infer_dense(clade_node *n) {
  const clade_shape *s = &n->in[0].shape;
  clade_layout l = n->in[0].layout;
  n->out[0] = (clade_type){.dtype = n->in[0].dtype};
  if (l.tile == CLADE_PANELS)
    n->out[0].shape = blocked_panels(s, l);
  else if (l.tile >= CLADE_SPECTRUM) /* blocks, frequencies, the other axis, real and imaginary parts of a block */
    n->out[0].shape =
        CLADE_SHAPE((s->dim[l.axis] + l.block - 1) / l.block, l.tile * (l.tile / 2 + 1), s->dim[!l.axis], 2 * l.block);
  else if (l.tile) /* panels, taps, the other axis, a panel's channels */
    n->out[0].shape = CLADE_SHAPE((s->dim[l.axis] + l.block - 1) / l.block, l.tile * l.tile, s->dim[!l.axis], l.block);
  else
    n->out[0].shape = blocked_shape(s, l);
  return CLADE_OK;
}

static clade_status infer_blocked(clade_node *n) {
  const blocked_attrs *a = n->attrs;
  clade_layout layout = {.axis = (int16_t)a->axis, .block = (uint16_t)a->block, .interleave = (uint16_t)a->interleave};
  n->out[0] = (clade_type){n->in[0].dtype, layout, a->shape};
  return CLADE_OK;
}

static const clade_attr table[] = {{"shape", CLADE_ATTR_SHAPE, offsetof(blocked_attrs, shape), 1},
                                   {"axis", CLADE_ATTR_I32, offsetof(blocked_attrs, axis), 1},
                                   {"block", CLADE_ATTR_I32, offsetof(blocked_attrs, block), 1},
                                   {"interleave", CLADE_ATTR_I32, offsetof(blocked_attrs, interleave), 1},
                                   {0}};

const clade_op blocked_to_dense = {.size = sizeof(clade_op),
                                   .name = "test.to_dense",
                                   .flags = CLADE_OP_VIEW,
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 1,
                                   .infer = infer_dense};
const clade_op blocked_from_dense = {.size = sizeof(clade_op),
                                     .name = "test.from_dense",
                                     .flags = CLADE_OP_VIEW,
                                     .min_in = 1,
                                     .max_in = 1,
                                     .n_out = 1,
                                     .attr_bytes = sizeof(blocked_attrs),
                                     .attrs = table,
                                     .infer = infer_blocked};

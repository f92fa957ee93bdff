/* unpack with arbitrary padding; its gradient through pack. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>

#include "blocked.h"

enum { AXIS, BLOCK, INTERLEAVE, RANK, DIMS };

static clade_layout layout_of(const op_case *c) {
  return (clade_layout){
      .axis = (int16_t)c->i[AXIS], .block = (uint16_t)c->i[BLOCK], .interleave = (uint16_t)c->i[INTERLEAVE]};
}
static clade_shape shape_of(const op_case *c) {
  clade_shape shape = {.rank = c->i[RANK]};
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = c->i[DIMS + i];
  return shape;
}

static void draw(op_case *c, op_random *r) {
  clade_shape shape;
  clade_layout layout = blocked_draw(c, r, &shape);
  c->i[AXIS] = layout.axis;
  c->i[BLOCK] = layout.block;
  c->i[INTERLEAVE] = layout.interleave;
  c->i[RANK] = shape.rank;
  for (int i = 0; i < shape.rank; i++) c->i[DIMS + i] = (int)shape.dim[i];
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = c->gradient ? shape : blocked_shape(&shape, layout)};
  snprintf(c->note, sizeof c->note, "axis %d block %d interleave %d", layout.axis, layout.block, layout.interleave);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  blocked_attrs a;
  memset(&a, 0, sizeof a);
  a.shape = shape_of(c);
  a.axis = c->i[AXIS], a.block = c->i[BLOCK], a.interleave = c->i[INTERLEAVE];
  clade_val packed =
      c->gradient ? clade_pack(g, in[0], layout_of(c)) : clade_node_add(g, &blocked_from_dense, NULL, &a, 1, in, NULL);
  out[0] = clade_unpack(g, packed);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape dense = shape_of(c), blocked = blocked_shape(&dense, layout_of(c));
  op_result(out, c->dtype, dense);
  for (int64_t i = 0; i < in->n; i++) {
    int64_t index[CLADE_MAX_RANK];
    op_unravel(&blocked, i, index);
    int64_t to = c->gradient ? i : blocked_at(&dense, layout_of(c), index);
    if (to >= 0) out->v[to] = in->v[i];
  }
}

const op_test op_test_unpack = {"unpack", op_all_types, draw, build, reference, NULL, 0, NULL};

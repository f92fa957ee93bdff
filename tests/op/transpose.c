/* Random permutations of the axes. */
#include <clade/ops.h>

#include <stdio.h>

#include "op_test.h"

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 0, op_chance(r, 0.2) ? 8 : 5, c->gradient ? 60 : 20000);
  if (c->small && strcmp(c->impl, "tiles") == 0) shape = CLADE_SHAPE(op_integer(r, 16, 18), op_integer(r, 16, 18));
  if (c->small && strcmp(c->impl, "group") == 0) shape = CLADE_SHAPE(op_integer(r, 8, 34), op_integer(r, 8, 34));
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = shape};
  for (int i = 0; i < shape.rank; i++) c->i[i] = i;
  for (int i = shape.rank - 1; i > 0; i--) {
    int j = (int)op_integer(r, 0, i), t = c->i[i];
    c->i[i] = c->i[j];
    c->i[j] = t;
  }
  if (strcmp(c->impl, "runs") == 0 &&
      !c->gradient) { /* contiguous runs of the last axis, with permuted or separated outer axes */
    int64_t most = c->small ? 2 : 12, run = op_integer(r, c->small ? 32 : 8, c->small ? 34 : 70);
    shape = CLADE_SHAPE(op_integer(r, 1, 3), op_integer(r, 1, most), op_integer(r, 2, 5), op_integer(r, 1, most), run);
    const int ways[][5] = {{0, 3, 2, 1, 4}, {0, 1, 3, 2, 4}, {3, 1, 0, 2, 4}};
    memcpy(c->i, ways[op_integer(r, 0, 2)], sizeof *ways);
    c->in[0].shape = shape;
  }
  for (int i = 0, at = 0; i < shape.rank; i++)
    at += snprintf(c->note + at, sizeof c->note - (size_t)at, "%d ", c->i[i]);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade_transpose(g, in[0], c->in[0].shape.rank, c->i);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape y = {.rank = in->shape.rank};
  for (int i = 0; i < y.rank; i++) y.dim[i] = in->shape.dim[c->i[i]];
  op_result(out, c->dtype, y);
  for (int64_t o = 0; o < out->n; o++) {
    int64_t to[CLADE_MAX_RANK], from[CLADE_MAX_RANK] = {0};
    op_unravel(&y, o, to);
    for (int i = 0; i < y.rank; i++) from[c->i[i]] = to[i];
    out->v[o] = in->v[op_broadcast_at(&in->shape, &in->shape, from)];
  }
}

const op_test op_test_transpose = {"transpose", op_all_types, draw, build, reference, NULL, 0, NULL};

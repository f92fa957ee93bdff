/* Broadcasts to random shapes, also as the gradient of a mean. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>

#include "op/dims.h"
#include "op_test.h"

enum { MEAN, RANK, DIMS };

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 0, 6, c->gradient ? 60 : 20000);
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = op_draw_broadcast(r, &shape)};
  c->i[MEAN] = clade__is_computed_float(c->dtype) && op_chance(r, 0.5);
  c->i[RANK] = shape.rank;
  for (int i = 0; i < shape.rank; i++) c->i[DIMS + i] = (int)shape.dim[i];
  snprintf(c->note, sizeof c->note, "mean %d", c->i[MEAN]);
}

static clade_shape result_shape(const op_case *c) {
  clade_shape shape = {.rank = c->i[RANK]};
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = c->i[DIMS + i];
  return shape;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_shape shape = result_shape(c);
  out[0] = c->i[MEAN] ? clade__broadcast_mean(g, in[0], &shape) : clade_broadcast(g, in[0], shape);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape shape = result_shape(c);
  op_result(out, c->dtype, shape);
  double repeats = in->n ? (double)out->n / (double)in->n : 1;
  for (int64_t i = 0; i < out->n; i++) {
    int64_t index[CLADE_MAX_RANK];
    op_unravel(&shape, i, index);
    out->v[i] = in->v[op_broadcast_at(&in->shape, &shape, index)];
    if (!c->i[MEAN]) continue;
    out->v[i] /= repeats;
    out->bound[i] = fabs(out->v[i]) * 0x1p-22;
  }
}

const op_test op_test_broadcast = {"broadcast", op_all_types, draw, build, reference, NULL, 0, NULL};

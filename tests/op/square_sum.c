/* Sums of squares of one to ten tensors, in up to two nodes. */
#include <math.h>
#include <stdio.h>

#include "op/update/update.h"
#include "op_test.h"

enum { BEFORE, CARRY, SCALARS };

static void draw(op_case *c, op_random *r) {
  int tensors = (int)op_integer(r, 1, 10);
  c->differentiable = 0;
  for (int i = 0; i < SCALARS; i++)
    c->in[i] = (op_input){.dtype = CLADE_F32, .shape = CLADE_SCALAR, .low = 0.01, .high = 1};
  for (int i = 0; i < tensors; i++)
    c->in[SCALARS + i] = (op_input){
        .dtype = c->dtype, .shape = op_draw_shape(r, c, 0, 3, op_chance(r, 0.2) ? 300000 : 300), .low = -2, .high = 2};
  c->n_in = SCALARS + tensors;
  c->f[0] = op_chance(r, 0.5) ? (double)(float)op_uniform(r, 0.1, 1) : HUGE_VAL;
  snprintf(c->note, sizeof c->note, "%d tensors", tensors);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade__square_sum(g, c->n_in - SCALARS, in + SCALARS, in[BEFORE], (float)c->f[0], in[CARRY]);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  op_result(out, CLADE_F32, CLADE_SCALAR);
  out->v[0] = in[CARRY].v[0];
  for (int k = SCALARS; k < c->n_in; k++)
    for (int64_t i = 0; i < in[k].n; i++) {
      double x = fmin(fmax(in[k].v[i] * in[BEFORE].v[0], -c->f[0]), c->f[0]);
      out->v[0] += x * x;
    }
  out->bound[0] = 64 * 0x1p-24 * out->v[0]; /* sixteen parallel sums, whose errors mostly cancel */
}

const op_test op_test_square_sum = {"square_sum", op_computed_floats, draw, build, reference, NULL, 0, NULL};

/* arg_max: index of the first maximum; half of the cases have ties. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op_test.h"

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 1, 5, 20000);
  int axis = (int)op_integer(r, 0, shape.rank - 1);
  if (c->number % 4 == 1) { /* vectors of lines */
    shape = c->small ? CLADE_SHAPE(2, 3, 17) : CLADE_SHAPE(2, op_integer(r, 1, 40), op_integer(r, 16, 700));
    axis = 1;
  } else if (c->number % 4 == 2) { /* whole rows */
    if (c->small) shape = CLADE_SHAPE(2, 19);
    axis = shape.rank - 1;
  }
  if (strcmp(c->impl, "group") == 0 && (c->small ? c->number % 2 : op_chance(r, 0.2))) { /* several parts */
    shape =
        CLADE_SHAPE(c->small ? 1 : op_integer(r, 1, 2), op_integer(r, 8192, 9000), c->small ? 1 : op_integer(r, 1, 2));
    axis = 1;
  }
  if (shape.dim[axis] == 0) shape.dim[axis] = 1;
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = shape};
  if (op_chance(r, 0.5)) c->in[0].low = op_is_float(c->dtype) ? -2 : 0, c->in[0].high = 3, c->in[0].ties = 1;
  c->i[0] = axis;
  snprintf(c->note, sizeof c->note, "axis %d", axis);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  int n = op_is_float(c->dtype) && in->n > 3 && op_chance(r, 0.2) ? (int)op_integer(r, 1, 3) : 0;
  for (int i = 0; i < n; i++) in->v[op_integer(r, 0, in->n - 1)] = NAN;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade_arg_max(g, in[0], c->i[0] - (c->number % 3 == 0 ? c->in[0].shape.rank : 0));
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int axis = c->i[0];
  clade_shape y = {0};
  int64_t inner = 1, n = in->shape.dim[axis];
  for (int i = 0; i < in->shape.rank; i++) {
    if (i != axis) y.dim[y.rank++] = in->shape.dim[i];
    if (i > axis) inner *= in->shape.dim[i];
  }
  op_result(out, CLADE_I32, y);
  for (int64_t o = 0; o < out->n; o++) {
    const double *x = in->v + o / inner * n * inner + o % inner;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
      if (x[i * inner] > x[best * inner] || (isnan(x[i * inner]) && !isnan(x[best * inner]))) best = i;
    out->v[o] = (double)best;
  }
}

const op_test op_test_arg_max = {"arg_max", op_number_types, draw, build, reference, fill, 0, NULL};

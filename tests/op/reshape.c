/* Reshapes to random shapes of the same size, with and without an inferred axis, and flatten. */
#include <clade/ops.h>

#include "op_test.h"

enum { FLATTEN, AXIS, REST, RANK, DIMS }; /* REST: the inferred axis, or -1 */

/* Distributes the factors of n over `rank` axes. */
static void factors(op_random *r, int64_t n, int rank, int *dim) {
  for (int i = 0; i < rank; i++) dim[i] = 1;
  for (int64_t f = 2; n > 1; f++)
    for (; n % f == 0; n /= f) dim[op_integer(r, 0, rank - 1)] *= (int)f;
  if (n == 0) dim[op_integer(r, 0, rank - 1)] = 0;
}

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 0, 5, c->gradient ? 60 : 5000);
  int64_t n = op_elements(&shape);
  int rank = (int)op_integer(r, 1, 6);
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = shape};
  c->i[FLATTEN] = op_chance(r, 0.25);
  c->i[AXIS] = (int)op_integer(r, 0, shape.rank);
  c->i[RANK] = rank;
  factors(r, n, rank, c->i + DIMS);
  c->i[REST] = n > 0 && op_chance(r, 0.5) ? (int)op_integer(r, 0, rank - 1) : -1;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_shape shape = {.rank = c->i[RANK]};
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = i == c->i[REST] ? CLADE_DIM_REST : c->i[DIMS + i];
  out[0] = c->i[FLATTEN] ? clade_flatten(g, in[0], c->i[AXIS]) : clade_reshape(g, in[0], shape);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape y = {.rank = c->i[RANK]};
  for (int i = 0; i < y.rank; i++) y.dim[i] = c->i[DIMS + i];
  if (c->i[FLATTEN]) {
    y = (clade_shape){.rank = 2, .dim = {1, 1}};
    for (int i = 0; i < in->shape.rank; i++) y.dim[i >= c->i[AXIS]] *= in->shape.dim[i];
  }
  op_result(out, c->dtype, y);
  for (int64_t i = 0; i < out->n; i++) out->v[i] = in->v[i];
}

const op_test op_test_reshape = {"reshape", op_all_types, draw, build, reference, NULL, 0, NULL};

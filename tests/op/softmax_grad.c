/* Derivatives of softmax and log-softmax as their own ops, for arbitrary results and gradients. In a third of the
 * cases without gradients some rows have NaN or infinities. */
#include <math.h>
#include <stdio.h>

#include "op/dims.h"
#include "op/norm/softmax.h"
#include "op_test.h"

enum { Y, DY };
enum { AXIS, LOG };

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 1, 4, c->gradient ? 40 : 10000);
  bool large = !c->small && !c->gradient && !c->more;
  if (large && op_chance(r, 0.03)) shape = CLADE_SHAPE(2, op_integer(r, 65536, 250000));
  int axis = op_chance(r, 0.5) ? shape.rank - 1 : (int)op_integer(r, 0, shape.rank - 1);
  if (large && op_chance(r, 0.1)) { /* more than one strip of lines */
    shape = CLADE_SHAPE(op_integer(r, 1, 3), op_integer(r, 1, 30), op_integer(r, 100, 400));
    axis = 1;
  }
  if (c->small && c->number / 3 == 1) { /* vectors of lines, for each of three implementations */
    shape = CLADE_SHAPE(2, 3, 17);
    axis = 1;
  }
  c->n_in = 2;
  c->i[AXIS] = axis;
  c->i[LOG] = op_chance(r, 0.5);
  if (c->brief) c->i[LOG] = c->dtype == CLADE_F32; /* llvmpipe needs seconds per kernel */
  c->in[Y] = (op_input){.dtype = c->dtype, .shape = shape, .low = c->i[LOG] ? -20 : 0, .high = c->i[LOG] ? 0 : 1};
  if (c->gradient && c->i[LOG]) c->in[Y].low = -2;
  c->in[DY] = (op_input){.dtype = c->dtype, .shape = shape, .low = -2, .high = 3};
  snprintf(c->note, sizeof c->note, "axis %d%s", axis, c->i[LOG] ? ", of the logarithm" : "");
}

static int64_t inner_of(const op_case *c) {
  return clade__product(&c->in[Y].shape, c->i[AXIS] + 1, c->in[Y].shape.rank);
}

/* One or several gradients or results of a row. The only infinite result is the logarithm of 0. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  if (c->gradient || op_chance(r, 0.67)) return;
  int64_t inner = inner_of(c), n = in->shape.dim[c->i[AXIS]];
  for (int64_t row = 0; n && row < in->n / n; row++) {
    if (op_chance(r, 0.6)) continue;
    bool gradient = op_chance(r, 0.7);
    double *v = in[gradient ? DY : Y].v + row / inner * n * inner + row % inner;
    for (int64_t times = op_chance(r, 0.7) ? 1 : 3; times > 0; times--)
      v[op_integer(r, 0, n - 1) * inner] = gradient                         ? op_not_finite(r)
                                           : c->i[LOG] && op_chance(r, 0.5) ? -INFINITY
                                                                            : NAN;
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__softmax_attrs a;
  memset(&a, 0, sizeof a);
  a.axis = c->i[AXIS];
  a.log = c->i[LOG];
  clade_node_add(g, &clade__op_softmax_grad, NULL, &a, 2, in, out);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t inner = inner_of(c), n = in->shape.dim[c->i[AXIS]];
  op_result(out, c->dtype, in->shape);
  for (int64_t row = 0; n && row < in->n / n; row++) {
    int64_t base = row / inner * n * inner + row % inner;
    double sum = 0, size = 0;
    for (int64_t i = base; i < base + n * inner; i += inner) {
      double term = in[DY].v[i] * (c->i[LOG] ? 1 : in[Y].v[i]);
      sum += term, size += fabs(term);
    }
    for (int64_t i = base; i < base + n * inner; i += inner) {
      double y = in[Y].v[i], dy = in[DY].v[i], p = c->i[LOG] ? exp(y) : y;
      double off = c->i[LOG] ? (4 - y) * 0x1p-23 * fabs(sum) : 0;
      out->v[i] = c->i[LOG] ? dy - sum * p : (dy - sum) * p;
      double bound = p * (0x1p-20 * size + off) + 0x1p-22 * fabs(dy) * (c->i[LOG] ? 1 : p) + 1e-37 * (1 + fabs(sum));
      if (isfinite(bound)) out->bound[i] = bound;
    }
  }
}

const op_test op_test_softmax_grad = {"softmax_grad", op_computed_floats, draw, build, reference, fill, 0, NULL};

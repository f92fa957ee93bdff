/* Softmax and log-softmax along random axes. In a third of the cases without gradients some rows have NaN or
 * infinities; in others, rows span more than the range of exp. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>

#include "op/dims.h"
#include "op_test.h"

enum { AXIS, LOG };

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 1, 4, c->gradient ? 40 : 10000);
  bool large = !c->small && !c->gradient && !c->more;
  if (large && op_chance(r, 0.03)) shape = CLADE_SHAPE(2, op_integer(r, 65536, 250000));
  int axis = (int)op_integer(r, 0, shape.rank - 1);
  if (op_chance(r, 0.5)) axis = shape.rank - 1;
  if (large && op_chance(r, 0.1)) { /* several strips of lines, or lines too long to be kept */
    bool lengthy = op_chance(r, 0.3);
    shape = CLADE_SHAPE(op_integer(r, 1, 3), lengthy ? op_integer(r, 4000, 5000) : op_integer(r, 1, 90),
                        lengthy ? op_integer(r, 16, 40) : op_integer(r, 100, 700));
    axis = 1;
  }
  if (c->small && c->number % 3 == 1) { /* vectors of lines */
    shape = CLADE_SHAPE(2, 3, 17);
    axis = 1;
  }
  double range = c->gradient ? 2 : op_chance(r, 0.25) ? 60 : 5;
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = shape, .low = -range, .high = range};
  c->i[AXIS] = axis;
  c->i[LOG] = op_chance(r, 0.5);
  if (c->brief) c->i[LOG] = c->dtype != CLADE_F32; /* llvmpipe needs seconds per kernel */
  snprintf(c->note, sizeof c->note, "axis %d%s", axis, c->i[LOG] ? ", logarithm" : "");
}

static int64_t inner_of(const op_case *c) {
  return clade__product(&c->in[0].shape, c->i[AXIS] + 1, c->in[0].shape.rank);
}

/* One, some or all elements of a row, of one kind or mixed. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  static const double kinds[] = {NAN, INFINITY, -INFINITY};
  if (c->gradient || op_chance(r, 0.67)) return;
  int64_t inner = inner_of(c), n = in->shape.dim[c->i[AXIS]];
  for (int64_t row = 0; n && row < in->n / n; row++) {
    if (op_chance(r, 0.6)) continue;
    double *x = in->v + row / inner * n * inner + row % inner, share = op_chance(r, 0.2) ? 1 : 0.3;
    int64_t kind = op_integer(r, 0, 4); /* 3 and more: mixed */
    if (op_chance(r, 0.5))
      x[op_integer(r, 0, n - 1) * inner] = kinds[kind % 3];
    else
      for (int64_t i = 0; i < n; i++)
        if (op_chance(r, share)) x[i * inner] = kinds[kind < 3 ? kind : op_integer(r, 0, 2)];
  }
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  int axis = c->i[AXIS] - (c->number % 3 == 0 ? c->in[0].shape.rank : 0);
  out[0] = c->i[LOG] ? clade_log_softmax(g, in[0], axis) : clade_softmax(g, in[0], axis);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t inner = inner_of(c), n = in->shape.dim[c->i[AXIS]];
  op_result(out, c->dtype, in->shape);
  for (int64_t row = 0; n && row < in->n / n; row++) {
    int64_t base = row / inner * n * inner + row % inner;
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, in->v[base + i * inner]);
    for (int64_t i = 0; i < n; i++)
      sum += exp(in->v[base + i * inner] - top); /* NaN propagates, also if top is infinite */
    for (int64_t i = 0; i < n; i++) {
      double v = in->v[base + i * inner], y = exp(v - top) / sum, off = (16 + top - v) * 0x1p-23;
      out->v[base + i * inner] = c->i[LOG] ? v - top - log(sum) : y;
      if (isfinite(off)) out->bound[base + i * inner] = c->i[LOG] ? off : off * y + 0x1p-126;
    }
  }
}

const op_test op_test_softmax = {"softmax", op_computed_floats, draw, build, reference, fill, 0, NULL};

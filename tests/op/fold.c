/* fold: sums over the random windows that cover each position of one axis. */
#include <math.h>

#include "op/move/unfold.h"

#include "unfold_kit.h"

static void draw(op_case *c, op_random *r) {
  clade_shape x, y;
  unfold_draw(c, r, &x, &y);
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = y, .low = -2, .high = 2};
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__unfold_attrs window = unfold_window(c);
  out[0] = clade__fold(g, in[0], &window);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape x, y;
  unfold_shapes(c, &x, &y);
  op_result(out, c->dtype, x);
  for (int64_t i = 0; i < in->n; i++) {
    int64_t to = unfold_source(c, i);
    if (to < 0) continue;
    out->v[to] += in->v[i];
    out->bound[to] += fabs(in->v[i]) * (double)y.dim[3] * 0x1p-24;
  }
}

const op_test op_test_fold = {"fold", op_computed_floats, draw, build, reference, NULL, 0, NULL};

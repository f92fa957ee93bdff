/* unfold: copies random windows along one axis. */
#include "op/move/unfold.h"

#include "unfold_kit.h"

static void draw(op_case *c, op_random *r) {
  clade_shape x, y;
  unfold_draw(c, r, &x, &y);
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x};
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__unfold_attrs window = unfold_window(c);
  out[0] = clade__unfold(g, in[0], &window);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape x, y;
  unfold_shapes(c, &x, &y);
  op_result(out, c->dtype, y);
  for (int64_t i = 0; i < out->n; i++) {
    int64_t from = unfold_source(c, i);
    out->v[i] = from < 0 ? 0 : in->v[from];
  }
}

const op_test op_test_unfold = {"unfold", op_computed_floats, draw, build, reference, NULL, 0, NULL};

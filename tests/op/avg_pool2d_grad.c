/* Gradient of avg_pool2d for random windows, as its own op. */
#include <math.h>

#include "pool_kit.h"

static void draw(op_case *c, op_random *r) { c->in[0].shape = pool_draw(c, r).y; }

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  conv v = pool_of(c);
  clade__pool_attrs at = pool_attrs(c);
  out[0] = clade__pool_node(g, &clade__op_avg_pool2d_grad, &at, 1, in, &v.x);
}

typedef struct shares {
  const op_array *in;
  op_array *out;
  int64_t size;
} shares;

static void take(void *user, int64_t x, int64_t y, int64_t covered) {
  shares *s = user;
  double share = s->in->v[y] / (double)(s->size ? s->size : covered);
  s->out->v[x] += share;
  s->out->bound[x] += (49 + 3) * 0x1p-24 * fabs(share);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = pool_of(c);
  op_result(out, c->dtype, v.x);
  pool_each(&v, take, &(shares){in, out, pool_counts_pad(c) ? v.window.kernel[0] * v.window.kernel[1] : 0});
}

const op_test op_test_avg_pool2d_grad = {"avg_pool2d_grad", op_computed_floats, draw, build, reference, NULL, 0, NULL};

/* avg_pool2d: means of random windows, with padding counted or not. */
#include <math.h>

#include "pool_kit.h"

static void draw(op_case *c, op_random *r) { pool_draw(c, r); }

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_pool2d_opt opt = pool_opt(c, in[0]);
  out[0] = clade_avg_pool2d_(g, &opt);
}

typedef struct mean {
  const op_array *in;
  op_array *out;
  int64_t size; /* divisor; 0: number of covered pixels */
} mean;

static void take(void *user, int64_t x, int64_t y, int64_t covered) {
  mean *m = user;
  double share = m->in->v[x] / (double)(m->size ? m->size : covered);
  m->out->v[y] += share;
  m->out->bound[y] += (double)(covered + 3) * 0x1p-24 * fabs(share);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = pool_of(c);
  op_result(out, c->dtype, v.y);
  pool_each(&v, take, &(mean){in, out, pool_counts_pad(c) ? v.window.kernel[0] * v.window.kernel[1] : 0});
}

const op_test op_test_avg_pool2d = {"avg_pool2d", op_computed_floats, draw, build, reference, NULL, 0, NULL};

/* max_pool2d: maxima of random windows, with ties and NaN. */
#include <math.h>

#include "pool_kit.h"

typedef struct seen {
  int64_t last, windows;
} seen;

static void see(void *user, int64_t x, int64_t y, int64_t covered) {
  seen *s = user;
  (void)x, (void)covered;
  s->windows += y != s->last;
  s->last = y;
}

static bool some_cover_nothing(const conv *v) {
  seen s = {.last = -1};
  pool_each(v, see, &s);
  return s.windows < op_elements(&v->y);
}

static void draw(op_case *c, op_random *r) {
  conv v = pool_draw(c, r);
  while (c->gradient && some_cover_nothing(&v)) v = pool_draw(c, r); /* -infinity has no finite differences */
  if (!c->gradient && op_chance(r, 0.3)) c->in[0].ties = 2;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_pool2d_opt opt = pool_opt(c, in[0]);
  opt.count_pad = false; /* parameter of averages */
  out[0] = clade_max_pool2d_(g, &opt);
}

typedef struct top {
  const op_array *in;
  op_array *out;
} top;

static void take(void *user, int64_t x, int64_t y, int64_t covered) {
  top *t = user;
  double v = t->in->v[x];
  (void)covered;
  if (v > t->out->v[y] || isnan(v)) t->out->v[y] = v;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = pool_of(c);
  op_result(out, c->dtype, v.y);
  for (int64_t i = 0; i < out->n; i++) out->v[i] = -HUGE_VAL;
  pool_each(&v, take, &(top){in, out});
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  for (int k = 0; !c->gradient && in->n && k < 3; k++) in->v[op_integer(r, 0, in->n - 1)] = k ? (double)NAN : -HUGE_VAL;
}

const op_test op_test_max_pool2d = {"max_pool2d", op_computed_floats, draw, build, reference, fill, 0, NULL};

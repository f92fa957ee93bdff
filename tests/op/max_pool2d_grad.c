/* Gradient of max_pool2d: it goes to the first of equal maxima; NaN counts as the largest. */
#include <math.h>
#include <stdlib.h>

#include "pool_kit.h"

static void draw(op_case *c, op_random *r) {
  conv v = pool_draw(c, r);
  c->in[0].ties = op_chance(r, 0.7) ? 2 : 0;
  c->n_in = 2;
  c->in[1] = (op_input){.dtype = c->dtype, .shape = v.y, .low = -2, .high = 2};
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__pool_attrs at = pool_attrs(c);
  const clade_val operands[] = {in[0], in[1]};
  out[0] = clade__pool_node(g, &clade__op_max_pool2d_grad, &at, 2, operands, NULL);
}

typedef struct first {
  const op_array *in;
  int64_t *at; /* by window: the first maximum; -1: none */
} first;

static void take(void *user, int64_t x, int64_t y, int64_t covered) {
  first *f = user;
  int64_t *at = &f->at[y];
  (void)covered;
  if (*at < 0 || f->in->v[x] > f->in->v[*at] || (isnan(f->in->v[x]) && !isnan(f->in->v[*at]))) *at = x;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  conv v = pool_of(c);
  int64_t *at = calloc((size_t)in[1].n + 1, sizeof *at);
  if (!at) abort();
  for (int64_t y = 0; y < in[1].n; y++) at[y] = -1;
  op_result(out, c->dtype, v.x);
  pool_each(&v, take, &(first){in, at});
  for (int64_t y = 0; y < in[1].n; y++)
    if (at[y] >= 0) {
      out->v[at[y]] += in[1].v[y];
      out->bound[at[y]] += 49 * 0x1p-24 * fabs(in[1].v[y]);
    }
  free(at);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  (void)c;
  for (int k = 0; in->n && k < 3; k++) in->v[op_integer(r, 0, in->n - 1)] = k ? (double)NAN : -HUGE_VAL;
}

const op_test op_test_max_pool2d_grad = {"max_pool2d_grad", op_computed_floats, draw, build, reference, fill, 0, NULL};

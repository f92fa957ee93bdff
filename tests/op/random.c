/* Random ops: uniform numbers bit by bit, normal ones within a bound. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>

#include "op_test.h"

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_DTYPE_NONE};
enum { NORMAL, RANK, DIMS };

static uint64_t key_of(const op_case *c) { return 0x9E3779B97F4A7C15u * (uint64_t)(c->number + 1); }

static void draw(op_case *c, op_random *r) {
  clade_shape shape = op_draw_shape(r, c, 0, 4, 40000);
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = CLADE_I64, .shape = CLADE_SCALAR, .low = 0, .high = 1e6};
  c->differentiable = 0;
  c->i[NORMAL] = c->number % 2;
  c->i[RANK] = shape.rank;
  for (int i = 0; i < shape.rank; i++) c->i[DIMS + i] = (int)shape.dim[i];
  snprintf(c->note, sizeof c->note, "normal %d", c->i[NORMAL]);
}

/* Counters beyond 32 bits, and negative ones, which count as large. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  if (c->number % 3 == 0) in->v[0] = (double)op_integer(r, -((int64_t)1 << 50), (int64_t)1 << 50);
}

static clade_shape result_shape(const op_case *c) {
  clade_shape shape = {.rank = c->i[RANK]};
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = c->i[DIMS + i];
  return shape;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = c->i[NORMAL] ? clade_random_normal(g, result_shape(c), key_of(c), in[0])
                        : clade_random_uniform(g, result_shape(c), key_of(c), in[0]);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  uint64_t counter = (uint64_t)(int64_t)in->v[0];
  op_result(out, CLADE_F32, result_shape(c));
  for (int64_t i = 0; i < out->n; i++) {
    uint32_t x[4];
    out->v[i] = clade__uniform(key_of(c), counter, (uint64_t)i);
    if (!c->i[NORMAL]) continue;
    clade__philox(key_of(c), counter, (uint64_t)i / 4, x);
    int pair = (int)(i % 4) / 2 * 2;
    double radius = sqrt(-2 * log(((x[pair] >> 8) + 1) * 0x1p-24));
    double turn = 2 * acos(-1) * (x[pair + 1] >> 8) * 0x1p-24;
    out->v[i] = radius * (i % 2 ? sin(turn) : cos(turn));
    out->bound[i] = 0x1p-19 * fmax(1, fabs(out->v[i]));
  }
}

const op_test op_test_random = {"random", dtypes, draw, build, reference, fill, 0, NULL};

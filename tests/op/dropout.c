/* Dropout, number by number: which elements are dropped, what becomes of the others. */
#include <clade/nn.h>

#include <math.h>
#include <stdio.h>

#include "op_test.h"

enum { P };

static uint64_t key_of(const op_case *c) { return 0x9E3779B97F4A7C15u * (uint64_t)(c->number + 1); }

static void draw(op_case *c, op_random *r) {
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = op_draw_shape(r, c, 0, 4, c->gradient ? 80 : 40000)};
  c->in[1] = (op_input){.dtype = CLADE_I64, .shape = CLADE_SCALAR, .low = 0, .high = 1e6};
  c->f[P] = op_chance(r, 0.1) ? 0 : op_chance(r, 0.1) ? 0.999 : op_uniform(r, 0.05, 0.95);
  snprintf(c->note, sizeof c->note, "p %g", c->f[P]);
}

/* Beyond 32 bits, and negative, which are large ones. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  if (c->number % 3 == 0) in[1].v[0] = (double)op_integer(r, -((int64_t)1 << 50), (int64_t)1 << 50);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade_dropout(g, in[0], c->f[P], key_of(c), in[1]);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  uint64_t counter = (uint64_t)(int64_t)in[1].v[0];
  double p = (double)(float)c->f[P];
  op_result(out, c->dtype, in->shape);
  for (int64_t i = 0; i < out->n; i++) {
    uint32_t word[4];
    clade__philox(key_of(c), counter, (uint64_t)(i / 64 * 16 + i % 16), word);
    out->v[i] = word[i / 16 % 4] < p * 0x1p32 ? 0 : in->v[i] / (1 - p);
    out->bound[i] = 0x1p-22 * fabs(out->v[i]);
  }
}

const op_test op_test_dropout = {"dropout", op_computed_floats, draw, build, reference, fill, 0, NULL};

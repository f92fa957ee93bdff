/* Dropout, element by element: which elements are dropped, and the scale of the others. */
#include <clade/nn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "op/op.h"
#include "op_test.h"

enum { P };
enum { RUN, WHOLE, FIRST }; /* of a part, as docs/parallel.md has it; RUN 0: x is whole */

static uint64_t key_of(const op_case *c) { return 0x9E3779B97F4A7C15u * (uint64_t)(c->number + 1); }

static void draw(op_case *c, op_random *r) {
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = op_draw_shape(r, c, 0, 4, c->gradient ? 80 : 40000)};
  c->in[1] = (op_input){.dtype = CLADE_I64, .shape = CLADE_SCALAR, .low = 0, .high = 1e6};
  c->f[P] = op_chance(r, 0.1) ? 0 : op_chance(r, 0.1) ? 0.999 : op_uniform(r, 0.05, 0.95);
  if (strcmp(c->impl, "group") != 0 && op_chance(r, 0.3)) {
    c->i[RUN] = (int)op_integer(r, 1, 100);
    c->i[FIRST] = (int)op_integer(r, 0, 50);
    c->i[WHOLE] = c->i[FIRST] + c->i[RUN] + (int)op_integer(r, 0, 50);
  }
  snprintf(c->note, sizeof c->note, "p %g, runs of %d from %d of %d", c->f[P], c->i[RUN], c->i[FIRST], c->i[WHOLE]);
}

/* Counters beyond 32 bits, and negative ones, which count as large. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  if (c->number % 3 == 0) in[1].v[0] = (double)op_integer(r, -((int64_t)1 << 50), (int64_t)1 << 50);
}

static void set(char *attrs, const char *name, const void *value, size_t bytes) {
  const clade_attr *a = clade__op_dropout.attrs;
  while (strcmp(a->name, name)) a++;
  memcpy(attrs + a->offset, value, bytes);
}

static clade_val part(const op_case *c, clade_graph *g, const clade_val *in) {
  const int64_t key = (int64_t)key_of(c), run = c->i[RUN], whole = c->i[WHOLE], first = c->i[FIRST];
  const float p = (float)c->f[P];
  char *attrs = calloc(1, clade__op_dropout.attr_bytes);
  set(attrs, "key", &key, sizeof key);
  set(attrs, "p", &p, sizeof p);
  set(attrs, "run", &run, sizeof run);
  set(attrs, "whole", &whole, sizeof whole);
  set(attrs, "first", &first, sizeof first);
  const clade_val y = clade_node_add(g, &clade__op_dropout, NULL, attrs, 2, in, NULL);
  free(attrs);
  return y;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = c->i[RUN] ? part(c, g, in) : clade_dropout(g, in[0], c->f[P], key_of(c), in[1]);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  uint64_t counter = (uint64_t)(int64_t)in[1].v[0];
  double p = (double)(float)c->f[P];
  op_result(out, c->dtype, in->shape);
  for (int64_t i = 0; i < out->n; i++) {
    const int64_t run = c->i[RUN], at = run ? i / run * c->i[WHOLE] + c->i[FIRST] + i % run : i;
    uint32_t word[4];
    clade__philox(key_of(c), counter, (uint64_t)(at / 64 * 16 + at % 16), word);
    out->v[i] = word[at / 16 % 4] < p * 0x1p32 ? 0 : in->v[i] / (1 - p);
    out->bound[i] = 0x1p-22 * fabs(out->v[i]);
  }
}

const op_test op_test_dropout = {"dropout", op_computed_floats, draw, build, reference, fill, 0, NULL};

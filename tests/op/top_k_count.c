/* Counts labels among the k largest logits: with ties, NaN and labels outside of all classes. */
#include <clade/nn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "op_test.h"

enum { CLASSES, K };

static void draw(op_case *c, op_random *r) {
  clade_shape x = op_draw_shape(r, c, 1, 3, 8000), labels;
  int64_t *classes = &x.dim[x.rank - 1];
  if (*classes == 0) *classes = 1;
  labels = x;
  labels.rank--;
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x};
  if (op_chance(r, 0.5)) c->in[0].low = -2, c->in[0].high = 3, c->in[0].ties = 1;
  c->in[1] = (op_input){.dtype = CLADE_I32, .shape = labels};
  c->i[CLASSES] = (int)*classes;
  c->i[K] = (int)(op_chance(r, 0.5) ? 1 : op_integer(r, 1, *classes + 2));
  snprintf(c->note, sizeof c->note, "k %d", c->i[K]);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  for (int64_t i = 0; i < in[1].n; i++) {
    in[1].v[i] = (double)op_integer(r, 0, c->i[CLASSES] - 1);
    if (op_chance(r, 0.03)) in[1].v[i] = op_chance(r, 0.5) ? c->i[CLASSES] : op_chance(r, 0.5) ? -1 : INT32_MAX;
  }
  for (int64_t i = 0; i < in->n; i++)
    if (op_chance(r, 0.02)) in->v[i] = op_chance(r, 0.5) ? NAN : INFINITY;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade_top_k_count(g, in[0], in[1], c->i[K]);
}

/* By selecting the k largest one by one. */
static bool is_right(const double *x, int n, int k, double label) {
  bool *taken = calloc((size_t)n, sizeof *taken);
  bool right = false;
  for (int round = 0; taken && round < k && round < n; round++) {
    int best = -1;
    for (int i = 0; i < n; i++)
      if (!taken[i] && (best < 0 || (isnan(x[i]) ? !isnan(x[best]) : x[i] > x[best]))) best = i;
    taken[best] = true;
    right |= best == label && !isnan(x[best]);
  }
  free(taken);
  return right;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  op_result(out, CLADE_I32, CLADE_SCALAR);
  for (int64_t i = 0; i < in[1].n; i++)
    out->v[0] += is_right(in->v + i * c->i[CLASSES], c->i[CLASSES], c->i[K], in[1].v[i]);
}

const op_test op_test_top_k_count = {"top_k_count", op_computed_floats, draw, build, reference, fill, 0, NULL};

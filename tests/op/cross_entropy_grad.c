/* Gradient of softmax cross-entropy as its own op, from arbitrary saved values. */
#include <math.h>
#include <stdio.h>

#include "op/loss/cross_entropy.h"
#include "op_test.h"

enum { CLASSES, IGNORE, IGNORED, PER_SAMPLE, WRONG };
enum { SMOOTHING };
enum { LOGITS, LABELS, STATS, COUNT, DY };

static void draw(op_case *c, op_random *r) {
  clade_shape x = op_draw_shape(r, c, 1, 3, 6000), labels, stats;
  int64_t *classes = &x.dim[x.rank - 1];
  if (!c->small && op_chance(r, 0.1)) *classes = op_integer(r, 200, 1200);
  if (*classes == 0) *classes = 1;
  labels = stats = x;
  labels.rank--;
  stats.dim[stats.rank - 1] = 2;
  c->i[CLASSES] = (int)*classes;
  c->i[IGNORE] = op_chance(r, 0.4);
  c->i[IGNORED] = (int)(op_chance(r, 0.5) ? -100 : op_integer(r, 0, *classes - 1));
  c->i[PER_SAMPLE] = op_chance(r, 0.3);
  c->i[WRONG] = op_chance(r, 0.15);
  c->f[SMOOTHING] = op_chance(r, 0.5) ? 0 : op_uniform(r, 0, 0.5);
  double range = op_chance(r, 0.25) ? 40 : 5;
  c->n_in = 5;
  c->in[LOGITS] = (op_input){.dtype = c->dtype, .shape = x, .low = -range, .high = range};
  c->in[LABELS] = (op_input){.dtype = CLADE_I32, .shape = labels};
  c->in[STATS] = (op_input){.dtype = CLADE_F32, .shape = stats};
  c->in[COUNT] = (op_input){.dtype = CLADE_F32, .shape = CLADE_SCALAR};
  c->in[DY] = (op_input){.dtype = CLADE_F32, .shape = c->i[PER_SAMPLE] ? labels : CLADE_SCALAR, .low = -2, .high = 2};
  snprintf(c->note, sizeof c->note, "smoothing %g ignore %d (%d) per sample %d wrong %d", c->f[SMOOTHING], c->i[IGNORE],
           c->i[IGNORED], c->i[PER_SAMPLE], c->i[WRONG]);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  int n = c->i[CLASSES];
  double count = 0;
  for (int64_t i = 0; i < in[LABELS].n; i++) {
    double *x = in[LOGITS].v + i * n, *label = &in[LABELS].v[i], top = -INFINITY, others = -1;
    *label = (double)op_integer(r, 0, n - 1);
    if (op_chance(r, 0.2)) x[0] = op_round(c->dtype, 18), *label = 0;
    if (c->i[IGNORE] && op_chance(r, 0.3)) *label = c->i[IGNORED];
    for (int k = 0; k < n; k++) top = fmax(top, x[k]);
    for (int k = 0; k < n; k++) others += exp(x[k] - top);
    in[STATS].v[2 * i] = top;
    in[STATS].v[2 * i + 1] = op_round(CLADE_F32, fmax(others, 0));
    count += !(c->i[IGNORE] && *label == c->i[IGNORED]);
  }
  if (c->i[WRONG] && in[LABELS].n) in[LABELS].v[op_integer(r, 0, in[LABELS].n - 1)] = op_chance(r, 0.5) ? n : INT32_MIN;
  in[COUNT].v[0] = count;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__cross_entropy_attrs a;
  memset(&a, 0, sizeof a);
  a.smoothing = (float)c->f[SMOOTHING];
  a.ignore = c->i[IGNORE];
  a.ignore_index = c->i[IGNORED];
  a.per_sample = c->i[PER_SAMPLE];
  out[0] = clade_node_add(g, &clade__op_cross_entropy_grad, NULL, &a, 5, in, NULL);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int n = c->i[CLASSES];
  double smoothing = (double)(float)c->f[SMOOTHING];
  op_result(out, c->dtype, in[LOGITS].shape);
  for (int64_t i = 0; i < in[LABELS].n; i++) {
    const double *x = in[LOGITS].v + i * n;
    double label = in[LABELS].v[i], top = in[STATS].v[2 * i], rest = in[STATS].v[2 * i + 1], sum = 1 + rest;
    double d = c->i[PER_SAMPLE] ? in[DY].v[i] : in[DY].v[0] / fmax(in[COUNT].v[0], 1);
    bool skip = c->i[IGNORE] && label == c->i[IGNORED];
    for (int k = 0; !skip && k < n; k++) {
      double p = exp(x[k] - top) / sum, target = smoothing / n + (k == label ? 1 - smoothing : 0), off = p - target;
      double error = (20 + top - x[k]) * 0x1p-23 * p + 0x1p-22 * target;
      if (k == label && x[k] == top) { /* 1 - p is small */
        off = smoothing - smoothing / n - rest / sum;
        error = 0x1p-21 * (rest / sum + smoothing);
      }
      out->v[i * n + k] = label < 0 || label >= n ? NAN : off * d;
      out->bound[i * n + k] = error * fabs(d) + 1e-37;
    }
  }
}

const op_test op_test_cross_entropy_grad = {
    "cross_entropy_grad", op_computed_floats, draw, build, reference, fill, 0, NULL};

/* Cross-entropy per row and its mean: smoothing, ignored labels, labels outside of all classes, and widely spread
 * logits. */
#include <clade/nn.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op_test.h"

enum { CLASSES, IGNORE, IGNORED, PER_SAMPLE, WRONG }; /* WRONG: one label is outside of all classes */
enum { SMOOTHING };

static void draw(op_case *c, op_random *r) {
  clade_shape x = op_draw_shape(r, c, 1, 3, c->gradient ? 40 : 6000), labels;
  int64_t *classes = &x.dim[x.rank - 1];
  if (!c->small && !c->gradient && op_chance(r, 0.1)) *classes = op_integer(r, 200, 1200);
  if (strcmp(c->impl, "group") == 0 && !c->small && !c->gradient && op_chance(r, 0.1)) { /* losses in several parts */
    x = CLADE_SHAPE(op_integer(r, 8190, 13000), op_integer(r, 1, 3));
    classes = &x.dim[1];
  }
  if (*classes == 0) *classes = 1;
  labels = x;
  labels.rank--;
  double range = c->gradient ? 2 : op_chance(r, 0.25) ? 40 : 5;
  c->n_in = 2;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x, .low = -range, .high = range};
  c->in[1] = (op_input){.dtype = CLADE_I32, .shape = labels};
  c->i[CLASSES] = (int)*classes;
  c->i[IGNORE] = op_chance(r, 0.4);
  c->i[IGNORED] = (int)(op_chance(r, 0.5) ? -100 : op_integer(r, 0, *classes - 1));
  c->i[PER_SAMPLE] = op_chance(r, 0.3);
  c->i[WRONG] = !c->gradient && op_chance(r, 0.15);
  c->f[SMOOTHING] = op_chance(r, 0.5) ? 0 : op_chance(r, 0.1) ? 1 : op_uniform(r, 0, 0.5);
  snprintf(c->note, sizeof c->note, "smoothing %g ignore %d (%d) per sample %d wrong %d", c->f[SMOOTHING], c->i[IGNORE],
           c->i[IGNORED], c->i[PER_SAMPLE], c->i[WRONG]);
}

static void fill(const op_case *c, op_random *r, op_array *in) {
  op_array *labels = &in[1];
  for (int64_t i = 0; i < labels->n; i++) {
    labels->v[i] = (double)op_integer(r, 0, c->i[CLASSES] - 1);
    if (c->i[IGNORE] && op_chance(r, 0.3)) labels->v[i] = c->i[IGNORED];
    if (c->i[CLASSES] > 1 && op_chance(r, 0.2)) { /* nearly certain prediction: the loss is tiny */
      in->v[i * c->i[CLASSES]] = op_round(c->dtype, 18);
      labels->v[i] = 0;
    }
  }
  if (c->i[WRONG] && labels->n)
    labels->v[op_integer(r, 0, labels->n - 1)] = (double)(op_chance(r, 0.5) ? c->i[CLASSES] : INT32_MIN);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  out[0] = clade_cross_entropy(g, in[0], in[1], .smoothing = (float)c->f[SMOOTHING], .ignore = c->i[IGNORE],
                               .ignore_index = c->i[IGNORE] ? c->i[IGNORED] : 0, .per_sample = c->i[PER_SAMPLE]);
}

static double loss_of(const op_case *c, const double *x, double label, double *bound) {
  int n = c->i[CLASSES];
  double smoothing = (double)(float)c->f[SMOOTHING], top = -INFINITY, least = INFINITY, others = 0, distance = 0;
  int largest = 0;
  *bound = 0;
  if (c->i[IGNORE] && label == c->i[IGNORED]) return 0;
  if (label < 0 || label >= n) return NAN;
  for (int i = 0; i < n; i++) top = fmax(top, x[i]), least = fmin(least, x[i]);
  while (x[largest] < top) largest++;
  for (int i = 0; i < n; i++) others += i == largest ? 0 : exp(x[i] - top), distance += (top - x[i]) / n;
  double norm = log1p(others), away = (1 - smoothing) * (top - x[(int)label]) + smoothing * distance;
  *bound = (20 + top - least) * 0x1p-23 * norm + 0x1p-21 * away + 1e-37;
  return norm + away;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  double sum = 0, bound = 0, count = 0;
  op_result(out, CLADE_F32, c->i[PER_SAMPLE] ? in[1].shape : CLADE_SCALAR);
  for (int64_t i = 0; i < in[1].n; i++) {
    double b, loss = loss_of(c, in->v + i * c->i[CLASSES], in[1].v[i], &b);
    if (c->i[PER_SAMPLE]) out->v[i] = loss, out->bound[i] = b;
    sum += loss;
    bound += b;
    count += !(c->i[IGNORE] && in[1].v[i] == c->i[IGNORED]);
  }
  if (c->i[PER_SAMPLE]) return;
  out->v[0] = sum / fmax(count, 1);
  out->bound[0] = bound / fmax(count, 1) + 0x1p-22 * fabs(out->v[0]);
}

const op_test op_test_cross_entropy = {"cross_entropy", op_computed_floats, draw, build, reference, fill, 0, NULL};

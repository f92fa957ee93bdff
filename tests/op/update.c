/* Optimizer steps of all rules on one to seven tensors of different sizes, with and without clipping, scaling and
 * decay. */
#include "op/update/update.h"

#include <math.h>
#include <stdio.h>

#include "op_test.h"

enum { RULE, TENSORS, DECAYS };                  /* indices in op_case.i */
enum { CLIP, L2, DECAY, P, Q, R, BETA1, BETA2 }; /* indices in op_case.f */
enum { LR, STEP, BEFORE, AFTER, SCALARS };       /* inputs */
static const char *const names[] = {"sgd", "momentum", "adam", "rmsprop", "rmsprop + momentum", "average", "sum"};

static void draw(op_case *c, op_random *r) {
  static const int with_halves[] = {CLADE__UPDATE_ADAM, CLADE__UPDATE_SUM}; /* each type is a variant */
  int rule = c->dtype == CLADE_F32 ? c->number % 7 : with_halves[c->number % 2], states = clade__update_states(rule);
  clade_dtype target = rule == CLADE__UPDATE_SUM ? CLADE_F32 : c->dtype;
  const bool skips = c->dtype == CLADE_F32 && (rule == CLADE__UPDATE_ADAM || rule == CLADE__UPDATE_AVERAGE) &&
                     op_chance(r, 0.5); /* each is also a variant */
  c->differentiable = 0;
  c->i[RULE] = rule | (skips ? CLADE__UPDATE_SKIPS : 0);
  c->i[TENSORS] = c->number % 3 ? (int)op_integer(r, 1, 7) : 7;
  c->i[DECAYS] = (int)op_integer(r, 0, 127);
  for (int i = 0; i < SCALARS; i++)
    c->in[i] = (op_input){.dtype = CLADE_F32, .shape = CLADE_SCALAR, .low = 0.01, .high = 1};
  c->in[STEP] = (op_input){.dtype = CLADE_I64,
                           .shape = CLADE_SCALAR,
                           .low = !skips,
                           .high = skips               ? 1
                                   : op_chance(r, 0.5) ? 3
                                                       : 1e6};
  c->n_in = SCALARS;
  for (int k = 0; k < c->i[TENSORS]; k++) {
    clade_shape shape = op_draw_shape(r, c, 0, 3, op_chance(r, 0.2) ? 40000 : 300);
    c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = shape, .low = -2, .high = 2};
    for (int i = 0; i < states; i++)
      c->in[c->n_in++] = (op_input){.dtype = i ? CLADE_F32 : target, .shape = shape, .low = i ? 0 : -2, .high = 2};
  }
  c->n_out = states * c->i[TENSORS];
  c->f[CLIP] = op_chance(r, 0.5) ? (double)(float)op_uniform(r, 0.1, 1) : HUGE_VAL;
  c->f[L2] = op_chance(r, 0.5) ? op_uniform(r, 0, 0.1) : 0;
  c->f[DECAY] = op_chance(r, 0.5) ? op_uniform(r, 0, 0.1) : 0;
  c->f[P] = op_uniform(r, 0.001, 0.5);
  c->f[Q] = op_uniform(r, 0.001, 0.5);
  c->f[R] = rule == CLADE__UPDATE_MOMENTUM ? (double)op_chance(r, 0.5) : op_uniform(r, 1e-8, 1e-3);
  c->f[BETA1] = op_uniform(r, 0.1, 0.999), c->f[BETA2] = op_uniform(r, 0.1, 0.9999);
  snprintf(c->note, sizeof c->note, "%s, %d tensors%s", names[rule], c->i[TENSORS], skips ? ", may skip" : "");
}

static clade__update_attrs attrs_of(const op_case *c) {
  return (clade__update_attrs){.rule = c->i[RULE],
                               .clip = (float)c->f[CLIP],
                               .l2 = (float)c->f[L2],
                               .decay = (float)c->f[DECAY],
                               .p = (float)c->f[P],
                               .q = (float)c->f[Q],
                               .r = (float)c->f[R],
                               .log1 = (float)log(c->f[BETA1]),
                               .log2 = (float)log(c->f[BETA2])};
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_val gradients[7], states[21];
  bool decays[7];
  int n = clade__update_states(c->i[RULE]), at = SCALARS;
  for (int k = 0; k < c->i[TENSORS]; k++) {
    gradients[k] = in[at++];
    for (int i = 0; i < n; i++) states[k * n + i] = in[at++];
    decays[k] = c->i[DECAYS] >> k & 1;
  }
  clade__update_add(g, &(clade__update_call){.attrs = attrs_of(c),
                                             .n = c->i[TENSORS],
                                             .scalar = {in[LR], in[STEP], in[BEFORE], in[AFTER]},
                                             .gradients = gradients,
                                             .states = states,
                                             .decays = decays,
                                             .out = out});
}

/* ---- one element with an error bound: a few f32 roundings of each term ---- */
typedef struct number {
  double v, off;
} number;
static const double few = 16 * 0x1p-24;
static number sum_of(number a, number b) { return (number){a.v + b.v, a.off + b.off + few * (fabs(a.v) + fabs(b.v))}; }
static number times(number a, number b) {
  return (number){a.v * b.v, fabs(a.v) * b.off + fabs(b.v) * a.off + few * fabs(a.v * b.v)};
}
static number exactly(double v) { return (number){v, 0}; }
static number over(number a, number b) {
  return (number){a.v / b.v, (a.off + fabs(a.v / b.v) * b.off) / (b.v - b.off) + few * fabs(a.v / b.v)};
}
static number root(number a) {
  double v = sqrt(a.v);
  return (number){v, a.off != 0 ? a.off / (v + sqrt(fmax(a.v - a.off, 0))) + few * v : 0};
}

typedef struct scene { /* values common to all elements */
  clade__update_attrs a;
  double lr, t, before, after;
  bool decays, skipped;
} scene;

static number mix(number old, number new, double share) {
  return sum_of(old, times(sum_of(new, exactly(-old.v)), exactly(share)));
}

static void step(const scene *s, number g, number *x) {
  const clade__update_attrs *a = &s->a;
  if (s->skipped) return;
  double first = s->t == 1;
  g = times(g, exactly(s->before));
  g.v = g.v < -(double)a->clip ? -(double)a->clip : g.v > (double)a->clip ? (double)a->clip : g.v;
  g = times(g, exactly(s->after));
  if (a->rule == CLADE__UPDATE_AVERAGE) {
    x[0] = first != 0 ? g : mix(x[0], g, (double)a->p);
    return;
  }
  if (a->rule == CLADE__UPDATE_SUM) {
    x[0] = first != 0 ? g : sum_of(x[0], g);
    return;
  }
  number p = x[0], d = g;
  if (s->decays) {
    d = g = sum_of(g, times(p, exactly((double)a->l2)));
    p = sum_of(p, times(p, exactly(-s->lr * (double)a->decay)));
  }
  if (a->rule == CLADE__UPDATE_MOMENTUM) {
    x[1] = sum_of(times(x[1], exactly((double)a->p)), g);
    d = a->r != 0.0f ? sum_of(g, times(x[1], exactly((double)a->p))) : x[1];
  } else if (a->rule == CLADE__UPDATE_ADAM) {
    x[1] = mix(x[1], g, (double)a->p);
    x[2] = mix(x[2], times(g, g), (double)a->q);
    number scaled = times(x[2], exactly(-1 / expm1(s->t * (double)a->log2)));
    d = over(times(x[1], exactly(-1 / expm1(s->t * (double)a->log1))), sum_of(root(scaled), exactly((double)a->r)));
  } else if (a->rule != CLADE__UPDATE_SGD) {
    x[1] = mix(x[1], times(g, g), (double)a->q);
    d = over(g, sum_of(root(x[1]), exactly((double)a->r)));
    if (a->rule == CLADE__UPDATE_RMSPROP_MOMENTUM) d = x[2] = sum_of(times(x[2], exactly((double)a->p)), d);
  }
  x[0] = sum_of(p, times(d, exactly(-s->lr)));
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  int states = clade__update_states(c->i[RULE]);
  scene s = {attrs_of(c), in[LR].v[0], in[STEP].v[0], in[BEFORE].v[0], in[AFTER].v[0], false, false};
  s.skipped = s.a.rule & CLADE__UPDATE_SKIPS && s.t == 0;
  s.a.rule &= ~CLADE__UPDATE_SKIPS;
  for (int k = 0; k < c->i[TENSORS]; k++) {
    const op_array *g = &in[SCALARS + k * (1 + states)];
    op_array *y = &out[k * states];
    s.decays = c->i[DECAYS] >> k & 1;
    for (int i = 0; i < states; i++) op_result(&y[i], g[1 + i].dtype, g->shape);
    for (int64_t at = 0; at < g->n; at++) {
      number x[3] = {{0}};
      for (int i = 0; i < states; i++) x[i].v = g[1 + i].v[at];
      step(&s, exactly(g->v[at]), x);
      for (int i = 0; i < states; i++) {
        y[i].v[at] = x[i].v;
        y[i].bound[at] = x[i].off;
      }
    }
  }
}

const op_test op_test_update = {"update", op_computed_floats, draw, build, reference, NULL, 0, NULL};

/* Optimizers in double by their definitions, for the training tests. */
#ifndef TRAIN_KIT_H
#define TRAIN_KIT_H

#include "plan_kit.h"

#include <math.h>
#include <stdio.h>

typedef enum ref_rule { REF_SGD, REF_ADAM, REF_ADAMW, REF_RMSPROP } ref_rule;
typedef struct ref_optimizer {
  ref_rule rule;
  double lr, decay, momentum, beta1, beta2, eps, alpha;
  bool nesterov, decay_all;
  double clip_value, clip_norm, ema;
} ref_optimizer;

typedef struct ref_tensor { /* a parameter with its state */
  char name[32];
  clade_shape shape;
  int64_t n;
  double *p, *g, *m, *v, *average; /* m: momentum or mean */
} ref_tensor;

static inline void ref_tensor_new(ref_tensor *t, const char *name, clade_shape shape) {
  snprintf(t->name, sizeof t->name, "%s", name);
  t->shape = shape;
  OK(clade_shape_elements(&shape, &t->n));
  double **all[] = {&t->p, &t->g, &t->m, &t->v, &t->average};
  for (size_t i = 0; i < CLADE_COUNT(all); i++) {
    *all[i] = calloc((size_t)t->n + 1, sizeof(double));
    assert_non_null(*all[i]);
  }
}

static inline void ref_tensor_free(ref_tensor *t) { free(t->p), free(t->g), free(t->m), free(t->v), free(t->average); }

static inline void ref_clip(const ref_optimizer *o, int n, ref_tensor *t) {
  double squares = 0;
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < t[k].n; i++) {
      double *g = &t[k].g[i];
      if (o->clip_value > 0) *g = fmin(fmax(*g, -o->clip_value), o->clip_value);
      squares += *g * *g;
    }
  double scale = o->clip_norm > 0 ? fmin(1, o->clip_norm / (sqrt(squares) + 1e-6)) : 1;
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < t[k].n; i++) t[k].g[i] *= scale;
}

/* One element; `step` counts from 1. */
static inline void ref_element(const ref_optimizer *o, double lr, double decay, double step, double g, double *p,
                               double *m, double *v) {
  if (o->rule == REF_ADAMW)
    *p -= lr * decay * *p;
  else
    g += decay * *p;
  switch (o->rule) {
  case REF_SGD:
    *m = o->momentum * *m + g;
    *p -= lr * (o->nesterov ? g + o->momentum * *m : *m);
    break;
  case REF_ADAM:
  case REF_ADAMW: {
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *v = o->beta2 * *v + (1 - o->beta2) * g * g;
    double mean = *m / (1 - pow(o->beta1, step)), square = *v / (1 - pow(o->beta2, step));
    *p -= lr * mean / (sqrt(square) + o->eps);
    break;
  }
  case REF_RMSPROP:
    *v = o->alpha * *v + (1 - o->alpha) * g * g;
    *m = o->momentum * *m + g / (sqrt(*v) + o->eps);
    *p -= lr * *m;
    break;
  }
}

/* `factor`: of the schedule; gradients are clipped in place. */
static inline void ref_update(const ref_optimizer *o, double factor, int64_t step, int n, ref_tensor *t) {
  ref_clip(o, n, t);
  for (int k = 0; k < n; k++) {
    double decay = t[k].shape.rank >= 2 || o->decay_all ? o->decay : 0;
    for (int64_t i = 0; i < t[k].n; i++) {
      ref_element(o, o->lr * factor, decay, (double)step, t[k].g[i], &t[k].p[i], &t[k].m[i], &t[k].v[i]);
      t[k].average[i] = step == 1 ? t[k].p[i] : o->ema * t[k].average[i] + (1 - o->ema) * t[k].p[i];
    }
  }
}

/* ---- variables of f32 against doubles ---- */
static inline void vars_put(clade_vars *vars, const char *name, int64_t n, const double *v) {
  float *f = malloc(sizeof(float) * (size_t)(n + 1));
  assert_non_null(f);
  for (int64_t i = 0; i < n; i++) f[i] = (float)v[i];
  OK(clade_vars_set(vars, name, f, sizeof(float) * (size_t)n));
  free(f);
}

static inline void vars_take(clade_vars *vars, const char *name, int64_t n, double *v) {
  float *f = malloc(sizeof(float) * (size_t)(n + 1));
  assert_non_null(f);
  OK(clade_vars_get(vars, name, f, sizeof(float) * (size_t)n));
  for (int64_t i = 0; i < n; i++) v[i] = (double)f[i];
  free(f);
}

static inline const char *state_name(char text[80], const char *kind, const char *parameter) {
  snprintf(text, 80, "optimizer.%.20s:%.32s", kind, parameter);
  return text;
}

/* Relative to the largest element. */
static inline void vars_near(clade_vars *vars, const char *what, const char *name, int64_t n, const double *want,
                             double bound) {
  double *have = malloc(sizeof(double) * (size_t)(n + 1)), largest = 0;
  assert_non_null(have);
  vars_take(vars, name, n, have);
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(want[i]));
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(have[i] - want[i]) <= bound * largest))
      fail_msg("%s: %s[%d] is %.9g instead of %.9g", what, name, (int)i, have[i], want[i]);
  free(have);
}

#endif

/* 8-bit weights: symmetric, a scale for each output, with the following batch normalization folded in. */
#include <math.h>

#include "quant/quant.h"

enum { LEVELS = 127 };

void clade__small_weights_free(clade__small_weights *w) {
  clade__free(w->weight);
  clade__free(w->scale);
  clade__free(w->bias);
}

static const char *name_of(const clade_graph *g, clade__id variable) { return g->nodes[g->values[variable].node].name; }

/* Values of a variable, to be freed; NULL: no variable. */
static clade_status read_floats(const clade_graph *g, const clade_vars *vars, clade__id variable, float **out) {
  size_t bytes;
  *out = NULL;
  if (!variable) return CLADE_OK;
  CLADE_TRY(clade_type_bytes(clade__type(g, variable), &bytes));
  *out = clade__new(CLADE_MAX(bytes, sizeof **out), 1);
  if (!*out) return CLADE_NO_MEMORY;
  return clade_vars_get(vars, name_of(g, variable), *out, bytes);
}

typedef struct floats {
  float *weight, *bias, *norm[CLADE__NORM_PARTS];
} floats;

static void free_floats(floats *f) {
  clade__free(f->weight);
  clade__free(f->bias);
  for (int i = 0; i < CLADE__NORM_PARTS; i++) clade__free(f->norm[i]);
}

static clade_status read_layer(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *l, floats *f) {
  CLADE_TRY(read_floats(g, vars, l->weight, &f->weight));
  CLADE_TRY(read_floats(g, vars, l->bias, &f->bias));
  for (int i = 0; i < CLADE__NORM_PARTS; i++) CLADE_TRY(read_floats(g, vars, l->norm[i], &f->norm[i]));
  return CLADE_OK;
}

/* normalization(y) = y * slope + bias for the layer's result y. */
static void fold(const floats *f, double eps, size_t output, double *slope, double *bias) {
  *slope = 1;
  *bias = f->bias ? (double)f->bias[output] : 0;
  if (!f->norm[CLADE__NORM_WEIGHT]) return;
  *slope = (double)f->norm[CLADE__NORM_WEIGHT][output] / sqrt((double)f->norm[CLADE__NORM_VAR][output] + eps);
  *bias = (*bias - (double)f->norm[CLADE__NORM_MEAN][output]) * *slope + (double)f->norm[CLADE__NORM_BIAS][output];
}

static bool quantize(const float *from, double slope, double input_scale, size_t n, int8_t *to, float *scale) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite((double)from[i] * slope)) return false;
    most = fmax(most, fabs((double)from[i] * slope));
  }
  const double step = most > 0 ? most / LEVELS : 1;
  for (size_t i = 0; i < n; i++) to[i] = (int8_t)nearbyint(fmin(fmax((double)from[i] * slope / step, -LEVELS), LEVELS));
  *scale = (float)(step * input_scale);
  return isfinite(*scale);
}

clade_status clade__small_weights_room(const clade_graph *g, const clade__quant_layer *l, clade__small_weights *w) {
  const clade_shape *shape = &clade__type(g, l->weight)->shape;
  int64_t elements;
  *w = (clade__small_weights){.outputs = (size_t)shape->dim[0]};
  CLADE_TRY(clade_shape_elements(shape, &elements));
  w->inner = w->outputs ? (size_t)elements / w->outputs : 0;
  w->weight = clade__new((size_t)elements, sizeof *w->weight);
  w->scale = clade__new(w->outputs, sizeof *w->scale);
  w->bias = clade__new(w->outputs, sizeof *w->bias);
  return w->weight && w->scale && w->bias ? CLADE_OK : CLADE_NO_MEMORY;
}

clade_status clade__small_weights_new(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *l,
                                      double input_scale, clade__small_weights *w) {
  floats f = {.weight = NULL};
  double slope, bias;
  clade_status status;
  CLADE_GOTO(clade__small_weights_room(g, l, w));
  CLADE_GOTO(read_layer(g, vars, l, &f));
  for (size_t i = 0; i < w->outputs; i++) {
    fold(&f, l->eps, i, &slope, &bias);
    w->bias[i] = (float)bias;
    if (!quantize(f.weight + i * w->inner, slope, input_scale, w->inner, w->weight + i * w->inner, &w->scale[i]) ||
        !isfinite(w->bias[i]))
      CLADE_GOTO(CLADE_FAIL(INVALID, "quantization: output %zu of the layer \"%s\" has weights that are not finite", i,
                            l->name));
  }
fail:
  free_floats(&f);
  return status;
}

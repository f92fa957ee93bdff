/* Importance of channels: by the weights that are removed with a channel, or by the scales of batch normalization. */
#include <math.h>
#include <stdio.h>

#include "prune/prune.h"

clade_status clade__vars_floats(const clade_vars *vars, const char *name, const clade_type *type, float **out,
                                size_t *n) {
  int64_t elements;
  size_t bytes;
  clade_status status;
  void *stored = NULL;
  *out = NULL;
  CLADE_TRY(clade_shape_elements(&type->shape, &elements));
  CLADE_TRY(clade_type_bytes(type, &bytes));
  *n = (size_t)elements;
  stored = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  *out = clade__new(CLADE_MAX(*n, (size_t)1), sizeof **out);
  CLADE_GOTO(stored && *out ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_vars_get(vars, name, stored, bytes));
  CLADE_GOTO(clade_convert(CLADE_F32, *out, type->dtype, stored, *n));
  clade__free(stored);
  return CLADE_OK;
fail:
  clade__free(stored);
  clade__free(*out);
  *out = NULL;
  return status;
}

/* For each axis of a variable: the unit of each index, from 1 on; 0: none. */
typedef struct places {
  clade_shape shape;
  size_t *unit[CLADE_MAX_RANK]; /* a single allocation, at [0] */
} places;

static clade_status places_of(const clade_graph *g, const clade__units *u, int variable, places *p) {
  size_t n = 0;
  p->shape = clade__type(g, g->variables.at[variable].value)->shape;
  for (int axis = 0; axis < p->shape.rank; axis++) n += (size_t)p->shape.dim[axis];
  size_t *all = clade__new(n, sizeof *all);
  if (!all) return CLADE_NO_MEMORY;
  for (int axis = 0; axis < p->shape.rank; axis++) {
    p->unit[axis] = all;
    all += p->shape.dim[axis];
  }
  for (size_t i = 0; i < u->n; i++)
    for (size_t k = 0; k < u->at[i].n; k++) {
      const clade__member *m = &u->at[i].members[k];
      if (m->variable == variable) p->unit[m->axis][m->at] = i + 1;
    }
  return CLADE_OK;
}

static void add_scores(clade__units *u, const places *p, const float *w, size_t n, bool squares) {
  size_t stride = n;
  for (int axis = 0; axis < p->shape.rank; axis++) {
    const size_t length = (size_t)p->shape.dim[axis];
    stride /= CLADE_MAX(length, (size_t)1);
    for (size_t i = 0; i < n; i++) {
      const size_t unit = p->unit[axis][i / stride % length];
      const double x = (double)w[i];
      if (unit) u->at[unit - 1].score += squares ? x * x : fabs(x);
    }
  }
}

/* Batch normalization's scale is the one-dimensional variable named ".weight". */
static bool counts(const clade_graph *g, int variable, clade_prune_rank rank) {
  static const char weight[] = ".weight";
  const clade__port *port = &g->variables.at[variable];
  const size_t n = strlen(port->name), end = sizeof weight - 1;
  const int dims = clade__type(g, port->value)->shape.rank;
  if (!port->parameter || !clade__is_float(clade__type(g, port->value)->dtype)) return false;
  if (rank != CLADE_PRUNE_BY_BATCH_NORM) return dims > 1;
  return dims == 1 && n > end && !strcmp(port->name + n - end, weight);
}

static clade_status score_variable(const clade_graph *g, const clade_vars *vars, bool squares, int variable,
                                   clade__units *u) {
  const clade__port *port = &g->variables.at[variable];
  places p = {0};
  float *w;
  size_t n;
  CLADE_TRY(clade__vars_floats(vars, port->name, clade__type(g, port->value), &w, &n));
  clade_status status = places_of(g, u, variable, &p);
  for (size_t i = 0; i < n && status == CLADE_OK; i++)
    if (!isfinite(w[i]))
      status = CLADE_FAIL(INVALID, "pruning: element %zu of %s is %g: no channel can be compared by it", i, port->name,
                          (double)w[i]);
  if (status == CLADE_OK) add_scores(u, &p, w, n, squares);
  clade__free(p.unit[0]);
  clade__free(w);
  return status;
}

static clade_status check_scaled(const clade_graph *g, const clade__units *u) {
  for (size_t i = 0; i < u->n; i++) {
    bool scaled = false;
    for (size_t k = 0; k < u->at[i].n; k++)
      scaled = scaled || counts(g, u->at[i].members[k].variable, CLADE_PRUNE_BY_BATCH_NORM);
    if (!scaled)
      return CLADE_FAIL(INVALID, "pruning: no batch normalization scales the channels of %s: rank by l2 or l1",
                        u->layers[u->at[i].layer].name);
  }
  return CLADE_OK;
}

/* Divides by the mean of the layer, because the magnitudes of layers differ. */
static clade_status normalize(clade__units *u) {
  double *sum = clade__new(u->n_layers, sizeof *sum);
  if (!sum) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < u->n; i++) sum[u->at[i].layer] += u->at[i].score;
  for (size_t i = 0; i < u->n; i++) {
    const double mean = sum[u->at[i].layer] / (double)u->layers[u->at[i].layer].n;
    if (mean > 0) u->at[i].score /= mean;
  }
  clade__free(sum);
  return CLADE_OK;
}

clade_status clade__units_rank(const clade_graph *g, const clade_vars *vars, clade_prune_rank rank, clade__units *u) {
  const bool squares = rank == CLADE_PRUNE_BY_L2;
  if (rank == CLADE_PRUNE_BY_BATCH_NORM) CLADE_TRY(check_scaled(g, u));
  for (size_t i = 0; i < g->variables.count; i++)
    if (counts(g, (int)i, rank)) CLADE_TRY(score_variable(g, vars, squares, (int)i, u));
  for (size_t i = 0; squares && i < u->n; i++) u->at[i].score = sqrt(u->at[i].score);
  return normalize(u);
}

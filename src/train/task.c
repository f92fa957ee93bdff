/* Helpers of clade_minimize: lists and groups of parameters, and variables of optimizers. */
#include "train/task.h"

#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

enum { NAME_BYTES = 320 };

clade_status clade__task_alloc(clade__task *t, size_t n) {
  size_t moments = CLADE_MAX_MOMENTS * n;
  t->parameters = clade__new(6 * n + 2 * moments, sizeof *t->parameters);
  t->names = clade__new(n, sizeof *t->names);
  t->decays = clade__new(n, sizeof *t->decays);
  t->owners = clade__new(2 * n, sizeof *t->owners);
  if (!t->parameters || !t->names || !t->decays || !t->owners) return CLADE_NO_MEMORY;
  t->gradients = t->parameters + n;
  t->new_parameters = t->gradients + n;
  t->state = t->new_parameters + n;
  t->new_state = t->state + n;
  t->moments = t->new_state + n;
  t->new_moments = t->moments + moments;
  t->all = t->new_moments + moments;
  t->all_owners = t->owners + n;
  return CLADE_OK;
}

void clade__task_free(clade__task *t) {
  clade__free(t->parameters);
  clade__free(t->names);
  clade__free(t->decays);
  clade__free(t->owners);
}

size_t clade__task_bytes(const clade__task *t, clade_val v) {
  const clade_type type = clade__task_type(t, v);
  size_t bytes = 0;
  return clade_type_bytes(&type, &bytes) == CLADE_OK ? bytes : 0;
}

void clade__task_list(clade__task *t) {
  for (size_t i = 0; i < t->g->variables.count; i++) {
    const clade__port *port = &t->g->variables.at[i];
    clade_dtype dtype = clade__type(t->g, port->value)->dtype;
    if (!port->parameter || !clade__is_float(dtype)) continue;
    t->parameters[t->n] = clade__graph_val(t->g, port->value);
    t->names[t->n++] = port->name;
  }
}

static clade__port *port_of(const clade_graph *g, const char *name) { /* NULL: no such variable */
  size_t index;
  return clade__map_get(&g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index) ? &g->variables.at[index]
                                                                                              : NULL;
}

clade_val clade__find_variable(const clade_graph *g, const char *name) {
  const clade__port *port = port_of(g, name);
  return port ? clade__graph_val(g, port->value) : (clade_val){0};
}

clade_val clade__scalar_variable(clade_graph *g, const char *name, clade_dtype dtype, double value) {
  return clade_variable(g, name, dtype, CLADE_SCALAR, (clade_initial){CLADE_INIT_FILL, value, 0});
}

bool clade__task_is_part(const clade__task *t, int i) {
  const clade__port *port = port_of(t->g, t->names[i]);
  return port && port->part.is_part;
}

clade_val clade__task_state(clade__task *t, const char *kind, int i) {
  char name[NAME_BYTES];
  t->g->device = clade__task_device(t, t->parameters[i]);
  snprintf(name, sizeof name, "optimizer.%s:%s", kind, t->names[i]);
  const clade_val state =
      clade_variable(t->g, name, CLADE_F32, clade__task_type(t, t->parameters[i]).shape, (clade_initial){0});
  if (clade__task_is_part(t, i) && clade_val_ok(state)) port_of(t->g, name)->part = port_of(t->g, t->names[i])->part;
  return state;
}

clade_val clade__one_more(clade_graph *g, clade_val count) {
  return clade_add(g, count, clade_fill(g, CLADE_I64, CLADE_SCALAR, 1));
}

/* ---- groups of parameters of one device and type ---- */
static bool together(const clade__task *t, int i, int k) {
  return clade__task_device(t, t->parameters[i]) == clade__task_device(t, t->parameters[k]) &&
         clade__task_type(t, t->parameters[i]).dtype == clade__task_type(t, t->parameters[k]).dtype &&
         clade__task_type(t, t->gradients[i]).dtype == clade__task_type(t, t->gradients[k]).dtype &&
         clade__task_is_part(t, i) == clade__task_is_part(t, k);
}

static void swap_parameters(clade__task *t, int i, int k) {
  clade_val p = t->parameters[i], dx = t->gradients[i];
  const char *name = t->names[i];
  const int owner = t->owners[i];
  t->owners[i] = t->owners[k], t->owners[k] = owner;
  t->parameters[i] = t->parameters[k], t->parameters[k] = p;
  t->gradients[i] = t->gradients[k], t->gradients[k] = dx;
  t->names[i] = t->names[k], t->names[k] = name;
}

/* Brings the parameters of the group of `first` together; returns their number. */
static int group(clade__task *t, int first) {
  int end = first + 1;
  for (int i = end; i < t->n; i++)
    if (together(t, first, i)) swap_parameters(t, i, end++);
  return end - first;
}

clade_status clade__task_groups(clade__task *t, clade_status (*fn)(clade__task *t, int first, int n)) {
  for (int i = 0, n; i < t->n; i += n) {
    n = group(t, i);
    t->g->device = clade__task_device(t, t->parameters[i]);
    CLADE_TRY(fn(t, i, n));
    CLADE_TRY(clade_graph_status(t->g));
  }
  t->g->device = clade__task_device(t, t->parameters[0]);
  return CLADE_OK;
}

clade_status clade__task_fold(clade__task *t, const char *kind, clade__update_attrs attrs, clade_val count,
                              const clade_val *from, int first, int n) {
  attrs.clip = INFINITY;
  for (int i = first; i < first + n; i++) t->state[i] = clade__task_state(t, kind, i);
  CLADE_TRY(clade__update_add(t->g, &(clade__update_call){.attrs = attrs,
                                                          .n = n,
                                                          .scalar = {{0}, count, {0}, {0}},
                                                          .gradients = from + first,
                                                          .states = t->state + first,
                                                          .out = t->new_state + first}));
  for (int i = first; i < first + n; i++) clade_assign(t->g, t->state[i], t->new_state[i]);
  return CLADE_OK;
}

/* ---- norms ---- */
static clade_status add_squares(clade__task *t, int first, int n) {
  clade_val *sum = clade__task_is_part(t, first) ? &t->part_squares : &t->squares;
  const clade_val one = clade_fill(t->g, CLADE_F32, CLADE_SCALAR, 1);
  *sum = clade__square_sum(t->g, n, t->gradients + first, clade_val_ok(t->scale) ? t->scale : one, t->clip, *sum);
  return CLADE_OK;
}

clade_status clade__task_squares(clade__task *t, float clip, clade_val *squares) {
  t->clip = clip;
  t->squares = clade_fill(t->g, CLADE_F32, CLADE_SCALAR, 0);
  t->part_squares = clade_fill(t->g, CLADE_F32, CLADE_SCALAR, 0);
  const clade_val none = t->part_squares;
  CLADE_TRY(clade__task_groups(t, add_squares));
  *squares = t->squares;
  if (t->part_squares.id == none.id) return CLADE_OK;
  CLADE_TRY(clade_all_reduce(t->g, t->g->tensor, CLADE_F32, 1, &t->part_squares));
  *squares = clade_add(t->g, *squares, t->part_squares);
  return clade_graph_status(t->g);
}

/* Gradient accumulation: one graph sums gradients of several batches, another updates by their mean. */
#include <stdio.h>

#include <clade/ops.h>

#include "train/task.h"

enum { NAME_BYTES = 320 };

static clade_status sum(clade__task *t, int first, int n) {
  return clade__task_fold(t, "sum", (clade__update_attrs){.rule = CLADE__UPDATE_SUM}, t->next, t->gradients, first, n);
}

clade_status clade__task_sum(clade__task *t) {
  t->g->device = clade__task_device(t, t->parameters[0]);
  t->step = clade__scalar_variable(t->g, "optimizer.count", CLADE_I64, 0);
  t->next = clade__one_more(t->g, t->step);
  clade_assign(t->g, t->step, t->next);
  return clade__task_groups(t, sum);
}

/* Copies all variables of the model, so that the variables of this graph serve both. */
static clade_status copy_variables(clade__task *t, const clade_graph *model) {
  clade_graph *g = t->g;
  for (size_t i = 0; i < model->variables.count; i++) {
    const clade__port *port = &model->variables.at[i];
    const clade_type *type = clade__type(model, port->value);
    g->device = model->nodes[model->values[port->value].node].device;
    clade_val v =
        (port->parameter ? clade_parameter : clade_variable)(g, port->name, type->dtype, type->shape, port->initial);
    if (!clade_val_ok(v)) return clade_graph_status(g);
  }
  return CLADE_OK;
}

clade_status clade__task_take_sums(clade__task *t) {
  clade_graph *g = t->g;
  char name[NAME_BYTES];
  int n = 0;
  if (g->variables.count || t->opt->model == g)
    return CLADE_FAIL(INVALID, "%s: the graph has variables already; expected a new one beside the model's", t->what);
  CLADE_TRY(copy_variables(t, t->opt->model));
  clade__task_list(t);
  for (int i = 0; i < t->n; i++) {
    snprintf(name, sizeof name, "optimizer.sum:%s", t->names[i]);
    clade_val sums = clade__find_variable(g, name);
    if (!clade_val_ok(sums)) continue;
    t->parameters[n] = t->parameters[i];
    t->gradients[n] = sums;
    t->names[n++] = t->names[i];
  }
  t->n = n;
  clade_val count = clade__find_variable(g, "optimizer.count");
  if (!n || !clade_val_ok(count))
    return CLADE_FAIL(INVALID, "%s: the model's graph sums no gradients: call clade_accumulate on it first", t->what);
  g->device = clade__task_device(t, count);
  t->scale = clade_reciprocal(g, clade_cast(g, count, CLADE_F32));
  clade_assign(g, count, clade_fill(g, CLADE_I64, CLADE_SCALAR, 0));
  return clade_graph_status(g);
}

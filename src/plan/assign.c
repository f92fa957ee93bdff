/* Decides where outputs and new values of variables are stored, and adds the copies that remain. Every read of a
 * variable sees its value at the start of the execution: a value is written in place only if no later step reads the
 * old one. */
#include "plan/plan.h"

static const clade__node *producer(const clade_func *func, int32_t cell) {
  const clade_graph *g = func->graph;
  return &g->nodes[g->values[func->cells[cell].value].node];
}

bool clade__may_take(const clade_func *func, clade__id value, int32_t cell) {
  const clade__value *made = &func->graph->values[value];
  const clade__node *node = &func->graph->nodes[made->node];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  if (!node->op->in_place) return false;
  clade__node_view(func->graph, made->node, in, out, &view);
  uint64_t mask = node->op->in_place(&view, made->out);
  for (int i = 0; i < node->n_in; i++) {
    int32_t c = func->cell_of[node->in[i]];
    if (c >= 0 && func->cells[c].taken >= 0) c = func->cells[c].taken;
    if (c == cell && !(mask >> i & 1)) return false;
  }
  return true;
}

static clade_status place_output(clade_func *func, size_t i) {
  const clade__port *port = &func->graph->outputs.at[i];
  int32_t cell = func->cell_of[port->value], copy;
  if (cell < 0) return CLADE_FAIL(INTERNAL, "output %s: nothing computes it", port->name);
  func->output_cell[i] = cell;
  clade__place *place = &func->cells[cell].place;
  if (place->space == CLADE__ARENA) {
    place->space = CLADE__OUTPUT;
    place->index = (int)i;
  } else if (place->space == CLADE__VARIABLE ||
             place->space == CLADE__PACKED) { /* the variable can change before the output is read */
    size_t bytes = place->bytes;
    CLADE_TRY(clade__cell_new(func, 0, place->device, bytes, &copy));
    func->cells[copy].place.space = CLADE__OUTPUT;
    func->cells[copy].place.index = (int)i;
    func->output_cell[i] = copy;
    if (bytes) CLADE_TRY(clade__copy_step(func, cell, copy, 0, true));
  }
  return CLADE_OK;
}

static bool assigns(const clade_func *func, const clade__port *port) {
  return port->assigned && func->cell_of[port->assigned] != func->cell_of[port->value];
}

/* A variable that this func changes has its old value assigned to another variable: copy it before all other steps. */
static clade_status keep_aside(clade_func *func, int32_t *cell) {
  const clade__cell *c = &func->cells[*cell];
  int32_t copy, from = *cell;
  if (c->place.space != CLADE__VARIABLE || producer(func, from)->op != &clade__op_variable) return CLADE_OK;
  if (!c->place.bytes || !assigns(func, &func->graph->variables.at[c->place.index])) return CLADE_OK;
  CLADE_TRY(clade__cell_new(func, 0, c->place.device, c->place.bytes, &copy));
  func->cells[copy].place.space = CLADE__ARENA;
  *cell = copy;
  return clade__copy_step(func, from, copy, 0, true);
}

/* Sets the cell of each variable's new value: the variable's own, or one to copy from at the end (-1: nothing to
 * do). */
static clade_status front(clade_func *func, int32_t *source) {
  clade_graph *g = func->graph;
  for (size_t i = 0; i < g->outputs.count; i++) CLADE_TRY(place_output(func, i));
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    source[i] = -1;
    if (!assigns(func, port)) continue;
    func->writes = true;
    if (func->cell_of[port->value] < 0) return CLADE_FAIL(INTERNAL, "variable %s has no place", port->name);
    source[i] = func->cell_of[port->assigned];
    if (source[i] < 0) return CLADE_FAIL(INTERNAL, "variable %s: nothing computes its new value", port->name);
    CLADE_TRY(keep_aside(func, &source[i]));
  }
  return CLADE_OK;
}

/* Whether the new value can be computed in the variable's memory: it is computed by this func, and no later step
 * reads the old value. */
static bool direct(const clade_func *func, int32_t cell, int32_t variable) {
  const clade__cell *c = &func->cells[cell], *v = &func->cells[variable];
  if (c->place.space != CLADE__ARENA || !c->value || c->place.device != v->place.device) return false;
  if (c->place.bytes != v->place.bytes || !c->place.bytes) return false;
  if (v->death < c->birth) return true;
  return v->death == c->birth && clade__may_take(func, c->value, variable);
}

static clade_status back(clade_func *func, const int32_t *source) {
  const clade_graph *g = func->graph;
  for (size_t i = 0; i < g->variables.count; i++) {
    int32_t variable = func->cell_of[g->variables.at[i].value];
    if (source[i] < 0) continue;
    if (direct(func, source[i], variable)) {
      func->cells[source[i]].place.space = CLADE__VARIABLE;
      func->cells[source[i]].place.index = (int)i;
    }
  }
  for (size_t i = 0; i < g->variables.count; i++) {
    int32_t variable = func->cell_of[g->variables.at[i].value];
    if (source[i] < 0 || !func->cells[variable].place.bytes) continue;
    const clade__place *place = &func->cells[source[i]].place;
    if (place->space == CLADE__VARIABLE && place->index == (int)i) continue;
    CLADE_TRY(clade__copy_step(func, source[i], variable, 0, false));
  }
  return CLADE_OK;
}

/* Moves the last `n` steps to the front. */
static clade_status rotate(clade_func *func, size_t n) {
  if (!n) return CLADE_OK;
  clade__fstep *kept = clade__new(n, sizeof *kept);
  if (!kept) return CLADE_NO_MEMORY;
  size_t rest = func->n_steps - n;
  memcpy(kept, func->steps + rest, n * sizeof *kept);
  memmove(func->steps + n, func->steps, rest * sizeof *kept);
  memcpy(func->steps, kept, n * sizeof *kept);
  clade__free(kept);
  return CLADE_OK;
}

clade_status clade__place_ports(clade_func *func) {
  clade_graph *g = func->graph;
  size_t steps = func->n_steps;
  clade_status status = CLADE_NO_MEMORY;
  int32_t *source = clade__new(g->variables.count, sizeof *source);
  func->output_cell = clade__new(g->outputs.count, sizeof *func->output_cell);
  if (!source || !func->output_cell) goto fail;
  CLADE_GOTO(front(func, source));
  CLADE_GOTO(rotate(func, func->n_steps - steps));
  CLADE_GOTO(back(func, source));
fail:
  clade__free(source);
  return status;
}

/* Finds the removable channels of a graph, as sets of tied indices of variables, and their layers. */
#include "prune/prune.h"

void clade__units_free(clade__units *u) {
  for (size_t i = 0; i < u->n; i++) clade__free(u->at[i].members);
  clade__free(u->at);
  clade__free(u->layers);
  *u = (clade__units){0};
}

/* index: for each set its unit, from 1 on; 0: none yet. */
static clade_status add_place(const clade_ties *t, size_t *index, clade__units *u, clade__id value,
                              clade__member member) {
  const size_t set = clade__ties_of(t, value, member.axis, member.at);
  if (clade__ties_kept(t, set)) return CLADE_OK;
  if (!index[set]) {
    CLADE_TRY(clade__grow(&u->at, &u->capacity, u->n + 1, sizeof *u->at));
    index[set] = ++u->n;
  }
  clade__unit *unit = &u->at[index[set] - 1];
  CLADE_TRY(clade__grow(&unit->members, &unit->capacity, unit->n + 1, sizeof *unit->members));
  unit->members[unit->n++] = member;
  return CLADE_OK;
}

static clade_status add_places(const clade_graph *g, const clade_ties *t, size_t *index, clade__units *u) {
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__id value = g->variables.at[i].value;
    const clade_shape *shape = &clade__type(g, value)->shape;
    for (int axis = 0; axis < shape->rank; axis++)
      for (int64_t at = 0; at < shape->dim[axis]; at++)
        CLADE_TRY(add_place(t, index, u, value, (clade__member){(int)i, axis, at}));
  }
  return CLADE_OK;
}

/* Hash of the variables and axes of a unit. */
static clade__hash signature(const clade__unit *unit) {
  clade__hash hash = {0};
  for (size_t i = 0; i < unit->n; i++) {
    const int at[] = {unit->members[i].variable, unit->members[i].axis};
    hash = clade__hash_more(hash, at, sizeof at);
  }
  return hash;
}

/* Name of the weight that produces the channels: the first variable of at least two dimensions with the channels on
 * its first axis. */
static const char *name_of(const clade_graph *g, const clade__unit *unit) {
  for (size_t i = 0; i < unit->n; i++) {
    const clade__port *port = &g->variables.at[unit->members[i].variable];
    if (unit->members[i].axis == 0 && clade__type(g, port->value)->shape.rank > 1) return port->name;
  }
  return g->variables.at[unit->members[0].variable].name;
}

static clade_status find_layers(const clade_graph *g, clade__units *u) {
  clade__map by_signature = {0};
  clade_status status = CLADE_OK;
  for (size_t i = 0; i < u->n; i++) {
    const clade__hash key = signature(&u->at[i]);
    size_t layer;
    if (!clade__map_get(&by_signature, key, &layer)) {
      CLADE_GOTO(clade__grow(&u->layers, &u->layer_capacity, u->n_layers + 1, sizeof *u->layers));
      layer = u->n_layers++;
      u->layers[layer].name = name_of(g, &u->at[i]);
      CLADE_GOTO(clade__map_put(&by_signature, key, layer));
    }
    u->at[i].layer = (int)layer;
    u->layers[layer].n++;
  }
  for (size_t i = 0; i < u->n_layers; i++) u->layers[i].multiple = clade__width_multiple(u->layers[i].n);
fail:
  clade__map_free(&by_signature);
  return status;
}

clade_status clade__units_find(const clade_graph *g, clade__units *out) {
  clade_ties *t;
  *out = (clade__units){0};
  CLADE_TRY(clade__ties_new(g, &t));
  size_t *index = clade__new(clade__ties_count(t), sizeof *index);
  clade_status status = index ? add_places(g, t, index, out) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = find_layers(g, out);
  clade__free(index);
  clade__ties_free(t);
  return status;
}

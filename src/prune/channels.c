/* Pruning of channels: remaining values, shapes for building the smaller graph, and the check that this graph has
 * the same structure. */
#include <inttypes.h>

#include "prune/prune.h"

/* A variable, with the indices to remove along its axes. */
typedef struct pruned_var {
  char *name;
  clade_type type;
  clade_shape left;
  bool *gone[CLADE_MAX_RANK]; /* a single allocation, at [0] */
} pruned_var;

/* A node that the smaller graph must have at the same position. */
typedef struct pruned_node {
  const clade_op *op;
  size_t first, n; /* range of its results in `shapes` */
} pruned_node;

struct clade_pruning {
  size_t n_vars, n_nodes;
  pruned_var *vars;
  clade__map by_name;
  pruned_node *nodes;
  clade_shape *shapes;
  clade__units units; /* names are owned */
  int64_t removed;
};

void clade_pruning_free(clade_pruning *p) {
  if (!p) return;
  for (size_t i = 0; p->vars && i < p->n_vars; i++) {
    clade__free(p->vars[i].name);
    clade__free(p->vars[i].gone[0]);
  }
  clade__free(p->vars);
  clade__map_free(&p->by_name);
  clade__free(p->nodes);
  clade__free(p->shapes);
  clade__units_free(&p->units);
  clade__free(p);
}

/* ---- creation ---- */
static clade_status note_variable(clade_pruning *p, const clade__port *port, const clade_type *type, pruned_var *v) {
  size_t places = 0;
  v->type = *type;
  v->left = type->shape;
  v->name = clade__copy_text(port->name);
  if (!v->name) return CLADE_NO_MEMORY;
  CLADE_TRY(clade__map_put(&p->by_name, clade__hash_bytes(v->name, strlen(v->name)), (size_t)(v - p->vars)));
  for (int i = 0; i < type->shape.rank; i++) places += (size_t)type->shape.dim[i];
  bool *all = v->gone[0] = clade__new(places, sizeof *all);
  if (!all) return CLADE_NO_MEMORY;
  for (int i = 0; i < type->shape.rank; all += type->shape.dim[i++]) v->gone[i] = all;
  return CLADE_OK;
}

static clade_status note_variables(clade_pruning *p, const clade_graph *g) {
  p->vars = clade__new(g->variables.count, sizeof *p->vars);
  if (!p->vars) return CLADE_NO_MEMORY;
  p->n_vars = g->variables.count;
  for (size_t i = 0; i < p->n_vars; i++)
    CLADE_TRY(note_variable(p, &g->variables.at[i], clade__type(g, g->variables.at[i].value), &p->vars[i]));
  return CLADE_OK;
}

static void note_removed(clade_pruning *p) {
  for (size_t i = 0; i < p->units.n; i++) {
    const clade__unit *unit = &p->units.at[i];
    for (size_t k = 0; unit->removed && k < unit->n; k++) {
      pruned_var *v = &p->vars[unit->members[k].variable];
      v->gone[unit->members[k].axis][unit->members[k].at] = true;
      v->left.dim[unit->members[k].axis]--;
    }
    p->removed += unit->removed;
  }
}

/* Copies the names of layers: the graph may be released first. */
static void keep_names(clade_pruning *p) {
  for (size_t i = 0; i < p->units.n_layers; i++) {
    size_t index;
    const char *name = p->units.layers[i].name;
    if (clade__map_get(&p->by_name, clade__hash_bytes(name, strlen(name)), &index))
      p->units.layers[i].name = p->vars[index].name;
  }
}

/* Marks the sets of tied indices that are removed. */
static void mark_sets(const clade_pruning *p, const clade_graph *g, const clade_ties *t, bool *gone) {
  for (size_t i = 0; i < p->units.n; i++) {
    const clade__unit *unit = &p->units.at[i];
    const clade__member *m = &unit->members[0];
    if (unit->removed) gone[clade__ties_of(t, g->variables.at[m->variable].value, m->axis, m->at)] = true;
  }
}

static clade_shape shape_left(const clade_graph *g, const clade_ties *t, const bool *gone, clade__id value) {
  const clade_shape *shape = &clade__type(g, value)->shape;
  clade_shape left = *shape;
  for (int axis = 0; axis < shape->rank; axis++)
    for (int64_t i = 0; i < shape->dim[axis]; i++) left.dim[axis] -= gone[clade__ties_of(t, value, axis, i)];
  return left;
}

static clade_status note_nodes(clade_pruning *p, const clade_graph *g) {
  clade_ties *t = NULL;
  bool *gone = NULL;
  clade_status status;
  p->n_nodes = g->n_nodes;
  p->nodes = clade__new(g->n_nodes, sizeof *p->nodes);
  p->shapes = clade__new(g->n_values, sizeof *p->shapes);
  CLADE_GOTO(p->nodes && p->shapes ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade__ties_new(g, &t));
  gone = clade__new(clade__ties_count(t), sizeof *gone);
  CLADE_GOTO(gone ? CLADE_OK : CLADE_NO_MEMORY);
  mark_sets(p, g, t, gone);
  for (clade__id id = 1; id < g->n_nodes; id++)
    p->nodes[id] = (pruned_node){g->nodes[id].op, g->nodes[id].first_out, (size_t)g->nodes[id].n_out};
  for (clade__id value = 1; value < g->n_values; value++) p->shapes[value] = shape_left(g, t, gone, value);
fail:
  clade__ties_free(t);
  clade__free(gone);
  return status;
}

static clade_status check(const clade_graph *g, const clade_vars *vars, const clade_prune_opt *o) {
  if (!g || !vars) return CLADE_FAIL(INVALID, "clade_prune_channels: the %s NULL", g ? "variables are" : "graph is");
  CLADE_TRY(clade_graph_status(g));
  if (!(o->sparsity >= 0 && o->sparsity < 1))
    return CLADE_FAIL(INVALID, "clade_prune_channels: .sparsity is %g; expected 0 to below 1", o->sparsity);
  if ((unsigned)o->rank > CLADE_PRUNE_BY_BATCH_NORM)
    return CLADE_FAIL(INVALID, "clade_prune_channels: .rank is %d, which is none", (int)o->rank);
  if (g->trains) return CLADE_FAIL(INVALID, "clade_prune_channels: the graph is one for training");
  return CLADE_OK;
}

clade_status clade_prune_channels_(const clade_graph *g, const clade_vars *vars, const clade_prune_opt *given) {
  clade_prune_opt opt;
  clade_status status;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_prune_channels"));
  if (!opt.out) return CLADE_FAIL(INVALID, "clade_prune_channels: there is no place for the result (NULL)");
  *opt.out = NULL;
  CLADE_TRY(check(g, vars, &opt));
  clade_pruning *p = clade__new(1, sizeof *p);
  if (!p) return CLADE_NO_MEMORY;
  CLADE_GOTO(clade__units_find(g, &p->units));
  if (!p->units.n)
    CLADE_GOTO(CLADE_FAIL(INVALID,
                          "clade_prune_channels: the graph has no channels that can go: all of them are tied to "
                          "its inputs, its outputs, or to ops that keep them"));
  CLADE_GOTO(clade__units_rank(g, vars, opt.rank, &p->units));
  CLADE_GOTO(clade__units_choose(&p->units, opt.sparsity));
  CLADE_GOTO(note_variables(p, g));
  note_removed(p);
  keep_names(p);
  CLADE_GOTO(note_nodes(p, g));
  *opt.out = p;
  return CLADE_OK;
fail:
  clade_pruning_free(p);
  return status;
}

/* ---- information ---- */
clade_status clade_pruning_get_info(const clade_pruning *p, clade_pruning_info *info) {
  if (!p || !info) return CLADE_FAIL(INVALID, "clade_pruning_get_info: the %s is NULL", p ? "info" : "pruning");
  const clade_pruning_info all = {
      .size = sizeof all, .layers = (int)p->units.n_layers, .channels = (int64_t)p->units.n, .removed = p->removed};
  return clade__info_give(info, &all, sizeof all, "clade_pruning_get_info");
}

clade_status clade_pruning_get_layer(const clade_pruning *p, int index, clade_pruning_layer *layer) {
  if (!p || !layer) return CLADE_FAIL(INVALID, "clade_pruning_get_layer: the %s is NULL", p ? "layer" : "pruning");
  if (index < 0 || (size_t)index >= p->units.n_layers)
    return CLADE_FAIL(NOT_FOUND, "clade_pruning_get_layer: there is no layer %d; there are %zu", index,
                      p->units.n_layers);
  const clade__layer *l = &p->units.layers[index];
  const clade_pruning_layer all = {.size = sizeof all, .name = l->name, .channels = l->n, .removed = l->removed};
  return clade__info_give(layer, &all, sizeof all, "clade_pruning_get_layer");
}

clade_status clade_pruning_shapes(const clade_pruning *p, clade_graph *g) {
  if (!p || !g) return CLADE_FAIL(INVALID, "clade_pruning_shapes: the %s is NULL", p ? "graph" : "pruning");
  for (size_t i = 0; i < p->n_vars; i++) clade_graph_shape(g, p->vars[i].name, p->vars[i].left);
  return clade_graph_status(g);
}

clade_status clade_pruning_check(const clade_pruning *p, const clade_graph *g) {
  char want[200], have[200];
  if (!p || !g) return CLADE_FAIL(INVALID, "clade_pruning_check: the %s is NULL", p ? "graph" : "pruning");
  clade_status status = clade_graph_status(g);
  if (status != CLADE_OK) return clade__fail_in(status, "the model cannot be built with fewer channels");
  for (clade__id id = 1; id < p->n_nodes && id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    bool same = n->op == p->nodes[id].op && n->first_out == p->nodes[id].first && (size_t)n->n_out == p->nodes[id].n;
    for (int i = 0; same && i < n->n_out; i++) {
      const clade_shape *shape = &p->shapes[n->first_out + (clade__id)i];
      const clade_shape *made = &clade__type(g, n->first_out + (clade__id)i)->shape;
      if (!clade_shape_equal(shape, made))
        return CLADE_FAIL(BAD_SHAPE,
                          "the model, built with fewer channels, makes %s \"%s\" %s; expected %s: does its "
                          "function write a width that depends on others?",
                          n->op->name, n->name, clade_shape_text(made, have, sizeof have),
                          clade_shape_text(shape, want, sizeof want));
    }
    if (!same)
      return CLADE_FAIL(BAD_SHAPE, "the model, built with fewer channels, has another node %u: %s \"%s\"", id,
                        n->op->name, n->name);
  }
  if (p->n_nodes == g->n_nodes) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "the model, built with fewer channels, has %zu nodes; expected %zu", g->n_nodes - 1,
                    p->n_nodes - 1);
}

/* ---- values ---- */
/* Copies the elements that remain, in their order. */
static void gather(const pruned_var *v, size_t element, const unsigned char *from, unsigned char *to) {
  const clade_shape *shape = &v->type.shape;
  int64_t at[CLADE_MAX_RANK] = {0}, n = 1;
  for (int i = 0; i < shape->rank; i++) n *= shape->dim[i];
  for (int64_t k = 0; k < n; k++) {
    bool gone = false;
    for (int i = 0; i < shape->rank; i++) gone = gone || v->gone[i][at[i]];
    if (!gone) {
      memcpy(to, from + (size_t)k * element, element);
      to += element;
    }
    for (int i = shape->rank - 1; i >= 0 && ++at[i] == shape->dim[i]; i--) at[i] = 0;
  }
}

static clade_status apply(const pruned_var *v, const clade_vars *from, clade_vars *to) {
  size_t element, before, after;
  clade_status status;
  const clade_type left = {.dtype = v->type.dtype, .shape = v->left};
  CLADE_TRY(clade__dtype_element(v->type.dtype, &element));
  CLADE_TRY(clade_type_bytes(&v->type, &before));
  CLADE_TRY(clade_type_bytes(&left, &after));
  unsigned char *data = clade__new(CLADE_MAX(before, (size_t)1), 1), *rest = clade__new(CLADE_MAX(after, (size_t)1), 1);
  CLADE_GOTO(data && rest ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_vars_get(from, v->name, data, before));
  gather(v, element, data, rest);
  CLADE_GOTO(clade_vars_set(to, v->name, rest, after));
fail:
  clade__free(data);
  clade__free(rest);
  return status;
}

clade_status clade_pruning_apply(const clade_pruning *p, const clade_vars *from, clade_vars *to) {
  char want[200], have[200];
  if (!p || !from || !to)
    return CLADE_FAIL(INVALID, "clade_pruning_apply: the %s NULL", p ? "variables are" : "pruning is");
  for (int i = 0; i < clade_vars_count(to); i++) {
    clade_port_info info = {.size = sizeof info};
    size_t index;
    CLADE_TRY(clade_vars_describe(to, i, &info));
    if (!clade__map_get(&p->by_name, clade__hash_bytes(info.name, strlen(info.name)), &index)) continue;
    if (!clade_shape_equal(&p->vars[index].left, &info.type.shape))
      return CLADE_FAIL(BAD_SHAPE, "clade_pruning_apply: variable %s is %s; pruned it is %s", info.name,
                        clade_shape_text(&info.type.shape, have, sizeof have),
                        clade_shape_text(&p->vars[index].left, want, sizeof want));
    CLADE_TRY(apply(&p->vars[index], from, to));
  }
  return CLADE_OK;
}

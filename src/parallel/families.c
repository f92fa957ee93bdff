/* Axis families: union-find that joins all axes along a common dimension of any node. */
#include "parallel/tensor.h"

/* ---- union-find of axes ---- */
typedef struct sets {
  clade__tensor *t;
  size_t n, *parent;
} sets;

static size_t root(const sets *s, size_t place) {
  while (s->parent[place] != place) place = s->parent[place] = s->parent[s->parent[place]];
  return place;
}

static void join(const sets *s, size_t a, size_t b) {
  a = root(s, a);
  b = root(s, b);
  s->parent[CLADE_MAX(a, b)] = CLADE_MIN(a, b);
}

static clade__id value_of(const clade__node *n, int a) {
  return a < n->n_in ? n->in[a] : n->first_out + (clade__id)(a - n->n_in);
}

static size_t place_of(const clade__tensor *t, const clade__node *n, const clade__along *a) {
  return t->first[value_of(n, a->a)] + a->axis;
}

/* A dimension with fewer blocks than ranks is not split and joins nothing. */
static bool counts(const clade__tensor *t, const clade__dimension *d) { return d->size >= t->ranks && d->n_along; }

static void join_node(const sets *s, clade__id node) {
  const clade__tensor *t = s->t;
  for (int i = 0; i < t->work[node].n; i++) {
    const clade__dimension *d = &t->work[node].dims[i];
    for (int k = 1; counts(t, d) && k < d->n_along; k++)
      join(s, place_of(t, &t->g->nodes[node], &d->along[0]), place_of(t, &t->g->nodes[node], &d->along[k]));
  }
}

/* ---- collecting axes ---- */
static clade_status count_axes(clade__tensor *t, sets *s) {
  const clade_graph *g = t->g;
  char text[640];
  for (clade__id v = 1; v < g->n_values; v++) {
    const clade_type *type = clade__type(g, v);
    const clade__node *n = &g->nodes[g->values[v].node];
    if (!clade_shape_is_constant(&type->shape))
      return CLADE_FAIL(BAD_SHAPE,
                        "%s \"%s\" is %s: a graph that several ranks compute parts of has sizes for all "
                        "dimensions",
                        n->op->name, n->name, clade__type_text(type, text, sizeof text));
    t->first[v] = s->n;
    s->n += (size_t)type->shape.rank;
  }
  s->parent = clade__new(CLADE_MAX(s->n, (size_t)1), sizeof *s->parent);
  t->of_axis = clade__new(CLADE_MAX(s->n, (size_t)1), sizeof *t->of_axis);
  if (!s->parent || !t->of_axis) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < s->n; i++) s->parent[i] = i;
  return CLADE_OK;
}

static clade_status find_uses(clade__tensor *t) {
  const clade_graph *g = t->g;
  size_t n = 0;
  for (clade__id id = 1; id < g->n_nodes; id++)
    for (int i = 0; i < g->nodes[id].n_in; i++, n++) t->first_use[g->nodes[id].in[i] + 1]++;
  t->uses = clade__new(CLADE_MAX(n, (size_t)1), sizeof *t->uses);
  size_t *next = clade__new(g->n_values + 1, sizeof *next);
  if (!t->uses || !next) {
    clade__free(next);
    return CLADE_NO_MEMORY;
  }
  for (size_t v = 1; v <= g->n_values; v++) next[v] = t->first_use[v] += t->first_use[v - 1];
  for (clade__id id = 1; id < g->n_nodes; id++)
    for (int i = 0; i < g->nodes[id].n_in; i++) t->uses[next[g->nodes[id].in[i]]++] = (clade__use){id, i};
  clade__free(next);
  return CLADE_OK;
}

static void find_flows(clade__tensor *t) {
  const clade_graph *g = t->g;
  for (size_t i = 0; i < g->variables.count; i++)
    t->flows[g->variables.at[i].value] =
        g->variables.at[i].parameter && clade__is_computed_float(clade__type(g, g->variables.at[i].value)->dtype);
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    bool any = false;
    for (int i = 0; i < n->n_in && !(n->op->flags & CLADE_OP_STOP); i++) any |= t->flows[n->in[i]];
    for (int i = 0; any && i < n->n_out; i++) {
      const clade__id v = n->first_out + (clade__id)i;
      t->flows[v] = clade__is_computed_float(clade__type(g, v)->dtype);
    }
  }
}

/* ---- families ---- */
static int family_of(const sets *s, int *number, const clade__node *n, const clade__dimension *d) {
  clade__tensor *t = s->t;
  if (!counts(t, d)) return CLADE__IN_NO_FAMILY;
  const size_t at = root(s, place_of(t, n, &d->along[0]));
  if (number[at] < 0) {
    number[at] = t->n_families;
    t->families[t->n_families++] = (clade__family){.blocks = d->size};
  }
  clade__family *f = &t->families[number[at]];
  f->blocks = clade__divisor(f->blocks, d->size);
  return number[at];
}

static bool is_variable(const clade_graph *g, clade__id value) {
  return g->nodes[g->values[value].node].op == &clade__op_variable;
}

/* Name of a family, and whether the user requested it. */
static void describe(clade__tensor *t, clade__id value) {
  const clade_graph *g = t->g;
  for (int axis = 0; axis < clade__type(g, value)->shape.rank; axis++) {
    const int number = clade__axis_family(t, value, axis);
    if (number == CLADE__IN_NO_FAMILY) continue;
    clade__family *f = &t->families[number];
    const bool variable = is_variable(g, value);
    if (!f->value || (variable && !f->of_variable)) f->value = value, f->axis = axis;
    f->of_variable |= variable;
    f->marked |= g->values[value].shard >> axis & 1;
  }
}

static clade_status number_families(const sets *s) {
  clade__tensor *t = s->t;
  const clade_graph *g = t->g;
  int *number = clade__new(CLADE_MAX(s->n, (size_t)1), sizeof *number);
  t->families = clade__new(CLADE_MAX(s->n, (size_t)1), sizeof *t->families);
  clade_status status = number && t->families ? CLADE_OK : CLADE_NO_MEMORY;
  for (size_t i = 0; number && i < s->n; i++) number[i] = -1;
  for (clade__id id = 1; status == CLADE_OK && id < g->n_nodes; id++) {
    clade__work *w = &t->work[id];
    w->family = w->n ? clade__arena_new(&t->arena, (size_t)w->n * sizeof *w->family) : NULL;
    if (w->n && !w->family) status = CLADE_NO_MEMORY;
    for (int i = 0; status == CLADE_OK && i < w->n; i++)
      w->family[i] = family_of(s, number, &g->nodes[id], &w->dims[i]);
  }
  for (size_t i = 0; number && i < s->n; i++) t->of_axis[i] = number[root(s, i)];
  clade__free(number);
  return status;
}

/* Removes families with too few blocks. */
static void drop_small(clade__tensor *t) {
  for (clade__id id = 1; id < t->g->n_nodes; id++)
    for (int i = 0; i < t->work[id].n; i++) {
      int *family = &t->work[id].family[i];
      if (*family != CLADE__IN_NO_FAMILY && t->families[*family].blocks < t->ranks) *family = CLADE__IN_NO_FAMILY;
    }
}

static clade_status check_marks(const clade__tensor *t) {
  char text[640];
  for (clade__id v = 1; v < t->g->n_values; v++)
    for (int axis = 0; axis < CLADE_MAX_RANK; axis++) {
      if (!(t->g->values[v].shard >> axis & 1)) continue;
      const int family = clade__axis_family(t, v, axis);
      if (family == CLADE__IN_NO_FAMILY || t->families[family].blocks < t->ranks)
        return CLADE_FAIL(BAD_SHAPE, "clade_graph_split: axis %d of %s has no %d blocks that can be computed apart",
                          axis, clade__type_text(clade__type(t->g, v), text, sizeof text), t->ranks);
    }
  return CLADE_OK;
}

static bool has_family(const clade__work *w, int i) {
  if (w->family[i] == CLADE__IN_NO_FAMILY) return false;
  for (int k = 0; k < i; k++)
    if (w->family[k] == w->family[i]) return false; /* counted before */
  return true;
}

static clade_status list_members(clade__tensor *t) {
  size_t n = 0;
  for (clade__id id = 1; id < t->g->n_nodes; id++)
    for (int i = 0; i < t->work[id].n; i++)
      if (has_family(&t->work[id], i)) t->families[t->work[id].family[i]].n_members++, n++;
  t->members = clade__new(CLADE_MAX(n, (size_t)1), sizeof *t->members);
  if (!t->members) return CLADE_NO_MEMORY;
  n = 0;
  for (int i = 0; i < t->n_families; i++) {
    t->families[i].first_member = n;
    n += t->families[i].n_members;
    t->families[i].n_members = 0;
  }
  for (clade__id id = 1; id < t->g->n_nodes; id++)
    for (int i = 0; i < t->work[id].n; i++) {
      if (!has_family(&t->work[id], i)) continue;
      clade__family *f = &t->families[t->work[id].family[i]];
      t->members[f->first_member + f->n_members++] = id;
    }
  return CLADE_OK;
}

static clade_status find(clade__tensor *t, sets *s) {
  const clade_graph *g = t->g;
  CLADE_TRY(count_axes(t, s));
  for (clade__id id = 1; id < g->n_nodes; id++) {
    t->along[id] = CLADE__ALONG_NONE;
    CLADE_TRY(clade__dims_of(g, id, &t->arena, &t->work[id].n, &t->work[id].dims));
    join_node(s, id);
  }
  CLADE_TRY(number_families(s));
  for (clade__id v = 1; v < g->n_values; v++) describe(t, v);
  CLADE_TRY(check_marks(t));
  drop_small(t);
  for (size_t i = 0; i < g->outputs.count; i++) t->is_output[g->outputs.at[i].value] = true;
  CLADE_TRY(find_uses(t));
  find_flows(t);
  return list_members(t);
}

clade_status clade__families_find(const clade_graph *g, const clade__tensor_how *how, clade__tensor *t) {
  *t = (clade__tensor){.g = g, .how = how, .rank = clade_comm_rank(how->comm), .ranks = clade_comm_size(how->comm)};
  t->work = clade__new(g->n_nodes, sizeof *t->work);
  t->along = clade__new(g->n_nodes, sizeof *t->along);
  t->first = clade__new(g->n_values, sizeof *t->first);
  t->first_use = clade__new(g->n_values + 1, sizeof *t->first_use);
  t->is_output = clade__new(g->n_values, sizeof *t->is_output);
  t->flows = clade__new(g->n_values, sizeof *t->flows);
  if (!t->work || !t->along || !t->first || !t->first_use || !t->is_output || !t->flows) return CLADE_NO_MEMORY;
  sets s = {.t = t};
  const clade_status status = find(t, &s);
  clade__free(s.parent);
  return status;
}

void clade__families_free(clade__tensor *t) {
  clade__free(t->work);
  clade__free(t->along);
  clade__free(t->first);
  clade__free(t->of_axis);
  clade__free(t->families);
  clade__free(t->members);
  clade__free(t->first_use);
  clade__free(t->uses);
  clade__free(t->is_output);
  clade__free(t->flows);
  clade__arena_free(&t->arena);
}

int64_t clade__family_cut(const clade__tensor *t, int family, int64_t length, int rank) {
  const int64_t blocks = t->families[family].blocks, more = blocks % t->ranks;
  return (blocks / t->ranks * rank + CLADE_MIN(rank, more)) * (length / blocks);
}

/* ---- representation of values ---- */
clade__need clade__need_of(const clade__tensor *t, clade__id node, int operand, int *axis) {
  const clade__node *n = &t->g->nodes[node];
  const clade__dimension *d = clade__node_along(t, node);
  if (n->op == &clade__op_assign) {
    if (operand == 0) return CLADE__NEED_NOTHING;
    const clade__state s = clade__state_of(t, n->in[0]);
    *axis = s.axis;
    return s.held == CLADE__HELD_PART ? CLADE__NEED_PART : CLADE__NEED_WHOLE;
  }
  if (!d || (d->numbers | d->once) >> operand & 1) return CLADE__NEED_WHOLE;
  *axis = clade__dim_axis(d, operand);
  if (*axis >= 0) return CLADE__NEED_PART;
  return clade__is_computed_float(clade__type(t->g, n->in[operand])->dtype) ? CLADE__NEED_SHARED : CLADE__NEED_WHOLE;
}

clade__needs clade__needs_of(const clade__tensor *t, clade__id value) {
  clade__needs needs = {.whole = t->is_output[value]};
  for (size_t i = t->first_use[value]; i < t->first_use[value + 1]; i++) {
    int axis = 0;
    const clade__need need = clade__need_of(t, t->uses[i].node, t->uses[i].operand, &axis);
    needs.whole |= need == CLADE__NEED_WHOLE;
    needs.shared |= need == CLADE__NEED_SHARED;
    if (need == CLADE__NEED_PART) needs.parts |= 1u << axis;
  }
  return needs;
}

static clade__state state_like(const clade__tensor *t, clade__id value) {
  const char *name = t->g->nodes[t->g->values[value].node].name;
  const clade__ports *variables = &t->how->like->variables;
  size_t index;
  if (!clade__map_get(&variables->by_name, clade__hash_bytes(name, strlen(name)), &index) ||
      !variables->at[index].part.is_part)
    return (clade__state){CLADE__HELD_WHOLE, 0};
  return (clade__state){CLADE__HELD_PART, variables->at[index].part.axis};
}

/* A variable is sliced as its first user needs it. */
static clade__state variable_state(const clade__tensor *t, clade__id value) {
  if (t->how->like) return state_like(t, value);
  for (size_t i = t->first_use[value]; i < t->first_use[value + 1]; i++) {
    int axis = 0;
    if (clade__need_of(t, t->uses[i].node, t->uses[i].operand, &axis) == CLADE__NEED_PART)
      return (clade__state){CLADE__HELD_PART, axis};
  }
  return (clade__state){CLADE__HELD_WHOLE, 0};
}

clade__state clade__state_of(const clade__tensor *t, clade__id value) {
  const clade__id id = t->g->values[value].node;
  const clade__node *n = &t->g->nodes[id];
  if (n->op == &clade__op_variable) return variable_state(t, value);
  const clade__dimension *d = clade__node_along(t, id);
  if (!d || (int)d->kind == CLADE__DIM_CLASSES) return (clade__state){CLADE__HELD_WHOLE, 0};
  const int axis = clade__dim_axis(d, n->n_in + (int)(value - n->first_out));
  if (axis >= 0) return (clade__state){CLADE__HELD_PART, axis};
  return (clade__state){d->kind == CLADE_DIM_EACH || d->once ? CLADE__HELD_WHOLE : CLADE__HELD_SUM, 0};
}

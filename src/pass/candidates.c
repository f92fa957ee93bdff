/* Finds the candidates for each node: its applicable implementations with the layouts that they require. */
#include "pass/candidates.h"

bool clade__same_layout(clade_layout a, clade_layout b) {
  a.interleave = CLADE_MAX(a.interleave, 1);
  b.interleave = CLADE_MAX(b.interleave, 1);
  return clade__layout_equal(a, b);
}

/* ---- layouts ---- */
static int find_layout(const clade__layouts *f, clade_layout layout) {
  for (int i = 0; i < f->count; i++)
    if (clade__same_layout(f->at[i], layout)) return i;
  return -1;
}

static clade__layouts *layouts_of(const clade__choice *c, clade__id value) { return &c->layouts[c->root[value]]; }

int clade__layout_index(clade__choice *c, clade__id value, clade_layout layout) {
  clade__layouts *f = layouts_of(c, value);
  int at = find_layout(f, layout);
  if (at >= 0) return at;
  if (f->count == CLADE__MOST_LAYOUTS) return -1;
  f->at[f->count] = layout;
  return f->count++;
}

int clade__layout_built(const clade__choice *c, clade__id value) {
  return find_layout(layouts_of(c, value), clade__type(c->g, value)->layout);
}

static bool fits(const clade_type *type, clade_layout layout) {
  clade_type there = *type;
  size_t bytes;
  there.layout = layout;
  return !layout.block || (layout.axis >= (layout.interleave > 1 && !layout.tile) && layout.axis < type->shape.rank &&
                           clade_type_bytes(&there, &bytes) == CLADE_OK);
}

static clade__id operand(const clade__node *n, int i) {
  return i < n->n_in ? n->in[i] : n->first_out + (clade__id)(i - n->n_in);
}

void clade__candidate_view(const clade__choice *c, clade__id node, const clade__candidate *candidate, clade_type *in,
                           clade_type *out, clade_node *view) {
  const clade__node *n = &c->g->nodes[node];
  clade__node_view(c->g, node, in, out, view);
  for (int i = 0; i < n->n_in + n->n_out; i++)
    (i < n->n_in ? &in[i] : &out[i - n->n_in])->layout = layouts_of(c, operand(n, i))->at[candidate->indices[i]];
}

/* ---- candidates ---- */
clade_status clade__candidate_add(clade__choice *c, clade__id node, const clade__candidate *candidate) {
  const clade__node *n = &c->g->nodes[node];
  clade__candidates *w = &c->candidates[node];
  size_t layouts = (size_t)(n->n_in + n->n_out);
  for (int i = 0; i < w->count; i++) {
    clade__candidate *old = &w->at[i];
    if (memcmp(old->indices, candidate->indices, layouts) != 0) continue;
    bool better = candidate->cost < old->cost;
    w->refusals[better ? old->impl : candidate->impl] =
        better || candidate->cost > old->cost ? "costs more" : "comes later";
    if (better) old->impl = candidate->impl, old->cost = candidate->cost, old->config = candidate->config;
    return CLADE_OK;
  }
  if (w->count == CLADE__MOST_CANDIDATES) {
    w->refusals[candidate->impl] = "comes after too many others with layouts of their own";
    return CLADE_OK;
  }
  clade__candidate copy = *candidate;
  copy.indices = clade__arena_new(&c->arena, layouts);
  if (!copy.indices) return CLADE_NO_MEMORY;
  memcpy(copy.indices, candidate->indices, layouts);
  if (w->count == 0 || w->count % 4 == 1) { /* grow rarely: most nodes have one */
    clade__candidate *larger = clade__arena_new(&c->arena, (size_t)(w->count ? w->count + 4 : 1) * sizeof *larger);
    if (!larger) return CLADE_NO_MEMORY;
    if (w->count) memcpy(larger, w->at, (size_t)w->count * sizeof *larger);
    w->at = larger;
  }
  w->at[w->count++] = copy;
  return CLADE_OK;
}

static void built_layouts(const clade__choice *c, const clade__node *n, uint8_t *indices) {
  for (int i = 0; i < n->n_in + n->n_out; i++) indices[i] = (uint8_t)clade__layout_built(c, operand(n, i));
}

/* Indices of the layouts that the implementation requires; false: a layout is impossible. */
static bool wanted_layouts(clade__choice *c, clade__id node, const clade_impl *impl, const clade_query *q,
                           uint8_t *indices) {
  const clade__node *n = &c->g->nodes[node];
  clade_layout wanted[2 * CLADE_MAX_OPERANDS] = {{0}};
  if (!impl->layouts) {
    built_layouts(c, n, indices);
    return true;
  }
  impl->layouts(q, wanted, wanted + n->n_in);
  for (int i = 0; i < n->n_in + n->n_out; i++)
    if (!fits(clade__type(c->g, operand(n, i)), wanted[i])) return false;
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    int at = clade__layout_index(c, operand(n, i), wanted[i]);
    if (at < 0) return false;
    indices[i] = (uint8_t)at;
  }
  return true;
}

/* Whether the workspace leaves room for the func's values, since some implementations use one per compute unit.
 * Based on the device's own budget, so that a temporary budget changes no choice. Pinned choices and an op's last
 * implementation are always accepted. */
static bool has_room(clade__choice *c, clade__id node, int number, const clade_query *q, const uint8_t *indices) {
  const clade_impl *const *impls = clade__impls(q->node->op), *impl = impls[number];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade_query there = {sizeof there, &view, q->device, q->config};
  const char *why = c->candidates[node].pick.why;
  if (!impl->workspace || !impls[number + 1] || !q->device->budget_bytes) return true; /* 0: unknown */
  if (why && !strcmp(why, "pinned")) return true;
  clade__candidate_view(c, node, &(clade__candidate){.indices = (uint8_t *)indices}, in, out, &view);
  return impl->workspace(&there) <= q->device->budget_bytes / 4;
}

/* Removes candidates from the records' choice if their layouts or workspace are impossible. */
static void fit_pick(clade__choice *c, clade__id node, clade_query *q) {
  clade__pick *pick = &c->candidates[node].pick;
  uint8_t indices[2 * CLADE_MAX_OPERANDS];
  int32_t config[CLADE_MAX_PARAMS];
  for (int i = 0; pick->count && i < CLADE__PICKED_IMPLS; i++)
    for (int a = 0; a < CLADE_MAX_ALTERNATIVES; a++) {
      if (!pick->of[i][a]) continue;
      clade__pick_query(c->ctx, q, c->g->nodes[node].device, pick, i, a, config);
      if (wanted_layouts(c, node, clade__impls(q->node->op)[i], q, indices) && has_room(c, node, i, q, indices))
        continue;
      pick->of[i][a] = NULL;
      pick->count--;
    }
}

/* The recorded time, scaled by the ratio of estimated costs if it was recorded for dense layouts and the
 * implementation supports any. */
static double told_cost(const clade__pick *pick, int number, const clade_query *built, const clade_query *there) {
  const clade_impl *impl = clade__impls(built->node->op)[number];
  double told = clade__pick_told(pick, number, clade__alternative_of(impl, there->config)),
         cost = clade__impl_cost(impl, there);
  if (!(told > 0)) return cost;
  return impl->any_layout ? told * cost / clade__impl_cost(impl, built) : told;
}

static clade_status cost_and_config(clade__choice *c, clade__id node, clade_query *q, clade__candidate *candidate) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade_query there = {sizeof there, &view, q->device, q->config};
  clade__candidate_view(c, node, candidate, in, out, &view);
  candidate->cost = told_cost(&c->candidates[node].pick, candidate->impl, q, &there);
  candidate->config = NULL;
  if (!q->config) return CLADE_OK;
  int32_t *config = clade__arena_new(&c->arena, CLADE_MAX_PARAMS * sizeof *config);
  if (!config) return CLADE_NO_MEMORY;
  memcpy(config, q->config, CLADE_MAX_PARAMS * sizeof *config);
  candidate->config = config;
  return CLADE_OK;
}

/* Adds an implementation in one of its alternatives in layouts. */
static clade_status find_impl(clade__choice *c, clade__id id, clade_query *q, int number, int alternative,
                              const char **refusal) {
  const clade__candidates *w = &c->candidates[id];
  const clade_impl *impl = clade__impls(c->g->nodes[id].op)[number];
  uint8_t indices[2 * CLADE_MAX_OPERANDS];
  int32_t config[CLADE_MAX_PARAMS];
  clade__candidate candidate = {.impl = number, .indices = indices};
  clade__pick_query(c->ctx, q, c->g->nodes[id].device, &w->pick, number, alternative, config);
  *refusal = clade__impl_refuses(c->ctx, impl, q);
  if (!*refusal && clade__pick_refuses(&w->pick, number, alternative)) *refusal = "a tuning record names another";
  if (!*refusal && !wanted_layouts(c, id, impl, q, indices)) *refusal = "its layouts are not possible here";
  if (!*refusal && !has_room(c, id, number, q, indices))
    *refusal = "asks for more scratch memory than a quarter of what the device may use";
  if (*refusal) return CLADE_OK;
  CLADE_TRY(cost_and_config(c, id, q, &candidate));
  return clade__candidate_add(c, id, &candidate);
}

static clade_status find_impls(clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  clade__candidates *w = &c->candidates[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade_query q = {sizeof q, &view, &c->ctx->devices[n->device], NULL};
  const clade_impl *const *impls = clade__impls(n->op);
  const size_t count = (size_t)clade__impls_count(n->op);
  w->refusals = clade__arena_new(&c->arena, (count + 1) * sizeof *w->refusals);
  if (!w->refusals) return CLADE_NO_MEMORY;
  clade__node_view(c->g, id, in, out, &view);
  CLADE_TRY(clade__pick_find(c->ctx, &q, n->device, &w->pick));
  fit_pick(c, id, &q);
  for (size_t i = 0; i < count; i++) {
    const char *refusal = NULL;
    CLADE_TRY(find_impl(c, id, &q, (int)i, 0, &w->refusals[i]));
    for (int a = 1; a < clade__alternatives(impls[i]); a++) {
      const char *before = w->refusals[i];
      CLADE_TRY(find_impl(c, id, &q, (int)i, a, &refusal));
      w->refusals[i] = before ? refusal : NULL; /* none as long as an alternative is accepted */
    }
  }
  return CLADE_OK;
}

static bool converts(const clade_op *op) { return op == &clade__op_pack || op == &clade__op_unpack; }

static clade_status find_node(clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  uint8_t indices[2 * CLADE_MAX_OPERANDS];
  if (converts(n->op) && clade__layout_index(c, n->in[0], clade__type(c->g, n->first_out)->layout) >= 0) {
    c->root[n->first_out] = c->root[n->in[0]];
    return CLADE_OK;
  }
  for (int i = 0; i < n->n_out; i++) {
    clade__id v = n->first_out + (clade__id)i;
    c->root[v] = v;
    c->layouts[v].count = 1;
    c->layouts[v].at[0] = clade__type(c->g, v)->layout;
  }
  /* a cast of what is constant leaves the executions too (plan/lower.c) */
  if (n->n_out == 1 && clade__is_cast(n)) c->layouts[n->first_out].frozen = c->layouts[c->root[n->in[0]]].frozen;
  if (clade__needs_impl(n->op)) return find_impls(c, id);
  if (n->n_out == 1) c->layouts[n->first_out].frozen = clade__graph_frozen(c->g, n->first_out);
  built_layouts(c, n, indices);
  return clade__candidate_add(c, id, &(clade__candidate){.impl = -1, .indices = indices});
}

clade_status clade__candidates_find(clade__choice *c) {
  for (clade__id id = 1; id < c->g->n_nodes; id++) CLADE_TRY(find_node(c, id));
  return CLADE_OK;
}

/* ---- nodes that accept any layout ---- */
static bool whole(const clade_shape *in, int axis, const clade_shape *out, int out_axis) {
  return axis >= 0 && in->dim[axis] == out->dim[out_axis];
}
static bool single(const clade_shape *in, int axis) { return axis < 0 || in->dim[axis] == 1; }

/* The layout of an operand if the outputs have `layout`. A layout has two more axes in memory, which must be
 * possible. */
static bool carried(const clade_shape *out, clade_layout layout, const clade_shape *in, clade_layout *have) {
  int shift = out->rank - in->rank, axis = layout.axis - shift;
  bool pairs = layout.interleave > 1;
  *have = (clade_layout){0};
  if (shift < 0 || out->rank + 2 > CLADE_MAX_RANK || layout.tile) return false;
  if (whole(in, axis, out, layout.axis) && (!pairs || whole(in, axis - 1, out, layout.axis - 1))) {
    *have = layout;
    have->axis = (int16_t)axis;
    return true;
  }
  return single(in, axis) && (!pairs || single(in, axis - 1));
}

static bool dense(const clade_node *n) {
  for (int i = 0; i < n->n_in + n->n_out; i++)
    if ((i < n->n_in ? &n->in[i] : &n->out[i - n->n_in])->layout.block) return false;
  return true;
}

/* The node's layouts if its outputs have `layout`; false: impossible. */
static bool spread_layouts(clade__choice *c, const clade__node *n, const clade_node *view, clade_layout layout,
                           uint8_t *indices) {
  clade_layout wanted[2 * CLADE_MAX_OPERANDS];
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    const clade_type *type = i < n->n_in ? &view->in[i] : &view->out[i - n->n_in];
    const clade__layouts *f = layouts_of(c, operand(n, i));
    if (i >= n->n_in && !clade_shape_equal(&type->shape, &view->out[0].shape)) return false;
    if (!carried(&view->out[0].shape, layout, &type->shape, &wanted[i]) || !fits(type, wanted[i])) return false;
    if (find_layout(f, wanted[i]) < 0 && f->count == CLADE__MOST_LAYOUTS) return false;
  }
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    int at = clade__layout_index(c, operand(n, i), wanted[i]);
    if (at < 0) return false;
    indices[i] = (uint8_t)at;
  }
  return true;
}

static clade_status spread_layout(clade__choice *c, clade__id id, const clade_node *view, clade_layout layout) {
  const clade__node *n = &c->g->nodes[id];
  uint8_t indices[2 * CLADE_MAX_OPERANDS];
  int32_t config[CLADE_MAX_PARAMS];
  clade_query q = {sizeof q, view, &c->ctx->devices[n->device], NULL};
  int known = find_layout(layouts_of(c, n->first_out), layout);
  for (int i = 0; known >= 0 && i < c->candidates[id].count; i++)
    if (c->candidates[id].at[i].indices[n->n_in] == known) return CLADE_OK;
  if (!spread_layouts(c, n, view, layout, indices)) return CLADE_OK;
  const clade_impl *const *impls = clade__impls(n->op);
  for (int i = 0; impls[i]; i++) {
    const clade_impl *impl = impls[i];
    clade__candidate candidate = {.impl = i, .indices = indices};
    if (!impl->any_layout || clade__pick_refuses(&c->candidates[id].pick, i, 0)) continue;
    clade__pick_query(c->ctx, &q, n->device, &c->candidates[id].pick, i, 0, config);
    if (clade__impl_refuses(c->ctx, impl, &q)) continue;
    CLADE_TRY(cost_and_config(c, id, &q, &candidate));
    CLADE_TRY(clade__candidate_add(c, id, &candidate));
  }
  return CLADE_OK;
}

static clade_status spread_node(clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  bool any = false, layouts = false;
  if (!c->candidates[id].count || !clade__needs_impl(n->op) || !n->n_out) return CLADE_OK;
  for (const clade_impl *const *impl = clade__impls(n->op); *impl; impl++) any |= (*impl)->any_layout;
  for (int i = 0; i < n->n_in + n->n_out; i++) layouts |= layouts_of(c, operand(n, i))->count > 1;
  if (!any || !layouts) return CLADE_OK;
  clade__node_view(c->g, id, in, out, &view);
  if (!dense(&view)) return CLADE_OK;
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    const clade__layouts f = *layouts_of(c, operand(n, i)); /* copy: the array may grow */
    int shift = out[0].shape.rank - (i < n->n_in ? in[i].shape.rank : out[i - n->n_in].shape.rank);
    for (int k = 0; k < f.count; k++) {
      clade_layout layout = f.at[k];
      layout.axis = (int16_t)(layout.axis + shift);
      if (layout.block && layout.axis >= 0 && layout.axis < out[0].shape.rank)
        CLADE_TRY(spread_layout(c, id, &view, layout));
    }
  }
  return CLADE_OK;
}

/* Two rounds of a forward and a backward sweep, so that layouts found in one branch reach the others. */
clade_status clade__candidates_spread(clade__choice *c) {
  for (int round = 0; round < 2; round++) {
    for (clade__id id = 1; id < c->g->n_nodes; id++) CLADE_TRY(spread_node(c, id));
    for (clade__id id = (clade__id)c->g->n_nodes; id-- > 1;) CLADE_TRY(spread_node(c, id));
  }
  return CLADE_OK;
}

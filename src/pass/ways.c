/* The ways to compute each node: its implementations that accept, with the layouts that they ask for. */
#include "pass/ways.h"

bool clade__same_layout(clade_layout a, clade_layout b) {
  a.interleave = CLADE_MAX(a.interleave, 1);
  b.interleave = CLADE_MAX(b.interleave, 1);
  return clade__layout_equal(a, b);
}

/* ---- forms ---- */
static int find_form(const clade__forms *f, clade_layout layout) {
  for (int i = 0; i < f->count; i++)
    if (clade__same_layout(f->at[i], layout)) return i;
  return -1;
}

static clade__forms *forms_of(const clade__choice *c, clade__id value) { return &c->forms[c->root[value]]; }

int clade__form(clade__choice *c, clade__id value, clade_layout layout) {
  clade__forms *f = forms_of(c, value);
  int at = find_form(f, layout);
  if (at >= 0) return at;
  if (f->count == CLADE__MOST_FORMS) return -1;
  f->at[f->count] = layout;
  return f->count++;
}

int clade__form_built(const clade__choice *c, clade__id value) {
  return find_form(forms_of(c, value), clade__type(c->g, value)->layout);
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

void clade__way_view(const clade__choice *c, clade__id node, const clade__way *way, clade_type *in, clade_type *out,
                     clade_node *view) {
  const clade__node *n = &c->g->nodes[node];
  clade__node_view(c->g, node, in, out, view);
  for (int i = 0; i < n->n_in + n->n_out; i++)
    (i < n->n_in ? &in[i] : &out[i - n->n_in])->layout = forms_of(c, operand(n, i))->at[way->form[i]];
}

/* ---- ways ---- */
clade_status clade__way_add(clade__choice *c, clade__id node, const clade__way *way) {
  const clade__node *n = &c->g->nodes[node];
  clade__ways *w = &c->ways[node];
  size_t forms = (size_t)(n->n_in + n->n_out);
  for (int i = 0; i < w->count; i++) {
    clade__way *old = &w->at[i];
    if (memcmp(old->form, way->form, forms) != 0) continue;
    bool better = way->cost < old->cost;
    w->refusals[better ? old->impl : way->impl] = better || way->cost > old->cost ? "is dearer" : "comes later";
    if (better) old->impl = way->impl, old->cost = way->cost, old->row = way->row;
    return CLADE_OK;
  }
  if (w->count == CLADE__MOST_WAYS) {
    w->refusals[way->impl] = "comes after too many others with layouts of their own";
    return CLADE_OK;
  }
  clade__way copy = *way;
  copy.form = clade__arena_new(&c->arena, forms);
  if (!copy.form) return CLADE_NO_MEMORY;
  memcpy(copy.form, way->form, forms);
  if (w->count == 0 || w->count % 4 == 1) { /* mostly there is one */
    clade__way *larger = clade__arena_new(&c->arena, (size_t)(w->count ? w->count + 4 : 1) * sizeof *larger);
    if (!larger) return CLADE_NO_MEMORY;
    if (w->count) memcpy(larger, w->at, (size_t)w->count * sizeof *larger);
    w->at = larger;
  }
  w->at[w->count++] = copy;
  return CLADE_OK;
}

static void built_forms(const clade__choice *c, const clade__node *n, uint8_t *form) {
  for (int i = 0; i < n->n_in + n->n_out; i++) form[i] = (uint8_t)clade__form_built(c, operand(n, i));
}

/* The forms of the layouts that the implementation asks for; false: they cannot be had. */
static bool wanted_forms(clade__choice *c, clade__id node, const clade_impl *impl, const clade_query *q,
                         uint8_t *form) {
  const clade__node *n = &c->g->nodes[node];
  clade_layout wanted[2 * CLADE_MAX_OPERANDS] = {{0}};
  if (!impl->layouts) {
    built_forms(c, n, form);
    return true;
  }
  impl->layouts(q, wanted, wanted + n->n_in);
  for (int i = 0; i < n->n_in + n->n_out; i++)
    if (!fits(clade__type(c->g, operand(n, i)), wanted[i])) return false;
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    int at = clade__form(c, operand(n, i), wanted[i]);
    if (at < 0) return false;
    form[i] = (uint8_t)at;
  }
  return true;
}

/* Whether scratch memory leaves a func room for its values: some ask for it for each unit. By the device's own budget,
 * so that one set for a while changes no choice; what is pinned stays, and the op's last implementation is never
 * refused. */
static bool has_room(clade__choice *c, clade__id node, int number, const clade_query *q, const uint8_t *form) {
  const clade_impl *const *impls = clade__impls(q->node->op), *impl = impls[number];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade_query there = {sizeof there, &view, q->device, q->row};
  const char *why = c->ways[node].pick.why;
  if (!impl->workspace || !impls[number + 1] || !q->device->budget_bytes) return true; /* 0: nobody told */
  if (why && !strcmp(why, "pinned")) return true;
  clade__way_view(c, node, &(clade__way){.form = (uint8_t *)form}, in, out, &view);
  return impl->workspace(&there) <= q->device->budget_bytes / 4;
}

/* Leaves out what records say and what cannot be had, for its layouts or its scratch memory. */
static void fit_pick(clade__choice *c, clade__id node, clade_query *q) {
  clade__pick *pick = &c->ways[node].pick;
  uint8_t form[2 * CLADE_MAX_OPERANDS];
  int32_t row[CLADE_MAX_PARAMS];
  for (int i = 0; pick->count && i < CLADE__PICKED_IMPLS; i++) {
    if (!pick->of[i]) continue;
    clade__pick_query(c->ctx, q, c->g->nodes[node].device, pick, i, row);
    if (wanted_forms(c, node, clade__impls(q->node->op)[i], q, form) && has_room(c, node, i, q, form)) continue;
    pick->of[i] = NULL;
    pick->count--;
  }
}

/* As measured; where it was measured dense, and works in any layout, by how much more it is estimated to take. */
static double told_cost(const clade__pick *pick, int number, const clade_query *built, const clade_query *there) {
  const clade_impl *impl = clade__impls(built->node->op)[number];
  double told = clade__pick_told(pick, number), cost = clade__impl_cost(impl, there);
  if (!(told > 0)) return cost;
  return impl->any_layout ? told * cost / clade__impl_cost(impl, built) : told;
}

static clade_status cost_and_row(clade__choice *c, clade__id node, clade_query *q, clade__way *way) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const clade_query there = {sizeof there, &view, q->device, q->row};
  clade__way_view(c, node, way, in, out, &view);
  way->cost = told_cost(&c->ways[node].pick, way->impl, q, &there);
  way->row = NULL;
  if (!q->row) return CLADE_OK;
  int32_t *row = clade__arena_new(&c->arena, CLADE_MAX_PARAMS * sizeof *row);
  if (!row) return CLADE_NO_MEMORY;
  memcpy(row, q->row, CLADE_MAX_PARAMS * sizeof *row);
  way->row = row;
  return CLADE_OK;
}

static clade_status find_impls(clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  clade__ways *w = &c->ways[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  uint8_t form[2 * CLADE_MAX_OPERANDS];
  int32_t row[CLADE_MAX_PARAMS];
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
    const clade_impl *impl = impls[i];
    clade__way way = {.impl = (int)i, .form = form};
    clade__pick_query(c->ctx, &q, n->device, &w->pick, (int)i, row);
    w->refusals[i] = clade__impl_refuses(c->ctx, impl, &q);
    if (!w->refusals[i] && clade__pick_refuses(&w->pick, (int)i)) w->refusals[i] = "a tuning record says another";
    if (w->refusals[i]) continue;
    if (!wanted_forms(c, id, impl, &q, form)) {
      w->refusals[i] = "asks for layouts that cannot be had";
      continue;
    }
    if (!has_room(c, id, (int)i, &q, form)) {
      w->refusals[i] = "asks for more scratch memory than a quarter of what the device may use";
      continue;
    }
    CLADE_TRY(cost_and_row(c, id, &q, &way));
    CLADE_TRY(clade__way_add(c, id, &way));
  }
  return CLADE_OK;
}

static bool converts(const clade_op *op) { return op == &clade__op_pack || op == &clade__op_unpack; }

static clade_status find_node(clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  uint8_t form[2 * CLADE_MAX_OPERANDS];
  if (converts(n->op) && clade__form(c, n->in[0], clade__type(c->g, n->first_out)->layout) >= 0) {
    c->root[n->first_out] = c->root[n->in[0]];
    return CLADE_OK;
  }
  for (int i = 0; i < n->n_out; i++) {
    clade__id v = n->first_out + (clade__id)i;
    c->root[v] = v;
    c->forms[v].count = 1;
    c->forms[v].at[0] = clade__type(c->g, v)->layout;
  }
  if (clade__needs_impl(n->op)) return find_impls(c, id);
  if (n->n_out == 1) c->forms[n->first_out].frozen = clade__graph_frozen(c->g, n->first_out);
  built_forms(c, n, form);
  return clade__way_add(c, id, &(clade__way){.impl = -1, .form = form});
}

clade_status clade__ways_find(clade__choice *c) {
  for (clade__id id = 1; id < c->g->n_nodes; id++) CLADE_TRY(find_node(c, id));
  return CLADE_OK;
}

/* ---- nodes that work in any layout ---- */
static bool whole(const clade_shape *in, int axis, const clade_shape *out, int out_axis) {
  return axis >= 0 && in->dim[axis] == out->dim[out_axis];
}
static bool single(const clade_shape *in, int axis) { return axis < 0 || in->dim[axis] == 1; }

/* The layout of an operand beside outputs in `layout`. In memory there are two axes more, which must be possible. */
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

/* The node's forms where its outputs lie in `layout`; false: they cannot. */
static bool spread_forms(clade__choice *c, const clade__node *n, const clade_node *view, clade_layout layout,
                         uint8_t *form) {
  clade_layout wanted[2 * CLADE_MAX_OPERANDS];
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    const clade_type *type = i < n->n_in ? &view->in[i] : &view->out[i - n->n_in];
    const clade__forms *f = forms_of(c, operand(n, i));
    if (i >= n->n_in && !clade_shape_equal(&type->shape, &view->out[0].shape)) return false;
    if (!carried(&view->out[0].shape, layout, &type->shape, &wanted[i]) || !fits(type, wanted[i])) return false;
    if (find_form(f, wanted[i]) < 0 && f->count == CLADE__MOST_FORMS) return false;
  }
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    int at = clade__form(c, operand(n, i), wanted[i]);
    if (at < 0) return false;
    form[i] = (uint8_t)at;
  }
  return true;
}

static clade_status spread_layout(clade__choice *c, clade__id id, const clade_node *view, clade_layout layout) {
  const clade__node *n = &c->g->nodes[id];
  uint8_t form[2 * CLADE_MAX_OPERANDS];
  int32_t row[CLADE_MAX_PARAMS];
  clade_query q = {sizeof q, view, &c->ctx->devices[n->device], NULL};
  int known = find_form(forms_of(c, n->first_out), layout);
  for (int i = 0; known >= 0 && i < c->ways[id].count; i++)
    if (c->ways[id].at[i].form[n->n_in] == known) return CLADE_OK;
  if (!spread_forms(c, n, view, layout, form)) return CLADE_OK;
  const clade_impl *const *impls = clade__impls(n->op);
  for (int i = 0; impls[i]; i++) {
    const clade_impl *impl = impls[i];
    clade__way way = {.impl = i, .form = form};
    if (!impl->any_layout || clade__pick_refuses(&c->ways[id].pick, i)) continue;
    clade__pick_query(c->ctx, &q, n->device, &c->ways[id].pick, i, row);
    if (clade__impl_refuses(c->ctx, impl, &q)) continue;
    CLADE_TRY(cost_and_row(c, id, &q, &way));
    CLADE_TRY(clade__way_add(c, id, &way));
  }
  return CLADE_OK;
}

static clade_status spread_node(clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  bool any = false, forms = false;
  if (!c->ways[id].count || !clade__needs_impl(n->op) || !n->n_out) return CLADE_OK;
  for (const clade_impl *const *impl = clade__impls(n->op); *impl; impl++) any |= (*impl)->any_layout;
  for (int i = 0; i < n->n_in + n->n_out; i++) forms |= forms_of(c, operand(n, i))->count > 1;
  if (!any || !forms) return CLADE_OK;
  clade__node_view(c->g, id, in, out, &view);
  if (!dense(&view)) return CLADE_OK;
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    const clade__forms f = *forms_of(c, operand(n, i)); /* it may grow */
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

/* Down and up, twice: what one branch learns from above reaches the others. */
clade_status clade__ways_spread(clade__choice *c) {
  for (int round = 0; round < 2; round++) {
    for (clade__id id = 1; id < c->g->n_nodes; id++) CLADE_TRY(spread_node(c, id));
    for (clade__id id = (clade__id)c->g->n_nodes; id-- > 1;) CLADE_TRY(spread_node(c, id));
  }
  return CLADE_OK;
}

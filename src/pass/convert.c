/* Applies the choice: builds a graph with each node in its candidate's layouts, and reorders where needed. */
#include "op/move/pack.h"
#include "pass/candidates.h"

/* ---- cost of reorders ---- */
/* The cheapest implementation of a reorder for these types, or -1. */
static int cheapest(const clade_op *op, const void *attrs, const clade_device_info *device, const clade_type *in,
                    const clade_type *out, double *cost) {
  clade_type from = *in, to = *out;
  clade_node view = {sizeof view, op, "", attrs, 1, 1, &from, &to};
  clade_query q = {sizeof q, &view, device, NULL};
  int32_t config[CLADE_MAX_PARAMS];
  int best = -1;
  const clade_impl *const *impls = clade__impls(op);
  for (int i = 0; impls[i]; i++) {
    clade__query_defaults(&q, impls[i], config);
    if (clade__impl_unfit(impls[i], &q)) continue;
    double seconds = clade__impl_cost(impls[i], &q);
    if (best < 0 || seconds < *cost) best = i, *cost = seconds;
  }
  return best;
}

static clade__pack_attrs attrs_of(clade_layout layout) {
  clade__pack_attrs attrs;
  memset(&attrs, 0, sizeof attrs); /* attributes are compared and hashed bytewise */
  attrs.axis = layout.axis;
  attrs.block = layout.block;
  attrs.interleave = layout.interleave;
  attrs.tile = layout.tile;
  return attrs;
}

static double conversion_cost(const clade_op *op, const clade_device_info *device, const clade_type *type,
                              clade_layout layout) {
  clade_type dense = *type, blocked = *type;
  const clade__pack_attrs attrs = attrs_of(layout);
  double cost = 0;
  dense.layout = (clade_layout){0};
  blocked.layout = layout;
  bool packs = op == &clade__op_pack;
  cheapest(op, packs ? &attrs : NULL, device, packs ? &dense : &blocked, packs ? &blocked : &dense, &cost);
  return cost;
}

double clade__pack_cost(const clade_device_info *device, const clade_type *type, clade_layout layout) {
  return conversion_cost(&clade__op_pack, device, type, layout);
}

double clade__unpack_cost(const clade_device_info *device, const clade_type *type, clade_layout layout) {
  return conversion_cost(&clade__op_unpack, device, type, layout);
}

/* ---- building the graph ---- */
typedef struct writer {
  const clade__choice *c;
  clade__id (*there)[CLADE__MOST_LAYOUTS]; /* by root and layout: new value, or 0 */
  bool *output;                            /* by value */
} writer;

static clade_status keep_impl(clade_graph *g, clade__node *n, int impl, const int32_t *config,
                              const char *const *refusals) {
  const size_t count = (size_t)clade__impls_count(n->op);
  int32_t *kept = NULL;
  n->refusals = clade__arena_new(&g->arena, (count + 1) * sizeof *n->refusals);
  if (config) kept = clade__arena_new(&g->arena, CLADE_MAX_PARAMS * sizeof *kept);
  if (!n->refusals || (config && !kept)) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < count; i++)
    n->refusals[i] = refusals && refusals[i] ? refusals[i] : "costs more, layout conversions included";
  if (config) memcpy(kept, config, CLADE_MAX_PARAMS * sizeof *kept);
  n->config = kept;
  n->impl = impl;
  return CLADE_OK;
}

static clade_status convert(const clade__choice *c, clade_graph *g, const clade_op *op, clade__id from,
                            clade_layout layout, clade__id *out) {
  const clade__pack_attrs attrs = attrs_of(layout);
  int device = g->nodes[g->values[from].node].device;
  const clade_device_info *info = &c->ctx->devices[device];
  int32_t config[CLADE_MAX_PARAMS];
  clade__id id;
  double cost = 0;
  g->device = device;
  CLADE_TRY(clade__node_new(g, op, "", layout.block ? &attrs : NULL, 1, &from, &id));
  clade__node *n = &g->nodes[id];
  *out = n->first_out;
  int impl = cheapest(op, n->attrs, info, clade__type(g, from), clade__type(g, *out), &cost);
  if (impl < 0) return CLADE_FAIL(INTERNAL, "%s: no implementation takes it", op->name);
  clade_type in, type;
  clade_node view;
  clade__node_view(g, id, &in, &type, &view);
  clade_query q = {sizeof q, &view, info, NULL};
  const char *refusals[CLADE__MOST_CANDIDATES] = {NULL};
  const clade_impl *const *impls = clade__impls(op);
  for (int i = 0; i < CLADE__MOST_CANDIDATES && impls[i]; i++) {
    clade__query_defaults(&q, impls[i], config);
    refusals[i] = clade__impl_unfit(impls[i], &q);
  }
  clade__query_defaults(&q, impls[impl], config);
  n->why = "cheapest";
  return keep_impl(g, n, impl, q.config, refusals);
}

/* Returns the value in a layout, reordering if needed. Blocked layouts are made from dense. */
static clade_status want(writer *w, clade_graph *g, clade__id root, int indices, clade__id *out) {
  const clade__layouts *f = &w->c->layouts[root];
  clade__id *there = w->there[root], dense = 0, blocked = 0;
  *out = there[indices];
  if (*out) return CLADE_OK;
  for (int k = 0; k < f->count; k++) {
    if (there[k] && !f->at[k].block) dense = there[k];
    if (there[k] && f->at[k].block && !blocked) blocked = there[k];
  }
  if (!dense) {
    CLADE_TRY(convert(w->c, g, &clade__op_unpack, blocked, (clade_layout){0}, &dense));
    for (int k = 0; k < f->count; k++)
      if (!f->at[k].block) there[k] = dense;
  }
  if (f->at[indices].block)
    CLADE_TRY(convert(w->c, g, &clade__op_pack, dense, f->at[indices], out));
  else
    *out = dense;
  there[indices] = *out;
  return CLADE_OK;
}

static clade_status write_way(writer *w, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__choice *c = w->c;
  const clade__node *n = &old->nodes[node];
  const clade__candidates *candidates = &c->candidates[node];
  const clade__candidate *candidate = &candidates->at[candidates->chosen];
  clade__id in[CLADE_MAX_OPERANDS], id;
  clade_type types[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(want(w, g, c->root[n->in[i]], candidate->indices[i], &in[i]));
  clade__candidate_view(c, node, candidate, types, out, &view);
  CLADE_TRY(clade__node_relaid(g, n, in, out, &id));
  CLADE_TRY(clade__map_outputs(n, g, id, map));
  for (int i = 0; i < n->n_out; i++) {
    clade__id v = n->first_out + (clade__id)i;
    w->there[v][candidate->indices[n->n_in + i]] = map[v];
  }
  if (candidate->impl < 0) return CLADE_OK;
  const int alternative = clade__alternative_of(clade__impls(n->op)[candidate->impl], candidate->config);
  size_t length;
  g->nodes[id].seconds = clade__pick_told(&candidates->pick, candidate->impl, alternative);
  g->nodes[id].why = candidates->pick.count                                   ? candidates->pick.why
                     : clade__preferred(c->ctx->prefer, n->op->name, &length) ? "asked for"
                                                                              : "cheapest";
  return keep_impl(g, &g->nodes[id], candidate->impl, candidate->config, candidates->refusals);
}

static clade_status write(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  writer *w = user;
  const clade__choice *c = w->c;
  const clade__node *n = &old->nodes[node];
  if (!n->n_in && c->candidates[node].at[0].impl < 0) {
    CLADE_TRY(clade__node_copy(old, node, g, map));
    w->there[n->first_out][0] = map[n->first_out];
  } else if (c->candidates[node].count) {
    CLADE_TRY(write_way(w, old, node, g, map));
  }
  for (int i = 0; i < n->n_out; i++) { /* outputs keep their built layouts */
    clade__id v = n->first_out + (clade__id)i;
    if (w->output[v]) CLADE_TRY(want(w, g, c->root[v], clade__layout_built(c, v), &map[v]));
  }
  return CLADE_OK;
}

clade_status clade__candidates_apply(clade__choice *c, clade__pass_ctx *ctx) {
  clade_status status = CLADE_NO_MEMORY;
  writer w = {.c = c};
  w.there = clade__new(c->g->n_values, sizeof *w.there);
  w.output = clade__new(c->g->n_values, sizeof *w.output);
  if (!w.there || !w.output) goto fail;
  for (size_t i = 0; i < c->g->outputs.count; i++) w.output[c->g->outputs.at[i].value] = true;
  CLADE_GOTO(clade__pass_rewrite(ctx, write, &w));
fail:
  clade__free(w.there);
  clade__free(w.output);
  return status;
}

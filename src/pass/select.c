/* Selects implementations and layouts with the least total cost, including reorders. Ties go to the first candidate;
 * refusals are recorded with reasons. */
#include "pass/candidates.h"

bool clade__needs_impl(const clade_op *op) {
  return op != &clade__op_input && op != &clade__op_variable && op != &clade__op_constant && op != &clade__op_assign &&
         op != &clade__op_transfer && !(op->flags & CLADE_OP_VIEW);
}

const char *clade__impl_refuses(const clade__pass_ctx *ctx, const clade_impl *impl, const clade_query *q) {
  size_t length = 0;
  const char *want = clade__preferred(ctx->prefer, q->node->op->name, &length);
  int alternative;
  if (want && !clade__impl_is(impl, want, length, &alternative)) return "another one is preferred";
  if (want && alternative >= 0 && alternative != clade__alternative_of(impl, q->config))
    return "other layouts are preferred";
  if (impl->loose && ctx->strict) return "excluded by .strict: it has an error bound of its own";
  return clade__impl_unfit(impl, q);
}

static void tell_fallback(const clade__choice *c, clade__id id, clade__text *text) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  double seconds;
  int fallback = c->ctx->fallback;
  if (fallback < 0) {
    clade__text_add(text, "; a fallback device, one that compiles, may take it (.fallback, --fallback)");
    return;
  }
  clade__node_view(c->g, id, in, out, &view);
  clade__text_add(text,
                  clade__least_impl(c->ctx, &view, fallback, &seconds) >= 0 ? "; the fallback device, %s, would"
                                                                            : "; nor does the fallback device, %s",
                  c->ctx->devices[fallback].name);
}

static clade_status nobody(const clade__choice *c, clade__id id) {
  const clade__node *n = &c->g->nodes[id];
  size_t want_length = 0;
  const char *want = clade__preferred(c->ctx->prefer, n->op->name, &want_length);
  clade__text text = {0};
  char type[640];
  clade__text_add(&text, "%s", n->op->name);
  if (*n->name) clade__text_add(&text, " \"%s\"", n->name);
  clade__text_add(&text, " (");
  for (int i = 0; i < n->n_in; i++)
    clade__text_add(&text, "%s%s", i ? ", " : "", clade__type_text(clade__type(c->g, n->in[i]), type, sizeof type));
  clade__text_add(&text, ") on %s: no implementation takes it", c->ctx->devices[n->device].name);
  if (want) clade__text_add(&text, ", \"%.*s\" is asked for", (int)CLADE_MIN(want_length, 64u), want);
  const clade_impl *const *impls = clade__impls(n->op);
  for (int i = 0; impls[i]; i++) clade__text_add(&text, "; %s: %s", impls[i]->name, c->candidates[id].refusals[i]);
  if (c->ctx->devices[n->device].kernels) tell_fallback(c, id, &text);
  clade_status status = clade_fail(want ? CLADE_NOT_FOUND : CLADE_UNSUPPORTED, "%s", text.failed ? "" : text.data);
  if (text.failed) status = CLADE_FAIL(NO_MEMORY, "no memory for a message");
  clade__text_free(&text);
  return status;
}

void clade__query_defaults(clade_query *q, const clade_impl *impl, int32_t config[CLADE_MAX_PARAMS]) {
  clade__query_alternative(q, impl, 0, config);
}

void clade__query_alternative(clade_query *q, const clade_impl *impl, int alternative,
                              int32_t config[CLADE_MAX_PARAMS]) {
  q->config = NULL;
  if (!impl->space) return;
  memset(config, 0, CLADE_MAX_PARAMS * sizeof *config);
  config[0] = alternative;
  if (!clade__impl_lacks(impl, q)) impl->space->defaults(q, config);
  q->config = config;
}

double clade__impl_cost(const clade_impl *impl, const clade_query *q) {
  double cost = impl->cost ? impl->cost(q) : 1e9;
  return cost >= 0 && cost < 1e9 ? cost : 1e9; /* NaN counts as unknown */
}

int clade__least_impl(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds) {
  clade_query q = {sizeof q, view, &ctx->devices[device], NULL};
  int32_t config[CLADE_MAX_PARAMS];
  const clade_impl *const *impls = clade__impls(view->op);
  int least = -1;
  for (int i = 0; impls[i]; i++)
    for (int a = 0; a < clade__alternatives(impls[i]); a++) {
      clade__query_alternative(&q, impls[i], a, config);
      if (clade__impl_refuses(ctx, impls[i], &q)) continue;
      double cost = clade__impl_cost(impls[i], &q);
      if (least >= 0 && cost >= *seconds) continue;
      *seconds = cost;
      least = i;
    }
  return least;
}

static clade_status find_all(clade__choice *c) {
  const clade_graph *g = c->g;
  c->candidates = clade__new(g->n_nodes, sizeof *c->candidates);
  c->root = clade__new(g->n_values, sizeof *c->root);
  c->layouts = clade__new(g->n_values, sizeof *c->layouts);
  if (!c->candidates || !c->root || !c->layouts) return CLADE_NO_MEMORY;
  CLADE_TRY(clade__candidates_find(c));
  for (clade__id id = 1; id < g->n_nodes; id++)
    if (c->candidates[id].refusals && !c->candidates[id].count) return nobody(c, id);
  return clade__candidates_spread(c);
}

clade_status clade__pass_select(clade__pass_ctx *ctx) {
  clade_status status = CLADE_OK;
  clade__choice c = {.ctx = ctx, .g = ctx->graph};
  CLADE_GOTO(find_all(&c));
  CLADE_GOTO(clade__candidates_choose(&c));
  CLADE_GOTO(clade__candidates_apply(&c, ctx));
fail:
  clade__free(c.candidates);
  clade__free(c.root);
  clade__free(c.layouts);
  clade__arena_free(&c.arena);
  return status;
}

/* Chooses each node's implementation: the cheapest that accepts; order breaks ties; who refuses says why. */
#include "pass/pass.h"

bool clade__needs_impl(const clade_op *op) {
  return op != &clade__op_input && op != &clade__op_variable && op != &clade__op_constant && op != &clade__op_assign &&
         op != &clade__op_transfer && !(op->flags & CLADE_OP_VIEW);
}

static bool same_layout(clade_layout a, clade_layout b) {
  return a.block == b.block && (!a.block || (a.axis == b.axis && a.interleave == b.interleave));
}

/* Operands come in the layouts that they have: nothing is packed on the way. */
static bool layouts_fit(const clade_impl *impl, const clade_query *q) {
  clade_layout in[CLADE_MAX_OPERANDS] = {0}, out[CLADE_MAX_OPERANDS] = {0};
  if (!impl->layouts) return true;
  impl->layouts(q, in, out);
  for (int i = 0; i < q->node->n_in; i++)
    if (!same_layout(in[i], q->node->in[i].layout)) return false;
  for (int i = 0; i < q->node->n_out; i++)
    if (!same_layout(out[i], q->node->out[i].layout)) return false;
  return true;
}

static const char *refusal(const clade_impl *impl, const clade_query *q, const char *want, size_t want_length) {
  if (want && !(strlen(impl->name) == want_length && strncmp(impl->name, want, want_length) == 0))
    return "another one was asked for";
  const char *reason = impl->accept ? impl->accept(q) : NULL;
  if (!reason && !layouts_fit(impl, q)) reason = "wants other layouts than its operands have";
  return reason;
}

static clade_status nobody(const clade_graph *g, const clade__node *n, const clade_device_info *device,
                           const char *want, size_t want_length) {
  clade__text text = {0};
  char type[640];
  clade__text_add(&text, "%s", n->op->name);
  if (*n->name) clade__text_add(&text, " \"%s\"", n->name);
  clade__text_add(&text, " (");
  for (int i = 0; i < n->n_in; i++)
    clade__text_add(&text, "%s%s", i ? ", " : "", clade__type_text(clade__type(g, n->in[i]), type, sizeof type));
  clade__text_add(&text, ") on %s: no implementation takes it", device->name);
  if (want) clade__text_add(&text, ", \"%.*s\" is asked for", (int)CLADE_MIN(want_length, 64u), want);
  for (int i = 0; n->op->impls && n->op->impls[i].name; i++)
    clade__text_add(&text, "; %s: %s", n->op->impls[i].name, n->refusals[i]);
  clade_status status = clade_fail(want ? CLADE_NOT_FOUND : CLADE_UNSUPPORTED, "%s", text.failed ? "" : text.data);
  if (text.failed) status = CLADE_FAIL(NO_MEMORY, "no memory for a message");
  clade__text_free(&text);
  return status;
}

void clade__query_start(clade_query *q, const clade_impl *impl, int32_t row[CLADE_MAX_PARAMS]) {
  q->row = NULL;
  if (!impl->space) return;
  memset(row, 0, CLADE_MAX_PARAMS * sizeof *row);
  impl->space->start(q, row);
  q->row = row;
}

double clade__impl_cost(const clade_impl *impl, const clade_query *q) { return impl->cost ? impl->cost(q) : 1e9; }

static clade_status keep_row(clade_graph *g, clade__node *n, const int32_t *row) {
  int32_t *copy = clade__arena_new(&g->arena, CLADE_MAX_PARAMS * sizeof *copy);
  if (!copy) return CLADE_NO_MEMORY;
  memcpy(copy, row, CLADE_MAX_PARAMS * sizeof *copy);
  n->row = copy;
  return CLADE_OK;
}

static clade_status choose(const clade__pass_ctx *ctx, clade_graph *g, clade__id id) {
  clade__node *n = &g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade_query q = {sizeof q, &view, &ctx->devices[n->device], NULL};
  int32_t row[CLADE_MAX_PARAMS], kept[CLADE_MAX_PARAMS] = {0};
  int count = 0;
  size_t want_length = 0;
  const char *want = clade__preferred(ctx->prefer, n->op->name, &want_length);
  while (n->op->impls && n->op->impls[count].name) count++;
  clade__node_view(g, id, in, out, &view);
  n->refusals = clade__arena_new(&g->arena, ((size_t)count + 1) * sizeof *n->refusals);
  if (!n->refusals) return CLADE_NO_MEMORY;
  double best = 0;
  n->impl = -1;
  for (int i = 0; i < count; i++) {
    const clade_impl *impl = &n->op->impls[i];
    clade__query_start(&q, impl, row);
    n->refusals[i] = refusal(impl, &q, want, want_length);
    if (n->refusals[i]) continue;
    double cost = clade__impl_cost(impl, &q);
    if (n->impl >= 0 && cost >= best) continue;
    n->impl = i, best = cost;
    memcpy(kept, row, sizeof kept);
  }
  if (n->impl < 0) return nobody(g, n, q.device, want, want_length);
  return n->op->impls[n->impl].space ? keep_row(g, n, kept) : CLADE_OK;
}

static clade_status select_node(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  CLADE_TRY(clade__node_copy(old, node, g, map));
  return clade__needs_impl(old->nodes[node].op) ? choose(user, g, (clade__id)g->n_nodes - 1) : CLADE_OK;
}

clade_status clade__pass_select(clade__pass_ctx *ctx) { return clade__pass_rewrite(ctx, select_node, ctx); }

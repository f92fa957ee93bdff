/* Prints the chosen implementation of each node, and why others were refused. */
#include "pass/pass.h"

/* The configuration, if a record or pin decided. */
static void explain_row(const clade__node *n, clade__text *out) {
  const clade_space *space = clade__impls(n->op)[n->impl]->space;
  if (strcmp(n->why, "measured") != 0 && strcmp(n->why, "pinned") != 0) return;
  clade__text_add(out, " (%s", n->why);
  for (int i = 0; n->config && space->params[i]; i++)
    clade__text_add(out, "%s%s=%d", i ? " " : ": ", space->params[i], (int)n->config[i]);
  clade__text_add(out, ")");
}

static void explain_refusals(const clade__node *n, clade__text *out) {
  const clade_impl *const *impls = clade__impls(n->op);
  for (int i = 0; impls[i]; i++)
    if (i != n->impl) clade__text_add(out, "; %s: %s", impls[i]->name, n->refusals[i]);
}

/* Operands of a product that are read in place, without a copy. */
static void explain_views(const clade__node *n, clade__text *out) {
  char shape[200];
  if (n->op != &clade__op_gemm) return;
  const clade__gemm_attrs *at = n->attrs;
  for (int i = 0; i < 2; i++)
    if (at->shape[i].rank)
      clade__text_add(out, "; operand %d is read where it lies, as %s", i,
                      clade_shape_text(&at->shape[i], shape, sizeof shape));
}

/* First use of a value. */
typedef struct use {
  clade__id node;
  int operand;
} use;

/* The node for which a value is reordered. */
static void explain_conversion(const clade_graph *g, const clade__node *n, const use *uses, clade__text *out) {
  const use *to = &uses[n->first_out];
  const clade__node *from = &g->nodes[g->values[n->in[0]].node], *user = &g->nodes[to->node];
  clade__text_add(out, "; of %s", from->op->name);
  if (*from->name) clade__text_add(out, " \"%s\"", from->name);
  if (n->op == &clade__op_pack && clade__graph_frozen(g, n->in[0])) clade__text_add(out, ", once for each value of it");
  if (!to->node) {
    clade__text_add(out, ", for an output");
    return;
  }
  clade__text_add(out, ", for operand %d of %s", to->operand, user->op->name);
  if (*user->name) clade__text_add(out, " \"%s\"", user->name);
  if (user->impl >= 0) clade__text_add(out, " (%s)", clade__impls(user->op)[user->impl]->name);
}

/* Source and target type of a cast. */
static void explain_cast(const clade_graph *g, const clade__node *n, clade__text *out) {
  if (!clade__is_cast(n)) return;
  const clade__node *from = &g->nodes[g->values[n->in[0]].node];
  clade__text_add(out, "; a cast of %s from %s", from->op->name, clade_dtype_name(clade__type(g, n->in[0])->dtype));
  if (*from->name) clade__text_add(out, ", \"%s\"", from->name);
  if (clade__graph_frozen(g, n->in[0])) clade__text_add(out, ", once for each value of it");
}

/* Why a node is on the fallback device: the refusals of the bundle device. */
static void explain_fallback(const clade__pass_ctx *ctx, clade__id id, clade__text *out) {
  clade_type in[CLADE_MAX_OPERANDS], outs[CLADE_MAX_OPERANDS];
  int32_t config[CLADE_MAX_PARAMS];
  clade_node view;
  clade__node_view(ctx->graph, id, in, outs, &view);
  for (int d = 0; d < ctx->n_devices; d++) {
    clade_query q = {sizeof q, &view, &ctx->devices[d], NULL};
    int bundled = 0;
    if (!q.device->kernels) continue;
    for (const clade_impl *const *impl = clade__impls(view.op); *impl; impl++) {
      if (!(*impl)->bundled) continue;
      clade__query_defaults(&q, *impl, config);
      const char *refusal = clade__impl_refuses(ctx, *impl, &q);
      clade__text_add(out, "; on %s %s: %s", q.device->name, (*impl)->name, refusal ? refusal : "would take it");
      bundled++;
    }
    if (!bundled) clade__text_add(out, "; on %s: no kernel of bundles is made for it", q.device->name);
  }
}

static void explain_node(const clade__pass_ctx *ctx, clade__id id, const use *uses, clade__text *out) {
  const clade_graph *g = ctx->graph;
  const clade__node *n = &g->nodes[id];
  const clade_device_info *device = &ctx->devices[n->device];
  char type[640];
  clade__text_add(out, "%s", n->op->name);
  if (*n->name) clade__text_add(out, " \"%s\"", n->name);
  for (int i = 0; i < n->n_out; i++)
    clade__text_add(out, "%s%s", i ? ", " : " ",
                    clade__type_text(clade__type(g, n->first_out + (clade__id)i), type, sizeof type));
  if (!clade__needs_impl(n->op)) {
    if (n->op == &clade__op_transfer)
      clade__text_add(out, ": a copy from %s to %s%s\n", ctx->devices[g->nodes[g->values[n->in[0]].node].device].name,
                      device->name, clade__graph_frozen(g, n->in[0]) ? ", once for each value of it" : "");
    else
      clade__text_add(out, ": a view\n");
    return;
  }
  clade__text_add(out, " on %s: %s", device->name, n->impl < 0 ? "not chosen yet" : clade__impls(n->op)[n->impl]->name);
  if (n->impl >= 0) explain_row(n, out);
  if (n->impl >= 0 && !ctx->brief) explain_refusals(n, out);
  explain_views(n, out);
  explain_cast(g, n, out);
  if (n->device == ctx->fallback && !ctx->brief) explain_fallback(ctx, id, out);
  if (n->op == &clade__op_pack || n->op == &clade__op_unpack) explain_conversion(g, n, uses, out);
  clade__text_add(out, "\n");
}

void clade__explain(const clade__pass_ctx *ctx, clade__text *out) {
  const clade_graph *g = ctx->graph;
  use *uses = clade__new(g->n_values, sizeof *uses);
  out->failed |= !uses;
  for (clade__id id = (clade__id)g->n_nodes; uses && id-- > 1;)
    for (int i = g->nodes[id].n_in; i-- > 0;) uses[g->nodes[id].in[i]] = (use){id, i};
  for (clade__id id = 1; uses && id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    bool port = !n->n_in && !clade__needs_impl(n->op);
    if (!port && n->op != &clade__op_assign && n->device < ctx->n_devices) explain_node(ctx, id, uses, out);
  }
  clade__free(uses);
}

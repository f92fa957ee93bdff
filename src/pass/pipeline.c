/* The order of passes. */
#include "pass/pass.h"

clade_status clade__pass_rewrite(clade__pass_ctx *ctx, clade__rewrite_fn *fn, void *user) {
  clade_graph *next;
  CLADE_TRY(clade__graph_rewrite(ctx->graph, fn, user, &next));
  clade_graph_release(ctx->graph);
  ctx->graph = next;
  return CLADE_OK;
}

/* Checks what builders cannot: that there is something to compute and that the devices exist. */
static clade_status check(clade__pass_ctx *ctx) {
  const clade_graph *g = ctx->graph;
  bool effect = g->outputs.count > 0;
  CLADE_TRY(clade_graph_status(g));
  if (ctx->n_devices < 1) return CLADE_FAIL(INVALID, "compile: %d devices", ctx->n_devices);
  for (size_t i = 1; i < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[i];
    effect |= (n->op->flags & CLADE_OP_EFFECT) != 0;
    if (n->device >= ctx->n_devices)
      return CLADE_FAIL(INVALID, "compile: %s \"%s\" (node %zu) is placed on device %d, of %d", n->op->name, n->name, i,
                        n->device, ctx->n_devices);
  }
  return effect ? CLADE_OK : CLADE_FAIL(INVALID, "compile: the graph has no output and assigns nothing");
}

typedef struct step {
  clade_status (*run)(clade__pass_ctx *ctx);
  bool fusion; /* skipped with no_fusion */
} step;

static const step generic[] = {
    {check, false},
    {clade__pass_prefer, false}, /* first, while all named nodes exist */
    {clade__pass_place_words, false},
    {clade__pass_quantize, false}, /* before casts hide the layers */
    {clade__pass_autocast, false}, /* before fold, which loses which derivative belongs to which node */
    {clade__pass_fold, false},
    {clade__pass_dead, false},
    {clade__pass_place, false}, /* after dead code elimination, to avoid unused transfers */
};
static const step specific[] = {
    {clade__pass_fold, false},                                    /* again: specialization reveals equal shapes */
    {clade__pass_integers, false},                                /* cost-based, so after specialization */
    {clade__pass_dead, false},     {clade__pass_fallback, false}, /* then joins what was brought together */
    {clade__pass_views, true},     {clade__pass_masks, true},     {clade__pass_dead, true},
    {clade__pass_fuse, true},      {clade__pass_select, false},
};

static clade_status run(clade__pass_ctx *ctx, const step *steps, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(steps[i].fusion && ctx->no_fusion)) CLADE_TRY(steps[i].run(ctx));
  return CLADE_OK;
}

clade_status clade__passes_generic(clade__pass_ctx *ctx) { return run(ctx, generic, CLADE_COUNT(generic)); }
clade_status clade__passes_specific(clade__pass_ctx *ctx) { return run(ctx, specific, CLADE_COUNT(specific)); }

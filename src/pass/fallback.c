/* Moves nodes from devices with bundles to the fallback device: those without a bundle kernel, and those for which
 * that is cheaper in total, including transfers and program changes. */
#include <stdio.h>

#include "pass/sites.h"

/* ---- possible devices of a node ---- */
static unsigned word_of(const char *text, size_t n) {
  if (clade__word_is("home", text, n)) return CLADE__HOME;
  return clade__word_is("fallback", text, n) || clade__is_old_name("fallback", text, n) ? CLADE__AWAY : 0;
}

unsigned clade__forced(const clade__pass_ctx *ctx, const clade__node *n) {
  size_t length = 0;
  const char *want = *n->name ? clade__preferred(ctx->place, n->name, &length) : NULL;
  if (!want) want = clade__preferred(ctx->place, n->op->name, &length);
  return want ? word_of(want, length) : 0;
}

static bool stays(const clade_op *op) {
  return op == &clade__op_input || op == &clade__op_variable || op == &clade__op_constant || op == &clade__op_assign ||
         op == &clade__op_transfer;
}

/* Cost on a device: measured, else estimated. */
static clade_status find_cost(const clade__sites *s, const clade_node *view, int place, int device, clade__site *site) {
  double measured;
  const int number = clade__least_impl(s->ctx, view, device, &site->cost[place]);
  if (number < 0) return CLADE_OK;
  const clade_impl *impl = clade__impls(view->op)[number];
  site->may |= 1u << place;
  if (!place && impl->bundled) site->program = clade__program_of(&s->ctx->devices[device], impl->bundled);
  CLADE_TRY(clade__pick_seconds(s->ctx, view, device, &measured));
  if (measured > 0) site->cost[place] = measured;
  return CLADE_OK;
}

static clade_status find_site(clade__sites *s, clade__id id) {
  const clade__pass_ctx *ctx = s->ctx;
  const clade__node *n = &s->g->nodes[id];
  clade__site *site = &s->at[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  unsigned forced = clade__forced(ctx, n);
  *site = (clade__site){.may = CLADE__HOME, .program = CLADE__ANY_PROGRAM};
  if (stays(n->op) || n->device == ctx->fallback) return CLADE_OK;
  if (ctx->devices[n->device].kernels && clade__needs_impl(n->op)) {
    site->may = 0;
    clade__node_view(s->g, id, in, out, &view);
    CLADE_TRY(find_cost(s, &view, 0, n->device, site));
    CLADE_TRY(find_cost(s, &view, 1, ctx->fallback, site));
    if (!site->may) site->may = CLADE__HOME; /* the select pass reports the refusals */
  } else if (ctx->devices[n->device].kernels) {
    site->may = CLADE__HOME | CLADE__AWAY;
  }
  if (forced) site->may = forced;
  return CLADE_OK;
}

/* ---- recorded placements ---- */
/* Key of a node in the choices. Uses the node's number instead of its constants, which may differ, as for a longer
 * schedule. */
enum { SITE_NAME = 768 };
static void name_site(const clade_graph *g, clade__id id, char name[SITE_NAME]) {
  const clade__node *n = &g->nodes[id];
  char type[640] = "";
  if (n->n_out) clade__type_text(clade__type(g, n->first_out), type, sizeof type);
  snprintf(name, SITE_NAME, "node %u of %zu %s", (unsigned)id, g->n_nodes, type);
}

/* Restricts a node to its recorded device, if possible. */
static void pin(clade__sites *p, clade__id id) {
  clade__site *s = &p->at[id];
  char name[SITE_NAME];
  s->kept = s->may == (CLADE__HOME | CLADE__AWAY);
  if (!p->ctx->pins) return;
  name_site(p->g, id, name);
  const clade__record *r = clade__records_find(p->ctx->pins, p->g->nodes[id].op->name, name, "");
  unsigned place = r ? word_of(r->impl, strlen(r->impl)) : 0;
  if (place & s->may)
    s->may = place;
  else if (r)
    clade__log(CLADE_LOG_WARNING, "%s (%s): the place that was kept, %s, does not hold here: it is placed anew", r->op,
               r->problem, r->impl);
}

/* Records the devices of nodes with a choice, so that they can be placed alike later. */
static clade_status tell(const clade__sites *p, const int *device, clade__records **placed) {
  char name[SITE_NAME];
  for (clade__id id = 1; id < p->g->n_nodes; id++) {
    if (!p->at[id].kept) continue;
    if (!*placed) CLADE_TRY(clade__records_new(&(clade__tuned_device){.device_class = CLADE_CPU}, placed));
    name_site(p->g, id, name);
    CLADE_TRY(
        clade__records_put(*placed, &(clade__record){.op = p->g->nodes[id].op->name,
                                                     .problem = name,
                                                     .impl = device[id] == p->ctx->fallback ? "fallback" : "home"}));
  }
  return CLADE_OK;
}

static clade_status place(clade__pass_ctx *ctx) {
  const clade_graph *g = ctx->graph;
  clade_status status = CLADE_NO_MEMORY;
  clade__sites s = {.ctx = ctx, .g = g};
  bool moved = false;
  int *device = clade__new(g->n_nodes, sizeof *device);
  s.at = clade__new(g->n_nodes, sizeof *s.at);
  s.links = clade__new((size_t)ctx->n_devices, sizeof *s.links);
  if (!device || !s.at || !s.links) goto fail;
  for (int i = 0; i < ctx->n_devices; i++) s.links[i] = clade__link_find(ctx, i);
  for (clade__id id = 1; id < g->n_nodes; id++) {
    CLADE_GOTO(find_site(&s, id));
    pin(&s, id);
  }
  CLADE_GOTO(clade__sites_place(&s, device));
  CLADE_GOTO(tell(&s, device, &ctx->placed));
  for (clade__id id = 1; id < g->n_nodes; id++) moved |= device[id] != g->nodes[id].device;
  if (moved) CLADE_GOTO(clade__place_on(ctx, device));
  if (moved) CLADE_GOTO(clade__pass_dead(ctx)); /* constants that moved with their users */
fail:
  clade__free(device);
  clade__free(s.at);
  clade__free(s.links);
  return status;
}

/* Fusion comes first, since a bundle kernel's support depends on the fused node: the store of a product may take
 * what no kernel computes alone. Names that the user placed are resolved before and no longer prevent fusion. */
clade_status clade__pass_fallback(clade__pass_ctx *ctx) {
  if (ctx->fallback < 0) return CLADE_OK;
  if (!ctx->no_fusion) CLADE_TRY(clade__pass_fuse(ctx));
  CLADE_TRY(place(ctx));
  ctx->place = NULL;
  return CLADE_OK;
}

/* ---- the user's placements ---- */
/* The name as stored in the graph or op; NULL: nothing placeable has it. An op that the graph lacks is no error,
 * because the funcs of a model share the setting. */
static const char *name_in(const clade_graph *g, const char *at, size_t n) {
  const clade_op *op = clade__op_named(g, at, n);
  for (size_t id = 1; n && id < g->n_nodes; id++)
    if (!stays(g->nodes[id].op) && clade__word_is(g->nodes[id].name, at, n)) return g->nodes[id].name;
  return op && !stays(op) ? op->name : NULL;
}

static clade_status check_word(const clade__pass_ctx *ctx, const char *at, size_t end) {
  size_t n = CLADE_MIN(strcspn(at, "="), end), length = 0;
  int shown = (int)CLADE_MIN(end, 64u);
  const char *name = name_in(ctx->graph, at, n);
  if (!name)
    return CLADE_FAIL(NOT_FOUND, "place: \"%.*s\": the graph computes no node of that name, and there is no such op",
                      shown, at);
  const char *want = clade__preferred(ctx->place, name, &length);
  if (want == at + n + 1 && word_of(want, length)) return CLADE_OK;
  return CLADE_FAIL(INVALID, "place: \"%.*s\": NAME=home or NAME=fallback is expected, once for each", shown, at);
}

clade_status clade__pass_place_words(clade__pass_ctx *ctx) {
  if (ctx->place && *ctx->place && ctx->fallback < 0)
    return CLADE_FAIL(INVALID, "place: \"%.64s\": there is no fallback device to be placed on", ctx->place);
  for (const char *at = ctx->place; at && *at; at += *at == ',') {
    size_t end = strcspn(at, ",");
    CLADE_TRY(check_word(ctx, at, end));
    at += end;
  }
  return CLADE_OK;
}

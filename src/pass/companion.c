/* Sends nodes of devices whose programs come from a bundle to the companion, a device that compiles: those that no
 * kernel of the bundle computes, and those for which that is cheaper in all, copies counted. A least sum: an unknown
 * for each node that can be computed on either, and one for each value that either may want: where it is there. */
#include <stdio.h>

#include "pass/least.h"
#include "pass/pass.h"

#define NEVER 1e30 /* above all sums of costs that differ by 1e9 at most */

enum { HOME = 1, AWAY = 2 }; /* sets of places: the device that the node was built for, the companion */

typedef struct site { /* of a node */
  unsigned may;       /* where it can be; one place: it is decided */
  bool kept;          /* its place is told in choices */
  double cost[2];     /* there */
  uint32_t unknown;   /* from 1 on; 0: none */
} site;

typedef struct need { /* of a value */
  unsigned must;      /* where it is needed whatever is chosen */
  bool open;          /* its node or one of its users is */
  uint32_t unknown;   /* its values: HOME, AWAY, both */
} need;

typedef struct problem {
  const clade__pass_ctx *ctx;
  const clade_graph *g;
  site *sites;
  need *needs;
  clade__link *links; /* [devices]: to the companion */
  clade__least least;
} problem;

/* ---- where a node can be ---- */
static unsigned word_of(const char *text, size_t n) {
  return clade__word_is("home", text, n) ? HOME : clade__word_is("companion", text, n) ? AWAY : 0;
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

static void find_site(problem *p, clade__id id) {
  const clade__pass_ctx *ctx = p->ctx;
  const clade__node *n = &p->g->nodes[id];
  site *s = &p->sites[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  s->may = HOME;
  if (stays(n->op) || n->device == ctx->companion) return;
  if ((s->may = clade__forced(ctx, n))) return;
  s->may = ctx->devices[n->device].kernels ? HOME | AWAY : HOME;
  if (s->may == HOME || !clade__needs_impl(n->op)) return;
  clade__node_view(p->g, id, in, out, &view);
  s->may = 0;
  for (unsigned i = 0; i < 2; i++) {
    s->cost[i] = clade__least_seconds(ctx, &view, i ? ctx->companion : n->device);
    if (s->cost[i] >= 0) s->may |= 1u << i;
  }
  if (!s->may) s->may = HOME; /* select says who refuses, and why */
}

/* ---- what was chosen before ---- */
/* As choices name it. By its number, since factors may differ: a schedule that goes on for longer. */
enum { SITE_NAME = 768 };
static void name_site(const clade_graph *g, clade__id id, char name[SITE_NAME]) {
  const clade__node *n = &g->nodes[id];
  char type[640] = "";
  if (n->n_out) clade__type_text(clade__type(g, n->first_out), type, sizeof type);
  snprintf(name, SITE_NAME, "node %u of %zu %s", (unsigned)id, g->n_nodes, type);
}

/* Where choices say that it was, as far as it can be there. */
static void pin(problem *p, clade__id id) {
  site *s = &p->sites[id];
  char name[SITE_NAME];
  s->kept = s->may == (HOME | AWAY);
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

/* ---- what crosses ---- */
static int device_of(const problem *p, clade__id value) { return p->g->nodes[p->g->values[value].node].device; }

/* Seconds of a copy to the companion or back: read by the host, which is told so and then writes. What executions do
 * not change is copied once. */
static double crossing(const problem *p, clade__id value) {
  size_t bytes = 0;
  if (clade__graph_frozen(p->g, value)) return 0;
  if (clade_type_bytes(clade__type(p->g, value), &bytes) != CLADE_OK || !bytes) return 0;
  const clade__link *link = &p->links[device_of(p, value)];
  return link->seconds + link->per_byte * (double)bytes;
}

/* Constants are wherever they are wanted. */
static bool everywhere(const problem *p, clade__id value) {
  return p->g->nodes[p->g->values[value].node].op == &clade__op_constant;
}

/* Where a decided user wants a value that was built for device `home`: a copy to a third one costs the same from
 * either. */
static unsigned wanted(const problem *p, clade__id user, int home) {
  int device = p->sites[user].may == AWAY ? p->ctx->companion : p->g->nodes[user].device;
  return device == home ? HOME : device == p->ctx->companion ? AWAY : 0;
}

static void survey(problem *p) {
  for (clade__id id = 1; id < p->g->n_nodes; id++) {
    const clade__node *n = &p->g->nodes[id];
    bool open = p->sites[id].may == (HOME | AWAY);
    for (int i = 0; i < n->n_in; i++) {
      need *v = &p->needs[n->in[i]];
      v->open |= open;
      if (!open) v->must |= wanted(p, id, device_of(p, n->in[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
      need *v = &p->needs[n->first_out + (clade__id)i];
      v->open |= open;
      if (!open) v->must |= p->sites[id].may;
    }
  }
}

/* A node finds a value only where it is, and leaves it where it is made. */
static clade_status tie(problem *p, const site *s, clade__id value) {
  static const double pair[] = {0, NEVER, 0, NEVER, 0, 0};
  const need *v = &p->needs[value];
  if (!s->unknown || !v->unknown) return CLADE_OK;
  return clade__least_pair(&p->least, s->unknown - 1, v->unknown - 1, pair);
}

static clade_status add_value(problem *p, clade__id value) {
  need *v = &p->needs[value];
  double cost[3];
  if (!v->open || everywhere(p, value) || device_of(p, value) == p->ctx->companion) return CLADE_OK;
  for (unsigned set = HOME; set <= (HOME | AWAY); set++)
    cost[set - 1] = v->must & ~set ? NEVER : set == (HOME | AWAY) ? crossing(p, value) : 0;
  CLADE_TRY(clade__least_add(&p->least, 3, cost, 2, &v->unknown));
  v->unknown++;
  return CLADE_OK;
}

static clade_status add_node(problem *p, clade__id id) {
  const clade__node *n = &p->g->nodes[id];
  site *s = &p->sites[id];
  if (s->may == (HOME | AWAY)) {
    double less = CLADE_MIN(s->cost[0], s->cost[1]); /* what both share would only cost digits */
    CLADE_TRY(clade__least_add(&p->least, 2, (double[]){s->cost[0] - less, s->cost[1] - less}, -1, &s->unknown));
    s->unknown++;
  }
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(tie(p, s, n->in[i]));
  for (int i = 0; i < n->n_out; i++) {
    CLADE_TRY(add_value(p, n->first_out + (clade__id)i));
    CLADE_TRY(tie(p, s, n->first_out + (clade__id)i));
  }
  return CLADE_OK;
}

static clade_status solve(problem *p, int *device, bool *moved) {
  const clade_graph *g = p->g;
  bool exact = true;
  uint8_t *value = clade__new(p->least.n_unknowns + 1, 1);
  if (!value) return CLADE_NO_MEMORY;
  clade_status status = p->least.n_unknowns ? clade__least_solve(&p->least, value, &exact) : CLADE_OK;
  for (clade__id id = 1; id < g->n_nodes && status == CLADE_OK; id++) {
    const site *s = &p->sites[id];
    bool away = s->unknown ? value[s->unknown - 1] : s->may == AWAY;
    device[id] = away ? p->ctx->companion : g->nodes[id].device;
    *moved |= away;
  }
  clade__free(value);
  return status;
}

/* What was free to go is told, so that it can be placed alike again. */
static clade_status tell(const problem *p, const int *device, clade__records **placed) {
  char name[SITE_NAME];
  for (clade__id id = 1; id < p->g->n_nodes; id++) {
    if (!p->sites[id].kept) continue;
    if (!*placed) CLADE_TRY(clade__records_new(&(clade__tuned_device){.device_class = CLADE_CPU}, placed));
    name_site(p->g, id, name);
    CLADE_TRY(
        clade__records_put(*placed, &(clade__record){.op = p->g->nodes[id].op->name,
                                                     .problem = name,
                                                     .impl = device[id] == p->ctx->companion ? "companion" : "home"}));
  }
  return CLADE_OK;
}

static clade_status place(clade__pass_ctx *ctx) {
  const clade_graph *g = ctx->graph;
  clade_status status = CLADE_NO_MEMORY;
  problem p = {.ctx = ctx, .g = g};
  bool moved = false;
  int *device = clade__new(g->n_nodes, sizeof *device);
  p.sites = clade__new(g->n_nodes, sizeof *p.sites);
  p.needs = clade__new(g->n_values, sizeof *p.needs);
  p.links = clade__new((size_t)ctx->n_devices, sizeof *p.links);
  if (!device || !p.sites || !p.needs || !p.links) goto fail;
  for (int i = 0; i < ctx->n_devices; i++) p.links[i] = clade__link_find(ctx, i);
  for (clade__id id = 1; id < g->n_nodes; id++) {
    find_site(&p, id);
    pin(&p, id);
  }
  survey(&p);
  for (clade__id id = 1; id < g->n_nodes; id++) CLADE_GOTO(add_node(&p, id));
  CLADE_GOTO(solve(&p, device, &moved));
  CLADE_GOTO(tell(&p, device, &ctx->placed));
  if (moved) CLADE_GOTO(clade__place_on(ctx, device));
  if (moved) CLADE_GOTO(clade__pass_dead(ctx)); /* constants that went with their users */
fail:
  clade__least_free(&p.least);
  clade__free(device);
  clade__free(p.sites);
  clade__free(p.needs);
  clade__free(p.links);
  return status;
}

/* What a bundle takes is known when it is joined: a product's store takes what nothing takes apart. What the user named
 * is settled then, and no longer keeps nodes from being joined. */
clade_status clade__pass_companion(clade__pass_ctx *ctx) {
  if (ctx->companion < 0) return CLADE_OK;
  if (!ctx->no_fusion) CLADE_TRY(clade__pass_fuse(ctx));
  CLADE_TRY(place(ctx));
  ctx->place = NULL;
  return CLADE_OK;
}

/* ---- what the user named ---- */
/* As the graph or an op has it; NULL: nothing that could be placed is called so. An op that the graph lacks is no
 * error: a model's funcs share the words. */
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
  return CLADE_FAIL(INVALID, "place: \"%.*s\": NAME=home or NAME=companion is expected, once for each", shown, at);
}

clade_status clade__pass_place_words(clade__pass_ctx *ctx) {
  if (ctx->place && *ctx->place && ctx->companion < 0)
    return CLADE_FAIL(INVALID, "place: \"%.64s\": there is no companion to be placed on", ctx->place);
  for (const char *at = ctx->place; at && *at; at += *at == ',') {
    size_t end = strcspn(at, ",");
    CLADE_TRY(check_word(ctx, at, end));
    at += end;
  }
  return CLADE_OK;
}

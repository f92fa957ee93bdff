/* clade_tune: lists the problems of a func, shares out the budget, and keeps the results. */
#include <math.h>
#include <stdlib.h>

#include "tune/internal.h"

static const double QUICK_SECONDS = 5;

typedef struct tuning {
  clade_func *func;
  clade_tune_opt opt;
  clade__problem *at; /* heaviest first */
  size_t n, capacity;
  clade__map known;      /* set of problems, by device, op and text */
  clade__arena arena;    /* owns configurations that no node has */
  double start, end;     /* end of the budget */
  clade__clock clock;    /* for problems; the rest of the budget is for the func as a whole */
  double ready;          /* smallest `ready` of all problems; 0: none */
  uint32_t *fma_units;   /* [n_devices]; 0: unknown */
  clade__records *fresh; /* records of this call */
} tuning;

/* ---- the problems of a func ---- */
/* Estimated seconds. If no implementation has an estimate, the number of bytes serves as weight. */
static double weight_of(const clade__problem *p, const clade_query *q) {
  double cost = clade__impl_cost(clade__impls(p->op)[p->impl], q), bytes = 0;
  size_t n;
  if (cost < 1e6) return cost;
  for (int i = 0; i < p->n_in; i++)
    if (clade_type_bytes(&p->in[i], &n) == CLADE_OK) bytes += (double)n;
  return 1e-6 + bytes * 1e-10;
}

static bool has_elements(const clade_node *n) {
  int64_t count;
  for (int i = 0; i < n->n_in; i++)
    if (clade_shape_elements(&n->in[i].shape, &count) != CLADE_OK || !count) return false;
  return true;
}

static clade_status add_problem(tuning *t, const clade_node *view, int device, int impl, const int32_t *config) {
  clade__text text = {0};
  size_t at;
  clade__problem p = {.device = t->func->devices[device],
                      .op = view->op,
                      .attrs = view->attrs,
                      .n_in = view->n_in,
                      .n_out = view->n_out,
                      .impl = impl,
                      .config = config,
                      .nodes = 1};
  const clade_query q = {sizeof q, view, clade__device_info(p.device), config};
  memcpy(p.in, view->in, (size_t)p.n_in * sizeof *p.in);
  for (int i = 0; i < p.n_in; i++) p.in[i].layout = (clade_layout){0}; /* as built: conversions belong to the trials */
  p.weight = weight_of(&p, &q);
  clade__problem_text(view, false, &text);
  CLADE_TRY(clade__text_take(&text, &p.text));
  clade__hash key = clade__hash_more(clade__device_key(p.device), &p.op, sizeof p.op);
  key = clade__hash_more_text(key, p.text);
  if (clade__map_get(&t->known, key, &at)) {
    t->at[at].nodes++;
    t->at[at].weight += p.weight;
    clade__free(p.text);
    return CLADE_OK;
  }
  clade_status status = clade__grow(&t->at, &t->capacity, t->n + 1, sizeof *t->at);
  if (status == CLADE_OK) status = clade__map_put(&t->known, key, t->n);
  if (status == CLADE_OK)
    t->at[t->n++] = p;
  else
    clade__free(p.text);
  return status;
}

/* Adds the problem on another device of the func, where the node might be placed. */
static clade_status add_elsewhere(tuning *t, const clade__pass_ctx *ctx, clade_node view, int device) {
  clade_type in[CLADE_MAX_OPERANDS];
  double seconds;
  memcpy(in, view.in, (size_t)view.n_in * sizeof *in);
  for (int i = 0; i < view.n_in; i++) in[i].layout = (clade_layout){0};
  view.in = in;
  const int impl = clade__least_impl(ctx, &view, device, &seconds);
  if (impl < 0) return CLADE_OK;
  clade_query q = {sizeof q, &view, &ctx->devices[device], NULL};
  int32_t *config = clade__arena_new(&t->arena, CLADE_MAX_PARAMS * sizeof *config);
  if (!config) return CLADE_NO_MEMORY;
  clade__query_defaults(&q, clade__impls(view.op)[impl], config);
  return add_problem(t, &view, device, impl, q.config);
}

/* A node in a bundle has only one implementation, which is timed only if a fallback device could take the node. */
static clade_status add_node(tuning *t, const clade__pass_ctx *ctx, clade__id id) {
  const clade__node *node = &t->func->graph->nodes[id];
  const int fallback = t->func->fallback;
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  if (!clade__needs_impl(node->op) || !clade__tunable(node->op, &ctx->devices[node->device]) ||
      (node->op->flags & CLADE_OP_EFFECT))
    return CLADE_OK;
  clade__node_view(t->func->graph, id, in, out, &view);
  if (node->op == &clade__op_pack || node->op == &clade__op_unpack || !has_elements(&view)) return CLADE_OK;
  if (!ctx->devices[node->device].kernels || fallback >= 0)
    CLADE_TRY(add_problem(t, &view, node->device, node->impl, node->config));
  for (int d = 0; fallback >= 0 && d < t->func->n_devices; d++) {
    bool place = node->device == fallback ? ctx->devices[d].kernels != NULL
                                          : d == fallback && ctx->devices[node->device].kernels;
    if (place && d != node->device) CLADE_TRY(add_elsewhere(t, ctx, view, d));
  }
  return CLADE_OK;
}

static clade_status add_all(tuning *t) {
  clade_device_info *infos;
  clade__pass_ctx ctx;
  CLADE_TRY(clade__func_pass_ctx(t->func, &infos, &ctx));
  clade_status status = CLADE_OK;
  for (clade__id id = 1; id < t->func->graph->n_nodes && status == CLADE_OK; id++) status = add_node(t, &ctx, id);
  clade__free(infos);
  return status;
}

static bool has_bundle(const clade__problem *p) { return clade__device_info(p->device)->kernels; }

/* Problems in bundles come first: they need no compilation and decide about placement. */
static int heaviest_first(const void *a, const void *b) {
  const clade__problem *x = a, *y = b;
  if (has_bundle(x) != has_bundle(y)) return has_bundle(x) ? -1 : 1;
  if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
  return strcmp(x->text, y->text);
}

/* ---- existing records ---- */
/* Whether the device's own records contain the problem. */
static clade_status is_known(const tuning *t, const clade__problem *p, bool *known) {
  clade__tuning *all, own = {0};
  clade_type out[CLADE_MAX_OPERANDS];
  clade_node n = {sizeof n, p->op, "", p->attrs, p->n_in, p->n_out, p->in, out};
  clade_query q = {sizeof q, &n, clade__device_info(p->device), NULL};
  const clade__tuning *one = &own;
  clade__pass_ctx ctx = {.n_devices = 1, .devices = q.device, .tuning = &one};
  clade__pick pick = {0};
  memset(out, 0, sizeof out);
  *known = false;
  CLADE_TRY(p->op->infer(&n));
  CLADE_TRY(clade__tuning_get(p->device, &all));
  for (int k = 0; k < all->n; k++) {
    const clade__records *set = all->layer[k];
    const clade__record *r = clade__records_find(set, p->op->name, p->text, "");
    bool enough = r && (r->full || t->opt.mode == CLADE_TUNE_QUICK);
    if (enough && clade__hash_equal(set->device.key, clade__device_key(p->device))) own.layer[own.n++] = all->layer[k];
  }
  clade_status status = clade__pick_find(&ctx, &q, 0, &pick);
  clade__tuning_release(all);
  *known = pick.count > 0;
  return status;
}

/* ---- new records ---- */
static clade_status put_best(const tuning *t, const clade__problem *p, const clade__found *found, clade__records *set) {
  for (int i = 0; i < found->n_best; i++) {
    const clade__trial *c = &found->best[i];
    const clade_impl *impl = clade__impls(p->op)[c->impl];
    clade__record r = {.op = p->op->name,
                       .problem = p->text,
                       .impl = impl->name,
                       .seconds = c->median,
                       .default_seconds = found->before.median,
                       .full = found->complete && t->opt.mode == CLADE_TUNE_FULL};
    clade__record_config(&r, impl, c->has_config ? c->config : NULL);
    CLADE_TRY(clade__impl_hash(p->op, impl, clade__device_info(p->device), &r.kernel));
    CLADE_TRY(clade__records_put(set, &r));
  }
  return CLADE_OK;
}

static clade_status new_records(const tuning *t, clade_device *device, clade__records **out) {
  clade__tuned_device describes;
  clade__tuned_describe(device, &describes);
  for (int i = 0; i < t->func->n_devices; i++)
    if (t->func->devices[i] == device) describes.fma_units = t->fma_units[i];
  return clade__records_new(&describes, out);
}

static clade_status keep(tuning *t, const clade__problem *p, const clade__found *found) {
  clade__records *set;
  CLADE_TRY(new_records(t, p->device, &set));
  clade_status status = put_best(t, p, found, set);
  if (status == CLADE_OK) status = clade__tuning_keep(p->device, set);
  if (status == CLADE_OK) status = put_best(t, p, found, t->fresh);
  clade__records_release(set);
  return status;
}

/* ---- tuning a problem ---- */
static void tell(const tuning *t, const clade__problem *p, const clade__found *found, bool known, size_t done) {
  if (!t->opt.observe) return;
  const clade__trial now = {.impl = p->impl, .has_config = p->config != NULL};
  clade__trial before = found ? found->before : now, after = found ? found->after : now;
  if (!found && p->config) memcpy(before.config, p->config, sizeof before.config), after = before;
  char *texts[2] = {clade__trial_text(p, &before), clade__trial_text(p, &after)};
  const clade_tune_row row = {.size = sizeof row,
                              .op = p->op->name,
                              .problem = p->text,
                              .nodes = p->nodes,
                              .before = texts[0] ? texts[0] : "",
                              .after = texts[1] ? texts[1] : "",
                              .before_seconds = before.median,
                              .after_seconds = after.median,
                              .candidates = found ? found->candidates : 0,
                              .wrong = found ? found->wrong : 0,
                              .known = known,
                              .done = (int)done,
                              .total = (int)t->n,
                              .seconds = clade__now() - t->start};
  t->opt.observe(t->opt.observe_user, &row);
  clade__free(texts[0]);
  clade__free(texts[1]);
}

/* A problem's share of the remaining time, in proportion to its weight among the remaining problems. */
static double share(const tuning *t, size_t i) {
  double rest = 0, now = clade__now();
  for (size_t k = i; k < t->n; k++) rest += t->at[k].weight;
  double left = t->clock.deadline - now;
  return isinf(left) ? INFINITY : now + left * (rest > 0 ? t->at[i].weight / rest : 1);
}

static clade_status tune_one(tuning *t, size_t i) {
  const clade__problem *p = &t->at[i];
  clade__found found;
  bool known = false;
  if (!t->opt.again) CLADE_TRY(is_known(t, p, &known));
  if (known) {
    tell(t, p, NULL, true, i + 1);
    return CLADE_OK;
  }
  clade_status status = clade__search(p, &t->opt, share(t, i), &t->clock, &found);
  if (status == CLADE_DEVICE_MEMORY || status == CLADE_UNSUPPORTED) { /* too large for a second copy on the device */
    clade__log(CLADE_LOG_WARNING, "%s (%s) is not tuned: %s", p->op->name, p->text, clade_last_error());
    tell(t, p, NULL, false, i + 1);
    return CLADE_OK;
  }
  CLADE_TRY(status);
  if (!has_bundle(p) && found.ready > 0 && (t->ready <= 0 || found.ready < t->ready)) t->ready = found.ready;
  if (found.n_best) CLADE_TRY(keep(t, p, &found));
  tell(t, p, &found, false, i + 1);
  return CLADE_OK;
}

/* Reads the number of units of CPU cores from the devices' own records. */
static clade_status known_cores(const tuning *t) {
  for (int i = 0; i < t->func->n_devices; i++) {
    clade__tuning *known;
    CLADE_TRY(clade__tuning_get(t->func->devices[i], &known));
    for (int k = 0; k < known->n; k++)
      if (clade__hash_equal(known->layer[k]->device.key, clade__device_key(t->func->devices[i])))
        t->fma_units[i] = CLADE_MAX(t->fma_units[i], known->layer[k]->device.fma_units);
    clade__tuning_release(known);
  }
  return CLADE_OK;
}

/* Kept without a problem: describes the device, to find records of similar devices. */
static clade_status probe_cores(tuning *t) {
  for (int i = 0; i < t->func->n_devices; i++) {
    clade__records *none;
    if (t->fma_units[i]) continue;
    const clade__mark begun = clade__clock_mark(t->func->devices[i]);
    CLADE_TRY(clade__probe_core(t->func->devices[i], &t->fma_units[i]));
    clade__clock_learn(&t->clock, &begun);
    if (!t->fma_units[i]) continue;
    CLADE_TRY(new_records(t, t->func->devices[i], &none));
    clade_status status = clade__tuning_keep(t->func->devices[i], none);
    clade__records_release(none);
    CLADE_TRY(status);
  }
  return CLADE_OK;
}

static clade_status judge_whole(tuning *t) {
  clade_tune_row row = {
      .size = sizeof row, .op = "func", .problem = "as a whole", .nodes = 1, .done = (int)t->n, .total = (int)t->n};
  if (!t->fresh->n) return CLADE_OK;
  t->clock.deadline = t->end;
  CLADE_TRY(clade__whole_judge(t->func, t->fresh, &t->clock, &row));
  row.seconds = clade__now() - t->start;
  if (t->opt.observe && row.before_seconds > 0) t->opt.observe(t->opt.observe_user, &row);
  return CLADE_OK;
}

static bool stopped(const tuning *t) { return t->opt.stop && *t->opt.stop; }

static clade_status run(tuning *t) {
  CLADE_TRY(clade__probe_links(t->func, t->opt.again));
  CLADE_TRY(add_all(t));
  if (!t->n) return CLADE_OK;
  qsort(t->at, t->n, sizeof *t->at, heaviest_first);
  CLADE_TRY(known_cores(t));
  if (probe_cores(t) != CLADE_OK) /* before others: their records include the result */
    clade__log(CLADE_LOG_WARNING, "the kind of core was not found: %s", clade_last_error());
  if (isfinite(t->end)) t->clock.deadline -= (t->end - t->start) / 5; /* reserved for the func as a whole */
  for (size_t i = 0; i < t->n && !stopped(t); i++) {
    if (!clade__is_time(&t->clock, fmax(t->clock.most, t->ready))) break;
    CLADE_TRY(tune_one(t, i));
  }
  return stopped(t) ? CLADE_OK : judge_whole(t);
}

static clade_status check(clade_func *func, const clade_tune_opt *opt) {
  if (!func) return CLADE_FAIL(INVALID, "clade_tune: the func is NULL");
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "clade_tune: the func has symbols: clade_func_specialize gives the one that runs");
  if (opt->mode < CLADE_TUNE_OFF || opt->mode > CLADE_TUNE_FULL)
    return CLADE_FAIL(INVALID, "clade_tune: .mode is %d; expected off, quick or full", (int)opt->mode);
  if (!(opt->seconds >= 0)) return CLADE_FAIL(INVALID, "clade_tune: .seconds is %g", opt->seconds);
  for (int i = 0; i < func->n_devices; i++) CLADE_TRY(clade__device_check(func->devices[i], "clade_tune"));
  return CLADE_OK;
}

clade_status clade_tune_(clade_func *func, const clade_tune_opt *given) {
  tuning t = {.func = func, .start = clade__now()};
  CLADE_TRY(clade__opt_copy(&t.opt, sizeof t.opt, given, "clade_tune"));
  CLADE_TRY(check(func, &t.opt));
  if (t.opt.mode == CLADE_TUNE_OFF) return CLADE_OK;
  double seconds = t.opt.seconds > 0 ? t.opt.seconds : t.opt.mode == CLADE_TUNE_QUICK ? QUICK_SECONDS : INFINITY;
  t.end = t.clock.deadline = t.start + seconds;
  t.fma_units = clade__new((size_t)func->n_devices, sizeof *t.fma_units);
  clade_status status = t.fma_units ? new_records(&t, func->devices[0], &t.fresh) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = run(&t);
  for (size_t i = 0; i < t.n; i++) clade__free(t.at[i].text);
  clade__free(t.at);
  clade__free(t.fma_units);
  clade__records_release(t.fresh);
  clade__map_free(&t.known);
  clade__arena_free(&t.arena);
  return status;
}

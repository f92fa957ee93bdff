/* Looks up tuning records for a node. A record is used only if the implementation still offers its configuration. */
#include "pass/candidates.h"

enum { MOST_CONFIGS = 4096 }; /* limit of a space's listed configurations */

static bool same_config(const clade_space *space, const int32_t *a, const int32_t *b) {
  for (int i = 0; space->params[i] && i < CLADE_MAX_PARAMS; i++)
    if (a[i] != b[i]) return false;
  return true;
}

bool clade__space_config(const clade_space *space, const clade_query *q, int i, int32_t config[CLADE_MAX_PARAMS]) {
  memset(config, 0, CLADE_MAX_PARAMS * sizeof *config);
  return i < MOST_CONFIGS && space->configs && space->configs(q, i, config);
}

/* Whether the configuration is the default or listed for this node. */
static bool offered(const clade_impl *impl, clade_query q, const int32_t *config) {
  const clade_space *space = impl->space;
  int32_t one[CLADE_MAX_PARAMS] = {clade__alternative_of(impl, config)};
  q.config = NULL;
  space->defaults(&q, one);
  if (same_config(space, one, config)) return true;
  for (int i = 0; clade__space_config(space, &q, i, one); i++)
    if (same_config(space, one, config)) return true;
  return false;
}

/* Index of a parameter in a record, also under an older name; -1: absent. */
static int param_of(const clade__record *r, const char *name) {
  const char *before;
  for (int k = 0; k < r->n_params; k++)
    if (!strcmp(r->param[k], name)) return k;
  for (int i = 0; (before = clade__old_name(name, i)); i++)
    for (int k = 0; k < r->n_params; k++)
      if (!strcmp(r->param[k], before)) return clade__old_name_read(name, before), k;
  return -1;
}

static bool record_config(const clade__record *r, const clade_impl *impl, const clade_query *q, bool trusted,
                          int32_t config[CLADE_MAX_PARAMS]) {
  const clade_space *space = impl->space;
  int n = 0;
  memset(config, 0, CLADE_MAX_PARAMS * sizeof *config);
  for (; space && n < CLADE_MAX_PARAMS && space->params[n]; n++) {
    const int k = param_of(r, space->params[n]);
    if (k < 0) return false;
    config[n] = r->value[k];
  }
  const int alternative = clade__alternative_of(impl, config);
  if (n != r->n_params || alternative < 0 || alternative >= clade__alternatives(impl)) return false;
  return !space || trusted || offered(impl, *q, config);
}

static int impl_named(const clade_op *op, const char *name) {
  const clade_impl *const *impls = clade__impls(op);
  for (int i = 0; impls[i]; i++)
    if (strcmp(impls[i]->name, name) == 0) return i;
  return -1;
}

static bool same_kernels(const clade__record *r, const clade_impl *impl, const clade_query *q) {
  clade__hash hash;
  if (!r->kernel.lo && !r->kernel.hi) return true;
  return clade__impl_hash(q->node->op, impl, q->device, &hash) == CLADE_OK && clade__hash_equal(hash, r->kernel);
}

enum { STALE = -1, REFUSED = -2 };

/* The implementation's index; STALE: recorded for another version; REFUSED: not applicable to this node, device or
 * func. */
static int holds(const clade__pass_ctx *ctx, const clade__record *r, clade_query *q, bool trusted,
                 int32_t config[CLADE_MAX_PARAMS]) {
  const clade_op *op = q->node->op;
  int i = impl_named(op, r->impl);
  if (i < 0) return STALE;
  const clade_impl *impl = clade__impls(op)[i];
  if (!same_kernels(r, impl, q)) return STALE;
  if (clade__impl_lacks(impl, q)) return REFUSED;
  if (!record_config(r, impl, q, trusted, config)) return STALE;
  q->config = impl->space ? config : NULL;
  return clade__impl_refuses(ctx, impl, q) ? REFUSED : i;
}

/* Distinguishes the devices of a func in its choices. */
void clade__pick_device(int device, clade__text *text) {
  if (device) clade__text_add(text, "@%d ", device);
}

/* Records of a problem. If the fastest of them is stale, the comparison is void. */
static void take(const clade__pass_ctx *ctx, const clade__records *set, const char *problem, clade_query *q,
                 bool trusted, clade__pick *out) {
  int32_t config[CLADE_MAX_PARAMS];
  double least = 1e9, stale = 1e9;
  const clade__record *r = clade__records_find(set, q->node->op->name, problem, "");
  for (; r; r = clade__records_next(set, r)) {
    int i = holds(ctx, r, q, trusted, config);
    if (i == STALE) stale = CLADE_MIN(stale, r->seconds);
    if (i < 0 || i >= CLADE__PICKED_IMPLS) continue;
    least = CLADE_MIN(least, r->seconds);
    out->of[i][clade__alternative_of(clade__impls(q->node->op)[i], q->config)] = r;
    out->count++;
  }
  if (stale <= least) *out = (clade__pick){0};
}

static bool has(const clade__pick *pick, const clade__record *r) {
  bool found = false;
  for (int i = 0; i < CLADE__PICKED_IMPLS; i++)
    for (int a = 0; a < CLADE_MAX_ALTERNATIVES; a++) found |= pick->of[i][a] == r;
  return found;
}

static void pinned(const clade__pass_ctx *ctx, clade_query *q, int device, clade__text *text, clade__pick *out) {
  size_t length;
  clade__pick_device(device, text);
  clade__problem_text(q->node, true, text);
  if (text->failed) return;
  take(ctx, ctx->pins, text->data, q, ctx->trusted, out);
  /* the tuner checks itself whether its candidate was taken */
  const clade__record *r = ctx->trusted ? NULL : clade__records_find(ctx->pins, q->node->op->name, text->data, "");
  for (; r; r = clade__records_next(ctx->pins, r))
    if (!has(out, r) && !clade__preferred(ctx->prefer, r->op, &length))
      clade__log(CLADE_LOG_WARNING, "%s (%s): the choice that was kept, %s, does not hold here: it is chosen anew",
                 r->op, r->problem, r->impl);
  out->why = "pinned";
}

/* The first of a device's layers with a valid record. */
static void measured(const clade__pass_ctx *ctx, const clade__tuning *tuning, clade_query *q, clade__text *text,
                     clade__pick *out) {
  clade__problem_text(q->node, false, text);
  for (int k = 0; k < tuning->n && !out->count && !text->failed; k++)
    take(ctx, tuning->layer[k], text->data, q, false, out);
  out->why = "measured";
}

clade_status clade__pick_find(const clade__pass_ctx *ctx, clade_query *q, int device, clade__pick *out) {
  clade__text exact = {0}, problem = {0};
  const clade__tuning *tuning = ctx->tuning ? ctx->tuning[device] : NULL;
  *out = (clade__pick){0};
  if (!clade__tunable(q->node->op, NULL)) return CLADE_OK;
  if (ctx->pins) pinned(ctx, q, device, &exact, out);
  if (!out->count && tuning && tuning->n) measured(ctx, tuning, q, &problem, out);
  bool failed = exact.failed || problem.failed;
  clade__text_free(&exact);
  clade__text_free(&problem);
  return failed ? CLADE_FAIL(NO_MEMORY, "no memory to look for tuning records") : CLADE_OK;
}

static const clade__record *record_of(const clade__pick *pick, int impl, int alternative) {
  return impl < CLADE__PICKED_IMPLS ? pick->of[impl][alternative] : NULL;
}

bool clade__pick_refuses(const clade__pick *pick, int impl, int alternative) {
  return pick->count && !record_of(pick, impl, alternative);
}

double clade__pick_told(const clade__pick *pick, int impl, int alternative) {
  const clade__record *one = record_of(pick, impl, alternative);
  for (int i = 0; one && i < CLADE__PICKED_IMPLS; i++)
    for (int a = 0; a < CLADE_MAX_ALTERNATIVES; a++)
      if (pick->of[i][a] && !(pick->of[i][a]->seconds > 0)) return 0;
  return one ? one->seconds : 0;
}

/* Times are valid only for the device that they were measured on. */
static bool is_own(const clade__records *set, const clade_device_info *device) {
  return set->device.name && strcmp(set->device.name, device->name) == 0 && set->device.driver &&
         strcmp(set->device.driver, device->driver) == 0 && set->device.compute_units == device->compute_units;
}

clade_status clade__pick_seconds(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds) {
  const clade__tuning *tuning = ctx->tuning ? ctx->tuning[device] : NULL;
  clade_query q = {sizeof q, view, &ctx->devices[device], NULL};
  clade__text problem = {0};
  int32_t config[CLADE_MAX_PARAMS];
  *seconds = 0;
  if (!tuning || !clade__tunable(view->op, NULL)) return CLADE_OK;
  clade__problem_text(view, false, &problem);
  bool failed = problem.failed;
  for (int k = 0; k < tuning->n && !failed && *seconds <= 0; k++) {
    const clade__record *r = is_own(tuning->layer[k], q.device)
                                 ? clade__records_find(tuning->layer[k], view->op->name, problem.data, "")
                                 : NULL;
    for (; r; r = clade__records_next(tuning->layer[k], r))
      if (holds(ctx, r, &q, false, config) >= 0 && (*seconds <= 0 || r->seconds < *seconds)) *seconds = r->seconds;
  }
  clade__text_free(&problem);
  return failed ? CLADE_FAIL(NO_MEMORY, "no memory to look for tuning records") : CLADE_OK;
}

/* A record of the implementation's default configuration. */
static const clade__record *default_of(const clade__records *set, const clade_op *op, const clade_impl *impl,
                                       int alternative) {
  const clade__record *r = clade__records_find(set, op->name, "*", "");
  while (r && (strcmp(r->impl, impl->name) != 0 || clade__record_alternative(r) != alternative))
    r = clade__records_next(set, r);
  return r;
}

void clade__pick_query(const clade__pass_ctx *ctx, clade_query *q, int device, const clade__pick *pick, int impl,
                       int alternative, int32_t config[CLADE_MAX_PARAMS]) {
  const clade_impl *it = clade__impls(q->node->op)[impl];
  const clade__tuning *tuning = ctx->tuning ? ctx->tuning[device] : NULL;
  const clade__record *own = record_of(pick, impl, alternative);
  if (own && record_config(own, it, q, true, config)) { /* validity was checked before */
    q->config = it->space ? config : NULL;
    return;
  }
  const bool asks = it->space && tuning && !clade__impl_lacks(it, q);
  for (int k = 0; asks && k < tuning->n; k++) {
    const clade__record *r = default_of(tuning->layer[k], q->node->op, it, alternative);
    if (!r || !same_kernels(r, it, q) || !record_config(r, it, q, false, config)) continue;
    q->config = config;
    if (!it->accept || !it->accept(q)) return;
  }
  clade__query_alternative(q, it, alternative, config);
}

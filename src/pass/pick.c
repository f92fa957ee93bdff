/* What tuning records say of a node, as far as it holds: nothing runs but what an implementation offers. */
#include "pass/ways.h"

enum { MOST_ROWS = 4096 }; /* that a space may list */

static bool same_row(const clade_space *space, const int32_t *a, const int32_t *b) {
  for (int i = 0; space->params[i] && i < CLADE_MAX_PARAMS; i++)
    if (a[i] != b[i]) return false;
  return true;
}

bool clade__space_row(const clade_space *space, const clade_query *q, int i, int32_t row[CLADE_MAX_PARAMS]) {
  memset(row, 0, CLADE_MAX_PARAMS * sizeof *row);
  return i < MOST_ROWS && space->rows && space->rows(q, i, row);
}

/* The start, or one of the rows that are listed for this node. */
static bool offered(const clade_space *space, clade_query q, const int32_t *row) {
  int32_t one[CLADE_MAX_PARAMS] = {0};
  q.row = NULL;
  space->start(&q, one);
  if (same_row(space, one, row)) return true;
  for (int i = 0; clade__space_row(space, &q, i, one); i++)
    if (same_row(space, one, row)) return true;
  return false;
}

static bool record_row(const clade__record *r, const clade_impl *impl, const clade_query *q, bool trusted,
                       int32_t row[CLADE_MAX_PARAMS]) {
  const clade_space *space = impl->space;
  int n = 0;
  memset(row, 0, CLADE_MAX_PARAMS * sizeof *row);
  for (; space && n < CLADE_MAX_PARAMS && space->params[n]; n++) {
    int k = 0;
    while (k < r->n_params && strcmp(r->param[k], space->params[n]) != 0) k++;
    if (k == r->n_params) return false;
    row[n] = r->value[k];
  }
  return n == r->n_params && (!space || trusted || offered(space, *q, row));
}

static int impl_named(const clade_op *op, const char *name) {
  for (int i = 0; op->impls[i].name; i++)
    if (strcmp(op->impls[i].name, name) == 0) return i;
  return -1;
}

static bool same_kernels(const clade__record *r, const clade_impl *impl, const clade_query *q) {
  clade__hash hash;
  if (!r->kernel.lo && !r->kernel.hi) return true;
  return clade__impl_hash(q->node->op, impl, q->device, &hash) == CLADE_OK && clade__hash_equal(hash, r->kernel);
}

/* The implementation's number, or -1. */
static int holds(const clade__pass_ctx *ctx, const clade__record *r, clade_query *q, bool trusted,
                 int32_t row[CLADE_MAX_PARAMS]) {
  const clade_op *op = q->node->op;
  int i = r ? impl_named(op, r->impl) : -1;
  if (i < 0 || !same_kernels(r, &op->impls[i], q) || !record_row(r, &op->impls[i], q, trusted, row)) return -1;
  q->row = op->impls[i].space ? row : NULL;
  return clade__impl_refuses(ctx, &op->impls[i], q) ? -1 : i;
}

/* Choices of a func on several devices tell them apart. */
void clade__pick_device(int device, clade__text *text) {
  if (device) clade__text_add(text, "@%d ", device);
}

static void pinned(const clade__pass_ctx *ctx, clade_query *q, int device, clade__text *text, clade__pick *out) {
  size_t length;
  clade__pick_device(device, text);
  clade__problem_text(q->node, true, text);
  const clade__record *r = text->failed ? NULL : clade__records_find(ctx->pins, q->node->op->name, text->data, "");
  out->impl = holds(ctx, r, q, ctx->trusted, out->row);
  out->why = "pinned";
  if (r && out->impl < 0 && !clade__preferred(ctx->prefer, r->op, &length))
    clade__log(CLADE_LOG_WARNING, "%s (%s): the choice that was kept, %s, does not hold here: it is chosen anew", r->op,
               r->problem, r->impl);
}

/* Of a device's layers, the first that holds. */
static void measured(const clade__pass_ctx *ctx, const clade__tuning *tuning, clade_query *q, clade__text *text,
                     clade__pick *out) {
  clade__problem_text(q->node, false, text);
  for (int k = 0; k < tuning->n && out->impl < 0 && !text->failed; k++)
    out->impl =
        holds(ctx, clade__records_find(tuning->layer[k], q->node->op->name, text->data, ""), q, false, out->row);
  out->why = "measured";
}

clade_status clade__pick_find(const clade__pass_ctx *ctx, clade_query *q, int device, clade__pick *out) {
  clade__text exact = {0}, problem = {0};
  const clade__tuning *tuning = ctx->tuning ? ctx->tuning[device] : NULL;
  out->impl = -1;
  if (!clade__tunable(q->node->op)) return CLADE_OK;
  if (ctx->pins) pinned(ctx, q, device, &exact, out);
  if (out->impl < 0 && tuning && tuning->n) measured(ctx, tuning, q, &problem, out);
  bool failed = exact.failed || problem.failed;
  clade__text_free(&exact);
  clade__text_free(&problem);
  return failed ? CLADE_FAIL(NO_MEMORY, "no memory to look for tuning records") : CLADE_OK;
}

/* A time holds for the device that it was measured on. */
static bool is_own(const clade__records *set, const clade_device_info *device) {
  return set->device.name && strcmp(set->device.name, device->name) == 0 && set->device.driver &&
         strcmp(set->device.driver, device->driver) == 0 && set->device.compute_units == device->compute_units;
}

clade_status clade__pick_seconds(const clade__pass_ctx *ctx, const clade_node *view, int device, double *seconds) {
  const clade__tuning *tuning = ctx->tuning ? ctx->tuning[device] : NULL;
  clade_query q = {sizeof q, view, &ctx->devices[device], NULL};
  clade__text problem = {0};
  int32_t row[CLADE_MAX_PARAMS];
  *seconds = 0;
  if (!tuning || !clade__tunable(view->op)) return CLADE_OK;
  clade__problem_text(view, false, &problem);
  bool failed = problem.failed;
  for (int k = 0; k < tuning->n && !failed && *seconds <= 0; k++) {
    const clade__record *r = is_own(tuning->layer[k], q.device)
                                 ? clade__records_find(tuning->layer[k], view->op->name, problem.data, "")
                                 : NULL;
    if (holds(ctx, r, &q, false, row) >= 0) *seconds = r->seconds;
  }
  clade__text_free(&problem);
  return failed ? CLADE_FAIL(NO_MEMORY, "no memory to look for tuning records") : CLADE_OK;
}

void clade__pick_query(const clade__pass_ctx *ctx, clade_query *q, int device, const clade__pick *pick, int impl,
                       int32_t row[CLADE_MAX_PARAMS]) {
  const clade_impl *it = &q->node->op->impls[impl];
  const clade__tuning *tuning = ctx->tuning ? ctx->tuning[device] : NULL;
  if (pick->impl == impl) {
    memcpy(row, pick->row, CLADE_MAX_PARAMS * sizeof *row);
    q->row = it->space ? row : NULL;
    return;
  }
  for (int k = 0; it->space && tuning && k < tuning->n; k++) {
    const clade__record *r = clade__records_find(tuning->layer[k], q->node->op->name, "*", it->name);
    if (!r || !same_kernels(r, it, q) || !record_row(r, it, q, false, row)) continue;
    q->row = row;
    if (!it->accept || !it->accept(q)) return;
  }
  clade__query_start(q, it, row);
}

/* Forms persistent kernels: groups of consecutive steps that run in one launch on devices with slow launches. A
 * persistent kernel is a table of arguments (run_persistent.c) for a kernel that can execute its steps
 * (interpreter.c). Joined launches (joined.c) are formed likewise. */
#include "plan/plan.h"

size_t clade__persistent_least = 8;

/* Limits of a persistent kernel's estimated duration. It occupies all threads of the device, so transfers and other
 * runs wait until it ends. The limit is `short_seconds`, or the func's duration / PARTS if that is longer, up to
 * `long_seconds`. Estimates usually exceed the real times. */
enum { PARTS = 8 };
static const double short_seconds = 20e-3, long_seconds = 50e-3;

/* ---- forming groups ---- */
int clade__persistent_base(const clade__fpersistent *persistent, const clade__place *place) {
  for (int i = 0; i < persistent->n_bases; i++)
    if (persistent->bases[i].space == place->space && persistent->bases[i].index == place->index) return i;
  return -1;
}

/* Adds the step's buffers; false: there are too many. */
static bool add_bases(const clade_func *func, clade__fpersistent *persistent, const clade__fstep *step) {
  const int before = persistent->n_bases, most = func->interpreters[persistent->device].n_bases;
  for (int i = 0; i < step->n_operands; i++) {
    const clade__operand *o = &step->operand[i];
    if (o->cell < 0 || clade__persistent_base(persistent, &o->place) >= 0) continue;
    if (persistent->joined && o->place.space == CLADE__VARIABLE) continue;
    if (persistent->n_bases == most) {
      persistent->n_bases = before;
      return false;
    }
    persistent->bases[persistent->n_bases++] = o->place;
  }
  return true;
}

static clade_status persistent_new(clade_func *func, size_t first, clade__fpersistent **out) {
  CLADE_TRY(
      clade__grow(&func->persistent, &func->persistent_capacity, func->n_persistent + 1, sizeof *func->persistent));
  *out = &func->persistent[func->n_persistent];
  const clade__fstep *step = &func->steps[first];
  **out =
      (clade__fpersistent){.first = first, .device = step->device, .joined = func->interpreters[step->device].joined};
  (*out)->bases = clade__arena_new(&func->arena, CLADE__PERSISTENT_BASES * sizeof *(*out)->bases);
  if (!(*out)->bases) return CLADE_NO_MEMORY;
  func->n_persistent++;
  return CLADE_OK;
}

/* Estimated cost of the step's node. */
static double seconds_of_node(const clade_func *func, const clade__fstep *step) {
  const clade__node *node = &func->graph->nodes[step->node];
  const clade_impl *impl = clade__impls(node->op)[node->impl];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__node_view(func->graph, step->node, in, out, &view);
  clade_query query = {sizeof query, &view, clade__device_info(func->devices[step->device]), node->config};
  return impl->cost ? impl->cost(&query) : short_seconds;
}

/* Divides a node's cost evenly among its consecutive steps, so that a persistent kernel can end between them. */
static void estimate(clade_func *func) {
  for (size_t s = 0, end; s < func->n_steps; s = end) {
    clade__fstep *steps = func->steps;
    bool any = false;
    for (end = s; end < func->n_steps && steps[end].node == steps[s].node; end++) any |= steps[end].joins;
    const double own = any ? seconds_of_node(func, &steps[s]) / (double)(end - s) : 0;
    for (size_t i = s; i < end; i++) steps[i].seconds = own;
  }
}

static uint32_t most_workers(const clade_func *func, int device) {
  return CLADE_MAX(clade__device_info(func->devices[device])->compute_units, 1u);
}

/* ---- argument table ---- */
int clade__persistent_words(const clade__arg *arg) {
  return arg->kind == CLADE__ARG_BYTES ? (int)(arg->bytes / sizeof(int32_t)) : 2;
}

static size_t table_words(const clade_func *func, const clade__fpersistent *persistent) {
  size_t words = persistent->count * CLADE__PERSISTENT_STEP;
  for (size_t s = persistent->first; s < persistent->first + persistent->count; s++)
    for (size_t i = 0; i < func->steps[s].launch->n_args; i++)
      words += (size_t)clade__persistent_words(&func->steps[s].launch->args[i]);
  if (persistent->joined) words += persistent->workers; /* the step of each work-group */
  return (words + CLADE__PERSISTENT_LINE - 1) / CLADE__PERSISTENT_LINE * CLADE__PERSISTENT_LINE;
}

/* ---- selection ---- */
/* Few steps, in the func or on the device, do not justify compiling a kernel for them; their single kernels are
 * compiled already or useful to other funcs. */
static bool worth(const clade_func *func, size_t steps, const clade__fpersistent *persistent) {
  if (persistent->joined) return persistent->count >= clade__joined_least;
  return steps >= clade__persistent_least && func->interpreters[persistent->device].n_steps >= clade__persistent_least;
}

static void keep_or_drop(clade_func *func, size_t steps) {
  size_t kept = 0;
  for (size_t c = 0; c < func->n_persistent; c++)
    if (worth(func, steps, &func->persistent[c])) func->persistent[kept++] = func->persistent[c];
  func->n_persistent = kept;
}

static double most_of(const clade_func *func) {
  double all = 0;
  for (size_t s = 0; s < func->n_steps; s++) all += func->steps[s].joins ? func->steps[s].seconds : 0;
  return CLADE_MIN(CLADE_MAX(short_seconds, all / PARTS), long_seconds);
}

/* Whether the step may extend the launch, which takes `seconds` with it. */
static bool extends(const clade_func *func, const clade__fpersistent *persistent, const clade__fstep *step,
                    double seconds, double most) {
  if (step->awaits || persistent->device != step->device) return false;
  return persistent->joined ? clade__independent(func, persistent, step) : seconds <= most;
}

static void add_workers(const clade_func *func, clade__fpersistent *persistent, const clade__fstep *step) {
  const size_t busy = CLADE_MIN(step->launch->global[0], (size_t)most_workers(func, step->device));
  if (persistent->joined)
    persistent->workers += clade__joined_groups(step);
  else
    persistent->workers = CLADE_MAX(persistent->workers, (uint32_t)busy);
}

static clade_status form(clade_func *func) {
  const double most = most_of(func);
  clade__fpersistent *persistent = NULL;
  double seconds = 0;
  size_t steps = 0;
  func->n_persistent = 0;
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (!step->joins) {
      persistent = NULL;
      continue;
    }
    seconds += step->seconds;
    steps++;
    func->interpreters[step->device].n_steps++;
    if (!persistent || !extends(func, persistent, step, seconds, most) || !add_bases(func, persistent, step)) {
      CLADE_TRY(persistent_new(func, s, &persistent));
      seconds = step->seconds;
      (void)add_bases(func, persistent, step); /* a single step always fits */
    }
    persistent->per_slot |= step->per_slot;
    add_workers(func, persistent, step);
    persistent->count++;
  }
  keep_or_drop(func, steps);
  return CLADE_OK;
}

/* Offsets in the device's table: counters first, then the persistent kernels one after the other. */
static void settle_tables(clade_func *func) {
  for (int d = 0; d < func->n_devices; d++) {
    size_t at = (2 + most_workers(func, d)) * (size_t)CLADE__PERSISTENT_LINE;
    for (size_t c = 0; c < func->n_persistent; c++) {
      if (func->persistent[c].device != d) continue;
      func->persistent[c].at = at;
      at += table_words(func, &func->persistent[c]);
      func->persistent[c].end = at;
    }
  }
}

clade_status clade__persistent_plan(clade_func *func) {
  CLADE_TRY(clade__find_joining(func));
  estimate(func);
  CLADE_TRY(form(func));
  for (size_t c = 0; c < func->n_persistent; c++)
    for (size_t i = 0; i < func->persistent[c].count; i++)
      func->steps[func->persistent[c].first + i].persistent = (uint32_t)c + 1;
  settle_tables(func);
  return CLADE_OK;
}

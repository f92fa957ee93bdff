/* Persistent kernels: which steps follow each other in one launch where launches are dear. A persistent kernel is a
 * table of arguments (run_persistent.c) for a kernel that can do all its steps (interpreter.c). */
#include "plan/plan.h"

size_t clade__persistent_least = 8;

/* A persistent kernel has all threads of the device until it ends: what is read or uploaded meanwhile, and other runs,
 * wait. So it holds `short_seconds`, or an eighth of a longer func, whose launches would be a hundredth of it
 * otherwise, and never more than `long_seconds`. As estimated, which is twice what steps of floats take, eight times
 * what products of packed bytes do, and more where they are small. */
enum { PARTS = 8 };
static const double short_seconds = 20e-3, long_seconds = 50e-3;

/* ---- which follow each other ---- */
int clade__persistent_base(const clade__fpersistent *persistent, const clade__place *place) {
  for (int i = 0; i < persistent->n_bases; i++)
    if (persistent->bases[i].space == place->space && persistent->bases[i].index == place->index) return i;
  return -1;
}

/* false: there is no room for its memory. */
static bool add_bases(const clade_func *func, clade__fpersistent *persistent, const clade__fstep *step) {
  const int before = persistent->n_bases, most = func->interpreters[persistent->interpreter - 1].n_bases;
  for (int i = 0; i < step->n_operands; i++) {
    const clade__operand *o = &step->operand[i];
    if (o->cell < 0 || clade__persistent_base(persistent, &o->place) >= 0) continue;
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
  **out = (clade__fpersistent){.first = first, .device = step->device, .interpreter = step->interpreter, .workers = 1};
  (*out)->bases = clade__arena_new(&func->arena, CLADE__PERSISTENT_BASES * sizeof *(*out)->bases);
  if (!(*out)->bases) return CLADE_NO_MEMORY;
  func->n_persistent++;
  return CLADE_OK;
}

/* As its implementation estimates it. */
static double seconds_of_node(const clade_func *func, const clade__fstep *step) {
  const clade__node *node = &func->graph->nodes[step->node];
  const clade_impl *impl = clade__impls(node->op)[node->impl];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__node_view(func->graph, step->node, in, out, &view);
  clade_query query = {sizeof query, &view, clade__device_info(func->devices[step->device]), node->config};
  return impl->cost ? impl->cost(&query) : short_seconds;
}

/* Steps of a node follow each other, and each is as much of it: so a persistent kernel may end between two. */
static void estimate(clade_func *func) {
  for (size_t s = 0, end; s < func->n_steps; s = end) {
    clade__fstep *steps = func->steps;
    bool any = false;
    for (end = s; end < func->n_steps && steps[end].node == steps[s].node; end++) any |= steps[end].interpreter > 0;
    const double own = any ? seconds_of_node(func, &steps[s]) / (double)(end - s) : 0;
    for (size_t i = s; i < end; i++) steps[i].seconds = own;
  }
}

static uint32_t most_workers(const clade_func *func, int device) {
  return CLADE_MAX(clade__device_info(func->devices[device])->compute_units, 1u);
}

/* ---- the table ---- */
int clade__persistent_words(const clade__arg *arg) {
  return arg->kind == CLADE__ARG_BYTES ? (int)(arg->bytes / sizeof(int32_t)) : 2;
}

static size_t table_words(const clade_func *func, const clade__fpersistent *persistent) {
  size_t words = persistent->count * CLADE__PERSISTENT_STEP;
  for (size_t s = persistent->first; s < persistent->first + persistent->count; s++)
    for (size_t i = 0; i < func->steps[s].launch->n_args; i++)
      words += (size_t)clade__persistent_words(&func->steps[s].launch->args[i]);
  return (words + CLADE__PERSISTENT_LINE - 1) / CLADE__PERSISTENT_LINE * CLADE__PERSISTENT_LINE;
}

/* ---- all of them ---- */
/* Few steps do without, in a func and in an interpreter of its own: their kernels are compiled already, or will serve
 * others. */
static bool worth(const clade_func *func, size_t steps, const clade__fpersistent *persistent) {
  const clade__finterpreter *interpreter = &func->interpreters[persistent->interpreter - 1];
  return steps >= clade__persistent_least && (interpreter->found || interpreter->n_steps >= clade__persistent_least);
}

static size_t keep_or_drop(clade_func *func, size_t steps) {
  size_t kept = 0, inside = 0;
  for (size_t c = 0; c < func->n_persistent; c++) {
    if (!worth(func, steps, &func->persistent[c])) continue;
    inside += func->persistent[c].count;
    func->persistent[kept++] = func->persistent[c];
  }
  func->n_persistent = kept;
  return inside;
}

static double most_of(const clade_func *func) {
  double all = 0;
  for (size_t s = 0; s < func->n_steps; s++) all += func->steps[s].interpreter ? func->steps[s].seconds : 0;
  return CLADE_MIN(CLADE_MAX(short_seconds, all / PARTS), long_seconds);
}

/* How many launches what can be in persistent kernels takes, and how long, as estimated. */
typedef struct outcome {
  size_t launches;
  double seconds;
} outcome;

static clade_status form(clade_func *func, outcome *out) {
  const double most = most_of(func);
  clade__fpersistent *persistent = NULL;
  double seconds = 0;
  size_t steps = 0;
  func->n_persistent = 0;
  out->seconds = 0;
  for (size_t i = 0; i < func->n_interpreters; i++) func->interpreters[i].n_steps = 0;
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (!step->interpreter) {
      persistent = NULL;
      continue;
    }
    seconds += step->seconds;
    out->seconds += step->seconds;
    steps++;
    func->interpreters[step->interpreter - 1].n_steps++;
    if (!persistent || step->awaits || persistent->interpreter != step->interpreter || seconds > most ||
        !add_bases(func, persistent, step)) {
      CLADE_TRY(persistent_new(func, s, &persistent));
      seconds = step->seconds;
      (void)add_bases(func, persistent, step); /* of one step there is always room for all */
    }
    persistent->per_slot |= step->per_slot;
    const size_t busy = CLADE_MIN(step->launch->global[0], (size_t)most_workers(func, step->device));
    persistent->workers = CLADE_MAX(persistent->workers, (uint32_t)busy);
    persistent->count++;
  }
  const size_t inside = keep_or_drop(func, steps);
  out->launches = func->n_persistent + steps - inside;
  return CLADE_OK;
}

/* Others' interpreters lack something: what they do not know is launched between. As often as a twenty-fifth of the
 * time allows. */
static bool little_lost(const outcome *alone, const outcome *with) {
  static const double wake = 25e-6; /* of a thread, for a launch */
  return ((double)with->launches - (double)alone->launches) * wake <= alone->seconds / 25;
}

/* Where its part of the device's table is: behind the counters and the persistent kernels before it. */
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
  outcome alone, with;
  bool spared = false;
  CLADE_TRY(clade__own_interpreters(func));
  estimate(func);
  const size_t own = func->n_interpreters;
  CLADE_TRY(form(func, &alone));
  if (func->n_persistent) CLADE_TRY(clade__found_interpreters(func, &spared));
  if (spared) CLADE_TRY(form(func, &with));
  if (func->n_interpreters > own && !(spared && little_lost(&alone, &with))) {
    clade__drop_found(func);
    CLADE_TRY(form(func, &alone));
  }
  for (size_t c = 0; c < func->n_persistent; c++)
    for (size_t i = 0; i < func->persistent[c].count; i++)
      func->steps[func->persistent[c].first + i].persistent = (uint32_t)c + 1;
  settle_tables(func);
  return CLADE_OK;
}

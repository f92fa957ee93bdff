/* Prints a func's steps for tools, and its explanation for users. */
#include <inttypes.h>
#include <stdio.h>

#include "plan/plan.h"
#include "program/offline.h"

const char *clade__space_name(clade__space space) {
  switch (space) {
  case CLADE__NOWHERE: break;
  case CLADE__ARENA: return "arena";
  case CLADE__VARIABLE: return "variable";
  case CLADE__CONSTANT: return "constant";
  case CLADE__INPUT: return "input";
  case CLADE__OUTPUT: return "output";
  case CLADE__PACKED: return "packed";
  }
  return "nowhere";
}

void clade__place_print(const clade__place *place, clade__text *out) {
  clade__text_add(out, "%s:%d:%zu:%zu", clade__space_name(place->space), place->index, place->offset, place->bytes);
}

const char *clade__step_name(const clade_func *func, const clade__fstep *step, char room[32]) {
  if (!step->node) return "copy";
  const clade__node *node = &func->graph->nodes[step->node];
  if (*node->name) return node->name;
  snprintf(room, 32, "#%" PRIu32, step->node);
  return room;
}

typedef enum part { READS, WRITES, WORKSPACE } part;

static bool belongs(const clade_func *func, const clade__fstep *step, const clade__operand *o, part part) {
  if (o->cell < 0) return false;
  bool scratch = step->node && !func->cells[o->cell].value && o->read && o->write;
  if (part == WORKSPACE) return scratch;
  return !scratch && (part == READS ? o->read : o->write);
}

/* " reads c3@arena:0:0:64,…", each cell once; "-" if none. */
static void print_part(const clade_func *func, const clade__fstep *step, part part, const char *title,
                       clade__text *out) {
  bool any = false;
  clade__text_add(out, " %s ", title);
  for (int i = 0; i < step->n_operands; i++) {
    const clade__operand *o = &step->operand[i];
    bool again = !belongs(func, step, o, part);
    for (int k = 0; k < i && !again; k++)
      again = step->operand[k].cell == o->cell && belongs(func, step, &step->operand[k], part);
    if (again) continue;
    clade__text_add(out, "%sc%d@", any ? "," : "", (int)o->cell);
    clade__place_print(&o->place, out);
    any = true;
  }
  if (!any) clade__text_add(out, "-");
}

static bool is_transfer(const clade__fstep *step) { return step->kind == CLADE__FSTEP_HOST && !step->launch; }

static void print_step(const clade_func *func, size_t index, clade__text *out) {
  static const char *const kinds[] = {"kernel", "library", "copy", "host"};
  const clade__fstep *step = &func->steps[index];
  const clade_kernel_step *launch = step->launch;
  char room[32];
  bool transfer = is_transfer(step);
  clade__text_add(out, "%zu %s device %d", index, transfer ? "transfer" : kinds[step->kind], step->device);
  if (transfer) clade__text_add(out, " from %d", step->source_device);
  clade__text_add(out, " node %s", clade__step_name(func, step, room));
  if (launch && step->kind != CLADE__FSTEP_KERNEL) clade__text_add(out, " routine %s", launch->kernel);
  if (step->kind == CLADE__FSTEP_KERNEL)
    clade__text_add(out, " kernel %s global %zux%zux%zu local %zux%zux%zu", launch->kernel, launch->global[0],
                    launch->global[1], launch->global[2], launch->local[0], CLADE_MAX(launch->local[1], (size_t)1),
                    CLADE_MAX(launch->local[2], (size_t)1));
  print_part(func, step, READS, "reads", out);
  print_part(func, step, WRITES, "writes", out);
  print_part(func, step, WORKSPACE, "workspace", out);
  if (step->persistent)
    clade__text_add(out, " %s %u", func->persistent[step->persistent - 1].joined ? "joined" : "persistent",
                    step->persistent);
  clade__text_add(out, "\n");
}

static clade_status check(const clade_func *func, char **out, const char *function) {
  if (!out) return CLADE_FAIL(INVALID, "%s: there is no place for the text (NULL)", function);
  *out = NULL;
  if (!func) return CLADE_FAIL(INVALID, "%s: the func is NULL", function);
  return CLADE_OK;
}

clade_status clade_func_steps(const clade_func *func, char **out) {
  clade__text text = {0};
  CLADE_TRY(check(func, out, "clade_func_steps"));
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "clade_func_steps: the func has symbols: give them sizes (clade_func_specialize)");
  for (size_t i = 0; i < func->n_steps; i++) print_step(func, i, &text);
  return clade__text_take(&text, out);
}

static uint64_t count_crossing(const clade_func *func, int from, int to, int *copies) {
  uint64_t bytes = 0;
  *copies = 0;
  for (size_t i = 0; i < func->n_steps; i++) {
    const clade__fstep *step = &func->steps[i];
    if (!is_transfer(step) || step->source_device != from || step->device != to) continue;
    bytes += step->operand[0].place.bytes;
    ++*copies;
  }
  return bytes;
}

clade_status clade_func_crossing(const clade_func *func, int from, int to, int *copies, uint64_t *bytes) {
  if (!func || !copies || !bytes)
    return CLADE_FAIL(INVALID, "clade_func_crossing: %s is NULL", !func ? "the func" : !copies ? "copies" : "bytes");
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "clade_func_crossing: the func has symbols: give them sizes (clade_func_specialize)");
  if (from < 0 || to < 0 || from >= func->n_devices || to >= func->n_devices)
    return CLADE_FAIL(NOT_FOUND, "clade_func_crossing: from device %d to %d; the func has %d", from, to,
                      func->n_devices);
  *bytes = count_crossing(func, from, to, copies);
  return CLADE_OK;
}

static void print_crossings(const clade_func *func, clade__text *out) {
  for (int i = 0; i < func->n_devices * func->n_devices; i++) {
    int from = i / func->n_devices, to = i % func->n_devices, copies;
    uint64_t bytes = count_crossing(func, from, to, &copies);
    if (copies)
      clade__text_add(out, "plan: %" PRIu64 " bytes in %d copies from %s to %s\n", bytes, copies,
                      clade__device_info(func->devices[from])->name, clade__device_info(func->devices[to])->name);
  }
}

static void print_programming(const clade_func *func, clade__text *out) {
  for (int d = 0; d < func->n_devices; d++) {
    const clade__programming *t = &func->programming[d];
    if (t->first != t->last || t->changes)
      clade__text_add(out, "plan: %s gets another program %d times in each execution; %" PRIu64 " times so far\n",
                      clade__device_info(func->devices[d])->name, t->changes + (t->first != t->last),
                      clade__programmed_times(func->devices[d]));
  }
}

static void print_launches(const clade_func *func, bool joined, const char *what, clade__text *out) {
  size_t n = 0, inside = 0;
  for (size_t c = 0; c < func->n_persistent; c++) {
    if (func->persistent[c].joined != joined) continue;
    n++;
    inside += func->persistent[c].count;
  }
  if (n) clade__text_add(out, "plan: %zu steps in %zu %s, each of which is one launch\n", inside, n, what);
}

static void print_plan(const clade_func *func, clade__text *out) {
  size_t constants = 0, arena = 0, shared = 0, packed = 0, libraries = 0, transfers = 0;
  for (size_t i = 0; i < func->slabs.count; i++) arena += func->slabs.at[i].bytes;
  for (size_t i = 0; i < func->constant_slabs.count; i++) constants += func->constant_slabs.at[i].bytes;
  for (size_t i = 0; i < func->n_cells; i++) shared += func->cells[i].taken >= 0;
  for (size_t i = 0; i < func->n_hosts; i++) transfers += is_transfer(&func->steps[func->hosts[i]]);
  clade__text_add(out, "plan: %zu steps, %zu kernels, %zu transfers between devices\n", func->n_steps, func->n_requests,
                  transfers);
  if (func->n_hosts > transfers) clade__text_add(out, "plan: %zu steps of the host\n", func->n_hosts - transfers);
  print_launches(func, false, "persistent kernels", out);
  print_launches(func, true, "joined launches", out);
  print_crossings(func, out);
  print_programming(func, out);
  for (size_t i = 0; i < func->n_steps; i++) libraries += func->steps[i].kind == CLADE__FSTEP_LIBRARY;
  if (libraries)
    clade__text_add(out, "plan: %zu steps of other libraries, which may create objects whenever they are executed\n",
                    libraries);
  clade__text_add(out, "plan: arena %zu bytes in %zu slabs (live at most %" PRIu64 "), %zu values in place\n", arena,
                  func->slabs.count, func->live_peak, shared);
  for (size_t i = 0; i < func->n_packs; i++) packed += func->cells[func->packs[i].cell].place.bytes;
  if (func->n_packs)
    clade__text_add(out, "plan: %zu packed copies of what does not change, %zu bytes, made once and kept\n",
                    func->n_packs, packed);
  clade__text_add(out, "plan: constants %zu bytes; %s\n", constants,
                  func->writes ? "assigns variables" : "assigns no variable");
}

static clade_status explain(const clade_func *func, bool brief, const char *function, char **out) {
  clade__text text = {0};
  CLADE_TRY(check(func, out, function));
  if (!func->shaped)
    return CLADE_FAIL(INVALID, "%s: the func has symbols: give them sizes (clade_func_specialize)", function);
  clade_device_info *infos;
  clade__pass_ctx ctx;
  CLADE_TRY(clade__func_pass_ctx(func, &infos, &ctx));
  ctx.brief = brief;
  if (func->casts) clade__text_add(&text, "%s", func->casts);
  clade__explain(&ctx, &text);
  clade__free(infos);
  print_plan(func, &text);
  return clade__text_take(&text, out);
}

clade_status clade_func_explain(const clade_func *func, char **out) {
  return explain(func, false, "clade_func_explain", out);
}

clade_status clade_func_explain_brief(const clade_func *func, char **out) {
  return explain(func, true, "clade_func_explain_brief", out);
}

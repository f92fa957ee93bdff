/* Selects the interpreter kernels (cl_kernels/persistent.cl) that execute the steps of persistent kernels: the
 * func's own, compiled for the steps that no existing one covers, and existing ones from other funcs. */
#include <stdio.h>

#include "plan/plan.h"

enum { MOST_FOUND = 4 /* per device; each one splits persistent kernels */ };
/* Pointer arguments are rounded up, so that other funcs can reuse the kernel even if this func's persistent kernels
 * were split by duration. */
enum { BASES_STEP = 16, BASES_SUM = 32 };

/* ---- steps that can be members ---- */
/* The kernel's source must define the work of one item as a function, independent of the launch. */
static bool has_item(const clade__request *r) {
  const char *source;
  char body[160];
  if (r->source || *r->options || clade__kernel_source(r->file, &source) != CLADE_OK) return false;
  snprintf(body, sizeof body, "BODY(%s_item)", r->kernel);
  return strstr(source, body);
}

static bool may_join(const clade_func *func, const clade__fstep *step, clade__request *request) {
  const clade_kernel_step *launch = step->launch;
  if (step->kind != CLADE__FSTEP_KERNEL || step->wide || launch->dims != 1 || launch->local[0] != 1 ||
      launch->global[0] > INT32_MAX / 2)
    return false;
  if (!clade__quirk_has(func->devices[step->device], CLADE__QUIRK_SLOW_WAKE)) return false;
  for (size_t i = 0; i < launch->n_args; i++)
    if (launch->args[i].kind == CLADE__ARG_LOCAL || (launch->args[i].kind == CLADE__ARG_BYTES && !launch->args[i].type))
      return false;
  clade__step_request(func, step, request);
  return has_item(request);
}

/* ---- assignment of steps to interpreters ---- */
static clade_status add(clade_func *func, const clade__finterpreter *interpreter) {
  CLADE_TRY(clade__grow(&func->interpreters, &func->interpreter_capacity, func->n_interpreters + 1,
                        sizeof *func->interpreters));
  func->interpreters[func->n_interpreters++] = *interpreter;
  return CLADE_OK;
}

/* A device's own interpreter has the index of the device. */
static uint32_t own(const clade__fstep *step) { return (uint32_t)step->device + 1; }

clade_status clade__own_interpreters(clade_func *func) {
  func->n_interpreters = 0;
  for (int d = 0; d < func->n_devices; d++)
    CLADE_TRY(add(func, &(clade__finterpreter){.device = d, .n_bases = CLADE__PERSISTENT_BASES}));
  for (size_t s = 0; s < func->n_steps; s++) {
    clade__fstep *step = &func->steps[s];
    clade__request request;
    if (!may_join(func, step, &request)) continue;
    CLADE_TRY(clade__member_hash(&request, &step->key));
    step->interpreter = own(step);
  }
  return CLADE_OK;
}

void clade__drop_found(clade_func *func) {
  func->n_interpreters = (size_t)func->n_devices;
  for (size_t s = 0; s < func->n_steps; s++)
    if (func->steps[s].interpreter) func->steps[s].interpreter = own(&func->steps[s]);
}

/* ---- existing interpreters ---- */
typedef struct search {
  clade__hash *key; /* of steps not covered so far */
  size_t *step;
  int32_t *number;
  size_t n;
} search;

static void left(const clade_func *func, int device, search *s) {
  s->n = 0;
  for (size_t i = 0; i < func->n_steps; i++) {
    if (func->steps[i].device != device || func->steps[i].interpreter != own(&func->steps[i])) continue;
    s->key[s->n] = func->steps[i].key;
    s->step[s->n++] = i;
  }
}

/* Whether the interpreter has enough pointer arguments for the step. */
static bool fits(const clade__fstep *step, int n_bases) {
  int n = 0;
  for (int i = 0; i < step->n_operands; i++) {
    const clade__operand *o = &step->operand[i];
    int k = 0;
    while (k < i && (step->operand[k].cell < 0 || step->operand[k].place.space != o->place.space ||
                     step->operand[k].place.index != o->place.index))
      k++;
    n += o->cell >= 0 && k == i;
  }
  return n <= n_bases;
}

static clade_status find(clade_func *func, int device, search *s) {
  for (int turn = 0; turn < MOST_FOUND; turn++) {
    clade__holder holder;
    left(func, device, s);
    CLADE_TRY(clade__store_holder(func->devices[device], s->n, s->key, s->number, &holder));
    if (!holder.held) break;
    const int n_bases = (int)holder.n_args - CLADE__PERSISTENT_HEAD;
    CLADE_TRY(
        add(func, &(clade__finterpreter){.device = device, .found = true, .hash = holder.hash, .n_bases = n_bases}));
    for (size_t i = 0; i < s->n; i++) {
      clade__fstep *step = &func->steps[s->step[i]];
      if (s->number[i] < 0 || !fits(step, n_bases)) continue;
      step->interpreter = (uint32_t)func->n_interpreters;
      step->member = (uint32_t)s->number[i];
    }
  }
  return CLADE_OK;
}

static clade_status half_found(const clade_func *func, bool *yes) {
  clade__map known = {0};
  size_t all = 0, found = 0, at;
  clade_status status = CLADE_OK;
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (!step->interpreter || clade__map_get(&known, step->key, &at)) continue;
    CLADE_GOTO(clade__map_put(&known, step->key, all++));
    found += func->interpreters[step->interpreter - 1].found;
  }
  *yes = found && 2 * found >= all;
fail:
  clade__map_free(&known);
  return status;
}

clade_status clade__found_interpreters(clade_func *func, bool *spared) {
  search s = {clade__new(func->n_steps, sizeof *s.key), clade__new(func->n_steps, sizeof *s.step),
              clade__new(func->n_steps, sizeof *s.number), 0};
  clade_status status = s.key && s.step && s.number ? CLADE_OK : CLADE_NO_MEMORY;
  for (int d = 0; d < func->n_devices && status == CLADE_OK; d++)
    if (clade__quirk_has(func->devices[d], CLADE__QUIRK_SLOW_WAKE)) status = find(func, d, &s);
  clade__free(s.key);
  clade__free(s.step);
  clade__free(s.number);
  return status == CLADE_OK ? half_found(func, spared) : status;
}

/* ---- kernel requests ---- */
/* Appends a switch case. In a step's table, a memory argument has two words and a value its own size. */
static void add_case(const clade_kernel_step *launch, size_t member, clade__text *cases) {
  int word = 0;
  clade__text_add(cases, "case %zu: ITEM(%s, %zu)(item", member, launch->kernel, member);
  for (size_t i = 0; i < launch->n_args; i++) {
    const clade__arg *arg = &launch->args[i];
    const char *how = arg->kind != CLADE__ARG_BYTES ? "MEMORY"
                      : arg->type == 'i'            ? "INT"
                      : arg->type == 'u'            ? "UINT"
                      : arg->type == 'f'            ? "FLOAT"
                                                    : "INT8";
    clade__text_add(cases, ", %s(%d)", how, word);
    word += clade__persistent_words(arg);
  }
  clade__text_add(cases, "); break; ");
}

typedef struct making {
  clade__request *members;
  size_t n, capacity;
  clade__map known;
  clade__text cases, bases, list;
  int most_bases;
} making;

static clade_status add_member(clade_func *func, clade__fstep *step, making *m) {
  size_t member;
  if (!clade__map_get(&m->known, step->key, &member)) {
    CLADE_TRY(clade__grow(&m->members, &m->capacity, m->n + 1, sizeof *m->members));
    CLADE_TRY(clade__map_put(&m->known, step->key, m->n));
    member = m->n++;
    clade__step_request(func, step, &m->members[member]);
    add_case(step->launch, member, &m->cases);
  }
  step->member = (uint32_t)member;
  return CLADE_OK;
}

static clade_status add_members(clade_func *func, uint32_t interpreter, making *m) {
  int sum = 0;
  for (size_t c = 0; c < func->n_persistent; c++) {
    const clade__fpersistent *persistent = &func->persistent[c];
    if (persistent->interpreter != interpreter) continue;
    sum += persistent->n_bases;
    m->most_bases = CLADE_MAX(m->most_bases, CLADE_MAX(persistent->n_bases, CLADE_MIN(sum, BASES_SUM)));
    for (size_t i = 0; i < persistent->count; i++) CLADE_TRY(add_member(func, &func->steps[persistent->first + i], m));
  }
  m->most_bases = (m->most_bases + BASES_STEP - 1) / BASES_STEP * BASES_STEP;
  for (int i = 0; i < m->most_bases; i++) {
    clade__text_add(&m->bases, "%s__global char *base%d", i ? ", " : "", i);
    clade__text_add(&m->list, "%sbase%d", i ? ", " : "", i);
  }
  return m->cases.failed || m->bases.failed || m->list.failed ? CLADE_NO_MEMORY : CLADE_OK;
}

static clade_status describe(clade_func *func, const making *m, clade__request *request) {
  clade__launch_arg *args =
      clade__arena_new(&func->arena, (size_t)(CLADE__PERSISTENT_HEAD + m->most_bases) * sizeof *args);
  clade__define *defines = clade__arena_new(&func->arena, 4 * sizeof *defines);
  clade__request *members = clade__arena_new(&func->arena, m->n * sizeof *members);
  if (!args || !defines || !members) return CLADE_NO_MEMORY;
  memcpy(members, m->members, m->n * sizeof *members);
  defines[0] = (clade__define){"INDEX64", "0"};
  defines[1] = (clade__define){"CASES", clade__arena_text(&func->arena, m->cases.data)};
  defines[2] = (clade__define){"BASES", clade__arena_text(&func->arena, m->bases.data)};
  defines[3] = (clade__define){"BASE_LIST", clade__arena_text(&func->arena, m->list.data)};
  for (int i = 1; i < 4; i++)
    if (!defines[i].text) return CLADE_NO_MEMORY;
  args[0] = (clade__launch_arg){CLADE__LAUNCH_BUFFER, 0};
  args[1] = args[2] = (clade__launch_arg){CLADE__LAUNCH_BYTES, sizeof(int32_t)};
  for (int i = 0; i < m->most_bases; i++) args[CLADE__PERSISTENT_HEAD + i] = args[0];
  *request = (clade__request){.file = "persistent",
                              .kernel = "persistent",
                              .options = "",
                              .n_defines = 4,
                              .defines = defines,
                              .n_members = (int)m->n,
                              .members = members,
                              .local = {1},
                              .n_args = CLADE__PERSISTENT_HEAD + m->most_bases,
                              .args = args};
  return CLADE_OK;
}

static bool needed(const clade_func *func, uint32_t interpreter) {
  for (size_t c = 0; c < func->n_persistent; c++)
    if (func->persistent[c].interpreter == interpreter) return true;
  return false;
}

clade_status clade__persistent_request(clade_func *func, uint32_t interpreter, clade__request *request) {
  const clade__finterpreter *found = &func->interpreters[interpreter - 1];
  making m = {0};
  *request = (clade__request){0};
  if (!needed(func, interpreter)) return CLADE_OK;
  if (found->found) {
    *request = (clade__request){.file = "persistent", .kernel = "persistent", .found = &found->hash};
    return CLADE_OK;
  }
  clade_status status = add_members(func, interpreter, &m);
  if (status == CLADE_OK) status = describe(func, &m, request);
  clade__map_free(&m.known);
  clade__free(m.members);
  clade__text_free(&m.cases);
  clade__text_free(&m.bases);
  clade__text_free(&m.list);
  return status;
}

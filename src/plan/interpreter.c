/* The kernel that executes the steps of a device's persistent kernels (cl_kernels/persistent.cl) or joined launches
 * (joined.cl): which steps it can execute, and its request, with a case for each distinct kernel among them. */
#include <stdio.h>

#include "op/group.h"
#include "plan/plan.h"

/* Pointer arguments are rounded up, so that a func of the same steps with other sizes has the same kernel even if its
 * persistent kernels are split by duration. */
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

/* Whether the interpreter has enough pointer arguments for the step. */
static bool fits(const clade__fstep *step, const clade__finterpreter *interpreter) {
  int n = 0;
  for (int i = 0; i < step->n_operands; i++) {
    const clade__operand *o = &step->operand[i];
    int k = 0;
    while (k < i && (step->operand[k].cell < 0 || step->operand[k].place.space != o->place.space ||
                     step->operand[k].place.index != o->place.index))
      k++;
    n += o->cell >= 0 && k == i && !(interpreter->joined && o->place.space == CLADE__VARIABLE);
  }
  return n <= interpreter->n_bases;
}

static bool may_join(const clade_func *func, const clade__fstep *step, clade__request *request) {
  const clade_kernel_step *launch = step->launch;
  const clade_device *device = func->devices[step->device];
  if (step->kind != CLADE__FSTEP_KERNEL || step->wide || launch->dims != 1 || launch->global[0] > INT32_MAX / 2)
    return false;
  if (!clade__joins(device) && (!clade__quirk_has(device, CLADE__QUIRK_SLOW_WAKE) || launch->local[0] != 1))
    return false;
  for (size_t i = 0; i < launch->n_args; i++)
    if (launch->args[i].kind == CLADE__ARG_LOCAL || (launch->args[i].kind == CLADE__ARG_BYTES && !launch->args[i].type))
      return false;
  clade__step_request(func, step, request);
  return has_item(request);
}

clade_status clade__find_joining(clade_func *func) {
  func->interpreters = clade__new((size_t)func->n_devices, sizeof *func->interpreters);
  if (!func->interpreters) return CLADE_NO_MEMORY;
  for (int d = 0; d < func->n_devices; d++) {
    const bool joined = clade__joins(func->devices[d]);
    func->interpreters[d].joined = joined;
    func->interpreters[d].n_bases = joined ? CLADE__JOINED_BASES : CLADE__PERSISTENT_BASES;
  }
  for (size_t s = 0; s < func->n_steps; s++) {
    clade__fstep *step = &func->steps[s];
    clade__request request;
    if (!may_join(func, step, &request) || !fits(step, &func->interpreters[step->device])) continue;
    CLADE_TRY(clade__request_hash(&request, &step->key));
    step->joins = true;
  }
  return CLADE_OK;
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
  clade__text cases, bases, list, choice;
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

static clade_status add_members(clade_func *func, int device, making *m) {
  int sum = 0;
  for (size_t c = 0; c < func->n_persistent; c++) {
    const clade__fpersistent *persistent = &func->persistent[c];
    if (persistent->device != device) continue;
    sum += persistent->n_bases;
    m->most_bases = CLADE_MAX(m->most_bases, CLADE_MAX(persistent->n_bases, CLADE_MIN(sum, BASES_SUM)));
    for (size_t i = 0; i < persistent->count; i++) CLADE_TRY(add_member(func, &func->steps[persistent->first + i], m));
  }
  m->most_bases = (m->most_bases + BASES_STEP - 1) / BASES_STEP * BASES_STEP;
  if (func->interpreters[device].joined) m->most_bases = CLADE__JOINED_SLABS + CLADE__JOINED_BASES;
  for (int i = 0; i < m->most_bases; i++) {
    const bool more = i + 1 < m->most_bases;
    clade__text_add(&m->bases, "%s__global char *base%d", i ? ", " : "", i);
    clade__text_add(&m->list, "%sbase%d", i ? ", " : "", i);
    if (more) clade__text_add(&m->choice, "k == %d ? ", i);
    clade__text_add(&m->choice, "base%d%s", i, more ? " : " : "");
  }
  return m->cases.failed || m->bases.failed || m->list.failed || m->choice.failed ? CLADE_NO_MEMORY : CLADE_OK;
}

static clade_status describe(clade_func *func, const making *m, bool joined, clade__request *request) {
  const char *const name = joined ? "joined" : "persistent";
  clade__launch_arg *args =
      clade__arena_new(&func->arena, (size_t)(CLADE__PERSISTENT_HEAD + m->most_bases) * sizeof *args);
  clade__define *defines = clade__arena_new(&func->arena, 6 * sizeof *defines);
  clade__request *members = clade__arena_new(&func->arena, m->n * sizeof *members);
  char items[16];
  if (!args || !defines || !members) return CLADE_NO_MEMORY;
  snprintf(items, sizeof items, "%d", CLADE__GROUP_ITEMS);
  memcpy(members, m->members, m->n * sizeof *members);
  defines[0] = (clade__define){"INDEX64", "0"};
  defines[1] = (clade__define){"CASES", clade__arena_text(&func->arena, m->cases.data)};
  defines[2] = (clade__define){"BASES", clade__arena_text(&func->arena, m->bases.data)};
  defines[3] = (clade__define){"BASE_LIST", clade__arena_text(&func->arena, m->list.data)};
  defines[4] = (clade__define){"CHOICE", clade__arena_text(&func->arena, m->choice.data)};
  defines[5] = (clade__define){"ITEMS", clade__arena_text(&func->arena, items)};
  for (int i = 1; i < 6; i++)
    if (!defines[i].text) return CLADE_NO_MEMORY;
  args[0] = (clade__launch_arg){CLADE__LAUNCH_BUFFER, 0};
  args[1] = args[2] = (clade__launch_arg){CLADE__LAUNCH_BYTES, sizeof(int32_t)};
  for (int i = 0; i < m->most_bases; i++) args[CLADE__PERSISTENT_HEAD + i] = args[0];
  *request = (clade__request){.file = name,
                              .kernel = name,
                              .options = "",
                              .n_defines = joined ? 6 : 4, /* the last two are for joined launches */
                              .defines = defines,
                              .n_members = (int)m->n,
                              .members = members,
                              .local = {joined ? CLADE__GROUP_ITEMS : 1},
                              .n_args = CLADE__PERSISTENT_HEAD + m->most_bases,
                              .args = args};
  return CLADE_OK;
}

static bool needed(const clade_func *func, int device) {
  for (size_t c = 0; c < func->n_persistent; c++)
    if (func->persistent[c].device == device) return true;
  return false;
}

clade_status clade__persistent_request(clade_func *func, int device, clade__request *request) {
  making m = {0};
  *request = (clade__request){0};
  if (!needed(func, device)) return CLADE_OK;
  clade_status status = add_members(func, device, &m);
  if (status == CLADE_OK) status = describe(func, &m, func->interpreters[device].joined, request);
  clade__map_free(&m.known);
  clade__free(m.members);
  clade__text_free(&m.cases);
  clade__text_free(&m.bases);
  clade__text_free(&m.list);
  clade__text_free(&m.choice);
  return status;
}

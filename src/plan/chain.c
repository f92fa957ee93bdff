/* Chains: which steps follow each other in one launch where launches are dear, and the kernel that does them
 * (cl_kernels/chain.cl). Of each device it is one kernel, which holds all that the func's chains need; a chain is a
 * table of arguments for it (run_chain.c). */
#include <stdio.h>

#include "plan/plan.h"

size_t clade__chain_least = 8;

enum { MOST_BASES = 96 }; /* of 8 bytes: devices promise 1024 bytes of arguments */
/* A chain has all threads of the device until it ends: what is read or uploaded meanwhile, and other runs, wait. As
 * estimated, which is twice what steps take, and more where they are small. */
static const double most_seconds = 5e-3;

/* ---- what may be a member ---- */
/* Its source tells what one work-item does, apart from how it is launched. */
static bool has_item(const clade__request *r) {
  const char *source;
  char body[160];
  if (r->source || *r->options || clade__kernel_source(r->file, &source) != CLADE_OK) return false;
  snprintf(body, sizeof body, "BODY(%s_item)", r->kernel);
  return strstr(source, body);
}

static bool may_join(const clade_func *func, const clade__fstep *step) {
  const clade_kernel_step *launch = step->launch;
  if (step->kind != CLADE__FSTEP_KERNEL || step->wide || launch->dims != 1 || launch->local[0] != 1 ||
      launch->global[0] > INT32_MAX / 2)
    return false;
  if (!clade__quirk_has(func->devices[step->device], CLADE__QUIRK_SLOW_WAKE)) return false;
  for (size_t i = 0; i < launch->n_args; i++)
    if (launch->args[i].kind == CLADE__ARG_LOCAL || (launch->args[i].kind == CLADE__ARG_BYTES && !launch->args[i].type))
      return false;
  clade__request request;
  clade__step_request(func, step, &request);
  return has_item(&request);
}

/* ---- which follow each other ---- */
int clade__chain_base(const clade__fchain *chain, const clade__place *place) {
  for (int i = 0; i < chain->n_bases; i++)
    if (chain->bases[i].space == place->space && chain->bases[i].index == place->index) return i;
  return -1;
}

/* false: there is no room for its memory. */
static bool add_bases(clade__fchain *chain, const clade__fstep *step) {
  int before = chain->n_bases;
  for (int i = 0; i < step->n_operands; i++) {
    const clade__operand *o = &step->operand[i];
    if (o->cell < 0 || clade__chain_base(chain, &o->place) >= 0) continue;
    if (chain->n_bases == MOST_BASES) {
      chain->n_bases = before;
      return false;
    }
    chain->bases[chain->n_bases++] = o->place;
  }
  return true;
}

static clade_status chain_new(clade_func *func, size_t first, clade__fchain **out) {
  CLADE_TRY(clade__grow(&func->chains, &func->chain_capacity, func->n_chains + 1, sizeof *func->chains));
  *out = &func->chains[func->n_chains];
  **out = (clade__fchain){.first = first, .device = func->steps[first].device};
  (*out)->bases = clade__arena_new(&func->arena, MOST_BASES * sizeof *(*out)->bases);
  if (!(*out)->bases) return CLADE_NO_MEMORY;
  func->n_chains++;
  return CLADE_OK;
}

/* As its implementation estimates its node, all of it with the node's first step. */
static double seconds_of(const clade_func *func, size_t s) {
  const clade__fstep *step = &func->steps[s];
  const clade__node *node = &func->graph->nodes[step->node];
  const clade_impl *impl = &node->op->impls[node->impl];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  if (s > 0 && func->steps[s - 1].node == step->node) return 0;
  clade__node_view(func->graph, step->node, in, out, &view);
  clade_query query = {sizeof query, &view, clade__device_info(func->devices[step->device]), node->row};
  return impl->cost ? impl->cost(&query) : most_seconds;
}

/* ---- the table ---- */
uint32_t clade__chain_workers(const clade_device *device) {
  return CLADE_MAX(clade__device_info(device)->compute_units, 1u);
}

int clade__chain_words(const clade__arg *arg) {
  return arg->kind == CLADE__ARG_BYTES ? (int)(arg->bytes / sizeof(int32_t)) : 2;
}

static size_t table_words(const clade_func *func, const clade__fchain *chain) {
  size_t words = chain->count * CLADE__CHAIN_STEP;
  for (size_t s = chain->first; s < chain->first + chain->count; s++)
    for (size_t i = 0; i < func->steps[s].launch->n_args; i++)
      words += (size_t)clade__chain_words(&func->steps[s].launch->args[i]);
  return (words + CLADE__CHAIN_LINE - 1) / CLADE__CHAIN_LINE * CLADE__CHAIN_LINE;
}

/* ---- all of them ---- */
/* A func of few steps does without: its kernels are compiled already, or will serve others. */
static void keep_or_drop(clade_func *func) {
  size_t steps = 0;
  for (size_t c = 0; c < func->n_chains; c++) steps += func->chains[c].count;
  if (steps < clade__chain_least) func->n_chains = 0;
  for (size_t c = 0; c < func->n_chains; c++)
    for (size_t i = 0; i < func->chains[c].count; i++) func->steps[func->chains[c].first + i].chain = (uint32_t)c + 1;
}

/* Where its part of the device's table is: behind the counters and the chains before it. */
static void settle_tables(clade_func *func) {
  for (int d = 0; d < func->n_devices; d++) {
    size_t at = (2 + clade__chain_workers(func->devices[d])) * (size_t)CLADE__CHAIN_LINE;
    for (size_t c = 0; c < func->n_chains; c++) {
      if (func->chains[c].device != d) continue;
      func->chains[c].at = at;
      at += table_words(func, &func->chains[c]);
      func->chains[c].end = at;
    }
  }
}

clade_status clade__chains_plan(clade_func *func) {
  clade__fchain *chain = NULL;
  double seconds = 0;
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (!may_join(func, step)) {
      chain = NULL;
      continue;
    }
    const double own = seconds_of(func, s);
    seconds += own;
    if (!chain || chain->device != step->device || seconds > most_seconds || !add_bases(chain, step)) {
      CLADE_TRY(chain_new(func, s, &chain));
      seconds = own;
      (void)add_bases(chain, step); /* of one step there is always room for all */
    }
    chain->per_slot |= step->per_slot;
    chain->count++;
  }
  keep_or_drop(func);
  settle_tables(func);
  return CLADE_OK;
}

/* ---- the kernel of a device ---- */
/* `cases` by what a step's table holds: memory in two words, values in theirs. */
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
    word += clade__chain_words(arg);
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
  clade__request request;
  clade__hash hash;
  size_t member;
  clade__step_request(func, step, &request);
  CLADE_TRY(clade__request_hash(&request, &hash));
  if (!clade__map_get(&m->known, hash, &member)) {
    CLADE_TRY(clade__grow(&m->members, &m->capacity, m->n + 1, sizeof *m->members));
    CLADE_TRY(clade__map_put(&m->known, hash, m->n));
    member = m->n++;
    m->members[member] = request;
    add_case(step->launch, member, &m->cases);
  }
  step->member = (uint32_t)member;
  return CLADE_OK;
}

static clade_status add_members(clade_func *func, int device, making *m) {
  for (size_t c = 0; c < func->n_chains; c++) {
    const clade__fchain *chain = &func->chains[c];
    if (chain->device != device) continue;
    m->most_bases = CLADE_MAX(m->most_bases, chain->n_bases);
    for (size_t i = 0; i < chain->count; i++) CLADE_TRY(add_member(func, &func->steps[chain->first + i], m));
  }
  for (int i = 0; i < m->most_bases; i++) {
    clade__text_add(&m->bases, "%s__global char *base%d", i ? ", " : "", i);
    clade__text_add(&m->list, "%sbase%d", i ? ", " : "", i);
  }
  return m->cases.failed || m->bases.failed || m->list.failed ? CLADE_NO_MEMORY : CLADE_OK;
}

static clade_status describe(clade_func *func, const making *m, clade__request *request) {
  clade__launch_arg *args = clade__arena_new(&func->arena, (size_t)(CLADE__CHAIN_HEAD + m->most_bases) * sizeof *args);
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
  for (int i = 0; i < m->most_bases; i++) args[CLADE__CHAIN_HEAD + i] = args[0];
  *request = (clade__request){.file = "chain",
                              .kernel = "chain",
                              .options = "",
                              .n_defines = 4,
                              .defines = defines,
                              .n_members = (int)m->n,
                              .members = members,
                              .local = {1},
                              .n_args = CLADE__CHAIN_HEAD + m->most_bases,
                              .args = args};
  return CLADE_OK;
}

clade_status clade__chain_request(clade_func *func, int device, clade__request *request) {
  making m = {0};
  clade_status status = add_members(func, device, &m);
  *request = (clade__request){0};
  if (status == CLADE_OK && m.n) status = describe(func, &m, request);
  clade__map_free(&m.known);
  clade__free(m.members);
  clade__text_free(&m.cases);
  clade__text_free(&m.bases);
  clade__text_free(&m.list);
  return status;
}

/* Binds persistent kernels and joined launches to a run's memory: one table per device with the steps and arguments of
 * all, and one kernel object for each with its table range and buffers. */
#include "op/group.h"
#include "plan/run.h"

const clade__fpersistent *clade__run_persistent(const clade_run *run, const clade__fstep *step) {
  return step->persistent && !run->apart ? &run->func->persistent[step->persistent - 1] : NULL;
}

/* ---- argument table ---- */
enum { TOGETHER = 5 /* word that holds the number of steps per task */ };

static const clade__var *variable_of(const clade_run *run, int variable) {
  return &run->vars->at[run->var_index[variable]];
}

static int32_t base_of(const clade_run *run, const clade__fpersistent *persistent, const clade__place *place) {
  if (persistent->joined && place->space == CLADE__VARIABLE) return variable_of(run, place->index)->slab;
  return clade__persistent_base(persistent, place) + (persistent->joined ? CLADE__JOINED_SLABS : 0);
}

static clade_status put_arg(const clade_run *run, const clade__fpersistent *persistent, const clade__fstep *step,
                            size_t i, int32_t *to) {
  const clade__arg *arg = &step->launch->args[i];
  int64_t element;
  if (arg->kind == CLADE__ARG_BYTES) {
    memcpy(to, arg->value, arg->bytes);
    return CLADE_OK;
  }
  CLADE_TRY(clade__run_element(run, step, (int)i, (cl_uint)i, &element));
  to[0] = base_of(run, persistent, &step->operand[i].place);
  to[1] = (int32_t)element;
  return CLADE_OK;
}

/* Items per task: large steps have several, but enough tasks remain for work stealing. */
static int32_t task_items(size_t items, uint32_t workers) {
  enum { TASKS = 8 }; /* tasks per worker */
  return (int32_t)CLADE_MAX(items / (TASKS * (size_t)workers), (size_t)1);
}

static int32_t tasks_of_share(int32_t items, int32_t each, uint32_t workers) {
  const int64_t share = (int64_t)each * workers;
  return (int32_t)((items + share - 1) / share);
}

/* Consecutive steps of one item become one task, so that only the first of them has tasks. */
static clade_status put_persistent(const clade_run *run, const clade__fpersistent *persistent, int32_t *to) {
  int32_t args = (int32_t)persistent->count * CLADE__PERSISTENT_STEP, tasks = 0;
  for (size_t s = 0, begin = 0; s < persistent->count; s++) {
    const clade__fstep *step = &run->func->steps[persistent->first + s];
    const int32_t items = (int32_t)step->launch->global[0];
    const int32_t each = task_items((size_t)items, persistent->workers);
    if (s == 0 || items > 1 || step[-1].launch->global[0] > 1) {
      tasks += tasks_of_share(items, each, persistent->workers);
      begin = s;
    }
    const int32_t head[CLADE__PERSISTENT_STEP] = {tasks, (int32_t)step->member, each, items, args};
    memcpy(to + s * CLADE__PERSISTENT_STEP, head, sizeof head);
    to[begin * CLADE__PERSISTENT_STEP + TOGETHER]++;
    for (size_t i = 0; i < step->launch->n_args; i++) {
      CLADE_TRY(put_arg(run, persistent, step, i, to + args));
      args += clade__persistent_words(&step->launch->args[i]);
    }
  }
  return CLADE_OK;
}

static int32_t joined_map(const clade_run *run, const clade__fpersistent *joined) {
  int32_t words = (int32_t)joined->count * CLADE__PERSISTENT_STEP;
  for (size_t s = joined->first; s < joined->first + joined->count; s++)
    for (size_t i = 0; i < run->func->steps[s].launch->n_args; i++)
      words += clade__persistent_words(&run->func->steps[s].launch->args[i]);
  return words;
}

static clade_status put_joined(const clade_run *run, const clade__fpersistent *joined, int32_t *to) {
  int32_t args = (int32_t)joined->count * CLADE__PERSISTENT_STEP, group = 0, *map = to + joined_map(run, joined);
  for (size_t s = 0; s < joined->count; s++) {
    const clade__fstep *step = &run->func->steps[joined->first + s];
    const int32_t head[] = {group, (int32_t)step->member, (int32_t)step->launch->global[0], args};
    memcpy(to + s * CLADE__PERSISTENT_STEP, head, sizeof head);
    for (const int32_t end = group + (int32_t)clade__joined_groups(step); group < end; group++) map[group] = (int32_t)s;
    for (size_t i = 0; i < step->launch->n_args; i++) {
      CLADE_TRY(put_arg(run, joined, step, i, to + args));
      args += clade__persistent_words(&step->launch->args[i]);
    }
  }
  return CLADE_OK;
}

static clade_status fill(const clade_run *run, int device, int32_t *words) {
  for (size_t c = 0; c < run->func->n_persistent; c++) {
    const clade__fpersistent *persistent = &run->func->persistent[c];
    if (persistent->device == device)
      CLADE_TRY((persistent->joined ? put_joined : put_persistent)(run, persistent, words + persistent->at));
  }
  return CLADE_OK;
}

static clade_status table_new(clade_run *run, int device, size_t words) {
  clade_device *on = run->func->devices[device];
  clade__queue *queue = clade__device_transfer_queue(on);
  int32_t *data = clade__new(words, sizeof *data);
  clade_status status = !queue ? CLADE_OPENCL : data ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = fill(run, device, data);
  if (status == CLADE_OK)
    status = clade__buffer_new(on, words * sizeof *data, "what persistent kernels do", &run->tables[device]);
  if (status == CLADE_OK)
    status =
        clade__queue_write(queue, run->tables[device], 0, data, words * sizeof *data, true, (clade__wait){0}, NULL);
  clade__free(data);
  return status;
}

clade_status clade__run_tables(clade_run *run) {
  run->tables = clade__new((size_t)run->n_lanes, sizeof(clade__buffer *));
  if (!run->tables) return CLADE_NO_MEMORY;
  for (int d = 0; d < run->n_lanes && !run->apart; d++) {
    size_t words = 0;
    for (size_t c = 0; c < run->func->n_persistent; c++)
      if (run->func->persistent[c].device == d) words = run->func->persistent[c].end;
    if (words) CLADE_TRY(table_new(run, d, words));
  }
  return CLADE_OK;
}

/* ---- kernel objects ---- */
static clade_status set_base(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent, int slot,
                             int i) {
  const clade__place *place = &persistent->bases[i];
  clade__buffer *buffer = clade__run_buffer(run, slot, place);
  if (!buffer && place->space == CLADE__PACKED) return CLADE_OK; /* bound before the first execution */
  cl_mem memory = clade__buffer_mem(buffer);
  const int at = CLADE__PERSISTENT_HEAD + base_of(run, persistent, place);
  return clade__kernel_set(run->func->devices[persistent->device], kernel, (cl_uint)at, sizeof memory, &memory);
}

/* The buffers of all variables on the device. */
static clade_status set_slabs(const clade_run *run, cl_kernel kernel, const clade__fpersistent *joined) {
  clade_device *device = run->func->devices[joined->device];
  for (size_t v = 0; v < run->func->graph->variables.count; v++) {
    const clade__var *var = variable_of(run, (int)v);
    if (run->vars->devices[var->device] != device) continue;
    cl_mem memory = clade__buffer_mem(var->buffer);
    CLADE_TRY(clade__kernel_set(device, kernel, (cl_uint)(CLADE__PERSISTENT_HEAD + var->slab), sizeof memory, &memory));
  }
  return CLADE_OK;
}

bool clade__run_binds(const clade_run *run) {
  for (size_t c = 0; c < run->func->n_persistent; c++)
    for (size_t v = 0; v < run->func->graph->variables.count && run->func->persistent[c].joined; v++) {
      const clade__var *var = variable_of(run, (int)v);
      if (run->vars->devices[var->device] == run->func->devices[run->func->persistent[c].device] &&
          var->slab >= CLADE__JOINED_SLABS)
        return false;
    }
  return true;
}

clade_status clade__run_persistent_args(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent,
                                        int slot) {
  clade_device *device = run->func->devices[persistent->device];
  int32_t at = (int32_t)persistent->at;
  int32_t count = persistent->joined ? joined_map(run, persistent) : (int32_t)persistent->count;
  cl_mem memory = clade__buffer_mem(run->tables[persistent->device]);
  cl_uint n;
  CLADE_TRY(clade__kernel_args(device, kernel, &n));
  CLADE_TRY(clade__kernel_set(device, kernel, 0, sizeof memory, &memory));
  CLADE_TRY(clade__kernel_set(device, kernel, 1, sizeof at, &at));
  CLADE_TRY(clade__kernel_set(device, kernel, 2, sizeof count, &count));
  for (cl_uint i = CLADE__PERSISTENT_HEAD; i < n; i++) /* unused pointer arguments still need a valid buffer */
    CLADE_TRY(clade__kernel_set(device, kernel, i, sizeof memory, &memory));
  if (persistent->joined) CLADE_TRY(set_slabs(run, kernel, persistent));
  for (int i = 0; i < persistent->n_bases; i++) CLADE_TRY(set_base(run, kernel, persistent, slot, i));
  return CLADE_OK;
}

clade_status clade__run_persistent_rebind(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent,
                                          int slot) {
  for (int i = 0; i < persistent->n_bases; i++)
    if (persistent->bases[i].space == CLADE__PACKED) CLADE_TRY(set_base(run, kernel, persistent, slot, i));
  return CLADE_OK;
}

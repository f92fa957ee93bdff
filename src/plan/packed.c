/* Packed copies: values constant across executions, in another layout, type or device. Copies of constants are made
 * once per func; copies of variables once per version, in a cache shared by the runs of all funcs over the same
 * variables. A copy is immutable: a new version gets a new one, and readers of the old one keep it. */
#include "plan/run.h"

/* ---- creating a copy ---- */
/* Launches the step on the transfer queue and waits. */
static clade_status launch(const clade_run *run, const clade__fstep *step) {
  const clade__program_kernel *from = &run->func->kernels[step->request];
  clade_device *device = run->func->devices[step->device];
  clade__queue *queue = clade__device_transfer_queue(device);
  cl_kernel kernel = NULL;
  cl_event event = NULL;
  clade_status status;
  if (!queue) return CLADE_OPENCL;
  CLADE_TRY(clade__kernel_new(device, from->program, from->name, &kernel));
  CLADE_GOTO(clade__run_set_args(run, kernel, step, 0));
  CLADE_GOTO(clade__queue_launch(queue, kernel, (cl_uint)step->launch->dims, step->launch->global, step->launch->local,
                                 (clade__wait){0}, &event));
  CLADE_GOTO(clade__queue_flush(queue));
  CLADE_GOTO(clade__event_wait(device, event));
fail:
  if (status != CLADE_OK && event) (void)clade__queue_finish(queue); /* the memory is freed next */
  clade__event_release(event);
  clade__kernel_release(kernel);
  return status;
}

/* Copies through the host. */
static clade_status carry(const clade_run *run, const clade__fstep *step) {
  const clade__place *from = &step->operand[0].place, *to = &step->operand[1].place;
  clade__queue *source = clade__device_transfer_queue(run->func->devices[step->source_device]);
  clade__queue *queue = clade__device_transfer_queue(run->func->devices[step->device]);
  if (!source || !queue) return CLADE_OPENCL;
  void *data = clade__new(from->bytes, 1);
  if (!data) return CLADE_NO_MEMORY;
  clade_status status = clade__queue_read(source, clade__run_buffer(run, 0, from), clade__run_offset(run, from), data,
                                          from->bytes, true, (clade__wait){0}, NULL);
  if (status == CLADE_OK)
    status = clade__queue_write(queue, clade__run_buffer(run, 0, to), clade__run_offset(run, to), data, from->bytes,
                                true, (clade__wait){0}, NULL);
  clade__free(data);
  return status;
}

static clade_status make(const clade_run *run, const clade__fstep *step) {
  return step->kind == CLADE__FSTEP_HOST ? carry(run, step) : launch(run, step);
}

clade_status clade__packed_constants(clade_func *func) {
  const clade_run alone = {.func = func}; /* steps access constants only */
  for (size_t i = 0; i < func->n_packs; i++)
    if (func->packs[i].variable < 0) CLADE_TRY(make(&alone, &func->packs[i].step));
  return CLADE_OK;
}

/* ---- releasing copies, under vars->lock ---- */
static void unbind(clade_run *run) {
  for (size_t i = 0; i < run->func->n_packs; i++) {
    clade__buffer_release(run->packs[i].buffer);
    run->packs[i] = (clade__bound){0};
  }
}

static bool is_idle(clade_run *run) {
  bool idle = !run->entered;
  for (int s = 0; s < run->n_slots && idle; s++)
    idle = !run->slots[s].busy || clade__slot_poll(run, &run->slots[s]) == 1;
  return idle;
}

/* Copies in use by executions stay with their runs until these finish. */
static bool drop(clade_vars *vars, const clade_device *device, const clade_run *self) {
  bool any = false;
  for (clade_run *run = vars->readers; run; run = run->next_reader) {
    if (run == self || pthread_mutex_trylock(&run->lock) != 0) continue;
    if (is_idle(run)) unbind(run);
    pthread_mutex_unlock(&run->lock);
  }
  for (size_t i = 0; i < vars->n_packed; i++) {
    clade__packed *p = &vars->packed[i];
    if (!p->buffer || clade__buffer_device(p->buffer) != device) continue;
    clade__buffer_release(p->buffer);
    p->buffer = NULL;
    any = true;
  }
  return any;
}

/* try only: the owner of the lock may be the thread that allocates */
bool clade__packed_drop(void *user, clade_device *device) {
  clade_vars *vars = user;
  if (pthread_mutex_trylock(&vars->lock) != 0) return false;
  bool any = drop(vars, device, NULL);
  pthread_mutex_unlock(&vars->lock);
  return any;
}

/* ---- binding runs to the current copies ---- */
bool clade__packed_stale(const clade_run *run) {
  for (size_t i = 0; i < run->func->n_packs; i++) {
    int variable = run->func->packs[i].variable;
    if (variable >= 0 && run->packs[i].version != run->vars->at[run->var_index[variable]].version + 1) return true;
  }
  return false;
}

static clade_status find(clade_vars *vars, int variable, const clade__fpack *pack, const clade_device *device,
                         clade__packed **out) {
  const clade_layout l = pack->layout;
  const int64_t name[7] = {
      variable, l.axis, l.block, CLADE_MAX(l.interleave, 1), l.tile, pack->dtype, (int64_t)(intptr_t)device};
  clade__hash key = clade__hash_bytes(name, sizeof name);
  size_t at;
  if (!clade__map_get(&vars->packed_by, key, &at)) {
    at = vars->n_packed;
    CLADE_TRY(clade__grow(&vars->packed, &vars->packed_capacity, at + 1, sizeof *vars->packed));
    CLADE_TRY(clade__map_put(&vars->packed_by, key, at));
    vars->packed[vars->n_packed++] = (clade__packed){.variable = variable};
  }
  *out = &vars->packed[at];
  return CLADE_OK;
}

static clade_status room_for(clade_run *run, const clade__place *place, clade__buffer **out) {
  clade_device *device = run->func->devices[place->device];
  clade_status status = clade__run_port_buffer(run, place, "a packed copy", out);
  if (status == CLADE_DEVICE_MEMORY && drop(run->vars, device, run))
    status = clade__run_port_buffer(run, place, "a packed copy", out);
  return status;
}

/* Returns pack `i` for the variable's current version, from the cache or newly made. */
static clade_status take(clade_run *run, size_t i) {
  const clade__fpack *pack = &run->func->packs[i];
  int variable = run->var_index[pack->variable];
  uint64_t version = run->vars->at[variable].version;
  clade__packed *have;
  CLADE_TRY(find(run->vars, variable, pack, run->func->devices[pack->step.device], &have));
  if (!have->buffer || have->version != version) {
    clade__buffer_release(have->buffer); /* reuse the memory unless it is still read */
    have->buffer = NULL;
    CLADE_TRY(room_for(run, &run->func->cells[pack->cell].place, &run->packs[i].buffer));
    CLADE_TRY(make(run, &pack->step));
    have->buffer = clade__buffer_retain(run->packs[i].buffer);
    have->version = version;
    run->vars->packings++;
  } else {
    run->packs[i].buffer = clade__buffer_retain(have->buffer);
  }
  return CLADE_OK;
}

/* All or nothing, since bound copies must match the kernels' arguments. */
clade_status clade__packed_bind(clade_run *run) {
  clade_status status = CLADE_OK;
  unbind(run);
  for (size_t i = 0; i < run->func->n_packs && status == CLADE_OK; i++)
    if (run->func->packs[i].variable >= 0) status = take(run, i);
  if (status == CLADE_OK) status = clade__run_rebind(run);
  for (size_t i = 0; i < run->func->n_packs && status == CLADE_OK; i++) {
    int variable = run->func->packs[i].variable;
    if (variable >= 0) run->packs[i].version = run->vars->at[run->var_index[variable]].version + 1;
  }
  if (status != CLADE_OK) unbind(run);
  return status;
}

clade_status clade__packed_join(clade_run *run) {
  if (!run->func->n_packs) return CLADE_OK;
  run->packs = clade__new(run->func->n_packs, sizeof *run->packs);
  if (!run->packs) return CLADE_NO_MEMORY;
  if (!run->vars) return CLADE_OK; /* all packs are of constants */
  pthread_mutex_lock(&run->vars->lock);
  run->next_reader = run->vars->readers;
  run->vars->readers = run;
  pthread_mutex_unlock(&run->vars->lock);
  return CLADE_OK;
}

void clade__packed_part(clade_run *run) {
  if (!run->packs) return;
  if (run->vars) pthread_mutex_lock(&run->vars->lock);
  for (clade_run **at = run->vars ? &run->vars->readers : NULL; at && *at; at = &(*at)->next_reader)
    if (*at == run) {
      *at = run->next_reader;
      break;
    }
  unbind(run);
  if (run->vars) pthread_mutex_unlock(&run->vars->lock);
  clade__free(run->packs);
  run->packs = NULL;
}

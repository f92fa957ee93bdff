/* Builds a run: buffers, and kernels with preset arguments. */
#include <stdio.h>

#include "plan/run.h"

clade__buffer *clade__run_buffer(const clade_run *run, int slot, const clade__place *place) {
  switch (place->space) {
  case CLADE__NOWHERE: break;
  case CLADE__ARENA: return run->arena[place->index];
  case CLADE__VARIABLE: return run->vars->at[run->var_index[place->index]].buffer;
  case CLADE__CONSTANT: return run->func->constants[place->index];
  case CLADE__INPUT: return run->slots[slot].inputs[place->index];
  case CLADE__OUTPUT: return run->slots[slot].outputs[place->index];
  case CLADE__PACKED: return run->packs[place->index].buffer;
  }
  return NULL;
}

size_t clade__run_offset(const clade_run *run, const clade__place *place) {
  return place->space == CLADE__VARIABLE ? run->vars->at[run->var_index[place->index]].offset : place->offset;
}

/* ---- buffers ---- */
/* Filled with 0xFF if guards are on. */
static clade_status buffer(clade_run *run, int device, size_t bytes, const char *what, clade__buffer **out) {
  const uint32_t ones = UINT32_MAX;
  CLADE_TRY(clade__buffer_new(run->func->devices[device], bytes, what, out));
  if (!run->func->guard) return CLADE_OK;
  clade__queue *queue = clade__device_transfer_queue(run->func->devices[device]);
  if (!queue) return CLADE_OPENCL;
  CLADE_TRY(clade__queue_fill(queue, *out, 0, bytes & ~(size_t)3, &ones, sizeof ones, (clade__wait){0}, NULL));
  return clade__queue_finish(queue);
}

clade_status clade__run_port_buffer(clade_run *run, const clade__place *place, const char *what, clade__buffer **out) {
  size_t bytes;
  if (!clade__round_up(CLADE_MAX(place->bytes, (size_t)1), sizeof(uint32_t), &bytes) ||
      !clade__add(bytes, 2 * run->func->guard, &bytes))
    return CLADE_FAIL(OVERFLOW, "%s: %zu bytes", what, place->bytes);
  return buffer(run, place->device, bytes, what, out);
}

static clade_status slot_buffers(clade_run *run, clade__slot *slot) {
  const clade_func *func = run->func;
  const clade_graph *g = func->graph;
  for (size_t i = 0; i < g->inputs.count; i++) {
    const clade__place *place = &func->cells[func->cell_of[g->inputs.at[i].value]].place;
    CLADE_TRY(clade__run_port_buffer(run, place, g->inputs.at[i].name, &slot->inputs[i]));
    CLADE_TRY(clade__staging_new(func->devices[place->device], CLADE_MAX(place->bytes, (size_t)1), &slot->staging[i]));
  }
  for (size_t i = 0; i < g->outputs.count; i++) {
    const clade__place *place = &func->cells[func->output_cell[i]].place;
    if (place->space == CLADE__OUTPUT && place->index == (int)i)
      CLADE_TRY(clade__run_port_buffer(run, place, g->outputs.at[i].name, &slot->outputs[i]));
  }
  return clade__hosts_new(run, slot);
}

static clade_status slot_new(clade_run *run, clade__slot *slot) {
  const clade_func *func = run->func;
  size_t inputs = func->graph->inputs.count, outputs = func->graph->outputs.count;
  slot->fed = clade__new(inputs, sizeof *slot->fed);
  slot->inputs = clade__new(inputs, sizeof *slot->inputs);
  slot->staging = clade__new(inputs, sizeof *slot->staging);
  slot->outputs = clade__new(outputs, sizeof *slot->outputs);
  slot->uploaded = clade__new((size_t)run->n_lanes, sizeof *slot->uploaded);
  slot->done = clade__new((size_t)run->n_lanes, sizeof *slot->done);
  if (!slot->fed || !slot->inputs || !slot->staging || !slot->outputs || !slot->uploaded || !slot->done)
    return CLADE_NO_MEMORY;
  return slot_buffers(run, slot);
}

/* ---- kernels ---- */
clade_status clade__run_element(const clade_run *run, const clade__fstep *step, int operand, cl_uint index,
                                int64_t *element) {
  const clade__arg *arg = &step->launch->args[operand];
  size_t at = clade__run_offset(run, &step->operand[operand].place) + arg->at;
  *element = (int64_t)(at / arg->element);
  if (!step->wide && *element > INT32_MAX)
    return CLADE_FAIL(OVERFLOW, "kernel %s: argument %u lies at element %lld, its index type has 32 bits",
                      step->launch->kernel, index, (long long)*element);
  return CLADE_OK;
}

static clade_status set_operand(const clade_run *run, cl_kernel kernel, const clade__fstep *step, int i, int slot,
                                cl_uint index) {
  const clade__place *place = &step->operand[i].place;
  clade_device *device = run->func->devices[step->device];
  clade__buffer *buffer = clade__run_buffer(run, slot, place);
  if (!buffer && place->space == CLADE__PACKED) return CLADE_OK; /* bound before the first execution */
  cl_mem memory = clade__buffer_mem(buffer);
  int64_t wide;
  CLADE_TRY(clade__run_element(run, step, i, index, &wide));
  int32_t narrow = (int32_t)wide;
  CLADE_TRY(clade__kernel_set(device, kernel, index, sizeof memory, &memory));
  return step->wide ? clade__kernel_set(device, kernel, index + 1, sizeof wide, &wide)
                    : clade__kernel_set(device, kernel, index + 1, sizeof narrow, &narrow);
}

clade_status clade__run_set_args(const clade_run *run, cl_kernel kernel, const clade__fstep *step, int slot) {
  clade_device *device = run->func->devices[step->device];
  cl_uint index = 0, count;
  for (int i = 0; i < step->n_operands; i++) index += step->operand[i].cell >= 0 ? 2 : 1;
  CLADE_TRY(clade__kernel_args(device, kernel, &count));
  if (index != count)
    return CLADE_FAIL(INVALID, "kernel %s takes %u arguments, its implementation gives %u (a tensor is two)",
                      step->launch->kernel, count, index);
  index = 0;
  for (int i = 0; i < step->n_operands; i++) {
    const clade__arg *arg = &step->launch->args[i];
    if (step->operand[i].cell >= 0) {
      CLADE_TRY(set_operand(run, kernel, step, i, slot, index));
      index += 2;
    } else if (arg->kind == CLADE__ARG_LOCAL) {
      CLADE_TRY(clade__kernel_set(device, kernel, index++, arg->at, NULL));
    } else {
      CLADE_TRY(clade__kernel_set(device, kernel, index++, arg->bytes, arg->value));
    }
  }
  return CLADE_OK;
}

bool clade__run_launches(const clade_run *run, size_t s) {
  const clade__fstep *step = &run->func->steps[s];
  const clade__fpersistent *persistent = clade__run_persistent(run, step);
  return step->kind == CLADE__FSTEP_KERNEL && (!persistent || persistent->first == s);
}

int clade__run_kernels_for(const clade_run *run, const clade__fstep *step) {
  const clade__fpersistent *persistent = clade__run_persistent(run, step);
  return (persistent ? persistent->per_slot : step->per_slot) ? run->n_slots : 1;
}

/* Appends the step's kernel object, or one per slot. */
static clade_status kernels_of(clade_run *run, size_t s) {
  const clade__fstep *step = &run->func->steps[s];
  const clade__fpersistent *persistent = clade__run_persistent(run, step);
  const clade__program_kernel *from = persistent
                                          ? &run->func->kernels[run->func->interpreters[persistent->device].request]
                                      : step->persistent ? &run->func->apart[s]
                                                         : &run->func->kernels[step->request];
  char name[32];
  for (int slot = 0; slot < clade__run_kernels_for(run, step); slot++) {
    cl_kernel *kernel = &run->kernels[run->n_kernels];
    CLADE_TRY(clade__kernel_new(run->func->devices[step->device], from->program, from->name, kernel));
    run->n_kernels++;
    clade_status status = persistent ? clade__run_persistent_args(run, *kernel, persistent, slot)
                                     : clade__run_set_args(run, *kernel, step, slot);
    if (status != CLADE_OK) return clade__fail_in(status, "%s", clade__step_name(run->func, step, name));
  }
  return CLADE_OK;
}

static clade_status kernels_new(clade_run *run) {
  size_t n = 0;
  run->apart = run->profile || !clade__run_binds(run);
  if (run->apart && run->func->n_persistent) CLADE_TRY(clade__prepare_apart(run->func));
  CLADE_TRY(clade__run_tables(run));
  for (size_t s = 0; s < run->func->n_steps; s++)
    if (clade__run_launches(run, s)) n += (size_t)clade__run_kernels_for(run, &run->func->steps[s]);
  run->kernels = clade__new(n, sizeof *run->kernels);
  if (!run->kernels) return CLADE_NO_MEMORY;
  for (size_t s = 0; s < run->func->n_steps; s++)
    if (clade__run_launches(run, s)) CLADE_TRY(kernels_of(run, s));
  return CLADE_OK;
}

static clade_status rebind_kernel(const clade_run *run, cl_kernel kernel, const clade__fstep *step, int slot) {
  cl_uint index = 0;
  for (int i = 0; i < step->n_operands; i++) {
    if (step->operand[i].place.space == CLADE__PACKED) CLADE_TRY(set_operand(run, kernel, step, i, slot, index));
    index += step->operand[i].cell >= 0 ? 2 : 1;
  }
  return CLADE_OK;
}

clade_status clade__run_rebind(clade_run *run) {
  size_t kernel = 0;
  for (size_t s = 0; s < run->func->n_steps; s++) {
    const clade__fstep *step = &run->func->steps[s];
    const clade__fpersistent *persistent = clade__run_persistent(run, step);
    if (!clade__run_launches(run, s)) continue;
    for (int slot = 0; slot < clade__run_kernels_for(run, step); slot++, kernel++)
      CLADE_TRY(persistent ? clade__run_persistent_rebind(run, run->kernels[kernel], persistent, slot)
                           : rebind_kernel(run, run->kernels[kernel], step, slot));
  }
  for (int l = 0; l < run->n_lanes; l++)
    for (int slot = 0; slot < run->n_slots; slot++)
      for (size_t i = run->lanes[l].n_feeds; i < run->lanes[l].n_cmds; i++) {
        clade__cmd *cmd = &run->lanes[l].cmds[slot][i];
        if (cmd->kind == CLADE__CMD_COPY)
          cmd->as.move.from = clade__run_buffer(run, slot, &run->func->steps[cmd->step].operand[0].place);
      }
  return CLADE_OK;
}

static bool is_lone(const clade_run *run) {
  const clade_func *func = run->func;
  return !run->apart && func->n_persistent == 1 && func->persistent[0].count == func->n_steps;
}

static clade_status lanes_new(clade_run *run, cl_command_queue user_queue) {
  run->lanes = clade__new((size_t)run->func->n_devices, sizeof *run->lanes);
  if (!run->lanes) return CLADE_NO_MEMORY;
  for (; run->n_lanes < run->func->n_devices; run->n_lanes++) {
    clade__lane *lane = &run->lanes[run->n_lanes];
    lane->device = run->func->devices[run->n_lanes];
    lane->next = 1;
    lane->cmds = clade__new((size_t)run->n_slots, sizeof *lane->cmds);
    if (!lane->cmds) return CLADE_NO_MEMORY;
    clade_status status = user_queue ? clade__queue_adopt(lane->device, user_queue, &lane->queue)
                                     : clade__queue_new(lane->device, run->profile, &lane->queue);
    if (status != CLADE_OK) {
      clade__free(lane->cmds);
      return status;
    }
  }
  return CLADE_OK;
}

static clade_status uploads_new(clade_run *run) {
  for (int l = 0; l < run->n_lanes; l++)
    if (run->lanes[l].n_feeds) CLADE_TRY(clade__queue_new(run->lanes[l].device, run->profile, &run->lanes[l].uploads));
  return CLADE_OK;
}

static clade_status names_new(clade__map *map, const clade__ports *ports) {
  for (size_t i = 0; i < ports->count; i++)
    CLADE_TRY(clade__map_put(map, clade__hash_bytes(ports->at[i].name, strlen(ports->at[i].name)), i));
  return CLADE_OK;
}

static clade_status inputs_new(clade_run *run) {
  const clade_graph *g = run->func->graph;
  CLADE_TRY(names_new(&run->input_names, &g->inputs));
  CLADE_TRY(names_new(&run->output_names, &g->outputs));
  run->feed_of = clade__new(g->inputs.count, sizeof *run->feed_of);
  run->input_bytes = clade__new(g->inputs.count, sizeof *run->input_bytes);
  if (!run->feed_of || !run->input_bytes) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < g->inputs.count; i++)
    CLADE_TRY(clade_type_bytes(clade__type(g, g->inputs.at[i].value), &run->input_bytes[i]));
  return CLADE_OK;
}

clade_status clade__run_build(clade_run *run, cl_command_queue user_queue) {
  const clade_func *func = run->func;
  char what[32];
  CLADE_TRY(inputs_new(run));
  CLADE_TRY(lanes_new(run, user_queue));
  run->arena = clade__new(func->slabs.count, sizeof *run->arena);
  if (!run->arena) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < func->slabs.count; i++) {
    snprintf(what, sizeof what, "arena slab %zu", i);
    CLADE_TRY(buffer(run, func->slabs.at[i].device, func->slabs.at[i].bytes, what, &run->arena[i]));
  }
  for (int s = 0; s < run->n_slots; s++) CLADE_TRY(slot_new(run, &run->slots[s]));
  CLADE_TRY(kernels_new(run));
  run->lone = is_lone(run);
  clade__run_count_cmds(run);
  CLADE_TRY(uploads_new(run));
  CLADE_TRY(clade__run_cmds(run));
  for (int l = 0; l < run->n_lanes && !user_queue; l++) CLADE_TRY(clade__lane_spread(run, &run->lanes[l]));
  for (int l = 0; l < run->n_lanes; l++) CLADE_TRY(clade__lane_tail(run, &run->lanes[l]));
  return CLADE_OK;
}

static void slot_free(clade_run *run, clade__slot *slot) {
  for (size_t i = 0; i < run->func->graph->inputs.count; i++) {
    if (slot->fed) clade__buffer_release(slot->fed[i].buffer);
    if (slot->inputs) clade__buffer_release(slot->inputs[i]);
    if (slot->staging) clade__staging_free(slot->staging[i]);
  }
  for (size_t i = 0; slot->outputs && i < run->func->graph->outputs.count; i++) clade__buffer_release(slot->outputs[i]);
  clade__hosts_free(run, slot);
  for (int l = 0; l < run->n_lanes; l++) {
    if (slot->done) clade__event_release(slot->done[l]);
    if (slot->uploaded) clade__event_release(slot->uploaded[l]);
  }
  for (size_t i = 0; slot->times && i < run->n_times; i++) clade__event_release(slot->times[i]);
  clade__free(slot->fed);
  clade__free(slot->inputs);
  clade__free(slot->staging);
  clade__free(slot->outputs);
  clade__free(slot->uploaded);
  clade__free(slot->done);
  clade__free(slot->times);
}

void clade__run_unbuild(clade_run *run) {
  for (int l = 0; l < run->n_lanes; l++) { /* queues first: freeing them waits for commands that use the rest */
    clade__queue_free(run->lanes[l].uploads);
    clade__lane_unspread(&run->lanes[l]);
    clade__queue_free(run->lanes[l].queue);
    for (int s = 0; s < run->n_slots; s++) clade__free(run->lanes[l].cmds[s]);
    clade__free(run->lanes[l].cmds);
    clade__free(run->lanes[l].tail_needed);
  }
  for (size_t i = 0; i < run->n_kernels; i++) clade__kernel_release(run->kernels[i]);
  for (int s = 0; run->slots && s < run->n_slots; s++) slot_free(run, &run->slots[s]);
  for (size_t i = 0; run->arena && i < run->func->slabs.count; i++) clade__buffer_release(run->arena[i]);
  for (int l = 0; run->tables && l < run->n_lanes; l++) clade__buffer_release(run->tables[l]);
  clade__free(run->tables);
  clade__free(run->lanes);
  clade__free(run->kernels);
  clade__free(run->arena);
  clade__free(run->feed_of);
  clade__free(run->input_bytes);
  clade__map_free(&run->input_names);
  clade__map_free(&run->output_names);
}

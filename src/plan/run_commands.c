/* Commands of a run: what each lane enqueues for an execution, per slot. */
#include "op/group.h"
#include "plan/run.h"

static clade__cmd *next_cmd(clade_run *run, int lane, int slot, size_t *used) {
  clade__lane *l = &run->lanes[lane];
  return &l->cmds[slot][used[lane]++];
}

static void copy_cmd(clade_run *run, int slot, const clade__fstep *step, size_t s, size_t *used) {
  const clade__place *from = &step->operand[0].place, *to = &step->operand[1].place;
  clade__cmd cmd = {.kind = CLADE__CMD_COPY, .step = (int)s};
  cmd.as.move.from = clade__run_buffer(run, slot, from);
  cmd.as.move.to = clade__run_buffer(run, slot, to);
  cmd.as.move.from_at = clade__run_offset(run, from);
  cmd.as.move.to_at = clade__run_offset(run, to);
  cmd.as.move.bytes = to->bytes;
  *next_cmd(run, step->device, slot, used) = cmd;
}

static void host_cmd(clade_run *run, int slot, size_t s, bool receive, size_t *used) {
  const clade__fstep *step = &run->func->steps[s];
  *next_cmd(run, receive ? step->device : step->source_device, slot, used) =
      (clade__cmd){.kind = receive ? CLADE__CMD_RECEIVE : CLADE__CMD_SEND, .step = (int)s, .port = (int)step->host};
}

/* RECEIVE commands for host step outputs that are first needed by the step `needed`, or at the end of the execution. */
static void receive_cmds(clade_run *run, int slot, size_t needed, size_t *used) {
  for (size_t h = 0; h < run->func->n_hosts; h++)
    if (run->func->steps[run->func->hosts[h]].needed == needed) host_cmd(run, slot, run->func->hosts[h], true, used);
}

static void launch_cmd(clade_run *run, int slot, const clade__fstep *step, size_t s, cl_kernel kernel, size_t *used) {
  clade__cmd *cmd = next_cmd(run, step->device, slot, used);
  *cmd = (clade__cmd){.kind = CLADE__CMD_LAUNCH, .step = (int)s, .dims = (cl_uint)step->launch->dims};
  cmd->as.launch.kernel = kernel;
  memcpy(cmd->as.launch.global, step->launch->global, sizeof cmd->as.launch.global);
  memcpy(cmd->as.launch.local, step->launch->local, sizeof cmd->as.launch.local);
  const clade__fpersistent *persistent = clade__run_persistent(run, step);
  if (!persistent) return;
  cmd->as.launch.local[0] = persistent->joined ? CLADE__GROUP_ITEMS : 1;
  cmd->as.launch.global[0] = persistent->workers * cmd->as.launch.local[0];
}

static void slot_cmds(clade_run *run, int slot, size_t *used) {
  const clade_func *func = run->func;
  size_t kernel = 0;
  memset(used, 0, (size_t)run->n_lanes * sizeof *used);
  for (size_t i = 0; i < func->graph->inputs.count; i++) {
    const clade__place *place = &func->cells[func->cell_of[func->graph->inputs.at[i].value]].place;
    if (!place->bytes) continue;
    clade__cmd *cmd = next_cmd(run, place->device, slot, used);
    *cmd = (clade__cmd){.kind = CLADE__CMD_FEED, .step = -1, .port = (int)i};
    cmd->as.move.to = run->slots[slot].inputs[i];
    cmd->as.move.to_at = place->offset;
    cmd->as.move.bytes = place->bytes;
  }
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (step->awaits) receive_cmds(run, slot, s, used);
    if (step->kind == CLADE__FSTEP_LIBRARY)
      *next_cmd(run, step->device, slot, used) = (clade__cmd){.kind = CLADE__CMD_LIBRARY, .step = (int)s};
    if (step->kind == CLADE__FSTEP_HOST) host_cmd(run, slot, s, false, used);
    if (step->kind == CLADE__FSTEP_COPY) copy_cmd(run, slot, step, s, used);
    if (!clade__run_launches(run, s)) continue;
    size_t kernels = (size_t)clade__run_kernels_for(run, step);
    launch_cmd(run, slot, step, s, run->kernels[kernel + (kernels > 1 ? (size_t)slot : 0)], used);
    kernel += kernels;
  }
  receive_cmds(run, slot, func->n_steps, used);
}

void clade__run_count_cmds(clade_run *run) {
  const clade_func *func = run->func;
  for (size_t i = 0; i < func->graph->inputs.count; i++) {
    const clade__place *place = &func->cells[func->cell_of[func->graph->inputs.at[i].value]].place;
    run->lanes[place->device].n_feeds += place->bytes > 0;
  }
  for (int l = 0; l < run->n_lanes; l++) run->lanes[l].n_cmds = run->lanes[l].n_feeds;
  for (size_t s = 0; s < func->n_steps; s++) {
    const clade__fstep *step = &func->steps[s];
    if (step->kind == CLADE__FSTEP_KERNEL && !clade__run_launches(run, s)) continue;
    run->lanes[step->device].n_cmds++;
    if (step->kind == CLADE__FSTEP_HOST) run->lanes[step->source_device].n_cmds++;
  }
  for (int l = 0; l < run->n_lanes; l++) {
    run->lanes[l].first_time = run->n_times;
    run->n_times += run->lanes[l].n_cmds;
  }
}

clade_status clade__run_cmds(clade_run *run) {
  size_t *used = clade__new((size_t)run->n_lanes, sizeof *used);
  if (!used) return CLADE_NO_MEMORY;
  clade_status status = CLADE_OK;
  for (int l = 0; l < run->n_lanes && status == CLADE_OK; l++)
    for (int slot = 0; slot < run->n_slots && status == CLADE_OK; slot++) {
      run->lanes[l].cmds[slot] = clade__new(run->lanes[l].n_cmds, sizeof(clade__cmd));
      if (!run->lanes[l].cmds[slot]) status = CLADE_NO_MEMORY;
    }
  for (int slot = 0; slot < run->n_slots && status == CLADE_OK; slot++) slot_cmds(run, slot, used);
  clade__free(used);
  return status;
}

/* The tail of a lane: results of host steps that nothing else in the execution needs, such as parameters updated by
 * other ranks. The lane starts the next execution before they arrive, up to the first command that accesses their
 * memory. */
#include "plan/run.h"

static bool writes(const clade__fstep *tail, const clade__place *place) {
  for (int i = 0; i < tail->n_operands; i++)
    if (tail->operand[i].write && clade__places_overlap(&tail->operand[i].place, place)) return true;
  return false;
}

static bool touches(const clade__fstep *step, const clade__fstep *tail) {
  for (int i = 0; i < step->n_operands; i++)
    if (step->operand[i].cell >= 0 && writes(tail, &step->operand[i].place)) return true;
  return false;
}

/* Checks all steps of the command's launch. */
static bool waits(const clade_run *run, const clade__cmd *cmd, const clade__fstep *tail) {
  if (cmd->step < 0) return false; /* a feed */
  const clade__fstep *step = &run->func->steps[cmd->step];
  const clade__fpersistent *persistent = clade__run_persistent(run, step);
  for (size_t i = 0, n = persistent ? persistent->count : 1; i < n; i++)
    if (touches(step + i, tail)) return true;
  return false;
}

clade_status clade__lane_tail(const clade_run *run, clade__lane *lane) {
  const clade__cmd *cmds = lane->cmds[0];
  size_t main = lane->n_cmds;
  if (lane->spread) return CLADE_OK;
  while (main && cmds[main - 1].kind == CLADE__CMD_RECEIVE) main--;
  if (main == lane->n_cmds) return CLADE_OK;
  lane->n_tail = lane->n_cmds - main;
  lane->tail_needed = clade__new(main, sizeof *lane->tail_needed);
  if (!lane->tail_needed) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < main; i++)
    for (size_t k = lane->n_tail; k && !lane->tail_needed[i]; k--)
      if (waits(run, &cmds[i], &run->func->steps[cmds[main + k - 1].step])) lane->tail_needed[i] = k;
  return CLADE_OK;
}

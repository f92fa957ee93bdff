/* Determines where the results of host steps must have arrived: before the first later step that accesses them.
 * Until then the lane continues with independent steps. */
#include "plan/plan.h"

static clade_status count(clade_func *func) {
  size_t n = 0;
  for (size_t s = 0; s < func->n_steps; s++) n += func->steps[s].kind == CLADE__FSTEP_HOST;
  func->hosts = clade__new(n, sizeof *func->hosts);
  if (!func->hosts) return CLADE_NO_MEMORY;
  for (size_t s = 0; s < func->n_steps; s++) {
    if (func->steps[s].kind != CLADE__FSTEP_HOST) continue;
    func->steps[s].host = func->n_hosts;
    func->steps[s].needed = func->n_steps;
    func->hosts[func->n_hosts++] = s;
  }
  return CLADE_OK;
}

/* made[cell]: 1 + the host step that writes it. */
static void find_needed(clade_func *func, size_t *made) {
  for (size_t s = 0; s < func->n_steps; s++) {
    clade__fstep *step = &func->steps[s];
    for (int i = 0; i < step->n_operands; i++) {
      int32_t cell = step->operand[i].cell;
      if (cell < 0 || !made[cell]) continue;
      clade__fstep *host = &func->steps[made[cell] - 1];
      if (host->needed < func->n_steps) continue;
      host->needed = s;
      step->awaits = true;
    }
    for (int i = 0; step->kind == CLADE__FSTEP_HOST && i < step->n_operands; i++)
      if (step->operand[i].write) made[step->operand[i].cell] = s + 1;
  }
}

clade_status clade__hosts_plan(clade_func *func) {
  CLADE_TRY(count(func));
  if (!func->n_hosts) return CLADE_OK;
  size_t *made = clade__new(func->n_cells, sizeof *made);
  if (!made) return CLADE_NO_MEMORY;
  find_needed(func, made);
  clade__free(made);
  for (size_t h = 0; h < func->n_hosts; h++) { /* their memory is in use until the results have arrived */
    const clade__fstep *step = &func->steps[func->hosts[h]];
    uint32_t until = func->steps[CLADE_MIN(step->needed, func->n_steps - 1)].time;
    for (int i = 0; i < step->n_operands; i++)
      if (step->operand[i].write) {
        clade__cell *cell = &func->cells[step->operand[i].cell];
        cell->death = CLADE_MAX(cell->death, until);
      }
  }
  return CLADE_OK;
}

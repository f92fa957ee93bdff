/* Joined launches: consecutive independent steps in one launch, on GPUs, where a launch takes as long as a small step
 * computes. They are formed as persistent kernels are (persistent.c), and their work-groups look up their steps in the
 * same kind of table (cl_kernels/joined.cl); nothing waits. */
#include "op/group.h"
#include "plan/run.h"

size_t clade__joined_least = 2;
bool clade__joins_anywhere;

bool clade__joins(const clade_device *device) {
  const clade_device_info *info = clade__device_info(device);
  if (info->device_class != CLADE_GPU && !clade__joins_anywhere) return false;
  return CLADE_MIN(info->max_group, info->max_item[0]) >= CLADE__GROUP_ITEMS &&
         !clade__quirk_disabled(CLADE__QUIRK_SLOW_WAKE);
}

static bool conflict(const clade__operand *a, const clade__operand *b) {
  return a->cell >= 0 && b->cell >= 0 && (a->write || b->write) && clade__places_overlap(&a->place, &b->place);
}

bool clade__independent(const clade_func *func, const clade__fpersistent *joined, const clade__fstep *step) {
  for (size_t s = joined->first; s < joined->first + joined->count; s++)
    for (int i = 0; i < func->steps[s].n_operands; i++)
      for (int k = 0; k < step->n_operands; k++)
        if (conflict(&func->steps[s].operand[i], &step->operand[k])) return false;
  return joined->workers + clade__joined_groups(step) <= CLADE__JOINED_MOST;
}

uint32_t clade__joined_groups(const clade__fstep *step) {
  return (uint32_t)((step->launch->global[0] + CLADE__GROUP_ITEMS - 1) / CLADE__GROUP_ITEMS);
}

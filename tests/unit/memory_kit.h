/* Tests in which every allocation fails once. Include in one file per program, like failing_memory.h. */
#ifndef CLADE_MEMORY_KIT_H
#define CLADE_MEMORY_KIT_H

#include "../failing_memory.h"
#include "plan_kit.h"

/* Calls `whole` with every `stride`-th allocation failing in turn until no further one is reached. Each failure must
 * have a message and leak nothing. Returns the number of failed calls. */
static long fail_allocations(clade_status (*whole)(const void *argument, clade_device *device), const void *argument,
                             clade_device *device, long stride) {
  long n = 1, failed = 0;
  for (bool over = false; !over; n += stride) {
    const long before = atomic_load(&held);
    arm_allocation(n, false);
    const clade_status status = whole(argument, device);
    over = !allocation_reached(n);
    arm_allocation(0, false);
    failed += status != CLADE_OK;
    if (status != CLADE_OK && !*clade_last_error()) fail_msg("allocation %ld: no message", n);
    if (atomic_load(&held) > before) fail_msg("allocation %ld: %ld pieces stay", n, atomic_load(&held) - before);
  }
  print_message("%ld of %ld allocations failed\n", failed, n / stride);
  return failed;
}

static int open_failing(void **state) {
  if (clade_init(.allocator = &hook) != CLADE_OK) return -1;
  return open_device(state);
}

#endif

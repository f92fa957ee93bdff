/* Fails every allocation of a call in turn, including jansson's: the failure must be reported, without leaks. For one
 * file of a program: keeps state. */
#ifndef IO_MEMORY_KIT_H
#define IO_MEMORY_KIT_H

#include "../failing_memory.h"
#include "io_kit.h"

#include <jansson.h>

static bool json_refused; /* the failed allocation was jansson's */

static inline void *json_allocate(size_t bytes) {
  void *memory = allocate(NULL, bytes, sizeof(void *));
  json_refused |= !memory;
  return memory;
}
static inline void json_release(void *memory) {
  if (memory) release(NULL, memory, 0);
}

/* Must precede other calls of the library. */
static inline clade_status fail_memory(void) {
  json_set_alloc_funcs(json_allocate, json_release);
  return clade_init(.allocator = &hook);
}

static inline void each(const char *name, clade_status (*act)(void)) {
  long failures = 0;
  for (long n = 1;; n++) {
    const long before = atomic_load(&held);
    json_refused = false;
    arm_allocation(n, false);
    clade_status status = act();
    const bool refused = allocation_reached(n);
    arm_allocation(0, false);
    if (atomic_load(&held) != before)
      fail_msg("%s, allocation %ld: %ld pieces stay behind", name, n, atomic_load(&held) - before);
    if (!refused) {
      if (status != CLADE_OK) fail_msg("%s: %s", name, clade_last_error());
      break;
    }
    /* After a failed allocation, jansson may report malformed input. */
    if (status != CLADE_OK && status != CLADE_NO_MEMORY && !(json_refused && status == CLADE_CORRUPT))
      fail_msg("%s, allocation %ld: %s (%s)", name, n, clade_status_name(status), clade_last_error());
    failures += status == CLADE_NO_MEMORY;
  }
  assert_true(failures > 0);
}

#endif

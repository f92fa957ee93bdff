/* An allocator for clade_init(.allocator) that fails the n-th allocation, or all from then on, and counts live
 * allocations. Include in one file per program, since it has static state. */
#ifndef CLADE_TEST_FAILING_MEMORY_H
#define CLADE_TEST_FAILING_MEMORY_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static atomic_long allocations, fail_at, held; /* fail_at: 0: none; negative: all from -fail_at on */
static bool refuse(void) {
  long n = atomic_fetch_add(&allocations, 1) + 1, at = atomic_load(&fail_at);
  return at > 0 ? n == at : at < 0 && n >= -at;
}
static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  void *memory = NULL;
  if (refuse() || posix_memalign(&memory, align, bytes)) return NULL;
  atomic_fetch_add(&held, 1);
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  if (memory) atomic_fetch_sub(&held, 1);
  free(memory);
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  release(user, old, old_bytes);
  return memory;
}
static const clade_allocator hook = {sizeof hook, NULL, allocate, resize, release};

/* n counts from this call; 0: none fails. */
static void arm_allocation(long n, bool for_good) {
  atomic_store(&allocations, 0);
  atomic_store(&fail_at, for_good ? -n : n);
}
static bool allocation_reached(long n) { return atomic_load(&allocations) >= n; }

#endif

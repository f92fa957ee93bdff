/* Shared by the tests of src/data: a counting allocator that fails on demand, and a set whose samples encode their
 * index. */
#ifndef CLADE_DATA_UNIT_H
#define CLADE_DATA_UNIT_H

#include "cl_unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/data.h"

/* ---- allocator ---- */
static atomic_int allocations, live, fail_at; /* fail_at: the n-th from now; 0: none */

static inline void *counted_allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  void *memory = NULL;
  atomic_fetch_add(&allocations, 1);
  if (atomic_load(&fail_at) && atomic_fetch_sub(&fail_at, 1) == 1) return NULL;
  if (posix_memalign(&memory, align, bytes) != 0) return NULL;
  atomic_fetch_add(&live, 1);
  return memory;
}
static inline void counted_release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
  atomic_fetch_sub(&live, 1);
}
static inline void *counted_resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = counted_allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  counted_release(user, old, old_bytes);
  return memory;
}
/* Call first in main. */
static inline void count_allocations(void) {
  static const clade_allocator allocator = {sizeof allocator, NULL, counted_allocate, counted_resize, counted_release};
  if (clade_init(.allocator = &allocator) != CLADE_OK) abort();
}

/* Calls `make` with the first, second, … allocation failing until none is reached. It must fail with NO_MEMORY and
 * leak nothing. */
static inline void check_failing_allocations(clade_status (*make)(void *user), void *user) {
  int before = atomic_load(&live), n = 0;
  clade_status status;
  do {
    atomic_store(&fail_at, ++n);
    status = make(user);
    bool failed = atomic_exchange(&fail_at, 0) <= 0;
    if (failed != (status != CLADE_OK)) fail_msg("allocation %d failed, and it gave %s", n, clade_status_name(status));
    if (failed) assert_int_equal(status, CLADE_NO_MEMORY);
    assert_int_equal(atomic_load(&live), before);
  } while (status != CLADE_OK);
  assert_true(n > 2);
}

/* ---- dataset ---- */
typedef struct telling {
  int64_t bad;       /* index of a failing sample; -1: none */
  int32_t bad_label; /* label of that sample instead of failing, unless 0 */
  unsigned slow_us;  /* maximum delay, by index */
  atomic_bool *gate; /* samples block until it is open; NULL: no gate */
  atomic_int got, released;
} telling;

static inline clade_status telling_get(void *user, int64_t index, float *x, int32_t *label) {
  telling *t = user;
  atomic_fetch_add(&t->got, 1);
  while (t->gate && !atomic_load(t->gate)) usleep(100);
  if (t->slow_us) usleep((unsigned)(index * 7919 % t->slow_us));
  if (index == t->bad && !t->bad_label) return clade_fail(CLADE_IO, "the disk is gone");
  for (int i = 0; i < 2 * 6 * 6; i++) x[i] = (float)(index * 100 + i);
  *label = index == t->bad ? t->bad_label : (int32_t)(index % 7);
  return CLADE_OK;
}
static inline void telling_release(void *user) { atomic_fetch_add(&((telling *)user)->released, 1); }
/* `count` samples of 2x6x6 in seven classes. */
static inline clade_status telling_new(telling *t, int64_t count, clade_dataset **out) {
  clade_dataset_def def = {.size = sizeof def, .name = "telling", .count = count, .classes = 7};
  def.channels = 2;
  def.height = def.width = 6;
  def.get = telling_get;
  def.release = telling_release;
  return clade_dataset_new(&def, t, out);
}

#endif

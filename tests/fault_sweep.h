/* A piece of work with each OpenCL call and each allocation of it failed in turn, once or from then on: a status with a
 * message or the right result, nothing held afterwards, and usable again. For one file of a program: it keeps state. */
#ifndef CLADE_TEST_FAULT_SWEEP_H
#define CLADE_TEST_FAULT_SWEEP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "layer/layer.h"

static clade_layer layer;

/* ---- allocations that fail; counted, so that nothing stays behind ---- */
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

/* ---- what fails ---- */
typedef void arm_fn(long n, bool for_good);
typedef bool reached_fn(long n);
static void arm_call(long n, bool for_good) {
  layer.reset();
  layer.arm(&(clade_layer_fault){.nth = (uint64_t)n, .for_good = for_good});
}
static bool call_reached(long n) {
  (void)n;
  return layer.failed() > 0;
}
static void arm_allocation(long n, bool for_good) {
  atomic_store(&allocations, 0);
  atomic_store(&fail_at, for_good ? -n : n);
}
static bool allocation_reached(long n) { return atomic_load(&allocations) >= n; }

/* ---- failing at n = 1, 2, … until nothing fails any more ---- */
typedef struct fault_task {
  clade_status (*work)(void); /* from opening the device to giving it back */
  void (*before)(void);       /* each round; NULL: nothing */
  long often;                 /* after each so many rounds it is asked whether all is usable again */
} fault_task;

static void fault_sweep(const fault_task *task, arm_fn *arm, reached_fn *reached, bool for_good) {
  arm(0, false);
  assert_int_equal(task->work(), CLADE_OK);
  long objects = layer.live(NULL), before = atomic_load(&held), n = 0;
  for (bool more = true; more;) {
    if (task->before) task->before();
    arm(++n, for_good);
    clade_fail(CLADE_OK, "%s", "");
    clade_status status = task->work();
    if (status != CLADE_OK && !*clade_last_error()) fail_msg("call %ld: status %d without a message", n, (int)status);
    more = reached(n);
    if (status != CLADE_OK && !more) fail_msg("after call %ld: %s", n - 1, clade_last_error());
    arm(0, false);
    if (layer.live(NULL) != objects) fail_msg("call %ld: %ld objects stay", n, layer.live(NULL) - objects);
    if (atomic_load(&held) != before) fail_msg("call %ld: %ld pieces stay", n, atomic_load(&held) - before);
    if (n % task->often == 0 && task->work() != CLADE_OK) fail_msg("after call %ld: %s", n, clade_last_error());
  }
  print_message("%ld points of failure\n", n - 1);
  assert_true(n > 15);
  assert_int_equal(layer.over(NULL), 0);
}

#endif

/* Fault injection: repeats a piece of work and fails each OpenCL call and each allocation in turn, once or
 * permanently. Required: a status with a message or the correct result, no leaks, and a usable library afterwards.
 * Include in one file per program, since it has static state. */
#ifndef CLADE_TEST_FAULT_SWEEP_H
#define CLADE_TEST_FAULT_SWEEP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "layer/layer.h"

static clade_layer layer;

/* ---- fault sources ---- */
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

/* ---- failing at n = 1, 2, … until the fault is no longer reached ---- */
typedef struct fault_task {
  clade_status (*work)(void); /* opens and releases the device */
  void (*before)(void);       /* before each round, or NULL */
  long often;                 /* rounds between checks of usability */
} fault_task;

/* A real leak repeats. One-time growth, such as a list that grows because a thread of the implementation releases
 * something late, does not. */
static bool leaves(const fault_task *task, arm_fn *arm, long n, bool for_good) {
  for (int i = 0; i < 3; i++) {
    long before = atomic_load(&held);
    if (task->before) task->before();
    arm(n, for_good);
    (void)task->work();
    arm(0, false);
    if (atomic_load(&held) <= before) return false;
  }
  return true;
}

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
    long more_held = atomic_load(&held) - before;
    if (more_held && leaves(task, arm, n, for_good)) fail_msg("call %ld: %ld pieces stay", n, more_held);
    before = atomic_load(&held);
    if (n % task->often == 0 && task->work() != CLADE_OK) fail_msg("after call %ld: %s", n, clade_last_error());
  }
  print_message("%ld points of failure\n", n - 1);
  assert_true(n > 15);
  assert_int_equal(layer.over(NULL), 0);
}

#endif

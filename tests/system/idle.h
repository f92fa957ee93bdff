/* Measures how long a device's queue is idle between the steps of a run, as an observer of the run. */
#ifndef CLADE_TEST_IDLE_H
#define CLADE_TEST_IDLE_H

#include <clade/run.h>

typedef struct idle { /* zero-initialized, except for the device */
  int device;
  uint64_t first, last, busy; /* ns */
  int steps;
} idle;

/* For clade_run_observe. Input transfers overlap with steps, so waiting for them counts as idle. */
static inline void idle_observe(void *user, const clade_step_time *t) {
  idle *i = user;
  if (t->step < 0 || t->device != i->device) return;
  if (!i->steps || t->start_ns < i->first) i->first = t->start_ns;
  if (t->end_ns > i->last) i->last = t->end_ns;
  i->busy += t->end_ns - t->start_ns;
  i->steps++;
}

/* Idle fraction of the time from the first step's start to the last one's end. */
static inline double idle_share(const idle *i) {
  return i->last > i->first ? 1 - (double)i->busy / (double)(i->last - i->first) : 1;
}

#endif

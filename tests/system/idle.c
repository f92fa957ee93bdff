/* The queue's idle time in steps of training, from the times of the steps: at most a twentieth, where the kernels have
 * something to do. */
#include "idle.h"
#include "learner.h"

#include <stdio.h>

enum { WINDOWS = 20, STEPS = 5 };

int main(void) {
  const clade_run_opt opt = {.size = sizeof opt, .profile = true};
  const learner_size size = {.batch = 128, .in = 784, .hidden = 768, .out = 10};
  clade_device *device = NULL;
  learner l = {0};
  clade_ticket ticket;
  double best = 1;
  clade_status s = clade_device_find(NULL, &device);
  if (s == CLADE_OK) s = learner_new(device, size, &opt, &l);
  if (s == CLADE_OK) s = learner_step(&l, &ticket);                                  /* the first one is no measure */
  for (int window = 0; s == CLADE_OK && window < WINDOWS && best > 0.05; window++) { /* others share the machine */
    idle seen = {0};
    s = clade_wait(l.run, 0);
    if (s == CLADE_OK) s = clade_run_observe(l.run, idle_observe, &seen);
    for (int i = 0; s == CLADE_OK && i < STEPS; i++) s = learner_step(&l, &ticket);
    if (s == CLADE_OK) s = clade_wait(l.run, 0);
    if (s != CLADE_OK) break;
    printf("%d steps of %d launches, %.2f ms each: idle for %.1f%% of the time (<= 5)\n", STEPS, seen.steps / STEPS,
           (double)(seen.last - seen.first) * 1e-6 / STEPS, 100 * idle_share(&seen));
    if (idle_share(&seen) < best) best = idle_share(&seen);
  }
  if (s != CLADE_OK) fprintf(stderr, "idle: %s\n", clade_last_error());
  learner_free(&l);
  clade_device_release(device);
  return s != CLADE_OK || best > 0.05;
}

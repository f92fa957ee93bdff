/* Times the layers of a batch: each step is launched separately and timed by the device. */
#include "cli/inspect.h"

enum { WARM = 2, ROUNDS = 10 };

typedef struct timing {
  inspect_job *job;
  bool counts;
} timing;

/* Copies of inputs and outputs belong to no layer. */
static void observe(void *user, const clade_step_time *t) {
  const timing *timing = user;
  const clade_func *func = timing->job->func;
  if (!timing->counts || t->step < 0 || (size_t)t->step >= func->n_steps) return;
  const size_t layer = timing->job->layer[func->steps[t->step].node];
  if (layer) timing->job->layers[layer - 1].seconds += 1e-9 * (double)(t->end_ns - t->start_ns) / ROUNDS;
}

static clade_status rounds(clade_run *run, timing *timing, const float *x, size_t bytes, float *y, size_t results) {
  for (int i = 0; i < WARM + ROUNDS; i++) {
    clade_ticket ticket;
    timing->counts = i >= WARM;
    CLADE_TRY(clade_execute(run, CLADE_FEEDS({"x", x, bytes, NULL}), &ticket));
    CLADE_TRY(clade_read(run, ticket, "y", y, results * sizeof *y));
  }
  return CLADE_OK;
}

clade_status inspect_measure(inspect_job *job) {
  timing timing = {job, false};
  clade_run *run = NULL;
  int64_t pixels;
  clade_status status;
  CLADE_TRY(clade_shape_elements(&job->image, &pixels));
  const size_t n = (size_t)(job->batch * pixels), results = (size_t)(job->batch * job->classes);
  float *x = clade__new(n, sizeof *x), *y = clade__new(results, sizeof *y);
  CLADE_GOTO(x && y ? CLADE_OK : CLADE_NO_MEMORY);
  for (size_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 1009) / 1009;
  CLADE_GOTO(clade_run_new(job->func, job->vars, &run, .profile = true));
  CLADE_GOTO(clade_run_observe(run, observe, &timing));
  CLADE_GOTO(rounds(run, &timing, x, n * sizeof *x, y, results));
fail:
  clade_run_free(run);
  clade__free(x);
  clade__free(y);
  return status;
}

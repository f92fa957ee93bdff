/* Times trials in turns, so that disturbances affect all of them, and takes medians. */
#include <math.h>

#include "program/store.h"
#include "tune/internal.h"

enum { MOST_EXECUTIONS = 1 << 14 };
static const double FAR_BEHIND = 2.5; /* relative to the fastest: such a trial takes no further turns */

bool clade__is_time(const clade__clock *clock, double seconds) { return clade__now() + seconds < clock->deadline; }

static uint64_t compiled_by(clade_device *device) {
  clade__store_stats stats;
  return clade__store_get_stats(device, &stats) == CLADE_OK ? stats.compiled : 0;
}

clade__mark clade__clock_mark(clade_device *device) { return (clade__mark){device, clade__now(), compiled_by(device)}; }

void clade__clock_learn(clade__clock *clock, const clade__mark *since) {
  uint64_t compiled = compiled_by(since->device);
  if (compiled <= since->compiled) return;
  clock->most = fmax(clock->most, (clade__now() - since->at) / (double)(compiled - since->compiled));
}

static clade_status execute(const clade__trial *c, int n, double *seconds) {
  double start = clade__now();
  for (int i = 0; i < n; i++) CLADE_TRY(clade_execute(c->run, c->n_feeds, c->feeds, NULL));
  CLADE_TRY(clade_wait(c->run, 0));
  *seconds = (clade__now() - start) / n;
  return CLADE_OK;
}

static bool runs(const clade__trial *c) { return c->state == CLADE__TRIAL_RIGHT && c->run; }

static double fastest(clade__trial **at, int n) {
  double best = INFINITY;
  for (int i = 0; i < n; i++)
    if (runs(at[i]) && at[i]->median > 0) best = fmin(best, at[i]->median);
  return best;
}

/* Warms up and makes a first estimate. *in_time: there was time for all trials. */
static clade_status warm(clade__trial **at, int n, const clade__clock *clock, bool *in_time) {
  double once;
  for (int i = 0; i < n; i++) at[i]->before = at[i]->median;
  for (int i = 0; i < n && *in_time; i++)
    if (runs(at[i])) {
      at[i]->rounds = 0;
      CLADE_TRY(execute(at[i], 1, &once));
      if ((*in_time = clade__is_time(clock, 0))) CLADE_TRY(execute(at[i], 1, &at[i]->median));
    }
  return CLADE_OK;
}

clade_status clade__take_turns(clade__trial **at, int n, int rounds, double round_seconds, double deadline,
                               const clade__clock *clock) {
  bool in_time = clade__is_time(clock, 0);
  CLADE_TRY(warm(at, n, clock, &in_time));
  double best = fastest(at, n);
  for (int r = 0; r < CLADE_MIN(rounds, CLADE__TUNE_ROUNDS) && in_time; r++) {
    if (r > 0 && clade__now() > deadline) break;
    for (int i = 0; i < n; i++) {
      clade__trial *c = at[i];
      /* the first trial stays: the others are compared with it */
      if (!runs(c) || (i > 0 && c->median > FAR_BEHIND * best)) continue;
      if (r == 0 && !(in_time = clade__is_time(clock, 0))) break;
      int times = (int)fmin(fmax(round_seconds / fmax(c->median, 1e-7), 1), MOST_EXECUTIONS);
      CLADE_TRY(execute(c, times, &c->seconds[c->rounds]));
      c->median = clade__median(c->seconds, ++c->rounds);
    }
    best = fastest(at, n);
  }
  for (int i = 0; i < n && !in_time; i++) at[i]->median = at[i]->before;
  return CLADE_OK;
}

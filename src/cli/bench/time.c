/* Timing of contestants that take turns. Each has a short turn in every round, followed by a pause, so that spinning
 * threads of one contestant do not slow down the next. */
#include <math.h>
#include <time.h>

#include "cli/bench/bench.h"

static const double turn_seconds = 0.012, pause_seconds = 0.03, far_below = 1.3;
enum { TURN_CALLS = 60 };

void bench_pause(double seconds) {
  struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
  nanosleep(&t, NULL);
}

bench_stat bench_stat_of(int n, const double *seconds) {
  double sorted[BENCH_MAX_ROUNDS];
  if (n < 1) return (bench_stat){0};
  memcpy(sorted, seconds, (size_t)n * sizeof *sorted);
  const double median = clade__median(sorted, n);
  return (bench_stat){median, sorted[0], sorted[n - 1]};
}

static clade_status timed_call(bench_side *side, double *seconds) {
  if (side->refresh) CLADE_TRY(side->refresh(side->state));
  double start = clade__now();
  CLADE_TRY(side->call(side->state));
  *seconds = side->seconds_of_call ? side->seconds_of_call(side->state) : clade__now() - start;
  return CLADE_OK;
}

/* Median of a few calls, or of a single long one. The first call wakes threads and is not counted, unless it is
 * long. */
static clade_status turn(bench_side *side, double *seconds) {
  double call[TURN_CALLS], first, sum = 0;
  int n = 0;
  CLADE_TRY(timed_call(side, &first));
  if (first > turn_seconds) call[n++] = sum = first;
  for (; n < TURN_CALLS && sum < turn_seconds; n++) {
    CLADE_TRY(timed_call(side, &call[n]));
    sum += call[n];
  }
  *seconds = clade__median(call, n);
  return CLADE_OK;
}

/* Drops rounds in which a peer was far slower than its best: they would flatter Clade. */
static int keep(int rounds, const bench_side *us, const bench_side *peer, double *ours, double *theirs) {
  double best = INFINITY;
  int n = 0;
  for (int r = 0; r < rounds; r++) best = fmin(best, peer->seconds[r]);
  for (int r = 0; r < rounds; r++)
    if (peer->seconds[r] <= far_below * best) {
      ours[n] = us->seconds[r];
      theirs[n++] = peer->seconds[r];
    }
  return n;
}

static bool enough(int rounds, int wanted, int n, const bench_side *sides) {
  double ours[BENCH_MAX_ROUNDS], theirs[BENCH_MAX_ROUNDS];
  for (int i = 1; i < n; i++)
    if (!sides[i].ours && !sides[i].lost && keep(rounds, &sides[sides[i].partner], &sides[i], ours, theirs) < wanted)
      return false;
  return true;
}

static bench_stat each(bench_stat s, double calls) {
  return (bench_stat){s.median / calls, s.min / calls, s.max / calls};
}

static void compare(int rounds, const bench_side *us, const bench_side *peer, double calls, bench_peer_row *row) {
  double ours[BENCH_MAX_ROUNDS], theirs[BENCH_MAX_ROUNDS];
  row->name = peer->name;
  row->against = us->name;
  memcpy(row->kernel, peer->kernel, sizeof row->kernel);
  memcpy(row->isa, peer->isa, sizeof row->isa);
  row->threads = peer->threads;
  row->kept = keep(rounds, us, peer, ours, theirs);
  row->thrown = rounds - row->kept;
  row->seconds = bench_stat_of(row->kept, theirs);
  row->ratio = row->seconds.median / bench_stat_of(row->kept, ours).median;
  row->seconds = each(row->seconds, calls);
}

bool bench_goes_on(bench_job *job, bench_side *side, clade_status status) {
  if (status != CLADE_OK && side->process) {
    bench_missing(job, side->name, clade_last_error());
    side->lost = true;
  }
  return status == CLADE_OK || side->lost;
}

void bench_peers(bench_race *race, bench_join *join, const void *work) {
  bench_job *job = race->job;
  for (const char *const *peer = job->group->peers; *peer; peer++) {
    if (!bench_wants(job, *peer)) continue;
    bench_side *side = &race->sides[race->n];
    const char *reason = join(job, work, *peer, side);
    if (reason && *reason) bench_missing(job, *peer, reason);
    if (reason)
      *side = (bench_side){0};
    else
      race->n++;
  }
}

clade_status bench_check(bench_race *race, bench_checker *check, const void *work) {
  for (int i = 0; i < race->n; i++) {
    bench_side *side = &race->sides[i];
    const clade_status status = side->read ? check(race->job, work, side) : CLADE_OK;
    if (!bench_goes_on(race->job, side, status)) return status;
  }
  return CLADE_OK;
}

/* Not for models on CPUs: profiling compiles each step to a kernel of its own, while launches there cost little. */
static bool times_kernels(const bench_job *job, const bench_row *row) {
  return job->info.device_class != CLADE_CPU || row->items <= 0;
}

clade_status bench_take_turns(bench_race *race) {
  bench_job *job = race->job;
  bench_row *row = &race->row;
  bench_side *sides = race->sides;
  const int n = race->n, wanted = (int)job->rounds, most = CLADE_MIN(2 * wanted, BENCH_MAX_ROUNDS);
  int rounds = 0;
  double calls = CLADE_MAX(row->chain, 1);
  for (; rounds < most && (rounds < wanted || !enough(rounds, wanted, n, sides)); rounds++)
    for (int i = 0; i < n; i++) {
      if (sides[i].lost) continue;
      clade_status status = turn(&sides[i], &sides[i].seconds[rounds]);
      if (!bench_goes_on(job, &sides[i], status)) return status;
      if (n > 1) bench_pause(pause_seconds);
    }
  row->rounds = rounds;
  row->seconds = each(bench_stat_of(rounds, sides[0].seconds), calls);
  for (int i = 1; i < n; i++)
    if (sides[i].ours)
      row->own.seconds = each(bench_stat_of(rounds, sides[i].seconds), calls);
    else if (!sides[i].lost)
      compare(rounds, &sides[sides[i].partner], &sides[i], calls, &row->peer[row->n_peers++]);
  return times_kernels(job, row) ? bench_clade_kernels(sides[0].state, row) : CLADE_OK;
}

void bench_sides_free(int n, bench_side *sides) {
  for (int i = 0; i < n; i++)
    if (sides[i].free) sides[i].free(sides[i].state);
}

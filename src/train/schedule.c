/* Learning rate schedules: the factor in double on the host, and as elementwise nodes on a device. */
#include <inttypes.h>
#include <math.h>

#include <clade/ops.h>

#include "train/optim.h"

static const double pi = 3.14159265358979323846;

static const clade_schedule refused = {.kind = CLADE_SCHEDULE_REFUSED};

clade_schedule clade_constant_rate_(const clade_constant_rate_opt *given) {
  clade_constant_rate_opt o;
  if (clade__opt_copy(&o, sizeof o, given, "clade_constant_rate") != CLADE_OK) return refused;
  return (clade_schedule){.kind = CLADE_SCHEDULE_CONSTANT, .warmup = o.warmup};
}

clade_schedule clade_step_decay_(const clade_step_decay_opt *given) {
  clade_step_decay_opt o = {CLADE_STEP_DECAY_OPT};
  if (clade__opt_over(&o, given, "clade_step_decay", "CLADE_STEP_DECAY_OPT") != CLADE_OK) return refused;
  return (clade_schedule){.kind = CLADE_SCHEDULE_STEP, .warmup = o.warmup, .every = o.every, .factor = o.factor};
}

clade_schedule clade_cosine_(const clade_cosine_opt *given) {
  clade_cosine_opt o;
  if (clade__opt_copy(&o, sizeof o, given, "clade_cosine") != CLADE_OK) return refused;
  return (clade_schedule){.kind = CLADE_SCHEDULE_COSINE,
                          .warmup = o.warmup,
                          .steps = o.steps,
                          .peak = o.warmup,
                          .start = 1,
                          .end = o.floor};
}

clade_schedule clade_one_cycle_(const clade_one_cycle_opt *given) {
  clade_one_cycle_opt o = {CLADE_ONE_CYCLE_OPT};
  if (clade__opt_over(&o, given, "clade_one_cycle", "CLADE_ONE_CYCLE_OPT") != CLADE_OK) return refused;
  return (clade_schedule){.kind = CLADE_SCHEDULE_COSINE,
                          .warmup = o.warmup,
                          .steps = o.steps,
                          .peak = o.peak_at >= 0 && o.peak_at <= 1 ? (int64_t)(o.peak_at * (double)o.steps) : -1,
                          .start = o.start,
                          .end = o.end};
}

clade_status clade__schedule_check(const clade_schedule *s) {
  if (s->warmup < 0) return CLADE_FAIL(INVALID, "schedule: .warmup is %" PRId64 "; expected 0 or more", s->warmup);
  switch (s->kind) {
  case CLADE_SCHEDULE_CONSTANT: return CLADE_OK;
  case CLADE_SCHEDULE_STEP:
    if (s->every < 1) return CLADE_FAIL(INVALID, "schedule: .every is %" PRId64 "; expected 1 or more", s->every);
    if (!(s->factor >= 0 && s->factor <= 1e6))
      return CLADE_FAIL(INVALID, "schedule: .factor is %g; expected 0 or more", s->factor);
    return CLADE_OK;
  case CLADE_SCHEDULE_COSINE:
    if (s->steps < 1) return CLADE_FAIL(INVALID, "schedule: .steps is %" PRId64 "; expected 1 or more", s->steps);
    if (s->peak < 0 || s->peak > s->steps)
      return CLADE_FAIL(INVALID,
                        "schedule: the rate is highest at step %" PRId64 " of %" PRId64
                        "; expected .warmup within .steps, and .peak_at from 0 to 1",
                        s->peak, s->steps);
    if (!(s->start >= 0 && s->start <= 1)) /* also fails for NaN */
      return CLADE_FAIL(INVALID, "schedule: .start is %g; expected 0 to 1", s->start);
    if (!(s->end >= 0 && s->end <= 1)) return CLADE_FAIL(INVALID, "schedule: it ends at %g; expected 0 to 1", s->end);
    return CLADE_OK;
  case CLADE_SCHEDULE_REFUSED:
    return CLADE_FAIL(INVALID, "schedule: it was made from options without their .size and defaults: begin them with "
                               "{CLADE_ONE_CYCLE_OPT}, or the like, or call clade_one_cycle(…)");
  }
  return CLADE_FAIL(INVALID, "schedule: %d is no kind", (int)s->kind);
}

/* At least 1, as a divisor. */
static double rise_of(const clade_schedule *s) { return (double)CLADE_MAX(s->peak, 1); }
static double fall_of(const clade_schedule *s) { return (double)CLADE_MAX(s->steps - s->peak, 1); }

double clade_schedule_at(const clade_schedule *s, int64_t step) {
  if (!s || clade__schedule_check(s) != CLADE_OK) return 1;
  double f = 1, n = (double)CLADE_MAX(step, 0);
  if (s->kind == CLADE_SCHEDULE_STEP) f = pow(s->factor, floor(n / (double)s->every));
  if (s->kind == CLADE_SCHEDULE_COSINE) {
    double at = n - (double)s->peak, x = at < 0 ? -at / rise_of(s) : fmin(at / fall_of(s), 1);
    double base = at < 0 ? s->start : s->end;
    f = base + (1 - base) * 0.5 * (1 + cos(pi * x));
  }
  return s->warmup ? f * fmin((n + 1) / (double)s->warmup, 1) : f;
}

static clade_val number(clade_graph *g, double value) { return clade_fill(g, CLADE_F32, CLADE_SCALAR, value); }
static clade_val whole(clade_graph *g, int64_t value) { return clade_constant(g, CLADE_I64, CLADE_SCALAR, &value); }
/* (a - b) * by in f32; the difference of integers is exact. */
static clade_val scaled_difference(clade_graph *g, clade_val a, clade_val b, double by) {
  return clade_mul(g, clade_cast(g, clade_sub(g, a, b), CLADE_F32), number(g, by));
}

static clade_val step_decay(clade_graph *g, const clade_schedule *s, clade_val step) {
  clade_val times = clade_cast(g, clade_div(g, step, whole(g, s->every)), CLADE_F32);
  return clade_pow(g, number(g, s->factor), times);
}

static clade_val cosine(clade_graph *g, const clade_schedule *s, clade_val step) {
  clade_val peak = whole(g, s->peak), base = number(g, s->end);
  clade_val x = clade_clip(g, scaled_difference(g, step, peak, 1 / fall_of(s)), 0, 1);
  if (s->start != 1) {
    clade_val rises = clade_lt(g, step, peak);
    x = clade_select(g, rises, scaled_difference(g, peak, step, 1 / rise_of(s)), x);
    base = clade_select(g, rises, number(g, s->start), base);
  }
  clade_val wave =
      clade_add(g, clade_mul(g, clade_cos(g, clade_mul(g, x, number(g, pi))), number(g, 0.5)), number(g, 0.5));
  return clade_add(g, base, clade_mul(g, clade_sub(g, number(g, 1), base), wave));
}

clade_val clade__schedule_node(clade_graph *g, const clade_schedule *s, clade_val step) {
  clade_val f = {0};
  if (s->kind == CLADE_SCHEDULE_STEP) f = step_decay(g, s, step);
  if (s->kind == CLADE_SCHEDULE_COSINE) f = cosine(g, s, step);
  if (!s->warmup) return f;
  clade_val begun = clade_clip(g, scaled_difference(g, step, whole(g, -1), 1 / (double)s->warmup), 0, 1);
  return clade_val_ok(f) ? clade_mul(g, f, begun) : begun;
}

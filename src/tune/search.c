/* Searches the best implementation and configuration for a problem: trials in batches that are compiled together,
 * checked, and timed in turns. */
#include <math.h>
#include <stdio.h>

#include "op/move/view.h"
#include "tune/internal.h"

enum { BATCH = 6, FEW = 2, MOST_CANDIDATES = 1024 };
static const double BETTER = 0.97;   /* relative time; smaller gains are noise */
static const double NEVER = 1e300;   /* cost of an implementation that refuses */
static const double HOPELESS = 30.0; /* relative to the cheapest estimate; never chosen by cost */

typedef struct search {
  const clade__problem *p;
  const clade_tune_opt *how;
  double deadline;                 /* of this problem */
  clade__clock *clock;             /* for all problems */
  double begun, ready;             /* ready: seconds until the first trials were compiled; 0: not yet */
  clade__stage stage[CLADE__BARE]; /* indexed by clade__scale */
  clade__trial *at;                /* [0]: the current choice */
  size_t n, capacity;
  size_t best;
  bool barred[CLADE__PICKED_IMPLS]; /* exceeds the op's error bound, which .loose did not allow */
} search;

void clade__trial_close(clade__trial *c) {
  clade_run_free(c->run);
  c->run = NULL;
  for (int k = 0; k < CLADE__SCALES; k++) {
    clade_func_release(c->func[k]);
    c->func[k] = NULL;
  }
}

char *clade__trial_text(const clade__problem *p, const clade__trial *c) {
  const clade_impl *impl = clade__impls(p->op)[c->impl];
  clade__text t = {0};
  char *text = NULL;
  clade__text_add(&t, "%s", impl->name);
  for (int i = 0; c->has_config && impl->space->params[i]; i++)
    clade__text_add(&t, " %s=%d", impl->space->params[i], (int)c->config[i]);
  return clade__text_take(&t, &text) == CLADE_OK ? text : NULL;
}

/* ---- trials ---- */
static clade_status add(search *s, int impl, const int32_t *config) {
  const clade_space *space = clade__impls(s->p->op)[impl]->space;
  clade__trial c = {.impl = impl, .has_config = space != NULL};
  if (config && space) memcpy(c.config, config, sizeof c.config);
  for (size_t i = 0; i < s->n; i++)
    if (s->at[i].impl == impl && !memcmp(s->at[i].config, c.config, sizeof c.config)) return CLADE_OK;
  if (s->n >= MOST_CANDIDATES) return CLADE_OK;
  CLADE_TRY(clade__grow(&s->at, &s->capacity, s->n + 1, sizeof *s->at));
  s->at[s->n++] = c;
  return CLADE_OK;
}

static clade_status add_configs(search *s, clade_query *q, int impl) {
  const clade_space *space = clade__impls(s->p->op)[impl]->space;
  int32_t config[CLADE_MAX_PARAMS];
  for (int i = 0; space; i++) {
    q->config = NULL;
    if (!clade__space_config(space, q, i, config)) break;
    CLADE_TRY(add(s, impl, config));
  }
  return CLADE_OK;
}

/* Estimated cost in the implementation's preferred layouts. */
static double cost_of(const clade_impl *impl, clade_query q) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_layout layout[2 * CLADE_MAX_OPERANDS] = {{0}};
  clade_node n = *q.node;
  if (impl->layouts) impl->layouts(&q, layout, layout + n.n_in);
  for (int i = 0; i < n.n_in; i++) in[i] = n.in[i], in[i].layout = layout[i];
  for (int i = 0; i < n.n_out; i++) out[i] = n.out[i], out[i].layout = layout[n.n_in + i];
  n.in = in, n.out = out;
  q.node = &n;
  return clade__impl_cost(impl, &q);
}

/* Lists the trials: the current choice, the defaults of every implementation, then configurations of the current
 * implementation and of the others. */
static clade_status list(search *s) {
  const clade__problem *p = s->p;
  clade_type out[CLADE_MAX_OPERANDS];
  clade_node n = {sizeof n, p->op, "", p->attrs, p->n_in, p->n_out, p->in, out};
  clade_query q = {sizeof q, &n, clade__device_info(p->device), NULL};
  int32_t config[CLADE_MAX_PARAMS];
  bool tried[CLADE__PICKED_IMPLS] = {false}; /* some alternative */
  double cost[CLADE__PICKED_IMPLS][CLADE_MAX_ALTERNATIVES], cheapest = NEVER;
  int count = 0;
  memcpy(out, s->stage[CLADE__WHOLE].out, (size_t)p->n_out * sizeof *out);
  CLADE_TRY(add(s, p->impl, p->config));
  for (; clade__impls(p->op)[count] && count < CLADE__PICKED_IMPLS; count++) {
    const clade_impl *impl = clade__impls(p->op)[count];
    for (int a = 0; a < clade__alternatives(impl); a++) {
      clade__query_alternative(&q, impl, a, config);
      cost[count][a] = !impl->bundled && !clade__impl_unfit(impl, &q) ? cost_of(impl, q) : NEVER;
      cheapest = CLADE_MIN(cheapest, cost[count][a]);
    }
  }
  for (int i = 0; i < count; i++) {
    const clade_impl *impl = clade__impls(p->op)[i];
    for (int a = 0; a < clade__alternatives(impl); a++) {
      const bool hopeless = cost[i][a] > HOPELESS * cheapest;
      s->barred[i] = impl->loose && hopeless && !s->how->loose;
      if (cost[i][a] >= NEVER || s->barred[i] || (hopeless && !impl->loose && s->how->mode == CLADE_TUNE_QUICK))
        continue;
      tried[i] = true;
      clade__query_alternative(&q, impl, a, config);
      CLADE_TRY(add(s, i, config));
    }
  }
  CLADE_TRY(add_configs(s, &q, p->impl));
  for (int i = 0; i < count; i++)
    if (tried[i]) CLADE_TRY(add_configs(s, &q, i));
  return CLADE_OK;
}

/* ---- compiling ---- */
/* Whether a failure concerns only this trial; the search goes on. */
static bool own_fault(clade_status status) {
  return status != CLADE_OK && status != CLADE_LOST && status != CLADE_FORKED && status != CLADE_NO_MEMORY;
}

static clade_status drop(clade__trial *c, clade_status status) {
  if (!own_fault(status)) return status;
  clade__log(CLADE_LOG_DEBUG, "a candidate is left out: %s", clade_last_error());
  c->state = CLADE__TRIAL_REFUSED;
  clade__trial_close(c);
  return CLADE_OK;
}

static clade_status plan(const search *s, clade__trial *c) {
  CLADE_TRY(clade__stage_func(s->p, &s->stage[CLADE__WHOLE], c, &c->func[CLADE__WHOLE]));
  CLADE_TRY(clade__stage_bare(s->p, c, &c->func[CLADE__BARE]));
  for (int k = CLADE__WHOLE; k < CLADE__SCALES; k++)
    if (c->func[k]) CLADE_TRY(clade__list_requests(c->func[k]));
  if (clade__device_info(s->p->device)->kernels) return CLADE_OK;
  clade_status status = clade__stage_func(s->p, &s->stage[CLADE__TAILS], c, &c->func[CLADE__TAILS]);
  if (status == CLADE_UNSUPPORTED) return CLADE_OK; /* the op has no sizes with tails */
  return status == CLADE_OK ? clade__list_requests(c->func[CLADE__TAILS]) : status;
}

/* Compiles all kernels of the batch together. If that fails, the failing trials are found by compiling each
 * separately. */
static clade_status compile(search *s, clade__trial **batch, int n) {
  const clade__mark begun = clade__clock_mark(s->p->device);
  size_t count = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < CLADE__SCALES; k++) count += batch[i]->func[k] ? batch[i]->func[k]->n_requests : 0;
  clade__request *all = clade__new(count, sizeof *all);
  clade__program_kernel *got = clade__new(count, sizeof *got);
  clade_status status = all && got ? CLADE_OK : CLADE_NO_MEMORY;
  count = 0;
  for (int i = 0; i < n && status == CLADE_OK; i++)
    for (int k = 0; k < CLADE__SCALES; k++)
      for (size_t r = 0; batch[i]->func[k] && r < batch[i]->func[k]->n_requests; r++)
        all[count++] = batch[i]->func[k]->requests[r];
  if (status == CLADE_OK && count) status = clade__store_prepare(s->p->device, count, all, got);
  clade__free(all);
  clade__free(got);
  if (status != CLADE_OK && !own_fault(status)) return status;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < CLADE__SCALES; k++)
      if (batch[i]->func[k] && !batch[i]->func[k]->kernels)
        CLADE_TRY(drop(batch[i], clade__prepare(batch[i]->func[k])));
  clade__clock_learn(s->clock, &begun);
  return CLADE_OK;
}

/* ---- check ---- */
/* Computes the reference results. If they contain NaN, uses positive operands. */
static clade_status trust(search *s, clade__scale scale, clade_func *func) {
  clade__stage *stage = &s->stage[scale];
  for (int positive = 0; positive < 2; positive++) {
    clade_run *run = NULL;
    clade__answer_free(s->p, stage->right);
    stage->right = NULL;
    CLADE_TRY(clade__stage_fill(s->p, stage, func, positive));
    clade_status status = clade__answer(s->p, stage, func, &run, &stage->right);
    clade_run_free(run);
    CLADE_TRY(status);
    if (!clade__answer_has_nan(s->p, stage, stage->right)) break;
  }
  return CLADE_OK;
}

/* Uses the last implementation, which runs on every device, as the reference. */
static clade_status trust_ref(search *s) {
  clade__trial ref = {0};
  clade_query q = {0};
  clade_type out[CLADE_MAX_OPERANDS], in[CLADE_MAX_OPERANDS];
  const clade_impl *const *impls = clade__impls(s->p->op);
  while (impls[ref.impl + 1]) ref.impl++;
  if ((ref.has_config = impls[ref.impl]->space != NULL)) {
    clade_node view;
    clade__node_view(s->stage[CLADE__TAILS].graph, clade__stage_node(s->p), in, out, &view);
    q = (clade_query){sizeof q, &view, clade__device_info(s->p->device), NULL};
    clade__query_defaults(&q, impls[ref.impl], ref.config);
  }
  clade_func *func = NULL;
  const clade__mark begun = clade__clock_mark(s->p->device);
  clade_status status = clade__stage_func(s->p, &s->stage[CLADE__TAILS], &ref, &func);
  if (status == CLADE_OK) status = clade__prepare(func);
  clade__clock_learn(s->clock, &begun);
  if (status == CLADE_OK) status = trust(s, CLADE__TAILS, func);
  clade_func_release(func);
  return status;
}

static clade_status compare(search *s, clade__scale scale, clade__trial *c, clade_run **run) {
  void **answer = NULL;
  CLADE_TRY(clade__answer(s->p, &s->stage[scale], c->func[scale], run, &answer));
  bool agree = clade__answers_agree(s->p, &s->stage[scale], s->stage[scale].right, answer);
  clade__answer_free(s->p, answer);
  if (agree) return CLADE_OK;
  char *text = clade__trial_text(s->p, c);
  clade__log(CLADE_LOG_WARNING, "%s (%s): %s gives a wrong answer%s, and is not used", s->p->op->name, s->p->text,
             text ? text : "a candidate", scale == CLADE__TAILS ? " on a shape with tails" : "");
  clade__free(text);
  c->state = CLADE__TRIAL_WRONG;
  return CLADE_OK;
}

static clade_status check(search *s, clade__trial *c) {
  clade_run *run = NULL;
  if (c->func[CLADE__TAILS]) {
    clade_status status = compare(s, CLADE__TAILS, c, &run);
    clade_run_free(run);
    CLADE_TRY(status);
    if (c->state == CLADE__TRIAL_WRONG) return CLADE_OK;
  }
  if (!s->stage[CLADE__WHOLE].right) CLADE_TRY(trust(s, CLADE__WHOLE, c->func[CLADE__WHOLE]));
  CLADE_TRY(compare(s, CLADE__WHOLE, c, &c->run));
  if (c->state == CLADE__TRIAL_WRONG) return CLADE_OK;
  c->state = CLADE__TRIAL_RIGHT;
  if (!c->func[CLADE__BARE]) return CLADE_OK;
  clade_run_free(c->run);
  c->run = NULL;
  return clade_run_new(c->func[CLADE__BARE], s->stage[CLADE__WHOLE].vars, &c->run, .slots = 1);
}

/* ---- a batch ---- */
static clade_status open_candidate(search *s, clade__trial *c) {
  if (c->state == CLADE__TRIAL_OPEN && !c->func[CLADE__WHOLE]) return drop(c, plan(s, c));
  return CLADE_OK;
}

/* Checks and times a batch. Trials that are not checked in time stay open. */
static clade_status run_batch(search *s, clade__trial **batch, int n) {
  for (int i = 0; i < n; i++) CLADE_TRY(open_candidate(s, batch[i]));
  CLADE_TRY(compile(s, batch, n));
  for (int i = 0; i < n; i++) {
    if (!clade__is_time(s->clock, 0)) return CLADE_OK;
    if (batch[i]->state == CLADE__TRIAL_OPEN) CLADE_TRY(drop(batch[i], check(s, batch[i])));
  }
  bool full = s->how->mode == CLADE_TUNE_FULL;
  if (s->ready <= 0) s->ready = clade__now() - s->begun;
  return clade__take_turns(batch, n, full ? 9 : 5, full ? 10e-3 : 3e-3, s->deadline, s->clock);
}

static bool may_be_taken(const search *s, const clade__trial *c) {
  return c->state == CLADE__TRIAL_RIGHT && !s->barred[c->impl];
}

/* Updates the fastest trial, relative to the first trial in the same turns. */
static void judge(search *s, clade__trial **batch, int n) {
  const clade__trial *first = &s->at[0];
  for (int i = 0; i < n; i++) {
    size_t k = (size_t)(batch[i] - s->at);
    if (!may_be_taken(s, batch[i]) || batch[i]->median <= 0) continue;
    const clade__trial *best = &s->at[s->best];
    if (s->best == 0 && may_be_taken(s, first) ? batch[i]->median < BETTER * first->median
                                               : !may_be_taken(s, best) || batch[i]->median < best->median)
      s->best = k;
  }
}

/* Releases all trials but the first and the best, which take part in the next batch. */
static void close_batch(search *s, clade__trial **batch, int n) {
  for (int i = 0; i < n; i++)
    if (batch[i] != &s->at[0] && batch[i] != &s->at[s->best]) clade__trial_close(batch[i]);
}

/* Number of further trials that fit into the remaining time, by the time of a trial in the last batch. The first few
 * may use the time of later problems. */
static int room(const search *s, size_t next, double each) {
  double until = next < BATCH ? s->clock->deadline : s->deadline;
  if (!clade__is_time(s->clock, s->clock->most)) return 0;
  return isinf(until) ? BATCH : (int)fmin(fmax((until - clade__now()) / each, 0), FEW);
}

/* With a deadline, batches have two trials: the first ones show how long a compilation takes, and later ones may
 * take longer than cached ones, so the overrun is limited to two. */
static clade_status search_all(search *s) {
  int fits = isinf(s->clock->deadline) ? BATCH : FEW;
  if (!clade__is_time(s->clock, s->clock->most)) return CLADE_OK;
  for (size_t next = 0; next < s->n;) {
    clade__trial *batch[BATCH + 2];
    int n = 0, old = s->best ? 2 : next > 0;
    size_t before = s->best;
    double begun = clade__now();
    batch[n++] = &s->at[0];
    if (s->best) batch[n++] = &s->at[s->best];
    for (next = CLADE_MAX(next, (size_t)1); next < s->n && n < CLADE_MIN(BATCH, old + fits); next++)
      batch[n++] = &s->at[next];
    CLADE_TRY(run_batch(s, batch, n));
    judge(s, batch, n);
    close_batch(s, batch, n);
    if (before && before != s->best) clade__trial_close(&s->at[before]);
    fits = room(s, next, (clade__now() - begun) / (n - old));
    if (next < s->n && !fits) return CLADE_OK;
  }
  return CLADE_OK;
}

static bool was_timed(const clade__trial *c) { return c->state == CLADE__TRIAL_RIGHT && c->median > 0; }

/* Whether every trial was timed or refused. */
static bool is_complete(const search *s) {
  for (size_t i = 0; i < s->n; i++)
    if (s->at[i].state == CLADE__TRIAL_OPEN || (s->at[i].state == CLADE__TRIAL_RIGHT && !was_timed(&s->at[i])))
      return false;
  return true;
}

/* Reports the fastest trial of an implementation in an alternative, or the first one if the difference is noise. */
static void tell_best_of(const search *s, int impl, int alternative, clade__found *out) {
  const clade__trial *first = NULL, *best = NULL;
  for (size_t i = 0; i < s->n; i++) {
    const clade__trial *c = &s->at[i];
    if (c->impl != impl || clade__alternative_of(clade__impls(s->p->op)[impl], c->config) != alternative) continue;
    if (!may_be_taken(s, c) || !was_timed(c)) continue;
    if (!first) first = best = c;
    if (c->median < best->median) best = c;
  }
  if (first) out->best[out->n_best++] = best->median < BETTER * first->median ? *best : *first;
}

static void tell_best(const search *s, clade__found *out) {
  for (int impl = 0; impl < CLADE__PICKED_IMPLS; impl++)
    for (int a = 0; a < CLADE_MAX_ALTERNATIVES; a++) tell_best_of(s, impl, a, out);
}

clade_status clade__search(const clade__problem *p, const clade_tune_opt *how, double deadline, clade__clock *clock,
                           clade__found *out) {
  clade__problem plain = *p; /* only without views: attributes of views contain sizes */
  clade__gemm_attrs attrs;
  clade_type tails[CLADE_MAX_OPERANDS];
  search s = {.p = p, .how = how, .deadline = deadline, .clock = clock, .begun = clade__now()};
  clade_status status;
  *out = (clade__found){0};
  CLADE_GOTO(clade__stage_open(p, p->in, NULL, &s.stage[CLADE__WHOLE]));
  plain.attrs = clade__view_forgotten(p->op, p->attrs, plain.in, &attrs);
  clade__tails(&plain, tails);
  CLADE_GOTO(clade__stage_open(&plain, tails, NULL, &s.stage[CLADE__TAILS]));
  CLADE_GOTO(list(&s));
  if (!clade__device_info(p->device)->kernels) CLADE_GOTO(trust_ref(&s)); /* these are tested when built */
  CLADE_GOTO(search_all(&s));
  out->complete = is_complete(&s);
  for (size_t i = 0; i < s.n; i++) {
    out->candidates += s.at[i].state != CLADE__TRIAL_OPEN;
    out->wrong += s.at[i].state == CLADE__TRIAL_WRONG;
    clade__trial_close(&s.at[i]);
  }
  if (may_be_taken(&s, &s.at[0]) && s.at[s.best].median > BETTER * s.at[0].median) s.best = 0;
  out->ready = s.ready;
  out->before = s.at[0];
  out->after = s.at[s.best];
  tell_best(&s, out);
fail:
  for (size_t i = 0; i < s.n; i++) clade__trial_close(&s.at[i]);
  clade__free(s.at);
  clade__stage_close(p, &s.stage[CLADE__TAILS]);
  clade__stage_close(p, &s.stage[CLADE__WHOLE]);
  return status;
}

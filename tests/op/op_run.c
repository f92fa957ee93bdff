/* Runs one case: builds the graph, executes it with guard zones, and compares results and gradients. Over 400 lines:
 * one case, from its graph to the comparison, can be read from top to bottom. */
#include <clade/run.h>

#include "op_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl/internal.h"
#include "op/dims.h"
#include "plan/plan.h"

enum { OP_SLOPES = 12 }; /* derivatives compared per input and output */

typedef struct outcome { /* of one output of the graph */
  char name[32];
  clade_type type;
  size_t bytes;
  void *data, *again;
} outcome;

typedef struct trial {
  const op_target *target;
  const op_case *c;
  op_tally *tally;
  op_array in[OP_INPUTS], seed[OP_OUTPUTS], want[OP_OUTPUTS]; /* seed: gradients of the outputs */
  clade_graph *graph;
  clade_val x[OP_INPUTS], y[OP_OUTPUTS], dy[OP_OUTPUTS];
  outcome out[OP_OUTPUTS], slope[OP_OUTPUTS][OP_INPUTS];
} trial;

static bool failed(const char *what) {
  fprintf(stderr, "  %s: %s\n", what, clade_last_error());
  return false;
}

static op_verdict refused(const char *what) {
  failed(what);
  return OP_FAILED;
}

/* ---- the graph ---- */
static bool add_outcome(trial *t, outcome *o, const char *name, clade_val v) {
  snprintf(o->name, sizeof o->name, "%s", name);
  clade_output(t->graph, o->name, v);
  if (clade_val_type(t->graph, v, &o->type) != CLADE_OK) return failed("an output");
  return clade_dtype_bytes(o->type.dtype, op_elements(&o->type.shape), &o->bytes) == CLADE_OK;
}

static bool add_slopes(trial *t, int k) {
  clade_val xs[OP_INPUTS], dxs[OP_INPUTS];
  int at[OP_INPUTS], n = 0;
  char name[32];
  const clade_type *type = &t->out[k].type;
  if (!op_is_float(type->dtype)) return true;
  for (int j = 0; j < t->c->n_in; j++)
    if (t->c->differentiable >> j & 1) {
      xs[n] = t->x[j];
      at[n++] = j;
    }
  snprintf(name, sizeof name, "dy%d", k);
  t->dy[k] = clade_input(t->graph, name, type->dtype, type->shape);
  if (clade_gradients(t->graph, t->y[k], t->dy[k], n, xs, dxs) != CLADE_OK) return failed("clade_gradients");
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "dx%d_%d", k, at[i]);
    if (!add_outcome(t, &t->slope[k][at[i]], name, dxs[i])) return false;
  }
  return true;
}

static bool build(trial *t) {
  char name[32];
  if (clade_graph_new(&t->graph) != CLADE_OK) return failed("clade_graph_new");
  for (int j = 0; j < t->c->n_in; j++) {
    snprintf(name, sizeof name, "x%d", j);
    t->x[j] = clade_input(t->graph, name, t->c->in[j].dtype, t->c->in[j].shape);
  }
  t->target->test->build(t->c, t->graph, t->x, t->y);
  if (clade_graph_status(t->graph) != CLADE_OK) return failed("building");
  for (int k = 0; k < t->c->n_out; k++) {
    snprintf(name, sizeof name, "y%d", k);
    if (!add_outcome(t, &t->out[k], name, t->y[k]) || (t->c->gradient && !add_slopes(t, k))) return false;
  }
  return clade_graph_status(t->graph) == CLADE_OK || failed("building");
}

/* ---- execution ---- */
static void feed(clade_feed *feeds, int *n, const char *name, const op_array *a) {
  size_t bytes = op_array_bytes(a);
  void *data = op_alloc(bytes, 1);
  op_array_pack(a, data);
  feeds[(*n)++] = (clade_feed){.name = name, .data = data, .bytes = bytes};
}

static bool each_outcome(trial *t, bool (*fn)(trial *, outcome *, void *), void *user) {
  for (int k = 0; k < t->c->n_out; k++) {
    if (t->out[k].name[0] && !fn(t, &t->out[k], user)) return false;
    for (int j = 0; j < t->c->n_in; j++)
      if (t->slope[k][j].name[0] && !fn(t, &t->slope[k][j], user)) return false;
  }
  return true;
}

typedef struct reading {
  clade_run *run;
  clade_ticket ticket;
  bool again;
} reading;

static bool read_outcome(trial *t, outcome *o, void *user) {
  reading *r = user;
  void **data = r->again ? &o->again : &o->data;
  (void)t;
  free(*data);
  *data = op_alloc(o->bytes, 1);
  return clade_read(r->run, r->ticket, o->name, *data, o->bytes) == CLADE_OK || failed("clade_read");
}

static bool same_bits(trial *t, outcome *o, void *user) {
  (void)t, (void)user;
  if (!o->again || memcmp(o->data, o->again, o->bytes) == 0) return true;
  fprintf(stderr, "  %s: another execution gave other bits\n", o->name);
  return false;
}

/* Two executions, so that the second one sees stale memory; light cases often have one. */
static int count_rounds(const op_case *c) { return c->light && c->number % 7 > 1 ? 1 : 2; }

/* Later rounds are compared with the first one. */
static bool execute(trial *t, clade_run *run, int from, int rounds) {
  clade_feed feeds[OP_INPUTS + OP_OUTPUTS];
  char x[OP_INPUTS][32], dy[OP_OUTPUTS][32];
  int n = 0;
  bool ok = true;
  for (int j = 0; j < t->c->n_in; j++) {
    snprintf(x[j], sizeof x[j], "x%d", j);
    feed(feeds, &n, x[j], &t->in[j]);
  }
  for (int k = 0; k < t->c->n_out; k++)
    if (t->dy[k].id) {
      snprintf(dy[k], sizeof dy[k], "dy%d", k);
      feed(feeds, &n, dy[k], &t->seed[k]);
    }
  for (int round = from; ok && round < rounds; round++) {
    reading r = {.run = run, .again = round > 0};
    ok = clade_execute(run, n, feeds, &r.ticket) == CLADE_OK || failed("clade_execute");
    ok = ok && each_outcome(t, read_outcome, &r);
  }
  for (int i = 0; i < n; i++) free((void *)(uintptr_t)feeds[i].data);
  if (ok && clade__plan_guard_bytes && clade__run_check_guards(run) != CLADE_OK) ok = failed("guard zones");
  return ok && each_outcome(t, same_bits, NULL);
}

static bool is_imitated(const clade_device *device, const clade_impl *impl) {
  const clade_device_info *info = clade__device_info(device);
  bool any = false;
  for (int i = 0; i < CLADE_UNITS; i++) any |= (impl->needs_units >> i & 1) && info->unit[i].reason;
  return any;
}

/* Checks the implementations of the op's nodes; derivatives may add nodes after the case's own, which is the first.
 * False: an additional case for an implementation that did not take it. Implementations that convert layouts are
 * exempt, since another one stands in. */
static bool see_impls(trial *t, op_case *c, const clade_func *func, int impl) {
  const clade_op *op = t->target->op;
  bool took[OP_IMPLS] = {false};
  for (size_t i = func->graph->n_nodes; op->impls && i-- > 1;) {
    const clade__node *node = &func->graph->nodes[i];
    if (node->op != op || node->impl < 0) continue;
    took[node->impl] = true;
    c->took = op->impls[node->impl]->name;
    c->imitated = is_imitated(t->target->device, op->impls[node->impl]);
    c->config = node->config;
    t->tally->alternatives[node->impl] |= 1u << clade__alternative_of(op->impls[node->impl], node->config);
  }
  if (c->more && !took[impl]) return false;
  for (int k = 0; k < OP_IMPLS; k++) t->tally->cases[c->form][k] += took[k];
  return true;
}

static bool has_config(const trial *t, int impl) {
  const int32_t *config = t->target->config;
  if (!config || !t->c->took) return true;
  const clade_impl *it = t->target->op->impls[impl];
  if (strcmp(t->c->took, it->name) != 0) return true;
  int i = 0;
  while (it->space->params[i] && t->c->config[i] == config[i]) i++;
  if (it->space->params[i]) fprintf(stderr, "  %s did not start from what its record says\n", it->name);
  return !it->space->params[i];
}

static void refuse(trial *t, int impl) {
  char own[64];
  snprintf(own, sizeof own, "; %s: ", t->target->op->impls[impl]->name);
  const char *said = clade_last_error(), *reason = strstr(said, own);
  reason = reason ? reason + strlen(own) : said;
  snprintf(t->tally->refusal[impl], sizeof t->tally->refusal[impl], "%s", reason);
}

/* Compiles with the implementation whose turn it is or, if it refuses, with the selected one. */
static op_verdict compile(trial *t, int impl, clade_func **func) {
  char prefer[96];
  if (!t->target->op->impls || t->target->chosen)
    return clade_compile(t->graph, t->target->device, func) == CLADE_OK ? OP_PASSED : refused("clade_compile");
  const clade_impl *it = t->target->op->impls[impl];
  const int alternative = t->target->config ? clade__alternative_of(it, t->target->config) : t->c->alternative;
  snprintf(prefer, sizeof prefer, "%s=%s/%d", t->target->op->name, it->name, alternative);
  const bool strict = !it->loose; /* a loose implementation is used in its own turn only */
  clade__impl_anywhere = t->target->anywhere >> it->family & 1 ? it : NULL;
  clade_status status = clade_compile(t->graph, t->target->device, func, .prefer = prefer, .strict = strict);
  clade__impl_anywhere = NULL;
  if (status == CLADE_NOT_FOUND) {
    refuse(t, impl);
    if (t->c->more) return OP_NOT_RUN;
    status = clade_compile(t->graph, t->target->device, func, .strict = strict);
  }
  /* A bundle's kernels do not support all cases. */
  if (status == CLADE_UNSUPPORTED && t->target->bundle) return OP_NOT_RUN;
  return status == CLADE_OK ? OP_PASSED : refused("clade_compile");
}

static void print_choices(const clade_func *func) {
  char *text = NULL;
  if (clade_func_choices(func, &text) == CLADE_OK) fprintf(stderr, "  %s\n", text);
  clade_text_free(text);
}

static bool run(trial *t, clade_func *func, int from, int rounds) {
  clade_run *r = NULL;
  if (t->target->verbose) print_choices(func);
  bool ok = (clade_run_new(func, NULL, &r, .slots = rounds - from) == CLADE_OK || failed("clade_run_new")) &&
            execute(t, r, from, rounds);
  clade_run_free(r);
  return ok;
}

/* ---- derivatives ---- */
typedef struct difference {
  double slope, magnitude; /* of sum(dy * y); sum of absolute terms */
  bool kink;
} difference;

/* Results with element i of input j at x + offset. */
static double *results(trial *t, int k, op_array *y, int j, int64_t i, double offset) {
  double *v = &t->in[j].v[i], x = *v;
  *v = x + offset;
  t->target->test->reference(t->c, t->in, y);
  *v = x;
  double *copy = op_alloc((size_t)y[k].n, sizeof *copy);
  if (y[k].n) memcpy(copy, y[k].v, (size_t)y[k].n * sizeof *copy);
  return copy;
}

/* sum(dy * (to - from)): differencing first avoids cancellation with large results. */
static double change(const trial *t, int k, const double *to, const double *from, double *magnitude) {
  double sum = 0;
  for (int64_t e = 0; e < t->seed[k].n; e++) {
    double term = t->seed[k].v[e] * (to[e] - from[e]);
    sum += term;
    if (magnitude) *magnitude += fabs(term);
  }
  return sum;
}

/* Central differences, if both sides agree; otherwise the function has a kink there. */
static difference differentiate(trial *t, int k, op_array *y, int j, int64_t i) {
  double h = 1e-4 * CLADE_MAX(fabs(t->in[j].v[i]), 0.01), quarter = h / 4;
  const double offsets[5] = {-h, -quarter, 0, quarter, h};
  double *at[5];
  difference d = {0};
  for (int n = 0; n < 5; n++) at[n] = results(t, k, y, j, i, offsets[n]);
  double coarse = change(t, k, at[4], at[0], NULL) / (2 * h);
  double fine = change(t, k, at[3], at[1], &d.magnitude) / (2 * quarter);
  double left = change(t, k, at[2], at[1], NULL) / quarter, right = change(t, k, at[3], at[2], NULL) / quarter;
  for (int n = 0; n < 5; n++) free(at[n]);
  d.magnitude /= 2 * quarter;
  d.slope = (16 * fine - coarse) / 15; /* Richardson extrapolation: the remaining error is of fourth order */
  d.kink = fabs(left - right) > 0.02 * CLADE_MAX(d.magnitude, 1e-6) ||
           fabs(fine - coarse) > 0.002 * CLADE_MAX(d.magnitude, 1e-6);
  return d;
}

static bool compare_slopes(trial *t, int k, int j, op_random *random) {
  const outcome *o = &t->slope[k][j];
  double relative = t->target->test->gradient_bound > 0 ? t->target->test->gradient_bound : 1e-4;
  op_array y[OP_OUTPUTS] = {{0}};
  bool ok = true;
  for (int n = 0; ok && n < OP_SLOPES && t->in[j].n > 0; n++) {
    int64_t i = t->in[j].n <= OP_SLOPES ? n : op_integer(random, 0, t->in[j].n - 1);
    if (i >= t->in[j].n) break;
    difference d = differentiate(t, k, y, j, i);
    double got = op_array_get(t->in[j].dtype, o->data, i);
    if (d.kink) {
      t->tally->kinks++;
      continue;
    }
    t->tally->slopes++;
    ok = fabs(got - d.slope) <= relative * d.magnitude + 1e-6;
    if (!ok)
      fprintf(stderr,
              "  derivative of output %d by input %d[%lld] = %.9g: got %.9g, central difference %.9g (of %.3g)\n", k, j,
              (long long)i, t->in[j].v[i], got, d.slope, d.magnitude);
  }
  for (int e = 0; e < OP_OUTPUTS; e++) op_array_free(&y[e]);
  return ok;
}

static bool typed_as_wanted(const trial *t, int k) {
  const clade_type *type = &t->out[k].type;
  char got[256], want[256];
  if (type->dtype == t->want[k].dtype && clade_shape_equal(&type->shape, &t->want[k].shape)) return true;
  fprintf(stderr, "  output %d is %s%s, want %s%s\n", k, clade_dtype_name(type->dtype),
          clade_shape_text(&type->shape, got, sizeof got), clade_dtype_name(t->want[k].dtype),
          clade_shape_text(&t->want[k].shape, want, sizeof want));
  return false;
}

static bool compare(trial *t, op_random *random) {
  for (int k = 0; k < t->c->n_out; k++) {
    if (!op_array_compare(&t->want[k], t->out[k].data, t->out[k].name, &t->tally->worst)) {
      fprintf(stderr, "  (output %d)\n", k);
      return false;
    }
    t->tally->elements += t->want[k].n;
    for (int j = 0; j < t->c->n_in; j++)
      if (t->slope[k][j].name[0] && !compare_slopes(t, k, j, random)) return false;
  }
  return true;
}

/* ---- running a case ---- */
static void draw(const trial *t, op_case *c, op_random *random) {
  c->n_out = 1;
  c->told = t->target->has;
  if (c->small && c->number % 2) c->told.last_cache = 128; /* some values exceed such a cache */
  c->differentiable = UINT32_MAX;
  t->target->test->draw(c, random);
  for (int j = 0; j < c->n_in; j++)
    if (!op_is_float(c->in[j].dtype)) c->differentiable &= ~(1u << j);
}

/* Fills the inputs and computes the expected results. */
static bool fill(trial *t, op_random *random) {
  const op_case *c = t->c;
  for (int j = 0; j < c->n_in; j++) op_array_fill(&t->in[j], &c->in[j], random);
  if (t->target->test->fill) t->target->test->fill(c, random, t->in);
  t->target->test->reference(c, t->in, t->want);
  for (int k = 0; k < c->n_out; k++)
    if (!typed_as_wanted(t, k)) return false;
  for (int k = 0; c->gradient && k < c->n_out; k++)
    op_array_fill(&t->seed[k], &(op_input){.dtype = t->want[k].dtype, .shape = t->want[k].shape, .low = -2, .high = 2},
                  random);
  return true;
}

static void describe(const char *state, const op_case *c, uint64_t seed) {
  fprintf(stderr, "%s %s case %d%s (seed %llu) %s:", state, clade_dtype_name(c->dtype), c->number,
          c->gradient ? " with gradients" : "", (unsigned long long)seed, c->note);
  for (int j = 0; j < c->n_in; j++) {
    char text[256];
    fprintf(stderr, " %s%s", clade_dtype_name(c->in[j].dtype), clade_shape_text(&c->in[j].shape, text, sizeof text));
  }
  fprintf(stderr, "\n");
}

static void tell(clade_device *device, const op_told *told) {
  /* Not facts.info: probing units makes a copy. */
  clade_device_info *info = (clade_device_info *)clade__device_info(device);
  info->max_group = told->group;
  info->compute_units = told->units;
  info->l2_bytes = told->second_cache;
  info->cache_bytes = clade__least_cache = told->last_cache;
}

/* Cases use the alternatives of an implementation's layouts at random. */
static int alternative_for(const op_target *target, const op_case *c, int impl) {
  const int n = target->op->impls ? clade__alternatives(target->op->impls[impl]) : 1;
  op_random random = {.seed = (uint64_t)c->number * 7919u + (uint64_t)c->dtype};
  return n > 1 ? (int)op_integer(&random, 0, n - 1) : 0;
}

static trial *trial_new(const op_target *target, op_case *c, op_random *random, int impl, op_tally *tally) {
  trial *t = op_alloc(1, sizeof *t);
  t->target = target;
  t->c = c;
  t->tally = tally;
  c->alternative = alternative_for(target, c, impl);
  draw(t, c, random);
  tell(target->device, &c->told);
  return t;
}

static void trial_free(trial *t) {
  for (int k = 0; k < t->c->n_out; k++) {
    free(t->out[k].data), free(t->out[k].again);
    for (int j = 0; j < t->c->n_in; j++) free(t->slope[k][j].data), free(t->slope[k][j].again);
    op_array_free(&t->want[k]), op_array_free(&t->seed[k]);
  }
  for (int j = 0; j < t->c->n_in; j++) op_array_free(&t->in[j]);
  clade_graph_release(t->graph);
  free(t);
}

static void tell_kernels(FILE *to, const clade_func *func) {
  for (size_t i = 0; to && i < func->n_requests; i++) fprintf(to, "%s\n", func->requests[i].kernel);
}

/* Requires the same bits for a device with another number of compute units. */
static bool same_elsewhere(trial *t, int impl) {
  clade_func *func = NULL;
  op_told other = t->c->told;
  if (!t->c->any_units || t->target->chosen) return true;
  other.units = other.units > 1 ? 1 : 64;
  tell(t->target->device, &other);
  op_verdict verdict = compile(t, impl, &func);
  bool same = verdict == OP_NOT_RUN || (verdict == OP_PASSED && run(t, func, 1, 2));
  clade_func_release(func);
  return same;
}

uint64_t op_case_seed(uint64_t seed, const op_case *c) {
  return seed * 1000003u + (uint64_t)c->dtype * 65536u + (uint64_t)c->number;
}

op_verdict op_case_run(const op_target *target, op_case *c, uint64_t seed, int impl, op_tally *tally) {
  op_random random = {.seed = seed};
  trial *t = trial_new(target, c, &random, impl, tally);
  if (target->verbose) describe("running", c, seed);
  clade_func *func = NULL;
  op_verdict verdict = build(t) ? compile(t, impl, &func) : OP_FAILED;
  if (verdict == OP_PASSED && !see_impls(t, c, func, impl)) verdict = OP_NOT_RUN;
  if (verdict == OP_PASSED && !(has_config(t, impl) && fill(t, &random) && run(t, func, 0, count_rounds(c)) &&
                                same_elsewhere(t, impl) && compare(t, &random)))
    verdict = OP_FAILED;
  tally->passed += verdict == OP_PASSED;
  if (verdict == OP_PASSED) tell_kernels(target->kernels, func);
  if (verdict == OP_FAILED) describe("FAILED", c, seed);
  clade_func_release(func);
  trial_free(t);
  return verdict;
}

clade_func *op_case_plan(const op_target *target, op_case *c, uint64_t seed, int impl) {
  op_random random = {.seed = seed};
  op_tally tally = {0};
  trial *t = trial_new(target, c, &random, impl, &tally);
  clade_func *func = NULL;
  clade__plan_only = true;
  if (build(t)) compile(t, impl, &func);
  clade__plan_only = false;
  trial_free(t);
  return func;
}

/* clade bench conv: convolutions and their derivatives, compared with other libraries. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/conv.h"
#include "cli/bench/python.h"

/* MOST_ELEMENTS limits the operands and results of a chain. most_flops limits its work unless --chain is given: a
 * long call needs no repetition. */
enum { MOST_ELEMENTS = 1 << 27 };
static const double most_flops = 2e10;

static bool is_result(const bench_conv_work *w, int role) { return role == (int)bench_conv_result(w); }
static bool is_weight(int role) { return role == BENCH_W; }

static double flops_of(const bench_conv_work *w) {
  return 2.0 * (double)w->n * (double)w->out * (double)w->target * (double)(w->c / w->groups * w->taps);
}

clade_status bench_conv_fill(bench_conv_work *w) {
  clade_shape *x = &w->shape[BENCH_X], *weight = &w->shape[BENCH_W], *y = &w->shape[BENCH_Y];
  *x = CLADE_SHAPE(w->n, w->c);
  *weight = CLADE_SHAPE(w->out, w->c / w->groups);
  *y = CLADE_SHAPE(w->n, w->out);
  w->source = w->target = w->taps = 1;
  for (int i = BENCH_AXES - w->axes; i < BENCH_AXES; i++) {
    bench_axis *a = &w->along[i];
    a->out = (a->in + 2 * a->pad - (a->kernel - 1) * a->dilation - 1) / a->stride + 1;
    w->source *= x->dim[x->rank++] = a->in;
    w->taps *= weight->dim[weight->rank++] = a->kernel;
    w->target *= y->dim[y->rank++] = a->out;
  }
  for (int i = 0; i < BENCH_ROLES; i++) {
    int64_t elements;
    if (clade_shape_elements(&w->shape[i], &elements) != CLADE_OK || elements > (int64_t)1 << 40) return CLADE_OVERFLOW;
    w->elements[i] = (size_t)elements;
  }
  return CLADE_OK;
}

/* The number of axes follows from the keys: w alone is one axis, with h two, with d and h three. */
clade_status bench_conv_work_of(const bench_job *job, const bench_shape *shape, bench_pass pass, bench_conv_work *w) {
  const int64_t *v = shape->value, size[BENCH_AXES] = {v[CONV_D], v[CONV_H], v[CONV_W]};
  static const char *const names[] = {"d", "h", "w"};
  const int axes = size[0] ? 3 : size[1] ? 2 : 1;
  *w = (bench_conv_work){.pass = pass,
                         .dtype = job->dtype,
                         .axes = axes,
                         .along = {BENCH_NO_AXIS, BENCH_NO_AXIS, BENCH_NO_AXIS},
                         .n = job->batch ? job->batch : 1,
                         .c = v[CONV_C],
                         .out = v[CONV_OUT],
                         .groups = v[CONV_GROUPS]};
  if (size[0] && !size[1])
    return CLADE_FAIL(INVALID, "%s, line %d: %s has d= and no h=", shape->source, shape->line, shape->name);
  if (w->c % w->groups || w->out % w->groups)
    return CLADE_FAIL(INVALID, "%s, line %d: %s: c=%lld and out=%lld are not divisible by groups=%lld", shape->source,
                      shape->line, shape->name, (long long)w->c, (long long)w->out, (long long)w->groups);
  for (int i = BENCH_AXES - axes; i < BENCH_AXES; i++) {
    const bench_axis a = {size[i], 0, v[CONV_KERNEL], v[CONV_STRIDE], v[CONV_PAD], v[CONV_DILATION]};
    const int64_t room = a.in + 2 * a.pad, extent = (a.kernel - 1) * a.dilation + 1;
    if (extent > room)
      return CLADE_FAIL(INVALID, "%s, line %d: %s: the kernel covers %lld along %s, which has %lld with its padding",
                        shape->source, shape->line, shape->name, (long long)extent, names[i], (long long)room);
    w->along[i] = a;
  }
  if (bench_conv_fill(w) != CLADE_OK)
    return CLADE_FAIL(OVERFLOW, "%s, line %d: %s has more than 2^40 elements", shape->source, shape->line, shape->name);
  size_t each = 0;
  for (int i = 0; i < BENCH_ROLES; i++) each += is_weight(i) && !is_result(w, i) ? 0 : w->elements[i];
  double fits = floor((double)MOST_ELEMENTS / (double)each);
  w->chain = job->chain ? job->chain : (int64_t)CLADE_MIN(10.0, ceil(most_flops / flops_of(w)));
  w->chain = CLADE_MAX(CLADE_MIN(w->chain, (int64_t)fits), 1);
  return CLADE_OK;
}

static clade_status numbers(clade__arena *arena, bench_conv_work *w, void *raw[BENCH_ROLES]) {
  const double spread = sqrt(3.0 / (double)(w->c / w->groups * w->taps));
  for (int i = 0; i < BENCH_ROLES; i++)
    if (!is_result(w, i))
      CLADE_TRY(bench_numbers(arena, 31 + (uint64_t)i, bench_conv_type(w, i), bench_conv_numbers(w, i),
                              is_weight(i) ? spread : 1, &w->data[i], &raw[i]));
  return CLADE_OK;
}

static const char *pytorch(const bench_job *job, const bench_conv_data *d, const char *peer, bench_side *side) {
  const bench_conv_work *w = d->work;
  static const char *const names[BENCH_ROLES] = {"x", "w", "y"};
  bench_script script = {.results = w->elements[bench_conv_result(w)]};
  char pass[32];
  for (int role = 0; role < BENCH_ROLES; role++)
    if (w->data[role])
      bench_script_file(&script, names[role], w->data[role], bench_conv_numbers(w, role) * sizeof(float));
  snprintf(pass, sizeof pass, "%s%s", bench_conv.passes[w->pass], strchr(peer, '_') ? "_nhwc" : "");
  bench_script_work(&script, "conv", "-", job->dtype, w->chain, pass, d->sizes);
  return bench_python(job, peer, &script, side);
}

/* Peers with own layouts compete with Clade's own layouts: `onednn`, and `pytorch_nhwc` with channels_last tensors. */
static const char *join(const bench_job *job, const void *work, const char *peer, bench_side *side) {
  const bench_conv_data *d = work;
  const bool torch = !strncmp(peer, "pytorch", 7), own = torch == (strchr(peer, '_') != NULL);
  const char *reason = torch ? pytorch(job, d, peer, side) : bench_onednn_conv(job, d->work, !own, side);
  side->partner = own ? d->partner : 0;
  return reason;
}

static clade_status compete(bench_race *race, bench_conv_data *d, bench_conv_data *own) {
  CLADE_TRY(numbers(&race->arena, d->work, d->raw));
  CLADE_TRY(bench_clade_side(race->job, bench_conv_build, d, &race->sides[race->n++]));
  CLADE_TRY(bench_clade_row(&race->sides[0], bench_conv_ops[d->work->pass], &race->row));
  CLADE_TRY(bench_conv_own(race->job, d, &race->sides[0], own, &race->sides[1], &race->row));
  d->partner = *race->row.own.impl != 0;
  race->n += d->partner;
  bench_peers(race, join, d);
  CLADE_TRY(bench_check(race, bench_conv_check, d->work));
  return bench_take_turns(race);
}

static clade_status measure(bench_race *race, const bench_shape *shape, int pass) {
  bench_conv_work w;
  bench_row *row = &race->row;
  CLADE_TRY(bench_conv_work_of(race->job, shape, (bench_pass)pass, &w));
  for (int i = 0; i < BENCH_ROLES; i++) {
    size_t bytes;
    CLADE_TRY(clade_dtype_bytes(bench_conv_type(&w, i), (int64_t)w.elements[i], &bytes));
    row->bytes += (double)bytes;
  }
  int at = snprintf(row->shape, sizeof row->shape, "n=%lld ", (long long)w.n);
  bench_shape_text(shape, bench_conv_keys, row->shape + at, sizeof row->shape - (size_t)at);
  row->chain = (int)w.chain;
  row->flops = flops_of(&w);
  bench_conv_data data = {.work = &w, .sizes = row->shape}, own = {0};
  clade_status status = compete(race, &data, &own);
  bench_conv_own_free(&own);
  return status;
}

static clade_status accept(const bench_job *job, const bench_shape *shape) {
  bench_conv_work w;
  return bench_conv_work_of(job, shape, BENCH_FORWARD, &w);
}

const bench_group bench_conv = {.name = "conv",
                                .keys = bench_conv_keys,
                                .sets = bench_conv_sets,
                                .quick = 1,
                                .passes = {"fwd", "bwd-data", "bwd-weights"}, /* in the order of bench_pass */
                                .peers = {"onednn", "onednn_nchw", "pytorch_nhwc", "pytorch"},
                                .batch = true,
                                .chain = true,
                                .accept = accept,
                                .measure = measure};

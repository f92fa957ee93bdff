/* clade bench conv: convolutions and their derivatives, compared with other libraries. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/conv.h"
#include "cli/bench/python.h"

/* MOST_ELEMENTS limits the operands and results of a chain. most_flops limits its work unless --chain is given: a
 * long call needs no repetition. */
enum { MOST_ELEMENTS = 1 << 27 };
static const double most_flops = 2e10;

const char *const bench_pass_names[BENCH_PASSES] = {"fwd", "bwd-data", "bwd-weights"};

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

static clade_status numbers(bench_conv_work *w, void *raw[BENCH_ROLES]) {
  double spread = sqrt(3.0 / (double)(w->c / w->groups * w->taps));
  for (int i = 0; i < BENCH_ROLES; i++) {
    if (is_result(w, i)) continue;
    size_t n = w->elements[i] * (size_t)bench_conv_count(w, i);
    w->data[i] = clade__new(n, sizeof(float));
    raw[i] = clade__new(n, sizeof(float));
    if (!w->data[i] || !raw[i]) return CLADE_NO_MEMORY;
    const clade_dtype type = bench_conv_type(w, i);
    if (bench_conv_bytes(w))
      bench_random_bytes(31 + (uint64_t)i, n, type, w->data[i]);
    else
      bench_random(31 + (uint64_t)i, n, is_weight(i) ? spread : 1, w->data[i]);
    CLADE_TRY(bench_round(type, n, w->data[i], raw[i]));
  }
  return CLADE_OK;
}

/* nhwc: channels_last tensors. */
static const char *pytorch(const bench_job *job, const bench_conv_work *w, bool nhwc, const char *shape,
                           bench_side *side) {
  static const char *const names[BENCH_ROLES] = {"x", "w", "y"};
  bench_script script = {.results = w->elements[bench_conv_result(w)]};
  char pass[32];
  for (int role = 0, n = 0; role < BENCH_ROLES; role++)
    if (w->data[role]) {
      script.files[n].name = names[role];
      script.files[n].data = w->data[role];
      script.files[n++].bytes = w->elements[role] * (size_t)bench_conv_count(w, role) * sizeof(float);
    }
  snprintf(pass, sizeof pass, "%s%s", bench_pass_names[w->pass], nhwc ? "_nhwc" : "");
  bench_script_work(&script, "conv", "-", job->dtype, w->chain, pass, shape);
  return bench_python(job, nhwc ? "pytorch_nhwc" : "pytorch", &script, side);
}

/* Peers with own layouts compete with Clade's own layouts. */
static const char *join(const bench_job *job, const bench_conv_work *w, int peer, const char *shape, bench_side *side) {
  const bool own = peer % 2 == 0;
  return peer < 2 ? bench_onednn_conv(job, w, !own, side) : pytorch(job, w, own, shape, side);
}

static clade_status compete(bench_job *job, const bench_conv_data *d, bench_conv_data *own, bench_row *row,
                            bench_side *sides) {
  static const char *const names[] = {"onednn", "onednn_nchw", "pytorch_nhwc", "pytorch"};
  int n = 1;
  CLADE_TRY(bench_conv_clade(job, d, &sides[0]));
  CLADE_TRY(bench_conv_row(&sides[0], d->work->pass, row));
  CLADE_TRY(bench_conv_own(job, d, &sides[0], own, &sides[1], row));
  n += *row->own.impl != 0;
  int partner = n - 1; /* contestant of Clade for peers with own layouts */
  for (int i = 0; i < (int)CLADE_COUNT(names); i++) {
    if (!bench_wants(job, names[i])) continue;
    const char *reason = join(job, d->work, i, row->shape, &sides[n]);
    if (reason) bench_missing(job, names[i], reason);
    sides[n].partner = i % 2 ? 0 : partner;
    n += !reason;
  }
  for (int i = 0; i < n; i++) {
    clade_status status = bench_conv_check(job, d->work, &sides[i]);
    if (!bench_goes_on(job, &sides[i], status)) return status;
  }
  return bench_race(job, n, sides, row);
}

static clade_status measure(bench_job *job, bench_conv_work *w, bench_row *row) {
  bench_side sides[BENCH_MAX_SIDES] = {{0}};
  bench_conv_data data = {.work = w}, own = {0};
  clade_status status = numbers(w, data.raw);
  if (status == CLADE_OK) status = compete(job, &data, &own, row, sides);
  bench_sides_free(BENCH_MAX_SIDES, sides);
  bench_conv_own_free(&own);
  for (int i = 0; i < BENCH_ROLES; i++) {
    clade__free(data.raw[i]);
    clade__free(w->data[i]);
  }
  return status;
}

static clade_status one(bench_job *job, const bench_shape *shape, bench_pass pass) {
  bench_conv_work w;
  bench_row row = {.group = "conv"};
  size_t bytes = 0;
  CLADE_TRY(bench_conv_work_of(job, shape, pass, &w));
  for (int i = 0; i < BENCH_ROLES; i++) {
    size_t of_role;
    CLADE_TRY(clade_dtype_bytes(bench_conv_type(&w, i), (int64_t)w.elements[i], &of_role));
    bytes += of_role;
  }
  snprintf(row.work, sizeof row.work, "%s", shape->name);
  snprintf(row.pass, sizeof row.pass, "%s", bench_pass_names[pass]);
  snprintf(row.dtype, sizeof row.dtype, "%s", clade_dtype_name(job->dtype));
  int at = snprintf(row.shape, sizeof row.shape, "n=%lld ", (long long)w.n);
  bench_shape_text(shape, bench_conv_keys, row.shape + at, sizeof row.shape - (size_t)at);
  row.chain = (int)w.chain;
  row.flops = flops_of(&w);
  row.bytes = (double)bytes;
  clade_status status = measure(job, &w, &row);
  if (status == CLADE_OK) return bench_row_add(job, &row);
  clade__free(row.why);
  return clade__fail_in(status, "conv %s, %s", shape->name, bench_pass_names[pass]);
}

clade_status bench_conv(bench_job *job) {
  bench_shapes shapes = {0};
  clade_status status = bench_shapes_of(job, "resnet50", bench_conv_keys, bench_conv_sets, &shapes);
  bench_conv_work work;
  for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++)
    status = bench_conv_work_of(job, &shapes.at[i], BENCH_FORWARD, &work);
  if (status == CLADE_OK) status = bench_ready(job);
  for (int pass = 0; pass < BENCH_PASSES; pass++)
    for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++)
      if ((!job->pass || !strcmp(job->pass, bench_pass_names[pass])) && (!pass || clade__is_float(job->dtype)))
        status = one(job, &shapes.at[i], (bench_pass)pass); /* of bytes there is no derivative */
  bench_shapes_free(&shapes);
  return status;
}

/* clade bench conv: convolutions and their derivatives, against libraries for them. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/conv.h"

/* Of all operands and results of a chain; of its work, where --chain does not say its length: what takes long gains
 * nothing from company. */
enum { MOST_ELEMENTS = 1 << 27 };
static const double most_flops = 2e10;

const char *const bench_pass_names[BENCH_PASSES] = {"fwd", "bwd-data", "bwd-weights"};

static bool is_result(const bench_conv_work *w, int role) { return role == (int)bench_conv_result(w); }
static bool is_weight(int role) { return role == BENCH_W; }

static double flops_of(const bench_conv_work *w) {
  return 2.0 * (double)(w->n * w->out * w->oh * w->ow) * (double)(w->c / w->groups * w->kernel * w->kernel);
}

clade_status bench_conv_work_of(const bench_job *job, const bench_shape *shape, bench_pass pass, bench_conv_work *w) {
  const int64_t *v = shape->value;
  *w = (bench_conv_work){.pass = pass,
                         .n = job->batch ? job->batch : 1,
                         .c = v[CONV_C],
                         .h = v[CONV_H],
                         .w = v[CONV_W],
                         .out = v[CONV_OUT],
                         .kernel = v[CONV_KERNEL],
                         .stride = v[CONV_STRIDE],
                         .pad = v[CONV_PAD],
                         .groups = v[CONV_GROUPS]};
  if (w->c % w->groups || w->out % w->groups)
    return CLADE_FAIL(INVALID, "%s, line %d: %s: c=%lld and out=%lld are not divisible by groups=%lld", shape->source,
                      shape->line, shape->name, (long long)w->c, (long long)w->out, (long long)w->groups);
  if (w->h + 2 * w->pad < w->kernel || w->w + 2 * w->pad < w->kernel)
    return CLADE_FAIL(INVALID, "%s, line %d: %s: the kernel is larger than the padded image", shape->source,
                      shape->line, shape->name);
  w->oh = (w->h + 2 * w->pad - w->kernel) / w->stride + 1;
  w->ow = (w->w + 2 * w->pad - w->kernel) / w->stride + 1;
  w->shape[BENCH_X] = CLADE_SHAPE(w->n, w->c, w->h, w->w);
  w->shape[BENCH_W] = CLADE_SHAPE(w->out, w->c / w->groups, w->kernel, w->kernel);
  w->shape[BENCH_Y] = CLADE_SHAPE(w->n, w->out, w->oh, w->ow);
  size_t each = 0;
  for (int i = 0; i < BENCH_ROLES; i++) {
    int64_t elements;
    CLADE_TRY(clade_shape_elements(&w->shape[i], &elements));
    w->elements[i] = (size_t)elements;
    each += is_weight(i) && !is_result(w, i) ? 0 : w->elements[i];
  }
  double fits = floor((double)MOST_ELEMENTS / (double)each);
  w->chain = job->chain ? job->chain : (int64_t)CLADE_MIN(10.0, ceil(most_flops / flops_of(w)));
  w->chain = CLADE_MAX(CLADE_MIN(w->chain, (int64_t)fits), 1);
  return CLADE_OK;
}

/* Operands, and what they are in the job's type. */
static clade_status numbers(const bench_job *job, bench_conv_work *w, void *raw[BENCH_ROLES]) {
  double spread = sqrt(3.0 / (double)(w->c / w->groups * w->kernel * w->kernel));
  for (int i = 0; i < BENCH_ROLES; i++) {
    if (is_result(w, i)) continue;
    size_t n = w->elements[i] * (size_t)bench_conv_count(w, i);
    w->data[i] = clade__new(n, sizeof(float));
    raw[i] = clade__new(n, sizeof(float));
    if (!w->data[i] || !raw[i]) return CLADE_NO_MEMORY;
    bench_random(31 + (uint64_t)i, n, is_weight(i) ? spread : 1, w->data[i]);
    CLADE_TRY(bench_round(job->dtype, n, w->data[i], raw[i]));
  }
  return CLADE_OK;
}

static clade_status compete(bench_job *job, const bench_conv_data *d, bench_conv_data *own, bench_row *row,
                            bench_side *sides) {
  static const char *const names[] = {"onednn", "onednn_nchw"};
  int n = 1;
  CLADE_TRY(bench_conv_clade(job, d, &sides[0]));
  CLADE_TRY(bench_conv_row(&sides[0], d->work->pass, row));
  CLADE_TRY(bench_conv_own(job, d, &sides[0], own, &sides[1], row));
  n += *row->own.impl != 0;
  int partner = n - 1; /* of a peer in layouts of its own */
  for (int i = 0; i < 2; i++) {
    if (!bench_wants(job, names[i])) continue;
    const char *reason = bench_onednn_conv(job, d->work, i == 1, &sides[n]);
    if (reason) bench_missing(job, names[i], reason);
    sides[n].partner = i == 0 ? partner : 0;
    n += !reason;
  }
  for (int i = 0; i < n; i++) CLADE_TRY(bench_conv_check(job, d->work, &sides[i]));
  return bench_race(job, n, sides, row);
}

static clade_status measure(bench_job *job, bench_conv_work *w, bench_row *row) {
  bench_side sides[BENCH_MAX_SIDES] = {{0}};
  bench_conv_data data = {.work = w}, own = {0};
  clade_status status = numbers(job, w, data.raw);
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
  CLADE_TRY(clade_dtype_bytes(job->dtype, (int64_t)(w.elements[0] + w.elements[1] + w.elements[2]), &bytes));
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
      if (!job->pass || !strcmp(job->pass, bench_pass_names[pass])) status = one(job, &shapes.at[i], (bench_pass)pass);
  bench_shapes_free(&shapes);
  return status;
}

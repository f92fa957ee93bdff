/* clade bench op: memory-bound ops, taking turns with a copy of the same number of bytes. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/op.h"
#include "cli/bench/python.h"

enum { SAMPLES = 4000, ENDS = 64 };

/* Index of the i-th result to check: all results, or the first, the last and some between. */
static int64_t place_of(int64_t n, int64_t i) {
  if (n <= SAMPLES) return i;
  if (i < ENDS) return i;
  if (i < 2 * ENDS) return n - 1 - (i - ENDS);
  return (int64_t)((double)i * 0.6180339887498949 * (double)n) % n;
}

static clade_status check(const bench_job *job, const void *work, bench_side *side) {
  const bench_op_work *w = work;
  const int64_t n = (int64_t)w->results;
  (void)job;
  float *got = clade__new((size_t)n, sizeof *got);
  clade_status status = got ? side->call(side->state) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = side->read(side->state, 0, got);
  for (int64_t k = 0; k < CLADE_MIN(n, SAMPLES) && status == CLADE_OK; k++) {
    int64_t i = place_of(n, k);
    double want = w->op->want(w, i), stored = w->dtype == CLADE_F32 ? 0x1p-22 : 2 * bench_unit(w->dtype);
    if (!(fabs((double)got[i] - want) <= w->op->error + stored * (fabs(want) + 1)))
      status = CLADE_FAIL(INTERNAL, "%s: result %lld is %g where %g is right", side->name, (long long)i, (double)got[i],
                          want);
  }
  clade__free(got);
  return status;
}

static clade_status build(const void *work, bench_clade *c) {
  const bench_op_work *w = work;
  clade_type type;
  int64_t elements;
  clade_val result = bench_op_build(w, c);
  CLADE_TRY(clade_graph_status(c->graph));
  CLADE_TRY(clade_val_type(c->graph, result, &type));
  CLADE_TRY(clade_shape_elements(&type.shape, &elements));
  if (!c->assigned) clade_output(c->graph, "y0", result);
  c->out = (clade_type){.dtype = w->dtype};
  c->out_elements = (size_t)elements;
  return CLADE_OK;
}

static const char *pytorch(const bench_job *job, const void *work, const char *peer, bench_side *side) {
  const bench_op_work *w = work;
  const size_t bytes = (size_t)w->elements * sizeof(float), rows = (size_t)(w->n * w->c * w->h);
  bench_script script = {.files = {{"a", w->a, bytes}, {"b", w->b, bytes}, {"ids", w->ids, rows * sizeof *w->ids}},
                         .results = w->results};
  bench_script_work(&script, "op", w->shape->name, w->dtype, 1, "-", w->sizes);
  return bench_python(job, peer, &script, side);
}

static clade_status numbers(clade__arena *arena, bench_op_work *w) {
  const size_t n = (size_t)w->elements, rows = (size_t)(w->n * w->c * w->h);
  CLADE_TRY(bench_numbers(arena, 51, w->dtype, n, 1, &w->a, &w->raw_a));
  CLADE_TRY(bench_numbers(arena, 52, w->dtype, n, 1, &w->b, &w->raw_b));
  w->ids = clade__arena_new(arena, rows * sizeof *w->ids);
  w->mean = clade__arena_new(arena, 4 * (size_t)w->c * sizeof *w->mean);
  if (!w->ids || !w->mean) return CLADE_NO_MEMORY;
  w->scale = w->mean + w->c;
  w->slope = w->scale + w->c;
  w->slope_x = w->slope + w->c;
  for (size_t i = 0; i < rows; i++) w->ids[i] = (int32_t)((double)rows * (0.5 + 0.4999 * (double)w->b[i % n]));
  return CLADE_OK;
}

static clade_status work_of(const bench_job *job, const bench_shape *shape, bench_op_work *w) {
  const int64_t *v = shape->value;
  size_t length = strcspn(shape->name, "@");
  *w = (bench_op_work){
      .shape = shape, .n = v[0], .c = v[1], .h = v[2], .w = v[3], .dtype = job->dtype, .op = bench_op_table};
  clade_shape x = CLADE_SHAPE(w->n, w->c, w->h, w->w);
  while (w->op->name && (strncmp(w->op->name, shape->name, length) || w->op->name[length])) ++w->op;
  if (!w->op->name)
    return CLADE_FAIL(NOT_FOUND, "%s, line %d: there is no op '%s' to measure", shape->source, shape->line,
                      shape->name);
  CLADE_TRY(clade_shape_elements(&x, &w->elements));
  if (w->elements <= INT32_MAX) return CLADE_OK;
  return CLADE_FAIL(INVALID, "%s, line %d: %s: more than 2^31 elements", shape->source, shape->line, shape->name);
}

static clade_status accept(const bench_job *job, const bench_shape *shape) {
  bench_op_work w;
  return work_of(job, shape, &w);
}

static clade_status measure(bench_race *race, const bench_shape *shape, int pass) {
  const bench_job *job = race->job;
  bench_row *row = &race->row;
  bench_op_work w;
  size_t each, line;
  (void)pass;
  CLADE_TRY(work_of(job, shape, &w));
  CLADE_TRY(clade_dtype_bytes(w.dtype, w.elements, &each));
  CLADE_TRY(clade_dtype_bytes(w.dtype, w.w, &line));
  w.sizes = row->shape;
  row->bytes = w.op->moved * (double)each;
  const size_t bytes = (size_t)row->bytes;
  CLADE_TRY(numbers(&race->arena, &w));
  CLADE_TRY(bench_clade_side(job, build, &w, &race->sides[race->n++]));
  CLADE_TRY(bench_clade_row(&race->sides[0], w.op->node, row));
  w.results = ((const bench_clade *)race->sides[0].state)->out_elements;
  CLADE_TRY(bench_bound_side(job, BENCH_COPY, bytes, 0, &race->sides[race->n++]));
  if (w.op->bound != BENCH_COPY && (w.op->bound != BENCH_ROWS || line >= BENCH_LINE))
    CLADE_TRY(bench_bound_side(job, w.op->bound, bytes, line, &race->sides[race->n++]));
  bench_peers(race, pytorch, &w);
  CLADE_TRY(bench_check(race, check, &w));
  CLADE_TRY(bench_take_turns(race));
  row->bound = row->peer[0].seconds.median;
  return CLADE_OK;
}

const bench_group bench_ops = {.name = "op",
                               .keys = bench_op_keys,
                               .sets = bench_op_sets,
                               .quick = 1,
                               .peers = {"pytorch"},
                               .accept = accept,
                               .measure = measure};

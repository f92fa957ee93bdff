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

static clade_status check(bench_op_work *w, size_t elements, bench_side *side) {
  int64_t n = (int64_t)elements;
  float *got = clade__new(elements, sizeof *got);
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

static clade_status clade_side(const bench_job *job, const bench_op_work *w, bench_side *side) {
  clade_type type;
  int64_t elements = 0;
  bench_clade *c = clade__new(1, sizeof *c);
  if (!c) return CLADE_NO_MEMORY;
  clade_status status = clade_graph_new(&c->graph);
  if (status == CLADE_OK) {
    clade_val result = w->op->build(w, c);
    status = clade_val_type(c->graph, result, &type);
    if (status == CLADE_OK) status = clade_shape_elements(&type.shape, &elements);
    if (status == CLADE_OK && !c->assigned) clade_output(c->graph, "y0", result);
    if (clade_graph_status(c->graph)) status = CLADE_OK; /* the compilation reports the error */
  }
  c->out = (clade_type){.dtype = w->dtype};
  c->out_elements = (size_t)elements;
  clade_status made = bench_clade_side(job, c, side);
  return status == CLADE_OK ? made : status;
}

static const char *pytorch(const bench_job *job, const bench_op_work *w, const bench_row *row, size_t results,
                           bench_side *side) {
  size_t bytes = (size_t)w->elements * sizeof(float), rows = (size_t)(w->n * w->c * w->h);
  bench_script script = {.files = {{"a", w->a, bytes}, {"b", w->b, bytes}, {"ids", w->ids, rows * sizeof *w->ids}},
                         .results = results};
  bench_script_work(&script, "op", row->work, w->dtype, 1, "-", row->shape);
  return bench_python(job, "pytorch", &script, side);
}

static clade_status compete(bench_job *job, bench_op_work *w, bench_row *row, bench_side *sides, int *n) {
  size_t line, results;
  *n = 1;
  CLADE_TRY(clade_side(job, w, &sides[0]));
  CLADE_TRY(bench_clade_row(sides[0].state, w->op->node, row));
  results = ((bench_clade *)sides[0].state)->out_elements;
  CLADE_TRY(check(w, results, &sides[0]));
  ++*n;
  CLADE_TRY(bench_bound_side(job, BENCH_COPY, (size_t)row->bytes, 0, &sides[1]));
  CLADE_TRY(clade_dtype_bytes(w->dtype, w->w, &line));
  if (w->op->bound != BENCH_COPY && (w->op->bound != BENCH_ROWS || line >= BENCH_LINE)) {
    ++*n;
    CLADE_TRY(bench_bound_side(job, w->op->bound, (size_t)row->bytes, line, &sides[2]));
  }
  if (bench_wants(job, "pytorch")) {
    const char *reason = pytorch(job, w, row, results, &sides[*n]);
    clade_status status = reason ? CLADE_OK : check(w, results, &sides[*n]);
    if (reason) bench_missing(job, "pytorch", reason);
    *n += !reason;
    if (!reason && !bench_goes_on(job, &sides[*n - 1], status)) return status;
  }
  CLADE_TRY(bench_race(job, *n, sides, row));
  row->bound = row->peer[0].seconds.median;
  return CLADE_OK;
}

static clade_status numbers(bench_op_work *w) {
  size_t n = (size_t)w->elements, rows = (size_t)(w->n * w->c * w->h);
  w->a = clade__new(n, sizeof *w->a);
  w->b = clade__new(n, sizeof *w->b);
  w->raw_a = clade__new(n, sizeof(float));
  w->raw_b = clade__new(n, sizeof(float));
  w->ids = clade__new(rows, sizeof *w->ids);
  w->mean = clade__new(4 * (size_t)w->c, sizeof *w->mean);
  if (!w->a || !w->b || !w->raw_a || !w->raw_b || !w->ids || !w->mean) return CLADE_NO_MEMORY;
  w->scale = w->mean + w->c;
  w->slope = w->scale + w->c;
  w->slope_x = w->slope + w->c;
  bench_random(51, n, 1, w->a);
  bench_random(52, n, 1, w->b);
  for (size_t i = 0; i < rows; i++) w->ids[i] = (int32_t)((double)rows * (0.5 + 0.4999 * (double)w->b[i % n]));
  CLADE_TRY(bench_round(w->dtype, n, w->a, w->raw_a));
  return bench_round(w->dtype, n, w->b, w->raw_b);
}

static clade_status measure(bench_job *job, bench_op_work *w, bench_row *row) {
  bench_side sides[4] = {{0}};
  int n = 0;
  clade_status status = numbers(w);
  if (status == CLADE_OK) status = compete(job, w, row, sides, &n);
  bench_sides_free(n, sides);
  clade__free(w->a);
  clade__free(w->b);
  clade__free(w->raw_a);
  clade__free(w->raw_b);
  clade__free(w->ids);
  clade__free(w->mean);
  return status;
}

static clade_status work_of(const bench_job *job, const bench_shape *shape, bench_op_work *w) {
  const int64_t *v = shape->value;
  size_t length = strcspn(shape->name, "@");
  *w = (bench_op_work){.n = v[0], .c = v[1], .h = v[2], .w = v[3], .dtype = job->dtype, .op = bench_op_table};
  clade_shape x = CLADE_SHAPE(w->n, w->c, w->h, w->w);
  while (w->op->name && (strncmp(w->op->name, shape->name, length) || w->op->name[length])) ++w->op;
  if (!w->op->name)
    return CLADE_FAIL(NOT_FOUND, "%s, line %d: there is no op '%s' to measure", shape->source, shape->line,
                      shape->name);
  CLADE_TRY(clade_shape_elements(&x, &w->elements));
  if (w->elements <= INT32_MAX) return CLADE_OK;
  return CLADE_FAIL(INVALID, "%s, line %d: %s: more than 2^31 elements", shape->source, shape->line, shape->name);
}

static clade_status one(bench_job *job, const bench_shape *shape) {
  bench_op_work w;
  bench_row row = {.group = "op", .chain = 1};
  size_t bytes;
  CLADE_TRY(work_of(job, shape, &w));
  CLADE_TRY(clade_dtype_bytes(job->dtype, w.elements, &bytes));
  snprintf(row.work, sizeof row.work, "%s", shape->name);
  snprintf(row.dtype, sizeof row.dtype, "%s", clade_dtype_name(job->dtype));
  snprintf(row.pass, sizeof row.pass, "forward");
  bench_shape_text(shape, bench_op_keys, row.shape, sizeof row.shape);
  row.bytes = w.op->moved * (double)bytes;
  clade_status status = measure(job, &w, &row);
  if (status == CLADE_OK) return bench_row_add(job, &row);
  clade__free(row.why);
  return clade__fail_in(status, "op %s", shape->name);
}

clade_status bench_ops(bench_job *job) {
  static const bench_set sets[] = {{"64mib", bench_op_lines}, {0}};
  bench_shapes shapes = {0};
  clade_status status = bench_shapes_of(job, "64mib", bench_op_keys, sets, &shapes);
  bench_op_work work;
  for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++) status = work_of(job, &shapes.at[i], &work);
  if (status == CLADE_OK) status = bench_ready(job);
  for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++) status = one(job, &shapes.at[i]);
  bench_shapes_free(&shapes);
  return status;
}

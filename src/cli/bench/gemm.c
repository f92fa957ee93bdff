/* clade bench gemm: matrix products, single or in chains, compared with other libraries. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/gemm.h"
#include "cli/bench/python.h"

enum { MOST_ELEMENTS = 1 << 28 }; /* limit of all operands and results of a chain */

static clade_status numbers(bench_gemm_work *w) {
  w->a = clade__new((size_t)w->n_a * w->a_elements, sizeof *w->a);
  w->b = clade__new((size_t)w->n_b * w->b_elements, sizeof *w->b);
  if (!w->a || !w->b) return CLADE_NO_MEMORY;
  size_t a = (size_t)w->n_a * w->a_elements, b = (size_t)w->n_b * w->b_elements;
  if (w->b_type == CLADE_I8) {
    bench_random_bytes(11, a, w->a_type, w->a);
    bench_random_bytes(12, b, w->b_type, w->b);
  } else {
    bench_random(11, a, 1, w->a);
    bench_random(12, b, sqrt(3 / (double)w->k), w->b);
  }
  return CLADE_OK;
}

/* Without --chain, `squares` and --shapes use single calls; the other sets use chains of ten, as a network does. */
void bench_gemm_work_of(const bench_job *job, const bench_shape *shape, bench_gemm_work *w) {
  const int64_t *v = shape->value;
  const bool blocks = clade__has_blocks(job->dtype); /* block types hold weights, whose blocks lie along K */
  int64_t chain = job->chain ? job->chain : job->set && strcmp(job->set, "squares") ? 10 : 1;
  *w = (bench_gemm_work){.m = v[GEMM_M],
                         .n = v[GEMM_N],
                         .k = v[GEMM_K],
                         .batch = v[GEMM_BATCH],
                         .trans_a = v[GEMM_TRANS_A],
                         .trans_b = v[GEMM_TRANS_B] || blocks,
                         .frozen_a = v[GEMM_FROZEN_A],
                         .frozen_b = v[GEMM_FROZEN_B],
                         .a_type = blocks ? CLADE_F32 : job->dtype,
                         .b_type = job->dtype == CLADE_U8 ? CLADE_I8 : job->dtype,
                         .c_type = blocks ? CLADE_F32 : clade__dtype_row(job->dtype)->product};
  w->a_elements = (size_t)(w->batch * w->m * w->k);
  w->b_elements = (size_t)(w->batch * w->k * w->n);
  w->c_elements = (size_t)(w->batch * w->m * w->n);
  size_t each = w->c_elements + (w->frozen_a ? 0 : w->a_elements) + (w->frozen_b ? 0 : w->b_elements);
  w->chain = CLADE_MAX(CLADE_MIN(chain, (int64_t)(MOST_ELEMENTS / CLADE_MAX(each, (size_t)1))), 1);
  w->linked = w->chain > 1 && w->c_type == w->a_type && w->n == w->k && !w->trans_a && !w->frozen_a;
  w->n_a = w->linked || w->frozen_a ? 1 : (int)w->chain;
  w->n_b = w->frozen_b ? 1 : (int)w->chain;
}

static clade_val operand(clade_dtype type, bench_clade *c, const char *name, int i, clade_shape shape, const char *raw,
                         bool frozen) {
  char text[24];
  snprintf(text, sizeof text, "%s%d", name, i);
  return bench_variable(c, text, type, shape, raw, frozen || clade__has_blocks(type) ? BENCH_WEIGHT : BENCH_FRESH);
}

static clade_status build(const bench_gemm_work *w, const char *raw_a, const char *raw_b, bench_clade *c) {
  const clade_shape a = bench_gemm_a(w), b = bench_gemm_b(w);
  size_t a_bytes, b_bytes;
  clade_val x = {0}, y = {0}, z = {0};
  char name[24];
  CLADE_TRY(clade_graph_new(&c->graph));
  CLADE_TRY(clade_dtype_bytes(w->a_type, (int64_t)w->a_elements, &a_bytes));
  CLADE_TRY(clade_dtype_bytes(w->b_type, (int64_t)w->b_elements, &b_bytes));
  for (int i = 0; i < (int)w->chain; i++) {
    if (i < w->n_a) x = operand(w->a_type, c, "a", i, a, raw_a + (size_t)i * a_bytes, w->frozen_a);
    if (i < w->n_b) y = operand(w->b_type, c, "b", i, b, raw_b + (size_t)i * b_bytes, w->frozen_b);
    z = clade_gemm(c->graph, x, y, .trans_a = w->trans_a, .trans_b = w->trans_b);
    if (w->linked) x = z;
    snprintf(name, sizeof name, "y%d", w->linked ? 0 : i);
    if (!w->linked || i + 1 == (int)w->chain) clade_output(c->graph, name, z);
  }
  return CLADE_OK;
}

static clade_status clade_side(const bench_job *job, const bench_gemm_work *w, const char *raw_a, const char *raw_b,
                               bench_side *side) {
  bench_clade *c = clade__new(1, sizeof *c);
  if (!c) return CLADE_NO_MEMORY;
  c->out = (clade_type){.dtype = w->c_type};
  c->out_elements = w->c_elements;
  clade_status status = build(w, raw_a, raw_b, c);
  clade_status made = bench_clade_side(job, c, side); /* reports the error of a graph that could not be built */
  return status == CLADE_OK ? made : status;
}

static const char *pytorch(const bench_job *job, const bench_gemm_work *w, bench_side *side) {
  bench_script script = {.files = {{"a", w->a, (size_t)w->n_a * w->a_elements * sizeof *w->a},
                                   {"b", w->b, (size_t)w->n_b * w->b_elements * sizeof *w->b}},
                         .results = w->c_elements};
  char shape[200];
  snprintf(shape, sizeof shape,
           "m=%lld n=%lld k=%lld batch=%lld trans_a=%d trans_b=%d frozen_a=%d frozen_b=%d linked=%d", (long long)w->m,
           (long long)w->n, (long long)w->k, (long long)w->batch, w->trans_a, w->trans_b, w->frozen_a, w->frozen_b,
           w->linked);
  bench_script_work(&script, "gemm", "-", w->a_type, w->chain, "-", shape);
  return bench_python(job, "pytorch", &script, side);
}

static const struct {
  const char *name;
  const char *(*join)(const bench_job *job, const bench_gemm_work *work, bench_side *side);
} peers[] = {
    {"openblas", bench_openblas}, {"clblast", bench_clblast}, {"onednn", bench_onednn_gemm}, {"pytorch", pytorch}};

static clade_status compete(bench_job *job, const bench_gemm_work *w, const char *raw_a, const char *raw_b,
                            bench_row *row, bench_side *sides, int *n) {
  *n = 1;
  CLADE_TRY(clade_side(job, w, raw_a, raw_b, &sides[0]));
  CLADE_TRY(bench_clade_row(sides[0].state, "gemm", row));
  for (size_t i = 0; i < CLADE_COUNT(peers); i++) {
    if (!bench_wants(job, peers[i].name)) continue;
    const char *reason =
        clade__has_blocks(job->dtype) ? "it is not asked for weights in blocks" : peers[i].join(job, w, &sides[*n]);
    if (reason) bench_missing(job, peers[i].name, reason);
    *n += !reason;
  }
  for (int i = 0; i < *n; i++) {
    clade_status status = bench_gemm_check(job, w, &sides[i]);
    if (!bench_goes_on(job, &sides[i], status)) return status;
  }
  return bench_race(job, *n, sides, row);
}

static clade_status measure(bench_job *job, const bench_gemm_work *w, bench_row *row) {
  bench_side sides[BENCH_MAX_SIDES] = {{0}};
  int n = 0;
  char *raw_a = clade__new((size_t)w->n_a * w->a_elements, 4), *raw_b = clade__new((size_t)w->n_b * w->b_elements, 4);
  clade_status status = raw_a && raw_b ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = bench_round(w->a_type, (size_t)w->n_a * w->a_elements, w->a, raw_a);
  if (status == CLADE_OK) status = bench_round(w->b_type, (size_t)w->n_b * w->b_elements, w->b, raw_b);
  if (status == CLADE_OK) status = compete(job, w, raw_a, raw_b, row, sides, &n);
  bench_sides_free(n, sides);
  clade__free(raw_a);
  clade__free(raw_b);
  return status;
}

static clade_status one(bench_job *job, const bench_shape *shape) {
  bench_gemm_work w;
  bench_row row = {.group = "gemm", .pass = "forward"};
  size_t bytes = 0, of_b = 0, of_c = 0;
  bench_gemm_work_of(job, shape, &w);
  CLADE_TRY(clade_dtype_bytes(w.a_type, (int64_t)w.a_elements, &bytes));
  CLADE_TRY(clade_dtype_bytes(w.b_type, (int64_t)w.b_elements, &of_b));
  CLADE_TRY(clade_dtype_bytes(w.c_type, (int64_t)w.c_elements, &of_c));
  snprintf(row.work, sizeof row.work, "%s", shape->name);
  bench_shape_text(shape, bench_gemm_keys, row.shape, sizeof row.shape);
  snprintf(row.dtype, sizeof row.dtype, "%s", clade_dtype_name(job->dtype));
  row.chain = (int)w.chain;
  row.flops = 2.0 * (double)w.batch * (double)w.m * (double)w.n * (double)w.k;
  row.bytes = (double)bytes + (double)of_b + (double)of_c;
  clade_status status = numbers(&w);
  if (status == CLADE_OK) status = measure(job, &w, &row);
  clade__free(w.a);
  clade__free(w.b);
  if (status == CLADE_OK) return bench_row_add(job, &row);
  clade__free(row.why);
  return clade__fail_in(status, "gemm %s", shape->name);
}

clade_status bench_gemm(bench_job *job) {
  bench_shapes shapes = {0};
  clade_status status = bench_shapes_of(job, "squares", bench_gemm_keys, bench_gemm_sets, &shapes);
  if (status == CLADE_OK) status = bench_ready(job);
  for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++) status = one(job, &shapes.at[i]);
  bench_shapes_free(&shapes);
  return status;
}

/* clade bench gemm: matrix products, single or in chains, compared with other libraries. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/gemm.h"
#include "cli/bench/python.h"

enum { MOST_ELEMENTS = 1 << 28 }; /* limit of all operands and results of a chain */

/* Without --chain, `squares` and --shapes use single calls; the other sets use chains of ten, as a network does. */
void bench_gemm_work_of(const bench_job *job, const bench_shape *shape, bench_gemm_work *w) {
  const int64_t *v = shape->value;
  const bool blocks = clade__has_blocks(job->dtype); /* block types hold weights, whose blocks lie along K */
  int64_t chain = job->chain ? job->chain : job->set && strcmp(job->set, "squares") ? 10 : 1;
  *w = (bench_gemm_work){
      .m = v[GEMM_M],
      .n = v[GEMM_N],
      .k = v[GEMM_K],
      .batch = v[GEMM_BATCH],
      .trans = {v[GEMM_TRANS_A], v[GEMM_TRANS_B] || blocks},
      .frozen = {v[GEMM_FROZEN_A], v[GEMM_FROZEN_B]},
      .type = {blocks ? CLADE_F32 : job->dtype, job->dtype == CLADE_U8 ? CLADE_I8 : job->dtype,
               blocks ? CLADE_F32 : clade__dtype_row(job->dtype)->product},
  };
  w->elements[BENCH_A] = (size_t)(w->batch * w->m * w->k);
  w->elements[BENCH_B] = (size_t)(w->batch * w->k * w->n);
  w->elements[BENCH_C] = (size_t)(w->batch * w->m * w->n);
  size_t each = 0;
  for (int i = 0; i < BENCH_OPERANDS; i++) each += w->frozen[i] ? 0 : w->elements[i];
  w->chain = CLADE_MAX(CLADE_MIN(chain, (int64_t)(MOST_ELEMENTS / CLADE_MAX(each, (size_t)1))), 1);
  w->linked =
      w->chain > 1 && w->type[BENCH_C] == w->type[BENCH_A] && w->n == w->k && !w->trans[BENCH_A] && !w->frozen[BENCH_A];
  for (int i = 0; i < BENCH_OPERANDS; i++) w->count[i] = w->frozen[i] || (i == BENCH_A && w->linked) ? 1 : w->chain;
}

static clade_val operand(const bench_gemm_work *w, bench_clade *c, int role, int64_t call) {
  char name[24];
  size_t bytes;
  if (clade_dtype_bytes(w->type[role], (int64_t)w->elements[role], &bytes)) return (clade_val){0};
  snprintf(name, sizeof name, "%c%d", "ab"[role], (int)call);
  return bench_variable(c, name, w->type[role], bench_gemm_shape(w, role), (char *)w->raw[role] + (size_t)call * bytes,
                        w->frozen[role] || clade__has_blocks(w->type[role]) ? BENCH_WEIGHT : BENCH_FRESH);
}

static clade_status build(const void *work, bench_clade *c) {
  const bench_gemm_work *w = work;
  clade_val x = {0}, y = {0};
  char name[24];
  c->out = (clade_type){.dtype = w->type[BENCH_C]};
  c->out_elements = w->elements[BENCH_C];
  for (int64_t i = 0; i < w->chain; i++) {
    if (i < w->count[BENCH_A]) x = operand(w, c, BENCH_A, i);
    if (i < w->count[BENCH_B]) y = operand(w, c, BENCH_B, i);
    clade_val z = clade_gemm(c->graph, x, y, .trans_a = w->trans[BENCH_A], .trans_b = w->trans[BENCH_B]);
    if (w->linked) x = z;
    snprintf(name, sizeof name, "y%d", w->linked ? 0 : (int)i);
    if (!w->linked || i + 1 == w->chain) clade_output(c->graph, name, z);
  }
  return CLADE_OK;
}

static const char *pytorch(const bench_job *job, const bench_gemm_work *w, bench_side *side) {
  bench_script script = {.results = w->elements[BENCH_C]};
  char shape[200];
  for (int i = BENCH_A; i <= BENCH_B; i++) {
    const size_t bytes = (size_t)w->count[i] * w->elements[i] * sizeof(float);
    bench_script_file(&script, i == BENCH_A ? "a" : "b", w->data[i], bytes);
  }
  snprintf(shape, sizeof shape,
           "m=%lld n=%lld k=%lld batch=%lld trans_a=%d trans_b=%d frozen_a=%d frozen_b=%d linked=%d", (long long)w->m,
           (long long)w->n, (long long)w->k, (long long)w->batch, w->trans[BENCH_A], w->trans[BENCH_B],
           w->frozen[BENCH_A], w->frozen[BENCH_B], w->linked);
  bench_script_work(&script, "gemm", "-", w->type[BENCH_A], w->chain, "-", shape);
  return bench_python(job, "pytorch", &script, side);
}

static const char *join(const bench_job *job, const void *work, const char *peer, bench_side *side) {
  static const struct {
    const char *name;
    const char *(*join)(const bench_job *job, const bench_gemm_work *work, bench_side *side);
  } all[] = {
      {"openblas", bench_openblas}, {"clblast", bench_clblast}, {"onednn", bench_onednn_gemm}, {"pytorch", pytorch}};
  int i = 0;
  if (clade__has_blocks(job->dtype)) return "it is not asked for weights in blocks";
  while (strcmp(all[i].name, peer)) i++;
  return all[i].join(job, work, side);
}

static clade_status measure(bench_race *race, const bench_shape *shape, int pass) {
  bench_gemm_work w;
  (void)pass;
  bench_gemm_work_of(race->job, shape, &w);
  for (int i = 0; i < BENCH_OPERANDS; i++) {
    size_t bytes;
    CLADE_TRY(clade_dtype_bytes(w.type[i], (int64_t)w.elements[i], &bytes));
    race->row.bytes += (double)bytes;
  }
  race->row.chain = (int)w.chain;
  race->row.flops = 2.0 * (double)w.batch * (double)w.m * (double)w.n * (double)w.k;
  for (int i = BENCH_A; i <= BENCH_B; i++)
    CLADE_TRY(bench_numbers(&race->arena, 11 + (uint64_t)i, w.type[i], (size_t)w.count[i] * w.elements[i],
                            i == BENCH_A ? 1 : sqrt(3 / (double)w.k), &w.data[i], &w.raw[i]));
  CLADE_TRY(bench_clade_side(race->job, build, &w, &race->sides[race->n++]));
  CLADE_TRY(bench_clade_row(&race->sides[0], "gemm", &race->row));
  bench_peers(race, join, &w);
  CLADE_TRY(bench_check(race, bench_gemm_check, &w));
  return bench_take_turns(race);
}

const bench_group bench_gemm = {.name = "gemm",
                                .keys = bench_gemm_keys,
                                .sets = bench_gemm_sets,
                                .quick = 3,
                                .peers = {"openblas", "clblast", "onednn", "pytorch"},
                                .chain = true,
                                .measure = measure};

/* Measures the limits of a device: multiply-adds in registers, copies and reads. The kernels belong to custom ops
 * that use the public interface. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/bench/bench.h"
#include "program/measure.h"

static const char bounds_source[] =
    "#if defined WANT_bench_rows || defined WANT_bench_spread\n"
    "#if STREAM && defined(__has_builtin)\n"
    "#if __has_builtin(__builtin_nontemporal_store)\n"
    "#define PUT(v, p) __builtin_nontemporal_store(v, (__global float16 *)(p))\n"
    "#endif\n"
    "#endif\n"
    "#ifndef PUT\n"
    "#define PUT(v, p) vstore16(v, 0, p)\n"
    "#endif\n"
    "#endif\n"
    "#ifdef WANT_bench_rows\n"
    "static inline index_t FN(place)(index_t row, index_t rows) {\n"
    "  uint h = (uint)row * 2654435761u;\n"
    "  h = (h ^ h >> 15) * 2246822519u;\n"
    "  return (index_t)((h ^ h >> 13) % (uint)rows);\n"
    "}\n"
    "KERNEL(bench_rows)\n"
    "(ARG(const float, x), ARG(float, y), const index_t rows, const index_t each, const index_t width) {\n"
    "  USE(const float, x);\n"
    "  USE(float, y);\n"
    "  const index_t begin = (index_t)get_global_id(0) * each, end = min(begin + each, rows);\n"
    "  const index_t later = max(AHEAD / 32 / max(width, (index_t)1), (index_t)1);\n"
    "  for (index_t row = begin; row < end; row++) {\n"
    "    const index_t from = FN(place)(row, rows) * width, next = FN(place)(row + later, rows) * width;\n"
    "    for (index_t i = 0; i < width; i++) {\n"
    "      SOON(x + (next + i) * 16);\n"
    "      PUT(vload16(from + i, x), y + (row * width + i) * 16);\n"
    "    }\n"
    "  }\n"
    "}\n"
    "#endif\n"
    "#ifdef WANT_bench_spread\n"
    "KERNEL(bench_spread)(ARG(const float, x), ARG(float, y), const index_t n, const index_t each) {\n"
    "  USE(const float, x);\n"
    "  USE(float, y);\n"
    "  const index_t begin = (index_t)get_global_id(0) * each, end = min(begin + each, n);\n"
    "  for (index_t i = begin; i < end; i++) {\n"
    "    const float16 v = vload16(i, x);\n"
    "    SOON(x + i * 16 + AHEAD);\n"
    "    for (int k = 0; k < TIMES; k++) PUT(v, y + (i * TIMES + k) * 16);\n"
    "  }\n"
    "}\n"
    "#endif\n"
    "#undef PUT\n"
    "#ifdef WANT_bench_read\n" /* contiguous, with prefetch */
    "KERNEL(bench_read)(ARG(const float, x), ARG(float, y), const index_t n, const index_t each) {\n"
    "  USE(const float, x);\n"
    "  USE(float, y);\n"
    "  const index_t begin = (index_t)get_global_id(0) * each * 16, end = min(begin + each * 16, n * 16);\n"
    "  float16 a = 0;\n"
    "  for (index_t turn = 0; turn < end - begin; turn += 16) {\n"
    "    const index_t i = begin + (index_t)clade_in_turn(turn, end - begin, TURNS);\n"
    "    SOON(x + i + AHEAD / TURNS);\n"
    "    a += vload16(0, x + i);\n"
    "  }\n"
    "  if (begin < end) vstore16(a, 0, y + begin);\n"
    "}\n"
    "#endif\n";

enum { COPY_STEP, COPY_KERNEL, COPY_STREAM, COPY_TURNS, COPIES };
enum { CHAINS = CLADE__MEASURE_CHAINS, GROUP = CLADE__MEASURE_GROUP, SAMPLES = 7, COPY_BYTES = 64 << 20 };
static const float scale = 0.5f, add = 1; /* every chain converges to 2 */

static clade_status same(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static bool on_cpu(const clade_device_info *device) { return device->device_class == CLADE_CPU; }

/* An op of one operand and one result; WHAT_attrs, WHAT_table and WHAT_impls are its attributes and implementation. */
#define PROBE(called, what, rule, text)                                                                             \
  {                                                                                                                 \
    .size = sizeof(clade_op), .name = called, .min_in = 1, .max_in = 1, .n_out = 1,                                 \
    .attr_bytes = sizeof(what##_attrs), .attrs = what##_table, .infer = rule, .impls = what##_impls, .source = text \
  }

/* ---- multiply-adds ---- */
typedef struct rounds_attrs {
  int32_t rounds;
} rounds_attrs;
static const clade_attr rounds_table[] = {{"rounds", CLADE_ATTR_I32, offsetof(rounds_attrs, rounds), 1}, {0}};

static clade_status emit_fma(clade_emit *e, const clade_query *q) {
  char type[16];
  int width = clade__measure_width(q->device);
  if (width == 1)
    snprintf(type, sizeof type, "float");
  else
    snprintf(type, sizeof type, "float%d", width);
  clade_kernel_step *s = clade_emit_kernel(e, "measure_fma");
  clade_emit_define_text(s, "V", type);
  clade_emit_define(s, "FLOATS", width);
  clade_emit_define(s, "FUSED", 1);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_f32(s, scale);
  clade_emit_f32(s, add);
  clade_emit_i32(s, ((const rounds_attrs *)q->node->attrs)->rounds);
  clade_emit_range(s, 1, (size_t[]){(size_t)clade__measure_items(q->device)},
                   (size_t[]){on_cpu(q->device) ? 1 : GROUP});
  return CLADE_OK;
}
static const clade_impl *const rounds_impls[] = {CLADE_IMPL(.name = "ref", .emit = emit_fma), NULL};
static const clade_op fma_op = PROBE("bench.fma", rounds, same, clade__measure_source);

/* ---- copies ---- */
typedef struct copy_attrs {
  int32_t by;
  int32_t width; /* row length in vectors of 16, for rows at random places; 0: contiguous */
  int32_t times; /* how often each vector is written; 0: read only */
} copy_attrs;
static const clade_attr copy_table[] = {{"by", CLADE_ATTR_I32, offsetof(copy_attrs, by), 1},
                                        {"width", CLADE_ATTR_I32, offsetof(copy_attrs, width), 1},
                                        {"times", CLADE_ATTR_I32, offsetof(copy_attrs, times), 1},
                                        {0}};

static clade_status infer_copy(clade_node *n) {
  n->out[0] = n->in[0];
  n->out[0].shape.dim[0] *= CLADE_MAX(((const copy_attrs *)n->attrs)->times, 1);
  return CLADE_OK;
}

static clade_status emit_copy(clade_emit *e, const clade_query *q) {
  const copy_attrs *a = q->node->attrs;
  int32_t by = a->by, width = a->width, times = a->times;
  if (by == COPY_STEP && !width && times == 1) {
    clade_emit_copy(e, 0, 0);
    return CLADE_OK;
  }
  int64_t n = q->node->in[0].shape.dim[0] / 16 / CLADE_MAX(width, 1), each = clade__measure_share(q->device, n);
  clade_kernel_step *s = clade_emit_kernel(e, times == 0  ? "bench_read"
                                              : times > 1 ? "bench_spread"
                                              : width     ? "bench_rows"
                                                          : "measure_copy");
  if (times) clade_emit_define(s, "STREAM", by >= COPY_STREAM);
  if (times <= 1 && !width) clade_emit_define(s, "TURNS", by == COPY_TURNS ? 4 : 1);
  if (times > 1) clade_emit_define(s, "TIMES", times);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_index(s, each);
  if (width) clade_emit_index(s, width);
  clade_emit_range(s, 1, (size_t[]){(size_t)((n + each - 1) / each)}, (size_t[]){on_cpu(q->device) ? 1 : GROUP});
  return CLADE_OK;
}
static const clade_impl *const copy_impls[] = {CLADE_IMPL(.name = "ref", .emit = emit_copy), NULL};
static const clade_op copy_op = PROBE("bench.copy", copy, infer_copy, clade__measure_source);
/* Reads, spreads, and copies of rows at random places. */
static const clade_op bound_op = PROBE("bench.bound", copy, infer_copy, bounds_source);

/* ---- a probe: a graph of one node from x to y0, called a few times ---- */
typedef struct probe {
  const clade_op *op;
  const void *attrs;
  size_t elements;
  float *x, *y;
  double seconds[SAMPLES];
} probe;

static clade_status build(const void *work, bench_clade *c) {
  const probe *p = work;
  c->out = (clade_type){.dtype = CLADE_F32};
  c->out_elements = p->elements;
  clade_val x = bench_variable(c, "x", CLADE_F32, CLADE_SHAPE((int64_t)p->elements), p->x, BENCH_OPERAND);
  clade_output(c->graph, "y0", clade_node_add(c->graph, p->op, NULL, p->attrs, 1, &x, NULL));
  return CLADE_OK;
}

static clade_status sample(const bench_job *job, probe *p, bench_side *side) {
  CLADE_TRY(bench_clade_side(job, build, p, side));
  for (int i = -1; i < SAMPLES; i++) {
    double start = clade__now();
    CLADE_TRY(side->call(side->state));
    if (i >= 0) p->seconds[i] = clade__now() - start;
  }
  return side->read(side->state, 0, p->y);
}

static clade_status run_probe(const bench_job *job, probe *p) {
  bench_side side = {0};
  clade_status status = sample(job, p, &side);
  bench_sides_free(1, &side);
  return status;
}

static clade_status probe_new(probe *p, const clade_op *op, const void *attrs, size_t elements) {
  *p = (probe){.op = op, .attrs = attrs, .elements = elements};
  p->x = clade__new(elements, sizeof *p->x);
  p->y = clade__new(elements, sizeof *p->y);
  if (!p->x || !p->y) return CLADE_NO_MEMORY;
  bench_random(1, elements, 1, p->x);
  return CLADE_OK;
}
static void probe_free(probe *p) {
  clade__free(p->x);
  clade__free(p->y);
}

/* Uses the fastest of a few calls: a peak is an upper limit. */
static clade_status fma_peak(const bench_job *job, probe *p, rounds_attrs *attrs, double *peak) {
  double flops = 2.0 * CHAINS * (double)p->elements;
  int32_t most = job->info.max_passes ? (int32_t)job->info.max_passes / 2 : 1 << 26;
  for (attrs->rounds = CLADE_MIN(1 << 14, most);; attrs->rounds = CLADE_MIN(attrs->rounds * 4, most)) {
    CLADE_TRY(run_probe(job, p));
    bench_stat s = bench_stat_of(SAMPLES, p->seconds);
    *peak = flops * attrs->rounds / s.min;
    if (s.median >= 0.02 || attrs->rounds >= most) break;
  }
  for (size_t i = 0; i < p->elements; i++)
    if (!(fabs((double)p->y[i] - 2.0 * CHAINS) < 1e-3))
      return CLADE_FAIL(INTERNAL, "the probe of multiply-adds gave %g instead of %d; `clade doctor` checks the device",
                        (double)p->y[i], 2 * CHAINS);
  return CLADE_OK;
}

static clade_status copy_speed(bench_job *job, probe *p, copy_attrs *attrs) {
  static const char *const names[COPIES] = {"a copy step", "a kernel", "a kernel with streaming stores",
                                            "a kernel with streaming stores, four parts by turns"};
  for (attrs->by = 0; attrs->by < COPIES; attrs->by++) {
    CLADE_TRY(run_probe(job, p));
    if (memcmp(p->x, p->y, p->elements * sizeof *p->x))
      return CLADE_FAIL(INTERNAL, "a copy of 64 MiB by %s is not like its source", names[attrs->by]);
    double speed = 2.0 * (double)(p->elements * sizeof *p->x) / bench_stat_of(SAMPLES, p->seconds).median;
    if (speed <= job->copy_bytes) continue;
    job->copy_bytes = speed;
    job->copy = attrs->by;
    job->copy_by = names[attrs->by];
  }
  return CLADE_OK;
}

clade_status bench_probe(bench_job *job) {
  rounds_attrs rounds = {0};
  copy_attrs by;
  probe p;
  memset(&by, 0, sizeof by);
  by.times = 1;
  clade_status status =
      probe_new(&p, &fma_op, &rounds, (size_t)(clade__measure_items(&job->info) * clade__measure_width(&job->info)));
  if (status == CLADE_OK) status = fma_peak(job, &p, &rounds, &job->peak_flops);
  probe_free(&p);
  CLADE_TRY(status);
  status = probe_new(&p, &copy_op, &by, COPY_BYTES / sizeof(float));
  if (status == CLADE_OK) status = copy_speed(job, &p, &by);
  probe_free(&p);
  return status;
}

clade_status bench_bound_side(const bench_job *job, bench_bound kind, size_t bytes, size_t line, bench_side *side) {
  static const struct {
    const char *name, *kernel;
    int32_t times;
  } bounds[] = {[BENCH_COPY] = {"copy", NULL, 1},
                [BENCH_ROWS] = {"rows", "a kernel, rows at random", 1},
                [BENCH_READ] = {"read", "a kernel that only reads", 0},
                [BENCH_SPREAD] = {"spread", "a kernel that writes what it reads four times", 4}};
  copy_attrs attrs;
  probe p;
  memset(&attrs, 0, sizeof attrs); /* padding included: attributes are compared and hashed by their bytes */
  attrs.by = job->copy;
  attrs.width = kind == BENCH_ROWS ? (int32_t)(line / BENCH_LINE) : 0;
  attrs.times = bounds[kind].times;
  size_t elements = bytes / (size_t)(1 + attrs.times) / sizeof(float);
  /* Random contents: pages that were never written are all mapped to one page of zeros. */
  clade_status status =
      probe_new(&p, kind == BENCH_COPY ? &copy_op : &bound_op, &attrs, CLADE_MAX(elements / 16 * 16, (size_t)16));
  if (status == CLADE_OK) status = bench_clade_side(job, build, &p, side);
  side->read = NULL; /* there is nothing to check */
  side->name = bounds[kind].name;
  snprintf(side->kernel, sizeof side->kernel, "%s", kind == BENCH_COPY ? job->copy_by : bounds[kind].kernel);
  probe_free(&p);
  return status;
}

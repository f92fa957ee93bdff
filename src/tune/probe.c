/* Probes how many multiply-adds a CPU core starts per latency of one, independent of the clock frequency. */
#include <stddef.h>

#include "tune/internal.h"

/* CHAINS independent chains of multiply-adds. A single chain is limited by latency, many chains by the number of
 * units. */
static const char source[] = "#ifdef WANT_tune_chains\n"
                             "GROUP(1, 1, 1) KERNEL(tune_chains)(ARG(float, y), const float scale, const float more,\n"
                             "                                   const int rounds) {\n"
                             "  if (rounds == 0) return;\n"
                             "  USE(float, y);\n"
                             "  const VECTOR a = (VECTOR)(scale), b = (VECTOR)(more);\n"
                             "  VECTOR c[CHAINS];\n"
                             "#pragma unroll\n"
                             "  for (int k = 0; k < CHAINS; k++) c[k] = (VECTOR)((float)k);\n"
                             "  for (int i = 0; i < rounds; i++) {\n"
                             "#pragma unroll\n"
                             "    for (int k = 0; k < CHAINS; k++) c[k] = fma(c[k], a, b);\n"
                             "  }\n"
                             "  VECTOR sum = c[0];\n"
                             "#pragma unroll\n"
                             "  for (int k = 1; k < CHAINS; k++) sum += c[k];\n"
                             "  VSTORE(sum, get_global_id(0), y);\n"
                             "}\n"
                             "#endif\n";

enum { MANY = 12, ROUNDS = 1 << 21, SAMPLES = 9 };

typedef struct attrs {
  int32_t chains, rounds;
} attrs;
static const clade_attr table[] = {{"chains", CLADE_ATTR_I32, offsetof(attrs, chains), 1},
                                   {"rounds", CLADE_ATTR_I32, offsetof(attrs, rounds), 1},
                                   {0}};

static int width_of(const clade_device_info *device) {
  int width = 4;
  while (width < 16 && width < (int)device->vector_f32) width *= 2;
  return width;
}

static clade_status infer(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(16)};
  return CLADE_OK;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "tune_chains");
  clade_emit_define(s, "WIDTH", width_of(q->device));
  clade_emit_define(s, "CHAINS", a->chains);
  clade_emit_out(s, 0);
  clade_emit_f32(s, 0.5f);
  clade_emit_f32(s, 1.0f);
  clade_emit_i32(s, a->rounds);
  clade_emit_range(s, 1, (size_t[]){1}, (size_t[]){1});
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "ref", .emit = emit), NULL};
static const clade_op op = {.size = sizeof(clade_op),
                            .name = "tune.chains",
                            .n_out = 1,
                            .attr_bytes = sizeof(attrs),
                            .attrs = table,
                            .infer = infer,
                            .impls = impls,
                            .source = source};

static clade_status open_run(clade_device *device, int chains, clade_run **out) {
  const attrs a = {chains, ROUNDS};
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_status status;
  CLADE_GOTO(clade_graph_new(&g));
  clade_output(g, "y", clade_node_add(g, &op, NULL, &a, 0, NULL, NULL));
  CLADE_GOTO(clade_compile(g, device, &func, .untuned = true));
  status = clade_run_new(func, NULL, out);
fail:
  clade_func_release(func); /* the run retains it */
  clade_graph_release(g);
  return status;
}

/* The chains run for milliseconds, so that the launch does not count. */
static clade_status seconds_of(clade_run *run, double *seconds) {
  double start = clade__now();
  CLADE_TRY(clade_execute(run, 0, NULL, NULL));
  CLADE_TRY(clade_wait(run, 0));
  *seconds = clade__now() - start;
  return CLADE_OK;
}

/* Multiply-adds in flight: the median over adjacent pairs of runs, because clock frequency and load change. */
static clade_status begun_in_one(clade_run *one, clade_run *many, double *out) {
  double ratio[SAMPLES], a, b;
  CLADE_TRY(seconds_of(one, &a));
  CLADE_TRY(seconds_of(many, &b));
  for (int i = 0; i < SAMPLES; i++) {
    CLADE_TRY(seconds_of(one, &a));
    CLADE_TRY(seconds_of(many, &b));
    ratio[i] = MANY * a / b;
  }
  *out = clade__median(ratio, SAMPLES);
  return CLADE_OK;
}

/* The latency is four or five cycles, so one unit has 4 or 5 multiply-adds in flight and two units have 8 or 10.
 * Thresholds between these ranges work for either latency. At most MANY are visible, so 2 means two or more. */
uint32_t clade__core_units(double begun) {
  static const double half = 2.83, two = 6.32; /* geometric means of 2 and 4, and of 5 and 8 */
  return begun > half && begun < 1.25 * MANY ? 1 + (begun > two) : 0;
}

clade_status clade__probe_core(clade_device *device, uint32_t *units) {
  const clade_device_info *info = clade__device_info(device);
  clade_run *one = NULL, *many = NULL;
  double begun = 0;
  clade_status status;
  *units = 0;
  if (info->device_class != CLADE_CPU || !info->sources || info->max_passes || info->vector_f32 < 4) return CLADE_OK;
  CLADE_GOTO(open_run(device, 1, &one));
  CLADE_GOTO(open_run(device, MANY, &many));
  CLADE_GOTO(begun_in_one(one, many, &begun));
  *units = clade__core_units(begun);
  clade__log(CLADE_LOG_DEBUG, "%.2f multiply-adds are on the way at a time: %u units", begun, *units);
fail:
  clade_run_free(one);
  clade_run_free(many);
  return status;
}

/* oneDNN, opened at run time: loading, and tensors that are reordered between plain and preferred layouts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/onednn.h"

static const char *begin(const bench_job *job) {
  bench_dnn.set_threads(bench_threads(job));
  if (!bench_dnn.stream && (bench_dnn.engine_create(&bench_dnn.engine, DNN_CPU, 0) ||
                            bench_dnn.stream_create(&bench_dnn.stream, bench_dnn.engine, 1)))
    return "it makes no engine for this CPU";
  return NULL;
}

const char *bench_dnn_load(const bench_job *job) {
  const char *reason = bench_dnn_load_version();
  return reason ? reason : begin(job);
}

void bench_dnn_tell(dnn_object desc, bench_side *side) {
  static const struct {
    int isa;
    const char *name;
  } names[] = {{1, "SSE4.1"},     {3, "AVX"},      {7, "AVX2"},           {15, "AVX2 VNNI"},     {1031, "AVX2 VNNI"},
               {31, "AVX2 VNNI"}, {39, "AVX-512"}, {103, "AVX-512 VNNI"}, {231, "AVX-512 BF16"}, {495, "AVX-512 FP16"},
               {999, "AMX"},      {4079, "AMX"},   {8175, "AMX"}};
  const char *text = NULL;
  int isa = bench_dnn.isa();
  if (bench_dnn.query(desc, DNN_Q_IMPL, 0, &text) || !text) text = "unknown";
  snprintf(side->kernel, sizeof side->kernel, "%s", text);
  snprintf(side->isa, sizeof side->isa, "isa %d", isa);
  for (size_t i = 0; i < CLADE_COUNT(names); i++)
    if (names[i].isa == isa) snprintf(side->isa, sizeof side->isa, "%s", names[i].name);
  side->threads = bench_dnn.threads();
}

static double seconds_of(void *contestant, clade_status (*call)(void *)) {
  double best = INFINITY;
  for (int i = 0; contestant && i < 3; i++) {
    double start = clade__now();
    if (call(contestant) != CLADE_OK) return INFINITY;
    best = fmin(best, clade__now() - start);
  }
  return best;
}

void *bench_dnn_faster(void *first, void *second, clade_status (*call)(void *), void (*release)(void *)) {
  bool better = seconds_of(second, call) < seconds_of(first, call);
  void *loser = better ? first : second;
  if (loser) release(loser);
  return better ? second : first;
}

static bool reorder(dnn_own from, dnn_own to, dnn_object *out) {
  dnn_object desc;
  if (bench_dnn.reorder_create(&desc, from, bench_dnn.engine, to, bench_dnn.engine, NULL)) return false;
  bool made = !bench_dnn.primitive_create(out, desc);
  bench_dnn.desc_destroy(desc);
  return made;
}

bool bench_dnn_move(dnn_object primitive, dnn_object from, dnn_object to) {
  if (!primitive) return true;
  dnn_arg args[] = {{DNN_SRC, from}, {DNN_DST, to}};
  return !bench_dnn.execute(primitive, bench_dnn.stream, 2, args) && !bench_dnn.stream_wait(bench_dnn.stream);
}

static bool lay(dnn_tensor *t, dnn_own plain, dnn_own own) {
  if (bench_dnn.memory_create(&t->plain, plain, bench_dnn.engine, t->data)) return false;
  if (bench_dnn.md_equal(plain, own)) {
    t->own = t->plain;
    return true;
  }
  return !bench_dnn.memory_create(&t->own, own, bench_dnn.engine, DNN_ALLOCATE) && reorder(plain, own, &t->in) &&
         reorder(own, plain, &t->out) && (!t->from || bench_dnn_move(t->in, t->plain, t->own));
}

bool bench_dnn_tensor(dnn_tensor *t, const dnn_md *plain, dnn_own own, size_t elements, const float *from) {
  void *data;
  dnn_open open;
  *t = (dnn_tensor){.elements = elements, .from = from};
  if (posix_memalign(&data, 64, CLADE_MAX(elements, (size_t)1) * sizeof(float))) return false;
  t->data = data;
  if (from)
    memcpy(data, from, elements * sizeof(float));
  else
    memset(data, 0, elements * sizeof(float));
  if (!bench_dnn_open(plain, &open)) return false;
  bool made = lay(t, open.md, own);
  bench_dnn_close(&open);
  return made;
}

void bench_dnn_tensor_free(dnn_tensor *t) {
  if (t->in) bench_dnn.primitive_destroy(t->in);
  if (t->out) bench_dnn.primitive_destroy(t->out);
  if (t->own && t->own != t->plain) bench_dnn.memory_destroy(t->own);
  if (t->plain) bench_dnn.memory_destroy(t->plain);
  free(t->data);
}

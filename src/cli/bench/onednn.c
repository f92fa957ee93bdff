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

/* ---- tensors in a plain layout and in the layout that a primitive wants ---- */
typedef struct tensor {
  dnn_object plain, own, in, out; /* own: may be `plain`; in, out: reorders, or NULL */
  float *data;
} tensor;

static bool reorder(dnn_own from, dnn_own to, dnn_object *out) {
  dnn_object desc;
  if (bench_dnn.reorder_create(&desc, from, bench_dnn.engine, to, bench_dnn.engine, NULL)) return false;
  bool made = !bench_dnn.primitive_create(out, desc);
  bench_dnn.desc_destroy(desc);
  return made;
}

/* Waits; a NULL primitive does nothing. */
static bool move(dnn_object primitive, dnn_object from, dnn_object to) {
  if (!primitive) return true;
  dnn_arg args[] = {{DNN_SRC, from}, {DNN_DST, to}};
  return !bench_dnn.execute(primitive, bench_dnn.stream, 2, args) && !bench_dnn.stream_wait(bench_dnn.stream);
}

static bool lay(tensor *t, dnn_own plain, dnn_own own, bool filled) {
  if (bench_dnn.memory_create(&t->plain, plain, bench_dnn.engine, t->data)) return false;
  if (bench_dnn.md_equal(plain, own)) {
    t->own = t->plain;
    return true;
  }
  return !bench_dnn.memory_create(&t->own, own, bench_dnn.engine, DNN_ALLOCATE) && reorder(plain, own, &t->in) &&
         reorder(own, plain, &t->out) && (!filled || move(t->in, t->plain, t->own));
}

static bool fill(tensor *t, const dnn_role *r, int64_t at, dnn_own own) {
  const size_t bytes = CLADE_MAX(r->elements, (size_t)1) * sizeof(float);
  void *data;
  dnn_open open;
  if (posix_memalign(&data, 64, bytes)) return false;
  t->data = memset(data, 0, bytes);
  if (r->data) memcpy(data, r->data + (size_t)at * r->elements, r->elements * sizeof(float));
  if (!bench_dnn_open(&r->plain, &open)) return false;
  bool made = lay(t, open.md, own, r->data);
  bench_dnn_close(&open);
  return made;
}

static void forget(tensor *t) {
  if (t->in) bench_dnn.primitive_destroy(t->in);
  if (t->out) bench_dnn.primitive_destroy(t->out);
  if (t->own && t->own != t->plain) bench_dnn.memory_destroy(t->own);
  if (t->plain) bench_dnn.memory_destroy(t->plain);
  free(t->data);
}

/* ---- chains of calls ---- */
typedef struct dnn_contestant {
  dnn_chain chain;
  dnn_object desc, primitive;
  tensor *tensors[DNN_TENSORS];
} contestant;

static int result_of(const contestant *s) {
  int i = 0;
  while (s->chain.role[i].data) i++;
  return i;
}

static tensor *tensor_of(const contestant *s, int role, int64_t call) {
  return &s->tensors[role][s->chain.role[role].count > 1 ? call : 0];
}

static bool make_tensors(contestant *s) {
  for (int i = 0; i < DNN_TENSORS; i++) {
    const dnn_role *r = &s->chain.role[i];
    dnn_own own = bench_dnn.query_md(s->desc, r->query, 0);
    s->tensors[i] = clade__new((size_t)r->count, sizeof(tensor));
    if (!own || !s->tensors[i]) return false;
    for (int64_t k = 0; k < r->count; k++)
      if (!fill(&s->tensors[i][k], r, k, own)) return false;
  }
  return true;
}

static void release(void *state) {
  contestant *s = state;
  for (int i = 0; i < DNN_TENSORS; i++) {
    for (int64_t k = 0; s->tensors[i] && k < s->chain.role[i].count; k++) forget(&s->tensors[i][k]);
    clade__free(s->tensors[i]);
  }
  if (s->primitive) bench_dnn.primitive_destroy(s->primitive);
  bench_dnn.desc_destroy(s->desc);
  clade__free(s);
}

contestant *bench_dnn_new(const dnn_chain *chain, dnn_object desc) {
  contestant *s = clade__new(1, sizeof *s);
  if (!s) {
    bench_dnn.desc_destroy(desc);
    return NULL;
  }
  s->chain = *chain;
  s->desc = desc;
  if (!bench_dnn.primitive_create(&s->primitive, desc) && make_tensors(s)) return s;
  release(s);
  return NULL;
}

/* Restores the operands: in preferred layouts, or in plain ones if reorders are timed. */
static clade_status refresh(void *state) {
  contestant *s = state;
  for (int i = 0; i < DNN_TENSORS; i++) {
    const dnn_role *r = &s->chain.role[i];
    for (int64_t k = 0; r->data && !r->kept && k < r->count; k++) {
      tensor *t = &s->tensors[i][k];
      memcpy(t->data, r->data + (size_t)k * r->elements, r->elements * sizeof(float));
      if (!s->chain.reorders && !move(t->in, t->plain, t->own))
        return CLADE_FAIL(INTERNAL, "oneDNN cannot reorder an operand");
    }
  }
  return CLADE_OK;
}

static bool execute(const contestant *s, int64_t call) {
  const dnn_chain *c = &s->chain;
  const int result = result_of(s);
  dnn_arg args[DNN_TENSORS];
  bool done = true;
  for (int i = 0; i < DNN_TENSORS && done; i++) {
    const bool linked = c->linked && call && !i;
    tensor *t = linked ? tensor_of(s, result, call - 1) : tensor_of(s, i, call);
    args[i] = (dnn_arg){c->role[i].arg, t->own};
    if (c->reorders && c->role[i].data && !c->role[i].kept) done = move(t->in, t->plain, t->own);
  }
  done = done && !bench_dnn.execute(s->primitive, bench_dnn.stream, DNN_TENSORS, args) &&
         !bench_dnn.stream_wait(bench_dnn.stream);
  tensor *t = tensor_of(s, result, call);
  return done && (!c->reorders || move(t->out, t->own, t->plain));
}

static clade_status call(void *state) {
  contestant *s = state;
  for (int64_t i = 0; i < s->chain.calls; i++)
    if (!execute(s, i)) return CLADE_FAIL(INTERNAL, "oneDNN's %s failed", s->chain.what);
  return CLADE_OK;
}

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  const int role = result_of(s);
  tensor *t = tensor_of(s, role, s->chain.linked ? s->chain.calls - 1 : index);
  if (!s->chain.reorders && !move(t->out, t->own, t->plain))
    return CLADE_FAIL(INTERNAL, "oneDNN cannot reorder its result");
  memcpy(result, t->data, s->chain.role[role].elements * sizeof *result);
  return CLADE_OK;
}

static double seconds_of(contestant *s) {
  double best = INFINITY;
  for (int i = 0; s && i < 3; i++) {
    double start = clade__now();
    if (call(s) != CLADE_OK) return INFINITY;
    best = fmin(best, clade__now() - start);
  }
  return best;
}

const char *bench_dnn_side(const char *name, const char *what, contestant *first, contestant *second,
                           bench_side *side) {
  static char reason[80];
  contestant *s = second && seconds_of(second) < seconds_of(first) ? second : first,
             *loser = s == first ? second : first;
  if (loser) release(loser);
  if (!s) {
    snprintf(reason, sizeof reason, "it refuses this %s, or there is no memory for it", what);
    return reason;
  }
  *side =
      (bench_side){.name = name, .state = s, .refresh = refresh, .call = call, .read = read_result, .free = release};
  bench_dnn_tell(s->desc, side);
  return NULL;
}

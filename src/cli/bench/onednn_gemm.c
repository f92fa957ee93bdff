/* Matrix products by oneDNN, by the faster of matmul and inner product. Weights are reordered once to the preferred
 * layout; other operands stay plain. */
#include <stdio.h>

#include "cli/bench/gemm.h"
#include "cli/bench/onednn.h"

enum { A, B, C, ROLES };
typedef struct contestant {
  const bench_gemm_work *work;
  dnn_object desc, primitive;
  dnn_tensor *tensors[ROLES];
} contestant;

static int count(const bench_gemm_work *w, int role) { return role == A ? w->n_a : role == B ? w->n_b : (int)w->chain; }

/* any: the primitive chooses the layout. layer: as an inner product expects it, without a batch axis and with the
 * axes of B swapped. */
static dnn_md describe(const bench_gemm_work *w, int role, int type, bool any, bool layer) {
  const int64_t rows = role == B ? w->k : w->m, columns = role == A ? w->k : w->n;
  const bool trans = (role == A && w->trans_a) || (role == B && w->trans_b), other = layer && role == B;
  const int64_t dims[3] = {w->batch, other ? columns : rows, other ? rows : columns};
  const int64_t strides[3] = {rows * columns, trans != other ? 1 : dims[2], trans != other ? dims[1] : 1};
  const int skip = w->batch == 1;
  dnn_md md = {.rank = 3 - skip, .type = type, .tag = any ? DNN_ANY : DNN_STRIDES};
  memcpy(md.dims, dims + skip, (size_t)md.rank * sizeof *dims);
  memcpy(md.strides, strides + skip, (size_t)md.rank * sizeof *strides);
  return md;
}

static bool make_desc(const bench_gemm_work *w, bool layer, dnn_object *out) {
  const clade_dtype types[ROLES] = {w->a_type, w->b_type, w->c_type};
  const bool any[ROLES] = {w->frozen_a, w->frozen_b, false};
  dnn_work work = {.kind = layer ? DNN_PRODUCT : DNN_MATMUL};
  for (int i = 0; i < ROLES; i++) work.md[i] = describe(w, i, bench_dnn_type(types[i]), any[i], layer);
  return bench_dnn_make(&work, out);
}

static bool make_tensors(contestant *s, bool layer) {
  static const int queries[ROLES] = {DNN_Q_SRC, DNN_Q_WEIGHTS, DNN_Q_DST};
  const bench_gemm_work *w = s->work;
  const float *data[ROLES] = {w->a, w->b, NULL};
  const size_t elements[ROLES] = {w->a_elements, w->b_elements, w->c_elements};
  for (int role = 0; role < ROLES; role++) {
    const dnn_md plain = describe(w, role, DNN_F32, false, layer);
    dnn_own own = bench_dnn.query_md(s->desc, queries[role], 0);
    s->tensors[role] = clade__new((size_t)count(w, role), sizeof(dnn_tensor));
    if (!own || !s->tensors[role]) return false;
    for (int i = 0; i < count(w, role); i++)
      if (!bench_dnn_tensor(&s->tensors[role][i], &plain, own, elements[role],
                            data[role] ? data[role] + (size_t)i * elements[role] : NULL))
        return false;
  }
  return true;
}

static void release(void *state) {
  contestant *s = state;
  for (int role = 0; role < ROLES; role++) {
    for (int i = 0; s->tensors[role] && i < count(s->work, role); i++) bench_dnn_tensor_free(&s->tensors[role][i]);
    clade__free(s->tensors[role]);
  }
  if (s->primitive) bench_dnn.primitive_destroy(s->primitive);
  if (s->desc) bench_dnn.desc_destroy(s->desc);
  clade__free(s);
}

static contestant *contestant_new(const bench_gemm_work *w, bool layer) {
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return NULL;
  s->work = w;
  if (make_desc(w, layer, &s->desc) && !bench_dnn.primitive_create(&s->primitive, s->desc) && make_tensors(s, layer))
    return s;
  release(s);
  return NULL;
}

static clade_status refresh(void *state) {
  contestant *s = state;
  for (int role = A; role < C; role++)
    for (int i = 0; !(role == A ? s->work->frozen_a : s->work->frozen_b) && i < count(s->work, role); i++) {
      dnn_tensor *t = &s->tensors[role][i];
      memcpy(t->data, t->from, t->elements * sizeof *t->data);
      if (!bench_dnn_move(t->in, t->plain, t->own)) return CLADE_FAIL(INTERNAL, "oneDNN cannot reorder an operand");
    }
  return CLADE_OK;
}

static clade_status call(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  for (int64_t i = 0; i < w->chain; i++) {
    dnn_object a = w->linked && i ? s->tensors[C][i - 1].own : s->tensors[A][w->n_a > 1 ? i : 0].own;
    const dnn_arg args[ROLES] = {
        {DNN_SRC, a}, {DNN_WEIGHTS, s->tensors[B][w->n_b > 1 ? i : 0].own}, {DNN_DST, s->tensors[C][i].own}};
    if (bench_dnn.execute(s->primitive, bench_dnn.stream, ROLES, args) || bench_dnn.stream_wait(bench_dnn.stream))
      return CLADE_FAIL(INTERNAL, "oneDNN's product failed");
  }
  return CLADE_OK;
}

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  dnn_tensor *t = &s->tensors[C][s->work->linked ? s->work->chain - 1 : index];
  if (!bench_dnn_move(t->out, t->own, t->plain)) return CLADE_FAIL(INTERNAL, "oneDNN cannot reorder its result");
  memcpy(result, t->data, t->elements * sizeof *result);
  return CLADE_OK;
}

const char *bench_onednn_gemm(const bench_job *job, const bench_gemm_work *work, bench_side *side) {
  const char *reason = bench_dnn_load(job);
  if (reason) return reason;
  if (job->dtype == CLADE_F16) return "it has no kernel for f16 on CPUs";
  bool layers = work->batch == 1 && !work->trans_a;
  contestant *matmul = contestant_new(work, false), *layer = layers ? contestant_new(work, true) : NULL;
  contestant *s = bench_dnn_faster(matmul, layer, call, release);
  if (!s) return "it refuses this product, or there is no memory for it";
  *side = (bench_side){
      .name = "onednn", .state = s, .refresh = refresh, .call = call, .read = read_result, .free = release};
  bench_dnn_tell(s->desc, side);
  return NULL;
}

/* Matrix products by oneDNN, by the faster of matmul and inner product. Weights are reordered once to the preferred
 * layout; other operands stay plain. */
#include <stdio.h>

#include "cli/bench/gemm.h"
#include "cli/bench/onednn.h"

/* any: the primitive chooses the layout. layer: as an inner product expects it, without a batch axis and with the
 * axes of B swapped. */
static dnn_md describe(const bench_gemm_work *w, int role, int type, bool any, bool layer) {
  const int64_t rows = role == BENCH_B ? w->k : w->m, columns = role == BENCH_A ? w->k : w->n;
  const bool other = layer && role == BENCH_B;
  const int64_t dims[3] = {w->batch, other ? columns : rows, other ? rows : columns};
  const bool turned = w->trans[role] != other;
  const int64_t strides[3] = {rows * columns, turned ? 1 : dims[2], turned ? dims[1] : 1};
  const int skip = w->batch == 1;
  dnn_md md = {.rank = 3 - skip, .type = type, .tag = any ? DNN_ANY : DNN_STRIDES};
  memcpy(md.dims, dims + skip, (size_t)md.rank * sizeof *dims);
  memcpy(md.strides, strides + skip, (size_t)md.rank * sizeof *strides);
  return md;
}

static struct dnn_contestant *contestant_new(const bench_gemm_work *w, bool layer) {
  static const int args[] = {DNN_SRC, DNN_WEIGHTS, DNN_DST}, queries[] = {DNN_Q_SRC, DNN_Q_WEIGHTS, DNN_Q_DST};
  dnn_chain chain = {.what = "product", .calls = w->chain, .linked = w->linked};
  dnn_work work = {.kind = layer ? DNN_PRODUCT : DNN_MATMUL};
  dnn_object desc;
  for (int i = 0; i < BENCH_OPERANDS; i++) {
    work.md[i] = describe(w, i, bench_dnn_type(w->type[i]), w->frozen[i], layer);
    chain.role[i] = (dnn_role){.arg = args[i],
                               .query = queries[i],
                               .plain = describe(w, i, DNN_F32, false, layer),
                               .count = w->count[i],
                               .elements = w->elements[i],
                               .data = w->data[i],
                               .kept = w->frozen[i]};
  }
  return bench_dnn_make(&work, &desc) ? bench_dnn_new(&chain, desc) : NULL;
}

const char *bench_onednn_gemm(const bench_job *job, const bench_gemm_work *work, bench_side *side) {
  const char *reason = bench_dnn_load(job);
  if (reason) return reason;
  if (job->dtype == CLADE_F16) return "it has no kernel for f16 on CPUs";
  bool layers = work->batch == 1 && !work->trans[BENCH_A];
  struct dnn_contestant *matmul = contestant_new(work, false), *layer = layers ? contestant_new(work, true) : NULL;
  return bench_dnn_side("onednn", "product", matmul, layer, side);
}

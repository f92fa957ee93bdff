/* Convolutions by oneDNN: in preferred layouts, or with plain operands and results by the faster of two methods. */
#include <stdio.h>

#include "cli/bench/conv.h"
#include "cli/bench/onednn.h"

/* Arguments and queries for x, w and y in each pass. */
static const int args[3][BENCH_ROLES] = {{DNN_SRC, DNN_WEIGHTS, DNN_DST},
                                         {DNN_DIFF_SRC, DNN_WEIGHTS, DNN_DIFF_DST},
                                         {DNN_SRC, DNN_DIFF_WEIGHTS, DNN_DIFF_DST}};
static const int queries[3][BENCH_ROLES] = {{DNN_Q_SRC, DNN_Q_WEIGHTS, DNN_Q_DST},
                                            {DNN_Q_DIFF_SRC, DNN_Q_WEIGHTS, DNN_Q_DIFF_DST},
                                            {DNN_Q_SRC, DNN_Q_DIFF_WEIGHTS, DNN_Q_DIFF_DST}};

/* plain: dense; otherwise DNN_ANY. Weights of groups have an additional leading axis. */
static dnn_md describe(const bench_conv_work *w, int role, bool plain) {
  clade_shape s = w->shape[role];
  if (role == BENCH_W && w->groups > 1) {
    memmove(s.dim + 1, s.dim, (size_t)s.rank++ * sizeof *s.dim);
    s.dim[0] = w->groups, s.dim[1] /= w->groups;
  }
  dnn_md md = {.rank = s.rank,
               .type = plain ? DNN_F32 : bench_dnn_type(bench_conv_type(w, role)),
               .tag = plain ? DNN_PLAIN : DNN_ANY};
  memcpy(md.dims, s.dim, (size_t)s.rank * sizeof *s.dim);
  return md;
}

static bool make_desc(const bench_conv_work *w, bool plain_images, int algorithm, dnn_object *out) {
  static const dnn_kind kinds[] = {
      [BENCH_FORWARD] = DNN_CONV, [BENCH_BACKWARD_DATA] = DNN_CONV_DATA, [BENCH_BACKWARD_WEIGHTS] = DNN_CONV_WEIGHTS};
  dnn_work work = {.kind = kinds[w->pass], .algorithm = algorithm};
  for (int i = 0; i < w->axes; i++) {
    const bench_axis *a = &w->along[BENCH_AXES - w->axes + i];
    work.strides[i] = a->stride, work.pads[i] = a->pad, work.more[i] = a->dilation - 1;
  }
  for (int i = 0; i < BENCH_ROLES; i++) work.md[i] = describe(w, i, plain_images && i != BENCH_W);
  return bench_dnn_make(&work, out);
}

bool bench_dnn_conv_desc(const bench_conv_work *w, void *out) {
  return make_desc(w, false, DNN_AUTO, out) || make_desc(w, false, DNN_DIRECT, out);
}

/* plain: plain operands and results. plain_images: the primitive takes and gives plain images itself. */
static struct dnn_contestant *contestant_new(const bench_conv_work *w, bool plain, bool plain_images) {
  dnn_chain chain = {.what = "convolution", .calls = w->chain, .reorders = plain};
  dnn_object desc;
  for (int i = 0; i < BENCH_ROLES; i++)
    chain.role[i] = (dnn_role){.arg = args[w->pass][i],
                               .query = queries[w->pass][i],
                               .plain = describe(w, i, true),
                               .count = bench_conv_count(w, i),
                               .elements = w->elements[i],
                               .data = w->data[i],
                               .kept = i == BENCH_W};
  if (!make_desc(w, plain_images, DNN_AUTO, &desc) && !make_desc(w, plain_images, DNN_DIRECT, &desc)) return NULL;
  return bench_dnn_new(&chain, desc);
}

/* Plain images are either reordered before and after the fastest primitive, or taken by a primitive directly. */
const char *bench_onednn_conv(const bench_job *job, const bench_conv_work *work, bool plain, bench_side *side) {
  const char *reason = bench_dnn_load(job);
  if (reason) return reason;
  if (job->dtype == CLADE_F16) return "it has no kernel for f16 on CPUs";
  if (job->dtype != CLADE_F32 && plain) return "its convolutions from and to plain images are asked for in f32 only";
  return bench_dnn_side(plain ? "onednn_nchw" : "onednn", "convolution", contestant_new(work, plain, false),
                        plain ? contestant_new(work, true, true) : NULL, side);
}

/* Convolutions by oneDNN: in preferred layouts, or with plain operands and results by the faster of two methods. */
#include <stdio.h>

#include "cli/bench/conv.h"
#include "cli/bench/onednn.h"

typedef struct contestant {
  const bench_conv_work *work;
  bool plain; /* plain operands and results; reorders are timed */
  dnn_object desc, primitive;
  dnn_tensor *tensors[BENCH_ROLES]; /* one for each call; a weight that is read exists once */
} contestant;

static dnn_tensor *tensor_of(const contestant *s, int role, int64_t call) {
  return &s->tensors[role][bench_conv_count(s->work, role) > 1 ? call : 0];
}

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

static bool make_tensors(contestant *s) {
  const bench_conv_work *w = s->work;
  for (int role = 0; role < BENCH_ROLES; role++) {
    const dnn_md plain = describe(w, role, true);
    dnn_own own = bench_dnn.query_md(s->desc, queries[w->pass][role], 0);
    s->tensors[role] = clade__new((size_t)bench_conv_count(w, role), sizeof(dnn_tensor));
    if (!own || !s->tensors[role]) return false;
    for (int64_t i = 0; i < bench_conv_count(w, role); i++) {
      const float *from = w->data[role] ? w->data[role] + (size_t)i * w->elements[role] : NULL;
      if (!bench_dnn_tensor(&s->tensors[role][i], &plain, own, w->elements[role], from)) return false;
    }
  }
  return true;
}

static void release(void *state) {
  contestant *s = state;
  for (int role = 0; role < BENCH_ROLES; role++) {
    for (int64_t i = 0; s->tensors[role] && i < bench_conv_count(s->work, role); i++)
      bench_dnn_tensor_free(&s->tensors[role][i]);
    clade__free(s->tensors[role]);
  }
  if (s->primitive) bench_dnn.primitive_destroy(s->primitive);
  if (s->desc) bench_dnn.desc_destroy(s->desc);
  clade__free(s);
}

static contestant *contestant_new(const bench_conv_work *w, bool plain, bool plain_images) {
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return NULL;
  s->work = w;
  s->plain = plain;
  if ((make_desc(w, plain_images, DNN_AUTO, &s->desc) || make_desc(w, plain_images, DNN_DIRECT, &s->desc)) &&
      !bench_dnn.primitive_create(&s->primitive, s->desc) && make_tensors(s))
    return s;
  release(s);
  return NULL;
}

/* Restores the operands: in preferred layouts, or in plain ones if reorders are timed. */
static clade_status refresh(void *state) {
  contestant *s = state;
  for (int role = 0; role < BENCH_ROLES; role++)
    for (int64_t i = 0; role != BENCH_W && i < bench_conv_count(s->work, role); i++) {
      dnn_tensor *t = &s->tensors[role][i];
      if (t->from) memcpy(t->data, t->from, t->elements * sizeof *t->data);
      if (t->from && !s->plain && !bench_dnn_move(t->in, t->plain, t->own))
        return CLADE_FAIL(INTERNAL, "oneDNN cannot reorder an operand");
    }
  return CLADE_OK;
}

static bool convolve(const contestant *s, int64_t call) {
  dnn_arg list[BENCH_ROLES];
  bool done = true;
  int result = (int)bench_conv_result(s->work);
  for (int role = 0; role < BENCH_ROLES && done; role++) {
    dnn_tensor *t = tensor_of(s, role, call);
    list[role] = (dnn_arg){args[s->work->pass][role], t->own};
    if (s->plain && role != result && role != BENCH_W) done = bench_dnn_move(t->in, t->plain, t->own);
  }
  done = done && !bench_dnn.execute(s->primitive, bench_dnn.stream, BENCH_ROLES, list) &&
         !bench_dnn.stream_wait(bench_dnn.stream);
  dnn_tensor *t = tensor_of(s, result, call);
  return done && (!s->plain || bench_dnn_move(t->out, t->own, t->plain));
}

static clade_status call(void *state) {
  contestant *s = state;
  for (int64_t i = 0; i < s->work->chain; i++)
    if (!convolve(s, i)) return CLADE_FAIL(INTERNAL, "oneDNN's convolution failed");
  return CLADE_OK;
}

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  dnn_tensor *t = tensor_of(s, (int)bench_conv_result(s->work), index);
  if (!s->plain && !bench_dnn_move(t->out, t->own, t->plain))
    return CLADE_FAIL(INTERNAL, "oneDNN cannot reorder its result");
  memcpy(result, t->data, t->elements * sizeof *result);
  return CLADE_OK;
}

/* Plain images are either taken by the primitive directly, or reordered before and after a faster one. */
static contestant *faster_plain(const bench_conv_work *w) {
  contestant *reordered = contestant_new(w, true, false), *direct = contestant_new(w, true, true);
  return bench_dnn_faster(reordered, direct, call, release);
}

const char *bench_onednn_conv(const bench_job *job, const bench_conv_work *work, bool plain, bench_side *side) {
  const char *reason = bench_dnn_load(job);
  if (reason) return reason;
  if (job->dtype == CLADE_F16) return "it has no kernel for f16 on CPUs";
  if (job->dtype != CLADE_F32 && plain) return "its convolutions from and to plain images are asked for in f32 only";
  contestant *s = plain ? faster_plain(work) : contestant_new(work, false, false);
  if (!s) return "it refuses this convolution, or there is no memory for it";
  *side = (bench_side){.name = plain ? "onednn_nchw" : "onednn",
                       .state = s,
                       .refresh = refresh,
                       .call = call,
                       .read = read_result,
                       .free = release};
  bench_dnn_tell(s->desc, side);
  return NULL;
}

/* A lower bound of oneDNN's time for a model: each distinct layer, read from Clade's unoptimized graph, runs as a
 * primitive in its fastest layout. The time is the sum over all layers, each counted as often as it occurs. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/conv.h"
#include "cli/bench/model.h"
#include "cli/bench/onednn.h"
#include "op/conv/conv.h"
#include "op/pool/pool.h"

enum { MOST_LAYERS = 256, MOST_ARGS = 16, CALLS = 3, LAYOUTS = 4 };

/* compared by its bytes */
typedef struct spec {
  int64_t kind, train, mean; /* dnn_kind; dnn_work.train; of a pooling: whether it is the mean */
  int64_t n, c, h, w, out, kernel, stride, pad, groups, k;
} spec;
typedef struct layer {
  spec spec;
  int count, n_args;
  dnn_object desc, primitive;
  dnn_arg args[MOST_ARGS];
} layer;
typedef struct contestant {
  size_t n;
  layer layers[MOST_LAYERS];
  bool train;
  double seconds;
} contestant;

/* ---- layers of a graph ---- */
static bool images(const clade_shape *s, dnn_kind kind, bool train, bool mean, spec *out) {
  out->kind = kind, out->train = train, out->mean = mean;
  out->n = s->dim[0], out->c = s->dim[1];
  out->h = s->dim[2], out->w = s->dim[3];
  return true;
}

static bool convolution(const clade_node *n, bench_pass pass, spec *out) {
  const clade__conv_attrs *a = n->attrs;
  const clade_shape *x = pass == BENCH_BACKWARD_DATA ? &n->out[0].shape : &n->in[0].shape;
  const clade_shape *y = pass == BENCH_FORWARD ? &n->out[0].shape : &n->in[pass == BENCH_BACKWARD_DATA ? 0 : 1].shape;
  images(x, (dnn_kind)(DNN_CONV + (int)pass), false, false, out); /* the derivatives follow DNN_CONV */
  out->out = y->dim[1], out->kernel = a->window.kernel[0], out->stride = a->window.stride[0];
  out->pad = a->window.pad[0], out->groups = a->groups;
  return true;
}

static bool pooling(const clade_node *n, dnn_kind kind, bool train, spec *out) {
  const clade__pool_attrs *a = n->attrs;
  images(&n->in[0].shape, kind, train, false, out);
  out->kernel = a->window.kernel[0], out->stride = a->window.stride[0], out->pad = a->window.pad[0];
  return true;
}

/* Elementwise nodes on images. A normalization has several nodes with a value for each channel; only the one that
 * reads a convolution counts. */
static bool elementwise(const clade_node *n, bool after_conv, bool derivative, spec *out) {
  const clade_shape *y = &n->out[0].shape;
  const bool same = n->n_in == 2 && clade_shape_equal(&n->in[0].shape, &n->in[1].shape);
  const dnn_kind kind = n->n_in == 1 ? DNN_RELU : derivative ? DNN_RELU_GRAD : same ? DNN_ADD : DNN_NORM;
  return y->rank == 4 && images(y, kind, kind != DNN_NORM, false, out) && (n->n_in == 1 || same || after_conv);
}

static bool layer_of(const clade_graph *g, const clade__node *node, const clade_node *n, bool train, spec *out) {
  const char *op = n->op->name;
  const clade_shape *x = &n->in[0].shape, *y = &n->out[0].shape;
  memset(out, 0, sizeof *out);
  if (!strcmp(op, "conv2d")) return convolution(n, BENCH_FORWARD, out);
  if (!strcmp(op, "conv2d_data")) return convolution(n, BENCH_BACKWARD_DATA, out);
  if (!strcmp(op, "conv2d_weights")) return convolution(n, BENCH_BACKWARD_WEIGHTS, out);
  if (!strcmp(op, "max_pool2d")) return pooling(n, DNN_POOL, train, out);
  if (!strcmp(op, "max_pool2d_grad")) return pooling(n, DNN_POOL_GRAD, train, out);
  if (!strcmp(op, "batch_norm")) return images(x, DNN_NORM, train, false, out);
  if (!strcmp(op, "batch_norm_grad")) return images(x, DNN_NORM_GRAD, true, false, out);
  if (!strcmp(op, "gemm")) {
    const clade__gemm_attrs *a = n->attrs;
    *out = (spec){.kind = DNN_PRODUCT, .n = y->dim[0], .c = y->dim[1]};
    out->k = clade__gemm_shape(n, 0)->dim[a->trans_a ? 0 : 1];
    return y->rank == 2;
  }
  if (!strcmp(op, "reduce") && x->rank == 4 && y->rank == 2) return images(x, DNN_POOL, train, true, out);
  if (!strcmp(op, "broadcast") && y->rank == 4) return images(y, DNN_POOL_GRAD, train, true, out);
  if (strcmp(op, "eltwise")) return false;
  const clade__elt *program = &((const clade__eltwise_attrs *)n->attrs)->program;
  bool after_conv = !strcmp(g->nodes[g->values[node->in[0]].node].op->name, "conv2d");
  return program->n_insn > 0 && elementwise(n, after_conv, program->insn[0].wrt != 0, out);
}

static bool collect(contestant *s, const clade_graph *g) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  spec one;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    clade__node_view(g, id, in, out, &view);
    if (!view.n_out || !layer_of(g, &g->nodes[id], &view, s->train, &one)) continue;
    size_t i = 0;
    while (i < s->n && memcmp(&s->layers[i].spec, &one, sizeof one)) i++;
    if (i == MOST_LAYERS) return false;
    s->n = CLADE_MAX(s->n, i + 1);
    s->layers[i].spec = one;
    s->layers[i].count++;
  }
  return true;
}

/* ---- primitives of layers ---- */
static bool conv_desc(const spec *l, dnn_object *out) {
  bench_conv_work w = {
      .pass = (bench_pass)(l->kind - DNN_CONV),
      .axes = 2,
      .along = {BENCH_NO_AXIS, {l->h, 0, l->kernel, l->stride, l->pad, 1}, {l->w, 0, l->kernel, l->stride, l->pad, 1}},
      .n = l->n,
      .c = l->c,
      .out = l->out,
      .groups = l->groups};
  if (bench_conv_fill(&w) != CLADE_OK) return false;
  return bench_dnn_conv_desc(&w, out);
}

static dnn_md tensor(int rank, const int64_t *dims, dnn_tag tag) {
  dnn_md md = {.rank = rank, .type = DNN_F32, .tag = tag};
  memcpy(md.dims, dims, (size_t)rank * sizeof *dims);
  return md;
}

static bool pool_desc(const spec *l, dnn_tag tag, dnn_object *out) {
  const bool mean = l->mean;
  const int64_t x[4] = {l->n, l->c, l->h, l->w};
  int64_t y[4] = {l->n, l->c};
  dnn_work work = {.kind = (dnn_kind)l->kind,
                   .train = l->train,
                   .algorithm = mean ? DNN_POOL_MEAN : DNN_POOL_MAX,
                   .kernel = {mean ? l->h : l->kernel, mean ? l->w : l->kernel},
                   .pads = {l->pad, l->pad}};
  for (int i = 0; i < 2; i++) {
    work.strides[i] = mean ? 1 : l->stride;
    y[2 + i] = (x[2 + i] + 2 * l->pad - work.kernel[i]) / work.strides[i] + 1;
  }
  work.md[0] = tensor(4, x, tag), work.md[1] = tensor(4, y, tag);
  return bench_dnn_make(&work, out);
}

static bool product_desc(const spec *l, dnn_object *out) {
  const dnn_work work = {.kind = DNN_PRODUCT,
                         .md = {tensor(2, (int64_t[]){l->n, l->k}, DNN_ANY),
                                tensor(2, (int64_t[]){l->c, l->k}, DNN_ANY),
                                tensor(2, (int64_t[]){l->n, l->c}, DNN_ANY)}};
  return bench_dnn_make(&work, out);
}

/* layout: index of the layout to try. Convolutions and products choose their layouts themselves and are tried once. */
static bool describe(const spec *l, int layout, dnn_object *out) {
  static const dnn_tag tags[LAYOUTS] = {DNN_ABCD8B, DNN_ABCD16B, DNN_ACDB, DNN_PLAIN};
  if (l->kind <= DNN_CONV_WEIGHTS) return layout == 0 && conv_desc(l, out);
  if (l->kind == DNN_PRODUCT) return layout == 0 && product_desc(l, out);
  if (l->kind == DNN_POOL || l->kind == DNN_POOL_GRAD) return pool_desc(l, tags[layout], out);
  const dnn_work work = {.kind = (dnn_kind)l->kind,
                         .train = l->train,
                         .md = {tensor(4, (int64_t[]){l->n, l->c, l->h, l->w}, tags[layout])}};
  return bench_dnn_make(&work, out);
}

static void forget(layer *l) {
  for (int i = 0; i < l->n_args; i++) bench_dnn.memory_destroy(l->args[i].memory);
  if (l->primitive) bench_dnn.primitive_destroy(l->primitive);
  if (l->desc) bench_dnn.desc_destroy(l->desc);
  l->n_args = 0;
  l->primitive = l->desc = NULL;
}

/* Allocates memory for every argument of the primitive and fills it with small numbers. */
static bool equip(layer *l) {
  static const int all[MOST_ARGS] = {1, 2, 17, 33, 49, 50, 51, 52, 64, 129, 145, 161, 41, 169, 255, 256};
  for (int i = 0; i < MOST_ARGS; i++) {
    dnn_own md = bench_dnn.query_md(l->desc, DNN_Q_ARG, all[i]);
    size_t bytes = md ? bench_dnn.md_size(md) : 0;
    void *data;
    if (!bytes) continue;
    dnn_arg *arg = &l->args[l->n_args];
    arg->arg = all[i];
    if (bench_dnn.memory_create(&arg->memory, md, bench_dnn.engine, DNN_ALLOCATE)) return false;
    l->n_args++;
    if (bench_dnn.memory_data(arg->memory, &data)) return false;
    memset(data, all[i] == 64 ? 0 : 0x3c, bytes); /* argument 64 is the workspace, which holds indices */
  }
  return true;
}

static bool make(layer *l, int layout) {
  if (describe(&l->spec, layout, &l->desc) && !bench_dnn.primitive_create(&l->primitive, l->desc) && equip(l))
    return true;
  forget(l);
  return false;
}

/* Median of a few calls after a warm-up call. */
static double seconds_of(const layer *l) {
  double seconds[CALLS];
  for (int i = -1; i < CALLS; i++) {
    double start = clade__now();
    if (bench_dnn.execute(l->primitive, bench_dnn.stream, l->n_args, l->args) ||
        bench_dnn.stream_wait(bench_dnn.stream))
      return INFINITY;
    if (i >= 0) seconds[i] = clade__now() - start;
  }
  return bench_stat_of(CALLS, seconds).median;
}

static bool best(layer *l) {
  layer one = *l;
  double least = INFINITY;
  for (int layout = 0; layout < LAYOUTS; layout++) {
    layer other = one;
    if (!make(&other, layout)) continue;
    double seconds = seconds_of(&other);
    if (seconds < least) {
      forget(l);
      *l = other;
      least = seconds;
    } else {
      forget(&other);
    }
  }
  return isfinite(least);
}

/* ---- the contestant ---- */
static void release(void *state) {
  contestant *s = state;
  for (size_t i = 0; i < s->n; i++) forget(&s->layers[i]);
  clade__free(s);
}

static clade_status call(void *state) {
  contestant *s = state;
  s->seconds = 0;
  for (size_t i = 0; i < s->n; i++) s->seconds += s->layers[i].count * seconds_of(&s->layers[i]);
  return isfinite(s->seconds) ? CLADE_OK : CLADE_FAIL(INTERNAL, "a layer of oneDNN failed");
}

static double sum_of_seconds(void *state) { return ((contestant *)state)->seconds; }

const char *bench_onednn_model(const bench_job *job, const bench_model_work *work, const clade_graph *graph,
                               bench_side *side) {
  const char *reason = bench_dnn_load(job);
  if (reason) return reason;
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return "there is no memory for it";
  s->train = work->train;
  bool ok = collect(s, graph);
  int layers = 0;
  for (size_t i = 0; i < s->n && ok; i++) {
    ok = best(&s->layers[i]);
    layers += s->layers[i].count;
  }
  if (!ok || !layers) {
    release(s);
    return "it refuses a layer of this model, or there is no memory for it";
  }
  *side = (bench_side){.name = "onednn", .state = s, .call = call, .seconds_of_call = sum_of_seconds, .free = release};
  bench_dnn_tell(s->layers[0].desc, side);
  snprintf(side->kernel, sizeof side->kernel, "the sum of %d layers, %zu distinct", layers, s->n);
  return NULL;
}

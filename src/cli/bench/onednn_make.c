/* Loads oneDNN 2 or 3 and creates descriptors of primitives. Version 2 fills a structure for each operation and
 * creates a descriptor of it; version 3 has one function for each operation. */
#include <stdio.h>

#include "cli/bench/onednn.h"

dnn_functions bench_dnn;

enum { TRAINING = 64, INFERENCE = 96, BACKWARD = 128, ADD = 0x1fff0 };
enum { GLOBAL_STATISTICS = 1, SCALE_AND_SHIFT_2 = 2, SCALE_3 = 2, SHIFT_3 = 4 };
enum { RELU_2 = 0x1f, RELU_3 = 0x20 };
static const float epsilon = 1e-5f;

typedef struct operation_2 { /* storage of any operation's descriptor, at most 5976 bytes in oneDNN 2.6 */
  int64_t room[2048];
} operation_2;

static struct {
  int (*by_tag)(int64_t *md, int rank, const int64_t *dims, int type, int tag);
  int (*by_strides)(int64_t *md, int rank, const int64_t *dims, int type, const int64_t *strides);
  int (*create)(dnn_object *, const operation_2 *, dnn_object attributes, dnn_object engine, dnn_object hint);
  int (*conv)(operation_2 *, int kind, int algorithm, dnn_own src, dnn_own weights, dnn_own bias, dnn_own dst,
              const int64_t *strides, const int64_t *dilates, const int64_t *before, const int64_t *after);
  int (*conv_data)(operation_2 *, int algorithm, dnn_own diff_src, dnn_own weights, dnn_own diff_dst,
                   const int64_t *strides, const int64_t *dilates, const int64_t *before, const int64_t *after);
  int (*conv_weights)(operation_2 *, int algorithm, dnn_own src, dnn_own diff_weights, dnn_own diff_bias,
                      dnn_own diff_dst, const int64_t *strides, const int64_t *dilates, const int64_t *before,
                      const int64_t *after);
  int (*norm)(operation_2 *, int kind, dnn_own, float epsilon, unsigned flags);
  int (*norm_grad)(operation_2 *, int kind, dnn_own diff, dnn_own, float epsilon, unsigned flags);
  int (*eltwise)(operation_2 *, int kind, int algorithm, dnn_own, float alpha, float beta);
  int (*eltwise_grad)(operation_2 *, int algorithm, dnn_own diff, dnn_own, float alpha, float beta);
  int (*pool)(operation_2 *, int kind, int algorithm, dnn_own src, dnn_own dst, const int64_t *strides,
              const int64_t *kernel, const int64_t *before, const int64_t *after);
  int (*pool_grad)(operation_2 *, int algorithm, dnn_own src, dnn_own dst, const int64_t *strides,
                   const int64_t *kernel, const int64_t *before, const int64_t *after);
  int (*binary)(operation_2 *, int algorithm, dnn_own, dnn_own, dnn_own dst);
  int (*product)(operation_2 *, int kind, dnn_own src, dnn_own weights, dnn_own bias, dnn_own dst);
  int (*matmul)(operation_2 *, dnn_own src, dnn_own weights, dnn_own bias, dnn_own dst);
} two;

static struct {
  int (*by_tag)(dnn_object *, int rank, const int64_t *dims, int type, int tag);
  int (*by_strides)(dnn_object *, int rank, const int64_t *dims, int type, const int64_t *strides);
  int (*md_destroy)(dnn_object);
  int (*conv)(dnn_object *, dnn_object engine, int kind, int algorithm, dnn_own src, dnn_own weights, dnn_own bias,
              dnn_own dst, const int64_t *strides, const int64_t *dilates, const int64_t *before, const int64_t *after,
              dnn_object attributes);
  int (*conv_data)(dnn_object *, dnn_object engine, int algorithm, dnn_own diff_src, dnn_own weights, dnn_own diff_dst,
                   const int64_t *strides, const int64_t *dilates, const int64_t *before, const int64_t *after,
                   dnn_object hint, dnn_object attributes);
  int (*conv_weights)(dnn_object *, dnn_object engine, int algorithm, dnn_own src, dnn_own diff_weights,
                      dnn_own diff_bias, dnn_own diff_dst, const int64_t *strides, const int64_t *dilates,
                      const int64_t *before, const int64_t *after, dnn_object hint, dnn_object attributes);
  int (*norm)(dnn_object *, dnn_object engine, int kind, dnn_own src, dnn_own dst, float epsilon, unsigned flags,
              dnn_object attributes);
  int (*norm_grad)(dnn_object *, dnn_object engine, int kind, dnn_own diff_src, dnn_own diff_dst, dnn_own src,
                   float epsilon, unsigned flags, dnn_object hint, dnn_object attributes);
  int (*eltwise)(dnn_object *, dnn_object engine, int kind, int algorithm, dnn_own src, dnn_own dst, float alpha,
                 float beta, dnn_object attributes);
  int (*eltwise_grad)(dnn_object *, dnn_object engine, int algorithm, dnn_own diff_src, dnn_own diff_dst, dnn_own data,
                      float alpha, float beta, dnn_object hint, dnn_object attributes);
  int (*pool)(dnn_object *, dnn_object engine, int kind, int algorithm, dnn_own src, dnn_own dst,
              const int64_t *strides, const int64_t *kernel, const int64_t *dilates, const int64_t *before,
              const int64_t *after, dnn_object attributes);
  int (*pool_grad)(dnn_object *, dnn_object engine, int algorithm, dnn_own diff_src, dnn_own diff_dst,
                   const int64_t *strides, const int64_t *kernel, const int64_t *dilates, const int64_t *before,
                   const int64_t *after, dnn_object hint, dnn_object attributes);
  int (*binary)(dnn_object *, dnn_object engine, int algorithm, dnn_own, dnn_own, dnn_own dst, dnn_object attributes);
  int (*product)(dnn_object *, dnn_object engine, int kind, dnn_own src, dnn_own weights, dnn_own bias, dnn_own dst,
                 dnn_object attributes);
  int (*matmul)(dnn_object *, dnn_object engine, dnn_own src, dnn_own weights, dnn_own bias, dnn_own dst,
                dnn_object attributes);
} three;

static const clade__symbol symbols_2[] = {{"dnnl_memory_desc_init_by_tag", &two.by_tag},
                                          {"dnnl_memory_desc_init_by_strides", &two.by_strides},
                                          {"dnnl_primitive_desc_create", &two.create},
                                          {"dnnl_dilated_convolution_forward_desc_init", &two.conv},
                                          {"dnnl_dilated_convolution_backward_data_desc_init", &two.conv_data},
                                          {"dnnl_dilated_convolution_backward_weights_desc_init", &two.conv_weights},
                                          {"dnnl_batch_normalization_forward_desc_init", &two.norm},
                                          {"dnnl_batch_normalization_backward_desc_init", &two.norm_grad},
                                          {"dnnl_eltwise_forward_desc_init", &two.eltwise},
                                          {"dnnl_eltwise_backward_desc_init", &two.eltwise_grad},
                                          {"dnnl_pooling_forward_desc_init", &two.pool},
                                          {"dnnl_pooling_backward_desc_init", &two.pool_grad},
                                          {"dnnl_binary_desc_init", &two.binary},
                                          {"dnnl_inner_product_forward_desc_init", &two.product},
                                          {"dnnl_matmul_desc_init", &two.matmul}};
static const clade__symbol symbols_3[] = {
    {"dnnl_memory_desc_create_with_tag", &three.by_tag},
    {"dnnl_memory_desc_create_with_strides", &three.by_strides},
    {"dnnl_memory_desc_destroy", &three.md_destroy},
    {"dnnl_convolution_forward_primitive_desc_create", &three.conv},
    {"dnnl_convolution_backward_data_primitive_desc_create", &three.conv_data},
    {"dnnl_convolution_backward_weights_primitive_desc_create", &three.conv_weights},
    {"dnnl_batch_normalization_forward_primitive_desc_create", &three.norm},
    {"dnnl_batch_normalization_backward_primitive_desc_create", &three.norm_grad},
    {"dnnl_eltwise_forward_primitive_desc_create", &three.eltwise},
    {"dnnl_eltwise_backward_primitive_desc_create", &three.eltwise_grad},
    {"dnnl_pooling_forward_primitive_desc_create", &three.pool},
    {"dnnl_pooling_backward_primitive_desc_create", &three.pool_grad},
    {"dnnl_binary_primitive_desc_create", &three.binary},
    {"dnnl_inner_product_forward_primitive_desc_create", &three.product},
    {"dnnl_matmul_primitive_desc_create", &three.matmul}};
static const clade__symbol symbols[] = {{"dnnl_get_effective_cpu_isa", &bench_dnn.isa},
                                        {"dnnl_engine_create", &bench_dnn.engine_create},
                                        {"dnnl_stream_create", &bench_dnn.stream_create},
                                        {"dnnl_stream_wait", &bench_dnn.stream_wait},
                                        {"dnnl_memory_desc_equal", &bench_dnn.md_equal},
                                        {"dnnl_memory_desc_get_size", &bench_dnn.md_size},
                                        {"dnnl_memory_create", &bench_dnn.memory_create},
                                        {"dnnl_memory_destroy", &bench_dnn.memory_destroy},
                                        {"dnnl_memory_get_data_handle", &bench_dnn.memory_data},
                                        {"dnnl_primitive_desc_destroy", &bench_dnn.desc_destroy},
                                        {"dnnl_primitive_desc_query_md", &bench_dnn.query_md},
                                        {"dnnl_primitive_desc_query", &bench_dnn.query},
                                        {"dnnl_reorder_primitive_desc_create", &bench_dnn.reorder_create},
                                        {"dnnl_primitive_create", &bench_dnn.primitive_create},
                                        {"dnnl_primitive_destroy", &bench_dnn.primitive_destroy},
                                        {"dnnl_primitive_execute", &bench_dnn.execute},
                                        {"omp_set_num_threads", &bench_dnn.set_threads},
                                        {"omp_get_max_threads", &bench_dnn.threads}};

/* Newest first. The file's name determines the version: upstream's name and Debian's. */
static const struct {
  int version;
  const char *file;
  int n;
  const clade__symbol *symbols;
} versions[] = {{3, "libdnnl.so.3", CLADE_COUNT(symbols_3), symbols_3},
                {3, "libdnnl.so.3.6", CLADE_COUNT(symbols_3), symbols_3},
                {2, "libdnnl.so.2", CLADE_COUNT(symbols_2), symbols_2}};
static int version; /* of the open library; 0: none */

const char *bench_dnn_load_version(void) {
  static const char packages[] = "libdnnl2 (Debian 12) or libdnnl3.6 (Debian 13)";
  const char *reason = NULL;
  for (size_t i = 0; i < CLADE_COUNT(versions) && !version; i++) {
    reason = bench_library(versions[i].file, packages, versions[i].n, versions[i].symbols);
    if (!reason) reason = bench_library(versions[i].file, packages, CLADE_COUNT(symbols), symbols);
    if (!reason) version = versions[i].version;
  }
  return version ? NULL : reason;
}

static int tag_of(const dnn_md *md) {
  static const int plain[][DNN_RANK + 1] = {[2] = {0, 2, 3, 4, 5, 7, 8}, [3] = {0, 2, 3, 4, 5, 6, 7}};
  static const int tags[][DNN_ABCD8B + 1] = {
      [2] = {[DNN_ANY] = 1, [DNN_ACDB] = 20, [DNN_ABCD16B] = 69, [DNN_ABCD8B] = 93},
      [3] = {[DNN_ANY] = 1, [DNN_ACDB] = 22, [DNN_ABCD16B] = 78, [DNN_ABCD8B] = 102}};
  return md->tag == DNN_PLAIN ? plain[version][md->rank] : tags[version][md->tag];
}

bool bench_dnn_open(const dnn_md *md, dnn_open *out) {
  const bool strides = md->tag == DNN_STRIDES;
  out->object = NULL;
  if (version == 2) {
    out->md = out->room;
    return !(strides ? two.by_strides(out->room, md->rank, md->dims, md->type, md->strides)
                     : two.by_tag(out->room, md->rank, md->dims, md->type, tag_of(md)));
  }
  bool made = !(strides ? three.by_strides(&out->object, md->rank, md->dims, md->type, md->strides)
                        : three.by_tag(&out->object, md->rank, md->dims, md->type, tag_of(md)));
  out->md = out->object;
  return made;
}

void bench_dnn_close(dnn_open *open) {
  if (open->object) three.md_destroy(open->object);
  open->object = NULL;
}

/* The forward operation of a derivative; other kinds are their own. */
static dnn_kind forward_of(dnn_kind kind) {
  switch (kind) {
  case DNN_CONV_DATA:
  case DNN_CONV_WEIGHTS: return DNN_CONV;
  case DNN_NORM_GRAD: return DNN_NORM;
  case DNN_RELU_GRAD: return DNN_RELU;
  case DNN_POOL_GRAD: return DNN_POOL;
  default: return kind;
  }
}

static int init_2(const dnn_work *w, const dnn_own *t, operation_2 *o) {
  const int how = w->train ? TRAINING : INFERENCE;
  const unsigned flags = SCALE_AND_SHIFT_2 | (w->train ? 0 : GLOBAL_STATISTICS);
  switch (w->kind) {
  case DNN_CONV: return two.conv(o, how, w->algorithm, t[0], t[1], NULL, t[2], w->strides, w->more, w->pads, w->pads);
  case DNN_CONV_DATA: return two.conv_data(o, w->algorithm, t[0], t[1], t[2], w->strides, w->more, w->pads, w->pads);
  case DNN_CONV_WEIGHTS:
    return two.conv_weights(o, w->algorithm, t[0], t[1], NULL, t[2], w->strides, w->more, w->pads, w->pads);
  case DNN_NORM: return two.norm(o, how, t[0], epsilon, flags);
  case DNN_NORM_GRAD: return two.norm_grad(o, BACKWARD, t[0], t[0], epsilon, flags);
  case DNN_RELU: return two.eltwise(o, how, RELU_2, t[0], 0, 0);
  case DNN_RELU_GRAD: return two.eltwise_grad(o, RELU_2, t[0], t[0], 0, 0);
  case DNN_POOL: return two.pool(o, how, w->algorithm, t[0], t[1], w->strides, w->kernel, w->pads, w->pads);
  case DNN_POOL_GRAD: return two.pool_grad(o, w->algorithm, t[0], t[1], w->strides, w->kernel, w->pads, w->pads);
  case DNN_ADD: return two.binary(o, ADD, t[0], t[0], t[0]);
  case DNN_PRODUCT: return two.product(o, INFERENCE, t[0], t[1], NULL, t[2]);
  case DNN_MATMUL: return two.matmul(o, t[0], t[1], NULL, t[2]);
  }
  return 1;
}

static int make_3(const dnn_work *w, const dnn_own *t, dnn_object hint, dnn_object *out) {
  const dnn_object e = bench_dnn.engine;
  const int how = w->train ? TRAINING : INFERENCE;
  const unsigned flags = SCALE_3 | SHIFT_3 | (w->train ? 0 : GLOBAL_STATISTICS);
  switch (w->kind) {
  case DNN_CONV:
    return three.conv(out, e, how, w->algorithm, t[0], t[1], NULL, t[2], w->strides, w->more, w->pads, w->pads, NULL);
  case DNN_CONV_DATA:
    return three.conv_data(out, e, w->algorithm, t[0], t[1], t[2], w->strides, w->more, w->pads, w->pads, hint, NULL);
  case DNN_CONV_WEIGHTS:
    return three.conv_weights(out, e, w->algorithm, t[0], t[1], NULL, t[2], w->strides, w->more, w->pads, w->pads, hint,
                              NULL);
  case DNN_NORM: return three.norm(out, e, how, t[0], t[0], epsilon, flags, NULL);
  case DNN_NORM_GRAD: return three.norm_grad(out, e, BACKWARD, t[0], t[0], t[0], epsilon, flags, hint, NULL);
  case DNN_RELU: return three.eltwise(out, e, how, RELU_3, t[0], t[0], 0, 0, NULL);
  case DNN_RELU_GRAD: return three.eltwise_grad(out, e, RELU_3, t[0], t[0], t[0], 0, 0, hint, NULL);
  case DNN_POOL:
    return three.pool(out, e, how, w->algorithm, t[0], t[1], w->strides, w->kernel, w->more, w->pads, w->pads, NULL);
  case DNN_POOL_GRAD:
    return three.pool_grad(out, e, w->algorithm, t[0], t[1], w->strides, w->kernel, w->more, w->pads, w->pads, hint,
                           NULL);
  case DNN_ADD: return three.binary(out, e, ADD, t[0], t[0], t[0], NULL);
  case DNN_PRODUCT: return three.product(out, e, INFERENCE, t[0], t[1], NULL, t[2], NULL);
  case DNN_MATMUL: return three.matmul(out, e, t[0], t[1], NULL, t[2], NULL);
  }
  return 1;
}

static bool make(const dnn_work *w, const dnn_own *tensors, dnn_object hint, dnn_object *out) {
  operation_2 operation;
  if (version == 3) return !make_3(w, tensors, hint, out);
  return !init_2(w, tensors, &operation) && !two.create(out, &operation, NULL, bench_dnn.engine, hint);
}

bool bench_dnn_make(const dnn_work *work, dnn_object *out) {
  dnn_open open[DNN_TENSORS] = {{{0}, NULL, NULL}};
  dnn_own tensors[DNN_TENSORS] = {NULL};
  dnn_object hint = NULL;
  dnn_work forward = *work;
  bool made = true;
  forward.kind = forward_of(work->kind);
  if (forward.kind != work->kind) made = bench_dnn_make(&forward, &hint);
  for (int i = 0; i < DNN_TENSORS && made; i++) {
    if (!work->md[i].rank) continue;
    made = bench_dnn_open(&work->md[i], &open[i]);
    tensors[i] = open[i].md;
  }
  made = made && make(work, tensors, hint, out);
  for (int i = 0; i < DNN_TENSORS; i++) bench_dnn_close(&open[i]);
  if (hint) bench_dnn.desc_destroy(hint);
  return made;
}

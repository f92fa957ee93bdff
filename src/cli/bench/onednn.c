/* oneDNN, opened where it is installed: its functions, and tensors that go between plain layouts and its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/onednn.h"

dnn_functions bench_dnn;

static const char *begin(const bench_job *job) {
  static char reason[160];
  const dnn_version *version = bench_dnn.version();
  if (version->major != 2) {
    snprintf(reason, sizeof reason, "it is version %d.%d; 2 is expected", version->major, version->minor);
    return reason;
  }
  bench_dnn.set_threads(bench_threads(job));
  if (!bench_dnn.stream && (bench_dnn.engine_create(&bench_dnn.engine, DNN_CPU, 0) ||
                            bench_dnn.stream_create(&bench_dnn.stream, bench_dnn.engine, 1)))
    return "it makes no engine for this CPU";
  return NULL;
}

const char *bench_dnn_load(const bench_job *job) {
  dnn_functions *d = &bench_dnn;
  const clade__symbol symbols[] = {{"dnnl_version", &d->version},
                                   {"dnnl_get_effective_cpu_isa", &d->isa},
                                   {"dnnl_engine_create", &d->engine_create},
                                   {"dnnl_stream_create", &d->stream_create},
                                   {"dnnl_stream_wait", &d->stream_wait},
                                   {"dnnl_memory_desc_init_by_tag", &d->md_init},
                                   {"dnnl_memory_desc_init_by_strides", &d->md_strides},
                                   {"dnnl_memory_desc_equal", &d->md_equal},
                                   {"dnnl_memory_create", &d->memory_create},
                                   {"dnnl_memory_destroy", &d->memory_destroy},
                                   {"dnnl_primitive_desc_create", &d->desc_create},
                                   {"dnnl_primitive_desc_destroy", &d->desc_destroy},
                                   {"dnnl_primitive_desc_query_md", &d->query_md},
                                   {"dnnl_primitive_desc_query", &d->query},
                                   {"dnnl_reorder_primitive_desc_create", &d->reorder_create},
                                   {"dnnl_primitive_create", &d->primitive_create},
                                   {"dnnl_primitive_destroy", &d->primitive_destroy},
                                   {"dnnl_primitive_execute", &d->execute},
                                   {"dnnl_dilated_convolution_forward_desc_init", &d->conv_forward},
                                   {"dnnl_dilated_convolution_backward_data_desc_init", &d->conv_data},
                                   {"dnnl_dilated_convolution_backward_weights_desc_init", &d->conv_weights},
                                   {"dnnl_batch_normalization_forward_desc_init", &d->norm_forward},
                                   {"dnnl_batch_normalization_backward_desc_init", &d->norm_backward},
                                   {"dnnl_eltwise_forward_desc_init", &d->eltwise_forward},
                                   {"dnnl_eltwise_backward_desc_init", &d->eltwise_backward},
                                   {"dnnl_pooling_forward_desc_init", &d->pool_forward},
                                   {"dnnl_pooling_backward_desc_init", &d->pool_backward},
                                   {"dnnl_binary_desc_init", &d->binary},
                                   {"dnnl_inner_product_forward_desc_init", &d->product_forward},
                                   {"dnnl_matmul_desc_init", &d->matmul},
                                   {"dnnl_memory_desc_get_size", &d->md_size},
                                   {"dnnl_memory_get_data_handle", &d->memory_data},
                                   {"omp_set_num_threads", &d->set_threads},
                                   {"omp_get_max_threads", &d->threads}};
  const char *reason = bench_library("libdnnl.so.2", "libdnnl2", (int)CLADE_COUNT(symbols), symbols);
  return reason ? reason : begin(job);
}

void bench_dnn_tell(dnn_object desc, bench_side *side) {
  static const struct {
    int isa;
    const char *name;
  } names[] = {{1, "SSE4.1"},         {3, "AVX"},      {7, "AVX2"},
               {1031, "AVX2 VNNI"},   {39, "AVX-512"}, {103, "AVX-512 VNNI"},
               {231, "AVX-512 BF16"}, {999, "AMX"}};
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
    double start = bench_now();
    if (call(contestant) != CLADE_OK) return INFINITY;
    best = fmin(best, bench_now() - start);
  }
  return best;
}

void *bench_dnn_faster(void *first, void *second, clade_status (*call)(void *), void (*release)(void *)) {
  bool better = seconds_of(second, call) < seconds_of(first, call);
  void *loser = better ? first : second;
  if (loser) release(loser);
  return better ? second : first;
}

static bool reorder(const dnn_md *from, const dnn_md *to, dnn_object *out) {
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

bool bench_dnn_tensor(dnn_tensor *t, const dnn_md *plain, const dnn_md *own, size_t elements, const float *from) {
  void *data;
  *t = (dnn_tensor){.elements = elements, .from = from};
  if (posix_memalign(&data, 64, CLADE_MAX(elements, (size_t)1) * sizeof(float))) return false;
  t->data = data;
  if (from)
    memcpy(data, from, elements * sizeof(float));
  else
    memset(data, 0, elements * sizeof(float));
  if (bench_dnn.memory_create(&t->plain, plain, bench_dnn.engine, data)) return false;
  if (bench_dnn.md_equal(plain, own)) {
    t->own = t->plain;
    return true;
  }
  return !bench_dnn.memory_create(&t->own, own, bench_dnn.engine, DNN_ALLOCATE) && reorder(plain, own, &t->in) &&
         reorder(own, plain, &t->out) && (!from || bench_dnn_move(t->in, t->plain, t->own));
}

void bench_dnn_tensor_free(dnn_tensor *t) {
  if (t->in) bench_dnn.primitive_destroy(t->in);
  if (t->out) bench_dnn.primitive_destroy(t->out);
  if (t->own && t->own != t->plain) bench_dnn.memory_destroy(t->own);
  if (t->plain) bench_dnn.memory_destroy(t->plain);
  free(t->data);
}

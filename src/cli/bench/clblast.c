/* CLBlast as a contestant: SGEMM on an own queue, with buffers in this device's context. */
#include <stdio.h>

#include "cli/bench/bench.h"
#include "cl/cl.h"

enum { ROW_MAJOR = 101, NO = 111, YES = 112 };
static struct {
  int (*sgemm)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_at,
               size_t lda, cl_mem b, size_t b_at, size_t ldb, float beta, cl_mem c, size_t c_at, size_t ldc,
               cl_command_queue *queue, cl_event *event);
} clblast;

typedef struct contestant {
  const bench_gemm_work *work;
  clade_device *device;
  clade__queue *queue;
  clade__buffer *a, *b, *c;
} contestant;

static clade_status write(contestant *s, clade__buffer *to, const float *from, size_t elements) {
  return clade__queue_write(s->queue, to, 0, from, elements * sizeof *from, true, (clade__wait){0}, NULL);
}

static clade_status refresh(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  if (!w->frozen_a) CLADE_TRY(write(s, s->a, w->a, (size_t)w->n_a * w->a_elements));
  if (!w->frozen_b) CLADE_TRY(write(s, s->b, w->b, (size_t)w->n_b * w->b_elements));
  return CLADE_OK;
}

static clade_status multiply(contestant *s, clade__buffer *a, size_t a_at, size_t b_at, size_t c_at) {
  const bench_gemm_work *w = s->work;
  size_t m = (size_t)w->m, n = (size_t)w->n, k = (size_t)w->k;
  cl_command_queue queue = clade__queue_handle(s->queue);
  for (size_t j = 0; j < (size_t)w->batch; j++) {
    int code = clblast.sgemm(ROW_MAJOR, w->trans_a ? YES : NO, w->trans_b ? YES : NO, m, n, k, 1, clade__buffer_mem(a),
                             a_at + j * m * k, w->trans_a ? m : k, clade__buffer_mem(s->b), b_at + j * k * n,
                             w->trans_b ? k : n, 0, clade__buffer_mem(s->c), c_at + j * m * n, n, &queue, NULL);
    if (code) return CLADE_FAIL(OPENCL, "CLBlast's SGEMM failed: status %d", code);
  }
  return CLADE_OK;
}

static clade_status call(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  for (size_t i = 0; i < (size_t)w->chain; i++) {
    bool linked = w->linked && i;
    CLADE_TRY(multiply(s, linked ? s->c : s->a,
                       linked       ? (i - 1) * w->c_elements
                       : w->n_a > 1 ? i * w->a_elements
                                    : 0,
                       w->n_b > 1 ? i * w->b_elements : 0, i * w->c_elements));
  }
  return clade__queue_finish(s->queue);
}

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  size_t at = s->work->linked ? (size_t)s->work->chain - 1 : (size_t)index,
         bytes = s->work->c_elements * sizeof *result;
  return clade__queue_read(s->queue, s->c, at * bytes, result, bytes, true, (clade__wait){0}, NULL);
}

static void release(void *state) {
  contestant *s = state;
  clade__queue_free(s->queue);
  clade__buffer_release(s->a);
  clade__buffer_release(s->b);
  clade__buffer_release(s->c);
  clade__free(s);
}

static clade_status buffers(contestant *s) {
  const bench_gemm_work *w = s->work;
  size_t a = (size_t)w->n_a * w->a_elements, b = (size_t)w->n_b * w->b_elements, c = (size_t)w->chain * w->c_elements;
  CLADE_TRY(clade__queue_new(s->device, false, &s->queue));
  CLADE_TRY(clade__buffer_new(s->device, a * sizeof(float), "CLBlast's A", &s->a));
  CLADE_TRY(clade__buffer_new(s->device, b * sizeof(float), "CLBlast's B", &s->b));
  CLADE_TRY(clade__buffer_new(s->device, c * sizeof(float), "CLBlast's C", &s->c));
  CLADE_TRY(write(s, s->a, w->a, a));
  return write(s, s->b, w->b, b);
}

const char *bench_clblast(const bench_job *job, const bench_gemm_work *work, bench_side *side) {
  const clade__symbol symbols[] = {{"CLBlastSgemm", &clblast.sgemm}};
  const char *reason = bench_library("libclblast.so.1", "libclblast1", 1, symbols);
  if (reason) return reason;
  if (job->dtype != CLADE_F32) return "it is asked for f32";
  if (2.0 * (double)(work->batch * work->m * work->n * work->chain) * (double)work->k > 2e10)
    return "it would take seconds for a call of more than 20 GFLOP: those are left out";
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return "there is no memory for it";
  s->work = work;
  s->device = job->device;
  if (buffers(s) != CLADE_OK) {
    release(s);
    return "there is no device memory for it";
  }
  *side = (bench_side){.name = "clblast",
                       .state = s,
                       .refresh = refresh,
                       .call = call,
                       .read = read_result,
                       .free = release,
                       .threads = (int)job->info.compute_units};
  snprintf(side->kernel, sizeof side->kernel, "CLBlastSgemm, as it is tuned by default");
  snprintf(side->isa, sizeof side->isa, "OpenCL");
  return NULL;
}

/* CLBlast as a contestant: SGEMM on an own queue, with buffers in this device's context. */
#include <stdio.h>

#include "cli/bench/gemm.h"
#include "cl/cl.h"

enum { ROW_MAJOR = 101, NO = 111, YES = 112 };
static struct {
  int (*sgemm)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_at,
               size_t lda, cl_mem b, size_t b_at, size_t ldb, float beta, cl_mem c, size_t c_at, size_t ldc,
               cl_command_queue *queue, cl_event *event);
} clblast;

typedef struct contestant {
  const bench_gemm_work *work;
  clade__queue *queue;
  clade__buffer *at[BENCH_OPERANDS];
} contestant;

static size_t bytes_of(const bench_gemm_work *w, int role) {
  return (size_t)w->count[role] * w->elements[role] * sizeof(float);
}

static clade_status write(contestant *s, int role) {
  return clade__queue_write(s->queue, s->at[role], 0, s->work->data[role], bytes_of(s->work, role), true,
                            (clade__wait){0}, NULL);
}

static clade_status refresh(void *state) {
  contestant *s = state;
  for (int i = BENCH_A; i <= BENCH_B; i++)
    if (!s->work->frozen[i]) CLADE_TRY(write(s, i));
  return CLADE_OK;
}

static clade_status call(void *state) {
  contestant *s = state;
  const bench_gemm_work *w = s->work;
  const bool trans_a = w->trans[BENCH_A], trans_b = w->trans[BENCH_B];
  const size_t m = (size_t)w->m, n = (size_t)w->n, k = (size_t)w->k;
  cl_command_queue queue = clade__queue_handle(s->queue);
  for (int64_t i = 0; i < w->chain; i++)
    for (int64_t j = 0; j < w->batch; j++) {
      const bench_gemm_place at = bench_gemm_place_of(w, i, j);
      const int code = clblast.sgemm(ROW_MAJOR, trans_a ? YES : NO, trans_b ? YES : NO, m, n, k, 1,
                                     clade__buffer_mem(s->at[at.linked ? BENCH_C : BENCH_A]), at.a, trans_a ? m : k,
                                     clade__buffer_mem(s->at[BENCH_B]), at.b, trans_b ? k : n, 0,
                                     clade__buffer_mem(s->at[BENCH_C]), at.c, n, &queue, NULL);
      if (code) return CLADE_FAIL(OPENCL, "CLBlast's SGEMM failed: status %d", code);
    }
  return clade__queue_finish(s->queue);
}

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  const size_t bytes = s->work->elements[BENCH_C] * sizeof *result;
  return clade__queue_read(s->queue, s->at[BENCH_C], (size_t)bench_gemm_call(s->work, index) * bytes, result, bytes,
                           true, (clade__wait){0}, NULL);
}

static void release(void *state) {
  contestant *s = state;
  clade__queue_free(s->queue);
  for (int i = 0; i < BENCH_OPERANDS; i++) clade__buffer_release(s->at[i]);
  clade__free(s);
}

static clade_status buffers(clade_device *device, contestant *s) {
  static const char *const names[BENCH_OPERANDS] = {"CLBlast's A", "CLBlast's B", "CLBlast's C"};
  CLADE_TRY(clade__queue_new(device, false, &s->queue));
  for (int i = 0; i < BENCH_OPERANDS; i++) {
    CLADE_TRY(clade__buffer_new(device, bytes_of(s->work, i), names[i], &s->at[i]));
    if (i != BENCH_C) CLADE_TRY(write(s, i));
  }
  return CLADE_OK;
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
  if (buffers(job->device, s) != CLADE_OK) {
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

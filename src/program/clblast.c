/* CLBlast: products, and convolutions as products. It compiles a routine's kernels at the first call. */
#include "cl/foreign.h"
#include "program/libraries.h"

enum { ROW_MAJOR = 101, NO = 111, YES = 112, CROSS_CORRELATION = 151 }; /* from CLBlast's headers */

static int (*gemm)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                   size_t a_at, size_t a_ld, size_t a_stride, cl_mem b, size_t b_at, size_t b_ld, size_t b_stride,
                   float beta, cl_mem c, size_t c_at, size_t c_ld, size_t c_stride, size_t batches,
                   cl_command_queue *queue, cl_event *event);
static int (*convgemm)(int mode, size_t channels, size_t height, size_t width, size_t kernel_h, size_t kernel_w,
                       size_t pad_h, size_t pad_w, size_t stride_h, size_t stride_w, size_t dilation_h,
                       size_t dilation_w, size_t filters, size_t images, cl_mem x, size_t x_at, cl_mem w, size_t w_at,
                       cl_mem y, size_t y_at, cl_command_queue *queue, cl_event *event);

static const clade__symbol symbols[] = {{"CLBlastSgemmStridedBatched", &gemm}, {"CLBlastSconvgemm", &convgemm}};

static clade__foreign library = {.name = "clblast",
                                 .file = "libclblast.so.1",
                                 .package = "libclblast1",
                                 .symbols = symbols,
                                 .n_symbols = CLADE_COUNT(symbols)};

const char *clade__clblast_missing(void) { return clade__foreign_missing(&library); }

/* ---- products ---- */
static clade_status multiply(const clade_library_call *call) {
  const clade__clblast_product *w = call->work;
  cl_command_queue queue = call->queue;
  size_t at[3];
  for (int i = 0; i < 3; i++) at[i] = call->offset[i] / sizeof(float);
  int code = gemm(ROW_MAJOR, w->trans[0] ? YES : NO, w->trans[1] ? YES : NO, w->m, w->n, w->k, w->alpha,
                  call->memory[0], at[0], w->ld[0], w->stride[0], call->memory[1], at[1], w->ld[1], w->stride[1], 0,
                  call->memory[2], at[2], w->n, w->m * w->n, w->batches, &queue, call->event);
  return clade__foreign_check(call->device, "CLBlastSgemmStridedBatched", code);
}

/* ---- convolutions ---- */
static clade_status convolve(const clade_library_call *call) {
  const clade__clblast_conv *w = call->work;
  cl_command_queue queue = call->queue;
  size_t at[3];
  for (int i = 0; i < 3; i++) at[i] = call->offset[i] / sizeof(float);
  int code = convgemm(CROSS_CORRELATION, w->channels, w->size[0], w->size[1], w->kernel[0], w->kernel[1], w->pad[0],
                      w->pad[1], w->stride[0], w->stride[1], w->dilation[0], w->dilation[1], w->filters, w->images,
                      call->memory[0], at[0], call->memory[1], at[1], call->memory[2], at[2], &queue, call->event);
  return clade__foreign_check(call->device, "CLBlastSconvgemm", code);
}

/* ---- preparation: a tiny call compiles all kernels that the routine may need ---- */
static clade_status try_out(clade_device *device, clade_status (*call)(const clade_library_call *), const void *work) {
  clade__queue *queue = NULL;
  clade__buffer *buffer[3] = {NULL};
  cl_mem memory[3];
  clade_status status = clade__queue_new(device, false, &queue);
  for (int i = 0; i < 3 && status == CLADE_OK; i++) {
    status = clade__buffer_new(device, sizeof(float), "CLBlast's first call", &buffer[i]);
    if (status == CLADE_OK) memory[i] = clade__buffer_mem(buffer[i]);
  }
  if (status == CLADE_OK)
    status = call(&(clade_library_call){.size = sizeof(clade_library_call),
                                        .work = work,
                                        .device = device,
                                        .queue = clade__queue_handle(queue),
                                        .n = 3,
                                        .memory = memory,
                                        .offset = (size_t[3]){0}});
  if (status == CLADE_OK) status = clade__queue_finish(queue);
  clade__queue_free(queue);
  for (int i = 0; i < 3; i++) clade__buffer_release(buffer[i]);
  return status;
}

static clade_status prepare_gemm(const void *work, clade_device *device, void **state) {
  const clade__clblast_product least = {.m = 1, .n = 1, .k = 1, .batches = 1, .ld = {1, 1}, .stride = {1, 1}};
  (void)work, (void)state;
  return try_out(device, multiply, &least);
}

static clade_status prepare_convgemm(const void *work, clade_device *device, void **state) {
  const clade__clblast_conv least = {
      .images = 1, .channels = 1, .filters = 1, .size = {1, 1}, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  (void)work, (void)state;
  return try_out(device, convolve, &least);
}

const clade_library clade__clblast_gemm = {.size = sizeof(clade_library), .prepare = prepare_gemm, .enqueue = multiply};
const clade_library clade__clblast_convgemm = {
    .size = sizeof(clade_library), .prepare = prepare_convgemm, .enqueue = convolve};

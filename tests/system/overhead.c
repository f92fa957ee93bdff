/* Clade's overhead over plain OpenCL, measured alternately in one process: a step of a chain of launches against
 * clEnqueueNDRangeKernel in a loop, and copies of 64 MiB against clEnqueueWriteBuffer and clEnqueueReadBuffer. */
#include <clade/clade.h>
#include <clade/opencl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 400, ROUNDS = 15, COPY = 64 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "overhead: %s: %s\n", what, clade_last_error());
  exit(1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}
static double median(double *x) {
  qsort(x, ROUNDS, sizeof *x, by_value);
  return x[ROUNDS / 2];
}

/* An op with a trivial kernel, so that the launch dominates; both sides use the same kernel. */
static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}
static const size_t one = 1;
static clade_status emit(clade_emit *e, const clade_query *q) {
  (void)q;
  clade_kernel_step *s = clade_emit_kernel(e, "step");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_i32(s, 1);
  clade_emit_range(s, 1, &one, &one);
  return CLADE_OK;
}
static const char source[] = "KERNEL(step)(ARG(float, x), ARG(float, y), int n) {\n"
                             "  USE(float, x);\n  USE(float, y);\n  if (n > 0) y[0] = x[0] + 1.0f;\n}\n";
static const char bare[] = "__kernel void advance(__global float *x, int a, __global float *y, int b, int n) {\n"
                           "  if (n > 0) y[b] = x[a] + 1.0f;\n}\n";
static const clade_impl *const impls[] = {CLADE_IMPL(.name = "ref", .emit = emit), NULL};
static const clade_op step_op = {.size = sizeof step_op,
                                 .name = "test.step",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .infer = infer,
                                 .impls = impls,
                                 .source = source};

static cl_kernel bare_kernel(cl_context context, cl_device_id id, cl_mem memory) {
  const char *text = bare;
  cl_int zero = 0, n = 1;
  cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, NULL);
  check(program && clBuildProgram(program, 1, &id, "", NULL, NULL) == CL_SUCCESS, "the bare kernel");
  cl_kernel kernel = clCreateKernel(program, "advance", NULL);
  clReleaseProgram(program);
  clSetKernelArg(kernel, 0, sizeof memory, &memory);
  clSetKernelArg(kernel, 1, sizeof zero, &zero);
  clSetKernelArg(kernel, 2, sizeof memory, &memory);
  clSetKernelArg(kernel, 3, sizeof zero, &zero);
  clSetKernelArg(kernel, 4, sizeof n, &n);
  return kernel;
}

static double launch_ratio(clade_device *device) {
  cl_context context = clade_device_context(device);
  cl_device_id id = clade_device_cl_id(device);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, NULL);
  cl_command_queue queue = clCreateCommandQueue(context, id, 0, NULL);
  cl_kernel kernel = bare_kernel(context, id, memory);

  clade_graph *g;
  clade_func *func;
  clade_run *run;
  float x = 1, y = 0;
  check(clade_graph_new(&g) == CLADE_OK, "graph");
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1));
  for (int i = 0; i < STEPS; i++) check(clade_val_ok(clade_node_add(g, &step_op, NULL, NULL, 1, &v, &v)), "node");
  clade_output(g, "y", v);
  check(clade_compile(g, device, &func) == CLADE_OK, "compile");
  check(clade_run_new(func, NULL, &run) == CLADE_OK, "run");

  double ours[ROUNDS], theirs[ROUNDS];
  for (int r = -2; r < ROUNDS; r++) {
    clade_ticket ticket;
    double start = now();
    for (int i = 0; i < STEPS; i++) clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    clFinish(queue);
    double middle = now();
    check(clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket) == CLADE_OK, "execute");
    check(clade_wait(run, ticket) == CLADE_OK, "wait");
    double end = now();
    if (r < 0) continue;
    theirs[r] = middle - start;
    ours[r] = end - middle;
  }
  clade_ticket ticket;
  check(clade_execute(run, CLADE_FEEDS({"x", &x, sizeof x, NULL}), &ticket) == CLADE_OK &&
            clade_read(run, ticket, "y", &y, sizeof y) == CLADE_OK && y == 1 + STEPS,
        "the chain's answer");
  double a = median(ours), b = median(theirs);
  printf("launch of a chain of %d: %.2f us a step, bare OpenCL %.2f us: %.2f times (<= 1.2)\n", STEPS, a / STEPS * 1e6,
         b / STEPS * 1e6, a / b);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  clReleaseKernel(kernel);
  clReleaseCommandQueue(queue);
  clReleaseMemObject(memory);
  return a / b;
}

static double copy_ratio(clade_device *device, bool write) {
  cl_context context = clade_device_context(device);
  cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, COPY, NULL, NULL);
  cl_command_queue queue = clCreateCommandQueue(context, clade_device_cl_id(device), 0, NULL);
  clade_tensor *tensor;
  char *host = malloc(COPY);
  check(host != NULL, "host memory");
  memset(host, 1, COPY);
  check(clade_tensor_new(device, CLADE_U8, CLADE_SHAPE(COPY), &tensor) == CLADE_OK, "tensor");
  /* Unwritten memory is mapped to one page of zeros, so reading it would favor plain OpenCL. */
  clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, COPY, host, 0, NULL, NULL);
  check(clade_tensor_write(tensor, host, COPY) == CLADE_OK, "write");
  double ours[ROUNDS], theirs[ROUNDS];
  for (int r = -2; r < ROUNDS; r++) {
    double start = now();
    if (write)
      clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, COPY, host, 0, NULL, NULL);
    else
      clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, COPY, host, 0, NULL, NULL);
    double middle = now();
    check((write ? clade_tensor_write(tensor, host, COPY) : clade_tensor_read(tensor, host, COPY)) == CLADE_OK, "copy");
    double end = now();
    if (r < 0) continue;
    theirs[r] = middle - start;
    ours[r] = end - middle;
  }
  double a = median(ours), b = median(theirs);
  printf("%s of 64 MiB: %.2f GB/s, bare OpenCL %.2f GB/s: %.2f times (>= 0.95)\n", write ? "write" : "read",
         COPY / a * 1e-9, COPY / b * 1e-9, b / a);
  clade_tensor_release(tensor);
  free(host);
  clReleaseCommandQueue(queue);
  clReleaseMemObject(memory);
  return b / a;
}

int main(void) {
  clade_device *device = NULL;
  check(clade_init(.log = NULL) == CLADE_OK && clade_device_find(NULL, &device) == CLADE_OK, "device");
  bool launch = false, write = false, read = false;
  for (int i = 0; i < 3; i++) { /* best of three on a shared machine */
    launch = launch || launch_ratio(device) <= 1.2;
    write = write || copy_ratio(device, true) >= 0.95;
    read = read || copy_ratio(device, false) >= 0.95;
  }
  clade_device_release(device);
  return launch && write && read ? 0 : 1;
}

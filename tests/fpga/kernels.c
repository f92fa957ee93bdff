/* The kernels of fpga/ as OpenCL programs against references in double, for odd, small and empty shapes and two
 * array sizes. They are launched by OpenCL alone, without Clade. */
#include "kernels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum access { VALUE_, READ, WRITE, READ_WRITE } access;
typedef struct argument {
  const char *type, *name;
  size_t bytes;
  access access;
} argument;
typedef struct entry {
  const char *name;
  const argument *arguments;
} entry;

#define TENSOR(type, name, access) {#type "*", #name, sizeof(cl_mem), access}, {"int", #name "_at", 4, VALUE_},
#define VALUE(type, name)          {#type, #name, sizeof(cl_##type), VALUE_},
#define KERNEL(name, ...)          static const argument name##_arguments[] = {__VA_ARGS__{NULL, NULL, 0, VALUE_}};
#include "interface.def"
#define KERNEL(name, ...) {#name, name##_arguments},
static const entry entries[] = {
#include "interface.def"
    {NULL, NULL}};

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static cl_program program;

void fail(const char *file, int line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "%s:%d: ", file, line);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  exit(1);
}

void near(const char *what, size_t at, double got, double want, double bound) {
  double off = got - want;
  if (want != want)
    REQUIRE(got != got, "%s: element %zu is %g, want NaN", what, at, got);
  else if (got < want || got > want)
    REQUIRE(off <= bound && -off <= bound, "%s: element %zu is %.9g, want %.9g within %.3g", what, at, got, want,
            bound);
  else
    REQUIRE(got == got, "%s: element %zu is NaN, want %g", what, at, want);
}

uint32_t draw(uint32_t below) {
  static uint64_t state = 42;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 33) % below);
}
double draw_real(double low, double high) { return low + (high - low) * draw(1u << 24) / (double)(1 << 24); }

int32_t instruction(unsigned fn, int wrt, int a, int b, int c, int from, int to) {
  return (int32_t)fn | wrt << 9 | a << 11 | b << 15 | c << 19 | from << 23 | to << 25;
}

/* ---- buffers ---- */
buffer buffer_floats(size_t n, double low, double high, double *value) {
  float *data = malloc(4 * n + 4);
  REQUIRE(data != NULL, "no memory");
  for (size_t i = 0; i < n; i++) value[i] = data[i] = (float)draw_real(low, high);
  buffer b = buffer_new(n, 4, data);
  free(data);
  return b;
}

void buffer_doubles(const buffer *b, double *value) {
  float *data = malloc(4 * b->n + 4);
  REQUIRE(data != NULL, "no memory");
  buffer_read(b, data);
  for (size_t i = 0; i < b->n; i++) value[i] = (double)data[i];
  free(data);
}

buffer buffer_new(size_t n, size_t element, const void *data) {
  buffer b = {NULL, n, element};
  size_t bytes = (n + 2 * GUARD) * element;
  unsigned char *room = malloc(bytes);
  cl_int error;
  REQUIRE(room != NULL, "no memory");
  memset(room, 0xff, bytes);
  if (data) memcpy(room + GUARD * element, data, n * element);
  b.mem = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, room, &error);
  REQUIRE(error == CL_SUCCESS, "clCreateBuffer: %d", error);
  free(room);
  return b;
}

void buffer_read(const buffer *b, void *data) {
  size_t bytes = (b->n + 2 * GUARD) * b->element, guard = GUARD * b->element;
  unsigned char *room = malloc(bytes);
  REQUIRE(room != NULL, "no memory");
  cl_int error = clEnqueueReadBuffer(queue, b->mem, CL_TRUE, 0, bytes, room, 0, NULL, NULL);
  REQUIRE(error == CL_SUCCESS, "clEnqueueReadBuffer: %d", error);
  for (size_t i = 0; i < bytes; i++)
    REQUIRE((i >= guard && i < bytes - guard) || room[i] == 0xff, "byte %zu outside of a buffer was written", i);
  memcpy(data, room + guard, b->n * b->element);
  free(room);
}

void buffer_free(buffer *b) {
  if (b->mem) clReleaseMemObject(b->mem);
  b->mem = NULL;
}

/* ---- the program ---- */
static const entry *find(const char *name) {
  const entry *e = entries;
  while (e->name && strcmp(e->name, name) != 0) e++;
  REQUIRE(e->name != NULL, "fpga/interface.def has no %s", name);
  return e;
}

static void open_device(cl_platform_id platform) {
  cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  REQUIRE(error == CL_SUCCESS, "no OpenCL device: %d", error);
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  REQUIRE(error == CL_SUCCESS, "clCreateContext: %d", error);
  queue = clCreateCommandQueue(context, device, 0, &error);
  REQUIRE(error == CL_SUCCESS, "clCreateCommandQueue: %d", error);
}

static void build(const char *text, const char *options) {
  char log[4000] = "";
  cl_int error;
  program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
  REQUIRE(error == CL_SUCCESS, "clCreateProgramWithSource: %d", error);
  error = clBuildProgram(program, 1, &device, options, NULL, NULL);
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
  REQUIRE(error == CL_SUCCESS, "clBuildProgram: %d\n%s", error, log);
}

void kernels_open(int pe_rows, int pe_cols) {
  char options[600];
  cl_platform_id platform;
  REQUIRE(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS, "no platform");
  open_device(platform);
  snprintf(options, sizeof options, "-I %s -cl-kernel-arg-info -DPE_ROWS=%d -DPE_COLS=%d", FPGA_SOURCES, pe_rows,
           pe_cols);
  build("#include \"clade.cl\"\n", options);
}

void kernels_open_hollow(const char *name) {
  char text[4000];
  cl_platform_id platforms[8];
  cl_uint n = 0;
  size_t bytes = 0;
  unsigned char *binary;
  int at = snprintf(text, sizeof text, "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void %s(", name);
  for (const argument *a = find(name)->arguments; a->type; a++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%s %s%s", a->access == VALUE_ ? "" : "__global ", a->type,
                   a->name, a[1].type ? ", " : ") {}\n");
  REQUIRE(clGetPlatformIDs(8, platforms, &n) == CL_SUCCESS && n >= 2 && n <= 8, "%u platforms", n);
  open_device(platforms[0]);
  build(text, "-cl-kernel-arg-info");
  clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL);
  binary = malloc(bytes + 1);
  REQUIRE(binary && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS,
          "no binary");
  kernels_close();
  open_device(platforms[n - 1]);
  cl_int error;
  program = clCreateProgramWithBinary(context, 1, &device, &bytes, (const unsigned char **)&binary, NULL, &error);
  REQUIRE(error == CL_SUCCESS, "clCreateProgramWithBinary: %d", error);
  REQUIRE(clBuildProgram(program, 1, &device, "", NULL, NULL) == CL_SUCCESS, "clBuildProgram");
  free(binary);
}

void kernels_close(void) {
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
}

const char *kernels_name(int i) { return entries[i].name; }

static cl_kernel create(const char *name) {
  cl_int error;
  cl_kernel kernel = clCreateKernel(program, name, &error);
  REQUIRE(error == CL_SUCCESS, "clCreateKernel(%s): %d", name, error);
  return kernel;
}

static void compare_argument(cl_kernel kernel, const char *name, cl_uint i, const argument *want) {
  char type[64] = "", called[64] = "";
  cl_kernel_arg_address_qualifier space = 0;
  cl_kernel_arg_type_qualifier is = 0;
  cl_int error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
  if (!error) error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof called, called, NULL);
  if (!error) error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, NULL);
  if (!error) error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof is, &is, NULL);
  REQUIRE(!error, "%s: clGetKernelArgInfo(%u): %d", name, i, error);
  REQUIRE(strcmp(type, want->type) == 0, "%s: argument %u is of type %s, not %s", name, i, type, want->type);
  REQUIRE(strcmp(called, want->name) == 0, "%s: argument %u is called %s, not %s", name, i, called, want->name);
  if (want->access == VALUE_) return;
  REQUIRE(space == CL_KERNEL_ARG_ADDRESS_GLOBAL, "%s: %s is not global", name, called);
  REQUIRE(is & CL_KERNEL_ARG_TYPE_RESTRICT, "%s: %s is not restrict", name, called);
  REQUIRE(!(is & CL_KERNEL_ARG_TYPE_CONST) == (want->access != READ), "%s: %s: const fits no %s", name, called,
          want->access == READ ? "operand that is read" : "result");
}

void kernels_compare(void) {
  cl_uint count = 0;
  REQUIRE(clCreateKernelsInProgram(program, 0, NULL, &count) == CL_SUCCESS, "clCreateKernelsInProgram");
  REQUIRE(count + 1 == sizeof entries / sizeof *entries, "the program has %u kernels", count);
  for (const entry *e = entries; e->name; e++) {
    cl_kernel kernel = create(e->name);
    cl_uint n = 0, have = 0;
    size_t group[3] = {0, 0, 0};
    while (e->arguments[n].type) n++;
    clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof have, &have, NULL);
    REQUIRE(have == n, "%s has %u arguments, not %u", e->name, have, n);
    REQUIRE(n <= 32, "%s has %u arguments; a manifest holds 32", e->name, n);
    for (cl_uint i = 0; i < n; i++) compare_argument(kernel, e->name, i, &e->arguments[i]);
    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof group, group, NULL);
    REQUIRE(group[0] == 1 && group[1] == 1 && group[2] == 1, "%s is no single work-item", e->name);
    clReleaseKernel(kernel);
  }
}

static void enqueue(cl_kernel kernel, const char *name) {
  const size_t one = 1;
  cl_int error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
  if (!error) error = clFinish(queue);
  REQUIRE(!error, "%s: %d", name, error);
  clReleaseKernel(kernel);
}

void kernels_launch(const char *name, const void *const *value) {
  const entry *e = find(name);
  cl_kernel kernel = create(name);
  const cl_int offset = GUARD;
  cl_uint at = 0;
  for (const argument *a = e->arguments; a->type; a++, at++) {
    bool tensor = a->access != VALUE_;
    cl_int error = clSetKernelArg(kernel, at, a->bytes, tensor ? &((const buffer *)*value)->mem : *value);
    value++;
    if (tensor && !error) {
      error = clSetKernelArg(kernel, ++at, sizeof offset, &offset);
      a++;
    }
    REQUIRE(!error, "%s: argument %u: %d", name, at, error);
  }
  enqueue(kernel, name);
}

void kernels_launch_zero(const char *name) {
  static const unsigned char zero[64];
  cl_kernel kernel = create(name);
  buffer none = buffer_new(0, 8, NULL);
  cl_uint at = 0;
  for (const argument *a = find(name)->arguments; a->type; a++, at++)
    clSetKernelArg(kernel, at, a->bytes, a->access == VALUE_ ? (const void *)zero : &none.mem);
  enqueue(kernel, name);
  buffer_read(&none, (unsigned char[1]){0});
  buffer_free(&none);
}

/* array_i8: the device whose PoCL kernel of that name is empty must compute it. */
static int main_hollow(void) {
  kernels_open_hollow("array_i8");
  kernels_launch_zero("array_i8");
  test_array_i8();
  kernels_close();
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "hollow") == 0) return main_hollow();
  kernels_open(8, 8);
  kernels_compare();
  for (int k = 0; kernels_name(k); k++) kernels_launch_zero(kernels_name(k));
  test_array();
  test_eltwise();
  test_pool();
  test_rows();
  test_sums();
  test_norm();
  kernels_close();
  kernels_open(3, 5);
  test_array();
  kernels_close();
  return 0;
}

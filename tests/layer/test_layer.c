/* Tests of the layer with a small OpenCL program: that it is loaded, counts calls, injects faults, and finds leaked
 * and over-released objects. With the argument "child", runs the program only. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "layer.h"

enum { N = 64 };

static clade_layer layer;
static cl_platform_id platform;
static cl_device_id device;

/* Creates, writes, reads back and releases, also after errors. Returns the first error. */
static cl_int program(void) {
  float in[N], out[N] = {0};
  cl_int e;
  cl_command_queue queue = NULL;
  cl_mem buffer = NULL;
  cl_event event = NULL;
  for (int i = 0; i < N; i++) in[i] = (float)i;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &e);
  if (e == CL_SUCCESS) queue = clCreateCommandQueue(context, device, 0, &e);
  if (e == CL_SUCCESS) buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof in, NULL, &e);
  if (e == CL_SUCCESS) e = clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, sizeof in, in, 0, NULL, &event);
  if (e == CL_SUCCESS) e = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof out, out, 1, &event, NULL);
  if (e == CL_SUCCESS && memcmp(in, out, sizeof in) != 0) e = CL_INVALID_VALUE;
  if (queue) {
    cl_int finish = clFinish(queue);
    if (e == CL_SUCCESS) e = finish;
  }
  if (event) clReleaseEvent(event);
  if (buffer) clReleaseMemObject(buffer);
  if (queue) clReleaseCommandQueue(queue);
  if (context) clReleaseContext(context);
  return e;
}

static int find_device(void) {
  cl_uint n = 0;
  if (clGetPlatformIDs(1, &platform, &n) != CL_SUCCESS || n == 0) return 1;
  return clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS;
}

static int fresh(void **state) {
  (void)state;
  layer.reset();
  layer.record(false);
  return 0;
}

static void test_loaded(void **state) {
  (void)state;
  assert_true(layer.loaded());
  assert_true(layer.entries() >= 80);
  assert_string_equal(layer.entry(0), "clGetPlatformIDs");
  assert_null(layer.entry(layer.entries()));
}

static void test_counts(void **state) {
  (void)state;
  assert_int_equal(program(), CL_SUCCESS);
  assert_int_equal(layer.calls("clCreateBuffer"), 1);
  assert_int_equal(layer.calls("clCreate*"), 3);
  assert_int_equal(layer.calls("clFinish"), 1);
  assert_int_equal(layer.calls(NULL), 10);
  assert_int_equal(layer.live(NULL), 0);
  assert_int_equal(layer.over(NULL), 0);
  assert_int_equal(layer.failed(), 0);
}

static void test_each_call_fails(void **state) {
  (void)state;
  for (uint64_t n = 1; n <= 10; n++) {
    layer.reset();
    layer.arm(&(clade_layer_fault){.nth = n, .error = CL_OUT_OF_HOST_MEMORY});
    cl_int e = program();
    assert_int_equal(layer.failed(), 1);
    assert_int_equal(e, n <= 6 ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS); /* 7 to 10 are releases: the program continues */
    assert_int_equal(layer.live(NULL), 0);
    assert_int_equal(layer.over(NULL), 0);
  }
}

static void test_natural_error(void **state) {
  (void)state;
  layer.arm(&(clade_layer_fault){.name = "clCreateBuffer", .nth = 1});
  assert_int_equal(program(), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  layer.arm(&(clade_layer_fault){.name = "clCreateContext", .nth = 1});
  assert_int_equal(program(), CL_DEVICE_NOT_AVAILABLE);
}

static void test_once_and_for_good(void **state) {
  (void)state;
  layer.arm(&(clade_layer_fault){.name = "clCreateBuffer", .nth = 2});
  assert_int_equal(program(), CL_SUCCESS);
  assert_int_equal(program(), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  assert_int_equal(program(), CL_SUCCESS);
  assert_int_equal(layer.failed(), 1);
  layer.arm(&(clade_layer_fault){.name = "clCreateBuffer", .nth = 2, .for_good = true});
  assert_int_equal(program(), CL_SUCCESS);
  for (int i = 0; i < 3; i++) assert_int_equal(program(), CL_MEM_OBJECT_ALLOCATION_FAILURE);
  assert_int_equal(layer.failed(), 4);
}

static void test_outputs_are_cleared(void **state) {
  (void)state;
  char name[8] = "unset";
  size_t bytes = 77;
  cl_uint n = 77;
  cl_device_id ids[2] = {device, device};
  layer.arm(&(clade_layer_fault){.nth = 1, .for_good = true, .error = CL_OUT_OF_RESOURCES});
  assert_int_equal(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, &bytes), CL_OUT_OF_RESOURCES);
  assert_int_equal(bytes, 0);
  assert_int_equal(name[0], 0);
  assert_int_equal(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, ids, &n), CL_OUT_OF_RESOURCES);
  assert_int_equal(n, 0);
  assert_null(ids[0]);
  assert_null(ids[1]);
}

/* Three calls of clCreateBuffer from two places of this function. */
static void test_sites(void **state) {
  (void)state;
  clade_layer_call call[64];
  layer.record(true);
  volatile int rounds = 2; /* prevents unrolling, which would duplicate the call site */
  for (int i = 0; i < rounds; i++) assert_int_equal(program(), CL_SUCCESS);
  assert_int_equal(program(), CL_SUCCESS);
  layer.record(false);
  assert_int_equal(layer.recorded(64, call), 30);
  assert_string_equal(call[2].name, "clCreateBuffer");
  assert_true(call[2].site != 0);
  assert_true(call[2].site == call[12].site);
  assert_true(call[2].site != call[22].site);
  assert_true(call[2].site != call[1].site);
  layer.arm(&(clade_layer_fault){.site = call[2].site, .nth = 1});
  assert_int_equal(program(), CL_SUCCESS); /* a third call site */
  assert_int_equal(layer.failed(), 0);
}

static void test_leaks_are_found(void **state) {
  (void)state;
  cl_int e;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &e);
  assert_int_equal(e, CL_SUCCESS);
  assert_int_equal(clRetainContext(context), CL_SUCCESS);
  assert_int_equal(layer.live("context"), 2);
  assert_int_equal(layer.live("mem"), 0);
  assert_int_equal(clReleaseContext(context), CL_SUCCESS);
  assert_int_equal(layer.live("context"), 1);
  assert_int_equal(clReleaseContext(context), CL_SUCCESS);
  assert_int_equal(layer.live(NULL), 0);
  assert_int_equal(clReleaseDevice(device), CL_SUCCESS); /* no reference is held; harmless for a root device */
  assert_int_equal(layer.over("device"), 1);
  assert_int_equal(layer.over("context"), 0);
}

static void *worker(void *arg) {
  (void)arg;
  for (int i = 0; i < 20; i++)
    if (program() != CL_SUCCESS) return (void *)1;
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, worker, NULL), 0);
  for (int i = 0; i < 4; i++) {
    void *result;
    assert_int_equal(pthread_join(thread[i], &result), 0);
    assert_null(result);
  }
  assert_int_equal(layer.calls(NULL), 800);
  assert_int_equal(layer.live(NULL), 0);
}

/* Runs a child process controlled by the environment and searches its report for a line. */
static int child(const char *fault, const char *line) {
  char path[] = "/tmp/layer-report-XXXXXX", text[256];
  int fd = mkstemp(path), status = -1, found = 0;
  assert_true(fd >= 0);
  pid_t pid = fork();
  if (pid == 0) { /* exec follows at once, so OpenCL is not used in the fork */
    setenv("CLADE_LAYER_FAIL", fault, 1);
    setenv("CLADE_LAYER_REPORT", path, 1);
    execl("/proc/self/exe", "/proc/self/exe", "child", (char *)NULL);
    _exit(99);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  FILE *f = fdopen(fd, "r");
  while (fgets(text, sizeof text, f)) found |= strcmp(text, line) == 0;
  fclose(f);
  unlink(path);
  assert_true(found);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_environment(void **state) {
  (void)state;
  assert_int_equal(child("clCreateBuffer:2", "calls clCreateBuffer 1\n"), 0);
  assert_int_equal(child("clCreateBuffer:1", "failed 1\n"), 1);
  assert_int_equal(child("*:4+:CL_OUT_OF_RESOURCES", "live context 0\n"), 1);
  assert_int_equal(child("clFinish:1:CL_OUT_OF_RESOURCES", "failed 1\n"), 1);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "child") == 0) return find_device() || program() != CL_SUCCESS;
  if (!clade_layer_open(&layer)) {
    fprintf(stderr, "OPENCL_LAYERS does not name the layer\n");
    return 1;
  }
  if (find_device()) {
    fprintf(stderr, "no OpenCL device\n");
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_loaded, fresh),
      cmocka_unit_test_setup(test_counts, fresh),
      cmocka_unit_test_setup(test_each_call_fails, fresh),
      cmocka_unit_test_setup(test_natural_error, fresh),
      cmocka_unit_test_setup(test_once_and_for_good, fresh),
      cmocka_unit_test_setup(test_outputs_are_cleared, fresh),
      cmocka_unit_test_setup(test_sites, fresh),
      cmocka_unit_test_setup(test_leaks_are_found, fresh),
      cmocka_unit_test_setup(test_threads, fresh),
      cmocka_unit_test_setup(test_environment, fresh),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

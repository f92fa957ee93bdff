/* Queue semantics of the accelerator for array_i8: the same test whether PoCL or the array in RTL computes. With
 * CLADE_RTL_LOG, written by the latter, each launch must be logged, in queue order, with the cycle count of the
 * formula. Over 400 lines: all cases use the queue, buffers and log that it sets up. */
#include <stdio.h>
#include <unistd.h>

#include "model/array.h"
#include "opencl_kit.h"

/* The matrix-product part of array_i8, and another kernel. */
static const char source[] =
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void array_i8(__global const char *a, int a_at,\n"
    "    __global const char *s, int s_at, __global uint *y, int y_at, int8 size, int4 inner, int8 a_s, int8 s_s,\n"
    "    int8 map, float alpha, int8 code, float16 param, __global const uint *e0, int e0_at, int4 e0_s,\n"
    "    __global const uint *e1, int e1_at, int4 e1_s, __global const uint *e2, int e2_at, int4 e2_s) {\n"
    "  for (int i = 0; i < size.s2; i++)\n"
    "    for (int j = 0; j < size.s5; j++) {\n"
    "      int sum = 0;\n"
    "      for (int k = 0; k < inner.s1; k++)\n"
    "        sum += a[a_at + i * a_s.s2 + k * a_s.s4] * s[s_at + k * s_s.s4 + j * s_s.s5];\n"
    "      y[y_at + i * size.s5 + j] = (uint)sum;\n"
    "    }\n"
    "}\n"
    "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void one(__global uint *y) { *y = 1; }\n";

enum { A, A_AT, S, S_AT, Y, Y_AT, SIZE, INNER, A_S, S_S, MAP, ALPHA, CODE, PARAM, E0, E0_AT, E0_S, ARGUMENTS = 23 };

static cl_program program;

static int set_up(void **state) {
  unsigned char *binary;
  size_t bytes;
  cl_int e;
  kit_set_up(state);
  kit *k = *state;
  cl_program real = kit_compiled(k, source, &binary, &bytes);
  program = clCreateProgramWithBinary(k->context, 1, &k->device, &bytes, (const unsigned char **)&binary, NULL, &e);
  DONE(e);
  DONE(clBuildProgram(program, 1, &k->device, "", NULL, NULL));
  DONE(clReleaseProgram(real));
  free(binary);
  return 0;
}

static int tear_down(void **state) {
  DONE(clReleaseProgram(program));
  return kit_tear_down(state);
}

/* ---- launches ---- */
static cl_kernel kernel_new(void) {
  cl_int e;
  cl_kernel kernel = clCreateKernel(program, "array_i8", &e);
  DONE(e);
  return kernel;
}

static void set_int(cl_kernel kernel, cl_uint index, cl_int value) { DONE(clSetKernelArg(kernel, index, 4, &value)); }

/* y (m x n) = a (m x k) s (k x n) */
static void set(cl_kernel kernel, int m, int n, int k, cl_mem a, cl_mem s, cl_mem y) {
  const cl_int8 size = {{1, 1, m, 1, 1, n, k, n}}, map = {{0, 1, 0, 1, 1, 0, 0, 1}}, none = {{0}};
  const cl_int8 a_s = {{0, 0, k, 0, 1, 0}}, s_s = {{0, 0, 0, 0, n, 1}};
  const cl_int4 inner = {{1, k, 1, 0}};
  const cl_float16 numbers = {{0}};
  const cl_float one = 1;
  DONE(clSetKernelArg(kernel, A, sizeof a, &a));
  DONE(clSetKernelArg(kernel, S, sizeof s, &s));
  DONE(clSetKernelArg(kernel, Y, sizeof y, &y));
  DONE(clSetKernelArg(kernel, SIZE, sizeof size, &size));
  DONE(clSetKernelArg(kernel, INNER, sizeof inner, &inner));
  DONE(clSetKernelArg(kernel, A_S, sizeof a_s, &a_s));
  DONE(clSetKernelArg(kernel, S_S, sizeof s_s, &s_s));
  DONE(clSetKernelArg(kernel, MAP, sizeof map, &map));
  DONE(clSetKernelArg(kernel, ALPHA, sizeof one, &one));
  DONE(clSetKernelArg(kernel, CODE, sizeof none, &none));
  DONE(clSetKernelArg(kernel, PARAM, sizeof numbers, &numbers));
  for (cl_uint i = A_AT; i <= Y_AT; i += 2) set_int(kernel, i, 0);
  for (cl_uint i = E0; i < ARGUMENTS; i += 3) {
    DONE(clSetKernelArg(kernel, i, sizeof(cl_mem), &a));
    set_int(kernel, i + 1, 0);
    DONE(clSetKernelArg(kernel, i + 2, 16, &none));
  }
}

static cl_event launch(cl_command_queue queue, cl_kernel kernel, cl_uint n, const cl_event *wait) {
  const size_t one = 1;
  cl_event event;
  DONE(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, n, wait, &event));
  return event;
}

static cl_mem memory(kit *k, size_t bytes, const void *data) {
  cl_int e;
  cl_mem mem =
      clCreateBuffer(k->context, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0), bytes, (void *)data, &e);
  DONE(e);
  return mem;
}

static cl_command_queue queue_new(kit *k, bool in_order) {
  cl_int e;
  cl_command_queue queue =
      clCreateCommandQueue(k->context, k->device, in_order ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &e);
  DONE(e);
  return queue;
}

static cl_int word(cl_command_queue queue, cl_mem mem, size_t at) {
  cl_int value;
  DONE(clEnqueueReadBuffer(queue, mem, CL_TRUE, at, 4, &value, 0, NULL, NULL));
  return value;
}

static cl_int state_of(cl_event event) {
  cl_int status;
  DONE(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
  return status;
}

static cl_event gate_new(kit *k) {
  cl_int e;
  cl_event gate = clCreateUserEvent(k->context, &e);
  DONE(e);
  return gate;
}

/* ---- RTL log ---- */
static long log_from;

static void log_begin(void) {
  const char *path = getenv("CLADE_RTL_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (!path) return;
  assert_non_null(log);
  fseek(log, 0, SEEK_END);
  log_from = ftell(log);
  fclose(log);
}

/* Requires exactly these products since the last mark. */
static void log_check(int count, const array_work *want) {
  const array_shape shape = {8, 8, 5};
  const char *path = getenv("CLADE_RTL_LOG");
  if (!path) return;
  FILE *log = fopen(path, "r");
  long long batches, m, n, k, cycles;
  assert_non_null(log);
  fseek(log, log_from, SEEK_SET);
  for (int i = 0; i < count; i++) {
    assert_int_equal(
        fscanf(log, "array_i8 batches %lld m %lld n %lld k %lld cycles %lld\n", &batches, &m, &n, &k, &cycles), 5);
    assert_true(batches == 1 && m == want[i].m && n == want[i].n && k == want[i].k);
    assert_int_equal(cycles, array_cycles(&shape, &want[i]));
  }
  assert_int_equal(fgetc(log), EOF);
  fclose(log);
}

static const signed char two = 2;

/* Each launch doubles the result of the previous one. */
static void in_order(void **state) {
  kit *k = *state;
  enum { N = 7, LATER = 200 };
  cl_mem chain[N], a = memory(k, 1, &two);
  cl_command_queue queue = queue_new(k, true);
  cl_kernel kernel = kernel_new();
  cl_event event[LATER];
  array_work work[N + LATER];
  const cl_int first[16] = {1};
  log_begin();
  for (int i = 0; i < N; i++) chain[i] = memory(k, 64, NULL);
  DONE(clEnqueueWriteBuffer(queue, chain[0], CL_FALSE, 0, sizeof first, first, 0, NULL, NULL));
  for (int i = 1; i < N; i++) {
    set(kernel, 1, 1, 1, a, chain[i - 1], chain[i]);
    DONE(clReleaseEvent(launch(queue, kernel, 0, NULL)));
    work[i - 1] = (array_work){1, 1, 1};
  }
  assert_int_equal(word(queue, chain[N - 1], 0), 64);
  for (int i = 0; i < LATER; i++) { /* many wait at once; k distinguishes them */
    set(kernel, 1, 1, 1 + i % 50, chain[0], chain[0], chain[1]);
    event[i] = launch(queue, kernel, 0, NULL);
    work[N - 1 + i] = (array_work){1, 1, 1 + i % 50};
  }
  DONE(clWaitForEvents(1, &event[LATER - 1]));
  for (int i = 0; i < LATER; i++) {
    assert_int_equal(state_of(event[i]), CL_COMPLETE);
    DONE(clReleaseEvent(event[i]));
  }
  assert_int_equal(word(queue, chain[1], 0), 1);
  log_check(N - 1 + LATER, work);
  for (int i = 0; i < N; i++) clReleaseMemObject(chain[i]);
  clReleaseMemObject(a), clReleaseKernel(kernel), clReleaseCommandQueue(queue);
}

static void CL_CALLBACK count_call(cl_event event, cl_int status, void *user) {
  (void)event;
  __atomic_store_n((int *)user, status == CL_COMPLETE ? 1 : -1, __ATOMIC_SEQ_CST);
}

static void wait_lists_and_user_events(void **state) {
  kit *k = *state;
  const cl_int first = 1;
  cl_mem a = memory(k, 1, &two), chain[3] = {memory(k, 64, NULL), memory(k, 64, &first), memory(k, 64, &first)};
  cl_command_queue queue = queue_new(k, false), other = queue_new(k, true);
  cl_kernel kernel = kernel_new();
  cl_event gate = gate_new(k), event[3];
  cl_command_type type;
  cl_command_queue its_queue;
  cl_context its_context;
  int called = 0;
  log_begin();
  DONE(clEnqueueWriteBuffer(queue, chain[0], CL_TRUE, 0, 4, &first, 0, NULL, NULL));
  set(kernel, 1, 1, 1, a, chain[0], chain[1]);
  event[0] = launch(queue, kernel, 1, &gate);
  set(kernel, 1, 1, 1, a, chain[1], chain[2]);
  event[1] = launch(other, kernel, 1, &event[0]); /* dependency between queues */
  DONE(clEnqueueMarkerWithWaitList(queue, 1, &event[1], &event[2]));
  DONE(clSetEventCallback(event[1], CL_COMPLETE, count_call, &called));
  DONE(clGetEventInfo(event[0], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
  assert_int_equal(type, CL_COMMAND_NDRANGE_KERNEL);
  DONE(clGetEventInfo(event[0], CL_EVENT_COMMAND_QUEUE, sizeof its_queue, &its_queue, NULL));
  assert_ptr_equal(its_queue, queue);
  DONE(clGetEventInfo(event[0], CL_EVENT_CONTEXT, sizeof its_context, &its_context, NULL));
  assert_ptr_equal(its_context, k->context);
  DONE(clFlush(queue)), DONE(clFlush(other));
  usleep(20000);
  for (int i = 0; i < 3; i++) assert_true(state_of(event[i]) > CL_RUNNING);
  log_check(0, NULL);
  DONE(clSetUserEventStatus(gate, CL_COMPLETE));
  DONE(clWaitForEvents(1, &event[2]));
  for (int i = 0; i < 3; i++) assert_int_equal(state_of(event[i]), CL_COMPLETE);
  assert_int_equal(word(queue, chain[2], 0), 4);
  for (int i = 0; i < 1000 && !__atomic_load_n(&called, __ATOMIC_SEQ_CST); i++) usleep(1000);
  assert_int_equal(__atomic_load_n(&called, __ATOMIC_SEQ_CST), 1);
  log_check(2, (array_work[]){{1, 1, 1}, {1, 1, 1}});
  for (int i = 0; i < 3; i++) clReleaseEvent(event[i]), clReleaseMemObject(chain[i]);
  clReleaseEvent(gate), clReleaseMemObject(a), clReleaseKernel(kernel);
  clReleaseCommandQueue(queue), clReleaseCommandQueue(other);
}

/* Arguments set after enqueueing apply to the next launch only. */
static void arguments_are_taken_when_enqueued(void **state) {
  kit *k = *state;
  const signed char values[] = {3, 5, 7};
  cl_mem a = memory(k, 1, &two), s = memory(k, 3, values), y = memory(k, 64, NULL), z = memory(k, 64, NULL);
  cl_command_queue queue = queue_new(k, true);
  cl_kernel kernel = kernel_new();
  cl_int e;
  cl_event gate = gate_new(k), first;
  log_begin();
  set(kernel, 1, 1, 1, a, s, y);
  first = launch(queue, kernel, 1, &gate);
  set_int(kernel, S_AT, 1);
  set_int(kernel, Y_AT, 1);
  DONE(clReleaseEvent(launch(queue, kernel, 0, NULL)));
  cl_kernel copy = clCloneKernel(kernel, &e); /* includes the arguments */
  DONE(e);
  set(kernel, 1, 2, 1, s, s, z);
  DONE(clReleaseEvent(launch(queue, kernel, 0, NULL)));
  set_int(copy, Y_AT, 2);
  DONE(clEnqueueTask(queue, copy, 0, NULL, NULL));
  DONE(clSetUserEventStatus(gate, CL_COMPLETE));
  DONE(clFinish(queue));
  assert_int_equal(word(queue, y, 0), 6);
  assert_int_equal(word(queue, y, 4), 10);
  assert_int_equal(word(queue, y, 8), 10);
  assert_int_equal(word(queue, z, 0), 9);
  assert_int_equal(word(queue, z, 4), 15);
  log_check(4, (array_work[]){{1, 1, 1}, {1, 1, 1}, {1, 2, 1}, {1, 1, 1}});
  clReleaseEvent(first), clReleaseEvent(gate), clReleaseKernel(kernel), clReleaseKernel(copy);
  clReleaseMemObject(a), clReleaseMemObject(s), clReleaseMemObject(y), clReleaseMemObject(z);
  clReleaseCommandQueue(queue);
}

static cl_mem part(cl_mem of, size_t origin) {
  const cl_buffer_region region = {origin, 1024};
  cl_int e;
  cl_mem mem = clCreateSubBuffer(of, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &e);
  DONE(e);
  return mem;
}

/* Buffers in each order of creation, and sub-buffers. */
static void memories_are_told_apart(void **state) {
  kit *k = *state;
  enum { M = 2, N = 3, K = 2 };
  static const signed char a[] = {1, 2, 3, -4}, s[] = {5, -6, 7, 8, 9, 10};
  static const cl_int y[] = {21, 12, 27, -17, -54, -19};
  cl_command_queue queue = queue_new(k, true);
  cl_kernel kernel = kernel_new();
  log_begin();
  for (int way = 0; way < 8; way++) {
    cl_mem whole[3], mem[3];
    cl_int got[M * N] = {0};
    for (int i = 0; i < 3; i++) whole[way < 6 ? (i * (1 + way % 2) + way / 2) % 3 : i] = memory(k, 4096, NULL);
    for (int i = 0; i < 3; i++) mem[i] = way < 6 ? whole[i] : part(whole[way == 6 ? 0 : i], 1024 * (size_t)i);
    DONE(clEnqueueWriteBuffer(queue, mem[0], CL_FALSE, 0, sizeof a, a, 0, NULL, NULL));
    DONE(clEnqueueWriteBuffer(queue, mem[1], CL_FALSE, 16, sizeof s, s, 0, NULL, NULL));
    set(kernel, M, N, K, mem[0], mem[1], mem[2]);
    set_int(kernel, S_AT, 16);
    set_int(kernel, Y_AT, 3);
    DONE(clReleaseEvent(launch(queue, kernel, 0, NULL)));
    DONE(clEnqueueReadBuffer(queue, mem[2], CL_TRUE, 12, sizeof y, got, 0, NULL, NULL));
    assert_memory_equal(got, y, sizeof y);
    for (int i = 0; i < 3; i++) {
      if (way >= 6) clReleaseMemObject(mem[i]);
      clReleaseMemObject(whole[i]);
    }
  }
  array_work work[8];
  for (int i = 0; i < 8; i++) work[i] = (array_work){M, N, K};
  log_check(8, work);
  clReleaseKernel(kernel), clReleaseCommandQueue(queue);
}

/* Objects live until pending launches are done, and a reused handle has no state of the old object. */
static void released_handles(void **state) {
  kit *k = *state;
  const size_t one = 1;
  const signed char three = 3;
  cl_mem y = memory(k, 64, NULL), a = memory(k, 1, &two), s = memory(k, 1, &three);
  cl_command_queue queue = queue_new(k, true), shut = queue_new(k, true);
  cl_kernel kernel = kernel_new();
  cl_event gate = gate_new(k), event;
  cl_int e;
  bool again = false;
  cl_kernel seen[40];
  log_begin();
  set(kernel, 1, 1, 1, a, s, y);
  event = launch(shut, kernel, 1, &gate);
  clReleaseKernel(kernel), clReleaseMemObject(a), clReleaseMemObject(s);
  cl_mem filler[4];
  /* Would reuse the addresses if they were freed. */
  for (int i = 0; i < 4; i++) filler[i] = memory(k, 1, (signed char[]){99});
  for (int i = 0; i < 40; i++) {
    cl_kernel other = clCreateKernel(program, i % 2 ? "one" : "array_i8", &e);
    DONE(e);
    for (int j = 0; j < i; j++) again |= other == seen[j];
    assert_int_equal(clEnqueueNDRangeKernel(queue, other, 1, NULL, &one, &one, 0, NULL, NULL), CL_INVALID_KERNEL_ARGS);
    if (i % 2) {
      DONE(clSetKernelArg(other, 0, sizeof filler[0], &y));
      DONE(clEnqueueNDRangeKernel(queue, other, 1, NULL, &one, &one, 0, NULL, NULL));
      assert_int_equal(word(queue, y, 0), 1);
    }
    DONE(clReleaseKernel(other));
    seen[i] = other;
  }
  assert_true(again);
  DONE(clSetUserEventStatus(gate, CL_COMPLETE));
  DONE(clWaitForEvents(1, &event));
  assert_int_equal(word(queue, y, 0), 6);
  log_check(1, (array_work[]){{1, 1, 1}});
  for (int i = 0; i < 4; i++) clReleaseMemObject(filler[i]);
  clReleaseEvent(event), clReleaseEvent(gate), clReleaseMemObject(y);
  clReleaseCommandQueue(queue), clReleaseCommandQueue(shut);
}

static void a_failed_event(void **state) {
  kit *k = *state;
  const cl_int before = -1;
  cl_mem a = memory(k, 1, &two), y = memory(k, 4, &before), z = memory(k, 4, &before);
  cl_command_queue queue = queue_new(k, false), other = queue_new(k, true);
  cl_kernel kernel = kernel_new();
  cl_event gate = gate_new(k), event[2];
  log_begin();
  set(kernel, 1, 1, 1, a, a, y);
  event[0] = launch(queue, kernel, 1, &gate);
  set(kernel, 1, 1, 1, a, a, z);
  event[1] = launch(queue, kernel, 1, event);
  DONE(clSetUserEventStatus(gate, -5));
  assert_int_equal(clWaitForEvents(1, &event[1]), CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  assert_true(state_of(event[0]) < 0 && state_of(event[1]) < 0);
  set(kernel, 1, 1, 1, a, a, z); /* the device remains usable */
  DONE(clReleaseEvent(launch(other, kernel, 0, NULL)));
  assert_int_equal(word(other, z, 0), 4);
  assert_int_equal(word(other, y, 0), before);
  log_check(1, (array_work[]){{1, 1, 1}});
  clReleaseEvent(event[0]), clReleaseEvent(event[1]), clReleaseEvent(gate), clReleaseKernel(kernel);
  clReleaseMemObject(a), clReleaseMemObject(y), clReleaseMemObject(z);
  clReleaseCommandQueue(queue), clReleaseCommandQueue(other);
}

static void CL_CALLBACK never(void *given) {
  (void)given;
  abort();
}

static void what_is_refused(void **state) {
  kit *k = *state;
  const size_t one = 1;
  const cl_int zero = 0;
  cl_mem a = memory(k, 1, &two), y = memory(k, 64, NULL);
  cl_command_queue queue = queue_new(k, true);
  cl_int e;
  cl_command_queue foreign = clCreateCommandQueue(k->real_context, k->real_device, 0, &e);
  DONE(e);
  cl_kernel kernel = kernel_new(), all[2];
  cl_uint n = 0;
  DONE(clCreateKernelsInProgram(program, 2, all, &n));
  assert_int_equal(n, 2);
  for (cl_uint i = 0; i < 2; i++) {
    assert_int_equal(clEnqueueNDRangeKernel(queue, all[i], 1, NULL, &one, &one, 0, NULL, NULL), CL_INVALID_KERNEL_ARGS);
    clReleaseKernel(all[i]);
  }
  assert_int_not_equal(clSetKernelArg(kernel, SIZE, 4, &zero), CL_SUCCESS);
  assert_int_equal(clSetKernelArg(kernel, ARGUMENTS, 4, &zero), CL_INVALID_ARG_INDEX);
  set(kernel, 1, 1, 1, a, a, y);
  assert_int_equal(clEnqueueNDRangeKernel(foreign, kernel, 1, NULL, &one, &one, 0, NULL, NULL), CL_INVALID_CONTEXT);
  assert_int_equal(clEnqueueNDRangeKernel(queue, kernel, 0, NULL, &one, &one, 0, NULL, NULL),
                   CL_INVALID_WORK_DIMENSION);
  assert_int_equal(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, (size_t[]){2}, 0, NULL, NULL),
                   CL_INVALID_WORK_GROUP_SIZE);
  assert_int_equal(clEnqueueNativeKernel(queue, never, NULL, 0, 0, NULL, NULL, 0, NULL, NULL), CL_INVALID_OPERATION);
  if (getenv("CLADE_RTL_LOG")) { /* the array's counters have 16 bits */
    set(kernel, 1, 1, 65536, a, a, y);
    assert_int_equal(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL), CL_OUT_OF_RESOURCES);
  }
  set(kernel, 1, 1, 1, a, a, y);
  DONE(clReleaseEvent(launch(queue, kernel, 0, NULL)));
  assert_int_equal(word(queue, y, 0), 4);
  clReleaseKernel(kernel), clReleaseMemObject(a), clReleaseMemObject(y);
  clReleaseCommandQueue(queue), clReleaseCommandQueue(foreign);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_order),
      cmocka_unit_test(wait_lists_and_user_events),
      cmocka_unit_test(arguments_are_taken_when_enqueued),
      cmocka_unit_test(memories_are_told_apart),
      cmocka_unit_test(released_handles),
      cmocka_unit_test(a_failed_event),
      cmocka_unit_test(what_is_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

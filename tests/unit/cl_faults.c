/* Fault injection for src/cl: each OpenCL call and each allocation fails in turn, once or permanently. Required: a
 * status with a message or the correct result, no leaks, and a usable module or a lost device. With the layer, on
 * PoCL. */
#include "../failing_memory.h"
#include "cl_unit.h"

#include <clade/opencl.h>

#include "cl/cl.h"
#include "layer.h"

static clade_layer layer;

static const char source[] = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }\n";
static const clade__wait none;

typedef struct work {
  clade_device *device, *adopted, *part[2];
  clade__queue *queue, *borrowed;
  clade__buffer *buffer, *large;
  clade_tensor *tensor, *wrapped;
  clade__staging *staging;
  cl_program program, loaded;
  cl_kernel kernel;
  cl_event gate, event;
  void *binary;
} work;

static void drop(work *w) {
  clade__event_release(w->event);
  clade__event_release(w->gate);
  clade__kernel_release(w->kernel);
  clade__program_release(w->loaded);
  clade__program_release(w->program);
  clade__free(w->binary);
  clade__staging_free(w->staging);
  clade_tensor_release(w->wrapped);
  clade_tensor_release(w->tensor);
  clade__buffer_release(w->large);
  clade__buffer_release(w->buffer);
  clade__queue_free(w->borrowed);
  clade__queue_free(w->queue);
  for (int i = 0; i < 2; i++) clade_device_release(w->part[i]);
  clade_device_release(w->adopted);
  clade_device_release(w->device);
}

static atomic_int told;
static void tell(void *user) { atomic_fetch_add((atomic_int *)user, 1); }

static clade_status prepare(work *w) {
  size_t bytes;
  CLADE_TRY(clade_device_find("pocl", &w->device));
  CLADE_TRY(clade_device_split(w->device, 1, w->part));
  CLADE_TRY(clade_device_adopt(clade_device_context(w->device), clade_device_cl_id(w->device), &w->adopted));
  CLADE_TRY(clade__queue_new(w->device, true, &w->queue));
  CLADE_TRY(clade__buffer_new(w->device, 256, "x", &w->buffer));
  CLADE_TRY(clade__buffer_new(w->device, 4 << 20, "by huge pages", &w->large));
  CLADE_TRY(clade_tensor_new(w->device, CLADE_F32, CLADE_SHAPE(64), &w->tensor));
  CLADE_TRY(
      clade_tensor_wrap(w->adopted, clade_tensor_mem(w->tensor, NULL), 0, CLADE_F32, CLADE_SHAPE(64), &w->wrapped));
  CLADE_TRY(clade__staging_new(w->device, 256, &w->staging));
  CLADE_TRY(clade__program_build(w->device, source, sizeof source - 1, "", &w->program, NULL));
  CLADE_TRY(clade__program_binary(w->device, w->program, &w->binary, &bytes));
  CLADE_TRY(clade__program_load(w->device, w->binary, bytes, "", &w->loaded));
  return clade__kernel_new(w->device, w->program, "twice", &w->kernel);
}

static clade_status compute(work *w) {
  const size_t global = 64;
  float one = 1;
  float *x = clade__staging_data(w->staging);
  cl_mem memory = clade__buffer_mem(w->buffer);
  clade__kernel_limits limits;
  clade__event_times times;
  cl_uint args;
  int finished;
  CLADE_TRY(clade__kernel_args(w->device, w->kernel, &args));
  CLADE_TRY(clade__kernel_get_limits(w->device, w->kernel, &limits));
  CLADE_TRY(clade__kernel_set(w->device, w->kernel, 0, sizeof(cl_mem), &memory));
  CLADE_TRY(clade__queue_fill(w->queue, w->buffer, 0, 256, &one, sizeof one, none, NULL));
  CLADE_TRY(clade__user_event_new(w->device, &w->gate));
  clade_status status =
      clade__queue_launch(w->queue, w->kernel, 1, &global, NULL, (clade__wait){1, &w->gate}, &w->event);
  clade_status opened = clade__user_event_set(w->device, w->gate, true);
  CLADE_TRY(status);
  CLADE_TRY(opened);
  CLADE_TRY(clade__queue_copy(w->queue, w->buffer, 0, w->buffer, 128, 128, none, NULL));
  CLADE_TRY(clade__queue_flush(w->queue));
  CLADE_TRY(clade__event_notify(w->device, w->event, tell, &told));
  CLADE_TRY(clade__event_wait(w->device, w->event));
  CLADE_TRY(clade__event_poll(w->device, w->event, &finished));
  CLADE_TRY(clade__event_profile(w->device, w->event, &times));
  CLADE_TRY(clade__queue_marker(w->queue, none, NULL));
  CLADE_TRY(clade__queue_read(w->queue, w->buffer, 0, x, 256, true, none, NULL));
  CLADE_TRY(clade_tensor_write(w->tensor, x, 256));
  CLADE_TRY(clade_tensor_read(w->wrapped, x, 256));
  CLADE_TRY(clade__queue_finish(w->queue));
  for (int i = 0; i < 64; i++)
    if (x[i] != 2) return CLADE_FAIL(INTERNAL, "element %d is %g", i, (double)x[i]);
  return CLADE_OK;
}

static clade_status run(void) {
  work w = {0};
  clade_fail(CLADE_OK, "%s", "");
  clade_status status = prepare(&w);
  if (status == CLADE_OK) status = compute(&w);
  if (status != CLADE_OK) assert_true(clade_last_error()[0]);
  drop(&w);
  return status;
}

static void balances(void **state) {
  (void)state;
  layer.reset();
  check_ok(run());
  assert_int_equal(layer.live(NULL), 0);
  assert_int_equal(layer.over(NULL), 0);
  assert_true(layer.calls(NULL) > 50);
}

/* Fails the n-th call; false if there is no such call. */
static bool run_failing(uint64_t n, bool for_good, int error) {
  const clade_layer_fault fault = {.nth = n, .for_good = for_good, .error = error};
  layer.reset();
  layer.arm(&fault);
  clade_status status = run();
  uint64_t failed = layer.failed();
  char message[512];
  snprintf(message, sizeof message, "%s", clade_last_error());
  layer.reset();
  if (layer.live(NULL) != 0 || layer.over(NULL) != 0)
    fail_msg("call %d: %ld objects are left, %ld released too often: %s", (int)n, layer.live(NULL), layer.over(NULL),
             message);
  if (status == CLADE_INTERNAL) fail_msg("call %d: a wrong result: %s", (int)n, message);
  if (status != CLADE_OK && !strstr(message, "cl") && !strstr(message, "a command failed"))
    fail_msg("call %d: the message names no call: %s", (int)n, message);
  clade_status after = n % 4 ? CLADE_OK : run(); /* a check takes as long as the run itself */
  if (after != CLADE_OK) fail_msg("call %d: unusable afterwards: %s", (int)n, clade_last_error());
  return failed > 0;
}

static void every_call(bool for_good, int error, uint64_t step) {
  uint64_t n = 1;
  while (run_failing(n, for_good, error)) n += step;
  assert_true(n > 50);
}

/* With permanent failures, most runs end at the first one, so a sample suffices. */
static void survives_each_call_failing(void **state) {
  (void)state;
  every_call(false, 0, 1);
}
static void survives_all_calls_failing_from_one_on(void **state) {
  (void)state;
  every_call(true, CL_OUT_OF_HOST_MEMORY, 5);
}
static void survives_the_device_s_loss(void **state) {
  (void)state;
  every_call(true, CL_DEVICE_NOT_AVAILABLE, 5);
}

/* ---- allocations ---- */
static bool run_short_of_memory(long n, bool for_good) {
  long before = atomic_load(&held);
  layer.reset();
  arm_allocation(n, for_good);
  clade_status status = run();
  bool failed = allocation_reached(n);
  arm_allocation(0, false);
  if (status != CLADE_OK && status != CLADE_NO_MEMORY)
    fail_msg("allocation %ld: %s: %s", n, clade_status_name(status), clade_last_error());
  if (!for_good && failed && status == CLADE_OK && n == 1) fail_msg("the first allocation is needed");
  if (layer.live(NULL) != 0 || layer.over(NULL) != 0)
    fail_msg("allocation %ld: %ld objects are left, %ld released too often", n, layer.live(NULL), layer.over(NULL));
  if (atomic_load(&held) != before) fail_msg("allocation %ld: %ld pieces are left", n, atomic_load(&held) - before);
  return failed;
}

static void survives_allocations_failing(void **state) {
  (void)state;
  long n = 1;
  check_ok(run());
  while (run_short_of_memory(n, false)) n++;
  assert_true(n > 15);
  for (n = 1; run_short_of_memory(n, true); n += 3) {}
  check_ok(run());
}

static void says_that_the_device_is_lost(void **state) {
  (void)state;
  clade_device *d, *again;
  clade_tensor *t;
  float x[4] = {0};
  check_ok(clade_device_find("pocl", &d));
  check_ok(clade_tensor_new(d, CLADE_F32, CLADE_SHAPE(4), &t));
  const clade_layer_fault fault = {.name = "clEnqueueWriteBuffer", .nth = 1, .error = CL_DEVICE_NOT_AVAILABLE};
  layer.arm(&fault);
  check_fails(clade_tensor_write(t, x, sizeof x), CLADE_LOST, "clEnqueueWriteBuffer: CL_DEVICE_NOT_AVAILABLE (-2)");
  layer.reset();
  check_fails(clade_tensor_write(t, x, sizeof x), CLADE_LOST, "was lost: clEnqueueWriteBuffer");
  check_fails(clade_device_status(d), CLADE_LOST, "clEnqueueWriteBuffer: CL_DEVICE_NOT_AVAILABLE (-2)");
  assert_int_equal(layer.calls(NULL), 0);
  check_ok(clade_device_find("pocl", &again)); /* a new handle may work */
  assert_ptr_not_equal(d, again);
  check_ok(clade_device_status(again));
  clade_device_release(again);
  clade_tensor_release(t);
  clade_device_release(d);
  assert_int_equal(layer.live(NULL), 0);
}

/* Pooled memory is released before an allocation fails. */
static void gives_the_pool_back_before_refusing(void **state) {
  (void)state;
  clade_device *d;
  clade__buffer *a, *b;
  check_ok(clade_device_find("pocl", &d));
  check_ok(clade__buffer_new(d, 5000, "a", &a));
  clade__buffer_release(a);
  const clade_layer_fault once = {.name = "clCreateBuffer", .nth = 1};
  layer.reset();
  layer.arm(&once);
  check_ok(clade__buffer_new(d, 500000, "b", &b));
  assert_int_equal(layer.calls("clReleaseMemObject"), 1);
  clade_memory_use use = {.size = sizeof use};
  check_ok(clade_device_memory(d, &use));
  assert_int_equal(use.pooled, 0);
  const clade_layer_fault always = {.name = "clCreateBuffer", .nth = 1, .for_good = true};
  layer.arm(&always);
  check_fails(clade__buffer_new(d, 700000, "weights", &a), CLADE_DEVICE_MEMORY, "weights: 700000 bytes");
  clade_memory_use after = {.size = sizeof after};
  check_ok(clade_device_memory(d, &after));
  assert_int_equal(use.used, after.used);
  layer.reset();
  clade__buffer_release(b);
  clade_device_release(d);
}

static int set_up(void **state) {
  (void)state;
  if (!clade_layer_open(&layer) || run() != CLADE_OK) return -1;
  return layer.loaded() ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(balances),
      cmocka_unit_test(says_that_the_device_is_lost),
      cmocka_unit_test(gives_the_pool_back_before_refusing),
      cmocka_unit_test(survives_allocations_failing),
      cmocka_unit_test(survives_each_call_failing),
      cmocka_unit_test(survives_all_calls_failing_from_one_on),
      cmocka_unit_test(survives_the_device_s_loss),
  };
  if (clade_init(.allocator = &hook) != CLADE_OK) return 1;
  return cmocka_run_group_tests(tests, set_up, NULL);
}

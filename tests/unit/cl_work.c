/* Queues, events, programs and kernels: commands run in order, and invalid launches are refused before they crash.
 * On PoCL. */
#include "cl_unit.h"

#include <stdlib.h>

#include "cl/cl.h"

static clade_device *device;
static cl_program program;
static cl_kernel scale;

static const char source[] = "__kernel void scale(__global float *x, const float a) { x[get_global_id(0)] *= a; }\n"
                             "__kernel void turn(__global int *x, __local int *t) {\n"
                             "  const int i = (int)get_local_id(0), n = (int)get_local_size(0);\n"
                             "  t[n - 1 - i] = x[i];\n"
                             "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                             "  x[i] = t[i];\n"
                             "}\n"
                             "__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void eight(__global int *x) {\n"
                             "  __local int t[32];\n"
                             "  t[get_local_id(0)] = 1;\n"
                             "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                             "  x[get_local_id(0)] = t[7 - get_local_id(0)];\n"
                             "}\n";

static int set_up(void **state) {
  (void)state;
  if (clade_device_find("pocl", &device) != CLADE_OK) return -1;
  if (clade__program_build(device, source, sizeof source - 1, "", &program, NULL) != CLADE_OK) return -1;
  return clade__kernel_new(device, program, "scale", &scale) == CLADE_OK ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  clade__kernel_release(scale);
  clade__program_release(program);
  clade_device_release(device);
  return 0;
}

static const clade__wait none;

static void set_scale(cl_kernel kernel, clade__buffer *buffer, float a) {
  cl_mem memory = clade__buffer_mem(buffer);
  check_ok(clade__kernel_set(device, kernel, 0, sizeof(cl_mem), &memory));
  check_ok(clade__kernel_set(device, kernel, 1, sizeof a, &a));
}

static void launches_in_order(void **state) {
  (void)state;
  clade__queue *q;
  clade__buffer *b;
  const size_t global = 64, local = 16;
  const float one = 1;
  float out[64];
  check_ok(clade__queue_new(device, true, &q));
  check_ok(clade__buffer_new(device, sizeof out, "x", &b));
  check_ok(clade__queue_fill(q, b, 0, sizeof out, &one, sizeof one, none, NULL));
  set_scale(scale, b, 2);
  cl_event event = NULL;
  for (int i = 0; i < 10; i++)
    check_ok(clade__queue_launch(q, scale, 1, &global, &local, none, i == 9 ? &event : NULL));
  check_ok(clade__queue_read(q, b, 0, out, sizeof out, true, none, NULL));
  for (int i = 0; i < 64; i++) assert_true(out[i] == 1024);
  int finished = 0;
  check_ok(clade__event_poll(device, event, &finished));
  assert_int_equal(finished, 1);
  clade__event_times times;
  check_ok(clade__event_profile(device, event, &times));
  assert_true(times.queued <= times.start && times.start <= times.end && times.end);
  clade__event_release(event);
  clade__buffer_release(b);
  clade__queue_free(q);
}

static atomic_int told;
static void tell(void *user) { atomic_fetch_add(&told, *(int *)user); }

static void waits_for_the_host(void **state) {
  (void)state;
  clade__queue *q;
  clade__buffer *b;
  cl_event gate, event;
  const size_t global = 4;
  const float one = 1;
  int finished = 1, three = 3;
  float out[4];
  check_ok(clade__queue_new(device, false, &q));
  check_ok(clade__buffer_new(device, sizeof out, "x", &b));
  check_ok(clade__queue_fill(q, b, 0, sizeof out, &one, sizeof one, none, NULL));
  check_ok(clade__queue_finish(q));
  set_scale(scale, b, 3);
  check_ok(clade__user_event_new(device, &gate));
  check_ok(clade__queue_launch(q, scale, 1, &global, NULL, (clade__wait){1, &gate}, &event));
  check_ok(clade__queue_flush(q));
  check_ok(clade__event_poll(device, event, &finished));
  assert_int_equal(finished, 0);
  atomic_store(&told, 0);
  check_ok(clade__event_notify(device, event, tell, &three));
  check_ok(clade__user_event_set(device, gate, true));
  check_ok(clade__event_wait(device, event));
  check_ok(clade__queue_read(q, b, 0, out, sizeof out, true, none, NULL));
  assert_true(out[3] == 3);
  for (int i = 0; i < 5000 && atomic_load(&told) == 0; i++) {
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
  }
  assert_int_equal(atomic_load(&told), 3);
  clade__event_release(gate);
  clade__event_release(event);
  clade__buffer_release(b);
  clade__queue_free(q);
}

static void returns_a_command_s_error(void **state) {
  (void)state;
  clade__queue *q;
  cl_event gate, event;
  int finished;
  check_ok(clade__queue_new(device, false, &q));
  check_ok(clade__user_event_new(device, &gate));
  check_ok(clade__queue_marker(q, (clade__wait){1, &gate}, &event));
  check_ok(clade__user_event_set(device, gate, false));
  check_fails(clade__event_wait(device, event), CLADE_OPENCL, "a command failed");
  check_fails(clade__event_poll(device, event, &finished), CLADE_OPENCL, "a command failed");
  check_fails(clade__event_wait(device, NULL), CLADE_INVALID, "NULL");
  clade__event_release(gate);
  clade__event_release(event);
  clade__event_release(NULL);
  clade__queue_free(q);
  check_ok(clade_device_status(device));
}

static void refuses_ranges_beyond_the_device(void **state) {
  (void)state;
  clade__queue *q = clade__device_transfer_queue(device);
  size_t most = (size_t)clade__device_info(device)->max_group;
  const size_t zero = 0, seven = 7, sixteen = 16, large[2] = {most * 2, 1}, wide[2] = {most * 2, 4};
  check_fails(clade__queue_launch(q, scale, 1, &zero, NULL, none, NULL), CLADE_INVALID, "global size 0");
  check_fails(clade__queue_launch(q, scale, 4, &zero, NULL, none, NULL), CLADE_INVALID, "4 dimensions");
  check_fails(clade__queue_launch(q, scale, 1, &sixteen, &seven, none, NULL), CLADE_INVALID, "local size 7");
  check_fails(clade__queue_launch(q, scale, 2, large, large, none, NULL), CLADE_INVALID, "local size");
  const size_t both[2] = {most, 4};
  check_fails(clade__queue_launch(q, scale, 2, wide, both, none, NULL), CLADE_INVALID, "work-items in a group");
}

static void knows_what_fits(void **state) {
  (void)state;
  cl_kernel turn, eight;
  clade__kernel_limits limits;
  uint64_t has = clade__device_info(device)->local_bytes;
  const size_t local = 8, other = 4, many = (size_t)clade__device_info(device)->max_group * 2;
  check_ok(clade__kernel_new(device, program, "turn", &turn));
  check_ok(clade__kernel_new(device, program, "eight", &eight));
  check_fails(clade__kernel_new(device, program, "nine", &turn), CLADE_NOT_FOUND, "kernel nine");
  assert_null(turn);
  check_ok(clade__kernel_new(device, program, "turn", &turn));
  cl_uint args = 0;
  check_ok(clade__kernel_args(device, turn, &args));
  assert_int_equal(args, 2);
  check_fails(clade__kernel_set(device, turn, 2, 4, &args), CLADE_INVALID, "argument 2 of 4 bytes");
  check_ok(clade__kernel_get_limits(device, turn, &limits));
  check_ok(clade__kernel_fits(device, &limits, "turn", 1, &local, has - limits.local_bytes));
  check_fails(clade__kernel_fits(device, &limits, "turn", 1, &local, has + 1), CLADE_UNSUPPORTED, "local memory");
  check_fails(clade__kernel_fits(device, &limits, "turn", 1, &local, UINT64_MAX), CLADE_UNSUPPORTED, "local memory");
  check_fails(clade__kernel_fits(device, &limits, "turn", 1, &many, 0), CLADE_UNSUPPORTED, "turn");
  check_ok(clade__kernel_get_limits(device, eight, &limits));
  assert_int_equal(limits.required[0], 8);
  /* PoCL 6 reports 0: its clGetKernelWorkGroupInfo does not count arrays in kernels. */
  if (!strstr(clade__device_info(device)->platform_version, "PoCL 6"))
    assert_true(limits.local_bytes >= 32 * sizeof(cl_int));
  check_ok(clade__kernel_fits(device, &limits, "eight", 1, &local, 0));
  check_fails(clade__kernel_fits(device, &limits, "eight", 1, &other, 0), CLADE_UNSUPPORTED, "written for 8");
  clade__kernel_release(eight);
  clade__kernel_release(turn);
}

static void loads_its_own_binary(void **state) {
  (void)state;
  void *binary;
  size_t bytes;
  cl_program loaded;
  cl_kernel kernel;
  check_ok(clade__program_binary(device, program, &binary, &bytes));
  assert_true(bytes > 0);
  check_ok(clade__program_load(device, binary, bytes, "", &loaded));
  check_ok(clade__kernel_new(device, loaded, "scale", &kernel));
  clade__kernel_release(kernel);
  clade__program_release(loaded);
  clade__free(binary);
}

static void adopts_only_fitting_queues(void **state) {
  (void)state;
  clade__queue *q;
  check_fails(clade__queue_adopt(device, NULL, &q), CLADE_INVALID, "NULL");
  assert_null(q);
  check_fails(clade__queue_new(NULL, false, &q), CLADE_INVALID, "NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(launches_in_order),
      cmocka_unit_test(waits_for_the_host),
      cmocka_unit_test(returns_a_command_s_error),
      cmocka_unit_test(refuses_ranges_beyond_the_device),
      cmocka_unit_test(knows_what_fits),
      cmocka_unit_test(loads_its_own_binary),
      cmocka_unit_test(adopts_only_fitting_queues),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

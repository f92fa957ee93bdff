/* Two platforms in one process, and selection among several devices. On PoCL and rusticl. */
#include "cl_unit.h"

#include <stdlib.h>

#include <clade/opencl.h>

#include "cl/cl.h"

static clade_device *pocl, *rusticl;

static int set_up(void **state) {
  (void)state;
  unsetenv("CLADE_DEVICE");
  if (clade_device_find("pocl", &pocl) != CLADE_OK) return -1;
  return clade_device_find("rusticl", &rusticl) == CLADE_OK ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  clade_device_release(pocl);
  clade_device_release(rusticl);
  return 0;
}

static void finds_one_of_several(void **state) {
  (void)state;
  clade_device *d;
  check_fails(clade_device_find("cpu", &d), CLADE_AMBIGUOUS, "Portable Computing Language");
  assert_non_null(strstr(clade_last_error(), "rusticl"));
  assert_null(d);
  check_fails(clade_device_find("", &d), CLADE_AMBIGUOUS, "match \"\"");
  check_ok(clade_device_find("cpu:0", &d));
  clade_device *first = d;
  clade_device_release(d);
  check_ok(clade_device_find(":cpu:1", &d));
  assert_ptr_not_equal(d, first);
  clade_device_release(d);
  check_fails(clade_device_find("cpu:2", &d), CLADE_NOT_FOUND, "asks for match 2, counted from 0, of 2");
  check_ok(clade_device_find("LLVMpipe", &d));
  assert_ptr_equal(d, rusticl);
  clade_device_release(d);
  check_ok(clade_device_find(NULL, &d));
  assert_ptr_equal(d, pocl);
  clade_device_release(d);
}

/* A platform without devices is skipped and reported. */
static void tells_what_was_left_out(void **state) {
  (void)state;
  clade_device *d;
  clade__platform_report reports[8];
  int n = clade__platforms_inspect(8, reports), empty = 0;
  assert_true(n >= 2 && n <= 8);
  for (int i = 0; i < n; i++) {
    if (reports[i].devices) continue;
    empty++;
    assert_int_equal(reports[i].error, CL_DEVICE_NOT_FOUND);
    assert_non_null(reports[i].message);
    check_fails(clade_device_find("absent", &d), CLADE_NOT_FOUND, reports[i].name);
  }
  assert_true(empty >= 1); /* Mesa's other platform */
}

static void computes_on_both_side_by_side(void **state) {
  (void)state;
  clade_tensor *a, *b;
  enum { N = 10007 };
  static float in[N], out[N];
  for (int i = 0; i < N; i++) in[i] = (float)i;
  check_ok(clade__device_probe(pocl));
  check_ok(clade__device_probe(rusticl));
  check_ok(clade_tensor_new(pocl, CLADE_F32, CLADE_SHAPE(N), &a));
  check_ok(clade_tensor_new(rusticl, CLADE_F32, CLADE_SHAPE(N), &b));
  check_ok(clade_tensor_write(a, in, sizeof in));
  check_ok(clade_tensor_read(a, out, sizeof out));
  check_ok(clade_tensor_write(b, out, sizeof out));
  memset(out, 0, sizeof out);
  check_ok(clade_tensor_read(b, out, sizeof out));
  assert_memory_equal(in, out, sizeof in);
  clade_tensor *t;
  check_fails(clade_tensor_wrap(pocl, clade_tensor_mem(b, NULL), 0, CLADE_F32, CLADE_SHAPE(1), &t), CLADE_INVALID,
              "another context");
  clade_tensor_release(a);
  clade_tensor_release(b);
  clade__hash x = clade__device_key(pocl), y = clade__device_key(rusticl);
  assert_false(clade__hash_equal(x, y));
}

static void refuses_to_split_what_cannot_be(void **state) {
  (void)state;
  clade_device *parts[2];
  check_fails(clade_device_split(rusticl, 2, parts), CLADE_UNSUPPORTED, "cannot be split");
}

/* Work-groups beyond the kernel's reported limit, up to the device's: verifies the quirk GROUP_LIMIT. */
static void computes_with_large_groups(void **state) {
  (void)state;
  static const char source[] = "__kernel void turn(__global int *x) {\n"
                               "  __local int t[256];\n"
                               "  const int i = (int)get_local_id(0), g = (int)get_group_id(0);\n"
                               "  t[255 - i] = x[g * 256 + i];\n"
                               "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                               "  x[g * 256 + i] = t[i];\n"
                               "}\n";
  cl_program program;
  cl_kernel kernel;
  clade__kernel_limits limits;
  clade_tensor *t;
  static int32_t x[1024];
  const size_t global = 1024, local = 256;
  for (int i = 0; i < 1024; i++) x[i] = i;
  check_ok(clade__program_build(rusticl, source, sizeof source - 1, "", &program, NULL));
  check_ok(clade__kernel_new(rusticl, program, "turn", &kernel));
  check_ok(clade__kernel_get_limits(rusticl, kernel, &limits));
  check_ok(clade__kernel_fits(rusticl, &limits, "turn", 1, &local, 0));
  check_ok(clade_tensor_new(rusticl, CLADE_I32, CLADE_SHAPE(1024), &t));
  check_ok(clade_tensor_write(t, x, sizeof x));
  cl_mem memory = clade_tensor_mem(t, NULL);
  check_ok(clade__kernel_set(rusticl, kernel, 0, sizeof(cl_mem), &memory));
  clade__queue *q = clade__device_transfer_queue(rusticl);
  check_ok(clade__queue_launch(q, kernel, 1, &global, &local, (clade__wait){0}, NULL));
  check_ok(clade_tensor_read(t, x, sizeof x));
  for (int i = 0; i < 1024; i++) assert_int_equal(x[i], i / 256 * 256 + 255 - i % 256);
  clade_tensor_release(t);
  clade__kernel_release(kernel);
  clade__program_release(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_one_of_several),          cmocka_unit_test(tells_what_was_left_out),
      cmocka_unit_test(computes_on_both_side_by_side), cmocka_unit_test(refuses_to_split_what_cannot_be),
      cmocka_unit_test(computes_with_large_groups),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

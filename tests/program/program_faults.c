/* Fault injection for kernel preparation: every OpenCL call and every allocation fails, once or permanently, with an
 * empty and with a full cache. Required: a status with a message or the correct result, no leaks, and a usable
 * library afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fault_sweep.h"
#include "unit/program_kernels.h"

enum { VARIANTS = 2 };
static char root[64];

/* ---- the work ---- */
static void empty_cache(void) {
  DIR *dir = opendir(root);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
  if (dir) closedir(dir);
}

/* Opens the device, computes and releases it. Wrong results count as a failure without a status. */
static clade_status work(void) {
  clade__request r[VARIANTS];
  clade__program_kernel k[VARIANTS];
  clade_device *device = NULL;
  clade_status status = clade_device_find(NULL, &device);
  if (status != CLADE_OK) return status;
  for (int i = 0; i < VARIANTS; i++) probe_request(i, &r[i]);
  status = clade__store_prepare(device, VARIANTS, r, k);
  for (int i = 0; i < VARIANTS && status == CLADE_OK; i++) {
    int value;
    status = probe_try(device, &k[i], &value);
    if (status == CLADE_OK) assert_int_equal(value, i + 2);
  }
  clade__store_flush(device);
  clade_device_release(device);
  return status;
}

/* Checking usability after each fault doubles the time with a cold cache; the next round executes the same code up
 * to its own fault anyway. */
static void sweep(arm_fn *arm, reached_fn *reached, bool cold, bool for_good) {
  empty_cache();
  fault_sweep(&(fault_task){work, cold ? empty_cache : NULL, cold ? 4 : 1}, arm, reached, for_good);
}

static void arm_loss(long n, bool for_good) {
  layer.reset();
  layer.arm(&(clade_layer_fault){.nth = (uint64_t)n, .for_good = for_good, .error = CL_DEVICE_NOT_AVAILABLE});
}
static void cold_calls_fail(void **state) {
  (void)state;
  sweep(arm_call, call_reached, true, false);
}
static void cold_calls_fail_for_good(void **state) {
  (void)state;
  sweep(arm_call, call_reached, true, true);
}
static void warm_calls_fail(void **state) {
  (void)state;
  sweep(arm_call, call_reached, false, false);
}
static void device_is_lost(void **state) {
  (void)state;
  sweep(arm_loss, call_reached, false, false);
}
static void warm_start_has_no_source(void **state) {
  (void)state;
  arm_call(0, false);
  empty_cache();
  assert_int_equal(work(), CLADE_OK);
  assert_int_equal(layer.calls("clCreateProgramWithSource"), 1);
  layer.reset();
  assert_int_equal(work(), CLADE_OK);
  assert_int_equal(layer.calls("clCreateProgramWithSource"), 0);
  assert_int_equal(layer.calls("clCreateProgramWithBinary"), 1);
}
static void cold_allocations_fail(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, true, false);
}
static void warm_allocations_fail(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, false, false);
}
static void warm_allocations_fail_for_good(void **state) {
  (void)state;
  sweep(arm_allocation, allocation_reached, false, true);
}

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-faults-XXXXXX");
  if (!mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1)) return -1;
  if (!clade_layer_open(&layer)) return -1;
  if (clade_init(.allocator = &hook) != CLADE_OK || work() != CLADE_OK || !layer.loaded()) {
    print_error("%s; loaded: %d\n", clade_last_error(), layer.loaded());
    return -1;
  }
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  empty_cache();
  return rmdir(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cold_calls_fail),          cmocka_unit_test(cold_calls_fail_for_good),
      cmocka_unit_test(warm_calls_fail),          cmocka_unit_test(device_is_lost),
      cmocka_unit_test(warm_start_has_no_source), cmocka_unit_test(cold_allocations_fail),
      cmocka_unit_test(warm_allocations_fail),    cmocka_unit_test(warm_allocations_fail_for_good),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

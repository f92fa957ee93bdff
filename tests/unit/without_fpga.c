/* A build with CLADE_FPGA=OFF: no op has an implementation for FPGAs, and the error of a device without a compiler
 * names the option. */
#include "cl_unit.h"
#include "op/op.h"
#include "program/offline.h"

static void no_rows(void **state) {
  (void)state;
  for (const clade_op *const *op = clade__ops; *op; op++)
    for (const clade_impl *const *impl = clade__impls(*op); *impl; impl++)
      if ((*impl)->bundled || (*impl)->family == CLADE_FAMILY_SYSTOLIC)
        fail_msg("%s has the implementation %s", (*op)->name, (*impl)->name);
}

static void no_programs(void **state) {
  (void)state;
  clade__offline *offline;
  clade_device *device;
  check_ok(clade_device_find("pocl", &device));
  check_fails(clade__offline_open(device, &offline), CLADE_UNSUPPORTED, "build Clade with -DCLADE_FPGA=ON");
  assert_null(offline);
  assert_int_equal(clade__programmed_times(device), 0);
  clade_device_release(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_rows), cmocka_unit_test(no_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

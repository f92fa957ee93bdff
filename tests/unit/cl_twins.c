/* Two devices with the same name: messages identify each, and how to select it. */
#include <stdlib.h>

#include <clade/device.h>

#include "cl/internal.h"
#include "cl_unit.h"

static void messages(void **state) {
  (void)state;
  clade_device *device;
  clade_device_info info = {.size = sizeof info};
  char words[256];
  int n;
  check_ok(clade_device_count(&n));
  assert_int_equal(n, 2);
  check_ok(clade_device_find("1", &device));
  check_ok(clade_device_get_info(device, &info));
  snprintf(words, sizeof words, "[%s (device 1)]", info.name);
  check_fails(clade__cl_error(device, "clCall", CL_INVALID_VALUE), CLADE_OPENCL, words);
  clade_device_release(device);
  check_fails(clade_device_find(info.name, &device), CLADE_AMBIGUOUS, "add :0, :1, … or take an index: 0 \"");
  check_ok(clade_device_find("pocl:1", &device));
  check_ok(clade_device_get_info(device, &info));
  assert_string_equal(info.id, "1");
  clade_device_release(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(messages)};
  setenv("POCL_DEVICES", "pthread pthread", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

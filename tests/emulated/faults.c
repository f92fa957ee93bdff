/* Every OpenCL call and every allocation of loading a bundle and computing with it, failed once and from then on: a
 * status with a message or the right result, nothing held afterwards, and usable again. */
#include "kit.h"
#include "fault_sweep.h"

/* From opening the accelerator to giving it back. */
static clade_status work(void) {
  clade_device *device;
  clade_func *func = NULL;
  clade_status status = clade_device_find("emulated", &device);
  if (status != CLADE_OK) return status;
  status = kit_compile_scale(device, &func);
  if (status == CLADE_OK) status = kit_run(func);
  clade_func_release(func);
  clade_device_release(device);
  return status;
}

static const fault_task task = {work, NULL, 4};

static void calls_fail(void **state) {
  (void)state;
  fault_sweep(&task, arm_call, call_reached, false);
  fault_sweep(&task, arm_call, call_reached, true);
}

static void allocations_fail(void **state) {
  (void)state;
  fault_sweep(&task, arm_allocation, allocation_reached, false);
  fault_sweep(&task, arm_allocation, allocation_reached, true);
}

static int set_up(void **state) {
  (void)state;
  if (!clade_layer_open(&layer)) return 1;
  check_ok(clade_init(.allocator = &hook));
  kit_folder_new();
  kit_binary binary = kit_compile(kit_source_text, true);
  clade__bundle_draft draft = kit_draft(binary);
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  clade__free(binary.data);
  return !layer.loaded();
}

static int tear_down(void **state) {
  (void)state;
  kit_folder_remove();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_fail), cmocka_unit_test(allocations_fail)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

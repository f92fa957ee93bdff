/* Fault injection for bundles: every OpenCL call and every allocation of loading and computing fails, once or
 * permanently. Required: a status with a message or the correct result, no leaks, and a usable library afterwards. */
#include "kit.h"
#include "fault_sweep.h"

/* Opens the accelerator, computes and releases it. */
static clade_status once(clade_status (*build)(clade_device *device, clade_func **func),
                         clade_status (*run)(clade_func *func)) {
  clade_device *device;
  clade_func *func = NULL;
  clade_status status = clade_device_find("emulated", &device);
  if (status != CLADE_OK) return status;
  status = build(device, &func);
  if (status == CLADE_OK) status = run(func);
  clade_func_release(func);
  clade_device_release(device);
  return status;
}

static clade_status work(void) { return once(kit_compile_scale, kit_run); }

/* With a fallback device for an op without a bundle kernel: transfers in both directions, and a variable that is
 * transferred once. */
static clade_device *fallback;
static clade_op compiled;

static clade_status build_beside(clade_device *device, clade_func **func) {
  clade_graph *g;
  CLADE_TRY(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8)),
            a = clade_node_add(g, &kit_scale, "a", NULL, 1, &x, NULL);
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(8), (clade_initial){CLADE_INIT_FILL, 2, 0});
  clade_val b = clade_node_add(g, &compiled, "b", NULL, 1, &a, NULL);
  clade_output(g, "y", clade_node_add(g, &kit_scale, "c", NULL, 1, &b, NULL));
  clade_output(g, "v", clade_node_add(g, &compiled, "d", NULL, 1, &w, NULL));
  clade_status status = clade_compile(g, device, func, .fallback = fallback);
  clade_graph_release(g);
  return status;
}

static clade_status run_beside(clade_func *func) {
  float x[8], y[8], v[8];
  clade_vars *vars;
  clade_run *run = NULL;
  clade_ticket ticket;
  for (int i = 0; i < 8; i++) x[i] = (float)i;
  CLADE_TRY(clade_vars_new(func, 0, &vars));
  clade_status status = clade_run_new(func, vars, &run);
  if (status == CLADE_OK) status = clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket);
  if (status == CLADE_OK) status = clade_read(run, ticket, "y", y, sizeof y);
  if (status == CLADE_OK) status = clade_read(run, ticket, "v", v, sizeof v);
  for (int i = 0; i < 8 && status == CLADE_OK; i++) assert_true(y[i] == 27.0f * (float)i && v[i] == 6.0f);
  clade_run_free(run);
  clade_vars_release(vars);
  return status;
}

static clade_status work_beside(void) { return once(build_beside, run_beside); }

static const fault_task task = {work, NULL, 4}, beside = {work_beside, NULL, 4};

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

static void beside_a_fallback(void **state) {
  (void)state;
  compiled = kit_scale;
  compiled.name = "kit.compiled";
  compiled.impls = kit_scale_impls + 1;
  check_ok(clade_device_find("pocl", &fallback));
  fault_sweep(&beside, arm_call, call_reached, false);
  fault_sweep(&beside, arm_allocation, allocation_reached, false);
  clade_device_release(fallback);
}

/* The kernel in a queue other than the run's. */
static void in_two_queues(void **state) {
  setenv("CLADE_BUNDLE_PATH", kit_path("two.bundle"), 1);
  calls_fail(state);
  allocations_fail(state);
  beside_a_fallback(state);
}

static int set_up(void **state) {
  (void)state;
  if (!clade_layer_open(&layer)) return 1;
  check_ok(clade_init(.allocator = &hook));
  kit_folder_new();
  kit_binary binary = kit_compile(kit_source_text, true);
  clade__bundle_draft draft = kit_draft(binary);
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  kit_scale_kernel.queue = 2;
  check_ok(clade__bundle_write(kit_path("two.bundle"), false, &draft));
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_fail), cmocka_unit_test(allocations_fail),
                                     cmocka_unit_test(beside_a_fallback), cmocka_unit_test(in_two_queues)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

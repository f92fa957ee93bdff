/* Clade's bundle loader with the original Xilinx runtime, which has no board here and computes nothing. The layer
 * board.c adds a board's name and memory. */
#include <dlfcn.h>

#include "../emulated/kit.h"
#include "program/bundles.h"
#include "program/store.h"

/* The program is a generated xclbin with that kernel. */
static void write_bundle(const char *name, const clade__bundle_kernel *in_binary, clade__bundle_kernel *told,
                         unsigned char image) {
  clade__text xclbin = kit_xclbin_of(in_binary, 1, image);
  clade__bundle_draft draft = {.manifest = kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN),
                               .binary = xclbin.data,
                               .binary_bytes = xclbin.length};
  draft.manifest.kernels = told;
  check_ok(clade__bundle_write(kit_path(name), false, &draft));
  clade__text_free(&xclbin);
}

/* Number of programs that the runtime has refused, counted by the layer. */
static int board_refusals(void) {
  int (*refusals)(void);
  void *layer = dlopen(getenv("OPENCL_LAYERS"), RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(layer);
  *(void **)&refusals = dlsym(layer, "board_refusals");
  assert_non_null(refusals);
  dlclose(layer);
  return refusals();
}

static clade_device *board(void) {
  clade_device *device;
  check_ok(clade_device_find("fpga", &device));
  return device;
}

static void a_board_without_a_compiler(void **state) {
  (void)state;
  clade_device *device = board();
  const clade_device_info *info = clade__device_info(device);
  assert_string_equal(info->platform, "Xilinx");
  assert_string_equal(info->name, KIT_VBNV);
  assert_int_equal(info->device_class, CLADE_ACCEL);
  assert_false(info->compiler);
  clade_device_release(device);
}

static clade_status bundle_of(const char *name, const clade__bundle_kernel *in_binary, clade__bundle_kernel *told) {
  clade_device *device = board();
  write_bundle(name, in_binary, told, 1);
  setenv("CLADE_BUNDLE_PATH", kit_path(name), 1);
  clade_status status = clade__store_bundle(device);
  clade_device_release(device);
  return status;
}

static void launch_once(clade_device *device, clade__offline *bundle) {
  const clade__request request = {.file = CLADE__BUNDLED_FILE, .kernel = "kit_scale"};
  clade__program_kernel got;
  check_ok(clade__offline_find(device, bundle, &request, &got));
  kit_launch(device, got.program);
}

/* By a graph: the launch completes, and reading returns the buffer's old contents. */
static void a_bundle_is_launched(void **state) {
  (void)state;
  clade_device *device = board();
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8];
  char *text;
  write_bundle("one.bundle", &kit_scale_kernel, &kit_scale_kernel, 1);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_ok(kit_compile_scale(device, &func));
  check_ok(clade_func_explain(func, &text));
  if (!strstr(text, "systolic")) fail_msg("%s", text);
  clade_text_free(text);
  check_ok(clade_run_new(func, NULL, &run));
  for (int i = 0; i < 3; i++) {
    check_ok(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    check_ok(clade_read(run, ticket, "y", y, sizeof y));
    for (int j = 0; j < 8; j++) assert_true(y[j] != 3);
  }
  assert_int_equal(clade__programmed_times(device), 1);
  clade_run_free(run);
  clade_func_release(func);
  clade_device_release(device);
}

static void memory_keeps_what_is_written(void **state) {
  (void)state;
  clade_device *device = board();
  clade__queue *queue;
  clade__buffer *buffer;
  int32_t there[1000], back[1000] = {0};
  for (int i = 0; i < 1000; i++) there[i] = i * i;
  write_bundle("one.bundle", &kit_scale_kernel, &kit_scale_kernel, 1);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_ok(clade__store_bundle(device)); /* memories are unknown before */
  check_ok(clade__queue_new(device, false, &queue));
  check_ok(clade__buffer_new(device, sizeof there, "a test", &buffer));
  check_ok(clade__queue_write(queue, buffer, 0, there, sizeof there, true, (clade__wait){0}, NULL));
  check_ok(clade__queue_read(queue, buffer, 400, back, 2000, true, (clade__wait){0}, NULL));
  assert_memory_equal(back, there + 100, 2000);
  clade__buffer_release(buffer);
  clade__queue_free(queue);
  clade_device_release(device);
}

/* Compares the manifest with what the runtime reports for the kernels. */
static void the_runtime_tells_the_manifest(void **state) {
  (void)state;
  clade__bundle_argument arguments[5];
  clade__bundle_kernel told = kit_scale_kernel;
  told.arguments = arguments;
  memcpy(arguments, kit_scale_arguments, sizeof arguments);
  check_ok(bundle_of("one.bundle", &kit_scale_kernel, &told));
  told.n_arguments = 4;
  check_fails(bundle_of("one.bundle", &kit_scale_kernel, &told), CLADE_CORRUPT,
              "one.bundle: kernel kit_scale: it takes 5 arguments; the manifest tells 4");
  told.n_arguments = 5;
  arguments[1].name = "z_at";
  check_fails(bundle_of("one.bundle", &kit_scale_kernel, &told), CLADE_CORRUPT,
              "its argument 1 is \"x_at\"; the manifest tells \"int z_at\"");
  arguments[1].name = "x_at";
  told.work_group[0] = 2;
  check_fails(bundle_of("one.bundle", &kit_scale_kernel, &told), CLADE_CORRUPT,
              "its work-group has 1 items in dimension 0; the manifest tells 2");
}

/* The self-test of one of Clade's kernels detects that nothing is computed. */
static void a_known_answer_is_missed(void **state) {
  (void)state;
  size_t n;
  const clade__bundle_kernel *kernels = clade__interface_kernels(&n), *k = kernels;
  while (strcmp(k->name, "arg_max") != 0) k++;
  clade__bundle_kernel told = *k;
  clade_device *device = board();
  clade__program_kernel got;
  const clade__request request = {.file = CLADE__BUNDLED_FILE, .kernel = "arg_max"};
  write_bundle("one.bundle", k, &told, 1);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_fails(clade__store_prepare(device, 1, &request, &got), CLADE_CORRUPT,
              "one.bundle: kernel arg_max: its answer to a known question is wrong: element 0 of y is");
  clade_device_release(device);
}

/* Detected by Clade; the runtime would refuse it as well. */
static void one_program_at_a_time(void **state) {
  (void)state;
  clade_device *device = board();
  clade__offline *a, *b;
  cl_program program;
  write_bundle("one.bundle", &kit_scale_kernel, &kit_scale_kernel, 1);
  write_bundle("two.bundle", &kit_scale_kernel, &kit_scale_kernel, 2);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  uint64_t times = clade__programmed_times(device);
  check_ok(clade__offline_open(device, &a));
  setenv("CLADE_BUNDLE_PATH", kit_path("two.bundle"), 1);
  check_fails(clade__offline_open(device, &b), CLADE_BUSY, "holds the program of another bundle");
  clade__text second = kit_xclbin_of(&kit_scale_kernel, 1, 2);
  check_fails(clade__program_load(device, second.data, second.length, NULL, &program), CLADE_BUSY,
              "may still hold another program: clCreateProgramWithBinary: CL_OUT_OF_");
  clade__text_free(&second);
  clade__offline_free(device, a);
  clade__bundle_kernel other = kit_scale_kernel;
  other.name = "kit_other";
  mkdir(kit_path("both"), 0700);
  write_bundle("both/one.bundle", &kit_scale_kernel, &kit_scale_kernel, 1);
  write_bundle("both/other.bundle", &other, &other, 2);
  setenv("CLADE_BUNDLE_PATH", kit_path("both"), 1);
  check_fails(clade__offline_open(device, &b), CLADE_UNSUPPORTED, "which holds one program");
  setenv("CLADE_BUNDLE_PATH", kit_path("two.bundle"), 1);
  check_ok(clade__offline_open(device, &b));
  assert_int_equal(clade__programmed_times(device), times + 2);
  clade__offline_free(device, b);
  clade_device_release(device);
}

/* Loads the next bundle directly after the last launch of the previous one, when the runtime may still hold that
 * program. */
static void the_next_program_is_waited_for(void **state) {
  (void)state;
  enum { MOST = 40000 };
  const char *const names[] = {"one.bundle", "two.bundle"};
  const int before = board_refusals();
  clade_device *device = board();
  int i = 0;
  for (; i < 2; i++) write_bundle(names[i], &kit_scale_kernel, &kit_scale_kernel, (unsigned char)(1 + i));
  for (i = 0; i < MOST && board_refusals() < before + 3; i++) {
    clade__offline *bundle;
    setenv("CLADE_BUNDLE_PATH", kit_path(names[i % 2]), 1);
    check_ok(clade__offline_open(device, &bundle));
    launch_once(device, bundle);
    clade__offline_free(device, bundle);
  }
  print_message("refused %d times among %d changes of programs\n", board_refusals() - before, i);
  assert_true(board_refusals() > before);
  clade_device_release(device);
}

/* If the program is held outside of Clade, the wait times out. */
static void the_wait_ends(void **state) {
  (void)state;
  clade_device *device = board();
  clade__offline *bundle;
  cl_program program;
  write_bundle("two.bundle", &kit_scale_kernel, &kit_scale_kernel, 2);
  write_bundle("three.bundle", &kit_scale_kernel, &kit_scale_kernel, 3);
  setenv("CLADE_BUNDLE_PATH", kit_path("two.bundle"), 1);
  check_ok(clade__offline_open(device, &bundle));
  clade__offline_free(device, bundle);
  clade__text first = kit_xclbin_of(&kit_scale_kernel, 1, 1);
  check_ok(clade__program_load(device, first.data, first.length, NULL, &program));
  const int before = board_refusals();
  setenv("CLADE_BUNDLE_PATH", kit_path("three.bundle"), 1);
  check_fails(clade__offline_open(device, &bundle), CLADE_BUSY,
              "refuses its binary: asked 10 times: device \"xilinx_u250_gen3x16_xdma_4_1_202210_1\" may still hold");
  assert_int_equal(board_refusals() - before, 10);
  clade__program_release(program);
  clade__text_free(&first);
  check_ok(clade__offline_open(device, &bundle));
  clade__offline_free(device, bundle);
  clade_device_release(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_board_without_a_compiler),     cmocka_unit_test(a_bundle_is_launched),
      cmocka_unit_test(memory_keeps_what_is_written),   cmocka_unit_test(the_runtime_tells_the_manifest),
      cmocka_unit_test(a_known_answer_is_missed),       cmocka_unit_test(one_program_at_a_time),
      cmocka_unit_test(the_next_program_is_waited_for), cmocka_unit_test(the_wait_ends),
  };
  return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}

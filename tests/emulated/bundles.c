/* Bundles on the emulated accelerator: search, loading, kernel selection and execution, and each reason for refusal. */
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "program/bundles.h"
#include "program/store.h"

static kit_binary binary;

static int set_up(void **state) {
  (void)state;
  kit_folder_new();
  binary = kit_compile(kit_source_text, true);
  mkdir(kit_path("bundles"), 0700);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  clade__free(binary.data);
  kit_folder_remove();
  return 0;
}

/* Status of opening the accelerator with this bundle path. */
static clade_status opened(const char *path) {
  clade_device *device;
  setenv("CLADE_BUNDLE_PATH", path, 1);
  check_ok(clade_device_find("emulated", &device));
  clade_status status = clade__store_bundle(device);
  clade_device_release(device);
  return status;
}

static clade_status opened_draft(const clade__bundle_draft *draft) {
  const char *path = kit_path("one.bundle");
  check_ok(clade__bundle_write(path, false, draft));
  return opened(path);
}

static void a_bundle_computes(void **state) {
  (void)state;
  clade_device *device, *pocl;
  clade_func *func, *beside;
  char *text = NULL;
  clade_device_info info = {.size = sizeof info};
  clade__bundle_draft draft = kit_draft(binary);
  clade__bundle_define defines[] = {{"PE_ROWS", "16"}, {"TILE_COLS", "100000"}};
  draft.manifest.defines = defines;
  draft.manifest.n_defines = CLADE_COUNT(defines);
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_ok(clade_device_find("emulated", &device));
  check_ok(clade_device_find("pocl", &pocl));
  assert_int_equal(clade__device_info(device)->device_class, CLADE_ACCEL);
  assert_null(clade__device_info(device)->kernels);
  check_ok(kit_compile_scale(device, &func));
  check_ok(clade_device_get_info(device, &info));
  assert_string_equal(info.kernels[0], "kit_scale");
  assert_null(info.kernels[1]);
  assert_string_equal(info.evidence, "none"); /* the weakest of all */
  assert_int_equal(info.array.rows, 16);
  assert_int_equal(info.array.columns, 8);
  assert_int_equal(info.array.tile_columns, 4096); /* the upper limit */
  check_ok(clade_func_explain(func, &text));
  if (!strstr(text, "systolic")) fail_msg("%s", text);
  clade_text_free(text);
  check_ok(kit_compile_scale(pocl, &beside)); /* in the same process, compiled */
  check_ok(kit_run(func));
  check_ok(kit_run(beside));
  check_ok(kit_run(func));
  assert_int_equal(clade__programmed_times(device), 1);
  clade_func_release(func);
  clade_func_release(beside);
  clade_device_release(device);
  clade_device_release(pocl);
}

/* The accelerator requires page-aligned host memory. */
static void transfers_are_of_pages(void **state) {
  (void)state;
  enum { MANY = (5 << 20) / 2 };
  clade_device *device;
  clade_tensor *tensor;
  unsigned char *host = clade__new(2, MANY + 1), *from = host + 1, *to = from + MANY;
  assert_non_null(host);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_ok(clade_device_find("emulated", &device));
  assert_true(clade__quirk_has(device, CLADE__QUIRK_PAGES));
  for (size_t i = 0; i < MANY; i++) from[i] = (unsigned char)(i * i >> 8);
  check_ok(clade_tensor_new(device, CLADE_I8, CLADE_SHAPE(MANY), &tensor));
  check_ok(clade_tensor_write(tensor, from, MANY));
  check_ok(clade_tensor_read(tensor, to, MANY));
  assert_memory_equal(from, to, MANY);
  clade_tensor_release(tensor);
  clade_device_release(device);
  clade__free(host);
}

static void what_is_no_size(void **state) {
  (void)state;
  clade__bundle_draft draft = kit_draft(binary);
  clade__bundle_define define = {"PE_ROWS", "many"};
  draft.manifest.defines = &define;
  draft.manifest.n_defines = 1;
  check_fails(opened_draft(&draft), CLADE_CORRUPT, "one.bundle: defines.PE_ROWS is \"many\"; a number from 1");
}

static void what_it_lacks_is_refused(void **state) {
  (void)state;
  clade_device *device;
  clade_func *func;
  clade_graph *g;
  clade__program_kernel got;
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_ok(clade_device_find("emulated", &device));
  check_ok(clade_graph_new(&g));
  clade_output(g, "y", clade_relu(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8))));
  check_fails(clade_compile(g, device, &func), CLADE_UNSUPPORTED, "ref: its kernels are compiled, and the device's");
  clade_graph_release(g);
  clade__request r = {.file = "gemm", .kernel = "gemm_ref"};
  check_fails(clade__store_prepare(device, 1, &r, &got), CLADE_UNSUPPORTED, "the device has no compiler");
  r = (clade__request){.file = CLADE__BUNDLED_FILE, .kernel = "other"};
  check_fails(clade__store_prepare(device, 1, &r, &got), CLADE_NOT_FOUND, "has no kernel other");
  r = (clade__request){
      .file = CLADE__BUNDLED_FILE, .kernel = "kit_scale", .args = (clade__launch_arg[1]){{0}}, .n_args = 1};
  check_fails(clade__store_prepare(device, 1, &r, &got), CLADE_INVALID, "takes 5 arguments, 1 are described");
  clade_device_release(device);
}

/* ---- search path ---- */
static void places(void **state) {
  (void)state;
  clade__bundle_draft draft = kit_draft(binary), other = kit_draft(binary);
  char path[2048];
  other.manifest.target.device = "another accelerator";
  check_ok(clade__bundle_write(kit_path("bundles/b.bundle"), true, &draft)); /* a directory is also searched */
  check_ok(clade__bundle_write(kit_path("bundles/a.bundle"), false, &other));
  check_ok(clade__bundle_write(kit_path("bundles/.hidden.bundle"), false, &draft));
  check_ok(clade__bundle_write(kit_path("bundles/c.other"), false, &draft));
  check_ok(opened(kit_path("bundles")));
  check_ok(opened(kit_path("bundles/b.bundle")));
  snprintf(path, sizeof path, "%s:%s::%s", kit_path("nowhere"), kit_path("bundles/a.bundle"), kit_path("bundles"));
  check_ok(opened(path));
  check_fails(opened(kit_path("nowhere")), CLADE_NOT_FOUND, "has no compiler, and no bundle for it is in");
  check_fails(opened(kit_path("bundles/a.bundle")), CLADE_NOT_FOUND, "is for \"another accelerator\" of kind pocl");
  assert_int_equal(truncate(kit_path("bundles/a.bundle"), 8192), 0); /* no more than the manifest is read */
  check_fails(opened(kit_path("bundles/a.bundle")), CLADE_NOT_FOUND, "is for \"another accelerator\" of kind pocl");
  check_fails(opened("bundles"), CLADE_INVALID, "absolute paths were expected");
  check_ok(clade__bundle_write(kit_path("bundles/d.bundle"), false, &draft));
  check_fails(opened(kit_path("bundles")), CLADE_AMBIGUOUS, "b.bundle and ");
  unlink(kit_path("bundles/d.bundle"));
  /* Without the variable, the user's own directory is searched. */
  setenv("XDG_DATA_HOME", kit_path("data"), 1);
  mkdir(kit_path("data"), 0700), mkdir(kit_path("data/clade"), 0700), mkdir(kit_path("data/clade/bundles"), 0700);
  check_fails(opened(""), CLADE_NOT_FOUND, "data/clade/bundles, ");
  check_ok(clade__bundle_write(kit_path("data/clade/bundles/d.bundle"), false, &draft));
  check_ok(opened(""));
  unsetenv("XDG_DATA_HOME");
}

/* A separate process, since clade_init must come first; returns the resulting status. */
static int as_a_program(char **argv) {
  if (clade_init(.bundle_policy = (clade_bundle_policy)atoi(argv[1]), .bundle_keys = argv[2]) != CLADE_OK) return 99;
  return (int)opened(argv[3]);
}
static int told_by_init(clade_bundle_policy policy, const char *keys, const char *path) {
  char own[512] = "", command[2048];
  assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
  snprintf(command, sizeof command, "'%s' %d '%s' '%s'", own, (int)policy, keys, path);
  int status = system(command);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void trust(void **state) {
  (void)state;
  clade__bundle_draft draft = kit_draft(binary);
  const char *path = kit_path("one.bundle"), *trusted = kit_path("keys.pem"), *own = kit_path("own.pem");
  FILE *public = fopen(trusted, "w"), *private = fopen(own, "w");
  fputs(KIT_PUBLIC_KEY, public), fputs(KIT_PRIVATE_KEY, private);
  fclose(public), fclose(private);
  check_ok(clade__bundle_write(path, false, &draft));
  setenv("CLADE_BUNDLE_POLICY", "some", 1);
  check_fails(opened(path), CLADE_INVALID, "\"any\" or \"signed\" was expected");
  setenv("CLADE_BUNDLE_POLICY", "signed", 1);
  check_fails(opened(path), CLADE_INVALID, "no trusted keys are named");
  setenv("CLADE_BUNDLE_KEYS", trusted, 1);
  check_fails(opened(path), CLADE_PERMISSION, "is not signed");
  unsetenv("CLADE_BUNDLE_POLICY");
  check_ok(opened(path));
  assert_int_equal(told_by_init(CLADE_BUNDLES_ANY, trusted, path), CLADE_OK);
  assert_int_equal(told_by_init(CLADE_BUNDLES_SIGNED, trusted, path), CLADE_PERMISSION);
  setenv("CLADE_BUNDLE_POLICY", "any", 1); /* weaker than the program's policy: ignored */
  assert_int_equal(told_by_init(CLADE_BUNDLES_SIGNED, trusted, path), CLADE_PERMISSION);
  setenv("CLADE_BUNDLE_POLICY", "signed", 1); /* stricter: applies */
  assert_int_equal(told_by_init(CLADE_BUNDLES_ANY, trusted, path), CLADE_PERMISSION);
  draft.key_path = own;
  check_ok(clade__bundle_write(path, false, &draft));
  check_ok(opened(path));
  unsetenv("CLADE_BUNDLE_KEYS");
  assert_int_equal(told_by_init(CLADE_BUNDLES_SIGNED, trusted, path), CLADE_OK);
  setenv("CLADE_BUNDLE_POLICY", "any", 1);
  chmod(path, 0666);
  check_fails(opened(path), CLADE_PERMISSION, "others may write to");
  unlink(path);
  unsetenv("CLADE_BUNDLE_POLICY");
  unsetenv("CLADE_BUNDLE_KEYS");
}

/* ---- verification of the program ---- */
static void the_manifest_tells_the_program(void **state) {
  (void)state;
  clade__bundle_argument arguments[5];
  clade__bundle_kernel kernel = kit_scale_kernel;
  clade__bundle_draft draft = kit_draft(binary);
  memcpy(arguments, kit_scale_arguments, sizeof arguments);
  draft.manifest.kernels = &kernel;
  kernel.arguments = arguments;
  check_ok(opened_draft(&draft));
  kernel.work_group[0] = 64;
  check_fails(opened_draft(&draft), CLADE_CORRUPT, "its work-group has 1 items in dimension 0; the manifest tells 64");
  kernel.work_group[0] = 1;
  kernel.n_arguments = 4;
  check_fails(opened_draft(&draft), CLADE_CORRUPT, "it takes 5 arguments; the manifest tells 4");
  kernel.n_arguments = 5;
  arguments[2].type = "global int *";
  check_fails(opened_draft(&draft), CLADE_CORRUPT,
              "its argument 2 is \"global float * y\"; the manifest tells \"global int");
  arguments[2].type = "global float *";
  arguments[4].name = "m";
  check_fails(opened_draft(&draft), CLADE_CORRUPT, "its argument 4 is \"int n\"; the manifest tells \"int m\"");
  arguments[4].name = "n";
  check_ok(opened_draft(&draft));
}

/* A kernel of Clade's interface must have the interface's arguments, whatever the manifest says. */
static void the_interface_tells_the_manifest(void **state) {
  (void)state;
  clade__bundle_argument arguments[32];
  clade__bundle_kernel kernel = {.name = "eltwise", .arguments = arguments};
  clade__bundle bundle = {.path = "it", .manifest = {.kernels = &kernel, .n_kernels = 1}};
  bool counted = false;
  check_fails(clade__interface_check(&bundle), CLADE_UNSUPPORTED, "it: kernel eltwise takes 0 arguments; by version 1");
  for (size_t i = 0; i < 32 && !counted; i++) {
    arguments[i] = (clade__bundle_argument){"int", "e0", CLADE__READ};
    kernel.n_arguments = i + 1;
    assert_int_equal(clade__interface_check(&bundle), CLADE_UNSUPPORTED);
    counted =
        strstr(clade_last_error(), "argument 0 of kernel eltwise is \"int e0\" (read); by version 1 of the interface "
                                   "it is \"global uint * e0\" (read)");
  }
  assert_true(counted);
  kernel.name = "of_a_user";
  check_ok(clade__interface_check(&bundle));
}

/* A binary for another driver or processor: the implementation's error is reported, without a crash. */
static void a_binary_of_another_build(void **state) {
  (void)state;
  kit_binary other = {.data = clade__new(binary.bytes, 1), .bytes = binary.bytes};
  memcpy(other.data, binary.data, binary.bytes);
  ((unsigned char *)other.data)[8] ^= 1; /* hash of device and driver */
  clade__bundle_draft draft = kit_draft(other);
  check_fails(opened_draft(&draft), CLADE_CORRUPT, "refuses its binary: clCreateProgramWithBinary: CL_INVALID_BINARY");
  clade__free(other.data);
}

/* A kernel of the interface is self-tested before first use. */
static clade_status first_use(const char *source) {
  static clade__bundle_argument arguments[] = {{"global float *", "x", CLADE__READ}, {"int", "x_at", CLADE__VALUE},
                                               {"global int *", "y", CLADE__WRITE},  {"int", "y_at", CLADE__VALUE},
                                               {"int", "outer", CLADE__VALUE},       {"int", "n", CLADE__VALUE},
                                               {"int", "inner", CLADE__VALUE}};
  clade__bundle_kernel kernel = kit_scale_kernel;
  kit_binary other = kit_compile(source, false);
  clade__bundle_draft draft = kit_draft(other);
  clade_device *device;
  clade__program_kernel got;
  const clade__request request = {.file = CLADE__BUNDLED_FILE, .kernel = "arg_max"};
  kernel.name = "arg_max";
  kernel.arguments = arguments;
  kernel.n_arguments = CLADE_COUNT(arguments);
  draft.manifest.kernels = &kernel;
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_ok(clade_device_find("emulated", &device));
  clade_status status = clade__store_prepare(device, 1, &request, &got);
  clade_device_release(device);
  clade__free(other.data);
  return status;
}

#define ARG_MAX(body)                                                                                              \
  "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void arg_max(__global const float *x, const int x_at, " \
  "__global int *y, const int y_at, const int outer, const int n, const int inner) { " body " }"

static void known_answers(void **state) {
  (void)state;
  check_ok(first_use(ARG_MAX("int at = 0; for (int i = 1; i < n; i++) if (x[x_at + i] > x[x_at + at]) at = i; "
                             "y[y_at] = at;")));
  check_fails(first_use(ARG_MAX("y[y_at] = n - 1;")), CLADE_CORRUPT,
              "one.bundle: kernel arg_max: its answer to a known question is wrong: element 0 of y is 2, not 1");
}

/* The device holds one program at a time and reports the number of changes. */
static void one_program_at_a_time(void **state) {
  (void)state;
  clade__bundle_draft draft = kit_draft(binary), second = kit_draft(binary);
  clade_device *device;
  clade__offline *a, *b;
  second.manifest.tool.version = "another";
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  check_ok(clade__bundle_write(kit_path("two.bundle"), false, &second));
  check_ok(clade_device_find("emulated", &device));
  uint64_t times = clade__programmed_times(device);
  setenv("CLADE_BUNDLE_PATH", kit_path("two.bundle"), 1);
  check_ok(clade__offline_open(device, &a));
  assert_int_equal(clade__programmed_times(device), times + 1);
  check_ok(clade__offline_open(device, &b));
  assert_int_equal(clade__programmed_times(device), times + 1);
  clade__offline_free(device, b);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  check_fails(clade__offline_open(device, &b), CLADE_BUSY, "holds the program of another bundle");
  clade__offline_free(device, a);
  check_ok(clade__offline_open(device, &b));
  assert_int_equal(clade__programmed_times(device), times + 2);
  clade__offline_free(device, b);
  clade_device_release(device);
}

int main(int argc, char **argv) {
  if (argc == 4) return as_a_program(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bundle_computes),
      cmocka_unit_test(transfers_are_of_pages),
      cmocka_unit_test(what_it_lacks_is_refused),
      cmocka_unit_test(what_is_no_size),
      cmocka_unit_test(places),
      cmocka_unit_test(trust),
      cmocka_unit_test(the_manifest_tells_the_program),
      cmocka_unit_test(the_interface_tells_the_manifest),
      cmocka_unit_test(a_binary_of_another_build),
      cmocka_unit_test(known_answers),
      cmocka_unit_test(one_program_at_a_time),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* Devices: enumeration, selection, sub-devices, adoption and errors, on PoCL. */
#include "cl_unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clade/opencl.h>

#include "cl/cl.h"

static void lists_devices(void **state) {
  (void)state;
  int n = 0;
  check_ok(clade_device_count(&n));
  assert_true(n >= 1);
  for (int i = 0; i < n; i++) {
    char id[16];
    clade_device_info info = {.size = sizeof info};
    check_ok(clade_device_describe(i, &info));
    snprintf(id, sizeof id, "%d", i);
    assert_string_equal(info.id, id);
    assert_true(info.name[0] && info.platform[0]);
    assert_true(info.global_bytes && info.max_buffer_bytes && info.budget_bytes && info.max_group);
    assert_true(info.alignment >= 64);
  }
  clade_device_info info = {.size = sizeof info};
  check_fails(clade_device_describe(n, &info), CLADE_NOT_FOUND, "there is no device");
  check_fails(clade_device_describe(-1, &info), CLADE_NOT_FOUND, "no device -1");
  check_fails(clade_device_describe(0, NULL), CLADE_INVALID, "info is NULL");
  info.size = 0;
  check_fails(clade_device_describe(0, &info), CLADE_INVALID, "info->size");
  check_fails(clade_device_count(NULL), CLADE_INVALID, "count is NULL");
}

/* A caller compiled against an older, shorter struct. */
static void fills_only_what_the_caller_has(void **state) {
  (void)state;
  clade_device_info info;
  memset(&info, 0x5a, sizeof info);
  info.size = offsetof(clade_device_info, vendor);
  check_ok(clade_device_describe(0, &info));
  assert_int_equal(info.size, offsetof(clade_device_info, vendor));
  const unsigned char *rest = (const unsigned char *)&info + info.size;
  for (size_t i = 0; i < sizeof info - info.size; i++) assert_int_equal(rest[i], 0x5a);
}

static void finds_by_spec(void **state) {
  (void)state;
  static const char *const specs[] = {NULL, "pocl", "PoCL:cpu", "0", "0:cpu:0", "pocl:0", ":cpu", "cpu:0", "portable"};
  for (size_t i = 0; i < CLADE_COUNT(specs); i++) {
    clade_device *d;
    check_ok(clade_device_find(specs[i], &d));
    clade_device_info info = {.size = sizeof info};
    check_ok(clade_device_get_info(d, &info));
    assert_string_equal(info.id, "0");
    check_ok(clade_device_status(d));
    clade_device_release(d);
  }
}

static void refuses_specs_with_candidates(void **state) {
  (void)state;
  clade_device *d = (clade_device *)1;
  check_fails(clade_device_find("warp drive", &d), CLADE_NOT_FOUND, "\"warp drive\"");
  assert_null(d);
  assert_non_null(strstr(clade_last_error(), "0 \""));
  check_fails(clade_device_find("pocl:gpu", &d), CLADE_NOT_FOUND, "Portable Computing Language");
  check_fails(clade_device_find("pocl:1", &d), CLADE_NOT_FOUND, "asks for match 1");
  check_fails(clade_device_find("77", &d), CLADE_NOT_FOUND, "no device matches");
  check_fails(clade_device_find("fpga", &d), CLADE_NOT_FOUND, "no device matches");
  check_fails(clade_device_find("pocl", NULL), CLADE_INVALID, "out is NULL");
}

static void obeys_the_environment(void **state) {
  (void)state;
  clade_device *d;
  setenv("CLADE_DEVICE", "absent", 1);
  check_fails(clade_device_find(NULL, &d), CLADE_NOT_FOUND, "CLADE_DEVICE");
  check_ok(clade_device_find("pocl", &d));
  clade_device_release(d);
  setenv("CLADE_DEVICE", "", 1);
  check_ok(clade_device_find(NULL, &d));
  clade_device_release(d);
  unsetenv("CLADE_DEVICE");
}

static void opens_a_device_once(void **state) {
  (void)state;
  clade_device *a, *b;
  check_ok(clade_device_find("pocl", &a));
  check_ok(clade_device_find("0", &b));
  assert_ptr_equal(a, b);
  clade_device_release(b);
  check_ok(clade_device_status(a));
  check_ok(clade__device_probe(a));
  clade_device_release(a);
  clade_device_release(NULL);
  assert_null(clade_device_retain(NULL));
}

static void refuses_null(void **state) {
  (void)state;
  clade_device *d;
  clade_memory_use use = {.size = sizeof use};
  check_fails(clade_device_status(NULL), CLADE_INVALID, "NULL");
  check_fails(clade_device_split(NULL, 2, &d), CLADE_INVALID, "NULL");
  check_fails(clade_device_memory(NULL, &use), CLADE_INVALID, "NULL");
  check_fails(clade_device_set_budget(NULL, 1), CLADE_INVALID, "NULL");
  check_fails(clade_device_get_info(NULL, NULL), CLADE_INVALID, "NULL");
  check_fails(clade_device_adopt(NULL, NULL, &d), CLADE_INVALID, "context is NULL");
  assert_null(clade_device_context(NULL));
}

static void splits_a_cpu(void **state) {
  (void)state;
  clade_device *whole, *part[2];
  clade_device_info info = {.size = sizeof info};
  check_ok(clade_device_find("pocl", &whole));
  check_ok(clade_device_get_info(whole, &info));
  uint32_t units = info.compute_units;
  check_fails(clade_device_split(whole, 0, part), CLADE_INVALID, "0 parts");
  check_fails(clade_device_split(whole, (int)units + 1, part), CLADE_INVALID, "parts of a device");
  int parts = units >= 2 ? 2 : 1;
  check_ok(clade_device_split(whole, parts, part));
  clade_device_release(whole);
  for (int i = 0; i < parts; i++) {
    check_ok(clade_device_get_info(part[i], &info));
    assert_int_equal(info.compute_units, units / (unsigned)parts);
    check_ok(clade__device_probe(part[i]));
    clade_device_release(part[i]);
  }
}

static void adopts_a_context(void **state) {
  (void)state;
  clade_device *own, *adopted, *other = NULL;
  check_ok(clade_device_find("pocl", &own));
  check_ok(clade_device_adopt(clade_device_context(own), clade_device_cl_id(own), &adopted));
  assert_ptr_equal(clade_device_context(adopted), clade_device_context(own));
  clade_device_release(own); /* the other one keeps the context alive */
  check_ok(clade__device_probe(adopted));
  clade_device *part[1];
  check_ok(clade_device_split(adopted, 1, part));
  check_fails(clade_device_adopt(clade_device_context(adopted), clade_device_cl_id(part[0]), &other), CLADE_INVALID,
              "none of the context's");
  assert_null(other);
  clade_device_release(part[0]);
  clade_device_release(adopted);
}

static int in_child(clade_device *d) {
  clade_device *again;
  int n;
  if (clade_device_status(d) != CLADE_FORKED) return 1;
  if (!strstr(clade_last_error(), "forked")) return 2;
  if (clade_device_find("pocl", &again) != CLADE_FORKED) return 3;
  if (clade_device_count(&n) != CLADE_FORKED) return 4;
  clade_tensor *t;
  if (clade_tensor_new(d, CLADE_F32, CLADE_SHAPE(4), &t) != CLADE_FORKED) return 5;
  clade_device_release(d);
  return 0;
}

static void refuses_a_forked_child(void **state) {
  (void)state;
  clade_device *d;
  check_ok(clade_device_find("pocl", &d));
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(in_child(d));
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  check_ok(clade_device_status(d));
  clade_device_release(d);
}

static void names_errors(void **state) {
  (void)state;
  assert_string_equal(clade__cl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
  assert_string_equal(clade__cl_error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
  assert_string_equal(clade__cl_error_name(4711), "CL_?");
  clade_device *d;
  check_ok(clade_device_find("pocl", &d));
  cl_program program = NULL;
  char *log = NULL;
  static const char broken[] = "__kernel void f(void) { undeclared_thing(); }";
  check_fails(clade__program_build(d, broken, sizeof broken - 1, "", &program, &log), CLADE_BUILD,
              "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)");
  assert_null(program);
  assert_non_null(log);
  assert_non_null(strstr(log, "undeclared_thing"));
  clade__free(log);
  clade_device_release(d);
}

static void reports_the_loader(void **state) {
  (void)state;
  clade__loader_report report;
  clade__loader_inspect(&report);
  assert_non_null(report.path);
  assert_null(report.error);
  assert_int_equal(report.platform_error, CL_SUCCESS);
  assert_true(report.platforms >= 1);
  clade__platform_report platform;
  assert_int_equal(clade__platforms_inspect(1, &platform), report.platforms);
  assert_string_equal(platform.name, "Portable Computing Language");
  assert_int_equal(platform.devices, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_devices),         cmocka_unit_test(fills_only_what_the_caller_has),
      cmocka_unit_test(finds_by_spec),         cmocka_unit_test(refuses_specs_with_candidates),
      cmocka_unit_test(obeys_the_environment), cmocka_unit_test(opens_a_device_once),
      cmocka_unit_test(refuses_null),          cmocka_unit_test(splits_a_cpu),
      cmocka_unit_test(adopts_a_context),      cmocka_unit_test(refuses_a_forked_child),
      cmocka_unit_test(names_errors),          cmocka_unit_test(reports_the_loader),
  };
  unsetenv("CLADE_DEVICE");
  return cmocka_run_group_tests(tests, NULL, NULL);
}

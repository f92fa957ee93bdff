/* A kernel file for the tests of the program store, with requests and a launch that identifies the variant. Include
 * after cmocka.h. */
#ifndef CLADE_TESTS_PROGRAM_KERNELS_H
#define CLADE_TESTS_PROGRAM_KERNELS_H

#include "program/parts.h"

static const char probe_source[] = "KERNEL(probe)(ARG(STORAGE(T), x), const index_t n) {\n"
                                   "  USE(STORAGE(T), x);\n"
                                   "  if (get_global_id(0) < n) STORE(T, x, get_global_id(0), VALUE);\n"
                                   "}\n";
static const clade__launch_arg probe_args[] = {
    {CLADE__LAUNCH_BUFFER, 0}, {CLADE__LAUNCH_BYTES, 4}, {CLADE__LAUNCH_BYTES, 4}};
/* Variant i stores i + 2. */
static const clade__define probe_defines[][3] = {
#define ROW(value)                                     \
  {                                                    \
    {"T", "i32"}, {"VALUE", value}, { "INDEX64", "0" } \
  }
    ROW("2"), ROW("3"), ROW("4"), ROW("5"), ROW("6"), ROW("7"), ROW("8"), ROW("9"),
#undef ROW
};

static inline void probe_request(int variant, clade__request *r) {
  *r = (clade__request){.file = "probe",
                        .source = probe_source,
                        .kernel = "probe",
                        .options = "",
                        .n_defines = 3,
                        .defines = probe_defines[variant],
                        .local = {4, 1, 1},
                        .n_args = 3,
                        .args = probe_args};
}

/* The device under test: CLADE_DEVICE, or the default. */
static inline clade_device *probe_device(void) {
  clade_device *device = NULL;
  if (clade_device_find(NULL, &device) != CLADE_OK) fail_msg("%s", clade_last_error());
  return device;
}

/* Returns the value that the kernel stores. */
static inline clade_status probe_try(clade_device *device, const clade__program_kernel *k, int *value) {
  cl_kernel kernel = NULL;
  clade__buffer *buffer = NULL;
  clade__queue *queue = NULL;
  cl_int n = 4, at = 0, result[4] = {-1, -1, -1, -1};
  const size_t global = 4, local = 4;
  clade_status status;
  CLADE_GOTO(clade__kernel_new(device, k->program, k->name, &kernel));
  CLADE_GOTO(clade__buffer_new(device, sizeof result, "a test", &buffer));
  CLADE_GOTO(clade__queue_new(device, false, &queue));
  cl_mem memory = clade__buffer_mem(buffer);
  CLADE_GOTO(clade__kernel_set(device, kernel, 0, sizeof memory, &memory));
  CLADE_GOTO(clade__kernel_set(device, kernel, 1, sizeof at, &at));
  CLADE_GOTO(clade__kernel_set(device, kernel, 2, sizeof n, &n));
  CLADE_GOTO(clade__queue_launch(queue, kernel, 1, &global, &local, (clade__wait){0}, NULL));
  CLADE_GOTO(clade__queue_read(queue, buffer, 0, result, sizeof result, true, (clade__wait){0}, NULL));
fail:
  clade__queue_free(queue);
  clade__buffer_release(buffer);
  clade__kernel_release(kernel);
  *value = result[0] == result[3] ? result[0] : -1;
  return status;
}

/* The same, or -1. */
static inline int probe_run(clade_device *device, const clade__program_kernel *k) {
  int value;
  return probe_try(device, k, &value) == CLADE_OK ? value : -1;
}

#endif

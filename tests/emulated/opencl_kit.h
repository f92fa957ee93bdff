/* The emulated accelerator and PoCL's own device through plain OpenCL, each with a context; programs are compiled by
 * the latter for the former. */
#ifndef EMULATED_OPENCL_KIT_H
#define EMULATED_OPENCL_KIT_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct kit {
  cl_platform_id platform, real_platform;
  cl_device_id device, real_device;
  cl_context context, real_context;
} kit;

#define DONE(call) assert_int_equal(call, CL_SUCCESS)
/* For calls that return an object and an error code. */
#define REFUSED(error, call)    \
  do {                          \
    e = CL_SUCCESS;             \
    assert_null(call);          \
    assert_int_equal(e, error); \
  } while (0)

static inline int kit_set_up(void **state) {
  static kit k;
  cl_platform_id all[8];
  cl_uint n = 0, again = 0;
  cl_int e;
  DONE(clGetPlatformIDs(8, all, &n));
  DONE(clGetPlatformIDs(0, NULL, &again));
  assert_int_equal(n, again);
  assert_true(n >= 2 && n <= 8);
  k.real_platform = all[0]; /* the accelerator is last, so that indices of other devices stay the same */
  k.platform = all[n - 1];
  DONE(clGetDeviceIDs(k.real_platform, CL_DEVICE_TYPE_ALL, 1, &k.real_device, NULL));
  DONE(clGetDeviceIDs(k.platform, CL_DEVICE_TYPE_ALL, 1, &k.device, &n));
  assert_int_equal(n, 1);
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)k.platform, 0};
  k.context = clCreateContext(properties, 1, &k.device, NULL, NULL, &e);
  DONE(e);
  k.real_context = clCreateContext(NULL, 1, &k.real_device, NULL, NULL, &e);
  DONE(e);
  *state = &k;
  return 0;
}

static inline int kit_tear_down(void **state) {
  kit *k = *state;
  clReleaseContext(k->context);
  clReleaseContext(k->real_context);
  return 0;
}

static inline cl_program kit_compiled(kit *k, const char *source, unsigned char **binary, size_t *bytes) {
  cl_int e;
  cl_program program = clCreateProgramWithSource(k->real_context, 1, &source, NULL, &e);
  DONE(e);
  DONE(clBuildProgram(program, 1, &k->real_device, "-cl-kernel-arg-info", NULL, NULL));
  DONE(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes, NULL));
  *binary = malloc(*bytes);
  assert_non_null(*binary);
  DONE(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof *binary, binary, NULL));
  return program;
}

#endif

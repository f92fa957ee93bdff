/* The emulated accelerator through plain OpenCL: reported properties, refusals, and that PoCL's own device is
 * unaffected. */
#include "opencl_kit.h"

static const char source[] = "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
                             "void twice(__global const int *x, __global int *y, const int n) {\n"
                             "  for (int i = 0; i < n; i++) y[i] = 2 * x[i];\n"
                             "}\n";

static const char *text(cl_device_id device, cl_device_info what) {
  static char room[1024];
  DONE(clGetDeviceInfo(device, what, sizeof room, room, NULL));
  return room;
}

static uint64_t number(cl_device_id device, cl_device_info what) {
  uint64_t value = 0;
  DONE(clGetDeviceInfo(device, what, sizeof value, &value, NULL));
  return value;
}

static void it_is_an_accelerator_without_a_compiler(void **state) {
  kit *k = *state;
  cl_platform_id platform;
  cl_device_id parent = k->device, none;
  char name[4];
  size_t bytes;
  assert_int_equal(number(k->device, CL_DEVICE_TYPE), CL_DEVICE_TYPE_ACCELERATOR);
  assert_int_equal(number(k->device, CL_DEVICE_COMPILER_AVAILABLE), CL_FALSE);
  assert_int_equal(number(k->device, CL_DEVICE_LINKER_AVAILABLE), CL_FALSE);
  assert_int_equal(number(k->real_device, CL_DEVICE_COMPILER_AVAILABLE), CL_TRUE);
  assert_non_null(strstr(text(k->device, CL_DEVICE_NAME), "Clade emulated accelerator"));
  assert_int_equal(number(k->device, CL_DEVICE_EXECUTION_CAPABILITIES), CL_EXEC_KERNEL);
  assert_string_equal(text(k->device, CL_DEVICE_PROFILE), "EMBEDDED_PROFILE");
  assert_int_equal(number(k->device, CL_DEVICE_MAX_COMPUTE_UNITS), number(k->real_device, CL_DEVICE_MAX_COMPUTE_UNITS));
  DONE(clGetDeviceInfo(k->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL));
  assert_ptr_equal(platform, k->platform);
  DONE(clGetDeviceInfo(k->device, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL));
  assert_null(parent);
  assert_int_equal(clGetDeviceInfo(k->device, CL_DEVICE_NAME, sizeof name, name, &bytes), CL_INVALID_VALUE);
  assert_int_equal(clGetDeviceIDs(k->platform, CL_DEVICE_TYPE_GPU, 1, &none, NULL), CL_DEVICE_NOT_FOUND);
  assert_int_equal(clGetDeviceIDs(k->platform, CL_DEVICE_TYPE_ALL, 0, &none, NULL), CL_INVALID_VALUE);
  DONE(clRetainDevice(k->device));
  DONE(clReleaseDevice(k->device));
  const cl_device_partition_property parts[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  assert_int_equal(clCreateSubDevices(k->device, parts, 1, &none, NULL), CL_INVALID_VALUE);
}

static void contexts_tell_whose_they_are(void **state) {
  kit *k = *state;
  cl_device_id device;
  cl_context_properties properties[8];
  size_t bytes = 0;
  cl_int e;
  DONE(clGetContextInfo(k->context, CL_CONTEXT_DEVICES, sizeof device, &device, &bytes));
  assert_ptr_equal(device, k->device);
  assert_int_equal(bytes, sizeof device);
  DONE(clGetContextInfo(k->context, CL_CONTEXT_PROPERTIES, sizeof properties, properties, NULL));
  assert_ptr_equal((void *)properties[1], k->platform);
  DONE(clGetContextInfo(k->real_context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL));
  assert_ptr_equal(device, k->real_device);
  const cl_device_id both[] = {k->device, k->real_device}, turned[] = {k->real_device, k->device};
  REFUSED(CL_INVALID_DEVICE, clCreateContext(NULL, 2, both, NULL, NULL, &e));
  REFUSED(CL_INVALID_DEVICE, clCreateContext(NULL, 2, turned, NULL, NULL, &e));
  const cl_context_properties ours[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)k->platform, 0},
                              theirs[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)k->real_platform, 0};
  REFUSED(CL_INVALID_PLATFORM, clCreateContext(ours, 1, &k->real_device, NULL, NULL, &e));
  REFUSED(CL_INVALID_PLATFORM, clCreateContext(theirs, 1, &k->device, NULL, NULL, &e));
  REFUSED(CL_DEVICE_NOT_FOUND, clCreateContextFromType(ours, CL_DEVICE_TYPE_CPU, NULL, NULL, &e));
  cl_context context = clCreateContextFromType(ours, CL_DEVICE_TYPE_ACCELERATOR, NULL, NULL, &e);
  DONE(e);
  DONE(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL));
  assert_ptr_equal(device, k->device);
  DONE(clReleaseContext(context));
  /* A reused address must not be taken for the old context. */
  for (int i = 0; i < 20; i++) {
    cl_device_id *wanted = i & 1 ? &k->device : &k->real_device;
    context = clCreateContext(NULL, 1, wanted, NULL, NULL, &e);
    DONE(e);
    DONE(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL));
    assert_ptr_equal(device, *wanted);
    DONE(clReleaseContext(context));
  }
}

static void only_built_programs_are_taken(void **state) {
  kit *k = *state;
  const char *lines = source;
  const unsigned char bitcode[] = "BC\xc0\xde, and more", *spoiled = bitcode;
  unsigned char *binary;
  size_t bytes, bitcode_bytes = sizeof bitcode;
  cl_int e, s;
  cl_program real = kit_compiled(k, source, &binary, &bytes);
  const unsigned char *given = binary;
  REFUSED(CL_INVALID_OPERATION, clCreateProgramWithSource(k->context, 1, &lines, NULL, &e));
  REFUSED(CL_INVALID_OPERATION, clCreateProgramWithIL(k->context, bitcode, sizeof bitcode, &e));
  REFUSED(CL_INVALID_BINARY, clCreateProgramWithBinary(k->context, 1, &k->device, &bitcode_bytes, &spoiled, &s, &e));
  assert_int_equal(s, CL_INVALID_BINARY);
  REFUSED(CL_INVALID_DEVICE, clCreateProgramWithBinary(k->context, 1, &k->real_device, &bytes, &given, &s, &e));
  REFUSED(CL_INVALID_DEVICE, clCreateProgramWithBinary(k->real_context, 1, &k->device, &bytes, &given, &s, &e));
  REFUSED(CL_INVALID_VALUE, clCreateProgramWithBuiltInKernels(k->context, 1, &k->device, "twice", &e));
  assert_int_equal(clBuildProgram(real, 1, &k->device, "", NULL, NULL), CL_INVALID_DEVICE);
  cl_program program = clCreateProgramWithBinary(k->context, 1, &k->device, &bytes, &given, &s, &e);
  DONE(e);
  assert_int_equal(clCompileProgram(program, 0, NULL, "", 0, NULL, NULL, NULL, NULL), CL_COMPILER_NOT_AVAILABLE);
  REFUSED(CL_LINKER_NOT_AVAILABLE, clLinkProgram(k->context, 0, NULL, "", 1, &program, NULL, NULL, &e));
  DONE(clReleaseProgram(program));
  DONE(clReleaseProgram(real));
  free(binary);
}

/* Computes 2 x; works alike on both devices. */
static void compute(cl_context context, cl_device_id device, cl_program program) {
  enum { N = 100 };
  const cl_int n = N;
  const size_t one = 1;
  cl_int x[N], y[N] = {0}, e;
  cl_device_id its;
  size_t group[3];
  for (int i = 0; i < N; i++) x[i] = 3 * i;
  DONE(clBuildProgram(program, 1, &device, "", NULL, NULL));
  DONE(clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof its, &its, NULL));
  assert_ptr_equal(its, device);
  cl_build_status built;
  DONE(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
  assert_int_equal(built, CL_BUILD_SUCCESS);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &e);
  DONE(e);
  DONE(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof its, &its, NULL));
  assert_ptr_equal(its, device);
  cl_kernel kernel = clCreateKernel(program, "twice", &e);
  DONE(e);
  DONE(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof group, group, NULL));
  assert_int_equal(group[0] * group[1] * group[2], 1);
  cl_mem in = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof x, x, &e);
  DONE(e);
  cl_mem out = clCreateBuffer(context, CL_MEM_WRITE_ONLY, sizeof y, NULL, &e);
  DONE(e);
  DONE(clSetKernelArg(kernel, 0, sizeof(cl_mem), &in));
  DONE(clSetKernelArg(kernel, 1, sizeof(cl_mem), &out));
  DONE(clSetKernelArg(kernel, 2, sizeof n, &n));
  DONE(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
  DONE(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
  for (int i = 0; i < N; i++) assert_int_equal(y[i], 6 * i);
  clReleaseMemObject(in);
  clReleaseMemObject(out);
  clReleaseKernel(kernel);
  clReleaseCommandQueue(queue);
}

static void it_computes_beside_the_real_device(void **state) {
  kit *k = *state;
  unsigned char *binary;
  size_t bytes;
  cl_int e;
  cl_program real = kit_compiled(k, source, &binary, &bytes);
  cl_program program =
      clCreateProgramWithBinary(k->context, 1, &k->device, &bytes, (const unsigned char **)&binary, NULL, &e);
  DONE(e);
  REFUSED(CL_INVALID_DEVICE, clCreateCommandQueue(k->context, k->real_device, 0, &e));
  REFUSED(CL_INVALID_DEVICE, clCreateCommandQueueWithProperties(k->real_context, k->device, NULL, &e));
  compute(k->context, k->device, program);
  compute(k->real_context, k->real_device, real);
  clReleaseProgram(program);
  clReleaseProgram(real);
  free(binary);
}

static void memory_begins_at_a_page_where_that_is_asked_for(void **state) {
  kit *k = *state;
  enum { PAGE = 4096 };
  static _Alignas(PAGE) unsigned char host[2 * PAGE];
  cl_int e;
  setenv("CLADE_EMULATED_PAGES", "1", 1);
  for (int own = 0; own < 2; own++) {
    cl_context context = own ? k->context : k->real_context;
    cl_command_queue queue = clCreateCommandQueue(context, own ? k->device : k->real_device, 0, &e);
    DONE(e);
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, PAGE, NULL, &e);
    DONE(e);
    cl_int else_where = own ? CL_INVALID_VALUE : CL_SUCCESS;
    DONE(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 4, 100, host, 0, NULL, NULL));
    DONE(clEnqueueReadBuffer(queue, mem, CL_TRUE, 4, 100, host + PAGE, 0, NULL, NULL));
    assert_int_equal(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, PAGE, host + 64, 0, NULL, NULL), else_where);
    assert_int_equal(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 1, host + 1, 0, NULL, NULL), else_where);
    clReleaseMemObject(mem);
    clReleaseCommandQueue(queue);
  }
  unsetenv("CLADE_EMULATED_PAGES");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_an_accelerator_without_a_compiler),
      cmocka_unit_test(contexts_tell_whose_they_are),
      cmocka_unit_test(only_built_programs_are_taken),
      cmocka_unit_test(it_computes_beside_the_real_device),
      cmocka_unit_test(memory_begins_at_a_page_where_that_is_asked_for),
  };
  return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}

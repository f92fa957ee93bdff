/* OpenCL entry points that take or return a platform or device, in front of the implementation's; and the two by which
 * the loader initializes the layer. */
#include "emulated.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* The loader reads the first word of a handle. */
struct _cl_platform_id {
  const cl_icd_dispatch *dispatch;
};
struct _cl_device_id {
  const cl_icd_dispatch *dispatch;
};

const cl_icd_dispatch *emulated_next;
static cl_icd_dispatch mine;
static struct _cl_platform_id platform = {&mine};
static struct _cl_device_id device = {&mine};
const cl_platform_id emulated_platform = &platform;
const cl_device_id emulated_device = &device;
#define next emulated_next

static bool there(void) {
  cl_platform_id p;
  cl_device_id d;
  return emulated_real(&p, &d);
}

static void *fail(cl_int error, cl_int *errcode) {
  if (errcode) *errcode = error;
  return NULL;
}

/* ---- platforms and devices ---- */
static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *out, cl_uint *count) {
  cl_uint n = 0;
  cl_int error = next->clGetPlatformIDs(room, out, &n);
  if (error == CL_SUCCESS && there()) {
    if (out && n < room) out[n] = emulated_platform;
    n++;
  }
  if (count) *count = n;
  return error;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id of, cl_platform_info what, size_t room, void *out,
                                            size_t *told) {
  if (of == emulated_platform) return emulated_platform_info(what, room, out, told);
  return next->clGetPlatformInfo(of, what, room, out, told);
}

static cl_int CL_API_CALL get_devices(cl_platform_id of, cl_device_type type, cl_uint room, cl_device_id *out,
                                      cl_uint *count) {
  if (of != emulated_platform) return next->clGetDeviceIDs(of, type, room, out, count);
  if ((!out && !count) || (out && room == 0)) return CL_INVALID_VALUE;
  if (!type) return CL_INVALID_DEVICE_TYPE;
  if (!(type & (CL_DEVICE_TYPE_ACCELERATOR | CL_DEVICE_TYPE_DEFAULT)) || !there()) return CL_DEVICE_NOT_FOUND;
  if (out) out[0] = emulated_device;
  if (count) *count = 1;
  return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_info(cl_device_id of, cl_device_info what, size_t room, void *out, size_t *told) {
  if (of == emulated_device) return emulated_device_info(what, room, out, told);
  return next->clGetDeviceInfo(of, what, room, out, told);
}

static cl_int CL_API_CALL create_sub_devices(cl_device_id of, const cl_device_partition_property *how, cl_uint room,
                                             cl_device_id *out, cl_uint *count) {
  return of == emulated_device ? CL_INVALID_VALUE : next->clCreateSubDevices(of, how, room, out, count);
}

static cl_int CL_API_CALL retain_device(cl_device_id it) {
  return it == emulated_device ? CL_SUCCESS : next->clRetainDevice(it);
}

static cl_int CL_API_CALL release_device(cl_device_id it) {
  return it == emulated_device ? CL_SUCCESS : next->clReleaseDevice(it);
}

static cl_int CL_API_CALL unload_compiler(cl_platform_id of) {
  return of == emulated_platform ? CL_SUCCESS : next->clUnloadPlatformCompiler(of);
}

static void *CL_API_CALL get_extension(cl_platform_id of, const char *name) {
  return of == emulated_platform ? NULL : next->clGetExtensionFunctionAddressForPlatform(of, name);
}

static cl_int CL_API_CALL get_timer(cl_device_id of, cl_ulong *its_time, cl_ulong *host) {
  return of == emulated_device ? CL_INVALID_OPERATION : next->clGetDeviceAndHostTimer(of, its_time, host);
}

static cl_int CL_API_CALL get_host_timer(cl_device_id of, cl_ulong *host) {
  return of == emulated_device ? CL_INVALID_OPERATION : next->clGetHostTimer(of, host);
}

/* ---- contexts ---- */
typedef void(CL_CALLBACK *notify_fn)(const char *, const void *, size_t, void *);

static bool asks_for_ours(const cl_context_properties *properties) {
  for (size_t i = 0; properties && properties[i]; i += 2)
    if (properties[i] == CL_CONTEXT_PLATFORM && (cl_platform_id)properties[i + 1] == emulated_platform) return true;
  return false;
}

static cl_context noted(cl_context context, bool own, cl_int *errcode) {
  if (!context || emulated_note(context, own)) return context;
  next->clReleaseContext(context);
  return fail(CL_OUT_OF_HOST_MEMORY, errcode);
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint n,
                                             const cl_device_id *devices, notify_fn notify, void *user,
                                             cl_int *errcode) {
  cl_context_properties real[EMULATED_PROPERTIES];
  cl_platform_id behind;
  cl_device_id room;
  bool own = devices && n && devices[0] == emulated_device;
  cl_int error = emulated_devices(own, n, devices, &room, &devices);
  if (error == CL_SUCCESS && properties && asks_for_ours(properties) != own) error = CL_INVALID_PLATFORM;
  if (error == CL_SUCCESS && own && properties) {
    emulated_real(&behind, &room);
    error = emulated_properties(properties, emulated_platform, behind, real);
    properties = real;
  }
  if (error != CL_SUCCESS) return fail(error, errcode);
  return noted(next->clCreateContext(properties, n, devices, notify, user, errcode), own, errcode);
}

static cl_context CL_API_CALL create_context_from_type(const cl_context_properties *properties, cl_device_type type,
                                                       notify_fn notify, void *user, cl_int *errcode) {
  cl_device_id found;
  if (!asks_for_ours(properties))
    return noted(next->clCreateContextFromType(properties, type, notify, user, errcode), false, errcode);
  cl_int error = get_devices(emulated_platform, type, 1, &found, NULL);
  if (error != CL_SUCCESS) return fail(error, errcode);
  return create_context(properties, 1, &found, notify, user, errcode);
}

static cl_int CL_API_CALL get_context_info(cl_context of, cl_context_info what, size_t room, void *out, size_t *told) {
  cl_context_properties real[EMULATED_PROPERTIES], ours[EMULATED_PROPERTIES];
  cl_platform_id behind;
  cl_device_id device_behind;
  size_t bytes = 0;
  if (emulated_owns(of) && what == CL_CONTEXT_DEVICES)
    return emulated_tell(&emulated_device, sizeof(cl_device_id), room, out, told);
  if (!emulated_owns(of) || what != CL_CONTEXT_PROPERTIES) return next->clGetContextInfo(of, what, room, out, told);
  cl_int error = next->clGetContextInfo(of, what, sizeof real, real, &bytes);
  if (error != CL_SUCCESS) return error;
  emulated_real(&behind, &device_behind);
  emulated_properties(bytes ? real : NULL, behind, emulated_platform, ours);
  return emulated_tell(ours, bytes, room, out, told);
}

/* ---- queues ---- */
static cl_command_queue CL_API_CALL create_queue(cl_context in, cl_device_id on, cl_command_queue_properties how,
                                                 cl_int *errcode) {
  cl_device_id room;
  const cl_device_id *given;
  cl_int error = emulated_devices(emulated_owns(in), 1, &on, &room, &given);
  return error == CL_SUCCESS ? next->clCreateCommandQueue(in, *given, how, errcode) : fail(error, errcode);
}

static cl_command_queue CL_API_CALL create_queue_with(cl_context in, cl_device_id on, const cl_queue_properties *how,
                                                      cl_int *errcode) {
  cl_device_id room;
  const cl_device_id *given;
  cl_int error = emulated_devices(emulated_owns(in), 1, &on, &room, &given);
  return error == CL_SUCCESS ? next->clCreateCommandQueueWithProperties(in, *given, how, errcode)
                             : fail(error, errcode);
}

static bool own_queue(cl_command_queue queue) {
  cl_context in = NULL;
  return next->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof in, &in, NULL) == CL_SUCCESS && emulated_owns(in);
}

/* For tests, CLADE_EMULATED_PAGES=1 makes the accelerator refuse host memory that is not page-aligned, as DMA without a
 * bounce buffer would. */
static bool refuses(cl_command_queue queue, const void *host) {
  const char *strict = (uintptr_t)host % 4096 ? getenv("CLADE_EMULATED_PAGES") : NULL;
  return strict && *strict == '1' && own_queue(queue);
}

static cl_int CL_API_CALL enqueue_read(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset,
                                       size_t bytes, void *to, cl_uint n_wait, const cl_event *wait, cl_event *event) {
  if (refuses(queue, to)) return CL_INVALID_VALUE;
  return next->clEnqueueReadBuffer(queue, mem, blocking, offset, bytes, to, n_wait, wait, event);
}

static cl_int CL_API_CALL enqueue_write(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset,
                                        size_t bytes, const void *from, cl_uint n_wait, const cl_event *wait,
                                        cl_event *event) {
  if (refuses(queue, from)) return CL_INVALID_VALUE;
  return next->clEnqueueWriteBuffer(queue, mem, blocking, offset, bytes, from, n_wait, wait, event);
}

static cl_int CL_API_CALL get_queue_info(cl_command_queue of, cl_command_queue_info what, size_t room, void *out,
                                         size_t *told) {
  if (what == CL_QUEUE_DEVICE && own_queue(of))
    return emulated_tell(&emulated_device, sizeof(cl_device_id), room, out, told);
  return next->clGetCommandQueueInfo(of, what, room, out, told);
}

static cl_int CL_API_CALL set_default_queue(cl_context in, cl_device_id on, cl_command_queue queue) {
  cl_device_id room;
  const cl_device_id *given;
  cl_int error = emulated_devices(emulated_owns(in), 1, &on, &room, &given);
  return error == CL_SUCCESS ? next->clSetDefaultDeviceCommandQueue(in, *given, queue) : error;
}

/* The accelerator has no processor for native kernels. */
static cl_int CL_API_CALL enqueue_native(cl_command_queue queue, void(CL_CALLBACK *run)(void *), void *given,
                                         size_t bytes, cl_uint n, const cl_mem *mem, const void **where, cl_uint n_wait,
                                         const cl_event *wait, cl_event *event) {
  if (own_queue(queue)) return CL_INVALID_OPERATION;
  return next->clEnqueueNativeKernel(queue, run, given, bytes, n, mem, where, n_wait, wait, event);
}

/* ---- programs: the accelerator accepts only binaries that need no compiler ---- */
static bool own_program(cl_program program) {
  cl_context in = NULL;
  return next->clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof in, &in, NULL) == CL_SUCCESS && emulated_owns(in);
}

static cl_program CL_API_CALL create_from_source(cl_context in, cl_uint n, const char **texts, const size_t *lengths,
                                                 cl_int *errcode) {
  if (emulated_owns(in)) return fail(CL_INVALID_OPERATION, errcode);
  return next->clCreateProgramWithSource(in, n, texts, lengths, errcode);
}

static cl_program CL_API_CALL create_from_il(cl_context in, const void *il, size_t bytes, cl_int *errcode) {
  return emulated_owns(in) ? fail(CL_INVALID_OPERATION, errcode) : next->clCreateProgramWithIL(in, il, bytes, errcode);
}

static cl_program CL_API_CALL create_from_binary(cl_context in, cl_uint n, const cl_device_id *devices,
                                                 const size_t *lengths, const unsigned char **binaries, cl_int *states,
                                                 cl_int *errcode) {
  static const char magic[8] = "poclbin";
  cl_device_id room;
  bool own = emulated_owns(in);
  cl_int error = emulated_devices(own, n, devices, &room, &devices);
  if (error != CL_SUCCESS) return fail(error, errcode);
  if (own && n == 1 && lengths && binaries && binaries[0] && lengths[0] &&
      (lengths[0] < sizeof magic || memcmp(binaries[0], magic, sizeof magic) != 0)) {
    if (states) states[0] = CL_INVALID_BINARY;
    return fail(CL_INVALID_BINARY, errcode);
  }
  return next->clCreateProgramWithBinary(in, n, devices, lengths, binaries, states, errcode);
}

static cl_program CL_API_CALL create_built_in(cl_context in, cl_uint n, const cl_device_id *devices, const char *names,
                                              cl_int *errcode) {
  cl_device_id room;
  bool own = emulated_owns(in);
  cl_int error = emulated_devices(own, n, devices, &room, &devices);
  if (error == CL_SUCCESS && own) error = CL_INVALID_VALUE; /* there is no compiler */
  return error == CL_SUCCESS ? next->clCreateProgramWithBuiltInKernels(in, n, devices, names, errcode)
                             : fail(error, errcode);
}

typedef void(CL_CALLBACK *built_fn)(cl_program, void *);

static cl_int CL_API_CALL build_program(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                                        built_fn built, void *user) {
  cl_device_id room;
  cl_int error = emulated_devices(own_program(program), n, devices, &room, &devices);
  return error == CL_SUCCESS ? next->clBuildProgram(program, n, devices, options, built, user) : error;
}

static cl_int CL_API_CALL compile_program(cl_program program, cl_uint n, const cl_device_id *devices,
                                          const char *options, cl_uint n_headers, const cl_program *headers,
                                          const char **names, built_fn built, void *user) {
  cl_device_id room;
  bool own = own_program(program);
  cl_int error = emulated_devices(own, n, devices, &room, &devices);
  if (error != CL_SUCCESS || own) return error != CL_SUCCESS ? error : CL_COMPILER_NOT_AVAILABLE;
  return next->clCompileProgram(program, n, devices, options, n_headers, headers, names, built, user);
}

static cl_program CL_API_CALL link_program(cl_context in, cl_uint n, const cl_device_id *devices, const char *options,
                                           cl_uint n_programs, const cl_program *programs, built_fn built, void *user,
                                           cl_int *errcode) {
  cl_device_id room;
  bool own = emulated_owns(in);
  cl_int error = emulated_devices(own, n, devices, &room, &devices);
  if (error == CL_SUCCESS && own) error = CL_LINKER_NOT_AVAILABLE;
  if (error != CL_SUCCESS) return fail(error, errcode);
  return next->clLinkProgram(in, n, devices, options, n_programs, programs, built, user, errcode);
}

static cl_int CL_API_CALL get_program_info(cl_program of, cl_program_info what, size_t room, void *out, size_t *told) {
  if (what == CL_PROGRAM_DEVICES && own_program(of))
    return emulated_tell(&emulated_device, sizeof(cl_device_id), room, out, told);
  return next->clGetProgramInfo(of, what, room, out, told);
}

static cl_int CL_API_CALL get_build_info(cl_program of, cl_device_id on, cl_program_build_info what, size_t room,
                                         void *out, size_t *told) {
  cl_device_id one;
  const cl_device_id *given;
  cl_int error = emulated_devices(own_program(of), 1, &on, &one, &given);
  return error == CL_SUCCESS ? next->clGetProgramBuildInfo(of, *given, what, room, out, told) : error;
}

/* ---- kernels: the device may be omitted if there is only one ---- */
static cl_int kernel_device(cl_kernel of, cl_device_id *on) {
  cl_context in = NULL;
  cl_device_id room;
  const cl_device_id *given;
  if (!*on) return CL_SUCCESS;
  bool own = next->clGetKernelInfo(of, CL_KERNEL_CONTEXT, sizeof in, &in, NULL) == CL_SUCCESS && emulated_owns(in);
  cl_int error = emulated_devices(own, 1, on, &room, &given);
  *on = *given;
  return error;
}

static cl_int CL_API_CALL get_group_info(cl_kernel of, cl_device_id on, cl_kernel_work_group_info what, size_t room,
                                         void *out, size_t *told) {
  cl_int error = kernel_device(of, &on);
  return error == CL_SUCCESS ? next->clGetKernelWorkGroupInfo(of, on, what, room, out, told) : error;
}

static cl_int CL_API_CALL get_sub_group_info(cl_kernel of, cl_device_id on, cl_kernel_sub_group_info what,
                                             size_t in_bytes, const void *in, size_t room, void *out, size_t *told) {
  cl_int error = kernel_device(of, &on);
  return error == CL_SUCCESS ? next->clGetKernelSubGroupInfo(of, on, what, in_bytes, in, room, out, told) : error;
}

/* ---- the layer ---- */
EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out, size_t *told) {
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const char name[] = "Clade emulated accelerator";
  if (what == CL_LAYER_NAME) return emulated_tell(name, sizeof name, room, out, told);
  return what == CL_LAYER_API_VERSION ? emulated_tell(&version, sizeof version, room, out, told) : CL_INVALID_VALUE;
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint n, const cl_icd_dispatch *target, cl_uint *entries,
                                      const cl_icd_dispatch **out) {
  if (!target || !entries || !out || n < sizeof mine / sizeof(void *)) return CL_INVALID_VALUE;
  next = target;
  mine = *target;
  mine.clGetPlatformIDs = get_platforms;
  mine.clGetPlatformInfo = get_platform_info;
  mine.clGetDeviceIDs = get_devices;
  mine.clGetDeviceInfo = get_device_info;
  mine.clCreateSubDevices = create_sub_devices;
  mine.clRetainDevice = retain_device;
  mine.clReleaseDevice = release_device;
  mine.clUnloadPlatformCompiler = unload_compiler;
  mine.clGetExtensionFunctionAddressForPlatform = get_extension;
  mine.clGetDeviceAndHostTimer = get_timer;
  mine.clGetHostTimer = get_host_timer;
  mine.clCreateContext = create_context;
  mine.clCreateContextFromType = create_context_from_type;
  mine.clGetContextInfo = get_context_info;
  mine.clCreateCommandQueue = create_queue;
  mine.clCreateCommandQueueWithProperties = create_queue_with;
  mine.clGetCommandQueueInfo = get_queue_info;
  mine.clSetDefaultDeviceCommandQueue = set_default_queue;
  mine.clEnqueueReadBuffer = enqueue_read;
  mine.clEnqueueWriteBuffer = enqueue_write;
  mine.clEnqueueNativeKernel = enqueue_native;
  mine.clCreateProgramWithSource = create_from_source;
  mine.clCreateProgramWithIL = create_from_il;
  mine.clCreateProgramWithBinary = create_from_binary;
  mine.clCreateProgramWithBuiltInKernels = create_built_in;
  mine.clBuildProgram = build_program;
  mine.clCompileProgram = compile_program;
  mine.clLinkProgram = link_program;
  mine.clGetProgramInfo = get_program_info;
  mine.clGetProgramBuildInfo = get_build_info;
  mine.clGetKernelWorkGroupInfo = get_group_info;
  mine.clGetKernelSubGroupInfo = get_sub_group_info;
  emulated_launches(&mine);
  *out = &mine;
  *entries = sizeof mine / sizeof(void *);
  return CL_SUCCESS;
}

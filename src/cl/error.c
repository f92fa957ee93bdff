/* Names, texts and statuses of OpenCL's error codes. A lost device stays lost. */
#include "cl/internal.h"

#include <stdio.h>

/* NAME, code, status, text. Codes above -1000 are vendors' and have no names in the headers. Status LOST means that
 * the context is unusable. Clade's contexts and queues are always valid, so an error that calls one invalid means
 * LOST as well. */
#define ERROR_MAP(X)                                                                                        \
  X(CL_SUCCESS, 0, OPENCL, "success")                                                                       \
  X(CL_DEVICE_NOT_FOUND, -1, NOT_FOUND, "there is no such device")                                          \
  X(CL_DEVICE_NOT_AVAILABLE, -2, LOST, "the device is not available")                                       \
  X(CL_COMPILER_NOT_AVAILABLE, -3, BUILD, "the device has no compiler")                                     \
  X(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4, DEVICE_MEMORY, "no memory for a buffer")                          \
  X(CL_OUT_OF_RESOURCES, -5, OPENCL, "the device is out of resources")                                      \
  X(CL_OUT_OF_HOST_MEMORY, -6, NO_MEMORY, "the host is out of memory")                                      \
  X(CL_PROFILING_INFO_NOT_AVAILABLE, -7, UNSUPPORTED, "the event has no times")                             \
  X(CL_MEM_COPY_OVERLAP, -8, INVALID, "source and destination overlap")                                     \
  X(CL_IMAGE_FORMAT_MISMATCH, -9, OPENCL, "the images' formats differ")                                     \
  X(CL_IMAGE_FORMAT_NOT_SUPPORTED, -10, UNSUPPORTED, "the image's format is not supported")                 \
  X(CL_BUILD_PROGRAM_FAILURE, -11, BUILD, "the program does not build")                                     \
  X(CL_MAP_FAILURE, -12, DEVICE_MEMORY, "the buffer cannot be mapped")                                      \
  X(CL_MISALIGNED_SUB_BUFFER_OFFSET, -13, INVALID, "the offset is not aligned for the device")              \
  X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14, OPENCL, "a command that was waited for has failed")  \
  X(CL_COMPILE_PROGRAM_FAILURE, -15, BUILD, "the program does not compile")                                 \
  X(CL_LINKER_NOT_AVAILABLE, -16, BUILD, "the device has no linker")                                        \
  X(CL_LINK_PROGRAM_FAILURE, -17, BUILD, "the program does not link")                                       \
  X(CL_DEVICE_PARTITION_FAILED, -18, UNSUPPORTED, "the device cannot be split like this")                   \
  X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, -19, UNSUPPORTED, "nothing is known of the kernel's arguments")       \
  X(CL_INVALID_VALUE, -30, OPENCL, "an argument is invalid")                                                \
  X(CL_INVALID_DEVICE_TYPE, -31, OPENCL, "the device type is invalid")                                      \
  X(CL_INVALID_PLATFORM, -32, OPENCL, "the platform is invalid")                                            \
  X(CL_INVALID_DEVICE, -33, OPENCL, "the device is invalid")                                                \
  X(CL_INVALID_CONTEXT, -34, LOST, "the context is invalid")                                                \
  X(CL_INVALID_QUEUE_PROPERTIES, -35, UNSUPPORTED, "the queue's properties are not supported")              \
  X(CL_INVALID_COMMAND_QUEUE, -36, LOST, "the queue is invalid")                                            \
  X(CL_INVALID_HOST_PTR, -37, OPENCL, "the host's pointer is invalid")                                      \
  X(CL_INVALID_MEM_OBJECT, -38, OPENCL, "the buffer is invalid")                                            \
  X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, -39, OPENCL, "the image's format is invalid")                       \
  X(CL_INVALID_IMAGE_SIZE, -40, OPENCL, "the image's size is invalid")                                      \
  X(CL_INVALID_SAMPLER, -41, OPENCL, "the sampler is invalid")                                              \
  X(CL_INVALID_BINARY, -42, CORRUPT, "the binary is not for this device, or damaged")                       \
  X(CL_INVALID_BUILD_OPTIONS, -43, BUILD, "the compiler refuses its options")                               \
  X(CL_INVALID_PROGRAM, -44, OPENCL, "the program is invalid")                                              \
  X(CL_INVALID_PROGRAM_EXECUTABLE, -45, OPENCL, "the program was not built for the device")                 \
  X(CL_INVALID_KERNEL_NAME, -46, NOT_FOUND, "the program has no such kernel")                               \
  X(CL_INVALID_KERNEL_DEFINITION, -47, OPENCL, "the kernel differs between devices")                        \
  X(CL_INVALID_KERNEL, -48, OPENCL, "the kernel is invalid")                                                \
  X(CL_INVALID_ARG_INDEX, -49, INVALID, "the kernel has no such argument")                                  \
  X(CL_INVALID_ARG_VALUE, -50, INVALID, "the argument's value is invalid")                                  \
  X(CL_INVALID_ARG_SIZE, -51, INVALID, "the argument's size is invalid")                                    \
  X(CL_INVALID_KERNEL_ARGS, -52, INVALID, "the kernel's arguments are not all set")                         \
  X(CL_INVALID_WORK_DIMENSION, -53, INVALID, "the number of dimensions is invalid")                         \
  X(CL_INVALID_WORK_GROUP_SIZE, -54, INVALID, "the work-group's size is invalid")                           \
  X(CL_INVALID_WORK_ITEM_SIZE, -55, INVALID, "a work-group's dimension is too large")                       \
  X(CL_INVALID_GLOBAL_OFFSET, -56, INVALID, "the global offset is invalid")                                 \
  X(CL_INVALID_EVENT_WAIT_LIST, -57, INVALID, "the wait list is invalid")                                   \
  X(CL_INVALID_EVENT, -58, INVALID, "the event is invalid")                                                 \
  X(CL_INVALID_OPERATION, -59, OPENCL, "the operation is invalid here")                                     \
  X(CL_INVALID_GL_OBJECT, -60, OPENCL, "the GL object is invalid")                                          \
  X(CL_INVALID_BUFFER_SIZE, -61, DEVICE_MEMORY, "the device allows no buffer of this size")                 \
  X(CL_INVALID_MIP_LEVEL, -62, OPENCL, "the mip level is invalid")                                          \
  X(CL_INVALID_GLOBAL_WORK_SIZE, -63, INVALID, "the global size is invalid")                                \
  X(CL_INVALID_PROPERTY, -64, OPENCL, "a property is invalid")                                              \
  X(CL_INVALID_IMAGE_DESCRIPTOR, -65, OPENCL, "the image's description is invalid")                         \
  X(CL_INVALID_COMPILER_OPTIONS, -66, BUILD, "the compiler refuses its options")                            \
  X(CL_INVALID_LINKER_OPTIONS, -67, BUILD, "the linker refuses its options")                                \
  X(CL_INVALID_DEVICE_PARTITION_COUNT, -68, UNSUPPORTED, "the device cannot be split into that many parts") \
  X(CL_PLATFORM_NOT_FOUND_KHR, -1001, NOT_FOUND, "no OpenCL implementation is installed")                   \
  X(CL_NV_ILLEGAL_ACCESS, -9999, LOST, "a kernel read or wrote where it must not")

typedef struct row {
  cl_int code;
  clade_status status;
  const char *name, *text;
} row;
static const row rows[] = {
#define X(NAME, code, status, text) {code, CLADE_##status, #NAME, text},
    ERROR_MAP(X)
#undef X
};

static const row *find(cl_int code) {
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if (rows[i].code == code) return &rows[i];
  return NULL;
}

const char *clade__cl_error_name(cl_int code) { return find(code) ? find(code)->name : "CL_?"; }
const char *clade__cl_error_text(cl_int code) { return find(code) ? find(code)->text : "an unknown error"; }

static void lose(clade_device *device) {
  pthread_mutex_lock(&device->lost_lock);
  if (!atomic_load(&device->lost)) {
    snprintf(device->lost_message, sizeof device->lost_message, "%s", clade_last_error());
    atomic_store_explicit(&device->lost, true, memory_order_release);
  }
  pthread_mutex_unlock(&device->lost_lock);
}

clade_status clade__cl_error(const clade_device *device, const char *call, cl_int code) {
  const row *r = find(code);
  clade_status status = r ? r->status : CLADE_OPENCL;
  clade_fail(status, "%s: %s (%d): %s%s%s%s", call, clade__cl_error_name(code), (int)code, clade__cl_error_text(code),
             device ? " [" : "", device ? device->facts.label : "", device ? "]" : "");
  if (device && status == CLADE_LOST) lose((clade_device *)device);
  return status;
}

void clade__cl_undone(const char *call, cl_int code) {
  if (code != CL_SUCCESS)
    clade__log(CLADE_LOG_WARNING, "%s: %s (%d): %s: something may not have been given back", call,
               clade__cl_error_name(code), (int)code, clade__cl_error_text(code));
}

clade_status clade__cl_made(const clade_device *device, const char *call, const void *object, cl_int code) {
  if (code == CL_SUCCESS && object) return CLADE_OK;
  if (code != CL_SUCCESS) return clade__cl_error(device, call, code);
  return CLADE_FAIL(OPENCL, "%s: returned nothing, and no error", call);
}

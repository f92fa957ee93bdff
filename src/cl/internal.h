/* Internal declarations of src/cl: OpenCL's function table, the device list and the device struct. */
#ifndef CLADE_CL_INTERNAL_H
#define CLADE_CL_INTERNAL_H

#include <clade/opencl.h>

#include "cl/cl.h"
#include "cl/units.h"

/* ---- the loader (loader.c) ---- */
#define CLADE__CL_MAP(X)         \
  X(clGetPlatformIDs)            \
  X(clGetPlatformInfo)           \
  X(clGetDeviceIDs)              \
  X(clGetDeviceInfo)             \
  X(clCreateSubDevices)          \
  X(clRetainDevice)              \
  X(clReleaseDevice)             \
  X(clCreateContext)             \
  X(clRetainContext)             \
  X(clReleaseContext)            \
  X(clGetContextInfo)            \
  X(clCreateCommandQueue)        \
  X(clRetainCommandQueue)        \
  X(clReleaseCommandQueue)       \
  X(clGetCommandQueueInfo)       \
  X(clCreateBuffer)              \
  X(clCreateSubBuffer)           \
  X(clRetainMemObject)           \
  X(clReleaseMemObject)          \
  X(clGetMemObjectInfo)          \
  X(clEnqueueMapBuffer)          \
  X(clEnqueueUnmapMemObject)     \
  X(clEnqueueNDRangeKernel)      \
  X(clEnqueueReadBuffer)         \
  X(clEnqueueWriteBuffer)        \
  X(clEnqueueCopyBuffer)         \
  X(clEnqueueFillBuffer)         \
  X(clEnqueueMarkerWithWaitList) \
  X(clFlush)                     \
  X(clFinish)                    \
  X(clWaitForEvents)             \
  X(clRetainEvent)               \
  X(clReleaseEvent)              \
  X(clGetEventInfo)              \
  X(clGetEventProfilingInfo)     \
  X(clSetEventCallback)          \
  X(clCreateUserEvent)           \
  X(clSetUserEventStatus)        \
  X(clCreateProgramWithSource)   \
  X(clCreateProgramWithBinary)   \
  X(clBuildProgram)              \
  X(clGetProgramInfo)            \
  X(clGetProgramBuildInfo)       \
  X(clReleaseProgram)            \
  X(clCreateKernel)              \
  X(clReleaseKernel)             \
  X(clGetKernelInfo)             \
  X(clGetKernelArgInfo)          \
  X(clGetKernelWorkGroupInfo)    \
  X(clSetKernelArg)

typedef struct clade__api {
#define X(name) __typeof__(&name) name;
  CLADE__CL_MAP(X)
#undef X
} clade__api;
extern clade__api clade__cl; /* set by the first successful clade__loader_open */
clade_status clade__loader_open(void);

/* True in a child forked after the loader was opened. No OpenCL function may be called there, not even to release
 * objects. */
extern atomic_bool clade__forked;
clade_status clade__fork_check(const char *function);

/* ---- errors (error.c) ---- */
enum { CLADE__NO_PLATFORM = -1001 }; /* CL_PLATFORM_NOT_FOUND_KHR, returned by the loader */
/* Records "call: CL_NAME (code): text [device]". Marks the device as lost if the code says so; `device` may be NULL. */
clade_status clade__cl_error(const clade_device *device, const char *call, cl_int code);
/* For calls that return an object: NULL without an error code is an error too. */
clade_status clade__cl_made(const clade_device *device, const char *call, const void *object, cl_int code);
const char *clade__cl_error_text(cl_int code);
#define CLADE__CALL(device, function, ...)                                             \
  do {                                                                                 \
    cl_int clade__e = clade__cl.function(__VA_ARGS__);                                 \
    if (clade__e != CL_SUCCESS) return clade__cl_error((device), #function, clade__e); \
  } while (0)

/* Releasing objects: a failure is logged only, because it must not replace the error that caused the cleanup. */
void clade__cl_undone(const char *call, cl_int code); /* keeps this thread's message */
#define CLADE__UNDO(function, ...) clade__cl_undone(#function, clade__cl.function(__VA_ARGS__))

/* ---- device list (enumerate.c, describe.c), built once ---- */
enum { CLADE__MAX_QUIRKS = 10, CLADE__PASS_LIMIT = 65535 };
typedef struct clade__facts {
  clade_device_info info;
  const char *label; /* name for messages, with the ID if the name is ambiguous */
  uint32_t quirks;   /* bit per clade__quirk */
  int n_rows;
  clade_quirk_info rows[CLADE__MAX_QUIRKS];
} clade__facts;

typedef struct clade__entry {
  cl_platform_id platform;
  cl_device_id id;
  clade__facts facts;
  atomic_bool probed;   /* passed clade__device_probe */
  clade_device *opened; /* borrowed; protected by clade__devices_lock */
} clade__entry;

typedef struct clade__list {
  int n, n_platforms;
  clade__entry *at;
  clade__platform_report *platforms;
  cl_int error; /* of clGetPlatformIDs */
} clade__list;
clade_status clade__list_get(const char *function, clade__list **out);

/* Queries a device's properties. Strings live as long as the process. */
clade_status clade__describe(cl_platform_id platform, cl_device_id id, clade__facts *facts);
/* Queries a string, trimmed and interned. */
clade_status clade__platform_text(cl_platform_id platform, cl_platform_info what, const char **out);

/* quirks.c */
void clade__quirks_apply(clade__facts *facts);
/* Returns whether `text` is an alias; *match tells whether the alias covers this device. */
bool clade__alias(const char *text, const clade_device_info *info, bool *match);
bool clade__cpu_preferred(const clade_device_info *info);
/* Fails if listing the platform's devices would crash the process. */
clade_status clade__platform_check(const char *platform);
const char *clade__platform_remedy(const char *platform); /* how to make devices appear; NULL: unknown */

/* memory.c */
uint64_t clade__host_memory(void);    /* physical memory or the container's limit */
uint64_t clade__host_available(void); /* currently free; UINT64_MAX if unknown */

/* ---- device ---- */
clade__hash clade__info_key(const clade_device_info *info); /* clade__device_key for a device with these properties */
struct clade_device {
  clade__ref ref;
  clade__entry *entry; /* NULL: adopted or a sub-device */
  clade__facts facts;
  clade__hash key;
  cl_context context;
  cl_device_id id;
  bool holds_id; /* retained, or created by clCreateSubDevices */
  bool part;     /* created by clCreateSubDevices */

  atomic_bool lost;
  pthread_mutex_t lost_lock;
  char lost_message[1024];

  pthread_mutex_t lock; /* protects the attachment */
  void *attachment;
  void (*release_attachment)(void *);

  pthread_mutex_t unit_lock;
  /* facts.info with the results of unit probes and bundle kernels; `info` points here once it is set */
  clade_device_info proven;
  _Atomic(const clade_device_info *) info;
  clade__profile profile; /* protected by unit_lock */

  pthread_mutex_t queue_lock;
  clade__queue *transfer;

  pthread_mutex_t memory_lock;
  uint64_t used, peak, allowed, pooled;
  clade__buffer *pool;
  pthread_mutex_t spare_lock;
  clade__spare *spares;
  pthread_mutex_t page_lock;
  struct clade__pages *pages;
};
extern pthread_mutex_t clade__devices_lock; /* protects `opened` of the entries and the devices' reference counts */
clade_status clade__device_open(clade__entry *entry, clade_device **out);
/* Frees pooled buffers until `bytes` fit into the budget; UINT64_MAX frees all. False: the pool was empty. */
bool clade__pool_trim(clade_device *device, uint64_t bytes);
/* A queue that holds no reference to its device, for the device's own use. */
clade_status clade__queue_make(clade_device *device, bool profile, clade__queue **out);
/* The transfer queue; on failure, the status with a message. */
clade_status clade__transfer(clade_device *device, clade__queue **out);
cl_command_queue clade__queue_cl(const clade__queue *queue);

/* ---- page-aligned transfers (pages.c) ---- */
enum { CLADE__PAGE = 4096 };
unsigned char *clade__page_begin(void *memory); /* first page boundary within */
/* Whether transfers must go through other memory than this. */
bool clade__pages_needed(const clade_device *device, const void *host);
typedef struct clade__pages_move {
  clade_device *device;
  cl_command_queue queue;
  cl_mem memory;
  size_t offset, bytes;
  clade__wait wait;
  cl_event *event; /* may be NULL */
} clade__pages_move;
/* Blocking. */
clade_status clade__pages_write(const clade__pages_move *move, const void *from);
clade_status clade__pages_read(const clade__pages_move *move, void *to);
void clade__pages_free(clade_device *device);

/* ---- 2 MiB pages (huge.c) ---- */
void clade__huge_pages(clade_device *device, cl_mem memory, size_t bytes);

clade_status clade__info_copy(const clade_device_info *from, clade_device_info *to, const char *function);

#endif

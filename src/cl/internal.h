/* What the files of this room share and nobody outside sees: the table of OpenCL's functions, the list of devices, the
 * insides of a device. */
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
extern clade__api clade__cl; /* filled by the first clade__loader_open that succeeds */
clade_status clade__loader_open(void);

/* In a child that was forked after the loader was opened. Nothing of OpenCL may be called there, not even to release.
 */
extern atomic_bool clade__forked;
clade_status clade__fork_check(const char *function);

/* ---- errors (error.c) ---- */
enum { CLADE__NO_PLATFORM = -1001 }; /* CL_PLATFORM_NOT_FOUND_KHR, of the loader */
/* Records "call: CL_NAME (code): text [device]", remembers a loss in the device (may be NULL). */
clade_status clade__cl_error(const clade_device *device, const char *call, cl_int code);
/* For calls that return an object: an object that is NULL without an error is an error too. */
clade_status clade__cl_made(const clade_device *device, const char *call, const void *object, cl_int code);
const char *clade__cl_error_text(cl_int code);
#define CLADE__CALL(device, function, ...)                                             \
  do {                                                                                 \
    cl_int clade__e = clade__cl.function(__VA_ARGS__);                                 \
    if (clade__e != CL_SUCCESS) return clade__cl_error((device), #function, clade__e); \
  } while (0)

/* Giving back: a failure can only be told, and must not hide the error that led here. */
void clade__cl_undone(const char *call, cl_int code); /* logs a failure, leaves the thread's message alone */
#define CLADE__UNDO(function, ...) clade__cl_undone(#function, clade__cl.function(__VA_ARGS__))

/* ---- the list of devices (enumerate.c, describe.c), made once ---- */
enum { CLADE__MAX_QUIRKS = 10, CLADE__PASS_LIMIT = 65535 };
typedef struct clade__facts {
  clade_device_info info;
  const char *label; /* for messages: its name, with its id behind it where several have the name */
  uint32_t quirks;   /* bits by clade__quirk */
  int n_rows;
  clade_quirk_info rows[CLADE__MAX_QUIRKS];
} clade__facts;

typedef struct clade__entry {
  cl_platform_id platform;
  cl_device_id id;
  clade__facts facts;
  atomic_bool probed;   /* computed right */
  clade_device *opened; /* borrowed; under clade__devices_lock */
} clade__entry;

typedef struct clade__list {
  int n, n_platforms;
  clade__entry *at;
  clade__platform_report *platforms;
  cl_int error; /* of clGetPlatformIDs */
} clade__list;
clade_status clade__list_get(const char *function, clade__list **out);

/* What the device says of itself. Its texts are the process'. */
clade_status clade__describe(cl_platform_id platform, cl_device_id id, clade__facts *facts);
/* A text that OpenCL returns, interned and trimmed. */
clade_status clade__platform_text(cl_platform_id platform, cl_platform_info what, const char **out);

/* quirks.c */
void clade__quirks_apply(clade__facts *facts);
/* Whether `text` is an alias; then *match tells whether it means this device. */
bool clade__alias(const char *text, const clade_device_info *info, bool *match);
bool clade__cpu_preferred(const clade_device_info *info);
/* Before a platform is asked for its devices: refuses where that would end the process. */
clade_status clade__platform_check(const char *platform);
const char *clade__platform_remedy(const char *platform); /* for one without devices; NULL: nothing is known */

/* memory.c */
uint64_t clade__host_memory(void);    /* physical, or the container's limit */
uint64_t clade__host_available(void); /* now; UINT64_MAX where nobody tells */

/* ---- a device ---- */
clade__hash clade__info_key(const clade_device_info *info); /* clade__device_key of a device with these texts */
struct clade_device {
  clade__ref ref;
  clade__entry *entry; /* NULL: adopted, or a part of another */
  clade__facts facts;
  clade__hash key;
  cl_context context;
  cl_device_id id;
  bool holds_id; /* retained or made by clCreateSubDevices */
  bool part;     /* made by clCreateSubDevices */

  atomic_bool lost;
  pthread_mutex_t lost_lock;
  char lost_message[1024];

  pthread_mutex_t lock; /* what is attached */
  void *attachment;
  void (*release_attachment)(void *);

  pthread_mutex_t unit_lock;
  clade_device_info proven; /* the facts', and units or kernels that were asked for; then `info` points here */
  _Atomic(const clade_device_info *) info;
  clade__profile profile; /* under unit_lock */

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
extern pthread_mutex_t clade__devices_lock; /* the entries' `opened` and the counts of devices */
clade_status clade__device_open(clade__entry *entry, clade_device **out);
/* Releases pooled buffers until `bytes` fit in the budget, or all of them (UINT64_MAX). false: there were none. */
bool clade__pool_trim(clade_device *device, uint64_t bytes);
/* The queue without a reference to its device: the device's own. */
clade_status clade__queue_make(clade_device *device, bool profile, clade__queue **out);
/* The device's transfer queue, with the reason where there is none. */
clade_status clade__transfer(clade_device *device, clade__queue **out);
cl_command_queue clade__queue_cl(const clade__queue *queue);

/* ---- pages (pages.c) ---- */
enum { CLADE__PAGE = 4096 };
unsigned char *clade__page_begin(void *memory); /* the first one in it */
/* Whether the device is to be given other memory than this. */
bool clade__pages_needed(const clade_device *device, const void *host);
typedef struct clade__pages_move {
  clade_device *device;
  cl_command_queue queue;
  cl_mem memory;
  size_t offset, bytes;
  clade__wait wait;
  cl_event *event; /* may be NULL */
} clade__pages_move;
/* Both block. */
clade_status clade__pages_write(const clade__pages_move *move, const void *from);
clade_status clade__pages_read(const clade__pages_move *move, void *to);
void clade__pages_free(clade_device *device);

/* ---- pages of 2 MiB (huge.c) ---- */
void clade__huge_pages(clade_device *device, cl_mem memory, size_t bytes);

clade_status clade__info_copy(const clade_device_info *from, clade_device_info *to, const char *function);

#endif

/* The only module that calls OpenCL. Other modules use OpenCL's types and these wrappers, which check each call,
 * name the failure ("clEnqueueReadBuffer: CL_OUT_OF_RESOURCES (-5): …") and remember a lost device. The OpenCL
 * loader is opened at first use instead of being linked, so that its absence can be reported. */
#ifndef CLADE_CL_H
#define CLADE_CL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <clade/tensor.h>

#include "base/profile.h"

/* ---- quirks (quirks.c) ---- */
#define CLADE__QUIRK_MAP(X)                                                                      \
  X(LOCK_COMPILE) /* concurrent compilations into one of its caches may crash */                 \
  X(WARM)         /* compiles at the first launch of each local size and grid class */           \
  X(SPECIALIZE)   /* compiles a variant for each of them, and again when a binary is fetched */  \
  X(SOFTWARE)     /* a GPU or accelerator emulated on the CPU */                                 \
  X(NO_PROFILING) /* event times are meaningless */                                              \
  X(PASS_LIMIT)   /* loops end after CLADE__PASS_LIMIT iterations */                             \
  X(GROUP_LIMIT)  /* the reported work-group limit of a kernel is too low */                     \
  X(LOCAL_TWICE)  /* the reported local memory of a kernel is twice what it uses */              \
  X(FREE_GROUP)   /* kernels must not declare reqd_work_group_size */                            \
  X(CALL_BODY)    /* compiles a kernel several times, but non-inlined functions once */          \
  X(SLOW_WAKE)    /* threads sleep between launches: small steps gain from persistent kernels */ \
  X(MAPS_ITSELF)  /* mapping a buffer returns its memory, not a copy */                          \
  X(LEAN_BUILD)   /* builds faster if programs declare the builtins that they call */            \
  X(BY_PAGES)     /* reads fastest from a few pages in turn, slower beyond L2 */                 \
  X(FAR_CACHE)    /* the last-level cache is no faster than DRAM */                              \
  X(NO_BINARY)    /* binaries cannot be fetched or loaded */                                     \
  X(NO_ASM)       /* inline assembly crashes the process */                                      \
  X(PAGES)        /* host transfers need page-aligned memory */                                  \
  X(LINGERS)      /* a released program blocks the next one for a moment */
typedef enum clade__quirk {
#define X(name) CLADE__QUIRK_##name,
  CLADE__QUIRK_MAP(X)
#undef X
      CLADE__QUIRK_COUNT
} clade__quirk;
bool clade__quirk_has(const clade_device *device, clade__quirk quirk);
bool clade__quirk_disabled(clade__quirk quirk); /* by its environment variable */

/* ---- devices ---- */
/* Identifies what compiled programs depend on: device, driver, platform and their versions. Key of the program
 * store. */
clade__hash clade__device_key(const clade_device *device);
/* Equal devices share a key. The twin index tells them apart: a device's position among its equals in the list, 0 if
 * it is not listed. Another process with the same list can resolve key and index. */
int clade__device_twin(const clade_device *device);
clade_status clade__device_find_twin(clade__hash key, int twin, clade_device **out);
const clade_device_info *clade__device_info(const clade_device *device);
cl_context clade__device_context(const clade_device *device);
/* CLADE_OK, CLADE_LOST or CLADE_FORKED. Every entry point that uses a device calls this first. */
clade_status clade__device_check(const clade_device *device, const char *function);
/* Sets the bundle fields of clade_device_info. The caller keeps the arrays alive as long as the device. */
void clade__device_set_kernels(clade_device *device, const char *const *kernels, const uint32_t *programs,
                               const char *bundles, const clade_array_info *array, const char *evidence);
/* Sets the speeds that clade_device_get_info reports. clade__device_info does not include them: each func has its
 * own copy. */
void clade__device_set_profile(clade_device *device, const clade__profile *profile);
bool clade__device_is_part(const clade_device *device); /* made by splitting a device */
/* Whether a bundle's target, given by the kind and device name in its manifest, matches the device. */
bool clade__target_fits(const char *kind, const char *name, const clade_device_info *info);
/* Slot for one object of another module (the program store), freed with the device. */
void **clade__device_attachment(clade_device *device, void (*release)(void *));
/* Protects the attachment. */
pthread_mutex_t *clade__device_lock(clade_device *device);

/* Compiles and runs a tiny kernel and checks its result. A success is remembered for listed devices. */
clade_status clade__device_probe(clade_device *device);

/* ---- buffers: within a budget, physically backed, pooled ---- */
typedef struct clade__buffer clade__buffer; /* reference-counted; retains its device */
/* Contents are unspecified. Zero bytes give a valid buffer of the smallest size. `what` names the purpose in error
 * messages. */
clade_status clade__buffer_new(clade_device *device, size_t bytes, const char *what, clade__buffer **out);
clade_status clade__buffer_adopt(clade_device *device, cl_mem memory, clade__buffer **out); /* retained */
clade__buffer *clade__buffer_retain(clade__buffer *buffer);
/* The last release returns the memory to the pool, from which another allocation may take it at once. So release a
 * buffer after the commands that use it have finished, or if later users' commands are ordered behind them. */
void clade__buffer_release(clade__buffer *buffer);
cl_mem clade__buffer_mem(const clade__buffer *buffer);
size_t clade__buffer_bytes(const clade__buffer *buffer);
clade_device *clade__buffer_device(const clade__buffer *buffer);
clade__buffer *clade__tensor_buffer(const clade_tensor *tensor, size_t *offset); /* NULL for host tensors */

/* Frees pooled buffers and resets the recorded peak to `peak`, after a phase that needed memory once. */
void clade__memory_forget(clade_device *device, uint64_t peak);

/* Registers an owner of buffers that can be recreated. When the device runs out of memory, `drop` releases those
 * that it can release without waiting; false if there were none. `drop` may be called from any allocating thread,
 * whatever locks that thread holds. */
typedef struct clade__spare {
  bool (*drop)(void *user, clade_device *device);
  void *user;
  struct clade__spare *next;
} clade__spare;
void clade__spare_add(clade_device *device, clade__spare *spare);
void clade__spare_remove(clade_device *device, clade__spare *spare);

/* Host memory for fast transfers: permanently mapped device memory where that helps, else aligned heap memory. */
typedef struct clade__staging clade__staging;
clade_status clade__staging_new(clade_device *device, size_t bytes, clade__staging **out);
void *clade__staging_data(const clade__staging *staging);
void clade__staging_free(clade__staging *staging);

/* ---- in-order queues ---- */
typedef struct clade__queue clade__queue;
clade_status clade__queue_new(clade_device *device, bool profile, clade__queue **out);
clade_status clade__queue_adopt(clade_device *device, cl_command_queue queue, clade__queue **out); /* retained */
cl_command_queue clade__queue_handle(const clade__queue *queue); /* borrowed, to pass to a library */
void clade__queue_free(clade__queue *queue);                     /* waits unless adopted */
/* Borrowed, created at first use; NULL on failure. Shared by all copies and allocations, so its commands must never
 * wait for an action of the host. */
clade__queue *clade__device_transfer_queue(clade_device *device);

typedef struct clade__wait {
  cl_uint n;
  const cl_event *events;
} clade__wait;

/* Launches check their range against the device's limits. Local memory is not checked here: call clade__kernel_fits
 * once when preparing a launch. `event` may be NULL; otherwise the caller releases it. Only functions marked as
 * blocking block. Non-blocking reads and writes need staging memory, because devices with the quirk PAGES transfer
 * whole pages only. */
clade_status clade__queue_launch(clade__queue *q, cl_kernel kernel, cl_uint dims, const size_t *global,
                                 const size_t *local, clade__wait wait, cl_event *event);
clade_status clade__queue_write(clade__queue *q, clade__buffer *dst, size_t offset, const void *src, size_t bytes,
                                bool blocking, clade__wait wait, cl_event *event);
clade_status clade__queue_read(clade__queue *q, const clade__buffer *src, size_t offset, void *dst, size_t bytes,
                               bool blocking, clade__wait wait, cl_event *event);
clade_status clade__queue_copy(clade__queue *q, const clade__buffer *src, size_t src_offset, clade__buffer *dst,
                               size_t dst_offset, size_t bytes, clade__wait wait, cl_event *event);
/* pattern_bytes must be a power of two up to 16 that divides offset and bytes. */
clade_status clade__queue_fill(clade__queue *q, clade__buffer *dst, size_t offset, size_t bytes, const void *pattern,
                               size_t pattern_bytes, clade__wait wait, cl_event *event);
clade_status clade__queue_marker(clade__queue *q, clade__wait wait, cl_event *event);
clade_status clade__queue_flush(clade__queue *q);
clade_status clade__queue_finish(clade__queue *q); /* blocks */

/* ---- events ---- */
clade_status clade__event_wait(clade_device *device, cl_event event); /* blocks; returns the event's error */
/* Spins before it blocks, since waking a thread takes as long as a small step. *late: on entry, whether the last
 * wait exceeded the spin time, which shortens the spin; on return, whether this one did. */
clade_status clade__event_wait_awake(clade_device *device, cl_event event, bool *late);
clade_status clade__event_retain(clade_device *device, cl_event event);
/* Checks a user's events: none may be NULL, and all must belong to the device's context. */
clade_status clade__events_check(clade_device *device, clade__wait wait, const char *function);
void clade__event_release(cl_event event); /* accepts NULL */
/* *finished: 1 or 0. Returns the event's error if it failed. */
clade_status clade__event_poll(clade_device *device, cl_event event, int *finished);
/* Reserves `n` callback records, so that as many clade__event_notify calls need no allocation. */
clade_status clade__event_reserve(size_t n);
void clade__event_unreserve(size_t n);
/* Calls `fn` once, on a thread of the OpenCL implementation: it may only signal. */
clade_status clade__event_notify(clade_device *device, cl_event event, void (*fn)(void *), void *user);
typedef struct clade__event_times {
  uint64_t queued, submitted, start, end; /* ns */
} clade__event_times;
clade_status clade__event_profile(clade_device *device, cl_event event, clade__event_times *times);
clade_status clade__user_event_new(clade_device *device, cl_event *event);
clade_status clade__user_event_set(clade_device *device, cl_event event, bool ok);

/* ---- programs and kernels ---- */
/* On CLADE_BUILD, *log is the build log, which the caller frees. `log` may be NULL. */
clade_status clade__program_build(clade_device *device, const char *source, size_t length, const char *options,
                                  cl_program *out, char **log);
clade_status clade__program_load(clade_device *device, const void *binary, size_t bytes, const char *options,
                                 cl_program *out);
clade_status clade__program_binary(clade_device *device, cl_program program, void **binary, size_t *bytes);
/* Kernel names, separated by semicolons. The caller frees the string. */
clade_status clade__program_kernels(clade_device *device, cl_program program, char **names);
void clade__program_release(cl_program program);
clade_status clade__kernel_new(clade_device *device, cl_program program, const char *name, cl_kernel *out);
void clade__kernel_release(cl_kernel kernel);
clade_status clade__kernel_args(clade_device *device, cl_kernel kernel, cl_uint *count);
/* Type and name as declared, such as "global float *" and "x"; "" if the implementation does not report them. */
typedef struct clade__kernel_argument {
  char type[128], name[128];
  bool constant; /* pointer to constant data */
} clade__kernel_argument;
clade_status clade__kernel_get_argument(clade_device *device, cl_kernel kernel, cl_uint index,
                                        clade__kernel_argument *out);
clade_status clade__kernel_set(clade_device *device, cl_kernel kernel, cl_uint index, size_t bytes, const void *value);
/* Launch limits of a kernel on its device. They are checked in advance, because exceeding them crashes some
 * implementations. */
typedef struct clade__kernel_limits {
  size_t group;         /* maximum work-group size */
  uint64_t local_bytes; /* static use */
  size_t required[3];   /* reqd_work_group_size; zeros: not declared */
} clade__kernel_limits;
clade_status clade__kernel_get_limits(clade_device *device, cl_kernel kernel, clade__kernel_limits *limits);
/* Checks local size and `local_args` bytes of __local arguments against the limits; CLADE_UNSUPPORTED with the
 * numbers otherwise. Call when preparing a launch, not for each launch. */
clade_status clade__kernel_fits(clade_device *device, const clade__kernel_limits *limits, const char *name,
                                cl_uint dims, const size_t *local, uint64_t local_args);

/* ---- reports for `clade doctor`; no device is opened ---- */
typedef struct clade__loader_report {
  const char *path;  /* path of the opened loader, or NULL */
  const char *error; /* reason if none was opened */
  cl_int platform_error;
  int platforms;
} clade__loader_report;
void clade__loader_inspect(clade__loader_report *report);
/* Result of enumerating a platform. Strings live as long as the process. */
typedef struct clade__platform_report {
  const char *name, *version;
  int devices;
  cl_int error;        /* of the device query; CL_DEVICE_NOT_FOUND if there are no devices */
  const char *message; /* reason if the platform or a device was skipped, or NULL */
  const char *remedy;  /* how to make its devices appear, from the quirk table, or NULL */
} clade__platform_report;
/* Returns the number of platforms, writes at most `room`. */
int clade__platforms_inspect(int room, clade__platform_report *reports);
const char *clade__cl_error_name(cl_int code); /* "CL_OUT_OF_RESOURCES" */

#endif

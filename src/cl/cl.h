/* The only door to OpenCL. Modules above use OpenCL's types, and call these instead of its functions: every call is
 * checked, its failure named ("clEnqueueReadBuffer: CL_OUT_OF_RESOURCES (-5): …"), and a lost device remembered.
 * OpenCL's loader is opened at the first use (never linked), so that its absence can be told. */
#ifndef CLADE_CL_H
#define CLADE_CL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <clade/tensor.h>

#include "base/profile.h"

/* ---- quirks (quirks.c) ---- */
#define CLADE__QUIRK_MAP(X)                                                                           \
  X(LOCK_COMPILE) /* processes that compile into one cache of the implementation's at once may die */ \
  X(WARM)         /* compiles at the first launch with a local size and grid class */                 \
  X(SPECIALIZE)   /* does so for each of them, and once more where a binary is fetched */             \
  X(SOFTWARE)     /* a GPU or an accelerator that a CPU computes */                                   \
  X(NO_PROFILING) /* event times mean nothing */                                                      \
  X(PASS_LIMIT)   /* loops end after CLADE__PASS_LIMIT passes */                                      \
  X(GROUP_LIMIT)  /* the limit of a kernel's group that it reports is not one */                      \
  X(LOCAL_TWICE)  /* counts the local memory of a kernel twice */                                     \
  X(FREE_GROUP)   /* kernels must not require a work-group size */                                    \
  X(CALL_BODY)    /* compiles a kernel several times, and once what it calls */                       \
  X(SLOW_WAKE)    /* its threads sleep between launches: small ones gain in persistent kernels */     \
  X(MAPS_ITSELF)  /* maps a buffer as the memory that it is, and no copy */                           \
  X(LEAN_BUILD)   /* builds sooner what declares the functions that it calls */                       \
  X(BY_PAGES)     /* reads faster in a few pages by turns, and slower past the second cache */        \
  X(FAR_CACHE)    /* gets no more out of the last cache than out of memory */                         \
  X(NO_BINARY)    /* binaries cannot be fetched or loaded back */                                     \
  X(NO_ASM)       /* inline assembly ends the process */                                              \
  X(PAGES)        /* copies from and to the host's memory by whole pages */                           \
  X(LINGERS)      /* holds a program for a moment after it was given up, and takes no other */
typedef enum clade__quirk {
#define X(name) CLADE__QUIRK_##name,
  CLADE__QUIRK_MAP(X)
#undef X
      CLADE__QUIRK_COUNT
} clade__quirk;
bool clade__quirk_has(const clade_device *device, clade__quirk quirk);

/* ---- devices ---- */
/* What programs depend on: device, driver, platform, their versions. The store keys by it. */
clade__hash clade__device_key(const clade_device *device);
/* Devices that are equal share a key: which of them it is, counted in the list (0: it is not in it), and the way back,
 * in another process with the same list. */
int clade__device_twin(const clade_device *device);
clade_status clade__device_find_twin(clade__hash key, int twin, clade_device **out);
const clade_device_info *clade__device_info(const clade_device *device);
cl_context clade__device_context(const clade_device *device);
/* CLADE_OK, CLADE_LOST or CLADE_FORKED: every entry point that uses a device asks first. */
clade_status clade__device_check(const clade_device *device, const char *function);
/* What clade_device_info tells of bundles from here on; the caller's, as long as the device. */
void clade__device_set_kernels(clade_device *device, const char *const *kernels, const uint32_t *programs,
                               const char *bundles, const clade_array_info *array, const char *evidence);
/* What clade_device_get_info tells of its speed from here on. clade__device_info never does: each func has its own. */
void clade__device_set_profile(clade_device *device, const clade__profile *profile);
bool clade__device_is_part(const clade_device *device); /* of one that was split */
/* Whether a program that was built for a target is for the device: the target's kind and what it calls the device, as
 * manifests of bundles tell them. */
bool clade__target_fits(const char *kind, const char *name, const clade_device_info *info);
/* One slot for the module above (the program store), freed with the device. */
void **clade__device_attachment(clade_device *device, void (*release)(void *));
/* Serializes what is attached. */
pthread_mutex_t *clade__device_lock(clade_device *device);

/* Compiles a tiny kernel, runs it and compares: CLADE_OK, or what went wrong. Once it computed right, that is
 * remembered where the device is one of the list. */
clade_status clade__device_probe(clade_device *device);

/* ---- buffers: budgeted, backed when the call returns, pooled ---- */
typedef struct clade__buffer clade__buffer; /* counted; retains its device */
/* Contents are unspecified. Zero bytes give a valid, smallest buffer. `what` names the use in the refusal. */
clade_status clade__buffer_new(clade_device *device, size_t bytes, const char *what, clade__buffer **out);
clade_status clade__buffer_adopt(clade_device *device, cl_mem memory, clade__buffer **out); /* retained */
clade__buffer *clade__buffer_retain(clade__buffer *buffer);
/* The last release puts the memory into the device's pool, from where somebody else may get it at once: release when
 * the commands that use it are done, or when its next user's commands come after them. */
void clade__buffer_release(clade__buffer *buffer);
cl_mem clade__buffer_mem(const clade__buffer *buffer);
size_t clade__buffer_bytes(const clade__buffer *buffer);
clade_device *clade__buffer_device(const clade__buffer *buffer);
clade__buffer *clade__tensor_buffer(const clade_tensor *tensor, size_t *offset); /* NULL on the host */

/* Gives back what is pooled, and takes `peak` for what was used at the most so far: of memory that was needed once. */
void clade__memory_forget(clade_device *device, uint64_t peak);

/* Whoever holds buffers that can be made again. `drop` gives them up, where it can without waiting, when memory is
 * short on the device; false: there was nothing. It may be called by any thread that asks for memory, whatever locks
 * that thread holds, until it is removed. */
typedef struct clade__spare {
  bool (*drop)(void *user, clade_device *device);
  void *user;
  struct clade__spare *next;
} clade__spare;
void clade__spare_add(clade_device *device, clade__spare *spare);
void clade__spare_remove(clade_device *device, clade__spare *spare);

/* Host memory that the device reaches fastest: mapped for good where that pays, else plain and aligned. */
typedef struct clade__staging clade__staging;
clade_status clade__staging_new(clade_device *device, size_t bytes, clade__staging **out);
void *clade__staging_data(const clade__staging *staging);
void clade__staging_free(clade__staging *staging);

/* ---- queues (in order) ---- */
typedef struct clade__queue clade__queue;
clade_status clade__queue_new(clade_device *device, bool profile, clade__queue **out);
clade_status clade__queue_adopt(clade_device *device, cl_command_queue queue, clade__queue **out); /* retained */
cl_command_queue clade__queue_handle(const clade__queue *queue); /* borrowed, for a library that takes one */
void clade__queue_free(clade__queue *queue);                     /* waits, unless the queue is adopted */
/* Borrowed, made at first use; NULL on failure. Shared by all that copy and allocate: no command on it may wait for
 * something that the host has yet to do. */
clade__queue *clade__device_transfer_queue(clade_device *device);

typedef struct clade__wait {
  cl_uint n;
  const cl_event *events;
} clade__wait;

/* A launch checks its range against the device's limits. Local memory it cannot see: whoever prepares the launch asks
 * clade__kernel_fits once. `event` may be NULL; else it is the caller's to release. Nothing here blocks unless it says
 * so. What does not block reads and writes staging memory: devices that copy whole pages get that alone, and anything
 * else by way of it. */
clade_status clade__queue_launch(clade__queue *q, cl_kernel kernel, cl_uint dims, const size_t *global,
                                 const size_t *local, clade__wait wait, cl_event *event);
clade_status clade__queue_write(clade__queue *q, clade__buffer *dst, size_t offset, const void *src, size_t bytes,
                                bool blocking, clade__wait wait, cl_event *event);
clade_status clade__queue_read(clade__queue *q, const clade__buffer *src, size_t offset, void *dst, size_t bytes,
                               bool blocking, clade__wait wait, cl_event *event);
clade_status clade__queue_copy(clade__queue *q, const clade__buffer *src, size_t src_offset, clade__buffer *dst,
                               size_t dst_offset, size_t bytes, clade__wait wait, cl_event *event);
/* pattern_bytes: a power of two up to 16 that divides offset and bytes. */
clade_status clade__queue_fill(clade__queue *q, clade__buffer *dst, size_t offset, size_t bytes, const void *pattern,
                               size_t pattern_bytes, clade__wait wait, cl_event *event);
clade_status clade__queue_marker(clade__queue *q, clade__wait wait, cl_event *event);
clade_status clade__queue_flush(clade__queue *q);
clade_status clade__queue_finish(clade__queue *q); /* blocks */

/* ---- events ---- */
clade_status clade__event_wait(clade_device *device, cl_event event); /* blocks; the event's own error is returned */
/* The same, awake at first, since to be woken takes as long as a small step. *late: whether the wait before took longer
 * than that is worth, which shortens it; then whether this one did. */
clade_status clade__event_wait_awake(clade_device *device, cl_event event, bool *late);
clade_status clade__event_retain(clade_device *device, cl_event event);
/* Whether a user's events can be waited for on the device: none is NULL, all are of its context. */
clade_status clade__events_check(clade_device *device, clade__wait wait, const char *function);
void clade__event_release(cl_event event); /* NULL is fine */
/* 1: finished, 0: not yet, and an error status when it failed. */
clade_status clade__event_poll(clade_device *device, cl_event event, int *finished);
/* That so many more may be asked to tell their end without an allocation, until as many are given up again. */
clade_status clade__event_reserve(size_t n);
void clade__event_unreserve(size_t n);
/* fn runs once on a thread of the implementation's: it may only signal. */
clade_status clade__event_notify(clade_device *device, cl_event event, void (*fn)(void *), void *user);
typedef struct clade__event_times {
  uint64_t queued, submitted, start, end; /* ns */
} clade__event_times;
clade_status clade__event_profile(clade_device *device, cl_event event, clade__event_times *times);
clade_status clade__user_event_new(clade_device *device, cl_event *event);
clade_status clade__user_event_set(clade_device *device, cl_event event, bool ok);

/* ---- programs and kernels ---- */
/* On CLADE_BUILD *log holds the compiler's words (the caller's, by clade__free); log may be NULL. */
clade_status clade__program_build(clade_device *device, const char *source, size_t length, const char *options,
                                  cl_program *out, char **log);
clade_status clade__program_load(clade_device *device, const void *binary, size_t bytes, const char *options,
                                 cl_program *out);
clade_status clade__program_binary(clade_device *device, cl_program program, void **binary, size_t *bytes);
/* Names of its kernels with semicolons between; the caller's, by clade__free. */
clade_status clade__program_kernels(clade_device *device, cl_program program, char **names);
void clade__program_release(cl_program program);
clade_status clade__kernel_new(clade_device *device, cl_program program, const char *name, cl_kernel *out);
void clade__kernel_release(cl_kernel kernel);
clade_status clade__kernel_args(clade_device *device, cl_kernel kernel, cl_uint *count);
/* An argument as it is written, "global float *" and "x"; "" is what the implementation does not tell. */
typedef struct clade__kernel_argument {
  char type[128], name[128];
  bool constant; /* what it points to */
} clade__kernel_argument;
clade_status clade__kernel_get_argument(clade_device *device, cl_kernel kernel, cl_uint index,
                                        clade__kernel_argument *out);
clade_status clade__kernel_set(clade_device *device, cl_kernel kernel, cl_uint index, size_t bytes, const void *value);
/* Limits of a kernel on its device; a launch beyond them kills some implementations, so they are checked before. */
typedef struct clade__kernel_limits {
  size_t group;         /* work-items */
  uint64_t local_bytes; /* static use */
  size_t required[3];   /* reqd_work_group_size; zeros: none */
} clade__kernel_limits;
clade_status clade__kernel_get_limits(clade_device *device, cl_kernel kernel, clade__kernel_limits *limits);
/* Whether a launch with this local size and `local_args` bytes of __local arguments is within the limits; else
 * CLADE_UNSUPPORTED with the numbers. For the time when a launch is prepared, not for each launch. */
clade_status clade__kernel_fits(clade_device *device, const clade__kernel_limits *limits, const char *name,
                                cl_uint dims, const size_t *local, uint64_t local_args);

/* ---- for the command `clade doctor`, without opening any device ---- */
typedef struct clade__loader_report {
  const char *path;  /* of the loader that was opened; NULL: none */
  const char *error; /* why not */
  cl_int platform_error;
  int platforms;
} clade__loader_report;
void clade__loader_inspect(clade__loader_report *report);
/* A platform as enumeration met it. Texts live as long as the process. */
typedef struct clade__platform_report {
  const char *name, *version;
  int devices;
  cl_int error;        /* of the device query; CL_DEVICE_NOT_FOUND where there are none */
  const char *message; /* why it, or a device of it, was left out; NULL: nothing was */
  const char *remedy;  /* from the quirk table: what makes its devices appear; NULL: nothing is known */
} clade__platform_report;
int clade__platforms_inspect(int room, clade__platform_report *reports); /* how many there are; writes at most `room` */
const char *clade__cl_error_name(cl_int code);                           /* "CL_OUT_OF_RESOURCES" */

#endif

/* Interoperability with programs that use OpenCL themselves: their contexts, queues, buffers and events. Clade retains
 * these objects, but never finishes or releases them for the program. The only public header that needs OpenCL's. */
#ifndef CLADE_OPENCL_H
#define CLADE_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <clade/op.h>
#include <clade/run.h>

CLADE_BEGIN_DECLS

/* ---- objects of a program ---- */
/* Makes a device of a program's context and device. */
CLADE_API clade_status clade_device_adopt(cl_context context, cl_device_id id, clade_device **out);
/* The OpenCL context and device of a device; borrowed. */
CLADE_API cl_context clade_device_context(const clade_device *device);
CLADE_API cl_device_id clade_device_cl_id(const clade_device *device);

/* Makes a tensor of a buffer in the device's context, from `offset` bytes on, a multiple of the element size. */
CLADE_API clade_status clade_tensor_wrap(clade_device *device, cl_mem memory, size_t offset, clade_dtype dtype,
                                         clade_shape shape, clade_tensor **out);
/* The buffer of a tensor, borrowed, and the offset in bytes; NULL on the host. */
CLADE_API cl_mem clade_tensor_mem(const clade_tensor *tensor, size_t *offset);

/* Makes a run, as clade_run_new does, on a queue of the program: in-order, of the func's device. For funcs of one
 * device. */
CLADE_API clade_status clade_run_new_on(clade_func *func, clade_vars *vars, cl_command_queue queue,
                                        const clade_run_opt *opt);
/* Enqueues an execution, as clade_execute does, after the events `wait`. *done, which may be NULL, is the caller's. */
CLADE_API clade_status clade_execute_after(clade_run *run, int n, const clade_feed *feeds, cl_uint n_wait,
                                           const cl_event *wait, clade_ticket *ticket, cl_event *done);

/* ---- steps of other libraries ----
 * An implementation may emit a call of a library that enqueues on OpenCL queues itself, such as CLBlast
 * (clade_emit_library). Allocations within such a library are its own. */

/* The arguments of a library call. */
typedef struct clade_library_call {
  size_t size;
  const void *work;       /* the bytes given to clade_emit_library */
  void *state;            /* from prepare */
  clade_device *device;   /* the device */
  cl_command_queue queue; /* an in-order queue */
  int n;                  /* number of operands, in the order of the emit */
  const cl_mem *memory;   /* their buffers */
  const size_t *offset;   /* their offsets in bytes */
  /* NULL, or the place for an event of the end of the work, which Clade releases. The library may leave it alone. */
  cl_event *event;
} clade_library_call;

/* The functions of a library step. The struct must outlive the funcs. The message of a failure is set by clade_fail. */
struct clade_library {
  size_t size;
  /* Compiles or plans when a func is compiled; may block. NULL: nothing to prepare. */
  clade_status (*prepare)(const void *work, clade_device *device, void **state);
  /* Enqueues the work and returns, without waiting. Runs of several threads call this function at once. */
  clade_status (*enqueue)(const clade_library_call *call);
  void (*release)(void *state); /* frees the state with the func; NULL: nothing to free */
};

CLADE_END_DECLS
#endif

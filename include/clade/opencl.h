/* For programs that use OpenCL themselves: their contexts, queues, buffers and events, retained but never finished or
 * released for them. The only public header that needs OpenCL's. */
#ifndef CLADE_OPENCL_H
#define CLADE_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <clade/op.h>
#include <clade/run.h>

CLADE_BEGIN_DECLS

CLADE_API clade_status clade_device_adopt(cl_context context, cl_device_id id, clade_device **out);
CLADE_API cl_context clade_device_context(const clade_device *device); /* borrowed */
CLADE_API cl_device_id clade_device_cl_id(const clade_device *device);

/* A tensor over a buffer of the device's context, from `offset` bytes on (a multiple of the element's size). */
CLADE_API clade_status clade_tensor_wrap(clade_device *device, cl_mem memory, size_t offset, clade_dtype dtype,
                                         clade_shape shape, clade_tensor **out);
CLADE_API cl_mem clade_tensor_mem(const clade_tensor *tensor, size_t *offset); /* borrowed; NULL on the host */

/* As clade_run_new, on the user's queue (in order, of the func's device). One-device funcs only. */
CLADE_API clade_status clade_run_new_on(clade_func *func, clade_vars *vars, cl_command_queue queue,
                                        const clade_run_opt *opt);
/* As clade_execute: begins after `wait`; *done (may be NULL) is the user's to release. */
CLADE_API clade_status clade_execute_after(clade_run *run, int n, const clade_feed *feeds, cl_uint n_wait,
                                           const cl_event *wait, clade_ticket *ticket, cl_event *done);

/* ---- steps of other libraries ----
 * An implementation may leave its work to a library that enqueues on OpenCL's queues itself, as CLBlast does: it emits
 * a step of it (clade_emit_library). What such a library allocates or creates in there is its own. */
typedef struct clade_library_call {
  size_t size;
  const void *work; /* what the emit gave */
  void *state;      /* of prepare */
  clade_device *device;
  cl_command_queue queue; /* in order */
  int n;                  /* operands, in the order of the emit */
  const cl_mem *memory;
  const size_t *offset; /* in bytes */
  cl_event *event;      /* NULL: nobody asks; else it may be given, of the end of all, and is Clade's to release */
} clade_library_call;

/* Must outlive the funcs. A failure is told by clade_fail(). */
struct clade_library {
  size_t size;
  /* When the func is compiled: whatever is to be compiled or planned. It may block. NULL: nothing. */
  clade_status (*prepare)(const void *work, clade_device *device, void **state);
  /* Enqueues and returns: it neither waits nor finishes. Runs of several threads call it at once. */
  clade_status (*enqueue)(const clade_library_call *call);
  void (*release)(void *state); /* with the func; NULL: nothing */
};

CLADE_END_DECLS
#endif

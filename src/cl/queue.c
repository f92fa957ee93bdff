/* In-order queues and enqueued commands: thin wrappers, one OpenCL call each, without allocation. */
#include "cl/internal.h"

struct clade__queue {
  clade_device *device;
  cl_command_queue queue;
  bool adopted, holds_device;
};

clade_status clade__queue_make(clade_device *device, bool profile, clade__queue **out) {
  clade__queue *q = clade__new(1, sizeof *q);
  if (!q) return CLADE_NO_MEMORY;
  cl_int e = CL_SUCCESS;
  q->device = device;
  q->queue = clade__cl.clCreateCommandQueue(device->context, device->id, profile ? CL_QUEUE_PROFILING_ENABLE : 0, &e);
  clade_status status = clade__cl_made(device, "clCreateCommandQueue", e ? NULL : q->queue, e);
  if (status != CLADE_OK) {
    clade__free(q);
    return status;
  }
  *out = q;
  return CLADE_OK;
}

static void hold_device(clade__queue *q) {
  clade_device_retain(q->device);
  q->holds_device = true;
}

clade_status clade__queue_new(clade_device *device, bool profile, clade__queue **out) {
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "clade__queue_new"));
  CLADE_TRY(clade__queue_make(device, profile, out));
  hold_device(*out);
  return CLADE_OK;
}

static clade_status check_adopted(clade_device *device, cl_command_queue queue) {
  cl_context context = NULL;
  cl_device_id id = NULL;
  cl_command_queue_properties properties = 0;
  CLADE__CALL(device, clGetCommandQueueInfo, queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
  CLADE__CALL(device, clGetCommandQueueInfo, queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &id, NULL);
  CLADE__CALL(device, clGetCommandQueueInfo, queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  if (context != device->context || id != device->id)
    return CLADE_FAIL(INVALID, "the queue belongs to another %s than device \"%s\"",
                      context != device->context ? "context" : "OpenCL device", device->facts.label);
  if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return CLADE_FAIL(INVALID, "the queue is out of order; an in-order queue is expected");
  return CLADE_OK;
}

cl_command_queue clade__queue_handle(const clade__queue *queue) { return queue->queue; }

clade_status clade__queue_adopt(clade_device *device, cl_command_queue queue, clade__queue **out) {
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "clade__queue_adopt"));
  if (!queue) return CLADE_FAIL(INVALID, "the queue is NULL");
  CLADE_TRY(check_adopted(device, queue));
  clade__queue *q = clade__new(1, sizeof *q);
  if (!q) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clRetainCommandQueue(queue);
  if (e) {
    clade__free(q);
    return clade__cl_error(device, "clRetainCommandQueue", e);
  }
  *q = (clade__queue){.device = device, .queue = queue, .adopted = true};
  hold_device(q);
  *out = q;
  return CLADE_OK;
}

void clade__queue_free(clade__queue *queue) {
  if (!queue || atomic_load(&clade__forked)) return;
  clade_device *device = queue->holds_device ? queue->device : NULL;
  if (!queue->adopted && !atomic_load(&queue->device->lost)) CLADE__UNDO(clFinish, queue->queue);
  CLADE__UNDO(clReleaseCommandQueue, queue->queue);
  clade__free(queue);
  clade_device_release(device);
}

cl_command_queue clade__queue_cl(const clade__queue *queue) { return queue->queue; }

static const cl_event *events(clade__wait wait) { return wait.n ? wait.events : NULL; }

/* Some implementations crash or compute wrong results beyond their limits. */
static clade_status check_range(const clade_device *device, cl_uint dims, const size_t *global, const size_t *local) {
  const clade_device_info *info = &device->facts.info;
  uint64_t group = 1;
  if (dims < 1 || dims > 3) return CLADE_FAIL(INVALID, "a launch of %u dimensions; 1 to 3 are expected", dims);
  for (cl_uint i = 0; i < dims; i++) {
    if (global[i] == 0) return CLADE_FAIL(INVALID, "a launch with global size 0 in dimension %u", i);
    if (!local) continue;
    if (local[i] == 0 || local[i] > info->max_item[i] || global[i] % local[i])
      return CLADE_FAIL(INVALID, "a launch with local size %zu in dimension %u: it must divide %zu and be at most %zu",
                        local[i], i, global[i], (size_t)info->max_item[i]);
    group *= local[i];
  }
  if (group <= info->max_group) return CLADE_OK;
  return CLADE_FAIL(INVALID, "a launch with %zu work-items in a group; device \"%s\" allows %zu", (size_t)group,
                    info->name, (size_t)info->max_group);
}

clade_status clade__queue_launch(clade__queue *q, cl_kernel kernel, cl_uint dims, const size_t *global,
                                 const size_t *local, clade__wait wait, cl_event *event) {
  CLADE_TRY(clade__device_check(q->device, "clade__queue_launch"));
  CLADE_TRY(check_range(q->device, dims, global, local));
  CLADE__CALL(q->device, clEnqueueNDRangeKernel, q->queue, kernel, dims, NULL, global, local, wait.n, events(wait),
              event);
  return CLADE_OK;
}

/* OpenCL refuses commands of zero bytes; a marker preserves their order. */
static clade_status nothing(clade__queue *q, bool blocking, clade__wait wait, cl_event *event) {
  cl_event own = NULL;
  if (!event && !blocking) return CLADE_OK;
  CLADE_TRY(clade__queue_marker(q, wait, &own));
  clade_status status = blocking ? clade__event_wait(q->device, own) : CLADE_OK;
  if (event && status == CLADE_OK)
    *event = own;
  else
    clade__event_release(own);
  return status;
}

static clade_status check_bytes(const char *function, const clade__queue *q, const clade__buffer *buffer, size_t offset,
                                size_t bytes) {
  size_t end, has = clade__buffer_bytes(buffer);
  CLADE_TRY(clade__device_check(q->device, function));
  if (!clade__add(offset, bytes, &end) || end > has)
    return CLADE_FAIL(INVALID, "%s: %zu bytes from %zu on, of a buffer of %zu", function, bytes, offset, has);
  return CLADE_OK;
}

static clade_status off_page(const char *function, const void *host) {
  return CLADE_FAIL(INTERNAL, "%s: %p is no page's beginning, and the device copies while nobody waits", function,
                    host);
}

clade_status clade__queue_write(clade__queue *q, clade__buffer *dst, size_t offset, const void *src, size_t bytes,
                                bool blocking, clade__wait wait, cl_event *event) {
  CLADE_TRY(check_bytes("clade__queue_write", q, dst, offset, bytes));
  if (bytes == 0) return nothing(q, blocking, wait, event);
  if (clade__pages_needed(q->device, src)) {
    if (!blocking) return off_page("clade__queue_write", src);
    return clade__pages_write(
        &(clade__pages_move){q->device, q->queue, clade__buffer_mem(dst), offset, bytes, wait, event}, src);
  }
  CLADE__CALL(q->device, clEnqueueWriteBuffer, q->queue, clade__buffer_mem(dst), blocking, offset, bytes, src, wait.n,
              events(wait), event);
  return CLADE_OK;
}

clade_status clade__queue_read(clade__queue *q, const clade__buffer *src, size_t offset, void *dst, size_t bytes,
                               bool blocking, clade__wait wait, cl_event *event) {
  CLADE_TRY(check_bytes("clade__queue_read", q, src, offset, bytes));
  if (bytes == 0) return nothing(q, blocking, wait, event);
  if (clade__pages_needed(q->device, dst)) {
    if (!blocking) return off_page("clade__queue_read", dst);
    return clade__pages_read(
        &(clade__pages_move){q->device, q->queue, clade__buffer_mem(src), offset, bytes, wait, event}, dst);
  }
  CLADE__CALL(q->device, clEnqueueReadBuffer, q->queue, clade__buffer_mem(src), blocking, offset, bytes, dst, wait.n,
              events(wait), event);
  return CLADE_OK;
}

clade_status clade__queue_copy(clade__queue *q, const clade__buffer *src, size_t src_offset, clade__buffer *dst,
                               size_t dst_offset, size_t bytes, clade__wait wait, cl_event *event) {
  CLADE_TRY(check_bytes("clade__queue_copy", q, src, src_offset, bytes));
  CLADE_TRY(check_bytes("clade__queue_copy", q, dst, dst_offset, bytes));
  if (bytes == 0) return nothing(q, false, wait, event);
  CLADE__CALL(q->device, clEnqueueCopyBuffer, q->queue, clade__buffer_mem(src), clade__buffer_mem(dst), src_offset,
              dst_offset, bytes, wait.n, events(wait), event);
  return CLADE_OK;
}

clade_status clade__queue_fill(clade__queue *q, clade__buffer *dst, size_t offset, size_t bytes, const void *pattern,
                               size_t pattern_bytes, clade__wait wait, cl_event *event) {
  CLADE_TRY(check_bytes("clade__queue_fill", q, dst, offset, bytes));
  size_t p = pattern_bytes;
  if (p == 0 || p > 16 || (p & (p - 1)) || offset % p || bytes % p)
    return CLADE_FAIL(INVALID, "clade__queue_fill: %zu bytes from %zu on by a pattern of %zu", bytes, offset, p);
  if (bytes == 0) return nothing(q, false, wait, event);
  CLADE__CALL(q->device, clEnqueueFillBuffer, q->queue, clade__buffer_mem(dst), pattern, p, offset, bytes, wait.n,
              events(wait), event);
  return CLADE_OK;
}

clade_status clade__queue_marker(clade__queue *q, clade__wait wait, cl_event *event) {
  CLADE_TRY(clade__device_check(q->device, "clade__queue_marker"));
  CLADE__CALL(q->device, clEnqueueMarkerWithWaitList, q->queue, wait.n, events(wait), event);
  return CLADE_OK;
}

clade_status clade__queue_flush(clade__queue *q) {
  CLADE_TRY(clade__device_check(q->device, "clade__queue_flush"));
  CLADE__CALL(q->device, clFlush, q->queue);
  return CLADE_OK;
}

clade_status clade__queue_finish(clade__queue *q) {
  CLADE_TRY(clade__device_check(q->device, "clade__queue_finish"));
  CLADE__CALL(q->device, clFinish, q->queue);
  return CLADE_OK;
}

/* Host memory for fast transfers: permanently mapped memory of the device if it is no CPU, else heap memory. */
#include "cl/internal.h"

struct clade__staging {
  clade_device *device;
  void *data;    /* page-aligned */
  void *plain;   /* heap block to free, or NULL */
  void *mapped;  /* mapping to undo, or NULL */
  cl_mem memory; /* buffer behind the mapping */
};

static clade_status make_plain(clade__staging *s, size_t bytes) {
  size_t whole;
  if (!clade__add(bytes, CLADE__PAGE, &whole)) return CLADE_FAIL(OVERFLOW, "staging memory of %zu bytes", bytes);
  s->plain = clade__new(whole, 1);
  if (!s->plain) return CLADE_NO_MEMORY;
  s->data = clade__page_begin(s->plain);
  return CLADE_OK;
}

static clade_status make_mapped(clade__staging *s, size_t bytes) {
  clade__queue *queue;
  size_t whole;
  if (!clade__add(bytes, CLADE__PAGE, &whole)) return CLADE_FAIL(OVERFLOW, "staging memory of %zu bytes", bytes);
  CLADE_TRY(clade__transfer(s->device, &queue));
  cl_int e = CL_SUCCESS;
  cl_mem memory =
      clade__cl.clCreateBuffer(s->device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, whole, NULL, &e);
  CLADE_TRY(clade__cl_made(s->device, "clCreateBuffer", e ? NULL : memory, e));
  s->mapped = clade__cl.clEnqueueMapBuffer(clade__queue_cl(queue), memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                           whole, 0, NULL, NULL, &e);
  clade_status status = clade__cl_made(s->device, "clEnqueueMapBuffer", e ? NULL : s->mapped, e);
  if (status != CLADE_OK) {
    CLADE__UNDO(clReleaseMemObject, memory);
    return status;
  }
  s->memory = memory;
  s->data = clade__page_begin(s->mapped);
  return CLADE_OK;
}

clade_status clade__staging_new(clade_device *device, size_t bytes, clade__staging **out) {
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "clade__staging_new"));
  clade__staging *s = clade__new(1, sizeof *s);
  if (!s) return CLADE_NO_MEMORY;
  s->device = device;
  clade_status status = CLADE_UNSUPPORTED;
  if (device->facts.info.device_class != CLADE_CPU) {
    status = make_mapped(s, bytes);
    if (status != CLADE_OK) clade__log(CLADE_LOG_INFO, "staging memory is not pinned: %s", clade_last_error());
  }
  if (status != CLADE_OK) status = make_plain(s, bytes);
  if (status != CLADE_OK) {
    clade__free(s);
    return status;
  }
  clade_device_retain(device);
  *out = s;
  return CLADE_OK;
}

void *clade__staging_data(const clade__staging *staging) { return staging->data; }

void clade__staging_free(clade__staging *staging) {
  if (!staging || atomic_load(&clade__forked)) return;
  clade_device *device = staging->device;
  if (staging->memory) {
    clade__queue *queue = clade__device_transfer_queue(device);
    /* Xilinx' runtime does not retain the buffer for the unmap command, so finish before releasing it. */
    if (queue &&
        !clade__cl.clEnqueueUnmapMemObject(clade__queue_cl(queue), staging->memory, staging->mapped, 0, NULL, NULL))
      CLADE__UNDO(clFinish, clade__queue_cl(queue));
    CLADE__UNDO(clReleaseMemObject, staging->memory);
  }
  clade__free(staging->plain);
  clade__free(staging);
  clade_device_release(device);
}

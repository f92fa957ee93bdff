/* Pages of 2 MiB under a CPU's buffers: where the system gives them to who asks for them alone (its usual setting), and
 * no OpenCL implementation does. */
#include "cl/room.h"

#include <sys/mman.h>

#ifdef MADV_HUGEPAGE
enum { WORTH = 4 << 20 };

/* Of memory that nobody touched yet. Where it is mapped as a copy, that copy gets them, and nothing is lost. */
clade_status clade__huge_pages(clade_device *device, cl_mem memory, size_t bytes) {
  clade__queue *queue;
  if (device->facts.info.device_class != CLADE_CPU || bytes < WORTH) return CLADE_OK;
  CLADE_TRY(clade__transfer(device, &queue));
  cl_command_queue q = clade__queue_cl(queue);
  cl_int e = CL_SUCCESS;
  void *mapped =
      clade__cl.clEnqueueMapBuffer(q, memory, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, bytes, 0, NULL, NULL, &e);
  CLADE_TRY(clade__cl_made(device, "clEnqueueMapBuffer", e ? NULL : mapped, e));
  unsigned char *first = clade__page_begin(mapped), *end = (unsigned char *)mapped + bytes;
  (void)madvise(first, (size_t)(end - first) / CLADE__PAGE * CLADE__PAGE, MADV_HUGEPAGE); /* a hint */
  CLADE__CALL(device, clEnqueueUnmapMemObject, q, memory, mapped, 0, NULL, NULL);
  return CLADE_OK;
}
#else
clade_status clade__huge_pages(clade_device *device, cl_mem memory, size_t bytes) {
  (void)device, (void)memory, (void)bytes;
  return CLADE_OK;
}
#endif

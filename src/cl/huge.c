/* Requests 2 MiB pages for CPU buffers. Linux's usual setting gives them on request only, and no OpenCL
 * implementation requests them. */
#include "cl/internal.h"

#include <sys/mman.h>

#ifdef MADV_HUGEPAGE
enum { WORTH = 4 << 20 };

/* Must be called before the memory is touched. The request is a hint; failure is harmless. */
void clade__huge_pages(clade_device *device, cl_mem memory, size_t bytes) {
  clade__queue *queue;
  const bool own = device->facts.info.device_class == CLADE_CPU && clade__quirk_has(device, CLADE__QUIRK_MAPS_ITSELF);
  if (!own || bytes < WORTH || clade__transfer(device, &queue) != CLADE_OK) return;
  cl_command_queue q = clade__queue_cl(queue);
  cl_int e = CL_SUCCESS;
  void *mapped =
      clade__cl.clEnqueueMapBuffer(q, memory, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, bytes, 0, NULL, NULL, &e);
  if (e || !mapped) return;
  unsigned char *first = clade__page_begin(mapped), *end = (unsigned char *)mapped + bytes;
  (void)madvise(first, (size_t)(end - first) / CLADE__PAGE * CLADE__PAGE, MADV_HUGEPAGE);
  CLADE__UNDO(clEnqueueUnmapMemObject, q, memory, mapped, 0, NULL, NULL);
}
#else
void clade__huge_pages(clade_device *device, cl_mem memory, size_t bytes) { (void)device, (void)memory, (void)bytes; }
#endif

/* Replaces offline.c if CLADE_FPGA is OFF: no program built offline can be loaded. The other functions need the result
 * of clade__offline_open, which always fails. */
#include "program/offline.h"

clade_status clade__offline_open(clade_device *device, clade__offline **out) {
  *out = NULL;
  return CLADE_FAIL(UNSUPPORTED,
                    "device \"%s\" has no compiler, and its programs come from bundles, which this build of Clade "
                    "cannot load: build Clade with -DCLADE_FPGA=ON",
                    clade__device_info(device)->name);
}

void clade__offline_free(clade_device *device, clade__offline *offline) { (void)device, (void)offline; }

void clade__offline_tell(clade_device *device, const clade__offline *offline) { (void)device, (void)offline; }

clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out) {
  (void)offline, (void)request, (void)out;
  return clade__offline_open(device, &offline);
}

clade_status clade__offline_turn(clade_device *device, const clade__offline *offline, int program, double *seconds) {
  (void)device, (void)offline, (void)program, (void)seconds;
  return CLADE_OK;
}

void clade__programmed_ran(clade_device *device, int first, int last, int changes) {
  (void)device, (void)first, (void)last, (void)changes;
}

uint64_t clade__programmed_times(const clade_device *device) {
  (void)device;
  return 0;
}

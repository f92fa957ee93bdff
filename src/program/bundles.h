/* Offline-built programs: selecting a device's bundles and verifying them before use. Every refusal has its own
 * message, which names the file. docs/fpga.md lists the checks and their order. */
#ifndef CLADE_BUNDLES_H
#define CLADE_BUNDLES_H

#include "bundle/bundle.h"
#include "cl/cl.h"
#include "program/offline.h"

/* ---- search (bundles.c) ---- */
/* All bundles of a device; each has other kernels. */
enum { CLADE__MOST_BUNDLES = 16 };
typedef struct clade__bundle_set {
  size_t n;
  clade__bundle at[CLADE__MOST_BUNDLES];
} clade__bundle_set;
void clade__bundle_set_free(clade__bundle_set *set);
clade__hash clade__bundle_set_hash(const clade__bundle_set *set); /* of the bundles' digests */
/* Reads and verifies the device's bundles, from CLADE_BUNDLE_PATH or the default directories. NOT_FOUND, with the
 * reasons of refusals, if there is none. */
clade_status clade__bundle_find(const clade_device_info *info, clade__bundle_set *out);
/* Whether the bundle matches the device; the error gives the reason. */
clade_status clade__bundle_fits(const clade__bundle *bundle, const clade_device_info *info);

/* Runs a kernel with a known answer (self_test.c); CORRUPT if the result differs. */
clade_status clade__self_test(clade_device *device, cl_program program, const clade__bundle_kernel *told);
bool clade__self_test_known(const clade__bundle_kernel *told); /* the kernel has a known answer */

/* ---- loading (bundle_load.c) ---- */
/* Creates the program and checks its kernels against manifest and interface. Unpacks the bundle's binary in place. */
clade_status clade__bundle_load(clade_device *device, clade__bundle *bundle, cl_program *out);

/* ---- devices that hold one program at a time (programmed.c) ---- */
/* Call before creating programs. BUSY while the device holds programs of other bundles that are in use. */
clade_status clade__programmed_begin(clade_device *device, const clade__bundle_set *bundles);
void clade__programmed_end(clade_device *device);

#endif

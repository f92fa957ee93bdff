/* Offline-built programs: selecting a device's bundles and verifying them before use. Every refusal has its own
 * message, which names the file. docs/fpga.md lists the checks and their order. */
#ifndef CLADE_BUNDLES_H
#define CLADE_BUNDLES_H

#include "bundle/bundle.h"
#include "cl/cl.h"
#include "program/store.h"

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
/* Records enqueued launches: the first and the last program, and the number of changes between. */
void clade__programmed_ran(clade_device *device, int first, int last, int changes);
/* How often the device changed programs, counted in the order in which launches were enqueued. */
uint64_t clade__programmed_times(const clade_device *device);

/* ---- a device's bundles (offline.c) ---- */
typedef struct clade__offline clade__offline;
clade_status clade__offline_open(clade_device *device, clade__offline **out);
void clade__offline_free(clade_device *device, clade__offline *offline); /* accepts NULL */
/* NULL-terminated names of its kernels. */
const char *const *clade__offline_kernels(const clade__offline *offline);
const uint32_t *clade__offline_programs(const clade__offline *offline); /* program of each kernel */
const char *clade__offline_digest(const clade__offline *offline);
const clade_array_info *clade__offline_array(const clade__offline *offline);
const char *clade__offline_evidence(const clade__offline *offline); /* the weakest evidence among its kernels */
/* See clade__store_turn. */
clade_status clade__offline_turn(clade_device *device, const clade__offline *offline, int program, double *seconds);
/* Returns the kernel for a request, after its self-test at first use. */
clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out);

#endif

/* Programs that were built offline: which bundle is a device's, and what it must show before it is used. Every refusal
 * has words of its own, which name the file. docs/fpga.md tells what is checked, in which order. */
#ifndef CLADE_BUNDLES_H
#define CLADE_BUNDLES_H

#include "bundle/bundle.h"
#include "cl/cl.h"
#include "program/store.h"

/* ---- finding (bundles.c) ---- */
/* A device's: several hold different kernels. */
enum { CLADE__MOST_BUNDLES = 16 };
typedef struct clade__bundle_set {
  size_t n;
  clade__bundle at[CLADE__MOST_BUNDLES];
} clade__bundle_set;
void clade__bundle_set_free(clade__bundle_set *set);
clade__hash clade__bundle_set_hash(const clade__bundle_set *set); /* of their digests */
/* Read and checked, from CLADE_BUNDLE_PATH or the usual directories; NOT_FOUND where none is for the device, and what
 * was refused is told. */
clade_status clade__bundle_find(const clade_device_info *info, clade__bundle_set *out);
/* Whether it is for this device; else why not. */
clade_status clade__bundle_fits(const clade__bundle *bundle, const clade_device_info *info);

/* Asks a kernel of the interface what is known (self_test.c): CORRUPT where its answer is wrong. */
clade_status clade__self_test(clade_device *device, cl_program program, const clade__bundle_kernel *told);
bool clade__self_test_known(const clade__bundle_kernel *told); /* there is an answer that it can be asked for */

/* ---- loading (bundle_load.c) ---- */
/* The program, with all of its kernels as the manifest and the interface tell them. The binary becomes what the
 * implementation is given. */
clade_status clade__bundle_load(clade_device *device, clade__bundle *bundle, cl_program *out);

/* ---- one program at a time (programmed.c) ---- */
/* Before their programs are created: BUSY while the device holds those of others, which somebody uses. */
clade_status clade__programmed_begin(clade_device *device, const clade__bundle_set *bundles);
void clade__programmed_end(clade_device *device);
/* Launches were enqueued that begin with one of its programs, end with another, and change so often between. */
void clade__programmed_ran(clade_device *device, int first, int last, int changes);
/* How often the device got another program than it had: as launches are enqueued, whoever gives it the program. */
uint64_t clade__programmed_times(const clade_device *device);

/* ---- a device's (offline.c) ---- */
typedef struct clade__offline clade__offline;
clade_status clade__offline_open(clade_device *device, clade__offline **out);
void clade__offline_free(clade_device *device, clade__offline *offline); /* NULL is fine */
/* The names of its kernels, ending in NULL. */
const char *const *clade__offline_kernels(const clade__offline *offline);
const uint32_t *clade__offline_programs(const clade__offline *offline); /* of each kernel */
const char *clade__offline_digest(const clade__offline *offline);
const clade_array_info *clade__offline_array(const clade__offline *offline);
const char *clade__offline_evidence(const clade__offline *offline); /* that all its kernels have */
/* As clade__store_turn. */
clade_status clade__offline_turn(clade_device *device, const clade__offline *offline, int program, double *seconds);
/* The kernel that a request means. Before it is given for the first time, it is tested. */
clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out);

#endif

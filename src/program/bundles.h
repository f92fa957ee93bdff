/* Programs that were built offline: which bundle is a device's, and what it must show before it is used. Every refusal
 * has words of its own, which name the file. docs/fpga.md tells what is checked, in which order. */
#ifndef CLADE_BUNDLES_H
#define CLADE_BUNDLES_H

#include "bundle/bundle.h"
#include "cl/cl.h"
#include "program/store.h"

/* ---- finding (bundles.c) ---- */
/* The device's bundle, read and checked, from CLADE_BUNDLE_PATH or the usual directories; NOT_FOUND where none is for
 * it, and what was refused is told. */
clade_status clade__bundle_find(const clade_device_info *info, clade__bundle *out);
/* Whether it is for this device; else why not. */
clade_status clade__bundle_fits(const clade__bundle *bundle, const clade_device_info *info);

/* Asks a kernel of the interface what is known (self_test.c): CORRUPT where its answer is wrong. */
clade_status clade__self_test(clade_device *device, cl_program program, const clade__bundle_kernel *told);

/* ---- loading (bundle_load.c) ---- */
/* The program, with all of its kernels as the manifest and the interface tell them. The binary becomes what the
 * implementation is given. */
clade_status clade__bundle_load(clade_device *device, clade__bundle *bundle, cl_program *out);

/* ---- one program at a time (programmed.c) ---- */
/* Before a bundle's program is created: BUSY while the device holds that of another bundle, which somebody uses. */
clade_status clade__programmed_begin(clade_device *device, const clade__bundle *bundle);
void clade__programmed_end(clade_device *device);
/* How often the device got another program than it had. */
uint64_t clade__programmed_times(const clade_device *device);

/* ---- a device's (offline.c) ---- */
typedef struct clade__offline clade__offline;
clade_status clade__offline_open(clade_device *device, clade__offline **out);
void clade__offline_free(clade_device *device, clade__offline *offline); /* NULL is fine */
/* The names of its kernels, ending in NULL. */
const char *const *clade__offline_kernels(const clade__offline *offline);
const clade_array_info *clade__offline_array(const clade__offline *offline);
/* The kernel that a request means. Before it is given for the first time, it is tested. */
clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out);

#endif

/* Programs built offline, for devices without a compiler. If CLADE_FPGA is OFF, offline_absent.c replaces offline.c and
 * refuses such devices when something is compiled for them. */
#ifndef CLADE_OFFLINE_H
#define CLADE_OFFLINE_H

#include "program/store.h"

/* The programs of one device. */
typedef struct clade__offline clade__offline;
/* Finds, checks and loads the device's bundles. */
clade_status clade__offline_open(clade_device *device, clade__offline **out);
void clade__offline_free(clade_device *device, clade__offline *offline); /* accepts NULL */
/* Puts the kernels' names and the manifests' figures into the device's info. */
void clade__offline_tell(clade_device *device, const clade__offline *offline);
/* Returns the kernel for a request, after its self-test at first use. */
clade_status clade__offline_find(clade_device *device, clade__offline *offline, const clade__request *request,
                                 clade__program_kernel *out);
/* See clade__store_turn. */
clade_status clade__offline_turn(clade_device *device, const clade__offline *offline, int program, double *seconds);

/* ---- devices that hold one program at a time (programmed.c) ---- */
/* Records enqueued launches: the first and the last program, and the number of changes between. */
void clade__programmed_ran(clade_device *device, int first, int last, int changes);
/* How often the device changed programs, counted in the order in which launches were enqueued. */
uint64_t clade__programmed_times(const clade_device *device);

#endif

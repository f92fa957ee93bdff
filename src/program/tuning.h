/* The tuning records of a device: where they are kept, and in which order they hold. docs/tuning.md tells the rules. */
#ifndef CLADE_TUNING_H
#define CLADE_TUNING_H

#include "cl/cl.h"
#include "program/records.h"

/* What the device goes by now; read again where its own file changed. What cannot be read is told by the log and left
 * out: this fails for lack of memory and for a device that is lost. */
clade_status clade__tuning_get(clade_device *device, clade__tuning **out);
/* As records describe it; what only a probe knows (fma_units) stays 0. Texts are the process'. */
void clade__tuned_describe(const clade_device *device, clade__tuned_device *out);
/* Puts records into their device's file, under the cache's lock; fma_units that are not 0 too. One that is there stays
 * where it has the same kernels and is faster; with `replace` nothing stays of the problems that `records` know. *n:
 * how many were put; may be NULL. */
clade_status clade__tuning_merge(const clade__records *records, bool replace, size_t *n);
/* Into the file of the device, which they are of; where that cannot be written, for this process, with a warning. */
clade_status clade__tuning_keep(clade_device *device, const clade__records *records);
/* As a choice among those of a func, by the device's key: what its costs went by. Reading one that is not there gives
 * what is expected of the class. */
extern const char clade__profile_op[];
clade_status clade__profile_put(clade__records *choices, const clade_device *device, const clade__profile *profile);
void clade__profile_of(const clade__records *choices, const clade_device *device, clade__profile *out);
/* The own files of all devices in the cache directory. */
clade_status clade__tuning_own(clade__record_sets *out);
/* A file that a user names; CLADE_CORRUPT says what is wrong with it. *bad counts records that were left out. */
clade_status clade__tuning_read(const char *path, clade__record_sets *out, size_t *bad);

/* Clade's defaults; generated from tuning/defaults.json. */
extern const char clade__tuning_defaults[]; /* ends in a zero */

#endif

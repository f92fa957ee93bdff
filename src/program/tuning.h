/* Tuning records of a device: storage and precedence. docs/tuning.md has the rules. */
#ifndef CLADE_TUNING_H
#define CLADE_TUNING_H

#include "cl/cl.h"
#include "program/records.h"

/* Returns the current records; rereads the device's own file if it changed. Unreadable files are logged and skipped:
 * this fails only if memory runs out or the device is lost. */
clade_status clade__tuning_get(clade_device *device, clade__tuning **out);
/* The device's properties for records. fma_units, known only to a probe, stays 0. Strings live as long as the
 * process. */
void clade__tuned_describe(const clade_device *device, clade__tuned_device *out);
/* Merges records into their device's file under the cache's lock, with fma_units if not 0. An existing record of the
 * same kernel stays if it is faster. With `replace`, all records of the problems in `records` are replaced. *n:
 * number of records written; may be NULL. */
clade_status clade__tuning_merge(const clade__records *records, bool replace, size_t *n);
/* Stores records in the device's own file; if it cannot be written, keeps them in this process and logs a warning. */
clade_status clade__tuning_keep(clade_device *device, const clade__records *records);
/* The profile that a func's cost estimates used, stored among its choices under the device's key. If it is absent,
 * reading returns the class defaults. */
extern const char clade__profile_op[];
clade_status clade__profile_put(clade__records *choices, const clade_device *device, const clade__profile *profile);
void clade__profile_of(const clade__records *choices, const clade_device *device, clade__profile *out);
/* The own files of all devices in the cache directory. */
clade_status clade__tuning_own(clade__record_sets *out);
/* Reads a user's file; CLADE_CORRUPT says what is wrong. *bad counts the records that were skipped. */
clade_status clade__tuning_read(const char *path, clade__record_sets *out, size_t *bad);

/* Clade's default records, generated from tuning/defaults.json. */
extern const char clade__tuning_defaults[]; /* zero-terminated */

#endif

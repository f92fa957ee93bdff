/* What a device reaches, by kernels written for nothing else. */
#ifndef CLADE_MEASURE_H
#define CLADE_MEASURE_H

#include "cl/cl.h"

/* OpenCL C, for ops of the bench too. `measure_fma` is multiply-adds in registers: V is the type of a value, in FLOATS
 * floats of memory, and TYPE the element's: 0 floats, 1 others. All chains end at 2. `measure_copy` copies vectors of
 * 16 floats, STREAM past the caches, in TURNS parts by turns. */
extern const char clade__measure_source[];
enum { CLADE__MEASURE_CHAINS = 12, CLADE__MEASURE_GROUP = 64, CLADE__MEASURE_EACH = 16 };
int clade__measure_width(const clade_device_info *device);                      /* floats of V */
int64_t clade__measure_items(const clade_device_info *device);                  /* that keep all of a device busy */
int64_t clade__measure_share(const clade_device_info *device, int64_t vectors); /* of a copy, for each work-item */

/* About `seconds` are spent; what does not fit stays 0, or the whole fails. */
clade_status clade__measure(clade_device *device, bool lean, const char *head, double seconds, clade__profile *out);

#endif

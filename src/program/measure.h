/* Measures the speed of a device with dedicated kernels. */
#ifndef CLADE_MEASURE_H
#define CLADE_MEASURE_H

#include "cl/cl.h"

/* OpenCL C, also used by the benchmarks. `measure_fma` does multiply-adds in registers: V is the value type, FLOATS
 * its size in memory in floats, TYPE 0 for float elements and 1 for others. All chains converge to 2. `measure_copy`
 * copies vectors of 16 floats, with STREAM by non-temporal accesses, alternating between TURNS parts. */
extern const char clade__measure_source[];
enum { CLADE__MEASURE_CHAINS = 12, CLADE__MEASURE_GROUP = 64, CLADE__MEASURE_EACH = 16 };
int clade__measure_width(const clade_device_info *device);                      /* vector width of V */
int64_t clade__measure_items(const clade_device_info *device);                  /* enough to occupy the device */
int64_t clade__measure_share(const clade_device_info *device, int64_t vectors); /* vectors that each work-item copies */

/* Takes about `seconds`. Values that could not be measured in that time stay 0, or the call fails. */
clade_status clade__measure(clade_device *device, bool lean, const char *head, double seconds, clade__profile *out);

#endif

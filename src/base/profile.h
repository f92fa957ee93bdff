/* Device profiles: speeds that were measured, or the defaults of a device class. */
#ifndef CLADE_PROFILE_H
#define CLADE_PROFILE_H

#include <clade/device.h>

#include "base/base.h"

/* Fields of clade_device_info with the same names; 0: unknown. */
typedef struct clade__profile {
  double bandwidth_gbps, launch_us, wait_us;
  double peak_gflops[CLADE_PEAKS];
  uint64_t local_static_bytes;
} clade__profile;

/* Whether the profile was measured, and whether all its numbers are valid. */
bool clade__profile_known(const clade__profile *profile);
bool clade__profile_sane(const clade__profile *profile);
/* Rounds speeds and times to powers of sqrt(2), so that repeated measurements, and the choices that depend on them,
 * mostly agree. Idempotent. */
void clade__profile_round(clade__profile *profile);
void clade__profile_tell(const clade__profile *profile, clade_device_info *info);

/* Defaults for cost estimates, by device class. They are constants, so that all processes choose alike. */
typedef struct clade__class_speed {
  double flops, bytes, launch; /* f32 operations/s, memory bytes/s, seconds per launch */
} clade__class_speed;
clade__class_speed clade__class_speed_of(const clade_device_info *device);

#endif

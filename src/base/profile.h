/* What a device reaches, in plain numbers: as measured, or as is expected of its class. */
#ifndef CLADE_PROFILE_H
#define CLADE_PROFILE_H

#include <clade/device.h>

#include "base/base.h"

/* The fields of clade_device_info with the same names; 0: not known. */
typedef struct clade__profile {
  double bandwidth_gbps, launch_us, wait_us;
  double peak_gflops[CLADE_PEAKS];
  uint64_t local_static_bytes;
} clade__profile;

/* Whether it was measured, or holds a number that is none. */
bool clade__profile_known(const clade__profile *profile);
bool clade__profile_sane(const clade__profile *profile);
/* Speeds and times to the nearest power of the square root of 2: repeated measurements mostly agree then, and so do the
 * choices that go by them. Rounding twice changes nothing. */
void clade__profile_round(clade__profile *profile);
void clade__profile_tell(const clade__profile *profile, clade_device_info *info);

/* What costs go by where nothing was measured: a table by device class, so that all processes choose alike. */
typedef struct clade__class_speed {
  double flops, bytes, launch; /* of f32 and of memory, a second; seconds */
} clade__class_speed;
clade__class_speed clade__class_speed_of(const clade_device_info *device);

#endif

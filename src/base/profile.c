/* Device profiles: rounding, and defaults of device classes. */
#include "base/profile.h"

#include <math.h>

bool clade__profile_known(const clade__profile *p) { return p->bandwidth_gbps > 0 && p->peak_gflops[CLADE_F32] > 0; }

static bool sane(double x) { return x == 0 || (x > 1e-6 && x < 1e12); }

bool clade__profile_sane(const clade__profile *p) {
  bool all = sane(p->bandwidth_gbps) && sane(p->launch_us) && sane(p->wait_us) && p->local_static_bytes < 1u << 30;
  for (int i = 0; i < CLADE_PEAKS; i++) all = all && sane(p->peak_gflops[i]);
  return all;
}

static void to_step(double *x) {
  if (*x > 0) *x = exp2(round(2 * log2(*x)) / 2);
}

void clade__profile_round(clade__profile *p) {
  to_step(&p->bandwidth_gbps);
  to_step(&p->launch_us);
  to_step(&p->wait_us);
  for (int i = 0; i < CLADE_PEAKS; i++) to_step(&p->peak_gflops[i]);
}

void clade__profile_tell(const clade__profile *p, clade_device_info *info) {
  info->bandwidth_gbps = p->bandwidth_gbps;
  info->launch_us = p->launch_us;
  info->wait_us = p->wait_us;
  memcpy(info->peak_gflops, p->peak_gflops, sizeof p->peak_gflops);
  if (p->local_static_bytes) info->local_static_bytes = p->local_static_bytes;
}

clade__class_speed clade__class_speed_of(const clade_device_info *device) {
  /* OpenCL does not report a GPU's lanes per compute unit; 64 is the minimum on current devices. */
  static const struct {
    double lanes, bytes;
  } classes[] = {[CLADE_CPU] = {1, 2e10}, [CLADE_GPU] = {64, 2e11}, [CLADE_ACCEL] = {64, 2e11}};
  const int class =
      device->device_class == CLADE_CPU || device->device_class == CLADE_GPU ? (int)device->device_class : CLADE_ACCEL;
  double units = CLADE_MAX(device->compute_units, 1u), mhz = device->clock_mhz ? device->clock_mhz : 1000;
  double lanes = CLADE_MAX(device->vector_f32, classes[class].lanes);
  return (clade__class_speed){units * mhz * 1e6 * lanes * 2, classes[class].bytes, 5e-6};
}

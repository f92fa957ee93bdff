/* Checks the declared device requirements of implementations, for all ops in one place. No function of an
 * implementation is called before its requirements are met. */
#include <inttypes.h>
#include <stdio.h>

#include "op/op.h"

const clade_impl *clade__impl_anywhere;

const char *clade_family_name(clade_family family) {
  static const char *const names[] = {
      [CLADE_FAMILY_REF] = "ref", [CLADE_FAMILY_VEC] = "vec",           [CLADE_FAMILY_GROUP] = "group",
      [CLADE_FAMILY_MMA] = "mma", [CLADE_FAMILY_SYSTOLIC] = "systolic", [CLADE_FAMILY_LIBRARY] = "library"};
  const bool known = family >= CLADE_FAMILY_REF && family <= CLADE_FAMILY_LIBRARY;
  return known ? names[family] : "?";
}

/* A device takes its programs either from a compiler or from a bundle, never from both. */
static const char *lacks_kernel(const clade_impl *impl, const clade_device_info *device) {
  if (!device->kernels) return impl->bundled ? "its kernel comes from a bundle, and the device has none" : NULL;
  if (!impl->bundled) return "its kernels are compiled, and the device's come from a bundle";
  for (const char *const *kernel = device->kernels; *kernel; kernel++)
    if (strcmp(*kernel, impl->bundled) == 0) return NULL;
  return "the device's bundle does not hold its kernel";
}

/* A GPU or accelerator that is emulated on a CPU gets none of the class-specific implementations: GPU kernels would be
 * slow there, and CPU kernels do not respect its limits. */
static const char *lacks_class(const clade_impl *impl, const clade_device_info *device) {
  static const char *const made_for[] = {
      [CLADE_ON_CPU] = "made for CPUs",
      [CLADE_ON_GPU] = "made for GPUs",
      [CLADE_ON_ACCEL] = "made for accelerators",
      [CLADE_ON_CPU | CLADE_ON_GPU] = "made for CPUs and GPUs",
      [CLADE_ON_CPU | CLADE_ON_ACCEL] = "made for CPUs and accelerators",
      [CLADE_ON_GPU | CLADE_ON_ACCEL] = "made for GPUs and accelerators",
  };
  const unsigned all = CLADE_ON_CPU | CLADE_ON_GPU | CLADE_ON_ACCEL, mask = impl->devices & all;
  if (!impl->devices || mask == all || impl == clade__impl_anywhere) return NULL;
  if (!(mask >> device->device_class & 1)) return mask ? made_for[mask] : "made for no class of devices";
  return device->software && device->device_class != CLADE_CPU ? "requires a device that is not emulated on a CPU"
                                                               : NULL;
}

bool clade__impl_made_for(const clade_impl *impl, const clade_device_info *device) {
  return !impl->bundled && !lacks_class(impl, device);
}

static const char *told(const char *text) {
  const char *kept = NULL;
  return clade__intern(text, &kept) == CLADE_OK ? kept : "needs what the device does not have";
}

static const char *less(uint64_t needs, const char *of_what, uint64_t has) {
  char text[128];
  snprintf(text, sizeof text, "needs %" PRIu64 " %s; the device has %" PRIu64, needs, of_what, has);
  return told(text);
}

/* One of the listed units suffices; `accept` checks whether it supports the node's element types. */
static const char *lacks_units(const clade_impl *impl, const clade_query *q) {
  char text[512];
  size_t n = 0;
  if (!impl->needs_units) return NULL;
  if (impl->units && !impl->units(q)) return "none of its matrix units supports these operands";
  for (int i = 0; i < CLADE_UNITS; i++) {
    const clade_unit_info *unit = &q->device->unit[i];
    if (!(impl->needs_units >> i & 1) || !unit->name) continue;
    if (unit->used) return NULL;
    if (n < sizeof text)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "needs a matrix unit: ", unit->reason);
  }
  return n ? told(text) : "requires a matrix unit that devices of this class do not have";
}

const char *clade__impl_lacks(const clade_impl *impl, const clade_query *q) {
  const clade_device_info *device = q->device;
  const char *reason = lacks_kernel(impl, device);
  if (!reason) reason = lacks_class(impl, device);
  if (reason) return reason;
  if (impl->needs_long_loops && device->max_passes) return "requires long loops, which the device ends early";
  if (impl->needs_lanes > device->vector_f32) return less(impl->needs_lanes, "floats in a vector", device->vector_f32);
  if (impl->needs_local > device->local_bytes)
    return less(impl->needs_local, "bytes of local memory", device->local_bytes);
  return lacks_units(impl, q);
}

const char *clade__impl_unfit(const clade_impl *impl, const clade_query *q) {
  const char *reason = clade__impl_lacks(impl, q);
  return reason || !impl->accept ? reason : impl->accept(q);
}

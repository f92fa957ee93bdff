/* Device profiles: measured once per device and driver, stored with the tuning records. */
#include <math.h>
#include <stdlib.h>

#include "program/measure.h"
#include "program/parts.h"
#include "program/tuning.h"

/* Time limits: during a first compilation, and for an explicit request. */
static const double AT_COMPILATION = 0.6, ASKED = 5;

/* Only GPUs are measured at a first compilation, since only their cost estimates use the profile. On PoCL, measuring
 * takes as long as compiling a small network. */
static bool wanted(const clade_device *device) {
  const char *variable = getenv("CLADE_MEASURE");
  if (variable && !strcmp(variable, "on")) return true;
  return clade__device_info(device)->device_class == CLADE_GPU && !(variable && !strcmp(variable, "off"));
}

/* A sub-device shares the name of the whole device, but not its speed. */
static bool can_measure(const clade_device *device) {
  const clade_device_info *info = clade__device_info(device);
  return info->sources && !clade__device_is_part(device);
}

static clade_status measure(clade__store *store, double seconds, clade__profile *out) {
  clade_status status = clade__measure(store->device, store->lean, store->head, seconds, out);
  if (status == CLADE_BUILD && store->lean) status = clade__measure(store->device, false, store->head, seconds, out);
  CLADE_TRY(status);
  clade__profile_round(out);
  if (clade__profile_known(out) && clade__profile_sane(out)) return CLADE_OK;
  return CLADE_FAIL(INTERNAL, "measuring gave %g GB/s and %g Gflop/s", out->bandwidth_gbps,
                    out->peak_gflops[CLADE_F32]);
}

/* Holds the cache's lock from lookup to writing: of several starting processes one measures, and the others, which
 * would disturb it, wait for its result. */
static clade_status measure_and_keep(clade__store *store, bool again, double seconds, clade__profile *out) {
  clade__tuned_device describes;
  int lock = clade__cache_lock(&store->cache);
  clade_status status = again ? CLADE_NOT_FOUND : clade__tuning_profile(&store->cache, store->device, out);
  if (status == CLADE_NOT_FOUND) {
    status = measure(store, seconds, out);
    clade__tuned_describe(store->device, &describes);
    describes.profile = *out;
    if (status == CLADE_OK) status = clade__tuning_keep_profile(&store->cache, &describes);
  }
  clade__cache_unlock(lock);
  return status;
}

void clade__profile_find(clade__store *store, clade__profile *profile) {
  if (clade__profile_known(profile)) clade__device_set_profile(store->device, profile);
  if (clade__profile_known(profile) || !store->cached || !store->cache.writable || !wanted(store->device) ||
      !can_measure(store->device))
    return;
  if (measure_and_keep(store, false, AT_COMPILATION, profile) == CLADE_OK) {
    clade__device_set_profile(store->device, profile);
    return;
  }
  clade__log(CLADE_LOG_WARNING, "%s: costs go by what is expected of the device's class", clade_last_error());
  *profile = (clade__profile){0};
}

/* ---- profile as a pin among a func's choices ---- */
const char clade__profile_op[] = "device";
static const char pin_impl[] = "profile";
static const char *const pin_params[] = {"bandwidth", "launch", "wait", "peak", "local_kib"};

/* Exponents in half powers of 2, the rounding of profiles. */
static int32_t step_of(double x) { return x > 0 ? (int32_t)lround(2 * log2(x)) : INT32_MIN; }
static double of_step(int32_t step) { return step > -100 && step < 100 ? exp2(step / 2.0) : 0; }

clade_status clade__profile_put(clade__records *choices, const clade_device *device, const clade__profile *profile) {
  char key[33];
  clade__record r = {.op = clade__profile_op,
                     .problem = clade__hash_text(clade__device_key(device), key),
                     .impl = pin_impl,
                     .n_params = CLADE_COUNT(pin_params),
                     .value = {step_of(profile->bandwidth_gbps), step_of(profile->launch_us), step_of(profile->wait_us),
                               step_of(profile->peak_gflops[CLADE_F32]), (int32_t)(profile->local_static_bytes >> 10)}};
  memcpy(r.param, pin_params, sizeof pin_params);
  return clade__profile_known(profile) ? clade__records_put(choices, &r) : CLADE_OK;
}

void clade__profile_of(const clade__records *choices, const clade_device *device, clade__profile *out) {
  char key[33];
  int32_t value[CLADE_COUNT(pin_params)] = {0};
  const clade__record *r =
      clade__records_find(choices, clade__profile_op, clade__hash_text(clade__device_key(device), key), pin_impl);
  *out = (clade__profile){0};
  if (!r) return;
  for (size_t i = 0; i < CLADE_COUNT(pin_params); i++) /* files may list them in any order */
    for (int k = 0; k < r->n_params; k++)
      if (!strcmp(r->param[k], pin_params[i])) value[i] = r->value[k];
  out->bandwidth_gbps = of_step(value[0]);
  out->launch_us = of_step(value[1]);
  out->wait_us = of_step(value[2]);
  out->peak_gflops[CLADE_F32] = of_step(value[3]);
  out->local_static_bytes = value[4] > 0 && value[4] < 1 << 20 ? (uint64_t)value[4] << 10 : 0;
}

/* ---- public API ---- */
clade_status clade_device_ask_profile(clade_device *device, clade_profile_mode mode, bool *kept) {
  clade__store *store = NULL;
  clade__profile profile = {0};
  if (kept) *kept = false;
  if (mode < CLADE_PROFILE_KEPT || mode > CLADE_PROFILE_AGAIN)
    return CLADE_FAIL(INVALID, "clade_device_ask_profile: mode %d; expected CLADE_PROFILE_KEPT, _MISSING or _AGAIN",
                      (int)mode);
  CLADE_TRY(clade__store_of(device, "clade_device_ask_profile", &store));
  clade_status status = CLADE_NOT_FOUND;
  if (store->cached && !clade__device_is_part(device)) {
    status = mode == CLADE_PROFILE_AGAIN ? CLADE_NOT_FOUND : clade__tuning_profile(&store->cache, device, &profile);
    if (status != CLADE_OK && status != CLADE_NOT_FOUND) return clade__fail_in(status, "the profile of the device");
    if (kept) *kept = status == CLADE_OK;
  }
  if (status == CLADE_OK) clade__device_set_profile(device, &profile);
  if (status == CLADE_OK || mode == CLADE_PROFILE_KEPT) return CLADE_OK;
  if (!can_measure(device))
    return CLADE_FAIL(UNSUPPORTED, "device \"%s\" cannot be measured: it %s", clade__device_info(device)->name,
                      clade__device_is_part(device) ? "is a part of another" : "has no compiler");
  const bool keeps = store->cached && store->cache.writable;
  status =
      keeps ? measure_and_keep(store, mode == CLADE_PROFILE_AGAIN, ASKED, &profile) : measure(store, ASKED, &profile);
  if (status != CLADE_OK) return clade__fail_in(status, "measuring device \"%s\"", clade__device_info(device)->name);
  if (kept) *kept = keeps;
  clade__device_set_profile(device, &profile);
  return CLADE_OK;
}

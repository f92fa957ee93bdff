/* Accessors of an open device: properties, liveness, memory, attachment. */
#include "cl/internal.h"

static const char none[] = "the device";

clade_status clade__device_check(const clade_device *device, const char *function) {
  if (!device) return CLADE_FAIL(INVALID, "%s: %s is NULL", function, none);
  CLADE_TRY(clade__fork_check(function));
  if (!atomic_load_explicit(&device->lost, memory_order_acquire)) return CLADE_OK;
  return CLADE_FAIL(LOST, "%s: device \"%s\" was lost: %s", function, device->facts.label, device->lost_message);
}

clade_status clade_device_status(const clade_device *device) {
  return clade__device_check(device, "clade_device_status");
}

clade_status clade_device_get_info(const clade_device *device, clade_device_info *info) {
  if (!device) return CLADE_FAIL(INVALID, "clade_device_get_info: %s is NULL", none);
  clade_device_info all = *clade__device_info(device);
  clade_device *d = (clade_device *)(uintptr_t)device; /* const except for its lock */
  pthread_mutex_lock(&d->unit_lock);
  clade__profile_tell(&d->profile, &all);
  pthread_mutex_unlock(&d->unit_lock);
  return clade__info_copy(&all, info, "clade_device_get_info");
}

void clade__device_set_profile(clade_device *device, const clade__profile *profile) {
  pthread_mutex_lock(&device->unit_lock);
  device->profile = *profile;
  pthread_mutex_unlock(&device->unit_lock);
}

bool clade__device_is_part(const clade_device *device) { return device->part; }

const clade_device_info *clade__device_info(const clade_device *device) {
  return atomic_load_explicit(&device->info, memory_order_acquire);
}
clade__hash clade__device_key(const clade_device *device) { return device->key; }
cl_context clade__device_context(const clade_device *device) { return device->context; }
cl_context clade_device_context(const clade_device *device) { return device ? device->context : NULL; }
cl_device_id clade_device_cl_id(const clade_device *device) { return device ? device->id : NULL; }

void **clade__device_attachment(clade_device *device, void (*release)(void *)) {
  device->release_attachment = release;
  return &device->attachment;
}
pthread_mutex_t *clade__device_lock(clade_device *device) { return &device->lock; }

clade_status clade_device_memory(const clade_device *device, clade_memory_use *use) {
  const char *function = "clade_device_memory";
  if (!device || !use) return CLADE_FAIL(INVALID, "%s: %s is NULL", function, device ? "use" : none);
  size_t size = use->size;
  if (size < sizeof size || size > 1 << 20)
    return CLADE_FAIL(INVALID, "%s: use->size is %zu; set it to sizeof(clade_memory_use)", function, size);
  CLADE_TRY(clade__fork_check(function));
  clade_device *d = (clade_device *)device; /* const except for its lock */
  pthread_mutex_lock(&d->memory_lock);
  clade_memory_use now = {size, d->used, d->peak, d->allowed, d->pooled};
  pthread_mutex_unlock(&d->memory_lock);
  memset(use, 0, size);
  memcpy(use, &now, CLADE_MIN(size, sizeof now));
  return CLADE_OK;
}

clade_status clade_device_set_budget(clade_device *device, uint64_t bytes) {
  CLADE_TRY(clade__device_check(device, "clade_device_set_budget"));
  pthread_mutex_lock(&device->memory_lock);
  device->allowed = bytes ? bytes : device->facts.info.budget_bytes;
  pthread_mutex_unlock(&device->memory_lock);
  clade__pool_trim(device, 0);
  return CLADE_OK;
}

clade_status clade__transfer(clade_device *device, clade__queue **out) {
  clade_status status = CLADE_OK;
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "the transfer queue"));
  pthread_mutex_lock(&device->queue_lock);
  if (!device->transfer) status = clade__queue_make(device, false, &device->transfer);
  *out = device->transfer;
  pthread_mutex_unlock(&device->queue_lock);
  return status;
}

clade__queue *clade__device_transfer_queue(clade_device *device) {
  clade__queue *queue;
  return clade__transfer(device, &queue) == CLADE_OK ? queue : NULL;
}

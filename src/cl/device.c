/* Opening devices (once per process, reference-counted), adopting contexts of the program, and splitting devices. */
#include "cl/internal.h"

#include <stdio.h>
#include <time.h>

pthread_mutex_t clade__devices_lock = PTHREAD_MUTEX_INITIALIZER;

const char *clade_device_class_name(clade_device_class c) {
  switch (c) {
  case CLADE_CPU: return "cpu";
  case CLADE_GPU: return "gpu";
  case CLADE_ACCEL: return "accel";
  }
  return "?";
}

clade__hash clade__info_key(const clade_device_info *info) {
  clade__hash key = clade__hash_bytes("device", 6);
  key = clade__hash_more_text(key, info->name);
  key = clade__hash_more_text(key, info->vendor);
  key = clade__hash_more_text(key, info->version);
  key = clade__hash_more_text(key, info->driver);
  key = clade__hash_more_text(key, info->platform);
  return clade__hash_more_text(key, info->platform_version);
}

static clade_device *alloc(const clade__facts *facts, cl_device_id id) {
  clade_device *d = clade__new(1, sizeof *d);
  if (!d) return NULL;
  clade__ref_init(&d->ref);
  pthread_mutex_init(&d->lost_lock, NULL);
  pthread_mutex_init(&d->lock, NULL);
  pthread_mutex_init(&d->queue_lock, NULL);
  pthread_mutex_init(&d->memory_lock, NULL);
  pthread_mutex_init(&d->spare_lock, NULL);
  pthread_mutex_init(&d->unit_lock, NULL);
  pthread_mutex_init(&d->page_lock, NULL);
  d->facts = *facts;
  atomic_init(&d->info, &d->facts.info);
  d->key = clade__info_key(&facts->info);
  d->id = id;
  d->allowed = facts->info.budget_bytes;
  return d;
}

/* A worker thread of the implementation may still access the sub-device of the last command; PoCL 3.1 crashes if it
 * is gone. Commands hold their queue and thus the context, so wait until ours is the last reference to the context.
 * The wait is bounded, because the program may hold references as well. */
static void settle(const clade_device *d) {
  const struct timespec moment = {0, 100000};
  for (int i = 0; i < 1000; i++) {
    cl_uint holders = 0;
    CLADE__UNDO(clGetContextInfo, d->context, CL_CONTEXT_REFERENCE_COUNT, sizeof holders, &holders, NULL);
    if (holders <= 1) return;
    nanosleep(&moment, NULL);
  }
}

/* A forked child releases nothing: the implementation's threads do not exist there, and OpenCL would wait for them. */
static void destroy(clade_device *d) {
  if (atomic_load(&clade__forked)) return;
  if (d->attachment && d->release_attachment) d->release_attachment(d->attachment);
  clade__queue_free(d->transfer);
  clade__pool_trim(d, UINT64_MAX);
  clade__pages_free(d);
  if (d->context && d->part) settle(d);
  if (d->context) CLADE__UNDO(clReleaseContext, d->context);
  if (d->holds_id) CLADE__UNDO(clReleaseDevice, d->id);
  pthread_mutex_destroy(&d->lost_lock);
  pthread_mutex_destroy(&d->lock);
  pthread_mutex_destroy(&d->queue_lock);
  pthread_mutex_destroy(&d->unit_lock);
  pthread_mutex_destroy(&d->memory_lock);
  pthread_mutex_destroy(&d->spare_lock);
  pthread_mutex_destroy(&d->page_lock);
  clade__free(d);
}

static clade_status make_context(clade_device *d, cl_platform_id platform) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
  cl_int e = CL_SUCCESS;
  d->context = clade__cl.clCreateContext(properties, 1, &d->id, NULL, NULL, &e);
  if (e) d->context = NULL;
  clade_status status = clade__cl_made(NULL, "clCreateContext", d->context, e);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "device %s", d->facts.label);
}

static clade_status open_locked(clade__entry *entry, clade_device **out) {
  clade_device *d = entry->opened;
  if (d && !atomic_load(&d->lost)) {
    clade__ref_up(&d->ref);
    *out = d;
    return CLADE_OK;
  }
  d = alloc(&entry->facts, entry->id);
  if (!d) return CLADE_NO_MEMORY;
  clade_status status = make_context(d, entry->platform);
  if (status != CLADE_OK) {
    destroy(d);
    return status;
  }
  d->entry = entry;
  entry->opened = d;
  *out = d;
  return CLADE_OK;
}

clade_status clade__device_open(clade__entry *entry, clade_device **out) {
  *out = NULL;
  pthread_mutex_lock(&clade__devices_lock);
  clade_status status = open_locked(entry, out);
  pthread_mutex_unlock(&clade__devices_lock);
  return status;
}

clade_device *clade_device_retain(clade_device *device) {
  if (device) clade__ref_up(&device->ref);
  return device;
}

void clade_device_release(clade_device *device) {
  if (!device || atomic_load(&clade__forked)) return;
  pthread_mutex_lock(&clade__devices_lock); /* clade_device_find may be about to return it again */
  bool last = clade__ref_down(&device->ref);
  if (last && device->entry && device->entry->opened == device) device->entry->opened = NULL;
  pthread_mutex_unlock(&clade__devices_lock);
  if (last) destroy(device);
}

/* ---- sub-devices ---- */
static clade_status make_part(clade_device *whole, cl_device_id id, int index, int parts, clade_device **out) {
  char text[64];
  clade__facts facts = whole->facts;
  facts.info.compute_units /= (uint32_t)parts;
  facts.info.budget_bytes /= (uint64_t)parts;
  snprintf(text, sizeof text, "%s/%d", whole->facts.info.id, index);
  CLADE_TRY(clade__intern(text, &facts.info.id));
  clade_device *d = alloc(&facts, id);
  if (!d) return CLADE_NO_MEMORY;
  cl_platform_id platform = NULL;
  cl_int e = clade__cl.clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  clade_status status = e ? clade__cl_error(whole, "clGetDeviceInfo", e) : make_context(d, platform);
  if (status != CLADE_OK) {
    destroy(d);
    return status;
  }
  d->holds_id = d->part = true;
  *out = d;
  return CLADE_OK;
}

static clade_status split(clade_device *whole, int parts, cl_device_id *ids, cl_device_partition_property *counts,
                          clade_device **out) {
  cl_uint n = 0;
  counts[0] = CL_DEVICE_PARTITION_BY_COUNTS;
  for (int i = 0; i < parts; i++) counts[i + 1] = (int)whole->facts.info.compute_units / parts;
  counts[parts + 1] = CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
  CLADE__CALL(whole, clCreateSubDevices, whole->id, counts, (cl_uint)parts, ids, &n);
  clade_status status = CLADE_OK;
  if (n != (cl_uint)parts) status = CLADE_FAIL(OPENCL, "clCreateSubDevices: %u parts instead of %d", n, parts);
  for (int i = 0; i < parts && status == CLADE_OK; i++) status = make_part(whole, ids[i], i, parts, &out[i]);
  if (status == CLADE_OK) return CLADE_OK;
  for (int i = 0; i < parts; i++) {
    if (out[i])
      clade_device_release(out[i]);
    else if (ids[i])
      CLADE__UNDO(clReleaseDevice, ids[i]);
    out[i] = NULL;
  }
  return status;
}

/* Check first: some implementations lack clCreateSubDevices and crash. */
static clade_status check_splits(clade_device *device) {
  cl_device_partition_property ways[16] = {0};
  size_t bytes = 0;
  CLADE__CALL(device, clGetDeviceInfo, device->id, CL_DEVICE_PARTITION_PROPERTIES, sizeof ways, ways, &bytes);
  for (size_t i = 0; i < CLADE_COUNT(ways); i++)
    if (ways[i] == CL_DEVICE_PARTITION_BY_COUNTS) return CLADE_OK;
  return CLADE_FAIL(UNSUPPORTED, "clade_device_split: device \"%s\" cannot be split", device->facts.label);
}

clade_status clade_device_split(clade_device *device, int parts, clade_device **out) {
  const char *function = "clade_device_split";
  CLADE_TRY(clade__device_check(device, function));
  if (!out) return CLADE_FAIL(INVALID, "%s: out is NULL", function);
  int units = (int)CLADE_MIN(device->facts.info.compute_units, (uint32_t)1 << 20);
  if (parts < 1 || parts > units)
    return CLADE_FAIL(INVALID, "%s: %d parts of a device of %d compute units", function, parts, units);
  memset(out, 0, (size_t)parts * sizeof(clade_device *));
  CLADE_TRY(check_splits(device));
  cl_device_id *ids = clade__new((size_t)parts, sizeof *ids);
  cl_device_partition_property *counts = clade__new((size_t)parts + 3, sizeof *counts);
  clade_status status = ids && counts ? split(device, parts, ids, counts, out) : CLADE_NO_MEMORY;
  clade__free(ids);
  clade__free(counts);
  return status;
}

/* ---- contexts of the program ---- */
static clade_status check_in_context(cl_context context, cl_device_id id) {
  size_t bytes = 0;
  bool found = false;
  CLADE__CALL(NULL, clGetContextInfo, context, CL_CONTEXT_DEVICES, 0, NULL, &bytes);
  cl_device_id *ids = clade__new(bytes + 1, 1);
  if (!ids) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, ids, NULL);
  for (size_t i = 0; !e && i < bytes / sizeof *ids; i++) found |= ids[i] == id;
  clade__free(ids);
  if (e) return clade__cl_error(NULL, "clGetContextInfo", e);
  return found ? CLADE_OK : CLADE_FAIL(INVALID, "the device is none of the context's");
}

/* Listed devices keep their ID; others, such as a program's sub-devices, have none. */
static clade_status facts_of(cl_device_id id, clade__facts *facts) {
  clade__list *list;
  cl_platform_id platform = NULL;
  CLADE_TRY(clade__list_get("clade_device_adopt", &list));
  for (int i = 0; i < list->n; i++) {
    if (list->at[i].id != id) continue;
    *facts = list->at[i].facts;
    return CLADE_OK;
  }
  CLADE__CALL(NULL, clGetDeviceInfo, id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  return clade__describe(platform, id, facts);
}

static clade_status adopt(cl_context context, cl_device_id id, clade_device **out) {
  clade__facts facts;
  CLADE_TRY(check_in_context(context, id));
  CLADE_TRY(facts_of(id, &facts));
  clade_device *d = alloc(&facts, id);
  if (!d) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clRetainDevice(id);
  if (e) {
    destroy(d);
    return clade__cl_error(NULL, "clRetainDevice", e);
  }
  d->holds_id = true;
  e = clade__cl.clRetainContext(context);
  if (e) {
    destroy(d);
    return clade__cl_error(NULL, "clRetainContext", e);
  }
  d->context = context;
  *out = d;
  return CLADE_OK;
}

clade_status clade_device_adopt(cl_context context, cl_device_id id, clade_device **out) {
  if (!context || !id || !out)
    return CLADE_FAIL(INVALID, "clade_device_adopt: %s is NULL", !context ? "context" : !id ? "id" : "out");
  *out = NULL;
  CLADE_TRY(clade__fork_check("clade_device_adopt"));
  clade_status status = clade__loader_open();
  if (status == CLADE_OK) status = adopt(context, id, out);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "clade_device_adopt");
}

/* The program store of a device: serves requests from memory, the cache, or the compiler. */
#include "program/offline.h"
#include "program/parts.h"

#include <stdio.h>
#include <unistd.h>

bool clade__store_closed = false;

/* ---- life cycle ---- */
static void release(void *argument) {
  clade__store *store = argument;
  /* In a forked child: the writer thread and the locks' owners do not exist. */
  if (!store || store->process != (long)getpid()) return;
  clade__writer_join(store);
  clade__offline_free(store->device, store->offline);
  for (size_t i = 0; i < store->n_programs; i++) clade__program_release(store->programs[i].program);
  clade__free(store->programs);
  clade__free(store->entries);
  clade__free(store->launches);
  clade__map_free(&store->by_key);
  clade__map_free(&store->by_launch);
  clade__map_free(&store->by_binary);
  clade__index_free(&store->index);
  clade__cache_close(&store->cache);
  clade__tuning_release(store->tuning);
  clade__records_release(store->measured);
  pthread_mutex_destroy(&store->tuning_mutex);
  pthread_mutex_destroy(&store->mutex);
  clade__free(store);
}

/* Failures are logged only, since the cache is optional. For a device without a compiler, the cache holds tuning
 * records alone. */
static void open_cache(clade__store *store) {
  store->cache.dir = -1;
  if (!clade__cache_wanted() || clade__quirk_has(store->device, CLADE__QUIRK_NO_BINARY)) return;
  clade_status status = clade__cache_open_configured(true, &store->cache);
  store->cached = status == CLADE_OK;
  if (!store->cached) clade__log(CLADE_LOG_WARNING, "%s: kernels are compiled in every process", clade_last_error());
}

clade__hash clade__programs_key(const clade_device *device) {
  const bool variants = clade__quirk_has(device, CLADE__QUIRK_SPECIALIZE);
  return clade__hash_more(clade__device_key(device), &variants, sizeof variants);
}

static clade__store *create(clade_device *device) {
  clade__store *store = clade__new(1, sizeof *store);
  if (!store) return NULL;
  if (pthread_mutex_init(&store->mutex, NULL) || pthread_mutex_init(&store->tuning_mutex, NULL)) {
    clade__free(store);
    CLADE_FAIL(NO_MEMORY, "no memory for a mutex");
    return NULL;
  }
  store->device = device;
  store->device_key = clade__programs_key(device);
  store->process = (long)getpid();
  store->warms = clade__quirk_has(device, CLADE__QUIRK_WARM);
  store->lean = clade__quirk_has(device, CLADE__QUIRK_LEAN_BUILD);
  snprintf(store->head, sizeof store->head, "%s%s%s%s", clade__persistent_assembly(device),
           clade__quirk_has(device, CLADE__QUIRK_FREE_GROUP) ? "#define CLADE_FREE_GROUP\n" : "",
           clade__quirk_has(device, CLADE__QUIRK_CALL_BODY) ? "#define CLADE_CALL_BODY\n" : "",
           clade__quirk_has(device, CLADE__QUIRK_BY_PAGES) ? "#define CLADE_BY_PAGES\n" : "");
  open_cache(store);
  return store;
}

clade_status clade__store_of(clade_device *device, const char *function, clade__store **out) {
  if (!device) return CLADE_FAIL(INVALID, "%s: the device is NULL", function);
  CLADE_TRY(clade__device_check(device, function));
  pthread_mutex_lock(clade__device_lock(device));
  void **slot = clade__device_attachment(device, release);
  if (!*slot) *slot = create(device);
  *out = *slot;
  pthread_mutex_unlock(clade__device_lock(device));
  return *out ? CLADE_OK : CLADE_NO_MEMORY;
}

/* ---- tables ---- */
clade_status clade__store_add_program(clade__store *store, cl_program program, clade__hash binary, size_t *at) {
  clade_status status =
      clade__grow(&store->programs, &store->program_capacity, store->n_programs + 1, sizeof *store->programs);
  if (status != CLADE_OK) {
    clade__program_release(program);
    return status;
  }
  *at = store->n_programs;
  store->programs[store->n_programs++] = (clade__built){program, binary};
  return CLADE_OK;
}

clade_status clade__store_add_entry(clade__store *store, clade__hash key, size_t program, const char *name) {
  CLADE_TRY(clade__grow(&store->entries, &store->entry_capacity, store->n_entries + 1, sizeof *store->entries));
  CLADE_TRY(clade__map_put(&store->by_key, key, store->n_entries));
  clade__entry *e = &store->entries[store->n_entries++];
  *e = (clade__entry){.key = key, .program = program};
  memcpy(e->name, name, strlen(name) + 1);
  return CLADE_OK;
}

clade__entry *clade__store_entry(const clade__store *store, clade__hash key) {
  size_t at;
  return clade__map_get(&store->by_key, key, &at) ? &store->entries[at] : NULL;
}

bool clade__store_ready(const clade__store *store, const clade__wanted *wanted) {
  size_t at;
  return clade__map_get(&store->by_launch, wanted->launch, &at);
}

/* ---- serving requests ---- */
static bool all_ready(const clade__store *store, size_t n, const clade__wanted *wanted) {
  for (size_t i = 0; i < n; i++)
    if (!clade__store_ready(store, &wanted[i])) return false;
  return true;
}

/* The index records which launch configurations a binary contains; that holds for this binary only, not for other
 * programs with the same kernel. */
static bool compiled_in(const clade__store *store, const clade__wanted *wanted) {
  const clade__entry *entry = clade__store_entry(store, wanted->key);
  if (!entry || !store->warms) return entry;
  const clade__index_record *record = clade__index_find(&store->index, wanted->launch);
  return record && clade__hash_equal(record->binary, store->programs[entry->program].binary);
}

clade_status clade__store_without_compiler(clade__store *store, size_t n, const clade__wanted *wanted) {
  CLADE_TRY(clade__store_load(store, n, wanted));
  for (size_t i = 0; i < n; i++)
    if (compiled_in(store, &wanted[i])) CLADE_TRY(clade__store_warm(store, 1, &wanted[i], false));
  return CLADE_OK;
}

/* Programs of the launches from `first` on, without duplicates. */
static size_t touched(const clade__store *store, size_t first, size_t *programs) {
  size_t n = 0;
  for (size_t i = first; i < store->n_launches; i++) {
    size_t program = store->entries[store->launches[i].entry].program, k = 0;
    while (k < n && programs[k] != program) k++;
    if (k == n) programs[n++] = program;
  }
  return n;
}

static clade_status compile(clade__store *store, size_t n, const clade__wanted *wanted) {
  clade_status status;
  clade__writer_join(store); /* the writer holds the cache lock */
  int lock = clade__cache_lock(store->cached ? &store->cache : NULL);
  size_t *programs = NULL, first;
  CLADE_GOTO(clade__store_without_compiler(store, n, wanted)); /* another process may have compiled them meanwhile */
  first = store->n_launches;
  if (!all_ready(store, n, wanted)) {
    CLADE_GOTO(clade__store_build(store, n, wanted));
    CLADE_GOTO(clade__store_warm(store, n, wanted, store->warms));
  }
  if (store->cached && store->cache.writable && store->n_launches > first) {
    programs = clade__new(store->n_launches - first, sizeof *programs);
    CLADE_GOTO(programs ? CLADE_OK : CLADE_NO_MEMORY);
    clade__writer_start(store, lock, touched(store, first, programs), programs);
    lock = -1;
  }
fail:
  clade__free(programs);
  clade__cache_unlock(lock);
  return status;
}

/* Requests that are not ready, without duplicates. */
static clade_status lacking(const clade__store *store, size_t n, const clade__wanted *wanted, clade__wanted *out,
                            size_t *count) {
  clade__map seen = {0};
  clade_status status = CLADE_OK;
  size_t at;
  *count = 0;
  for (size_t i = 0; i < n; i++) {
    if (clade__store_ready(store, &wanted[i]) || clade__map_get(&seen, wanted[i].launch, &at)) continue;
    CLADE_GOTO(clade__map_put(&seen, wanted[i].launch, i));
    out[(*count)++] = wanted[i];
  }
fail:
  clade__map_free(&seen);
  return status;
}

/* ---- devices without a compiler ---- */
static clade_status open_offline(clade__store *store) {
  if (store->offline) return CLADE_OK;
  CLADE_TRY(clade__offline_open(store->device, &store->offline));
  clade__offline_tell(store->device, store->offline);
  return CLADE_OK;
}

clade_status clade__store_bundle(clade_device *device) {
  clade__store *store = NULL;
  if (device && clade__device_info(device)->sources) return CLADE_OK;
  CLADE_TRY(clade__store_of(device, "loading a bundle", &store));
  pthread_mutex_lock(&store->mutex);
  clade_status status = open_offline(store);
  pthread_mutex_unlock(&store->mutex);
  return status;
}

clade_status clade__store_turn(clade_device *device, int program, double *seconds) {
  clade__store *store = NULL;
  *seconds = 0;
  CLADE_TRY(clade__store_of(device, "changing programs", &store));
  pthread_mutex_lock(&store->mutex);
  clade_status status = store->offline ? clade__offline_turn(device, store->offline, program, seconds) : CLADE_OK;
  pthread_mutex_unlock(&store->mutex);
  return status;
}

static clade_status serve_offline(clade__store *store, size_t n, const clade__request *requests,
                                  clade__program_kernel *out) {
  CLADE_TRY(open_offline(store));
  for (size_t i = 0; i < n; i++) {
    CLADE_TRY(clade__request_check(&requests[i]));
    CLADE_TRY(clade__offline_find(store->device, store->offline, &requests[i], &out[i]));
    store->stats.loaded++;
  }
  return CLADE_OK;
}

/* `wanted` has room for 2 n. */
static clade_status serve(clade__store *store, size_t n, const clade__request *requests, clade__wanted *wanted,
                          clade__program_kernel *out) {
  clade__wanted *open = wanted + n;
  size_t n_open;
  for (size_t i = 0; i < n; i++) {
    wanted[i].request = &requests[i];
    CLADE_TRY(clade__request_hash(&requests[i], &wanted[i].key));
    wanted[i].launch = clade__request_launch_hash(&requests[i], wanted[i].key);
  }
  CLADE_TRY(lacking(store, n, wanted, open, &n_open));
  store->stats.hits += n - n_open;
  if (n_open) CLADE_TRY(clade__store_without_compiler(store, n_open, open));
  if (!all_ready(store, n_open, open)) {
    if (clade__store_closed) return CLADE_FAIL(NOT_FOUND, "kernels would have to be compiled, which is closed");
    CLADE_TRY(compile(store, n_open, open));
  }
  for (size_t i = 0; i < n; i++) {
    const clade__entry *entry = clade__store_entry(store, wanted[i].key);
    out[i] = (clade__program_kernel){.program = store->programs[entry->program].program};
    memcpy(out[i].name, entry->name, sizeof out[i].name);
  }
  return CLADE_OK;
}

clade_status clade__store_prepare(clade_device *device, size_t n, const clade__request *requests,
                                  clade__program_kernel *out) {
  clade__store *store = NULL;
  CLADE_TRY(clade__store_of(device, "preparing kernels", &store));
  size_t room;
  if (!clade__device_info(device)->sources) {
    pthread_mutex_lock(&store->mutex);
    clade_status offline = serve_offline(store, n, requests, out);
    pthread_mutex_unlock(&store->mutex);
    return offline;
  }
  if (!clade__mul(n, 2, &room)) return CLADE_FAIL(OVERFLOW, "%zu kernels are too many", n);
  clade__wanted *wanted = clade__new(room, sizeof *wanted);
  if (!wanted) return CLADE_NO_MEMORY;
  pthread_mutex_lock(&store->mutex);
  clade_status status = serve(store, n, requests, wanted, out);
  pthread_mutex_unlock(&store->mutex);
  clade__free(wanted);
  return status;
}

/* The device's store, or NULL if nothing was prepared. */
static clade__store *existing(clade_device *device) {
  pthread_mutex_lock(clade__device_lock(device));
  clade__store *store = *clade__device_attachment(device, release);
  pthread_mutex_unlock(clade__device_lock(device));
  return store;
}

clade_status clade__store_get_stats(clade_device *device, clade__store_stats *stats) {
  *stats = (clade__store_stats){0};
  if (!device) return CLADE_FAIL(INVALID, "the statistics of kernels: the device is NULL");
  CLADE_TRY(clade__device_check(device, "the statistics of kernels"));
  clade__store *store = existing(device);
  if (!store) return CLADE_OK;
  pthread_mutex_lock(&store->mutex);
  *stats = store->stats;
  pthread_mutex_unlock(&store->mutex);
  return CLADE_OK;
}

void clade__store_flush(clade_device *device) {
  clade__store *store = device ? existing(device) : NULL;
  if (!store || store->process != (long)getpid()) return;
  pthread_mutex_lock(&store->mutex);
  clade__writer_join(store);
  pthread_mutex_unlock(&store->mutex);
}

/* Tuning record files: a device's own in the cache directory, and users' files. */
#include "program/tuning.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "program/parts.h"

enum { FILE_NAME = 64 };

static void file_name(clade__hash device, char name[FILE_NAME]) {
  char hex[33];
  snprintf(name, FILE_NAME, "tuning-%s.json", clade__hash_text(device, hex));
}

static bool is_ours(const char *name) {
  size_t head = strlen("tuning-");
  return strlen(name) == head + 32 + strlen(".json") && !strncmp(name, "tuning-", head) &&
         strspn(name + head, "0123456789abcdef") == 32 && !strcmp(name + head + 32, ".json");
}

void clade__tuning_stamp(const clade__cache *cache, clade__hash device, clade__stamp *out) {
  char name[FILE_NAME];
  file_name(device, name);
  clade__cache_stamp(cache, name, out);
}

/* ---- reading ---- */
/* A device's own file holds one set, of that device. */
static clade_status read_own(const clade__cache *cache, const char *name, clade__record_sets *out, size_t *bad) {
  clade__cache_blob blob;
  clade__record_sets sets = {0};
  size_t left_out = 0;
  char expected[FILE_NAME];
  CLADE_TRY(clade__cache_fetch(cache, name, CLADE__RECORDS_BYTES, &blob));
  clade_status status = clade__records_parse(blob.data, blob.bytes, &sets, &left_out);
  clade__free(blob.file);
  if (status == CLADE_OK && sets.n == 1) file_name(sets.at[0]->device.key, expected);
  if (status == CLADE_OK && (sets.n != 1 || strcmp(name, expected)))
    status = CLADE_FAIL(CORRUPT, "it does not hold the records of one device, its own");
  if (status != CLADE_OK) {
    clade__record_sets_free(&sets);
    return clade__fail_in(status, "%s/%s", cache->path, name);
  }
  *bad += left_out;
  status = clade__record_sets_add(out, sets.at[0]);
  sets.n = 0;
  clade__record_sets_free(&sets);
  return status;
}

static clade_status read_others(const clade__cache *cache, const char *except, clade__record_sets *out, size_t *bad) {
  int fd = openat(cache->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  clade_status status = CLADE_OK;
  if (!dir) {
    status = CLADE_FAIL(IO, "program cache: cannot list %s: %s", cache->path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
  }
  for (struct dirent *e; status == CLADE_OK && out->n < CLADE__LAYERS && (e = readdir(dir));) {
    if (!is_ours(e->d_name) || !strcmp(e->d_name, except)) continue;
    status = read_own(cache, e->d_name, out, bad);
    if (status == CLADE_OK || status == CLADE_NO_MEMORY) continue;
    if (status != CLADE_NOT_FOUND)
      clade__log(CLADE_LOG_WARNING, "%s: these tuning records are not used", clade_last_error());
    status = CLADE_OK;
  }
  closedir(dir);
  return status;
}

clade_status clade__tuning_files(const clade__cache *cache, clade__hash device, clade__record_sets *own,
                                 clade__record_sets *others, size_t *bad) {
  char name[FILE_NAME];
  file_name(device, name);
  CLADE_TRY(read_others(cache, name, others, bad));
  return read_own(cache, name, own, bad);
}

clade_status clade__tuning_read(const char *path, clade__record_sets *out, size_t *bad) {
  clade__bytes file;
  size_t left_out = 0;
  CLADE_TRY(clade__file_read(path, CLADE__RECORDS_BYTES, &file));
  clade_status status = clade__records_parse(file.data, file.n, out, &left_out);
  clade__free(file.data);
  if (status != CLADE_OK) return clade__fail_in(status, "%s", path);
  *bad += left_out;
  return CLADE_OK;
}

static clade_status open_own(clade__cache *cache, bool create) {
  char *path;
  CLADE_TRY(clade__cache_path(&path));
  clade_status status = clade__cache_open(path, create, cache);
  clade__free(path);
  return status;
}

clade_status clade__tuning_own(clade__record_sets *out) {
  clade__cache cache;
  size_t bad = 0;
  *out = (clade__record_sets){0};
  clade_status status = open_own(&cache, false);
  if (status == CLADE_NOT_FOUND) return CLADE_OK;
  CLADE_TRY(status);
  status = read_others(&cache, "", out, &bad);
  clade__cache_close(&cache);
  if (status != CLADE_OK) clade__record_sets_free(out);
  return status;
}

/* ---- writing ---- */
/* Merging replaces only records of outdated kernels and slower ones. */
static bool is_better(const clade__record *r, const clade__record *known) {
  if (!known || !clade__hash_equal(r->kernel, known->kernel)) return true;
  return known->seconds == 0 || (r->seconds > 0 && r->seconds < known->seconds);
}

/* All records of a problem are replaced when it is measured again. */
static clade_status renew(clade__record_sets *file, const clade__records *records, size_t *n) {
  clade__records *renewed;
  CLADE_TRY(clade__records_renewed(file->at[0], records, &renewed));
  clade__records_release(file->at[0]);
  file->at[0] = renewed;
  *n = records->n;
  return CLADE_OK;
}

static clade_status take_better(clade__records *set, const clade__records *records, size_t *n) {
  for (size_t i = 0; i < records->n; i++) {
    const clade__record *r = &records->at[i];
    if (!is_better(r, clade__records_find(set, r->op, r->problem, r->impl))) continue;
    CLADE_TRY(clade__records_put(set, r));
    ++*n;
  }
  return CLADE_OK;
}

/* The device's own file for modification; a corrupt one is replaced. */
static clade_status read_to_change(const clade__cache *cache, const clade__tuned_device *device,
                                   clade__record_sets *file) {
  char name[FILE_NAME];
  clade__records *fresh;
  size_t bad = 0;
  file_name(device->key, name);
  clade_status status = read_own(cache, name, file, &bad);
  if (status == CLADE_OK || status == CLADE_NO_MEMORY) return status;
  CLADE_TRY(clade__records_new(device, &fresh));
  return clade__record_sets_add(file, fresh);
}

static clade_status write_own(const clade__cache *cache, const clade__record_sets *file) {
  char name[FILE_NAME], *text;
  file_name(file->at[0]->device.key, name);
  CLADE_TRY(clade__records_print(file, &text));
  clade_status status = clade__cache_replace(cache, name, NULL, 0, text, strlen(text));
  clade__free(text);
  return status;
}

static clade_status merge(const clade__cache *cache, const clade__records *records, bool replace, size_t *n) {
  clade__record_sets file = {0};
  clade_status status;
  CLADE_GOTO(read_to_change(cache, &records->device, &file));
  clade__tuned_device *own = &file.at[0]->device;
  if (records->device.fma_units) own->fma_units = records->device.fma_units;
  if (!clade__profile_known(&own->profile)) own->profile = records->device.profile; /* a profile is written once */
  CLADE_GOTO(replace ? renew(&file, records, n) : take_better(file.at[0], records, n));
  status = write_own(cache, &file);
fail:
  clade__record_sets_free(&file);
  return status;
}

/* ---- profiles ---- */
clade_status clade__tuning_profile(const clade__cache *cache, const clade_device *device, clade__profile *out) {
  char name[FILE_NAME];
  clade__record_sets file = {0};
  size_t bad = 0;
  *out = (clade__profile){0};
  file_name(clade__device_key(device), name);
  clade_status status = read_own(cache, name, &file, &bad);
  if (status == CLADE_NO_MEMORY) return status;
  if (status == CLADE_OK) *out = file.at[0]->device.profile;
  clade__record_sets_free(&file);
  return clade__profile_known(out) ? CLADE_OK : CLADE_NOT_FOUND;
}

clade_status clade__tuning_keep_profile(const clade__cache *cache, const clade__tuned_device *device) {
  clade__record_sets file = {0};
  clade_status status = read_to_change(cache, device, &file);
  if (status == CLADE_OK) file.at[0]->device.profile = device->profile;
  if (status == CLADE_OK) status = write_own(cache, &file);
  clade__record_sets_free(&file);
  return status;
}

clade_status clade__tuning_merge(const clade__records *records, bool replace, size_t *n) {
  clade__cache cache;
  size_t put = 0;
  if (!records->device.key.lo && !records->device.key.hi)
    return CLADE_FAIL(INVALID, "these tuning records are of no one device, and no device's file can take them");
  CLADE_TRY(open_own(&cache, true));
  int lock = clade__cache_lock(&cache);
  clade_status status = merge(&cache, records, replace, &put);
  clade__cache_unlock(lock);
  clade__cache_close(&cache);
  if (n) *n = put;
  return status;
}

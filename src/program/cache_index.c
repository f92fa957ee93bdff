/* A device's index: maps requests to the binaries that hold their kernels. */
#include "program/parts.h"

#include <fcntl.h>
#include <unistd.h>

_Static_assert(sizeof(clade__index_record) == 128, "a record has no padding");

void clade__index_free(clade__index *index) {
  clade__free(index->records);
  clade__map_free(&index->map);
  *index = (clade__index){0};
}

const clade__index_record *clade__index_find(const clade__index *index, clade__hash key) {
  size_t at;
  return clade__map_get(&index->map, key, &at) ? &index->records[at] : NULL;
}

clade_status clade__index_put(clade__index *index, const clade__index_record *record) {
  size_t at;
  if (!clade__map_get(&index->map, record->key, &at)) {
    CLADE_TRY(clade__grow(&index->records, &index->capacity, index->n + 1, sizeof *record));
    CLADE_TRY(clade__map_put(&index->map, record->key, index->n));
    at = index->n++;
  }
  index->records[at] = *record;
  return CLADE_OK;
}

static clade_status take(clade__index *index, const clade__cache_blob *blob) {
  const clade__index_record *records = blob->data;
  if (blob->bytes % sizeof *records) return CLADE_FAIL(CORRUPT, "program cache: an index of %zu bytes", blob->bytes);
  for (size_t i = 0; i < blob->bytes / sizeof *records; i++) {
    clade__index_record r;
    memcpy(&r, records + i, sizeof r);
    if (!memchr(r.name, 0, sizeof r.name)) return CLADE_FAIL(CORRUPT, "program cache: a name without an end");
    CLADE_TRY(clade__index_put(index, &r));
  }
  return CLADE_OK;
}

clade_status clade__index_refresh(clade__index *index, const clade__cache *cache, clade__hash device) {
  char file[CLADE__CACHE_NAME];
  clade__stamp stamp, none = {0};
  clade__cache_file_name(CLADE__CACHE_INDEX, device, file);
  clade__cache_stamp(cache, file, &stamp);
  if (!memcmp(&stamp, &none, sizeof stamp)) {
    clade__index_free(index);
    return CLADE_OK;
  }
  if (!memcmp(&stamp, &index->stamp, sizeof stamp)) return CLADE_OK;
  clade__index_free(index);
  clade__cache_blob blob = {0};
  clade_status status = clade__cache_read(cache, CLADE__CACHE_INDEX, device, device, &blob);
  if (status == CLADE_OK) status = take(index, &blob);
  clade__free(blob.file);
  if (status != CLADE_OK) clade__index_free(index);
  if (status == CLADE_NO_MEMORY) return status;
  if (status != CLADE_OK && status != CLADE_NOT_FOUND)
    clade__log(CLADE_LOG_WARNING, "%s: kernels are compiled again", clade_last_error());
  index->stamp = stamp;
  return CLADE_OK;
}

clade_status clade__index_save(clade__index *index, const clade__cache *cache, clade__hash device) {
  size_t kept = 0;
  for (size_t i = 0; i < index->n; i++) {
    char file[CLADE__CACHE_NAME];
    clade__cache_file_name(CLADE__CACHE_BINARY, index->records[i].binary, file);
    if (!faccessat(cache->dir, file, F_OK, 0)) index->records[kept++] = index->records[i];
  }
  index->n = kept;
  clade__map_free(&index->map);
  for (size_t i = 0; i < kept; i++) CLADE_TRY(clade__map_put(&index->map, index->records[i].key, i));
  return clade__cache_write(cache, CLADE__CACHE_INDEX, device, device, index->records, kept * sizeof *index->records);
}

/* The program cache in the public API: location and clearing. */
#include "program/cache.h"

clade_status clade_cache_path(char *path, size_t size) {
  if (!path) return CLADE_FAIL(INVALID, "clade_cache_path: path is NULL");
  char *whole;
  CLADE_TRY(clade__cache_path(&whole));
  size_t length = strlen(whole);
  bool fits = length < size;
  if (fits) memcpy(path, whole, length + 1);
  clade__free(whole);
  return fits ? CLADE_OK
              : CLADE_FAIL(OVERFLOW, "clade_cache_path: the path needs %zu bytes, size is %zu", length + 1, size);
}

clade_status clade_cache_clear(uint64_t *files, uint64_t *bytes) { return clade__cache_clear(files, bytes); }

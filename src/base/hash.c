/* XXH3 hashes, and an open-addressing map from hashes to numbers. */
#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

clade__hash clade__hash_bytes(const void *data, size_t bytes) {
  XXH128_hash_t h = XXH3_128bits(data, bytes);
  return (clade__hash){h.low64, h.high64};
}

clade__hash clade__hash_more(clade__hash before, const void *data, size_t bytes) {
  clade__hash pair[2] = {before, clade__hash_bytes(data, bytes)};
  return clade__hash_bytes(pair, sizeof pair);
}

clade__hash clade__hash_more_text(clade__hash before, const char *text) {
  return clade__hash_more(before, text, strlen(text) + 1);
}

bool clade__hash_equal(clade__hash a, clade__hash b) { return a.lo == b.lo && a.hi == b.hi; }

char *clade__hash_text(clade__hash hash, char text[33]) {
  snprintf(text, 33, "%016" PRIx64 "%016" PRIx64, hash.hi, hash.lo);
  return text;
}

struct clade__map_entry {
  clade__hash key;
  size_t value;
  bool used;
};

static struct clade__map_entry *find(const clade__map *map, clade__hash key) {
  size_t mask = map->capacity - 1;
  for (size_t i = (size_t)key.lo & mask;; i = (i + 1) & mask) {
    struct clade__map_entry *e = &map->entries[i];
    if (!e->used || clade__hash_equal(e->key, key)) return e;
  }
}

clade_status clade__map_put(clade__map *map, clade__hash key, size_t value) {
  if ((map->count + 1) * 2 > map->capacity) {
    clade__map larger = {NULL, map->capacity ? map->capacity * 2 : 16, map->count};
    larger.entries = clade__new(larger.capacity, sizeof *larger.entries);
    if (!larger.entries) return CLADE_NO_MEMORY;
    for (size_t i = 0; i < map->capacity; i++)
      if (map->entries[i].used) *find(&larger, map->entries[i].key) = map->entries[i];
    clade__free(map->entries);
    *map = larger;
  }
  struct clade__map_entry *e = find(map, key);
  if (!e->used) map->count++;
  *e = (struct clade__map_entry){key, value, true};
  return CLADE_OK;
}

bool clade__map_get(const clade__map *map, clade__hash key, size_t *value) {
  if (!map->capacity) return false;
  const struct clade__map_entry *e = find(map, key);
  if (e->used) *value = e->value;
  return e->used;
}

void clade__map_free(clade__map *map) {
  clade__free(map->entries);
  *map = (clade__map){0};
}

/* What clade_init was told, kept for the rooms above. */
#include "base/base.h"

static clade__settings kept;

clade_status clade__settings_set(const clade__settings *settings) {
  char *cache_dir = NULL;
  if (settings->cache_dir) {
    cache_dir = clade__copy_text(settings->cache_dir);
    if (!cache_dir) return CLADE_NO_MEMORY;
  }
  clade__free((void *)(uintptr_t)kept.cache_dir);
  kept = *settings;
  kept.cache_dir = cache_dir;
  return CLADE_OK;
}

const clade__settings *clade__settings_get(void) { return &kept; }

/* What clade_init was told, kept for the rooms above. */
#include "base/base.h"

static clade__settings kept;

static clade_status copy(const char *text, char **out) {
  *out = text ? clade__copy_text(text) : NULL;
  return text && !*out ? CLADE_NO_MEMORY : CLADE_OK;
}

clade_status clade__settings_set(const clade__settings *settings) {
  char *cache_dir, *tuning;
  CLADE_TRY(copy(settings->cache_dir, &cache_dir));
  clade_status status = copy(settings->tuning, &tuning);
  if (status != CLADE_OK) {
    clade__free(cache_dir);
    return status;
  }
  clade__free((void *)(uintptr_t)kept.cache_dir);
  clade__free((void *)(uintptr_t)kept.tuning);
  kept = *settings;
  kept.cache_dir = cache_dir;
  kept.tuning = tuning;
  return CLADE_OK;
}

const clade__settings *clade__settings_get(void) { return &kept; }

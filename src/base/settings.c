/* Settings passed to clade_init, stored for the other modules. */
#include "base/base.h"

static clade__settings kept;

static void free_texts(const clade__settings *s) {
  clade__free((void *)(uintptr_t)s->cache_dir);
  clade__free((void *)(uintptr_t)s->tuning);
  clade__free((void *)(uintptr_t)s->libraries);
  clade__free((void *)(uintptr_t)s->bundle_keys);
}

static clade_status copy(const char *text, const char **out) {
  *out = text ? clade__copy_text(text) : NULL;
  return text && !*out ? CLADE_NO_MEMORY : CLADE_OK;
}

clade_status clade__settings_set(const clade__settings *settings) {
  clade__settings own = *settings;
  own.cache_dir = own.tuning = own.libraries = own.bundle_keys = NULL;
  clade_status status = copy(settings->cache_dir, &own.cache_dir);
  if (status == CLADE_OK) status = copy(settings->tuning, &own.tuning);
  if (status == CLADE_OK) status = copy(settings->libraries, &own.libraries);
  if (status == CLADE_OK) status = copy(settings->bundle_keys, &own.bundle_keys);
  if (status != CLADE_OK) {
    free_texts(&own);
    return status;
  }
  free_texts(&kept);
  kept = own;
  return CLADE_OK;
}

const clade__settings *clade__settings_get(void) { return &kept; }

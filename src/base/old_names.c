/* Names that were changed in version 0.1. The old ones are accepted, with one warning each. */
#include <stdatomic.h>

#include "base/base.h"

static struct {
  const char *now, *before;
  atomic_bool told;
} names[] = {
    {"fallback", "companion", false},
    {"CLADE_PERSISTENT", "CLADE_CHAINS", false},
    {"normalize", "normalise", false},
    {"default_seconds", "start_seconds", false},
    /* Old parameter names of products are ambiguous ("rows" is TM or BM). If a record has several, the first match
     * here applies. */
    {"TM", "tall", false},
    {"TM", "rows", false},
    {"TN", "wide", false},
    {"BM", "block_rows", false},
    {"BM", "rows", false},
    {"BN", "block_columns", false},
    {"BN", "columns", false},
    {"BK", "depth", false},
};

const char *clade__old_name(const char *now, int i) {
  for (size_t k = 0; k < CLADE_COUNT(names); k++)
    if (!strcmp(names[k].now, now) && i-- == 0) return names[k].before;
  return NULL;
}

void clade__old_name_read(const char *now, const char *before) {
  for (size_t k = 0; k < CLADE_COUNT(names); k++)
    if (!strcmp(names[k].now, now) && !strcmp(names[k].before, before) && !atomic_exchange(&names[k].told, true))
      clade__log(CLADE_LOG_WARNING, "\"%s\" is called \"%s\" now: the next version reads that alone", before, now);
}

bool clade__is_old_name(const char *now, const char *text, size_t n) {
  const char *before;
  for (int i = 0; (before = clade__old_name(now, i)); i++) {
    if (strlen(before) != n || strncmp(before, text, n)) continue;
    clade__old_name_read(now, before);
    return true;
  }
  return false;
}

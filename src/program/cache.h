/* The program cache on disk, as used by the command: location, statistics, clearing. It holds program binaries,
 * addressed by content, and an index per device that maps requests to them. */
#ifndef CLADE_CACHE_H
#define CLADE_CACHE_H

#include "base/base.h"

/* The configured directory: clade_init's, CLADE_CACHE_DIR, $XDG_CACHE_HOME/clade or ~/.cache/clade. It need not
 * exist. The caller frees the string. */
clade_status clade__cache_path(char **path);
clade_status clade__cache_make(void); /* creates it if absent */

typedef struct clade__cache_stats {
  uint64_t files, bytes;        /* excluding the lock file */
  uint64_t limit;               /* in bytes; beyond it, the least recently used binaries are evicted */
  bool enabled, safe, writable; /* safe: absent, or owned by the user and writable by nobody else */
} clade__cache_stats;
/* Creates nothing. If the directory is refused, `safe` is false and clade_last_error has the reason. */
clade_status clade__cache_get_stats(clade__cache_stats *stats);

/* Removes the cache's files; other files in the directory stay. Both counts may be NULL. */
clade_status clade__cache_clear(uint64_t *files, uint64_t *bytes);

#endif

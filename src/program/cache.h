/* The program cache on disk, as the command sees it: where it is, how full, and emptying it. Its files are binaries of
 * programs by content, and per device an index from requests to them. */
#ifndef CLADE_CACHE_H
#define CLADE_CACHE_H

#include "base/base.h"

/* The directory that is used: clade_init's, CLADE_CACHE_DIR, $XDG_CACHE_HOME/clade, or ~/.cache/clade. It need not
 * exist. The caller's, by clade__free. */
clade_status clade__cache_path(char **path);
clade_status clade__cache_make(void); /* where it is absent */

typedef struct clade__cache_stats {
  uint64_t files, bytes;        /* of the cache, the lock file not counted */
  uint64_t limit;               /* bytes beyond which the least recently used binaries go */
  bool enabled, safe, writable; /* safe: absent, or the user's own and writable by nobody else */
} clade__cache_stats;
/* Never creates anything. Where the directory is refused, `safe` is false and clade_last_error says why. */
clade_status clade__cache_get_stats(clade__cache_stats *stats);

/* Removes what the cache holds; both counts may be NULL. Other files in the directory stay. */
clade_status clade__cache_clear(uint64_t *files, uint64_t *bytes);

#endif

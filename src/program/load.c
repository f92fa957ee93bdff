/* Loads programs from the cache after verifying them. */
#include "program/parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TOUCH_SECONDS = 3600 };

/* Updates the time of last use, which eviction goes by. A precision of an hour saves writes. */
static void touch(const clade__cache *cache, clade__hash binary) {
  char file[CLADE__CACHE_NAME];
  struct stat st;
  clade__cache_file_name(CLADE__CACHE_BINARY, binary, file);
  if (!fstatat(cache->dir, file, &st, AT_SYMLINK_NOFOLLOW) && time(NULL) - st.st_mtim.tv_sec > TOUCH_SECONDS)
    utimensat(cache->dir, file, NULL, AT_SYMLINK_NOFOLLOW);
}

static bool fatal(clade_status status) { return status == CLADE_LOST || status == CLADE_FORKED; }

static clade_status load(clade__store *store, clade__hash binary, const char *options, size_t *at) {
  clade__cache_blob blob = {0};
  cl_program program = NULL;
  clade_status status = clade__cache_read(&store->cache, CLADE__CACHE_BINARY, store->device_key, binary, &blob);
  if (status == CLADE_OK) status = clade__program_load(store->device, blob.data, blob.bytes, options, &program);
  clade__free(blob.file);
  if (status != CLADE_OK) {
    if (status != CLADE_NOT_FOUND && !fatal(status))
      clade__log(CLADE_LOG_WARNING, "%s: kernels are compiled again", clade_last_error());
    return status;
  }
  touch(&store->cache, binary);
  return clade__store_add_program(store, program, binary, at);
}

/* The program loaded from a binary; *at is `refused` if it failed to load. A failure is remembered for one pass
 * only: by the next, another process may have replaced the file. */
static clade_status program_of(clade__store *store, clade__hash binary, const char *options, size_t refused,
                               size_t *at) {
  if (clade__map_get(&store->by_binary, binary, at) && (*at < store->n_programs || *at == refused)) return CLADE_OK;
  clade_status status = load(store, binary, options, at);
  if (fatal(status) || status == CLADE_NO_MEMORY) return status;
  if (status != CLADE_OK) *at = refused;
  return clade__map_put(&store->by_binary, binary, *at);
}

clade_status clade__store_load(clade__store *store, size_t n, const clade__wanted *wanted) {
  size_t refused = ~store->passes++;
  if (!store->cached) return CLADE_OK;
  CLADE_TRY(clade__index_refresh(&store->index, &store->cache, store->device_key));
  for (size_t i = 0; i < n; i++) {
    size_t program;
    const clade__wanted *w = &wanted[i];
    if (clade__store_ready(store, w) || clade__store_entry(store, w->key)) continue;
    const clade__index_record *record = clade__index_find(&store->index, store->warms ? w->launch : w->key);
    if (!record) continue;
    CLADE_TRY(program_of(store, record->binary, clade__request_options(w->request), refused, &program));
    if (program == refused) continue;
    CLADE_TRY(clade__store_add_entry(store, w->key, program, record->name));
    store->stats.loaded++;
  }
  return CLADE_OK;
}

/* Maintenance of the program cache: stale files, eviction, statistics, clearing. */
#include "program/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct item {
  char name[64];
  uint64_t bytes;
  struct timespec used;
  bool binary, temporary;
} item;
typedef struct items {
  item *at;
  size_t n, capacity;
} items;

static bool ends(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n > m && !strcmp(text + n - m, end);
}

/* Matches only file names that the cache generates; other files are left alone. */
static bool ours(const char *name, item *out) {
  out->temporary = !strncmp(name, "tmp.", 4);
  out->binary = ends(name, ".bin");
  size_t hex = strspn(name, "0123456789abcdef");
  return strlen(name) < sizeof out->name &&
         (out->temporary ||
          (hex == 32 && name[hex] == '.' && (out->binary || ends(name, ".index") || ends(name, ".unit"))));
}

static clade_status list(const clade__cache *cache, items *out) {
  int fd = openat(cache->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    clade_status status = CLADE_FAIL(IO, "program cache: cannot list %s: %s", cache->path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
  }
  clade_status status = CLADE_OK;
  for (struct dirent *e; status == CLADE_OK && (e = readdir(dir));) {
    item one = {0};
    struct stat st;
    if (!ours(e->d_name, &one) || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode)) continue;
    memcpy(one.name, e->d_name, strlen(e->d_name) + 1);
    one.bytes = (uint64_t)st.st_size;
    one.used = st.st_mtim;
    status = clade__grow(&out->at, &out->capacity, out->n + 1, sizeof one);
    if (status == CLADE_OK) out->at[out->n++] = one;
  }
  closedir(dir);
  if (status != CLADE_OK) {
    clade__free(out->at);
    *out = (items){0};
  }
  return status;
}

/* For maintenance: a failure is logged, and the work is skipped. */
static bool listed(const clade__cache *cache, items *out) {
  if (list(cache, out) == CLADE_OK) return true;
  clade__log(CLADE_LOG_WARNING, "%s: nothing was cleared away", clade_last_error());
  return false;
}

void clade__cache_sweep(const clade__cache *cache) {
  items all = {0};
  if (!listed(cache, &all)) return;
  for (size_t i = 0; i < all.n; i++)
    if (all.at[i].temporary) unlinkat(cache->dir, all.at[i].name, 0);
  clade__free(all.at);
}

static int by_age(const void *a, const void *b) {
  const struct timespec *x = &((const item *)a)->used, *y = &((const item *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

void clade__cache_evict(const clade__cache *cache) {
  items all = {0};
  uint64_t total = 0;
  if (!listed(cache, &all)) return;
  for (size_t i = 0; i < all.n; i++) total += all.at[i].bytes;
  if (total > cache->limit) {
    /* Evict to below the limit, so that not every write evicts. The newest binary stays whatever its size. */
    uint64_t aim = cache->limit - cache->limit / 4;
    qsort(all.at, all.n, sizeof *all.at, by_age);
    for (size_t i = 0; i + 1 < all.n && total > aim; i++)
      if (all.at[i].binary && !unlinkat(cache->dir, all.at[i].name, 0)) total -= all.at[i].bytes;
  }
  clade__free(all.at);
}

clade_status clade__cache_make(void) {
  clade__cache cache;
  CLADE_TRY(clade__cache_open_configured(true, &cache));
  clade__cache_close(&cache);
  return CLADE_OK;
}

clade_status clade__cache_get_stats(clade__cache_stats *stats) {
  clade__cache cache = {.dir = -1};
  items all = {0};
  *stats = (clade__cache_stats){.enabled = clade__cache_wanted()};
  clade_status status = clade__cache_open_configured(false, &cache);
  stats->limit = clade__cache_limit();
  stats->safe = status == CLADE_OK || status == CLADE_NOT_FOUND;
  stats->writable = cache.writable;
  if (status != CLADE_OK) return CLADE_OK;
  status = list(&cache, &all);
  stats->files = all.n;
  for (size_t i = 0; i < all.n; i++) stats->bytes += all.at[i].bytes;
  clade__free(all.at);
  clade__cache_close(&cache);
  return status;
}

clade_status clade__cache_clear(uint64_t *files, uint64_t *bytes) {
  clade__cache cache = {.dir = -1};
  items all = {0};
  uint64_t removed = 0, freed = 0;
  clade_status status = clade__cache_open_configured(false, &cache);
  if (status == CLADE_OK) {
    int lock = clade__cache_lock(&cache);
    status = list(&cache, &all);
    for (size_t i = 0; i < all.n && status == CLADE_OK; i++) {
      if (!unlinkat(cache.dir, all.at[i].name, 0))
        removed++, freed += all.at[i].bytes;
      else if (errno != ENOENT)
        status = CLADE_FAIL(IO, "program cache: cannot remove %s/%s: %s", cache.path, all.at[i].name, strerror(errno));
    }
    clade__free(all.at);
    clade__cache_unlock(lock);
    clade__cache_close(&cache);
  } else if (status == CLADE_NOT_FOUND) {
    status = CLADE_OK;
  }
  if (files) *files = removed;
  if (bytes) *bytes = freed;
  return status;
}

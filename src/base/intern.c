/* Interned bytes and strings, kept for the life of the process. */
#include <pthread.h>

#include "base/base.h"

typedef struct kept {
  struct kept *next;
  size_t n;
  _Alignas(max_align_t) unsigned char bytes[];
} kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept *all;

static kept *keep_locked(const void *bytes, size_t n) {
  for (kept *k = all; k; k = k->next)
    if (k->n == n && memcmp(k->bytes, bytes, n) == 0) return k;
  kept *k = clade__new(1, sizeof *k + n);
  if (!k) return NULL;
  memcpy(k->bytes, bytes, n);
  k->n = n;
  k->next = all;
  all = k;
  return k;
}

clade_status clade__intern_bytes(const void *bytes, size_t n, const void **out) {
  pthread_mutex_lock(&lock);
  kept *k = keep_locked(bytes, n);
  pthread_mutex_unlock(&lock);
  if (!k) return CLADE_NO_MEMORY;
  *out = k->bytes;
  return CLADE_OK;
}

clade_status clade__intern(const char *text, const char **out) {
  const void *kept = NULL;
  CLADE_TRY(clade__intern_bytes(text, strlen(text) + 1, &kept));
  *out = kept;
  return CLADE_OK;
}

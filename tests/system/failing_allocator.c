/* Allocation hook of the fault tests. */
#include "failing_allocator.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long count, nth;
static bool for_good, failed;
static FILE *sites;

/* Hash of return addresses relative to this file's code, equal in all processes. */
static unsigned long long site(void) {
  void *frames[24];
  int n = backtrace(frames, 24);
  unsigned long long hash = 1469598103934665603ULL;
  for (int i = 0; i < n; i++) {
    long long offset = (char *)frames[i] - (char *)(void *)&count;
    if (offset > -(1LL << 30) && offset < (1LL << 30)) hash = (hash ^ (unsigned long long)offset) * 1099511628211ULL;
  }
  return hash;
}

static bool refuse(void) {
  pthread_mutex_lock(&lock);
  count++;
  bool no = nth && (for_good ? count >= nth : count == nth);
  failed = failed || no;
  if (sites) {
    fprintf(sites, "%016llx\n", site());
    fflush(sites);
  }
  pthread_mutex_unlock(&lock);
  return no;
}

static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  void *memory = NULL;
  return !refuse() && posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, old_bytes < bytes ? old_bytes : bytes);
  free(old);
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

clade_allocator failing_allocator(const char *plan, const char *path) {
  if (plan) {
    char *end;
    nth = strtoull(plan, &end, 10);
    for_good = *end == '+';
  }
  sites = path ? fopen(path, "w") : NULL;
  return (clade_allocator){sizeof(clade_allocator), NULL, allocate, resize, release};
}

bool failing_allocator_failed(void) { return failed; }

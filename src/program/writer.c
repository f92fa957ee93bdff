/* Writes compiled programs to the cache on a thread, because fetching binaries is slow and must not delay the first
 * result. The lock across processes is held until the files exist, so that waiting processes find them. */
#include "program/parts.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Delay before binaries are fetched. Some implementations compile during the fetch and block the creation and launch
 * of kernels meanwhile; the delay lets the first result pass, including the initialization of a large model's
 * variables. */
enum { LET_PASS_MS = 3000 };

typedef struct piece { /* a program */
  size_t at;
  cl_program program;
  clade__hash before, after; /* hash of its binary in the cache */
  clade__index_record *records;
  size_t n, capacity;
} piece;

typedef struct clade__writer {
  pthread_t thread;
  bool threaded, hurried; /* hurried: another thread waits for the lock */
  pthread_cond_t hurry;
  struct clade__writer *next; /* list of delayed writers */
  clade_device *device;
  clade__hash device_key;
  const clade__cache *cache;
  int lock;
  piece *pieces;
  size_t n;
} writer;

static pthread_mutex_t passing_mutex = PTHREAD_MUTEX_INITIALIZER;
static writer *passing; /* of all devices of this process, which share one lock */

static void release(writer *w) {
  for (size_t i = 0; i < w->n && w->pieces; i++) clade__free(w->pieces[i].records);
  pthread_cond_destroy(&w->hurry);
  clade__free(w->pieces);
  clade__free(w);
}

static clade_status put(const writer *w, piece *p, clade__index *index) {
  void *binary = NULL;
  size_t bytes;
  CLADE_TRY(clade__program_binary(w->device, p->program, &binary, &bytes));
  clade__hash address = clade__cache_address(w->device_key, binary, bytes);
  clade_status status = clade__cache_write(w->cache, CLADE__CACHE_BINARY, w->device_key, address, binary, bytes);
  clade__free(binary);
  CLADE_TRY(status);
  for (size_t i = 0; i < p->n; i++) {
    p->records[i].binary = address;
    CLADE_TRY(clade__index_put(index, &p->records[i]));
  }
  p->after = address;
  return CLADE_OK;
}

/* A program that was written again with more launch configurations replaces its older binary. */
static void drop_old(const writer *w, const clade__index *index) {
  for (size_t i = 0; i < w->n; i++) {
    const piece *p = &w->pieces[i];
    bool used = clade__hash_equal(p->before, (clade__hash){0}) || clade__hash_equal(p->before, p->after);
    for (size_t k = 0; k < index->n && !used; k++) used = clade__hash_equal(index->records[k].binary, p->before);
    char file[CLADE__CACHE_NAME];
    clade__cache_file_name(CLADE__CACHE_BINARY, p->before, file);
    if (!used) unlinkat(w->cache->dir, file, 0);
  }
}

static clade_status write_all(writer *w) {
  clade__index index = {0};
  clade_status status;
  clade__cache_sweep(w->cache);
  CLADE_GOTO(clade__index_refresh(&index, w->cache, w->device_key));
  for (size_t i = 0; i < w->n; i++) CLADE_GOTO(put(w, &w->pieces[i], &index));
  clade__cache_evict(w->cache);
  CLADE_GOTO(clade__index_save(&index, w->cache, w->device_key));
  drop_old(w, &index);
fail:
  clade__index_free(&index);
  return status;
}

static void let_pass(writer *w) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += LET_PASS_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  pthread_mutex_lock(&passing_mutex);
  w->next = passing;
  passing = w;
  while (!w->hurried && !pthread_cond_timedwait(&w->hurry, &passing_mutex, &until)) {}
  writer **link = &passing;
  while (*link != w) link = &(*link)->next;
  *link = w->next;
  pthread_mutex_unlock(&passing_mutex);
}

static void hurry(writer *w) {
  w->hurried = true;
  pthread_cond_signal(&w->hurry);
}

void clade__writers_hurry(void) {
  pthread_mutex_lock(&passing_mutex);
  for (writer *w = passing; w; w = w->next) hurry(w);
  pthread_mutex_unlock(&passing_mutex);
}

static void *run(void *argument) {
  writer *w = argument;
  if (w->threaded && clade__quirk_has(w->device, CLADE__QUIRK_SPECIALIZE)) let_pass(w);
  if (write_all(w) != CLADE_OK)
    clade__log(CLADE_LOG_WARNING, "%s: kernels will be compiled again by other processes", clade_last_error());
  clade__cache_unlock(w->lock);
  return NULL;
}

static clade_status add_record(piece *p, const clade__index_record *record) {
  CLADE_TRY(clade__grow(&p->records, &p->capacity, p->n + 1, sizeof *record));
  p->records[p->n++] = *record;
  return CLADE_OK;
}

/* Index records for every launch configuration that the program is ready for. */
static clade_status collect(const clade__store *store, piece *p) {
  for (size_t i = 0; i < store->n_launches; i++) {
    const clade__entry *entry = &store->entries[store->launches[i].entry];
    if (entry->program != p->at) continue;
    clade__index_record record = {.key = store->warms ? store->launches[i].key : entry->key};
    memcpy(record.name, entry->name, sizeof record.name);
    CLADE_TRY(add_record(p, &record));
  }
  return CLADE_OK;
}

static clade_status prepare(clade__store *store, int lock, size_t n, const size_t *programs, writer **out) {
  clade_status status = CLADE_NO_MEMORY;
  writer *w = clade__new(1, sizeof *w);
  if (!w) return CLADE_NO_MEMORY;
  pthread_condattr_t attr; /* monotonic clock: setting the time must not prolong the delay */
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&w->hurry, &attr);
  pthread_condattr_destroy(&attr);
  w->device = store->device;
  w->device_key = store->device_key;
  w->cache = &store->cache;
  w->lock = lock;
  w->pieces = clade__new(n, sizeof *w->pieces);
  if (!w->pieces) goto fail;
  w->n = n;
  for (size_t i = 0; i < n; i++) {
    const clade__built *built = &store->programs[programs[i]];
    w->pieces[i] = (piece){.at = programs[i], .program = built->program, .before = built->binary};
    CLADE_GOTO(collect(store, &w->pieces[i]));
  }
  *out = w;
  return CLADE_OK;
fail:
  release(w);
  return status;
}

void clade__writer_start(clade__store *store, int lock, size_t n, const size_t *programs) {
  writer *w;
  if (prepare(store, lock, n, programs, &w) != CLADE_OK) {
    clade__log(CLADE_LOG_WARNING, "program cache: nothing is written: %s", clade_last_error());
    clade__cache_unlock(lock);
    return;
  }
  store->writer = w;
  sigset_t all, before; /* signals are for the program's own threads */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  w->threaded = true; /* set before the thread reads it */
  bool failed = pthread_create(&w->thread, NULL, run, w) != 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) return;
  w->threaded = false;
  run(w);
}

void clade__writer_join(clade__store *store) {
  writer *w = store->writer;
  if (!w) return;
  store->writer = NULL;
  if (w->threaded) {
    pthread_mutex_lock(&passing_mutex);
    hurry(w);
    pthread_mutex_unlock(&passing_mutex);
    pthread_join(w->thread, NULL);
  }
  for (size_t i = 0; i < w->n; i++)
    if (!clade__hash_equal(w->pieces[i].after, (clade__hash){0}))
      store->programs[w->pieces[i].at].binary = w->pieces[i].after;
  release(w);
}

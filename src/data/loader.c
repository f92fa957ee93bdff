/* The loader: threads prepare batches in advance, one batch each; `next` returns them in order. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "data/data.h"

enum { MOST_BATCH = 1 << 20, MOST_THREADS = 256, MOST_QUEUE = 1024 };

/* Batches are numbered over all epochs; batch s is in slot s % slots. */
typedef struct slot {
  float *x;
  int32_t *y;
  int64_t *samples;
  int n;
  int64_t made; /* number + 1 of the batch in the slot; 0: none */
  clade_status status;
  char message[1024];
} slot;

typedef struct worker {
  clade_loader *loader;
  pthread_t thread;
  float *scratch;
} worker;

struct clade_loader {
  clade_loader_opt opt;
  clade_dataset *dataset;
  clade_dataset_info info;
  size_t elements; /* of a sample */
  int64_t batches; /* batches in an epoch */
  int64_t end;     /* one more than the number of the last batch */
  pid_t process;
  worker *workers;
  int started;
  slot *slots;
  int n_slots;          /* batches in advance, and the one that the caller has */
  atomic_bool hurry;    /* discard the batches in progress */
  pthread_mutex_t lock; /* protects everything below */
  pthread_cond_t made, room;
  int64_t claim, take; /* next batch to prepare, next batch to return */
  int busy;            /* number of threads that prepare a batch */
  bool seeking, canceled, stop;
  clade_loader_info counts;
};

/* ---- preparing batches ---- */
static clade_status fill(clade_loader *l, slot *s, int64_t number, float *scratch) {
  const clade_loader_opt *o = &l->opt;
  int64_t epoch = number / l->batches, first = number % l->batches * o->batch + o->first_row;
  s->n = (int)CLADE_MAX(CLADE_MIN(o->rows, l->info.count - first), 0);
  for (int i = 0; i < s->n; i++) {
    if (atomic_load_explicit(&l->hurry, memory_order_relaxed)) return CLADE_CANCELED;
    int64_t at = o->shuffle ? clade__shuffled(o->seed, epoch, l->info.count, first + i) : first + i;
    float *x = s->x + (size_t)i * l->elements;
    CLADE_TRY(clade_dataset_get(l->dataset, at, x, &s->y[i]));
    clade__draw draw = clade__draw_of(o->seed, CLADE__DRAW_AUGMENT, (uint64_t)epoch, (uint64_t)at);
    clade__augment(&o->augment, &l->info, &draw, x, scratch);
    s->samples[i] = at;
  }
  memset(s->x + (size_t)s->n * l->elements, 0, (size_t)(o->rows - s->n) * l->elements * sizeof *s->x);
  for (int i = s->n; i < o->rows; i++) s->y[i] = -1;
  return CLADE_OK;
}

static bool nothing_to_do(const clade_loader *l) {
  return l->seeking || l->canceled || l->claim >= CLADE_MIN(l->take + l->opt.queue, l->end);
}

static void *work(void *user) {
  worker *w = user;
  clade_loader *l = w->loader;
  pthread_mutex_lock(&l->lock);
  for (;;) {
    while (!l->stop && nothing_to_do(l)) pthread_cond_wait(&l->room, &l->lock);
    if (l->stop) break;
    int64_t number = l->claim++;
    slot *s = &l->slots[number % l->n_slots];
    l->busy++;
    pthread_mutex_unlock(&l->lock);
    s->status = fill(l, s, number, w->scratch);
    if (s->status != CLADE_OK) snprintf(s->message, sizeof s->message, "%s", clade_last_error());
    pthread_mutex_lock(&l->lock);
    l->busy--;
    l->counts.made += s->status == CLADE_OK;
    s->made = number + 1;
    pthread_cond_broadcast(&l->made);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

/* ---- creation ---- */
static clade_status in_range(const char *name, int *value, int unset, int most) {
  if (*value == 0) *value = unset;
  if (*value < 1 || *value > most)
    return CLADE_FAIL(INVALID, "clade_loader_new: .%s is %d; it is 1 to %d", name, *value, most);
  return CLADE_OK;
}

static clade_status check(clade_loader *l) {
  clade_loader_opt *o = &l->opt;
  CLADE_TRY(in_range("batch", &o->batch, 64, MOST_BATCH));
  if (!o->rows) o->rows = o->batch - o->first_row;
  if (o->first_row < 0 || o->rows < 1 || o->rows > o->batch - o->first_row)
    return CLADE_FAIL(INVALID, "clade_loader_new: .rows is %d from .first_row %d on, of a batch of %d", o->rows,
                      o->first_row, o->batch);
  CLADE_TRY(in_range("threads", &o->threads, 2, MOST_THREADS));
  CLADE_TRY(in_range("queue", &o->queue, 4, MOST_QUEUE));
  CLADE_TRY(clade__augment_check(&o->augment, &l->info));
  if (o->epochs < 0) return CLADE_FAIL(INVALID, "clade_loader_new: .epochs is %" PRId64, o->epochs);
  l->batches = (l->info.count + (o->drop_last ? 0 : o->batch - 1)) / o->batch;
  if (l->batches == 0)
    return CLADE_FAIL(INVALID, "clade_loader_new: %s has %" PRId64 " samples, which fill no batch of %d", l->info.name,
                      l->info.count, o->batch);
  l->end = INT64_MAX / 2;
  if (o->epochs && (__builtin_mul_overflow(o->epochs, l->batches, &l->end) || l->end > INT64_MAX / 2))
    return CLADE_FAIL(OVERFLOW, "clade_loader_new: .epochs is %" PRId64 ": too many batches", o->epochs);
  return CLADE_OK;
}

static clade_status allocate(clade_loader *l) {
  size_t batch = (size_t)l->opt.rows, all;
  int64_t elements;
  CLADE_TRY(clade_shape_elements(&l->info.shape, &elements));
  l->elements = (size_t)elements;
  if (!clade__mul(batch, l->elements, &all))
    return CLADE_FAIL(OVERFLOW, "clade_loader_new: a batch of %zu samples of %zu elements is too large", batch,
                      l->elements);
  l->workers = clade__new((size_t)l->opt.threads, sizeof *l->workers);
  l->slots = clade__new((size_t)l->opt.queue + 1, sizeof *l->slots);
  if (!l->workers || !l->slots) return CLADE_NO_MEMORY;
  for (; l->n_slots <= l->opt.queue; l->n_slots++) {
    slot *s = &l->slots[l->n_slots];
    s->x = clade__new(all, sizeof *s->x);
    s->y = clade__new(batch, sizeof *s->y);
    s->samples = clade__new(batch, sizeof *s->samples);
    if (!s->x || !s->y || !s->samples) return CLADE_NO_MEMORY;
  }
  for (int i = 0; i < l->opt.threads; i++) {
    l->workers[i].loader = l;
    l->workers[i].scratch = clade__new(l->elements, sizeof(float));
    if (!l->workers[i].scratch) return CLADE_NO_MEMORY;
  }
  return CLADE_OK;
}

/* Blocks signals in the threads: they are for the program's own threads. */
static clade_status start(clade_loader *l) {
  sigset_t all, before;
  int failed = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (l->started < l->opt.threads && failed == 0) {
    worker *w = &l->workers[l->started];
    failed = pthread_create(&w->thread, NULL, work, w);
    if (failed == 0) l->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed)
    return CLADE_FAIL(NO_MEMORY, "clade_loader_new: thread %d of %d cannot be started: %s", l->started + 1,
                      l->opt.threads, strerror(failed));
  return CLADE_OK;
}

clade_status clade_loader_new_(clade_dataset *dataset, const clade_loader_opt *opt) {
  const char *function = "clade_loader_new";
  clade_loader_opt o;
  clade_status status;
  if (!dataset || !opt) return CLADE_FAIL(INVALID, "%s: %s is NULL", function, dataset ? "opt" : "dataset");
  CLADE_TRY(clade__opt_copy(&o, sizeof o, opt, function));
  if (!o.out) return CLADE_FAIL(INVALID, "%s: .out is NULL", function);
  *o.out = NULL;
  clade_loader *l = clade__new(1, sizeof *l);
  if (!l) return CLADE_NO_MEMORY;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->made, NULL);
  pthread_cond_init(&l->room, NULL);
  l->opt = o;
  l->process = getpid();
  l->dataset = clade_dataset_retain(dataset);
  l->info.size = sizeof l->info;
  CLADE_GOTO(clade_dataset_describe(dataset, &l->info));
  CLADE_GOTO(check(l));
  CLADE_GOTO(allocate(l));
  l->counts.batches = l->batches;
  CLADE_GOTO(start(l));
  *o.out = l;
  return CLADE_OK;
fail:
  clade_loader_free(l);
  return status;
}

static void stop(clade_loader *l) {
  atomic_store(&l->hurry, true);
  pthread_mutex_lock(&l->lock);
  l->stop = true;
  pthread_cond_broadcast(&l->room);
  pthread_mutex_unlock(&l->lock);
  for (int i = 0; i < l->started; i++) pthread_join(l->workers[i].thread, NULL);
}

void clade_loader_free(clade_loader *loader) {
  clade_loader *l = loader;
  if (!l || l->process != getpid()) return; /* after a fork, threads do not exist and the lock may be held */
  stop(l);
  for (int i = 0; l->workers && i < l->opt.threads; i++) clade__free(l->workers[i].scratch);
  for (int i = 0; l->slots && i <= l->opt.queue; i++) {
    clade__free(l->slots[i].x);
    clade__free(l->slots[i].y);
    clade__free(l->slots[i].samples);
  }
  clade__free(l->workers);
  clade__free(l->slots);
  clade_dataset_release(l->dataset);
  pthread_cond_destroy(&l->room);
  pthread_cond_destroy(&l->made);
  pthread_mutex_destroy(&l->lock);
  clade__free(l);
}

static clade_status usable(const clade_loader *l, const char *function) {
  if (!l) return CLADE_FAIL(INVALID, "%s: loader is NULL", function);
  if (l->process != getpid()) return CLADE_FAIL(FORKED, "%s: the loader's threads are not in this child", function);
  return CLADE_OK;
}

/* ---- returning batches ---- */
static void wait_for(clade_loader *l, const slot *s) {
  if (l->canceled || s->made == l->take + 1) return;
  double since = clade__now();
  while (!l->canceled && s->made != l->take + 1) pthread_cond_wait(&l->made, &l->lock);
  l->counts.waited += clade__now() - since;
}

static clade_status next_locked(clade_loader *l, clade_batch *b) {
  b->epoch = l->take / l->batches;
  b->index = l->take % l->batches;
  if (l->take >= l->end) return CLADE_OK;
  const slot *s = &l->slots[l->take % l->n_slots];
  wait_for(l, s);
  if (l->canceled) return CLADE_FAIL(CANCELED, "the loader was canceled");
  if (s->status != CLADE_OK) return clade__fail_again(s->status, s->message);
  b->x = s->x;
  b->y = s->y;
  b->samples = s->samples;
  b->n = s->n;
  b->last = b->index == l->batches - 1;
  l->take++;
  l->counts.taken++;
  pthread_cond_broadcast(&l->room);
  return CLADE_OK;
}

clade_status clade_loader_next(clade_loader *loader, clade_batch *batch) {
  const char *function = "clade_loader_next";
  clade_batch b = {.size = sizeof b};
  CLADE_TRY(usable(loader, function));
  CLADE_TRY(clade__info_give(batch, &b, sizeof b, function)); /* checked before a batch is taken */
  pthread_mutex_lock(&loader->lock);
  clade_status status = next_locked(loader, &b);
  pthread_mutex_unlock(&loader->lock);
  CLADE_TRY(status);
  return clade__info_give(batch, &b, sizeof b, function);
}

clade_status clade_loader_seek(clade_loader *loader, int64_t epoch, int64_t index) {
  clade_loader *l = loader;
  int64_t number;
  CLADE_TRY(usable(l, "clade_loader_seek"));
  if (epoch < 0 || index < 0 || index > l->batches)
    return CLADE_FAIL(INVALID, "clade_loader_seek: batch %" PRId64 " of epoch %" PRId64 "; an epoch has %" PRId64,
                      index, epoch, l->batches);
  if (__builtin_mul_overflow(epoch, l->batches, &number) || __builtin_add_overflow(number, index, &number) ||
      number > l->end)
    return CLADE_FAIL(OVERFLOW, "clade_loader_seek: epoch %" PRId64 " is beyond the last", epoch);
  pthread_mutex_lock(&l->lock);
  l->seeking = true;
  atomic_store(&l->hurry, true);
  while (l->busy) pthread_cond_wait(&l->made, &l->lock);
  for (int i = 0; i < l->n_slots; i++) l->slots[i].made = 0;
  l->claim = l->take = number;
  l->seeking = false;
  atomic_store(&l->hurry, false);
  pthread_cond_broadcast(&l->room);
  pthread_mutex_unlock(&l->lock);
  return CLADE_OK;
}

clade_status clade_loader_cancel(clade_loader *loader) {
  CLADE_TRY(usable(loader, "clade_loader_cancel"));
  pthread_mutex_lock(&loader->lock);
  loader->canceled = true;
  pthread_cond_broadcast(&loader->made);
  pthread_mutex_unlock(&loader->lock);
  return CLADE_OK;
}

clade_status clade_loader_stats(const clade_loader *loader, clade_loader_info *info) {
  CLADE_TRY(usable(loader, "clade_loader_stats"));
  clade_loader *l = (clade_loader *)loader; /* only the lock changes */
  pthread_mutex_lock(&l->lock);
  clade_loader_info counts = l->counts;
  pthread_mutex_unlock(&l->lock);
  counts.size = sizeof counts;
  return clade__info_give(info, &counts, sizeof counts, "clade_loader_stats");
}

/* The progress thread of a run with host steps: woken when data has arrived or work has ended, it begins or polls
 * host steps and enqueues the commands that waited for them. */
#include <time.h>

#include "plan/run.h"

/* Callbacks may arrive after the run is freed, so each holds a reference. */
struct clade__waker {
  clade__ref ref;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool woken;
  bool deaf; /* an event callback failed; protected by the run's lock */
};

enum { POLL_NS = 2000000 }; /* for implementations that lose callbacks */

static void waker_release(clade__waker *waker) {
  if (!waker || !clade__ref_down(&waker->ref)) return;
  pthread_cond_destroy(&waker->cond);
  pthread_mutex_destroy(&waker->lock);
  clade__free(waker);
}

static clade_status waker_new(clade__waker **out) {
  pthread_condattr_t attr;
  clade__waker *waker = clade__new(1, sizeof *waker);
  if (!waker) return CLADE_NO_MEMORY;
  clade__ref_init(&waker->ref);
  pthread_mutex_init(&waker->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&waker->cond, &attr);
  pthread_condattr_destroy(&attr);
  *out = waker;
  return CLADE_OK;
}

static void wake(clade__waker *waker) {
  pthread_mutex_lock(&waker->lock);
  waker->woken = true;
  pthread_cond_signal(&waker->cond);
  pthread_mutex_unlock(&waker->lock);
}

static void on_event(void *user) {
  wake(user);
  waker_release(user);
}

static void doze(clade__waker *waker, bool poll, long ns) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += ns / 1000000000;
  until.tv_nsec += ns % 1000000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_mutex_lock(&waker->lock);
  if (poll && !waker->woken)
    pthread_cond_timedwait(&waker->cond, &waker->lock, &until);
  else
    while (!poll && !waker->woken) pthread_cond_wait(&waker->cond, &waker->lock);
  waker->woken = false;
  pthread_mutex_unlock(&waker->lock);
}

static void *progress(void *user) {
  clade_run *run = user;
  for (;;) {
    pthread_mutex_lock(&run->lock);
    bool waiting = clade__run_drive(run), stop = run->stop;
    long ns = clade__hosts_poll_ns(run, POLL_NS);
    pthread_mutex_unlock(&run->lock);
    if (stop && !waiting) return NULL;
    doze(run->waker, waiting, ns);
  }
}

/* Up to two events per host step and slot are watched, plus one whose callback is late. */
static size_t watched(const clade_run *run) { return 3 * run->func->n_hosts * (size_t)run->n_slots; }

clade_status clade__progress_start(clade_run *run) {
  if (!run->func->n_hosts) return CLADE_OK;
  CLADE_TRY(waker_new(&run->waker));
  CLADE_TRY(clade__event_reserve(watched(run)));
  run->reserved = true;
  if (pthread_create(&run->thread, NULL, progress, run) != 0)
    return CLADE_FAIL(NO_MEMORY, "clade_run_new: the progress thread cannot be started");
  run->threaded = true;
  return CLADE_OK;
}

void clade__progress_stop(clade_run *run) {
  if (run->threaded) {
    pthread_mutex_lock(&run->lock);
    run->stop = true;
    pthread_mutex_unlock(&run->lock);
    wake(run->waker);
    pthread_join(run->thread, NULL);
    run->threaded = false;
  }
  if (run->reserved) clade__event_unreserve(watched(run));
  run->reserved = false;
  waker_release(run->waker);
  run->waker = NULL;
}

void clade__progress_wake(clade_run *run) {
  if (run->waker) wake(run->waker);
}

void clade__progress_call(void *waker) { wake(waker); }

void clade__progress_watch(clade_run *run, clade_device *device, cl_event event) {
  clade__ref_up(&run->waker->ref);
  if (clade__event_notify(device, event, on_event, run->waker) == CLADE_OK) return;
  if (!run->waker->deaf) clade__log(CLADE_LOG_WARNING, "%s: host steps of this run are polled", clade_last_error());
  run->waker->deaf = true; /* log once */
  waker_release(run->waker);
}

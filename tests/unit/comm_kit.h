/* Ranks that are threads of one process, for the tests of communicators. */
#ifndef COMM_KIT_H
#define COMM_KIT_H

#include <clade/comm.h>

#include "comm/comm.h"
#include "plan_kit.h"

/* ---- a world of threads: a message lies at its sender's, where it may not change, until the sender looks after it
 * ---- */
enum { MOST = 9 };

typedef struct request {
  struct request *next, *peer; /* next: of those without a peer, a message for a receiver */
  int from, to, tag;
  void *data;
  size_t bytes;
  bool receives, done;
} request;

typedef struct world {
  pthread_mutex_t lock;
  request *first, **last;
  int sent, aborted;
  size_t bytes[MOST]; /* sent by each rank */
  bool fails;         /* all that is sent from now on */
} world;

typedef struct member {
  world *world;
  int rank;
} member;

static inline void unlink_request(world *w, request **at) {
  request *one = *at;
  *at = one->next;
  if (w->last == &one->next) w->last = at;
}

/* Joined with the first that it belongs to. */
static inline request *post(world *w, request given) {
  request *r = malloc(sizeof *r);
  assert_non_null(r);
  *r = given;
  pthread_mutex_lock(&w->lock);
  for (request **at = &w->first; *at && !r->peer; at = &(*at)->next) {
    request *one = *at;
    if (one->receives == r->receives || one->to != r->to || one->from != r->from || one->tag != r->tag) continue;
    assert_int_equal(one->bytes, r->bytes);
    unlink_request(w, at);
    r->peer = one;
    one->peer = r;
    break;
  }
  if (!r->peer) {
    *w->last = r;
    w->last = &r->next;
  }
  if (!r->receives) {
    w->sent++;
    w->bytes[r->from] += r->bytes;
  }
  pthread_mutex_unlock(&w->lock);
  return r;
}

static inline clade_status put(void *user, int to, int tag, const void *data, size_t bytes, void **out) {
  member *m = user;
  if (m->world->fails) return CLADE_IO;
  *out = post(m->world, (request){NULL, NULL, m->rank, to, tag, (void *)(uintptr_t)data, bytes, false, false});
  return CLADE_OK;
}

static inline clade_status want(void *user, int from, int tag, void *data, size_t bytes, void **out) {
  member *m = user;
  *out = post(m->world, (request){NULL, NULL, from, m->rank, tag, data, bytes, true, false});
  return CLADE_OK;
}

static inline clade_status look(void *user, void *given, bool *done) {
  member *m = user;
  request *r = given;
  pthread_mutex_lock(&m->world->lock);
  if (!r->receives && r->peer) {
    if (r->bytes) memcpy(r->peer->data, r->data, r->bytes);
    r->done = r->peer->done = true;
  }
  *done = r->done;
  pthread_mutex_unlock(&m->world->lock);
  if (*done) free(r);
  return CLADE_OK;
}

static inline void drop(void *user, void *given) {
  member *m = user;
  pthread_mutex_lock(&m->world->lock);
  for (request **at = &m->world->first; *at;)
    if (*at == given)
      unlink_request(m->world, at);
    else
      at = &(*at)->next;
  pthread_mutex_unlock(&m->world->lock);
  free(given);
}
static const char *why(void *user) {
  (void)user;
  return "the wire is cut";
}
static inline void end_all(void *user) { ((member *)user)->world->aborted++; }
static const clade_comm_impl threads = {sizeof threads, "threads", put, want, look, drop, why, end_all, NULL, NULL};

static inline void world_new(world *w) {
  *w = (world){.last = &w->first};
  pthread_mutex_init(&w->lock, NULL);
}

static inline void world_free(world *w) {
  assert_null(w->first); /* nothing was sent that nobody wanted */
  pthread_mutex_destroy(&w->lock);
}

/* ---- ranks ---- */
typedef struct rank {
  member member;
  clade_comm *comm;
  clade_device *device;
  int size;
  pthread_t thread;
  bool right;
} rank;

static inline void run_ranks(int size, world *w, clade_device *device, void *(*fn)(void *)) {
  rank all[MOST];
  world_new(w);
  for (int i = 0; i < size; i++) {
    all[i] = (rank){.member = {w, i}, .device = device, .size = size};
    OK(clade_comm_new(&threads, &all[i].member, i, size, &all[i].comm));
    assert_int_equal(clade_comm_rank(all[i].comm), i);
    assert_int_equal(clade_comm_size(all[i].comm), size);
  }
  for (int i = 0; i < size; i++) assert_int_equal(pthread_create(&all[i].thread, NULL, fn, &all[i]), 0);
  for (int i = 0; i < size; i++) pthread_join(all[i].thread, NULL);
  for (int i = 0; i < size; i++) {
    assert_true(all[i].right);
    clade_comm_release(all[i].comm);
  }
  world_free(w);
}

#endif

/* A thread-based transport with its own all-reduce, for tests of such transports. */
#ifndef COMM_WORLD_H
#define COMM_WORLD_H

#include <clade/comm.h>

#include "comm/comm.h"
#include "plan_kit.h"

/* ---- ranks as threads: a message stays in the sender's memory, unchanged, until the sender tests its request ---- */
enum { MOST = 9, MOST_CHANNELS = 8 };

typedef struct request {
  struct request *next, *peer; /* next: in the list of unmatched messages */
  int from, to, tag;
  void *data;
  size_t bytes;
  bool receives, done;
} request;

/* The number-th all-reduce of a channel, done when all ranks have joined. */
typedef struct joint_sum {
  struct joint_sum *next;
  int channel, number, joined, seen;
  size_t n;
  const float *data[MOST];
  float *to[MOST];
} joint_sum;

typedef struct world {
  pthread_mutex_t lock;
  request *first, **last;
  int sent, aborted;
  size_t bytes[MOST]; /* sent by each rank */
  bool fails;         /* all later sends fail */
  int size;
  joint_sum *sums;
  int begun[MOST][MOST_CHANNELS], opened[MOST], summed, canceled, closed;
  bool at_once; /* channels open without waiting for other ranks */
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

/* Matched with the first fitting request. */
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

/* ---- all-reduce ---- */
static inline joint_sum **find_sum(world *w, const void *given) {
  joint_sum **at = &w->sums;
  while (*at && *at != given) at = &(*at)->next;
  return at;
}

/* From the last rank to the first, unlike Clade's order. */
static inline void add_up(joint_sum *s, int ranks) {
  for (size_t i = 0; i < s->n; i++) {
    float sum = s->data[ranks - 1][i];
    for (int r = ranks - 2; r >= 0; r--) sum += s->data[r][i];
    for (int r = 0; r < ranks; r++) s->to[r][i] = sum;
  }
}

static inline joint_sum *join(const member *m, int channel, const float *data, float *to, size_t n) {
  world *w = m->world;
  pthread_mutex_lock(&w->lock);
  const int number = w->begun[m->rank][channel]++;
  joint_sum *s = w->sums;
  while (s && (s->channel != channel || s->number != number)) s = s->next;
  if (!s) {
    s = malloc(sizeof *s);
    assert_non_null(s);
    *s = (joint_sum){.next = w->sums, .channel = channel, .number = number, .n = n};
    w->sums = s;
  }
  assert_int_equal(s->n, n);
  s->data[m->rank] = data;
  s->to[m->rank] = to;
  if (++s->joined == w->size) add_up(s, w->size);
  pthread_mutex_unlock(&w->lock);
  return s;
}

/* 0 is the channel for opening others. */
static inline clade_status new_channel(void *user, void **channel, void **out) {
  const member *m = user;
  const int number = ++m->world->opened[m->rank];
  assert_in_range(number, 1, MOST_CHANNELS - 1);
  *channel = (void *)(uintptr_t)number;
  if (!m->world->at_once) *out = join(m, 0, NULL, NULL, 0);
  return CLADE_OK;
}

static inline void close_channel(void *user, void *channel) {
  const member *m = user;
  assert_in_range((uintptr_t)channel, 1, MOST_CHANNELS - 1);
  m->world->closed++;
}

static inline clade_status sum_of_all(void *user, void *channel, const float *data, float *sum, size_t n, void **out) {
  const member *m = user;
  if (m->world->fails) return CLADE_IO;
  *out = join(m, (int)(uintptr_t)channel, data, sum, n);
  return CLADE_OK;
}

/* false: not an all-reduce */
static inline bool look_at_sum(world *w, const void *given, bool *done) {
  joint_sum **at = find_sum(w, given), *s = *at;
  if (!s) return false;
  *done = s->joined == w->size;
  if (*done && ++s->seen == w->size) {
    *at = s->next;
    w->summed += s->channel != 0;
    free(s);
  }
  return true;
}

static inline clade_status look(void *user, void *given, bool *done) {
  member *m = user;
  request *r = given;
  pthread_mutex_lock(&m->world->lock);
  if (look_at_sum(m->world, given, done)) {
    pthread_mutex_unlock(&m->world->lock);
    return CLADE_OK;
  }
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
  if (*find_sum(m->world, given)) { /* other ranks may have joined it */
    m->world->canceled++;
    pthread_mutex_unlock(&m->world->lock);
    return;
  }
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
static const clade_comm_impl threads = {.size = sizeof threads,
                                        .name = "threads",
                                        .send = put,
                                        .receive = want,
                                        .test = look,
                                        .cancel = drop,
                                        .error = why,
                                        .abort = end_all,
                                        .open_channel = new_channel,
                                        .close_channel = close_channel,
                                        .all_reduce = sum_of_all};

static inline void world_new(world *w) {
  *w = (world){.last = &w->first};
  pthread_mutex_init(&w->lock, NULL);
}

static inline void world_free(world *w) {
  assert_null(w->first); /* every message was received */
  for (joint_sum *next; w->sums; w->sums = next) {
    next = w->sums->next;
    free(w->sums);
  }
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
  w->size = size;
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

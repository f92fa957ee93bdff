/* Ranks as threads of one process. A message waits until both sender and receiver are present; the later one copies
 * it. */
#include <sched.h>
#include <stdio.h>

#include "comm/comm.h"

enum { MESSAGES = 64 /* preallocated per rank */ };

typedef enum message_state { WAITING, COPYING, DONE, MISFIT } message_state;

/* A send or receive, owned by its rank until the rank has seen its completion. */
typedef struct message {
  struct message *next; /* in the list of waiting messages, in order of arrival, or of idle ones */
  int from, to, tag;
  bool receives;
  message_state state;
  void *data;
  size_t bytes, other_bytes; /* other_bytes: size on the other side, if they differ */
} message;

typedef struct chunk {
  struct chunk *next;
  message at[];
} chunk;

typedef struct world world;
typedef struct member {
  world *world;
  int rank;
  char text[128]; /* message of the last failure */
} member;

struct world {
  clade__ref ref; /* one reference per member */
  int size;
  pthread_mutex_t lock; /* protects everything below and the messages */
  int ended_by;         /* rank that aborted all; -1: none */
  message *waiting, **last, *idle;
  chunk *chunks;
  member member[];
};

/* ---- messages, under the lock ---- */
static void recycle(world *w, message *m) {
  m->next = w->idle;
  w->idle = m;
}

static clade_status add_messages(world *w) {
  const size_t n = (size_t)w->size * MESSAGES;
  chunk *c = clade__new(1, sizeof *c + n * sizeof *c->at);
  if (!c) return CLADE_NO_MEMORY;
  c->next = w->chunks;
  w->chunks = c;
  for (size_t i = 0; i < n; i++) recycle(w, &c->at[i]);
  return CLADE_OK;
}

static void remove_waiting(world *w, message **at) {
  message *m = *at;
  *at = m->next;
  if (w->last == &m->next) w->last = at;
}

static void drop(world *w, message *m) {
  message **at = &w->waiting;
  if (m->state == WAITING) {
    while (*at != m) at = &(*at)->next;
    remove_waiting(w, at);
  }
  recycle(w, m);
}

/* Removes and returns the first matching waiting message; NULL: none, and `m` is appended to the waiting ones. */
static message *find_other(world *w, message *m) {
  for (message **at = &w->waiting; *at; at = &(*at)->next) {
    message *other = *at;
    if (other->receives == m->receives || other->from != m->from || other->to != m->to || other->tag != m->tag)
      continue;
    remove_waiting(w, at);
    m->other_bytes = other->bytes;
    other->other_bytes = m->bytes;
    m->state = other->state = m->bytes == other->bytes ? COPYING : MISFIT;
    return other;
  }
  *w->last = m;
  w->last = &m->next;
  return NULL;
}

/* ---- transport ---- */
static clade_status ended(member *m) {
  snprintf(m->text, sizeof m->text, "rank %d has ended all ranks", m->world->ended_by);
  return CLADE_CANCELED;
}

static clade_status misfit(member *m, const message *r) {
  snprintf(m->text, sizeof m->text, "rank %d sends %zu bytes where rank %d expects %zu", r->from,
           r->receives ? r->other_bytes : r->bytes, r->to, r->receives ? r->bytes : r->other_bytes);
  return CLADE_INVALID;
}

static void copy(world *w, message *m, message *other) {
  if (m->bytes) memcpy(m->receives ? m->data : other->data, m->receives ? other->data : m->data, m->bytes);
  pthread_mutex_lock(&w->lock);
  m->state = other->state = DONE;
  pthread_mutex_unlock(&w->lock);
}

static clade_status post(member *m, const message *given, void **request) {
  world *w = m->world;
  message *r = NULL, *other = NULL;
  *m->text = 0;
  pthread_mutex_lock(&w->lock);
  clade_status status = w->ended_by < 0 ? CLADE_OK : ended(m);
  if (status == CLADE_OK && !w->idle) status = add_messages(w);
  if (status == CLADE_OK) {
    r = w->idle;
    w->idle = r->next;
    *r = *given;
    other = find_other(w, r);
  }
  const bool copies = other && r->state == COPYING;
  pthread_mutex_unlock(&w->lock);
  if (copies) copy(w, r, other);
  *request = r;
  return status;
}

static clade_status put(void *user, int to, int tag, const void *data, size_t bytes, void **request) {
  member *m = user;
  const message r = {.from = m->rank, .to = to, .tag = tag, .data = (void *)(uintptr_t)data, .bytes = bytes};
  return post(m, &r, request);
}

static clade_status want(void *user, int from, int tag, void *data, size_t bytes, void **request) {
  member *m = user;
  const message r = {.from = from, .to = m->rank, .tag = tag, .receives = true, .data = data, .bytes = bytes};
  return post(m, &r, request);
}

static clade_status look(void *user, void *request, bool *done) {
  member *m = user;
  world *w = m->world;
  message *r = request;
  clade_status status = CLADE_OK;
  *m->text = 0;
  pthread_mutex_lock(&w->lock);
  *done = r->state == DONE;
  if (r->state == MISFIT) status = misfit(m, r);
  if (r->state == WAITING && w->ended_by >= 0) status = ended(m);
  if (*done || status != CLADE_OK) drop(w, r);
  pthread_mutex_unlock(&w->lock);
  return status;
}

static void cancel(void *user, void *request) {
  world *w = ((member *)user)->world;
  message *r = request;
  pthread_mutex_lock(&w->lock);
  while (r->state == COPYING) { /* another thread is copying from or to this memory */
    pthread_mutex_unlock(&w->lock);
    sched_yield();
    pthread_mutex_lock(&w->lock);
  }
  drop(w, r);
  pthread_mutex_unlock(&w->lock);
}

static const char *why(void *user) { return ((const member *)user)->text; }

static void end_all(void *user) {
  const member *m = user;
  pthread_mutex_lock(&m->world->lock);
  if (m->world->ended_by < 0) m->world->ended_by = m->rank;
  pthread_mutex_unlock(&m->world->lock);
}

static void leave(world *w) {
  if (!clade__ref_down(&w->ref)) return;
  for (chunk *next; w->chunks; w->chunks = next) {
    next = w->chunks->next;
    clade__free(w->chunks);
  }
  pthread_mutex_destroy(&w->lock);
  clade__free(w);
}

static void release(void *user) { leave(((member *)user)->world); }

static const clade_comm_impl local = {.size = sizeof local,
                                      .name = "local",
                                      .send = put,
                                      .receive = want,
                                      .test = look,
                                      .cancel = cancel,
                                      .error = why,
                                      .abort = end_all,
                                      .release = release};

/* ---- clade_comm_local ---- */
static clade_status add_members(world *w, clade_comm **out) {
  CLADE_TRY(add_messages(w));
  for (int i = 0; i < w->size; i++) {
    w->member[i] = (member){.world = w, .rank = i};
    CLADE_TRY(clade_comm_new(&local, &w->member[i], i, w->size, &out[i]));
    clade__ref_up(&w->ref);
  }
  return CLADE_OK;
}

clade_status clade_comm_new_local(int size, clade_comm **out) {
  if (!out) return CLADE_FAIL(INVALID, "clade_comm_new_local: there is no place for the communicators (NULL)");
  if (size < 1) return CLADE_FAIL(INVALID, "clade_comm_new_local: %d ranks; expected 1 or more", size);
  memset(out, 0, (size_t)size * sizeof(clade_comm *));
  world *w = clade__new(1, sizeof *w + (size_t)size * sizeof *w->member);
  if (!w) return CLADE_NO_MEMORY;
  clade__ref_init(&w->ref); /* held by this call until all members exist */
  pthread_mutex_init(&w->lock, NULL);
  w->size = size;
  w->ended_by = -1;
  w->last = &w->waiting;
  clade_status status = add_members(w, out);
  for (int i = 0; i < size && status != CLADE_OK; i++) {
    clade_comm_release(out[i]);
    out[i] = NULL;
  }
  leave(w);
  return status;
}

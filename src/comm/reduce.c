/* A sum over the ranks that goes on a step at a time. At distance 1, 2, 4, … each rank whose number has that bit sends
 * what it has to the rank that has it not, which adds it; so ranks are summed in pairs, as clade__sum_in_pairs does it
 * with shares of one process. Then the sums go the same way back. */
#include "comm/comm.h"

enum { MOST_CHILDREN = 31 };

typedef enum stage { GATHER, RECEIVED, SENT, RESULT, SPREAD, LAST } stage;

struct clade__reduction {
  clade__reduction *next; /* idle */
  clade_comm *comm;
  const void *user;
  int tag, distance, waits_for;
  size_t bytes, capacity;
  float *sum, *other;
  stage stage;
  double since; /* that it waits */
  int n_requests;
  void *requests[MOST_CHILDREN];
};

/* ---- kept to be used again: nothing is allocated in a steady state ---- */
static clade__reduction *take_idle(clade_comm *comm, size_t bytes) {
  clade__reduction *r = NULL;
  pthread_mutex_lock(&comm->lock);
  for (clade__reduction **at = &comm->idle; *at; at = &(*at)->next) {
    if ((*at)->capacity < bytes) continue;
    r = *at;
    *at = r->next;
    break;
  }
  pthread_mutex_unlock(&comm->lock);
  return r;
}

static void free_one(clade__reduction *r) {
  if (r) clade__free(r->sum);
  if (r) clade__free(r->other);
  clade__free(r);
}

void clade__reductions_free(clade__reduction *first) {
  for (clade__reduction *next; first; first = next) {
    next = first->next;
    free_one(first);
  }
}

static clade__reduction *new_one(size_t bytes) {
  clade__reduction *r = clade__new(1, sizeof *r);
  if (!r) return NULL;
  r->capacity = CLADE_MAX(bytes, sizeof(float));
  r->sum = clade__new(r->capacity, 1);
  r->other = clade__new(r->capacity, 1);
  if (r->sum && r->other) return r;
  free_one(r);
  return NULL;
}

void *clade__reduction_data(const clade__reduction *r) { return r->sum; }
const void *clade__reduction_user(const clade__reduction *r) { return r->user; }

clade_status clade__reduction_new(clade_comm *comm, int tag, size_t bytes, const void *user, clade__reduction **out) {
  clade__reduction *r = take_idle(comm, bytes);
  if (!r && !(r = new_one(bytes))) return CLADE_NO_MEMORY;
  r->comm = comm;
  r->user = user;
  r->tag = tag;
  r->bytes = bytes;
  r->distance = 1;
  r->stage = GATHER;
  r->n_requests = 0;
  *out = r;
  return CLADE_OK;
}

void clade__reduction_end(clade__reduction *r) {
  if (!r) return;
  for (int i = 0; i < r->n_requests; i++) clade__comm_cancel(r->comm, &r->requests[i]);
  pthread_mutex_lock(&r->comm->lock);
  r->next = r->comm->idle;
  r->comm->idle = r;
  pthread_mutex_unlock(&r->comm->lock);
}

/* ---- a step ---- */
static clade_status receive(clade__reduction *r, int from, float *to, stage then) {
  r->waits_for = from;
  r->since = clade__now();
  r->stage = then;
  r->requests[r->n_requests] = NULL;
  return clade__comm_receive(r->comm, from, r->tag, to, r->bytes, &r->requests[r->n_requests++]);
}

static clade_status send(clade__reduction *r, int to, stage then) {
  r->waits_for = to;
  r->since = clade__now();
  r->stage = then;
  r->requests[r->n_requests] = NULL;
  return clade__comm_send(r->comm, to, r->tag, r->sum, r->bytes, &r->requests[r->n_requests++]);
}

/* All that were begun. */
static clade_status finished(clade__reduction *r, bool *done) {
  *done = true;
  for (int i = 0; i < r->n_requests; i++) {
    bool one;
    CLADE_TRY(clade__comm_test(r->comm, &r->requests[i], &one));
    *done &= one;
  }
  if (*done) r->n_requests = 0;
  return *done ? CLADE_OK : clade__comm_patience(r->comm, r->waits_for, r->since);
}

static void add(float *sum, const float *other, size_t n) {
  for (size_t i = 0; i < n; i++) sum[i] += other[i];
}

static clade_status gather(clade__reduction *r) {
  const int rank = r->comm->rank, size = r->comm->size;
  for (; r->distance < size; r->distance *= 2) {
    if (rank & r->distance) return send(r, rank - r->distance, SENT);
    if (rank + r->distance < size) return receive(r, rank + r->distance, r->other, RECEIVED);
  }
  r->stage = SPREAD;
  return CLADE_OK;
}

static clade_status spread(clade__reduction *r) {
  const int rank = r->comm->rank, size = r->comm->size;
  for (r->distance /= 2; r->distance; r->distance /= 2)
    if (rank + r->distance < size) CLADE_TRY(send(r, rank + r->distance, LAST));
  r->stage = LAST;
  return CLADE_OK;
}

clade_status clade__reduction_step(clade__reduction *r, bool *done) {
  for (*done = false;;) {
    bool here;
    CLADE_TRY(finished(r, &here));
    if (!here) return CLADE_OK;
    switch (r->stage) {
    case GATHER: CLADE_TRY(gather(r)); break;
    case RECEIVED:
      add(r->sum, r->other, r->bytes / sizeof(float));
      r->distance *= 2;
      r->stage = GATHER;
      break;
    case SENT: CLADE_TRY(receive(r, r->comm->rank - r->distance, r->sum, RESULT)); break;
    case RESULT: r->stage = SPREAD; break;
    case SPREAD: CLADE_TRY(spread(r)); break;
    case LAST: *done = true; return CLADE_OK;
    }
  }
}

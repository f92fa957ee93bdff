/* A collective over the ranks that goes on a step at a time, by a schedule (schedule.c). Long parts travel in pieces,
 * so that one is added while the next is on its way. */
#include "comm/comm.h"

enum { PIECE = 128 << 10 /* elements */, WINDOW = 4 /* pieces on their way */ };

/* One direction of a move, in pieces. */
typedef struct flow {
  size_t begun, ended;
  void *request[WINDOW];
} flow;

struct clade__reduction {
  clade__reduction *next; /* idle */
  clade_comm *comm;
  const void *user;
  int tag, at, end; /* the moves of the round that is under way */
  size_t capacity;  /* bytes */
  float *sum, *other;
  double since; /* that nothing has ended */
  clade__schedule schedule;
  flow *flows; /* of each move: what it gives, what it takes */
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
  if (!r) return;
  clade__free(r->sum);
  clade__free(r->other);
  clade__free(r->schedule.moves);
  clade__free(r->flows);
  clade__free(r);
}

void clade__reductions_free(clade__reduction *first) {
  for (clade__reduction *next; first; first = next) {
    next = first->next;
    free_one(first);
  }
}

static clade__reduction *new_one(const clade_comm *comm, size_t bytes) {
  clade__reduction *r = clade__new(1, sizeof *r);
  if (!r) return NULL;
  r->capacity = CLADE_MAX(bytes, sizeof(float));
  r->sum = clade__new(r->capacity, 1);
  r->other = clade__new(CLADE_MIN(r->capacity, WINDOW * PIECE * sizeof(float)), 1);
  clade_status status = clade__schedule_room(&r->schedule, comm->rank, comm->size);
  if (status == CLADE_OK) r->flows = clade__new(2 * (size_t)r->schedule.capacity, sizeof *r->flows);
  if (r->sum && r->other && r->flows) return r;
  free_one(r);
  return NULL;
}

void *clade__reduction_data(const clade__reduction *r) { return r->sum; }
const void *clade__reduction_user(const clade__reduction *r) { return r->user; }

/* Moves of one round stand together. */
static void begin_round(clade__reduction *r) {
  const clade__schedule *s = &r->schedule;
  r->at = r->end;
  while (r->end < s->n && s->moves[r->end].round == s->moves[r->at].round) r->end++;
}

clade_status clade__reduction_new(clade_comm *comm, int tag, const clade__message *message, const void *user,
                                  clade__reduction **out) {
  const size_t bytes = message->n * sizeof(float);
  clade__reduction *r = take_idle(comm, bytes);
  if (!r && !(r = new_one(comm, bytes))) return CLADE_NO_MEMORY;
  r->comm = comm;
  r->user = user;
  r->tag = tag;
  r->end = 0;
  clade__schedule_fill(&r->schedule, comm->rank, comm->size, message);
  memset(r->flows, 0, 2 * (size_t)r->schedule.n * sizeof *r->flows);
  begin_round(r);
  r->since = clade__now();
  clade__comm_enter(comm);
  *out = r;
  return CLADE_OK;
}

void clade__reduction_end(clade__reduction *r) {
  if (!r) return;
  for (int i = 2 * r->at; i < 2 * r->end; i++)
    for (int k = 0; k < WINDOW; k++) clade__comm_cancel(r->comm, &r->flows[i].request[k]);
  clade__comm_leave(r->comm);
  pthread_mutex_lock(&r->comm->lock);
  r->next = r->comm->idle;
  r->comm->idle = r;
  pthread_mutex_unlock(&r->comm->lock);
}

/* ---- a piece ---- */
static size_t pieces(const clade__span *span) { return (span->to - span->from + PIECE - 1) / PIECE; }

static clade__span piece(const clade__span *span, size_t which) {
  const size_t from = span->from + which * PIECE;
  return (clade__span){from, CLADE_MIN(from + PIECE, span->to)};
}

/* Only one move of a round adds. */
static float *taken(const clade__reduction *r, const clade__move *m, size_t which) {
  return m->adds ? r->other + which % WINDOW * PIECE : r->sum + piece(&m->take, which).from;
}

static void add(clade__reduction *r, const clade__move *m, size_t which) {
  const clade__span s = piece(&m->take, which);
  const float *other = taken(r, m, which);
  float *sum = r->sum + s.from;
  for (size_t i = 0; i < s.to - s.from; i++) sum[i] += other[i];
}

static clade_status begin(clade__reduction *r, const clade__move *m, flow *f, bool takes) {
  const clade__span *all = takes ? &m->take : &m->give;
  for (; f->begun < pieces(all) && f->begun - f->ended < WINDOW; f->begun++) {
    const clade__span s = piece(all, f->begun);
    const size_t bytes = (s.to - s.from) * sizeof(float);
    void **request = &f->request[f->begun % WINDOW];
    if (takes)
      CLADE_TRY(clade__comm_receive(r->comm, m->peer, r->tag, taken(r, m, f->begun), bytes, request));
    else
      CLADE_TRY(clade__comm_send(r->comm, m->peer, r->tag, r->sum + s.from, bytes, request));
  }
  return CLADE_OK;
}

/* ---- a move ---- */
/* In the order in which they were begun, the first `most`. */
static clade_status finish(clade__reduction *r, const clade__move *m, flow *f, bool takes, size_t most) {
  while (f->ended < CLADE_MIN(f->begun, most)) {
    bool done;
    CLADE_TRY(clade__comm_test(r->comm, &f->request[f->ended % WINDOW], &done));
    if (!done) break;
    if (takes && m->adds) add(r, m, f->ended);
    f->ended++;
    r->since = clade__now();
    CLADE_TRY(begin(r, m, f, takes));
  }
  return CLADE_OK;
}

static clade_status go_on(clade__reduction *r, int i, bool *done) {
  const clade__move *m = &r->schedule.moves[i];
  flow *give = &r->flows[2 * i], *take = give + 1;
  CLADE_TRY(begin(r, m, take, true));
  CLADE_TRY(begin(r, m, give, false));
  CLADE_TRY(finish(r, m, give, false, SIZE_MAX));
  const bool same = m->give.from < m->take.to && m->take.from < m->give.to; /* what is being sent may not change */
  CLADE_TRY(finish(r, m, take, true, same ? give->ended : SIZE_MAX));
  *done = give->ended == pieces(&m->give) && take->ended == pieces(&m->take);
  return CLADE_OK;
}

clade_status clade__reduction_step(clade__reduction *r, bool *done) {
  for (*done = false; r->at < r->end; begin_round(r)) {
    int waits_for = -1;
    for (int i = r->at; i < r->end; i++) {
      bool ended;
      CLADE_TRY(go_on(r, i, &ended));
      if (!ended && waits_for < 0) waits_for = r->schedule.moves[i].peer;
    }
    if (waits_for >= 0) return clade__comm_patience(r->comm, waits_for, r->since);
  }
  *done = true;
  return CLADE_OK;
}

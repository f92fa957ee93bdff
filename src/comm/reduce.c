/* Executes a collective step by step by its schedule (schedule.c). Long spans are divided into pieces, so that
 * addition and transfer overlap. With a narrower wire type, the sender rounds, and also rounds its own copy of a
 * final sum, so that all ranks have the same result. An all-reduce by the library's channel is only started and
 * polled. */
#include "comm/comm.h"

enum { WINDOW = 4 /* pieces in flight */ };

/* One direction of a move, in pieces. */
typedef struct flow {
  size_t begun, ended;
  void *request[WINDOW];
} flow;

struct clade__reduction {
  clade__reduction *next, **home; /* the idle list that it returns to */
  clade_comm *comm;
  const void *user;
  int tag, first, end; /* moves of the current round */
  size_t capacity;     /* in bytes */
  char *sum, *other;
  clade_dtype type; /* element type */
  double since;     /* time of the last progress */
  clade__schedule schedule;
  flow *flows; /* of each move: the sent and the received span */
  clade_dtype wire;
  clade__span own; /* of a reduce-scatter: this rank's final span */
  char *room;      /* wire-type pieces for each flow of a round; only with a narrower wire type */
  size_t room_bytes;
  int channel; /* of the library, which reduces from `sum` to `other`; 0: by schedule */
  size_t n;
  void *request; /* of the library */
};

/* ---- reuse: no allocation in the steady state ---- */
static clade__reduction *take_idle(clade_comm *comm, clade__reduction **idle, size_t bytes) {
  clade__reduction *r = NULL;
  pthread_mutex_lock(&comm->lock);
  for (clade__reduction **at = idle; *at; at = &(*at)->next) {
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
  clade__free(r->room);
  clade__free(r);
}

void clade__reductions_free(clade__reduction *first) {
  for (clade__reduction *next; first; first = next) {
    next = first->next;
    free_one(first);
  }
}

static clade__reduction *new_one(const clade_comm *comm, size_t bytes, bool in_pieces) {
  clade__reduction *r = clade__new(1, sizeof *r);
  if (!r) return NULL;
  r->capacity = CLADE_MAX(bytes, (size_t)1);
  r->sum = clade__new(r->capacity, 1);
  r->other = clade__new(in_pieces ? CLADE_MIN(r->capacity, (size_t)WINDOW * CLADE__COMM_PIECE) : r->capacity, 1);
  clade_status status = clade__schedule_room(&r->schedule, comm->rank, comm->size);
  if (status == CLADE_OK) r->flows = clade__new(2 * (size_t)r->schedule.capacity, sizeof *r->flows);
  if (r->sum && r->other && r->flows) return r;
  free_one(r);
  return NULL;
}

/* ---- elements ---- */
/* Elements per piece. */
static size_t whole_piece(const clade__reduction *r) { return CLADE__COMM_PIECE / clade__comm_element(r->type); }

static void *at(const clade__reduction *r, size_t which) { return r->sum + which * clade__comm_element(r->type); }

/* Integer sums wrap around in two's complement. */
static void add(clade_dtype type, void *sum, const void *other, size_t n) {
  float *f = sum;
  uint32_t *i = sum;
  uint64_t *l = sum;
  for (size_t k = 0; type == CLADE_F32 && k < n; k++) f[k] += ((const float *)other)[k];
  for (size_t k = 0; type == CLADE_I32 && k < n; k++) i[k] += ((const uint32_t *)other)[k];
  for (size_t k = 0; type == CLADE_I64 && k < n; k++) l[k] += ((const uint64_t *)other)[k];
}

void *clade__reduction_data(const clade__reduction *r) { return r->sum; }
const void *clade__reduction_user(const clade__reduction *r) { return r->user; }

/* Moves of a round are adjacent. */
static void begin_round(clade__reduction *r) {
  const clade__schedule *s = &r->schedule;
  r->first = r->end;
  while (r->end < s->n && s->moves[r->end].round == s->moves[r->first].round) r->end++;
}

/* Allocates for the largest number of concurrent flows. */
static clade_status make_room(clade__reduction *r) {
  const clade__schedule *s = &r->schedule;
  size_t width = 0;
  for (int from = 0, to; from < s->n; from = to) {
    for (to = from; to < s->n && s->moves[to].round == s->moves[from].round; to++) continue;
    width = CLADE_MAX(width, (size_t)(to - from));
  }
  return clade__grow(&r->room, &r->room_bytes, 2 * width * WINDOW * whole_piece(r) * sizeof(uint16_t), 1);
}

static clade__span own_of(const clade_comm *comm, const clade__message *message) {
  const int slot = clade__schedule_slot(comm->rank, comm->size);
  if (message->what != CLADE__REDUCE_SCATTER) return (clade__span){0};
  return (clade__span){slot ? message->ends[slot - 1] : 0, message->ends[slot]};
}

clade_status clade__reduction_new(clade_comm *comm, clade__reduction **idle, int tag, const clade__message *message,
                                  const void *user, clade__reduction **out) {
  const clade_dtype type = message->type ? message->type : CLADE_F32;
  const size_t bytes = message->n * clade__comm_element(type);
  clade__reduction *r = take_idle(comm, idle, bytes);
  if (!r && !(r = new_one(comm, bytes, !message->channel))) return CLADE_NO_MEMORY;
  r->comm = comm;
  r->home = idle;
  r->user = user;
  r->type = type;
  r->tag = tag;
  r->end = 0;
  r->channel = message->channel;
  r->n = message->n;
  r->schedule.n = 0;
  if (!r->channel) clade__schedule_fill(&r->schedule, comm->rank, comm->size, message);
  memset(r->flows, 0, 2 * (size_t)r->schedule.n * sizeof *r->flows);
  r->wire = message->whole || !message->wire ? CLADE_F32 : message->wire;
  r->own = r->wire == CLADE_F32 ? (clade__span){0} : own_of(comm, message);
  clade_status status = r->wire == CLADE_F32 ? CLADE_OK : make_room(r);
  if (status != CLADE_OK) {
    free_one(r);
    return status;
  }
  begin_round(r);
  r->since = clade__now();
  clade__comm_enter(comm);
  *out = r;
  return CLADE_OK;
}

clade_status clade__reduction_begin(clade__reduction *r) {
  if (!r->channel) return CLADE_OK; /* starts the first round */
  return clade__comm_all_reduce(r->comm, r->channel, at(r, 0), (void *)r->other, r->n, &r->request);
}

/* A library's all-reduce cannot be canceled if other ranks continue it, so its memory is kept until the process
 * ends. It stays in a list so that leak checkers find a reference. */
static void give_up(clade__reduction *r) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static clade__reduction *given_up;
  pthread_mutex_lock(&lock);
  r->next = given_up;
  given_up = r;
  pthread_mutex_unlock(&lock);
}

void clade__reduction_end(clade__reduction *r) {
  if (!r) return;
  const bool goes_on = r->request;
  for (int i = 2 * r->first; i < 2 * r->end; i++)
    for (int k = 0; k < WINDOW; k++) clade__comm_cancel(r->comm, &r->flows[i].request[k]);
  clade__comm_cancel(r->comm, &r->request);
  clade__comm_leave(r->comm);
  if (goes_on) {
    give_up(r);
    return;
  }
  pthread_mutex_lock(&r->comm->lock);
  r->next = *r->home;
  *r->home = r;
  pthread_mutex_unlock(&r->comm->lock);
}

/* ---- pieces ---- */
static size_t pieces(const clade__reduction *r, const clade__span *span) {
  return (span->to - span->from + whole_piece(r) - 1) / whole_piece(r);
}

static clade__span piece(const clade__reduction *r, const clade__span *span, size_t which) {
  const size_t from = span->from + which * whole_piece(r);
  return (clade__span){from, CLADE_MIN(from + whole_piece(r), span->to)};
}

/* Buffer of a received piece until it is added. */
static void *beside(const clade__reduction *r, size_t which) { return r->other + which % WINDOW * CLADE__COMM_PIECE; }

static bool is_narrow(const clade__reduction *r) { return r->wire != CLADE_F32; }

/* Buffer of a piece in transfer: f32 is sent from and received in place, unless it must be added. Only one move of a
 * round adds. */
static void *on_wire(const clade__reduction *r, int i, bool takes, size_t which) {
  const clade__move *m = &r->schedule.moves[i];
  const size_t slot = (size_t)(2 * (i - r->first) + takes) * WINDOW + which % WINDOW;
  if (is_narrow(r)) return r->room + slot * whole_piece(r) * sizeof(uint16_t);
  if (takes && m->adds) return beside(r, which);
  return at(r, piece(r, takes ? &m->take : &m->give, which).from);
}

static clade_status leave(clade__reduction *r, int i, size_t which) {
  const clade__move *m = &r->schedule.moves[i];
  const clade__span s = piece(r, &m->give, which);
  void *wire = on_wire(r, i, false, which);
  if (!is_narrow(r)) return CLADE_OK;
  CLADE_TRY(clade_convert(r->wire, wire, CLADE_F32, at(r, s.from), s.to - s.from));
  return m->adds ? CLADE_OK : clade_convert(CLADE_F32, at(r, s.from), r->wire, wire, s.to - s.from);
}

static clade_status arrive(clade__reduction *r, int i, size_t which) {
  const clade__move *m = &r->schedule.moves[i];
  const clade__span s = piece(r, &m->take, which);
  void *sum = at(r, s.from), *other = beside(r, which);
  if (is_narrow(r))
    CLADE_TRY(clade_convert(CLADE_F32, m->adds ? other : sum, r->wire, on_wire(r, i, true, which), s.to - s.from));
  if (m->adds) add(r->type, sum, other, s.to - s.from);
  return CLADE_OK;
}

static clade_status begin(clade__reduction *r, int i, bool takes) {
  const clade__move *m = &r->schedule.moves[i];
  const clade__span *all = takes ? &m->take : &m->give;
  flow *f = &r->flows[2 * i + takes];
  for (; f->begun < pieces(r, all) && f->begun - f->ended < WINDOW; f->begun++) {
    const clade__span s = piece(r, all, f->begun);
    const size_t bytes = (s.to - s.from) * (is_narrow(r) ? sizeof(uint16_t) : clade__comm_element(r->type));
    void **request = &f->request[f->begun % WINDOW], *wire = on_wire(r, i, takes, f->begun);
    if (!takes) CLADE_TRY(leave(r, i, f->begun));
    if (takes)
      CLADE_TRY(clade__comm_receive(r->comm, m->peer, r->tag, wire, bytes, request));
    else
      CLADE_TRY(clade__comm_send(r->comm, m->peer, r->tag, wire, bytes, request));
  }
  return CLADE_OK;
}

/* ---- moves ---- */
/* Waits for the first `most` pieces in the order in which they began. */
static clade_status finish(clade__reduction *r, int i, bool takes, size_t most) {
  flow *f = &r->flows[2 * i + takes];
  while (f->ended < CLADE_MIN(f->begun, most)) {
    bool done;
    CLADE_TRY(clade__comm_test(r->comm, &f->request[f->ended % WINDOW], &done));
    if (!done) break;
    if (takes) CLADE_TRY(arrive(r, i, f->ended));
    f->ended++;
    r->since = clade__now();
    CLADE_TRY(begin(r, i, takes));
  }
  return CLADE_OK;
}

static clade_status go_on(clade__reduction *r, int i, bool *done) {
  const clade__move *m = &r->schedule.moves[i];
  const flow *give = &r->flows[2 * i], *take = give + 1;
  CLADE_TRY(begin(r, i, true));
  CLADE_TRY(begin(r, i, false));
  CLADE_TRY(finish(r, i, false, SIZE_MAX));
  const bool same = m->give.from < m->take.to && m->take.from < m->give.to; /* memory in transfer must not change */
  CLADE_TRY(finish(r, i, true, same ? give->ended : SIZE_MAX));
  *done = give->ended == pieces(r, &m->give) && take->ended == pieces(r, &m->take);
  return CLADE_OK;
}

/* Rounds like an all-reduce does before it sends the result. */
static clade_status round_own(clade__reduction *r) {
  uint16_t rounded[1024];
  for (size_t from = r->own.from, n; from < r->own.to; from += n) {
    n = CLADE_MIN(r->own.to - from, CLADE_COUNT(rounded));
    CLADE_TRY(clade_convert(r->wire, rounded, CLADE_F32, at(r, from), n));
    CLADE_TRY(clade_convert(CLADE_F32, at(r, from), r->wire, rounded, n));
  }
  return CLADE_OK;
}

static clade_status look_at_sum(clade__reduction *r, bool *done) {
  char *sum = r->other;
  CLADE_TRY(clade__comm_test(r->comm, &r->request, done));
  if (!*done) return clade__comm_patience(r->comm, CLADE__SOME_RANK, r->since);
  r->other = r->sum;
  r->sum = sum;
  return CLADE_OK;
}

clade_status clade__reduction_step(clade__reduction *r, bool *done) {
  if (r->channel) return look_at_sum(r, done);
  for (*done = false; r->first < r->end; begin_round(r)) {
    int waits_for = -1;
    for (int i = r->first; i < r->end; i++) {
      bool ended;
      CLADE_TRY(go_on(r, i, &ended));
      if (!ended && waits_for < 0) waits_for = r->schedule.moves[i].peer;
    }
    if (waits_for >= 0) return clade__comm_patience(r->comm, waits_for, r->since);
  }
  *done = true;
  return round_own(r);
}

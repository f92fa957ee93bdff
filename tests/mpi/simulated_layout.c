/* A training step laid out over ranks (`clade plan`), simulated by SimGrid; built and started by
 * simulated_layout.py. Each rank runs its passes in the order of 1F1B. Stages exchange messages; tensor and data
 * ranks communicate through the library's own collectives (simulated_sums.h). Computation is simulated as elapsed
 * time.
 *     simulated_layout FILE
 * The file has the numbers that `read_layout` reads. */
#include <clade/optim.h>
#include <stdio.h>

#include "cli/plan/schedule.h"
#include "simulated_sums.h"

enum { MOST_MOVES = 64, BUCKET = 8 << 20, MESSAGE_TAG = 1 << 20 };
static const double NOTHING = 1e-9;

typedef struct move {
  bool backward;
  int kind, times; /* kind: a clade__collective */
  double bytes;
} move;
typedef struct piece {
  double forward, backward, parameters; /* seconds, seconds, bytes */
  int n_moves;
  move moves[MOST_MOVES];
} piece;
typedef struct player {
  int data, tensor, shard; /* shard: a clade_shard */
  schedule_step step;
  piece *pieces;
  schedule_message *messages;
  double update, poll, add; /* update: seconds of the slowest stage */
  /* this rank */
  int rank, d, p, t;
  MPI_Request *receives; /* [message] */
  int *taken;            /* [message]: number of receives consumed */
  MPI_Request *sends;
  size_t n_sends, send_capacity;
  sums neighbors, replicas;
  size_t *ends;     /* of the last collective with slots */
  int begun, ended; /* gradient sums over data ranks */
} player;

static int pieces_of(const player *p) { return p->step.stages * p->step.interleave; }
static double now(void) { return MPI_Wtime(); }

/* ---- polling ---- */
static clade_status look(player *p, int *tensor_ended) {
  if (p->data > 1) CLADE_TRY(sums_look(&p->replicas, &p->ended));
  return p->tensor > 1 ? sums_look(&p->neighbors, tensor_ended) : CLADE_OK;
}

/* Collectives progress during computation. */
static clade_status wait_until(player *p, double time) {
  int none = 0;
  for (double left; (left = time - now()) > NOTHING;) {
    if (p->begun > p->ended) CLADE_TRY(look(p, &none));
    left = time - now();
    if (left > NOTHING) pass(p->begun > p->ended ? CLADE_MIN(left, p->poll) : left);
  }
  return CLADE_OK;
}

static clade_status wait_for(player *p, MPI_Request *request) {
  int none = 0;
  for (int done = 0;;) {
    if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return CLADE_IO;
    if (done) return CLADE_OK;
    CLADE_TRY(look(p, &none));
    pass(p->poll);
  }
}

/* ---- collectives ---- */
static clade_status exchange(player *p, int kind, double bytes) {
  CLADE_TRY(sums_begin_even(&p->neighbors, 0, (clade__collective)kind, bytes));
  for (int ended = 0;;) {
    CLADE_TRY(look(p, &ended));
    if (ended) return CLADE_OK;
    pass(p->poll);
  }
}

/* ---- passes ---- */
static int buckets_of(const piece *one) { return (int)((one->parameters + BUCKET - 1) / BUCKET); }

static clade_status begin_bucket(player *p, const piece *one, int bucket) {
  const double bytes = CLADE_MIN(one->parameters - (double)bucket * BUCKET, BUCKET);
  const bool owned = p->shard == CLADE_SHARD_GRADIENTS;
  return sums_begin_even(&p->replicas, p->begun++, owned ? CLADE__REDUCE_SCATTER : CLADE__ALL_REDUCE, bytes);
}

static bool waits_for_others(const player *p, int number) {
  for (int i = 0; i < p->step.n_messages; i++)
    if (p->messages[i].when == SCHEDULE_END && p->messages[i].to == number) return true;
  return false;
}

/* Simulates part of a pass; in the last backward pass, gradients become available meanwhile. */
static clade_status compute(player *p, int number, double seconds, double from, double to, bool last) {
  const piece *one = &p->pieces[number];
  const double start = now();
  const int n = last && p->data > 1 ? buckets_of(one) - waits_for_others(p, number) : 0;
  for (int i = 0; i < n; i++) {
    const double at = CLADE_MIN((double)(i + 1) * BUCKET / one->parameters, 1);
    if (at <= from || at > to) continue;
    CLADE_TRY(wait_until(p, start + (at - from) * seconds));
    CLADE_TRY(begin_bucket(p, one, i));
  }
  return wait_until(p, start + (to - from) * seconds);
}

static clade_status do_pass(player *p, const schedule_item *item) {
  const piece *one = &p->pieces[item->piece];
  const double seconds = item->backward ? one->backward : one->forward;
  const bool last = item->backward && item->micro_batch == p->step.micro_batches - 1;
  int n = 0, done = 0;
  for (int i = 0; i < one->n_moves; i++)
    if (one->moves[i].backward == item->backward) n += one->moves[i].times;
  for (int i = 0; i < one->n_moves; i++) {
    const move *m = &one->moves[i];
    for (int k = 0; m->backward == item->backward && k < m->times; k++, done++) {
      CLADE_TRY(compute(p, item->piece, seconds, (double)done / (n + 1), (done + 1.0) / (n + 1), last));
      CLADE_TRY(exchange(p, m->kind, m->bytes));
    }
  }
  return compute(p, item->piece, seconds, (double)n / (n + 1), 1, last);
}

/* ---- messages between stages ---- */
static int rank_of(const player *p, int number) {
  return (p->d * p->step.stages + number % p->step.stages) * p->tensor + p->t;
}
static bool travels(const player *p, const schedule_message *m) {
  return m->from % p->step.stages != m->to % p->step.stages;
}
static bool is_needed(const schedule_message *m, const schedule_item *item) {
  if (m->to != item->piece || m->when == SCHEDULE_END) return false;
  if (m->when == SCHEDULE_BEGIN) return !item->backward && item->micro_batch == 0;
  return item->backward == (m->when == SCHEDULE_BACKWARD);
}

static clade_status post(player *p, int i) {
  const schedule_message *m = &p->messages[i];
  const int code = MPI_Irecv(MPI_BOTTOM, (int)m->bytes, MPI_BYTE, rank_of(p, m->from), MESSAGE_TAG + i, MPI_COMM_WORLD,
                             &p->receives[i]);
  return code == MPI_SUCCESS ? CLADE_OK : CLADE_IO;
}

/* Posts all receives in advance, so that sends are eager. */
static clade_status post_all(player *p) {
  for (int i = 0; i < p->step.n_messages; i++)
    if (p->messages[i].to % p->step.stages == p->p && travels(p, &p->messages[i])) CLADE_TRY(post(p, i));
  return CLADE_OK;
}

static clade_status take(player *p, int i) {
  const bool once = p->messages[i].when == SCHEDULE_BEGIN || p->messages[i].when == SCHEDULE_END;
  CLADE_TRY(wait_for(p, &p->receives[i]));
  p->receives[i] = MPI_REQUEST_NULL;
  return ++p->taken[i] < (once ? 1 : p->step.micro_batches) ? post(p, i) : CLADE_OK;
}

static clade_status take_for(player *p, const schedule_item *item) {
  for (int i = 0; i < p->step.n_messages; i++)
    if (is_needed(&p->messages[i], item) && travels(p, &p->messages[i])) CLADE_TRY(take(p, i));
  return CLADE_OK;
}

static clade_status give(player *p, int number, schedule_when when) {
  for (int i = 0; i < p->step.n_messages; i++) {
    const schedule_message *m = &p->messages[i];
    if (m->from != number || m->when != when || !travels(p, m)) continue;
    CLADE_TRY(clade__grow(&p->sends, &p->send_capacity, p->n_sends + 1, sizeof *p->sends));
    if (MPI_Isend(MPI_BOTTOM, (int)m->bytes, MPI_BYTE, rank_of(p, m->to), MESSAGE_TAG + i, MPI_COMM_WORLD,
                  &p->sends[p->n_sends++]) != MPI_SUCCESS)
      return CLADE_IO;
  }
  return CLADE_OK;
}

/* ---- a step ---- */
static clade_status passes(player *p, int n, const schedule_item *items) {
  CLADE_TRY(post_all(p));
  for (int i = 0; i < n; i++) {
    const schedule_item *item = &items[i];
    CLADE_TRY(take_for(p, item));
    CLADE_TRY(do_pass(p, item));
    CLADE_TRY(give(p, item->piece, item->backward ? SCHEDULE_BACKWARD : SCHEDULE_FORWARD));
    if (item->backward && item->micro_batch == p->step.micro_batches - 1) CLADE_TRY(give(p, item->piece, SCHEDULE_END));
  }
  return CLADE_OK;
}

/* Sums of gradients that several stages share, then the remaining sums. */
static clade_status finish_sums(player *p) {
  int none = 0;
  for (int i = 0; i < p->step.n_messages; i++)
    if (p->messages[i].when == SCHEDULE_END && p->messages[i].to % p->step.stages == p->p &&
        travels(p, &p->messages[i]))
      CLADE_TRY(take(p, i));
  for (int i = 0; i < pieces_of(p) && p->data > 1; i++)
    if (i % p->step.stages == p->p && waits_for_others(p, i) && buckets_of(&p->pieces[i]))
      CLADE_TRY(begin_bucket(p, &p->pieces[i], buckets_of(&p->pieces[i]) - 1));
  while (p->begun > p->ended) {
    CLADE_TRY(look(p, &none));
    if (p->begun > p->ended) pass(p->poll);
  }
  return CLADE_OK;
}

static clade_status gather(player *p) {
  double bytes = 0;
  for (int i = p->p; i < pieces_of(p); i += p->step.stages) bytes += p->pieces[i].parameters;
  if (p->data == 1 || p->shard == CLADE_SHARD_NONE) return CLADE_OK;
  CLADE_TRY(sums_begin_even(&p->replicas, p->begun++, CLADE__ALL_GATHER, bytes));
  for (int none = 0; p->begun > p->ended;) {
    CLADE_TRY(look(p, &none));
    if (p->begun > p->ended) pass(p->poll);
  }
  return CLADE_OK;
}

static clade_status play(player *p, double *end) {
  const int n = 2 * p->step.micro_batches * p->step.interleave;
  schedule_item *items = calloc((size_t)n, sizeof *items);
  if (!items) return CLADE_NO_MEMORY;
  schedule_order(&p->step, p->p, items);
  const double golden = 0.6180339887, turns = golden * p->rank;
  pass((turns - (int)turns) * p->poll + NOTHING);
  const double start = now();
  for (int i = p->p; i < pieces_of(p); i += p->step.stages) CLADE_TRY(give(p, i, SCHEDULE_BEGIN));
  clade_status status = passes(p, n, items);
  free(items);
  if (status == CLADE_OK) status = finish_sums(p);
  if (status == CLADE_OK) status = wait_until(p, now() + p->update);
  if (status == CLADE_OK) status = gather(p);
  *end = now() - start;
  for (size_t i = 0; status == CLADE_OK && i < p->n_sends; i++)
    if (MPI_Wait(&p->sends[i], MPI_STATUS_IGNORE) != MPI_SUCCESS) status = CLADE_IO;
  return status;
}

/* ---- input file ---- */
static double number(FILE *from, bool *right) {
  double value = 0;
  *right &= fscanf(from, "%lf", &value) == 1;
  return value;
}

static bool read_pieces(player *p, FILE *from) {
  bool right = true;
  for (int i = 0; i < pieces_of(p) && right; i++) {
    piece *one = &p->pieces[i];
    one->forward = number(from, &right);
    one->backward = number(from, &right);
    one->parameters = number(from, &right);
    one->n_moves = (int)number(from, &right);
    right &= one->n_moves <= MOST_MOVES;
    for (int k = 0; right && k < one->n_moves; k++) {
      one->moves[k].backward = number(from, &right) != 0;
      one->moves[k].kind = (int)number(from, &right);
      one->moves[k].bytes = number(from, &right);
      one->moves[k].times = (int)number(from, &right);
    }
  }
  return right;
}

/* Format: data tensor stages micro-batches interleave shard poll add; per piece: forward backward parameters, number
 * of collectives, and per collective: backward kind bytes times; number of messages, and per message: from to when
 * bytes; update */
static bool read_layout(player *p, FILE *from) {
  bool right = true;
  p->data = (int)number(from, &right);
  p->tensor = (int)number(from, &right);
  p->step.stages = (int)number(from, &right);
  p->step.micro_batches = (int)number(from, &right);
  p->step.interleave = (int)number(from, &right);
  p->shard = (int)number(from, &right);
  p->poll = number(from, &right);
  p->add = number(from, &right);
  p->pieces = calloc((size_t)pieces_of(p), sizeof *p->pieces);
  if (!right || !p->pieces || !read_pieces(p, from)) return false;
  p->step.n_messages = (int)number(from, &right);
  p->messages = calloc((size_t)p->step.n_messages + 1, sizeof *p->messages);
  p->receives = calloc((size_t)p->step.n_messages + 1, sizeof *p->receives);
  p->taken = calloc((size_t)p->step.n_messages + 1, sizeof *p->taken);
  for (int i = 0; right && p->messages && p->receives && p->taken && i < p->step.n_messages; i++) {
    schedule_message *m = &p->messages[i];
    m->from = (int)number(from, &right);
    m->to = (int)number(from, &right);
    m->when = (schedule_when)number(from, &right);
    m->bytes = number(from, &right);
    p->receives[i] = MPI_REQUEST_NULL;
  }
  p->update = number(from, &right);
  return right && p->messages && p->receives && p->taken;
}

static clade_status open_player(player *p) {
  const int width = p->step.stages * p->tensor;
  double most = 0;
  int buckets = 1; /* including the gather */
  p->t = p->rank % p->tensor;
  p->p = p->rank / p->tensor % p->step.stages;
  p->d = p->rank / width;
  for (int i = 0; i < pieces_of(p); i++) {
    most += p->pieces[i].parameters;
    buckets += i % p->step.stages == p->p ? buckets_of(&p->pieces[i]) : 0;
    for (int k = 0; k < p->pieces[i].n_moves; k++) most = CLADE_MAX(most, p->pieces[i].moves[k].bytes);
  }
  CLADE_TRY(share_memory(most));
  p->neighbors = (sums){.base = p->rank - p->t, .stride = 1, .rank = p->t, .ranks = p->tensor, .n = 1, .add = p->add};
  p->replicas =
      (sums){.base = p->rank % width, .stride = width, .rank = p->d, .ranks = p->data, .n = buckets, .add = p->add};
  CLADE_TRY(sums_open(&p->neighbors));
  return sums_open(&p->replicas);
}

static clade_status simulate(player *p) {
  double end = 0, last = 0;
  clade_status status = open_player(p);
  if (status == CLADE_OK) status = play(p, &end);
  sums_close(&p->neighbors);
  sums_close(&p->replicas);
  MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (status == CLADE_OK && !p->rank) printf("{\"seconds\": %.9f}\n", last);
  return status;
}

int main(int argc, char **argv) {
  player p = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  FILE *from = argc == 2 ? fopen(argv[1], "r") : NULL;
  const bool right = from && read_layout(&p, from);
  if (from) fclose(from);
  if (!right || simulate(&p) != CLADE_OK) {
    fprintf(stderr, "simulated_layout: rank %d: %s\n", p.rank, right ? clade_last_error() : "no such layout");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(p.pieces);
  free(p.messages);
  free(p.receives);
  free(p.taken);
  clade__free(p.sends);
  return MPI_Finalize();
}

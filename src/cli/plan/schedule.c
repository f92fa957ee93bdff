/* The schedules of schedule.h and their simulation. */
#include "cli/plan/schedule.h"

#include <math.h>

#include "base/base.h"

/* ---- order of passes ---- */
typedef struct order {
  const schedule_step *step;
  int stage, n;
  schedule_item *items;
} order;

/* Appends pass number i of one direction. Micro-batches form groups as large as the number of stages; a group passes
 * through the stage's pieces one after another. The last group may be incomplete. */
static void add(order *o, int i, bool backward) {
  const schedule_step *s = o->step;
  const int group = s->stages * s->interleave, piece = i % group / s->stages;
  schedule_item item = {o->stage, i, backward};
  if (s->interleave > 1) {
    item.piece = (backward ? s->interleave - 1 - piece : piece) * s->stages + o->stage;
    item.micro_batch = i / group * s->stages + i % s->stages;
  }
  if (item.micro_batch < s->micro_batches) o->items[o->n++] = item;
}

void schedule_order(const schedule_step *s, int stage, schedule_item *items) {
  order o = {s, stage, 0, items};
  const int groups = (s->micro_batches + s->stages - 1) / s->stages, behind = s->stages - 1 - stage;
  const int all = s->interleave == 1 ? s->micro_batches : groups * s->stages * s->interleave;
  const int ahead = CLADE_MIN(all, s->interleave == 1 ? behind : 2 * behind + (s->interleave - 1) * s->stages);
  for (int i = 0; i < ahead; i++) add(&o, i, false);
  for (int i = ahead; i < all; i++) {
    add(&o, i, false);
    add(&o, i - ahead, true);
  }
  for (int i = all - ahead; i < all; i++) add(&o, i, true);
}

/* ---- simulation ---- */
typedef struct game {
  const schedule_step *step;
  schedule_played *stages;
  schedule_last *pieces;
  schedule_item *items; /* [stage][2 * micro_batches * interleave] */
  int *at;              /* [stage]: passes done */
  int *in_flight;       /* [piece] */
  int *from, *to;       /* [piece]: head of the list of messages that it sends, and that it needs; -1: none */
  int *after;           /* [sent, needed][message]: next message of the same piece; -1: none */
  double *port;         /* [stage][near, far]: time from which the link is free */
  double *sums;         /* [stage]: remaining seconds of all-reduces; negative: not started */
  double *arrival;      /* [message][micro-batch]; NaN: not sent yet */
} game;

static int items_of(const schedule_step *s) { return 2 * s->micro_batches * s->interleave; }

static void link_messages(game *p) {
  const schedule_step *s = p->step;
  for (int i = 0; i < s->stages * s->interleave; i++) p->from[i] = p->to[i] = -1;
  for (int i = s->n_messages - 1; i >= 0; i--) {
    const schedule_message *m = &s->messages[i];
    p->after[i] = p->from[m->from];
    p->after[s->n_messages + i] = p->to[m->to];
    p->from[m->from] = p->to[m->to] = i;
  }
}

static bool open_game(game *p) {
  const schedule_step *s = p->step;
  const size_t stages = (size_t)s->stages, arrivals = (size_t)s->n_messages * (size_t)s->micro_batches;
  p->items = clade__new(stages * (size_t)items_of(s), sizeof *p->items);
  p->at = clade__new(stages, sizeof *p->at);
  p->in_flight = clade__new(stages * (size_t)s->interleave, sizeof *p->in_flight);
  p->from = clade__new(2 * stages * (size_t)s->interleave, sizeof *p->from);
  p->after = clade__new(2 * (size_t)s->n_messages + 1, sizeof *p->after);
  p->port = clade__new(2 * stages, sizeof *p->port);
  p->sums = clade__new(stages, sizeof *p->sums);
  p->arrival = clade__new(arrivals + 1, sizeof *p->arrival);
  if (!p->sums || !p->from || !p->after) return false;
  if (!p->items || !p->at || !p->in_flight || !p->port || !p->arrival) return false;
  for (int i = 0; i < s->stages; i++) {
    schedule_order(s, i, p->items + i * items_of(s));
    p->stages[i] = (schedule_played){0};
    p->sums[i] = -1;
  }
  for (int i = 0; i < s->stages * s->interleave; i++) p->pieces[i] = (schedule_last){0};
  for (size_t i = 0; i < arrivals; i++) p->arrival[i] = NAN;
  p->to = p->from + stages * (size_t)s->interleave;
  link_messages(p);
  return true;
}

static void close_game(game *p) {
  clade__free(p->items);
  clade__free(p->at);
  clade__free(p->in_flight);
  clade__free(p->port);
  clade__free(p->arrival);
  clade__free(p->sums);
  clade__free(p->from);
  clade__free(p->after);
}

/* Duration of a message on a link that it shares with all-reduces. */
static double shared(game *p, int stage, bool near, double seconds) {
  if (!p->step->sums || near != p->step->sums_are_near || p->sums[stage] < 0) return seconds;
  const double waits = fmin(seconds, p->sums[stage]);
  p->sums[stage] -= waits;
  p->stages[stage].lent += seconds;
  return seconds + waits;
}

static void send(game *p, int message, int micro_batch, double now) {
  const schedule_step *s = p->step;
  const schedule_message *m = &s->messages[message];
  const int from = m->from % s->stages, to = m->to % s->stages;
  double *arrival = &p->arrival[message * s->micro_batches + micro_batch];
  const bool near = from / s->stages_per_node == to / s->stages_per_node;
  const schedule_link *link = near ? &s->near : &s->far;
  double *port = &p->port[2 * from + !near];
  *arrival = now;
  if (from == to) return;
  *port = fmax(*port, now) + shared(p, from, near, m->bytes / link->bandwidth);
  *arrival = *port + link->latency;
}

static bool is_needed(const schedule_message *m, const schedule_item *item) {
  return item->backward ? m->when == SCHEDULE_BACKWARD : m->when == SCHEDULE_FORWARD || m->when == SCHEDULE_BEGIN;
}

/* Time at which all inputs of a pass have arrived; NaN: one has not been sent yet. */
static double needed(const game *p, const schedule_item *item) {
  const schedule_step *s = p->step;
  double latest = 0;
  for (int i = p->to[item->piece]; i >= 0; i = p->after[s->n_messages + i]) {
    const schedule_message *m = &s->messages[i];
    if (!is_needed(m, item)) continue;
    const double arrival = p->arrival[i * s->micro_batches + (m->when == SCHEDULE_BEGIN ? 0 : item->micro_batch)];
    if (isnan(arrival)) return NAN;
    latest = fmax(latest, arrival);
  }
  return latest;
}

static void note(game *p, const schedule_item *item, double begin, double end) {
  schedule_last *piece = &p->pieces[item->piece];
  int *in_flight = &p->in_flight[item->piece];
  *in_flight += item->backward ? -1 : 1;
  piece->in_flight = CLADE_MAX(piece->in_flight, *in_flight);
  if (item->backward) piece->begin = begin, piece->end = end;
}

/* Simulates the stage's next pass if it can start. */
static bool pass(game *p, int stage) {
  const schedule_step *s = p->step;
  if (p->at[stage] == items_of(s)) return false;
  const schedule_item *item = &p->items[stage * items_of(s) + p->at[stage]];
  const double arrived = needed(p, item), begin = fmax(arrived, p->stages[stage].end);
  if (isnan(arrived)) return false;
  const schedule_piece *piece = &s->pieces[item->piece];
  const double seconds = item->backward ? piece->backward : piece->forward, end = begin + seconds;
  p->stages[stage].busy += seconds;
  p->stages[stage].end = end;
  p->at[stage]++;
  note(p, item, begin, end);
  const bool last = item->backward && item->micro_batch == s->micro_batches - 1;
  if (last && s->sums && p->sums[stage] < 0) p->sums[stage] = s->sums[stage];
  for (int i = p->from[item->piece]; i >= 0; i = p->after[i]) {
    const schedule_when when = item->backward ? SCHEDULE_BACKWARD : SCHEDULE_FORWARD;
    if (s->messages[i].when == when) send(p, i, item->micro_batch, end);
  }
  return true;
}

static void play(game *p) {
  const schedule_step *s = p->step;
  for (int i = 0; i < s->n_messages; i++)
    if (s->messages[i].when == SCHEDULE_BEGIN) send(p, i, 0, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < s->stages; stage++)
      while (pass(p, stage)) moved = true;
  }
  for (int i = 0; i < s->n_messages; i++) {
    const schedule_message *m = &s->messages[i];
    if (m->when != SCHEDULE_END) continue;
    send(p, i, 0, p->pieces[m->from].end);
    p->pieces[m->to].arrived = fmax(p->pieces[m->to].arrived, p->arrival[i * s->micro_batches]);
  }
}

bool schedule_play(const schedule_step *step, schedule_played *stages, schedule_last *pieces, double *seconds) {
  game p = {.step = step, .stages = stages, .pieces = pieces};
  const bool opened = open_game(&p);
  if (opened) play(&p);
  *seconds = 0;
  for (int i = 0; opened && i < step->stages; i++) *seconds = fmax(*seconds, stages[i].end);
  close_game(&p);
  return opened;
}

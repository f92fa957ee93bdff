/* Recursive halving and doubling. Ranks form blocks of powers of two, largest first: 7 = 4 + 2 + 1. Within a block,
 * at distances 1, 2, 4, …, each rank exchanges half of its remaining span with its partner and adds the other half,
 * so that ranks are summed in pairs like shares of a graph (clade__sum_in_pairs). Each block passes its sums to the
 * next larger block, which adds them. The same moves in reverse, overwriting, distribute the sums.
 *
 * A rank with the bits abc ends with the span at place cba of its block. A place of a smaller block covers several
 * places of a larger one. Ranks outside the largest block own additional slots and receive them in a final round. */
#include "comm/schedule.h"

typedef struct block {
  int first, size; /* ranks; size 0: no such block */
} block;

/* Input for building one rank's schedule. */
typedef struct maker {
  clade__schedule *s;
  const clade__message *message;
  int rank, slots, round;
  block larger, own, smaller;
  int low, high; /* remaining range of places in the own block */
} maker;

static int power_below(int n) { /* the largest power of two that is at most n */
  int power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

static void find_blocks(maker *m, int size) {
  int first = 0;
  for (block next = {0, power_below(size)};; next = (block){first, power_below(size - first)}) {
    m->larger = m->own;
    m->own = next;
    first += next.size;
    if (m->rank < first) break;
  }
  m->smaller = first < size ? (block){first, power_below(size - first)} : (block){0};
}

/* Reverses the bits of `number`, below the power of two `size`. */
static int reversed(int number, int size) {
  int result = 0;
  for (int bit = 1; bit < size; bit *= 2) result = 2 * result + !!(number & bit);
  return result;
}

int clade__schedule_slots(int size) { return 2 * power_below(size); }
int clade__schedule_slot(int rank, int size) { return reversed(rank, clade__schedule_slots(size)); }

/* ---- spans ---- */
static size_t slot_begin(const maker *m, int slot) {
  const clade__message *message = m->message;
  if (!slot) return 0;
  if (message->ends) return message->ends[slot - 1];
  const size_t n = message->n, places = (size_t)m->slots / 2, place = ((size_t)slot + 1) / 2; /* odd slots are empty */
  return n / places * place + n % places * place / places;
}

/* The span of places of a block. */
static clade__span part(const maker *m, const block *b, int low, int high) {
  if (m->message->whole) return (clade__span){0, m->message->n};
  const int slots = m->slots / b->size;
  return (clade__span){slot_begin(m, low * slots), slot_begin(m, high * slots)};
}

static void add_move(maker *m, int peer, bool adds, clade__span give, clade__span take) {
  if (give.from == give.to && take.from == take.to) return; /* the peer omits it as well */
  m->s->moves[m->s->n++] = (clade__move){peer, m->round, adds, give, take};
}
static void add_give(maker *m, int peer, clade__span span) { add_move(m, peer, false, span, (clade__span){0}); }
static void add_take(maker *m, int peer, bool adds, clade__span span) {
  add_move(m, peer, adds, (clade__span){0}, span);
}

/* ---- reduction rounds ---- */
static void halve(maker *m) {
  const int local = m->rank - m->own.first;
  m->low = 0;
  m->high = m->own.size;
  for (int distance = 1; distance < m->own.size; distance *= 2, m->round++) {
    const int middle = (m->low + m->high) / 2;
    const bool upper = local & distance;
    const clade__span below = part(m, &m->own, m->low, middle), above = part(m, &m->own, middle, m->high);
    add_move(m, m->own.first + (local ^ distance), true, upper ? below : above, upper ? above : below);
    *(upper ? &m->low : &m->high) = middle;
  }
}

/* The rank of the smaller block whose place covers this rank's. */
static int below_me(const maker *m) {
  return m->smaller.first + reversed(m->low / (m->own.size / m->smaller.size), m->smaller.size);
}
/* Number of places in the larger block that this rank's place covers; and the ranks at these places. */
static int covered(const maker *m) { return m->larger.size / m->own.size; }
static int above_me(const maker *m, int i) {
  return m->larger.first + reversed(m->low * covered(m) + i, m->larger.size);
}

static void take_from_smaller(maker *m) {
  if (!m->smaller.size) return;
  add_take(m, below_me(m), true, part(m, &m->own, m->low, m->high));
  m->round++;
}

static void give_to_larger(maker *m) {
  if (!m->larger.size) return;
  for (int i = 0; i < covered(m); i++) {
    const int place = m->low * covered(m) + i;
    add_give(m, above_me(m, i), part(m, &m->larger, place, place + 1));
  }
  m->round++;
}

/* Final round: slots of the ranks outside the largest block. */
static void hand_slots(maker *m, int size) {
  const int half = m->slots / 2, other = m->rank < half ? m->rank + half : m->rank - half;
  const int slot = clade__schedule_slot(CLADE_MAX(m->rank, other), size);
  const clade__span span = {slot_begin(m, slot), slot_begin(m, slot + 1)};
  if (m->rank >= half)
    add_take(m, other, false, span);
  else if (other < size)
    add_give(m, other, span);
  m->round++;
}

/* ---- distribution rounds ---- */
/* For a whole message, only ranks that gave theirs away need the sum; one of the ranks that have it returns it. */
static void give_back(maker *m) {
  const clade__span all = {0, m->message->n};
  if (m->larger.size) add_take(m, above_me(m, 0), false, all);
  m->round++;
  if (m->smaller.size && m->low % (m->own.size / m->smaller.size) == 0) add_give(m, below_me(m), all);
}

static clade__move backward(const clade__move *move, int rounds) {
  return (clade__move){move->peer, 2 * rounds - move->round, false, move->take, move->give};
}

static void add_backward(maker *m) {
  for (int i = m->s->n - 1; i >= 0; i--) m->s->moves[m->s->n++] = backward(&m->s->moves[i], m->round);
}

static void turn_around(maker *m) {
  const int n = m->s->n;
  add_backward(m);
  memmove(m->s->moves, m->s->moves + n, (size_t)n * sizeof *m->s->moves);
  m->s->n = n;
}

/* ---- all-to-all: in each round ranks exchange their blocks in pairs; with an odd number one rank is idle ---- */
static void exchange(maker *m, int size) {
  const size_t *ends = m->message->ends;
  for (m->round = 0; m->round < size; m->round++) {
    const int peer = (m->round - m->rank + size) % size;
    const clade__span give = {peer ? ends[peer - 1] : 0, ends[peer]}, take = {ends[size + peer - 1], ends[size + peer]};
    if (peer != m->rank) add_move(m, peer, false, give, take);
  }
}

/* ---- interface ---- */
clade_status clade__schedule_room(clade__schedule *s, int rank, int size) {
  enum { HALVINGS = 31, OTHERS = 2 /* one with the smaller block, one for slots */ };
  maker m = {.rank = rank};
  find_blocks(&m, size);
  s->capacity = CLADE_MAX(size, 2 * (HALVINGS + OTHERS + (m.larger.size ? covered(&m) : 0)));
  s->moves = clade__new((size_t)s->capacity, sizeof *s->moves);
  return s->moves ? CLADE_OK : CLADE_NO_MEMORY;
}

void clade__schedule_fill(clade__schedule *s, int rank, int size, const clade__message *message) {
  maker m = {.s = s, .message = message, .rank = rank, .slots = clade__schedule_slots(size)};
  find_blocks(&m, size);
  s->n = 0;
  if (message->what == CLADE__ALL_TO_ALL) {
    exchange(&m, size);
    return;
  }
  halve(&m);
  take_from_smaller(&m);
  give_to_larger(&m);
  if (message->whole) {
    give_back(&m);
    return;
  }
  hand_slots(&m, size);
  if (message->what == CLADE__ALL_REDUCE) add_backward(&m);
  if (message->what == CLADE__ALL_GATHER) turn_around(&m);
}

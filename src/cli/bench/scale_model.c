/* Implements the model of scale_model.h. */
#include "cli/bench/scale_model.h"

#include <math.h>

static double bandwidth(const scale_link *link, int distance) {
  return distance < link->near_ranks ? link->near_bandwidth : link->bandwidth;
}

static double message(const scale_link *link, int distance, double bytes) {
  const double latency = distance < link->near_ranks ? link->near_latency : link->latency;
  return fmax(latency + bytes / bandwidth(link, distance), link->look);
}

/* A sum from the point of view of a rank. */
typedef struct sum {
  double bytes, wire;
  bool whole;
} sum;

static double part(const sum *s, int parts) { return s->whole ? s->bytes : s->bytes / parts; }

static double piece_of(const scale_link *link, double bytes) {
  return link->piece > 0 ? fmin(link->piece, bytes) : bytes;
}

/* Seconds to receive and add a message: the first piece arrives, the others follow at the slower of the two rates,
 * and the last one is added. */
static double added(const scale_link *link, int distance, double bytes, double wire) {
  const double piece = piece_of(link, bytes);
  return message(link, distance, piece * wire) +
         (bytes - piece) * fmax(wire / bandwidth(link, distance), 1 / link->add) + piece / link->add;
}

/* Rounds of recursive halving: partners at distance 1, 2, 4, … exchange and add half of what is left, or everything
 * if the sum is exchanged whole. */
static double halving(const scale_link *link, int ranks, const sum *s) {
  double seconds = 0;
  for (int parts = 2; parts <= ranks; parts *= 2) seconds += added(link, parts / 2, part(s, parts), s->wire);
  return seconds;
}

/* Rounds of recursive doubling; not needed if the sum is exchanged whole. */
static double doubling(const scale_link *link, int ranks, const sum *s) {
  double seconds = 0;
  for (int parts = 2; parts <= ranks && !s->whole; parts *= 2)
    seconds += message(link, parts / 2, part(s, parts) * s->wire);
  return seconds;
}

/* A number of ranks that is no power of two is cut into blocks that are, such as 7 = 4 + 2 + 1. All blocks reduce at
 * the same time. From the smallest on, the ranks of a block send their parts to the next larger block, which adds
 * them. Results return the same way. */
double scale_reduction(const scale_link *link, int ranks, double bytes, double wire) {
  const sum s = {bytes, wire, bytes < link->whole};
  int block[32], n = 0;
  for (int bit = SCALE_MOST_RANKS; bit; bit /= 2)
    if (ranks & bit) block[n++] = bit;
  if (!n) return 0;
  double summed = halving(link, block[n - 1], &s);
  for (int i = n - 2; i >= 0; i--) {
    const double own = part(&s, block[i]), handed = summed + message(link, block[i], part(&s, block[i + 1]) * wire);
    summed = fmax(halving(link, block[i], &s) + own / link->add, handed + piece_of(link, own) / link->add);
  }
  double end = 0;
  for (int i = 0; i < n; i++) {
    if (i) summed += message(link, block[i - 1], part(&s, block[i]) * wire);
    end = fmax(end, summed + doubling(link, block[i], &s));
  }
  return end;
}

double scale_half(const scale_link *link, int ranks, double bytes, double wire, bool adds) {
  const sum s = {bytes, wire, false};
  if (ranks & (ranks - 1)) return scale_reduction(link, ranks, bytes, wire) / 2;
  return adds ? halving(link, ranks, &s) : doubling(link, ranks, &s);
}

double scale_rounds(int ranks) {
  return scale_reduction(&(scale_link){1, INFINITY, INFINITY, .whole = 1}, ranks, 0, 1);
}

scale_step scale_predict(const scale_link *link, int ranks, double wire, int n, const scale_bucket *buckets,
                         double rest) {
  scale_link at_once = *link;
  at_once.latency = at_once.near_latency = at_once.look = 0;
  scale_step step = {0};
  double end = 0, ready = 0, idle = 0; /* idle: time from which the link is free */
  for (int i = 0; i < n; i++) {
    const double seconds = scale_reduction(link, ranks, buckets[i].bytes, wire);
    ready = buckets[i].ready;
    const double begin = fmax(idle, ready);
    idle = begin + scale_reduction(&at_once, ranks, buckets[i].bytes, wire);
    end = fmax(end, begin + seconds);
    step.reductions += seconds;
  }
  step.seconds = end + rest;
  step.exposed = end - ready;
  return step;
}

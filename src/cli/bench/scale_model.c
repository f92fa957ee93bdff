/* The model of scale_model.h. */
#include "cli/bench/scale_model.h"

#include <math.h>
#include <stdbool.h>

static double message(const scale_link *link, double bytes) { return link->latency + bytes / link->bandwidth; }

/* A sum, as each rank meets it. */
typedef struct sum {
  double bytes, wire;
  bool whole;
} sum;

static double part(const sum *s, int parts) { return s->whole ? s->bytes : s->bytes / parts; }

/* Rounds in which neighbors at distance 1, 2, 4, … exchange half of what is left, or all of it, and add. */
static double halving(const scale_link *link, int ranks, const sum *s) {
  double seconds = 0;
  for (int parts = 2; parts <= ranks; parts *= 2)
    seconds += message(link, part(s, parts) * s->wire) + part(s, parts) / link->add;
  return seconds;
}

/* The same rounds backward; whoever exchanged all of it has the sum. */
static double doubling(const scale_link *link, int ranks, const sum *s) {
  double seconds = 0;
  for (int parts = 2; parts <= ranks && !s->whole; parts *= 2) seconds += message(link, part(s, parts) * s->wire);
  return seconds;
}

/* 7 = 4 + 2 + 1: blocks of powers of two reduce by halving at the same time. From the smallest on, the ranks of a block
 * hand their parts to the next larger block, which adds them; results go back the same way, and each block doubles. */
double scale_reduction(const scale_link *link, int ranks, double bytes, double wire) {
  const sum s = {bytes, wire, bytes < link->whole};
  int block[32], n = 0;
  for (int bit = SCALE_MOST_RANKS; bit; bit /= 2)
    if (ranks & bit) block[n++] = bit;
  if (!n) return 0;
  double summed = halving(link, block[n - 1], &s);
  for (int i = n - 2; i >= 0; i--) {
    const double handed = summed + message(link, part(&s, block[i + 1]) * wire);
    summed = fmax(halving(link, block[i], &s), handed) + part(&s, block[i]) / link->add;
  }
  double end = 0;
  for (int i = 0; i < n; i++) {
    if (i) summed += message(link, part(&s, block[i]) * wire);
    end = fmax(end, summed + doubling(link, block[i], &s));
  }
  return end;
}

double scale_rounds(int ranks) {
  return scale_reduction(&(scale_link){1, INFINITY, INFINITY, .whole = 1}, ranks, 0, 1);
}

scale_step scale_predict(const scale_link *link, int ranks, double wire, int n, const scale_bucket *buckets,
                         double rest) {
  scale_step step = {0};
  double end = 0, ready = 0;
  for (int i = 0; i < n; i++) {
    const double seconds = scale_reduction(link, ranks, buckets[i].bytes, wire);
    ready = buckets[i].ready;
    end = fmax(end, ready) + seconds;
    step.reductions += seconds;
  }
  step.seconds = end + rest;
  step.exposed = end - ready;
  return step;
}

/* The model of scale_model.h. */
#include "cli/bench/scale_model.h"

#include <math.h>

static double message(const scale_link *link, double bytes) { return link->latency + bytes / link->bandwidth; }

/* Rounds in which neighbors at distance 1, 2, 4, … exchange half of what is left; the same rounds backward take as
 * long, but for adding. */
static double halving(const scale_link *link, int ranks, double bytes, double wire, double adds) {
  double seconds = 0;
  for (int parts = 2; parts <= ranks; parts *= 2)
    seconds += message(link, bytes / parts * wire) + adds * bytes / parts / link->add;
  return seconds;
}

/* 7 = 4 + 2 + 1: blocks of powers of two reduce by halving at the same time. From the smallest on, the ranks of a block
 * hand their parts to the next larger block, which adds them; results go back the same way, and each block doubles. */
double scale_reduction(const scale_link *link, int ranks, double bytes, double wire) {
  int block[32], n = 0;
  for (int bit = SCALE_MOST_RANKS; bit; bit /= 2)
    if (ranks & bit) block[n++] = bit;
  if (!n) return 0;
  double summed = halving(link, block[n - 1], bytes, wire, 1);
  for (int i = n - 2; i >= 0; i--) {
    const double handed = summed + message(link, bytes / block[i + 1] * wire);
    summed = fmax(halving(link, block[i], bytes, wire, 1), handed) + bytes / block[i] / link->add;
  }
  double end = 0;
  for (int i = 0; i < n; i++) {
    if (i) summed += message(link, bytes / block[i] * wire);
    end = fmax(end, summed + halving(link, block[i], bytes, wire, 0));
  }
  return end;
}

double scale_rounds(int ranks) { return scale_reduction(&(scale_link){1, INFINITY, INFINITY}, ranks, 0, 1); }

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

/* A model of training steps on many ranks: all-reduce by recursive halving and doubling, and buckets of gradients
 * that share a link. Arithmetic only; independent of graphs, devices and clocks. */
#ifndef CLADE_CLI_BENCH_SCALE_MODEL_H
#define CLADE_CLI_BENCH_SCALE_MODEL_H

#include <stdbool.h>

typedef struct scale_link {
  double latency;   /* seconds of the smallest message */
  double bandwidth; /* bytes per second, both directions at once */
  double add;       /* bytes of f32 per second that the host adds */
  double whole;     /* sums below this size are exchanged whole, in half as many rounds */
  double piece;     /* bytes of f32 that are added while the next piece is being received; 0: no overlap */
  double look;      /* polling interval in seconds: the least time of a round */
  /* Link between ranks whose distance is below near_ranks, such as those of a node; near_ranks 0: no such link. */
  double near_latency, near_bandwidth;
  int near_ranks;
} scale_link;

enum { SCALE_MOST_RANKS = 1 << 20 };

/* Seconds to sum `bytes` of f32 over the ranks. wire: bytes sent per byte of f32, 0.5 for 16-bit floats. */
double scale_reduction(const scale_link *link, int ranks, double bytes, double wire);
/* Seconds of a reduce-scatter (`adds`) or of an all-gather. */
double scale_half(const scale_link *link, int ranks, double bytes, double wire, bool adds);
/* Number of consecutive messages in a small sum. */
double scale_rounds(int ranks);

typedef struct scale_bucket {
  double bytes;
  double ready; /* seconds from the begin of the step until the bucket's gradients are on the host */
} scale_bucket;

typedef struct scale_step {
  double seconds;
  double reductions; /* sum of the times of all reductions */
  double exposed;    /* time that reductions add to the step */
} scale_step;
/* Predicts a step. Buckets are given in the order in which they become ready. Their transfers occupy the link one
 * after another; latencies overlap. `rest`: seconds of the step after the last sum. */
scale_step scale_predict(const scale_link *link, int ranks, double wire, int n, const scale_bucket *buckets,
                         double rest);

#endif

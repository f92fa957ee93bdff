/* A model of the steps of a training on many ranks: sums by halving and doubling, and buckets of gradients that share a
 * link. Arithmetic alone: knows nothing of graphs, devices and clocks. */
#ifndef CLADE_CLI_BENCH_SCALE_MODEL_H
#define CLADE_CLI_BENCH_SCALE_MODEL_H

#include <stdbool.h>

typedef struct scale_link {
  double latency;   /* seconds of a message, however small */
  double bandwidth; /* bytes a second, in both directions at once */
  double add;       /* bytes of f32 a second that the host adds to others */
  double whole;     /* sums of fewer bytes are exchanged whole, in half as many rounds */
  double piece; /* bytes of f32 that are added while the next ones are on their way; 0: nothing is added meanwhile */
  double look;  /* seconds between two looks at messages, which a round takes at least */
  /* Ranks at a distance of less than near_ranks, as those of one node, reach each other by these; 0: none do. */
  double near_latency, near_bandwidth;
  int near_ranks;
} scale_link;

enum { SCALE_MOST_RANKS = 1 << 20 };

/* Seconds to sum `bytes` of f32 over the ranks. `wire`: bytes sent for each of them, 1, or 0.5 of 16-bit floats. */
double scale_reduction(const scale_link *link, int ranks, double bytes, double wire);
/* Seconds of half of it: to sum parts, each on the rank that is to have it (`adds`), or to gather parts. */
double scale_half(const scale_link *link, int ranks, double bytes, double wire, bool adds);
/* Messages that follow each other in a sum of few bytes. */
double scale_rounds(int ranks);

typedef struct scale_bucket {
  double bytes;
  double ready; /* its gradients are on the host: seconds since the step began */
} scale_bucket;

typedef struct scale_step {
  double seconds;
  double reductions; /* all sums, one after the other */
  double exposed;    /* of `seconds`: what the step takes longer than if sums took no time */
} scale_step;
/* Buckets are in the order in which they are ready. Their sums use the link one after the other; what a sum waits for
 * beside, messages that are small or are on their way, goes by while others use it. All end before what is left of the
 * step, which takes `rest` seconds. */
scale_step scale_predict(const scale_link *link, int ranks, double wire, int n, const scale_bucket *buckets,
                         double rest);

#endif

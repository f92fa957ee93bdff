/* Simulates a step of pipeline-parallel training pass by pass, in the schedules 1F1B and interleaved 1F1B
 * (docs/parallel.md). Arithmetic only; independent of graphs, devices and clocks. */
#ifndef CLADE_CLI_PLAN_SCHEDULE_H
#define CLADE_CLI_PLAN_SCHEDULE_H

#include <stdbool.h>

/* Piece k of the model runs on stage k % stages. */
typedef struct schedule_piece {
  double forward, backward; /* seconds for a micro-batch */
} schedule_piece;

/* When a message between pieces is sent. */
typedef enum schedule_when {
  SCHEDULE_FORWARD,  /* after each forward pass, for the same micro-batch */
  SCHEDULE_BACKWARD, /* after each backward pass, for the same micro-batch */
  SCHEDULE_BEGIN,    /* at the begin of the step: a parameter that another piece borrows */
  SCHEDULE_END       /* after the last backward pass: the gradient of a borrowed parameter */
} schedule_when;
typedef struct schedule_message {
  int from, to;
  schedule_when when;
  double bytes;
} schedule_message;

/* Link between stages. A stage sends one message at a time on each of its two links, and computes meanwhile. */
typedef struct schedule_link {
  double latency, bandwidth; /* in seconds and in bytes per second */
} schedule_link;

typedef struct schedule_step {
  int stages, interleave, micro_batches;
  const schedule_piece *pieces; /* [stages * interleave] */
  int n_messages;
  const schedule_message *messages;
  int stages_per_node; /* consecutive stages of a node use the near link */
  schedule_link near, far;
  /* Seconds for which all-reduces over other ranks occupy a stage's link, starting with the first piece whose
   * gradients are complete. Messages share the link with them. NULL: none. */
  const double *sums; /* [stages] */
  bool sums_are_near; /* the all-reduces use the near link */
} schedule_step;

typedef struct schedule_item {
  int piece, micro_batch;
  bool backward;
} schedule_item;
/* The order of a stage's passes; items: [2 * micro_batches * interleave]. */
void schedule_order(const schedule_step *step, int stage, schedule_item *items);

typedef struct schedule_played {
  double busy, end; /* for a stage: seconds of computation, and end of its last pass */
  double lent;      /* seconds by which messages delayed the all-reduces */
} schedule_played;
typedef struct schedule_last {
  double begin, end; /* of the last backward pass of a piece, after which its own gradients are complete */
  double arrived;    /* arrival of gradients from other pieces; 0: none */
  int in_flight;     /* largest number of micro-batches between forward and backward pass */
} schedule_last;
/* stages: [stages], pieces: [stages * interleave]; *seconds: end of the last pass. false: out of memory. */
bool schedule_play(const schedule_step *step, schedule_played *stages, schedule_last *pieces, double *seconds);

#endif

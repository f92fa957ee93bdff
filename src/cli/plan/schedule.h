/* A step of a training whose layers are cut into stages, played pass by pass: 1F1B and its interleaved kind
 * (docs/parallel.md). Arithmetic alone: knows nothing of graphs, devices and clocks. */
#ifndef CLADE_CLI_PLAN_SCHEDULE_H
#define CLADE_CLI_PLAN_SCHEDULE_H

#include <stdbool.h>

/* Piece k of the model is on stage k % stages. */
typedef struct schedule_piece {
  double forward, backward; /* seconds of a micro-batch */
} schedule_piece;

/* Bytes that one piece gives another one. */
typedef enum schedule_when {
  SCHEDULE_FORWARD,  /* each forward pass to that of the same micro-batch */
  SCHEDULE_BACKWARD, /* each backward pass likewise */
  SCHEDULE_BEGIN,    /* as the step begins, before any pass: a parameter of another piece */
  SCHEDULE_END       /* behind the last backward pass: the gradient of such a parameter */
} schedule_when;
typedef struct schedule_message {
  int from, to; /* pieces */
  schedule_when when;
  double bytes;
} schedule_message;

/* Between two stages. A stage sends one message after the other on each of its two links, and computes meanwhile. */
typedef struct schedule_link {
  double latency, bandwidth; /* seconds; bytes a second */
} schedule_link;

typedef struct schedule_step {
  int stages, interleave, micro_batches;
  const schedule_piece *pieces; /* [stages * interleave] */
  int n_messages;
  const schedule_message *messages;
  int stages_per_node; /* those that follow each other in a node have the near link */
  schedule_link near, far;
  /* Seconds for which sums over other ranks have a stage's link, from its first piece whose gradients come on: what is
   * sent meanwhile takes turns with them. NULL: there are none */
  const double *sums; /* [stages] */
  bool sums_are_near; /* they go by the near link */
} schedule_step;

/* What a stage does, in order. */
typedef struct schedule_item {
  int piece, micro_batch;
  bool backward;
} schedule_item;
/* items: [2 * micro_batches * interleave] */
void schedule_order(const schedule_step *step, int stage, schedule_item *items);

typedef struct schedule_played {
  double busy, end; /* of a stage: seconds that it computes, and when its last pass ends */
  double lent;      /* seconds that messages took from sums */
} schedule_played;
typedef struct schedule_last {
  double begin, end; /* of a piece: its last backward pass, with which its gradients are complete but for others' */
  double arrived;    /* when those that other pieces send are there; 0: none do */
  int in_flight;     /* micro-batches that are forward and not yet backward, at most */
} schedule_last;
/* stages: [stages], pieces: [stages * interleave]. *seconds: the end of the last pass. False: no memory. */
bool schedule_play(const schedule_step *step, schedule_played *stages, schedule_last *pieces, double *seconds);

#endif

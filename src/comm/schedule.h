/* Communication schedules of collectives: which part of a message each rank sends to which rank, in which order.
 * Pure arithmetic, independent of communicators. */
#ifndef CLADE_SRC_COMM_SCHEDULE_H
#define CLADE_SRC_COMM_SCHEDULE_H

#include "base/base.h"

typedef struct clade__span {
  size_t from, to; /* in elements */
} clade__span;

/* An exchange with another rank. Moves of a round are concurrent; a round begins after the previous one has ended. */
typedef struct clade__move {
  int peer, round;
  bool adds; /* received elements are added; otherwise they overwrite */
  clade__span give, take;
} clade__move;

typedef enum clade__collective {
  CLADE__ALL_REDUCE,
  CLADE__REDUCE_SCATTER,
  CLADE__ALL_GATHER,
  CLADE__ALL_TO_ALL
} clade__collective;

typedef struct clade__schedule {
  int n, capacity;
  clade__move *moves;
} clade__schedule;

/* Allocates for any schedule of this rank. */
clade_status clade__schedule_room(clade__schedule *s, int rank, int size);
/* Each rank owns a slot of a message: its part of the result of a reduce-scatter, and its contribution to an
 * all-gather. There are more slots than ranks. */
int clade__schedule_slots(int size);
int clade__schedule_slot(int rank, int size);

/* A message of n elements. `ends`: ascending ends of the slots, the last one n; NULL: even division among some of
 * the ranks; of an all-to-all the ends of the blocks to each rank, then of the blocks from each, those between a rank
 * and itself empty on the way out. `whole`: ranks exchange the whole message in fewer rounds (all-reduce only). */
typedef struct clade__message {
  clade__collective what;
  size_t n;
  const size_t *ends;
  bool whole;
  clade_dtype type; /* 0: f32. Sums support f32, i32 and i64; other types can only be gathered */
  clade_dtype wire; /* transfer type of f32 elements; 0: f32. Whole messages use f32 */
  int channel;      /* all-reduce by the library's channel of this number; 0: by schedule */
} clade__message;
void clade__schedule_fill(clade__schedule *s, int rank, int size, const clade__message *message);

#endif

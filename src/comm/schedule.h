/* Who sends which part of a message to whom, and in which order, so that ranks sum it. Arithmetic alone: knows nothing
 * of communicators. */
#ifndef CLADE_SRC_COMM_SCHEDULE_H
#define CLADE_SRC_COMM_SCHEDULE_H

#include "base/base.h"

typedef struct clade__span {
  size_t from, to; /* elements */
} clade__span;

/* An exchange with another rank. Those of one round go on at the same time; the next round begins when all have ended.
 */
typedef struct clade__move {
  int peer, round;
  bool adds; /* what is taken is added to what is there; else it takes its place */
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

/* Room for whatever this rank has to do. */
clade_status clade__schedule_room(clade__schedule *s, int rank, int size);
/* Each rank owns a slot of a message, which has the sum at the end of a reduce-scatter and what is handed to all at the
 * beginning of an all-gather. There are more slots than ranks. */
int clade__schedule_slots(int size);
int clade__schedule_slot(int rank, int size);

/* A message of n elements. `ends`: of the slots, ascending, the last one n; NULL: even parts for some of the ranks. Of
 * an all-to-all: of the blocks to each rank, and then of the blocks from each; a rank has none for itself.
 * `whole`: ranks exchange all of it, in fewer rounds (of an all-reduce alone). */
typedef struct clade__message {
  clade__collective what;
  size_t n;
  const size_t *ends;
  bool whole;
  clade_dtype type; /* of elements; 0: f32. Sums are of f32, i32 or i64; others, as u8, can only be gathered */
  clade_dtype wire; /* what elements of f32 travel as; 0: f32. Of a whole message they are f32 */
  int channel;      /* it is an all-reduce by no schedule, but by the channel of this number; 0: by one */
} clade__message;
void clade__schedule_fill(clade__schedule *s, int rank, int size, const clade__message *message);

#endif

/* Forward and backward passes of micro-batches through pieces of a model: their order on each stage, and their times
 * if all pieces took equally long. */
#ifndef CLADE_PARALLEL_PASSES_H
#define CLADE_PARALLEL_PASSES_H

#include "parallel/parallel.h"

typedef struct clade__pass {
  int share, piece;
  bool backward;
  double start, end; /* a forward pass takes 1, a backward pass 2 */
} clade__pass;

typedef struct clade__passes {
  int pieces, shares;
  int each;        /* passes per stage */
  clade__pass *at; /* [stage * each + position] */
  int *place;      /* position of a pass in its stage's order, for clade__passes_find */
  double end;      /* of the last pass */
} clade__passes;

/* The order of 1F1B or interleaved 1F1B. Must be freed, even after a failure. */
clade_status clade__passes_new(const clade__grid *grid, clade__passes *out);
void clade__passes_free(clade__passes *passes);
const clade__pass *clade__passes_find(const clade__passes *passes, int stages, int share, int piece, bool backward);
/* Position of the stage's last pass that has begun by `time`; -1: none. */
int clade__passes_begun(const clade__passes *passes, int stage, double time);

#endif

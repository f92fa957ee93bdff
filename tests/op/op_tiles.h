/* The rows of parameters that tuning may take, each of which computes cases: by itself nothing starts from most. */
#ifndef CLADE_OP_TILES_H
#define CLADE_OP_TILES_H

#include "op_run.h"

typedef struct op_tiles {
  int cases; /* of each implementation */
  uint64_t seed;
  const char *impl, *dtype; /* those alone; NULL: all */
  bool every;               /* element type, not one of each implementation's alone */
  bool fp64;
} op_tiles;

/* False: a row computes something wrong, or an implementation that lists rows takes too few cases. */
bool op_tiles_run(op_target *target, const op_tiles *how, op_tally *tally);

#endif

/* Tests the configurations that tuning can choose, most of which are no defaults. */
#ifndef CLADE_OP_TILES_H
#define CLADE_OP_TILES_H

#include "op_run.h"

typedef struct op_tiles {
  int cases; /* per implementation */
  uint64_t seed;
  const char *impl, *dtype; /* filters; NULL: all */
  bool every;               /* all element types instead of one */
  bool fp64;
} op_tiles;

/* False: a configuration gives wrong results, or an implementation with configurations supports too few cases. */
bool op_tiles_run(op_target *target, const op_tiles *how, op_tally *tally);

#endif

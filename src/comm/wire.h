/* What gradients and sums may travel as: all that others need to know of it. Who includes no more has no insides of
 * communicators in its debugging information, from which the interface's baseline is read (docs/abi.md). */
#ifndef CLADE_COMM_WIRE_H
#define CLADE_COMM_WIRE_H

#include <clade/comm.h>

static inline bool clade__comm_carries(clade_dtype wire) {
  return wire == CLADE_F32 || wire == CLADE_BF16 || wire == CLADE_F16;
}

/* Of an option that may be unset: then values travel as they are. */
static inline clade_dtype clade__comm_wire(clade_dtype option) { return option ? option : CLADE_F32; }

#endif

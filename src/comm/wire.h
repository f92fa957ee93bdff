/* Transfer types of gradients and sums, the only part of communicators that other modules need. Including no more
 * keeps the internals of communicators out of their debugging information, from which the ABI baseline is generated
 * (docs/abi.md). */
#ifndef CLADE_COMM_WIRE_H
#define CLADE_COMM_WIRE_H

#include <clade/comm.h>

static inline bool clade__comm_carries(clade_dtype wire) {
  return wire == CLADE_F32 || wire == CLADE_BF16 || wire == CLADE_F16;
}

/* Default of an unset option: f32, transferred unchanged. */
static inline clade_dtype clade__comm_wire(clade_dtype option) { return option ? option : CLADE_F32; }

#endif

/* Between the op fft, a transform along one axis, and the builders of transforms along several. */
#ifndef CLADE_FFT_H
#define CLADE_FFT_H

#include <clade/ops.h>

#include "op/op.h"

/* Complex values to complex values; real ones to the n / 2 + 1 first of their spectrum; those to real ones. */
enum { CLADE__FFT_COMPLEX, CLADE__FFT_HALF_OF_REAL, CLADE__FFT_REAL_OF_HALF };
enum { CLADE__FFT_MOST = 1 << 28 }; /* along one axis */

/* Along one axis of n values, from 0 on; inverse ones are divided by n. */
clade_val clade__fft(clade_graph *g, clade_val x, int kind, int axis, int64_t n, bool inverse);

#endif

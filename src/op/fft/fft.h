/* The op fft, a transform along one axis, for the builders of transforms along several. */
#ifndef CLADE_FFT_H
#define CLADE_FFT_H

#include <clade/ops.h>

#include "op/op.h"

/* Complex to complex; real to the first n / 2 + 1 elements of the spectrum; those to real. */
enum { CLADE__FFT_COMPLEX, CLADE__FFT_HALF_OF_REAL, CLADE__FFT_REAL_OF_HALF };
enum { CLADE__FFT_MOST = 1 << 28 }; /* largest length */

/* A transform along one axis of n values; inverse transforms are divided by n. */
clade_val clade__fft(clade_graph *g, clade_val x, int kind, int axis, int64_t n, bool inverse);

#endif

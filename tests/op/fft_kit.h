/* Of convolutions by discrete Fourier transforms, what tests state about weights and results. */
#ifndef FFT_KIT_H
#define FFT_KIT_H

#include "conv_kit.h"

/* What pack makes of weights in blocks of 16 of `axis`: (block, frequency, inner channel, real or imaginary part,
 * channel), halved and divided by side x side. */
void fft_kit_weights(const double *w, const clade_shape *shape, int axis, int side, op_array *out);
/* Where `fft` computes the case, widens `bound` to what docs/layouts.md states. Operands are those of the pass that
 * computes `want`. */
void fft_kit_bound(const op_case *c, int want, const double *a, const double *b, op_array *out);

#endif

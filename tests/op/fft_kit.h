/* References and bounds for convolutions by discrete Fourier transforms. */
#ifndef FFT_KIT_H
#define FFT_KIT_H

#include "conv_kit.h"

/* Expected result of pack for weights in blocks of 16 along `axis`: (block, frequency, inner channel, real or
 * imaginary part, channel), a half spectrum scaled by 1 / (side x side). */
void fft_kit_weights(const double *w, const clade_shape *shape, int axis, int side, op_array *out);
/* If `fft` computes the case, widens `bound` to that of docs/layouts.md. Operands are those of the pass that
 * computes `want`. */
void fft_kit_bound(const op_case *c, int want, const double *a, const double *b, op_array *out);

#endif

/* Other OpenCL libraries that Clade can leave work to, where the user names them (CLADE_LIBRARIES, clade_init's
 * .libraries): CLBlast for products and convolutions, clFFT for transforms. They are opened when first asked for, and
 * what they are told is data, so that nobody above needs their headers or OpenCL's. */
#ifndef CLADE_LIBRARIES_H
#define CLADE_LIBRARIES_H

#include <clade/op.h>

/* NULL, or why the library is not used: a text that lasts. */
const char *clade__clblast_missing(void);
const char *clade__clfft_missing(void);

/* ---- CLBlast; operands: a, b, result ---- */
/* Row by row; `ld` is how long a row of the stored matrix is, `stride` how far apart the batch's are. */
typedef struct clade__clblast_product {
  size_t m, n, k, batches, ld[2], stride[2];
  bool trans[2];
  float alpha;
} clade__clblast_product;
extern const clade_library clade__clblast_gemm;

/* Operands: images, weights, result. */
typedef struct clade__clblast_conv {
  size_t images, channels, filters, size[2], kernel[2], pad[2], stride[2], dilation[2];
} clade__clblast_conv;
extern const clade_library clade__clblast_convgemm;

/* ---- clFFT; operands: x, result, workspace ---- */
/* Complex values to complex ones, or real ones to the first n / 2 + 1 of their spectrum, out of place, along an axis of
 * n whose neighbors are `inner` values apart, `outer` times `inner` of them. */
typedef struct clade__clfft_transform {
  size_t n, inner, outer, room; /* room: bytes of the workspace */
  bool real, inverse;
  float scale; /* of each result */
} clade__clfft_transform;
/* In how many parts it is executed, one after the other; the bytes of a part of x and of the result. */
size_t clade__clfft_parts(const clade__clfft_transform *w, size_t bytes[2]);
extern const clade_library clade__clfft;

#endif

/* External OpenCL libraries, enabled by CLADE_LIBRARIES or clade_init(.libraries): CLBlast for products and
 * convolutions, clFFT for transforms. They are opened at first use. Work is described as data, so that callers need
 * neither their headers nor OpenCL's. */
#ifndef CLADE_LIBRARIES_H
#define CLADE_LIBRARIES_H

#include <clade/op.h>

/* NULL if the library can be used, else the reason, which stays valid. */
const char *clade__clblast_missing(void);
const char *clade__clfft_missing(void);

/* ---- CLBlast; operands: a, b, result ---- */
/* Row-major; `ld` is the length of a stored row, `stride` the distance between matrices of the batch. */
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
/* Out-of-place transform along an axis of length n: complex to complex, or real to the first n / 2 + 1 values of the
 * spectrum. Consecutive elements are `inner` values apart; there are `outer` times `inner` transforms. */
typedef struct clade__clfft_transform {
  size_t n, inner, outer, room; /* room: workspace in bytes */
  bool real, inverse;
  float scale; /* multiplies each result */
} clade__clfft_transform;
/* Number of parts that are executed one after the other; the bytes of x and of the result per part. */
size_t clade__clfft_parts(const clade__clfft_transform *w, size_t bytes[2]);
extern const clade_library clade__clfft;

#endif

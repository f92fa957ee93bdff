/* Between the parts of clade bench conv. */
#ifndef CLADE_CLI_BENCH_CONV_H
#define CLADE_CLI_BENCH_CONV_H

#include "cli/bench.h"

extern const bench_key bench_conv_keys[];
extern const bench_set bench_conv_sets[];
enum { CONV_C, CONV_H, CONV_W, CONV_OUT, CONV_KERNEL, CONV_STRIDE, CONV_PAD, CONV_GROUPS };

typedef enum bench_pass { BENCH_FORWARD, BENCH_BACKWARD_DATA, BENCH_BACKWARD_WEIGHTS } bench_pass;

/* The three tensors of a convolution; two are operands, one is the result. */
typedef enum bench_role { BENCH_X, BENCH_W, BENCH_Y, BENCH_ROLES } bench_role;

/* y [n, out, oh, ow] = conv2d(x [n, c, h, w], w [out, c / groups, kernel, kernel]), or a derivative of it, `chain`
 * times.
 */
typedef struct bench_conv_work {
  bench_pass pass;
  int64_t n, c, h, w, out, oh, ow, kernel, stride, pad, groups, chain;
  clade_shape shape[BENCH_ROLES];
  size_t elements[BENCH_ROLES]; /* of one */
  float *data[BENCH_ROLES];     /* of operands: one for each call one after another, but a weight is one; else NULL */
} bench_conv_work;
static inline bench_role bench_conv_result(const bench_conv_work *w) {
  return w->pass == BENCH_FORWARD ? BENCH_Y : w->pass == BENCH_BACKWARD_DATA ? BENCH_X : BENCH_W;
}

/* ---- bench_conv_check.c ---- */
clade_status bench_conv_check(const bench_job *job, const bench_conv_work *work, bench_side *side);

/* ---- bench_onednn_conv.c ---- */
/* NULL, or why oneDNN cannot take part: in its own layouts, or from and to plain ones. */
const char *bench_onednn_conv(const bench_job *job, const bench_conv_work *work, bool plain, bench_side *side);

#endif

/* Epilogues: the elementwise program that an op applies when it stores its result. Input 0 of the program is the op's
 * result; the other inputs are the node's operands behind the op's `own` ones, broadcast against the result. */
#ifndef CLADE_EPILOGUE_H
#define CLADE_EPILOGUE_H

#include "op/op.h"

/* An op with an epilogue. `epilogue`: offset in the attributes; `own`: number of the op's own operands; `joined`:
 * number of trailing axes of the result that the kernel treats as one, so that an epilogue operand is broadcast along
 * all of them or along none. If joined is 0, the op computes sixteen results at once: epilogue operands must have the
 * result's shape, and the epilogue must keep its type. */
typedef struct clade__host {
  const clade_op *op;
  size_t epilogue;
  int own, joined;
} clade__host;
const clade__host *clade__host_of(const clade_op *op); /* NULL: the op has no epilogue */

/* NULL, or why an operand of this shape cannot be an input of the epilogue. */
const char *clade__host_refuses(const clade__host *host, const clade_shape *operand, const clade_shape *result);
bool clade__host_computes(const clade__host *host, const clade__elt *epilogue);
/* For infer: checks the program and its operands against the op's result type, and replaces it by the program's. */
clade_status clade__epilogue_infer(const clade_node *n, clade_type *out);

/* For emit: defines the macros by which a kernel applies the epilogue.
 *
 *   EPILOGUE_ARGS  kernel parameters; EPILOGUE_PASS: the same as call arguments, for BODY
 *   EPILOGUE_USE   declares the operands' pointers
 *   EPILOGUE       computes `r` from a result `i0` at (row, column)
 *
 * The kernel file defines EPILOGUE_AT(strides), the start of an operand's matrix, and may define
 * EPILOGUE_ELEMENT(strides); otherwise row and column have the strides s6 and s7. */
clade_status clade__epilogue_define(clade_kernel_step *s, const clade_node *n);
/* The same for kernels that also store sixteen results at once. WIDE tells whether the program supports it; EPILOGUE16
 * computes the float16 `r` from a float16 `i0`. The kernel file defines EPILOGUE_LOAD16(T, operand, strides). */
clade_status clade__epilogue_define16(clade_kernel_step *s, const clade_node *n);
/* For kernels whose results may be i32: `i0` is an int16 then, and so is `r` if the program ends with bytes. */
clade_status clade__epilogue_define16_whole(clade_kernel_step *s, const clade_node *n);
/* The same for kernels that know in advance where they will store: EPILOGUE_SOON prefetches the elements at (row,
 * column) of operands that are as large as the result. */
clade_status clade__epilogue_define_soon(clade_kernel_step *s, const clade_node *n);
/* Appends the arguments, in order, with eight strides per operand. */
void clade__epilogue_args(clade_kernel_step *s, const clade_node *n, int64_t (*strides)[CLADE_MAX_RANK]);

#endif

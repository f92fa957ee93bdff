/* The elementwise program that an op computes in its store. Input 0 of the program is the op's own result; the others
 * are the node's operands behind the op's `own`, broadcast against the result. */
#ifndef CLADE_EPILOGUE_H
#define CLADE_EPILOGUE_H

#include "op/op.h"

/* An op with an epilogue: where it is in the attributes, how many operands are the op's own, and how many of the
 * result's last axes it walks through as one: an operand is broadcast along all of these or along none. joined 0: it
 * computes sixteen results at once of operands that are as large as the result, and keeps its dtype. */
typedef struct clade__host {
  const clade_op *op;
  size_t epilogue;
  int own, joined;
} clade__host;
const clade__host *clade__host_of(const clade_op *op); /* NULL: it has none */

/* NULL, or why an operand of that shape cannot be the epilogue's. */
const char *clade__host_refuses(const clade__host *host, const clade_shape *operand, const clade_shape *result);
bool clade__host_computes(const clade__host *host, const clade__elt *epilogue);
/* For infer: checks program and operands against the op's own result, which becomes the program's. */
clade_status clade__epilogue_infer(const clade_node *n, clade_type *out);

/* For emit. Defines EPILOGUE_ARGS, EPILOGUE_PASS (the same as arguments of a call, for BODY), EPILOGUE_USE and
 * EPILOGUE, which computes `r` of a result `i0` at (row, column); the kernel file defines EPILOGUE_AT(strides), where
 * an operand's matrix begins. `row` and `column` are strides s6, s7, unless it defines EPILOGUE_ELEMENT(strides) too.
 */
clade_status clade__epilogue_define(clade_kernel_step *s, const clade_node *n);
/* Also for kernels that store sixteen results at once: WIDE says whether the program can, and EPILOGUE16 computes the
 * float16 `r` of a float16 `i0`; the kernel file defines EPILOGUE_LOAD16(T, operand, strides). */
clade_status clade__epilogue_define16(clade_kernel_step *s, const clade_node *n);
/* Also for kernels that know beforehand where they store: EPILOGUE_SOON asks for what operands as large as the result
 * have at (row, column). */
clade_status clade__epilogue_define_soon(clade_kernel_step *s, const clade_node *n);
/* The arguments, in order: eight strides per operand. */
void clade__epilogue_args(clade_kernel_step *s, const clade_node *n, int64_t (*strides)[CLADE_MAX_RANK]);

#endif

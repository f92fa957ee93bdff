/* Interface between gemm and its implementations. */
#ifndef CLADE_GEMM_H
#define CLADE_GEMM_H

#include "op/dims.h"

enum { CLADE__GEMM_OPERANDS = 2 + CLADE__ELT_INPUTS };

/* A product with normalized operands. In each set of dimensions or strides, six batch axes come first, then rows and
 * columns of the operand as the product reads it, that is, after transposition. */
typedef struct clade__gemm_problem {
  int64_t m, n, k, batches;
  int64_t dim[CLADE_MAX_RANK];
  int64_t stride[CLADE__GEMM_OPERANDS][CLADE_MAX_RANK]; /* of a, b, and the epilogue's operands */
} clade__gemm_problem;
clade__gemm_problem clade__gemm_problem_of(const clade_node *node);
/* The same with the shorter side as rows; `swapped`: computes the transposed product. */
clade__gemm_problem clade__gemm_lying(const clade_node *node, bool *swapped);

/* Where a kernel finds a, b and y: an operand of the node (for y, its result), or the workspace at an offset. */
typedef struct clade__gemm_place {
  int operand;
  const size_t *scratch; /* NULL, or the offset in bytes */
} clade__gemm_place;
typedef struct clade__gemm_places {
  clade__gemm_place a, b, y;
} clade__gemm_places;
extern const clade__gemm_places clade__gemm_own, clade__gemm_swapped; /* a is operand 0, or operand 1 */

/* Begins a step with the arguments and parameters that all gemm kernels share. */
clade_status clade__gemm_begin(clade_emit *e, const clade_node *node, const clade__gemm_problem *p, const char *kernel,
                               const clade__gemm_places *at, clade_kernel_step **out);
/* Emits the argument for the result. */
void clade__gemm_result(clade_kernel_step *s, const clade__gemm_places *at);
static inline bool clade__gemm_integer(clade_dtype t) { return clade__is_integer(t); }
/* Operand b as panels: blocks of `columns` columns, with `interleave` elements of the inner axis side by side. NULL or
 * why that is impossible, and the layout. */
const char *clade__gemm_panels_refuse(const clade_query *q, int64_t columns, int interleave);
void clade__gemm_panels(const clade_query *q, int64_t columns, int interleave, clade_layout *in);
static inline bool clade__gemm_in_panels(const clade_node *n) { return n->in[1].layout.block != 0; }
/* Operand a as panels of TM rows, for `vec` only. */
static inline bool clade__gemm_rows_in_panels(const clade_node *n) { return n->in[0].layout.block != 0; }
double clade__gemm_bytes(const clade_query *q);       /* memory traffic; of a view, only the part that it reads */
const char *clade__gemm_floats(const clade_query *q); /* NULL, or a refusal of integers and block types */

extern const clade_impl *const clade__gemm_impls[];

const char *clade__gemm_vec_accept(const clade_query *q);
double clade__gemm_vec_cost(const clade_query *q);
size_t clade__gemm_vec_workspace(const clade_query *q);
clade_status clade__gemm_vec_emit(clade_emit *e, const clade_query *q);
/* For convolutions by way of gemm: estimated cycles of the busiest core, and the emit with given operands. */
double clade__gemm_vec_cycles(const clade_query *q);
clade_status clade__gemm_vec_emit_at(clade_emit *e, const clade_query *q, const clade__gemm_places *at);
extern const char *const clade__gemm_vec_params[];
extern const clade_space clade__gemm_vec_space, clade__gemm_vec_panels_space;
/* vec with b as panels, for frozen weights that are packed once. */
const char *clade__gemm_vec_panels_accept(const clade_query *q);
void clade__gemm_vec_panels_layouts(const clade_query *q, clade_layout *in, clade_layout *out);

/* vec without packing (bare.c). */
const char *clade__gemm_bare_accept(const clade_query *q);
double clade__gemm_bare_cost(const clade_query *q);
clade_status clade__gemm_bare_emit(clade_emit *e, const clade_query *q);

/* Matrix units of CPUs (mma.c): vector dot products, and tiles. */
bool clade__gemm_mma_units(const clade_query *q);
const char *clade__gemm_mma_accept(const clade_query *q);
double clade__gemm_mma_cost(const clade_query *q);
size_t clade__gemm_mma_workspace(const clade_query *q);
clade_status clade__gemm_mma_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__gemm_mma_space, clade__gemm_mma_panels_space;
const char *clade__gemm_mma_panels_accept(const clade_query *q);
void clade__gemm_mma_panels_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
const char *clade__gemm_mma_tile_accept(const clade_query *q);
double clade__gemm_mma_tile_cost(const clade_query *q);
clade_status clade__gemm_mma_tile_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__gemm_mma_tile_space;
const char *clade__gemm_mma_tile_panels_accept(const clade_query *q);

/* Begins a step of either kind. */
clade_status clade__gemm_mma_begin(clade_emit *e, const clade_query *q, const clade__gemm_problem *p,
                                   const char *kernel, bool tiles, clade_kernel_step **out);
/* Vector dot products without packing (mma_bare.c). */
const char *clade__gemm_mma_bare_accept(const clade_query *q);
double clade__gemm_mma_bare_cost(const clade_query *q);
clade_status clade__gemm_mma_bare_emit(clade_emit *e, const clade_query *q);

/* Another library, if CLADE_LIBRARIES allows it. */
const char *clade__gemm_clblast_accept(const clade_query *q);
clade_status clade__gemm_clblast_emit(clade_emit *e, const clade_query *q);

const char *clade__gemm_dot_accept(const clade_query *q);
double clade__gemm_dot_cost(const clade_query *q);
size_t clade__gemm_dot_workspace(const clade_query *q);
clade_status clade__gemm_dot_emit(clade_emit *e, const clade_query *q);

/* Few rows or columns on GPUs (few.c). */
enum { CLADE__GEMM_FEW_LOCAL = 11 << 10 };
const char *clade__gemm_few_accept(const clade_query *q);
double clade__gemm_few_cost(const clade_query *q);
size_t clade__gemm_few_workspace(const clade_query *q);
clade_status clade__gemm_few_emit(clade_emit *e, const clade_query *q);

/* Block-quantized weights (blocks.c). */
const char *clade__gemm_blocks_accept(const clade_query *q);
double clade__gemm_blocks_cost(const clade_query *q);
size_t clade__gemm_blocks_workspace(const clade_query *q);
clade_status clade__gemm_blocks_emit(clade_emit *e, const clade_query *q);

#endif

/* Between gemm's definition and its implementations: what all of them are told, and those of a file of their own. */
#ifndef CLADE_GEMM_H
#define CLADE_GEMM_H

#include "op/dims.h"

enum { CLADE__GEMM_OPERANDS = 2 + CLADE__ELT_INPUTS };

/* Batch axes are the first six of each set; then rows and columns (of an operand as the product reads it). */
typedef struct clade__gemm_problem {
  int64_t m, n, k, batches;
  int64_t dim[CLADE_MAX_RANK];
  int64_t stride[CLADE__GEMM_OPERANDS][CLADE_MAX_RANK]; /* a, b, and the epilogue's */
} clade__gemm_problem;
clade__gemm_problem clade__gemm_problem_of(const clade_node *node);
/* ... with the shorter side as its rows; `swapped`: that is the transposed one. */
clade__gemm_problem clade__gemm_lying(const clade_node *node, bool *swapped);

/* For a or b an operand of the node, for y its result, or scratch memory from a byte on. */
typedef struct clade__gemm_place {
  int operand;
  const size_t *scratch; /* or NULL */
} clade__gemm_place;
typedef struct clade__gemm_places {
  clade__gemm_place a, b, y;
} clade__gemm_places;
extern const clade__gemm_places clade__gemm_own, clade__gemm_swapped; /* a is operand 0; operand 1 */

/* Begins a step with the arguments and parameters that all kernels take. */
clade_status clade__gemm_begin(clade_emit *e, const clade_node *node, const clade__gemm_problem *p, const char *kernel,
                               const clade__gemm_places *at, clade_kernel_step **out);
/* The result, or where it goes instead. */
void clade__gemm_result(clade_kernel_step *s, const clade__gemm_places *at);
static inline bool clade__gemm_integer(clade_dtype t) { return clade__is_integer(t); }
/* Of operand b in panels of so many columns and elements of the inner axis side by side. */
const char *clade__gemm_panels_refuse(const clade_query *q, int64_t columns, int interleave);
void clade__gemm_panels(const clade_query *q, int64_t columns, int interleave, clade_layout *in);
static inline bool clade__gemm_in_panels(const clade_node *n) { return n->in[1].layout.block != 0; }
/* Of operand a, for `vec` alone: of as many rows as a tile has. */
static inline bool clade__gemm_rows_in_panels(const clade_node *n) { return n->in[0].layout.block != 0; }
double clade__gemm_bytes(const clade_query *q); /* that a product moves: of a view no more than its part of the value */
const char *clade__gemm_floats(const clade_query *q); /* NULL, or that the operands are integers or blocks */

extern const clade_impl *const clade__gemm_impls[];

const char *clade__gemm_vec_accept(const clade_query *q);
double clade__gemm_vec_cost(const clade_query *q);
size_t clade__gemm_vec_workspace(const clade_query *q);
clade_status clade__gemm_vec_emit(clade_emit *e, const clade_query *q);
/* For a convolution: the cycles of the unit that takes longest; with operands and a result where it has them. */
double clade__gemm_vec_cycles(const clade_query *q);
clade_status clade__gemm_vec_emit_at(clade_emit *e, const clade_query *q, const clade__gemm_places *at);
void clade__gemm_vec_deepen(const clade_query *q, int32_t *config);
extern const char *const clade__gemm_vec_params[];
extern const clade_space clade__gemm_vec_space, clade__gemm_vec_panels_space;
/* The same where b lies in panels, as a copy of frozen weights does. */
const char *clade__gemm_vec_panels_accept(const clade_query *q);
void clade__gemm_vec_panels_layouts(const clade_query *q, clade_layout *in, clade_layout *out);

/* The same without copies (bare.c). */
const char *clade__gemm_bare_accept(const clade_query *q);
double clade__gemm_bare_cost(const clade_query *q);
clade_status clade__gemm_bare_emit(clade_emit *e, const clade_query *q);

/* By matrix units (mma.c), in vectors and in tiles. */
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

/* What kernels of both kinds are told. */
clade_status clade__gemm_mma_begin(clade_emit *e, const clade_query *q, const clade__gemm_problem *p,
                                   const char *kernel, bool tiles, clade_kernel_step **out);
/* By vectors, without copies (mma_bare.c). */
const char *clade__gemm_mma_bare_accept(const clade_query *q);
double clade__gemm_mma_bare_cost(const clade_query *q);
clade_status clade__gemm_mma_bare_emit(clade_emit *e, const clade_query *q);

/* By another library, where the user lets it. */
const char *clade__gemm_clblast_accept(const clade_query *q);
clade_status clade__gemm_clblast_emit(clade_emit *e, const clade_query *q);

const char *clade__gemm_dot_accept(const clade_query *q);
double clade__gemm_dot_cost(const clade_query *q);
size_t clade__gemm_dot_workspace(const clade_query *q);
clade_status clade__gemm_dot_emit(clade_emit *e, const clade_query *q);

/* Of few rows or columns, on GPUs (few.c). */
enum { CLADE__GEMM_FEW_LOCAL = 11 << 10 };
const char *clade__gemm_few_accept(const clade_query *q);
double clade__gemm_few_cost(const clade_query *q);
size_t clade__gemm_few_workspace(const clade_query *q);
clade_status clade__gemm_few_emit(clade_emit *e, const clade_query *q);

/* Of weights whose elements share blocks (blocks.c). */
const char *clade__gemm_blocks_accept(const clade_query *q);
double clade__gemm_blocks_cost(const clade_query *q);
size_t clade__gemm_blocks_workspace(const clade_query *q);
clade_status clade__gemm_blocks_emit(clade_emit *e, const clade_query *q);

#endif

/* Matrix products tiled in local memory (cl_kernels/product.cl): what the implementations of gemm and convolution for
 * GPUs have in common, and the parameters that a tuner may vary. Tested on CPU devices only, see docs/porting.md. */
#ifndef CLADE_PRODUCT_H
#define CLADE_PRODUCT_H

#include "op/dims.h"

/* A batch of `matrices` products of M x K by K x N. */
typedef struct clade__matmul {
  int64_t m, n, k, matrices;
} clade__matmul;

/* BM x BN: tile of a work-group. BK: slice of the inner axis that is loaded at a time; for matrix units in 32-bit
 * words, which hold four bytes, two halves or one float each. TM x TN: register tile of a work-item or, with matrix
 * units, of a warp. Stages: number of slices that local memory holds (two where the space has no such parameter). */
enum { CLADE__BM, CLADE__BN, CLADE__BK, CLADE__TM, CLADE__TN, CLADE__STAGES, CLADE__TILE_PARAMS };
extern const char *const clade__tile_params[], *const clade__staged_params[]; /* without and with stages */

/* `speed`: estimated throughput relative to the device's f32 peak; of matrix units that of halves. They multiply twice
 * as many bytes, and half as many floats. */
typedef struct clade__tile {
  int32_t config[CLADE__TILE_PARAMS];
  double speed;
} clade__tile;

/* Tiles of an implementation. `unit` is the matrix unit, or CLADE_UNITS for plain multiply-adds. The first `defaults`
 * tiles are candidates for the default configuration; tile number `least` needs the fewest resources; the others are
 * for the tuner alone. `tables`: local memory also holds precomputed offsets of steps and columns, or of lines. */
typedef struct clade__tiles {
  clade_unit unit;
  bool warpgroup, tables;
  int params, n, defaults, least;
  const clade__tile *tiles;
} clade__tiles;
/* simt: plain multiply-adds; warp and warpgroup: matrix units of one and of four warps. gather: the operand is an
 * image, which is loaded through registers; last: an image with channels last, which is copied as matrices are. */
extern const clade__tiles clade__tiles_simt, clade__tiles_warp, clade__tiles_warpgroup, clade__tiles_warp_gather,
    clade__tiles_warpgroup_gather, clade__tiles_warp_last, clade__tiles_warpgroup_last;

/* Split-K: the inner axis is cut into `n` parts of `span` steps, so that a product of few tiles occupies more compute
 * units; n is 1 if it is not cut. The partition depends only on the sizes, for reproducible sums. */
typedef struct clade__parts {
  clade__matmul each; /* dimensions of one part; `matrices` counts all parts of all matrices */
  int64_t n, span;
} clade__parts;
clade__parts clade__parts_of(const clade__matmul *whole);
clade__parts clade__parts_cut(const clade__matmul *whole, int64_t wanted); /* in about `wanted` parts */
/* Workspace for the results of all parts; `results` is the number of the node's results. */
size_t clade__parts_bytes(const clade__parts *p, int64_t results);
/* Begins the launch that sums the parts. dim: six batch dimensions, rows and columns. The caller appends the epilogue's
 * arguments. */
clade_status clade__parts_join(clade_emit *e, const clade_query *q, const clade__parts *p, const int64_t *dim,
                               float alpha, clade_kernel_step **out);

void clade__tiles_defaults(const clade_query *q, const clade__tiles *t, const clade__matmul *p, int32_t *config);
bool clade__tiles_configs(const clade__tiles *t, int i, int32_t *config);
/* Values of clade_impl.units. */
bool clade__product_warps(const clade_query *q);
bool clade__product_warpgroups(const clade_query *q);
/* NULL, or why the device cannot run the configuration or the unit does not support the operands' type. `loose`: the
 * types whose products by units have bounds of their own, f32 (in tf32) and f8, instead of the others. */
const char *clade__tiles_refuse(const clade_query *q, const clade__tiles *t, const clade__matmul *p, bool loose);
double clade__tiles_cost(const clade_query *q, const clade__tiles *t, const clade__matmul *p, double bytes);
/* Number of consecutive elements that a kernel loads at once, from an address aligned to the same number. */
int64_t clade__tiles_run(const clade_query *q, const clade__tiles *t);
/* Memory order of an operand. deep: contiguous along the inner axis. runs: composed of whole aligned loads
 * (clade__tiles_run), provided that it begins at an aligned address. */
typedef struct clade__lies {
  bool deep, runs;
} clade__lies;
/* Sets the kernel's parameters and its range. */
void clade__tiles_launch(clade_kernel_step *s, const clade_query *q, const clade__tiles *t, const clade__matmul *p,
                         clade__lies left, clade__lies right);

/* Local memory that the smallest tile needs. */
enum { CLADE__SIMT_LOCAL = 2 * 8 * (16 + 16 + 8) * 4 + (2 * 8 + 16) * 32 };
#define CLADE__SIMT                                                                                         \
  .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU | CLADE_ON_ACCEL, .needs_local = CLADE__SIMT_LOCAL, \
  .file = "product"
#define CLADE__BY_UNIT .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_GPU, .file = "product"
#define CLADE__WARPS \
  CLADE__BY_UNIT, .units = clade__product_warps, .needs_units = 1 << CLADE_UNIT_PTX | 1 << CLADE_UNIT_PTX_F8
#define CLADE__WARPGROUPS \
  CLADE__BY_UNIT, .units = clade__product_warpgroups, .needs_units = 1 << CLADE_UNIT_WGMMA | 1 << CLADE_UNIT_WGMMA_BYTES

/* ---- implementations: of gemm, and of all passes of convolution (conv) ---- */
#define CLADE__PRODUCT_WAYS(X, OF) X(OF, simt) X(OF, warp) X(OF, warpgroup)
#define CLADE__PRODUCT_DECLARE(OF, WAY)                                         \
  const char *clade__##OF##_##WAY##_accept(const clade_query *q);               \
  double clade__##OF##_##WAY##_cost(const clade_query *q);                      \
  clade_status clade__##OF##_##WAY##_emit(clade_emit *e, const clade_query *q); \
  extern const clade_space clade__##OF##_##WAY##_space;
CLADE__PRODUCT_WAYS(CLADE__PRODUCT_DECLARE, gemm)
CLADE__PRODUCT_WAYS(CLADE__PRODUCT_DECLARE, conv)
const char *clade__gemm_warp_loose_accept(const clade_query *q);
const char *clade__gemm_warpgroup_loose_accept(const clade_query *q);
double clade__gemm_loose_cost(const clade_query *q);
CLADE__PRODUCT_DECLARE(conv_last, warp)
CLADE__PRODUCT_DECLARE(conv_last, warpgroup)
size_t clade__gemm_tiles_workspace(const clade_query *q);
size_t clade__conv_tiles_workspace(const clade_query *q);
void clade__conv_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out);

#define CLADE__PRODUCT(OF, WAY)                                                                                   \
  .accept = clade__##OF##_##WAY##_accept, .cost = clade__##OF##_##WAY##_cost, .emit = clade__##OF##_##WAY##_emit, \
  .workspace = clade__##OF##_tiles_workspace, .space = &clade__##OF##_##WAY##_space
#define CLADE__PRODUCT_SIMT(OF) CLADE_IMPL(.name = "simt", CLADE__SIMT, CLADE__PRODUCT(OF, simt))
#define CLADE__PRODUCT_WARP(OF) CLADE_IMPL(.name = "mma_warp", CLADE__WARPS, CLADE__PRODUCT(OF, warp))
#define CLADE__PRODUCT_WARPGROUP(OF) \
  CLADE_IMPL(.name = "mma_warpgroup", CLADE__WARPGROUPS, CLADE__PRODUCT(OF, warpgroup))
/* The same with channels last (docs/layouts.md). */
#define CLADE__LAST(OF, WAY)                                                           \
  .accept = clade__##OF##_last_##WAY##_accept, .layouts = clade__##OF##_last_layouts,  \
  .cost = clade__##OF##_last_##WAY##_cost, .workspace = clade__##OF##_tiles_workspace, \
  .emit = clade__##OF##_last_##WAY##_emit, .space = &clade__##OF##_last_##WAY##_space
#define CLADE__LAST_WARP(OF) CLADE_IMPL(.name = "mma_warp_last", CLADE__WARPS, CLADE__LAST(OF, warp))
#define CLADE__LAST_WARPGROUP(OF) \
  CLADE_IMPL(.name = "mma_warpgroup_last", CLADE__WARPGROUPS, CLADE__LAST(OF, warpgroup))

#endif
